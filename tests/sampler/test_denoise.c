/* test_denoise.c - what stands between samplers and networks, against PyTorch (denoise_tables.h, from
 * scripts/golden/denoise.py).
 *
 * Tolerances. Levels: computed in double on both sides, rounded to float once: 2e-7 of the value. Timesteps and
 * percents: the same, after a logarithm of a level near others (1e-4 places of a table of 1000). Runs: float32 latents
 * and a float32 network against float64, four evaluations at guidance 3: measured below 3e-7 of the norm, times four.
 */
#include "denoise_tables.h"
#include "sampling_kit.h"

#include "curves.h"

#define LEVEL 2e-7
#define RUN 1.2e-6

static void check_levels(const double *have, const double *want, size_t n, double tolerance, const char *what)
{
    for (size_t i = 0; i < n; i++)
        CHECK_MSG(fabs(have[i] - want[i]) <= tolerance * fmax(fabs(want[i]), 1e-3), "%s[%zu]: %.9g, wanted %.9g", what,
                  i, have[i], want[i]);
}

static void check_run(kiln_value *v, const double *want, const char *what)
{
    float numbers[NUMBERS];
    for (int i = 0; i < NUMBERS; i++) numbers[i] = (float)want[i];
    if (CHECK_MSG(v != NULL, "%s: %s", what, call_why.message))
        check_array(samples_of(v), numbers, NUMBERS, RUN, what, __FILE__, __LINE__);
    drop(v);
}

/* ---- formulas ---- */

static void test_curves(void)
{
    double out[16];
    CHECK_EQ(curve_karras(6, 12, 0.05, 5, out), 7);
    check_levels(out, karras_5, 7, LEVEL, "karras");
    CHECK_EQ(curve_polyexponential(6, 12, 0.05, 2, out), 7);
    check_levels(out, polyexponential_2, 7, LEVEL, "polyexponential");
    CHECK_EQ(curve_laplace(6, 14, 0.03, 0.3, 0.7, out), 6);
    check_levels(out, laplace_6, 6, LEVEL, "laplace");
    CHECK_EQ(curve_vp(6, 19.9, 0.1, 0.001, out), 7);
    check_levels(out, vp_6, 7, LEVEL, "vp");
}

static void test_zero_terminal_table(void)
{
    static const size_t where[] = {0, 1, 250, 500, 750, 998, 999};
    double all[1000], out[7];
    kiln_zero_terminal_snr(table(), 1000, all);
    for (int i = 0; i < 7; i++) out[i] = all[where[i]];
    check_levels(out, zsnr_places, 7, LEVEL, "zsnr");
}

/* ---- the ways to count ---- */

typedef struct {
    const char *name, *settings;
    const kiln_node *node; /* NULL: the model as it is */
    const double *normal, *sgm, *simple, *probe, *timestep, *percent, *run;
} count_case;
#define COUNTED(id, node_, settings_)                                                                                  \
    {                                                                                                                  \
#id, settings_, node_, id##_normal, id##_sgm, id##_simple, id##_probe, id##_timestep, id##_percent, id##_run   \
    }

static const count_case counts[] = {
    COUNTED(eps, NULL, ""),
    COUNTED(nearest, &node_sampling_discrete, "timestep=nearest"),
    COUNTED(v, &node_sampling_discrete, "sampling=v_prediction"),
    COUNTED(x0, &node_sampling_discrete, "sampling=x0"),
    COUNTED(zsnr, &node_sampling_discrete, "sampling=v_prediction; zsnr=true"),
    COUNTED(lcm, &node_sampling_discrete, "sampling=lcm"),
    COUNTED(edm, &node_sampling_edm, "sampling=edm"),
    COUNTED(edm_v, &node_sampling_edm, "sampling=v_prediction"),
    COUNTED(edm_eps, &node_sampling_edm, "sampling=eps; sigma_max=80; sigma_min=0.01"),
    COUNTED(angle, &node_sampling_v, ""),
    COUNTED(sd3, &node_sampling_sd3, "shift=3"),
    COUNTED(aura, &node_sampling_aura, ""),
    COUNTED(flux, &node_sampling_flux, "width=512; height=768"),
    COUNTED(playground, &node_sampling_edm, "sampling=edm_playground_v2.5"),
    COUNTED(cosmos, &node_sampling_edm, "sampling=cosmos_rflow; sigma_max=80; sigma_min=0.01"),
    COUNTED(image, &node_sampling_discrete, "sampling=img_to_img"),
    COUNTED(image_flow, &node_sampling_discrete, "sampling=img_to_img_flow"),
};

static kiln_value *counted_model(const count_case *k)
{
    kiln_value *base = network_model();
    if (!k->node) return base;
    kiln_value *model = made(k->node, k->settings, base, NULL);
    drop(base);
    return model;
}

static void check_schedule(kiln_value *model, const char *name, const double *want, const char *what)
{
    char settings[64];
    double have[6] = {0};
    size_t n;
    snprintf(settings, sizeof settings, "scheduler=%s; steps=5", name);
    kiln_value *sigmas = made(&node_basic_scheduler, settings, model, NULL);
    const float *f = floats_of(sigmas, &n);
    for (size_t i = 0; CHECK_EQ(n, 6) && i < n; i++) have[i] = (double)f[i];
    check_levels(have, want, 6, LEVEL, what);
    drop(sigmas);
}

static void test_levels_of_every_description(void)
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const count_case *k = &counts[i];
        kiln_value *model = counted_model(k);
        REQUIRE(model);
        check_schedule(model, "normal", k->normal, k->name);
        check_schedule(model, "sgm_uniform", k->sgm, k->name);
        check_schedule(model, "simple", k->simple, k->name);
        model_sampling l = model_sampling_of(models->model(rig_ctx(), model));
        for (int j = 0; j < 3; j++) {
            static const double share[] = {0.1, 0.5, 0.9};
            CHECK_MSG(fabs(model_sampling_timestep(&l, k->probe[j]) - k->timestep[j]) <=
                          1e-4 * fmax(1, fabs(k->timestep[j])),
                      "%s: timestep %g, wanted %g", k->name, model_sampling_timestep(&l, k->probe[j]), k->timestep[j]);
            CHECK_MSG(fabs(model_sampling_percent_to_sigma(&l, share[j]) - k->percent[j]) <= 2e-6 * k->percent[j],
                      "%s: level %g, wanted %g", k->name, model_sampling_percent_to_sigma(&l, share[j]), k->percent[j]);
        }
        CHECK_EQ(model_sampling_percent_to_sigma(&l, 1), 0);
        drop(model);
    }
}

static void test_runs_of_every_description(void)
{
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        kiln_value *out[2] = {NULL};
        sample((parts){.model = counted_model(&counts[i])}, out);
        check_run(out[0], counts[i].run, counts[i].name);
        drop(out[1]);
    }
}

/* A start, a stop and a given latent: leftover noise, and for a flow the share of the latent that is left. */
static void test_part_of_the_way(void)
{
    static const struct {
        size_t model;
        const double *latent, *denoised;
    } cases[] = {{0, part_eps_run, part_eps_denoised},
                 {10, part_sd3_run, part_sd3_denoised},
                 {13, part_playground_run, part_playground_denoised},
                 {14, part_cosmos_run, part_cosmos_denoised},
                 {16, part_image_flow_run, part_image_flow_denoised}};
    for (int i = 0; i < 5; i++) {
        float latent[NUMBERS];
        kiln_value *out[2] = {NULL}, *in[1], *halves[2] = {NULL}, *ends[2] = {NULL},
                   *model = counted_model(&counts[cases[i].model]);
        pattern(latent, 0.9, 1.1);
        in[0] = made(&node_basic_scheduler, "scheduler=normal; steps=6", model, NULL);
        CHECK_EQ(call(&node_split_sigmas, "step=2", in, halves), KILN_OK);
        CHECK_EQ(call(&node_split_sigmas, "step=2", &halves[1], ends), KILN_OK);
        sample((parts){.model = model, .sigmas = ends[0], .latent = latent_of(latent)}, out);
        check_run(out[0], cases[i].latent, counts[cases[i].model].name);
        check_run(out[1], cases[i].denoised, "the last guess");
        drop(in[0]), drop(halves[0]), drop(halves[1]), drop(ends[1]);
    }
}

/* ---- guiders and guidance ---- */

static kiln_value *guider_of(const kiln_node *node, const char *settings, kiln_value *model, kiln_value *a,
                             kiln_value *b, kiln_value *c)
{
    kiln_value *in[4] = {model, a, b, c}, *out[1] = {NULL};
    CHECK_MSG(call(node, settings, in, out) == KILN_OK, "%s", call_why.message);
    drop(a), drop(b), drop(c);
    return out[0];
}

static void test_guiders(void)
{
    kiln_value *out[2] = {NULL}, *m = network_model();
    sample((parts){.model = rig_host()->ref(m), .guider = guider_of(&node_basic_guider, "", m, positive(), NULL, NULL)},
           out);
    check_run(out[0], basic_run, "basic"), drop(out[1]);
    sample((parts){.model = rig_host()->ref(m),
                   .guider = guider_of(&node_dual_guider, "cfg_conds=3; cfg_cond2_negative=2", m, positive(), third(),
                                       negative())},
           out);
    check_run(out[0], dual_run, "dual"), drop(out[1]);
    sample((parts){.model = rig_host()->ref(m),
                   .guider = guider_of(&node_dual_guider, "cfg_conds=3; cfg_cond2_negative=2; style=nested", m,
                                       positive(), third(), negative())},
           out);
    check_run(out[0], nested_run, "nested"), drop(out[1]);
    sample((parts){.model = rig_host()->ref(m),
                   .guider = guider_of(&node_perp_guider, "cfg=3; neg_scale=1.5", m, positive(), negative(), third())},
           out);
    check_run(out[0], perp_run, "perp-neg"), drop(out[1]);
    drop(m);
}

/* The negative evaluated by another model, by the same one, and by none named. */
static void test_two_models(void)
{
    kiln_value *out[2] = {NULL}, *m = network_model(),
               *other = made(&node_sampling_edm, "sampling=v_prediction", m, NULL);
    kiln_value *second[] = {other, m, NULL};
    const double *want[] = {two_models_run, eps_run, eps_run};
    for (int i = 0; i < 3; i++) {
        kiln_value *negative_model = second[i] ? rig_host()->ref(second[i]) : NULL;
        sample((parts){.model = rig_host()->ref(m),
                       .guider = guider_of(&node_models_guider, "cfg=3", m, positive(), negative_model, negative())},
               out);
        check_run(out[0], want[i], "two models"), drop(out[1]);
    }
    /* at cfg 1 the other model is not asked */
    sample(
        (parts){.model = rig_host()->ref(m),
                .guider = guider_of(&node_models_guider, "cfg=1", m, positive(), rig_host()->ref(other), negative())},
        out);
    check_run(out[0], basic_run, "two models at cfg 1"), drop(out[1]);
    kiln_value *yes = positive(), *in[] = {m, yes, other, NULL};
    refused(&node_models_guider, "", in, "negative is not wired");
    drop(yes), drop(other), drop(m);
}

/* x is one and the same for both, so its channels have to be. */
static void test_two_models_of_one_kind_of_latent(void)
{
    static kiln_denoiser wide;
    static kiln_latent_format wide_latent;
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    kiln_value *out[2] = {NULL}, *m = network_model();
    kiln_model other = *models->model(rig_ctx(), m);
    wide_latent = network_latent, wide_latent.channels = 8;
    wide = network, wide.latent = &wide_latent, other.denoiser = &wide, other.owned = NULL, other.release = NULL;
    kiln_value *second = models->model_new(rig_ctx(), &other), *in[] = {second};
    CHECK(sample(
              (parts){.model = rig_host()->ref(m),
                      .guider = guider_of(&node_models_guider, "", m, positive(), rig_host()->ref(second), negative())},
              out) != KILN_OK);
    CHECK_MSG(strstr(call_why.message, "model_negative has latents of 8 channels") != NULL, "%s", call_why.message);
    refused(&node_sampling_edm, "sampling=edm_playground_v2.5", in, "for latents of 4 channels; this model's have 8");
    static const double one[3] = {1, 1, 1};
    other = *models->model(rig_ctx(), m), other.owned = NULL, other.release = NULL;
    other.latent = &(kiln_latent_scaling){.size = sizeof(kiln_latent_scaling), .n = 3, .scale = one, .shift = one};
    CHECK(models->model_new(rig_ctx(), &other) == NULL);
    drop(second), drop(m);
}

static void test_perp_neg_on_a_model_is_the_guider(void)
{
    kiln_value *out[2] = {NULL}, *base = network_model(), *empty = third(),
               *m = made(&node_perp_neg, "neg_scale=1.5", base, empty);
    drop(base), drop(empty);
    sample((parts){.model = m}, out);
    check_run(out[0], perp_run, "perp-neg on the model"), drop(out[1]);
}

static void test_rescale_cfg(void)
{
    static const struct {
        size_t model;
        const double *run;
    } cases[] = {{0, rescale_eps_run}, {2, rescale_v_run}, {10, rescale_sd3_run}};
    for (int i = 0; i < 3; i++) {
        kiln_value *out[2] = {NULL}, *base = counted_model(&counts[cases[i].model]);
        sample((parts){.model = made(&node_rescale_cfg, "multiplier=0.7", base, NULL)}, out);
        check_run(out[0], cases[i].run, counts[cases[i].model].name);
        drop(base), drop(out[1]);
    }
}

/* As ComfyUI's slot: the last one counts; at cfg 1 there is nothing to rescale. */
static void test_guidance_replaces_guidance(void)
{
    kiln_value *out[2] = {NULL}, *base = network_model(), *empty = third(),
               *perp = made(&node_perp_neg, "neg_scale=1.5", base, empty);
    sample((parts){.model = made(&node_rescale_cfg, "multiplier=0.7", perp, NULL)}, out);
    check_run(out[0], rescale_eps_run, "rescale over perp-neg"), drop(out[1]);
    kiln_value *rescale = made(&node_rescale_cfg, "multiplier=0.7", base, NULL);
    sample((parts){.model = made(&node_perp_neg, "neg_scale=1.5", rescale, empty)}, out);
    check_run(out[0], perp_run, "perp-neg over rescale"), drop(out[1]);
    sample((parts){.model = rig_host()->ref(rescale), .guider = cfg_guider(rescale, "cfg=1")}, out);
    check_run(out[0], basic_run, "rescale at cfg 1"), drop(out[1]);
    drop(base), drop(empty), drop(perp), drop(rescale);
}

/* positive - empty is 0: it has no direction to divide by, and a guess that is not finite would end the run. */
static void test_perp_neg_of_equal_texts(void)
{
    kiln_value *out[2] = {NULL}, *m = network_model();
    kiln_value *same = guider_of(&node_perp_guider, "cfg=3; neg_scale=1", m, positive(), negative(), positive());
    CHECK_MSG(sample((parts){.model = m, .guider = same}, out) == KILN_OK, "%s", call_why.message);
    drop(out[0]), drop(out[1]);
}

/* ---- areas ---- */

/* Adds an entry with the tokens of `list` (taken), an area and a strength. */
static void add_area(kiln_value *to, kiln_value *list, const int64_t area[4], double strength)
{
    kiln_value *entry = values()->map_copy(NULL, values()->list_at(list, 0)), *box = values()->new_list(NULL),
               *s = values()->new_float(NULL, strength);
    for (int i = 0; i < 4; i++) {
        kiln_value *v = values()->new_int(NULL, area[i]);
        values()->list_push(box, v);
        drop(v);
    }
    values()->map_set(entry, "area", box), values()->map_set(entry, "strength", s);
    CHECK_EQ(values()->list_push(to, entry), KILN_OK);
    drop(box), drop(s), drop(entry), drop(list);
}

/* A part of the positive inside a part of the negative: each side says something of the other's part. */
static void test_areas_have_opposites(void)
{
    kiln_value *out[2] = {NULL}, *m = network_model(), *yes = positive(), *no = negative();
    add_area(yes, third(), (const int64_t[]){1, 1, 1, 0}, 0.8);
    add_area(no, third(), (const int64_t[]){1, 2, 1, 0}, 0.5);
    kiln_value *guider = guider_of(&node_cfg_guider, "cfg=3", m, yes, no, NULL);
    sample((parts){.model = m, .guider = guider}, out);
    check_run(out[0], areas_run, "areas"), drop(out[1]);
}

/* ---- the unconditional guess ---- */

static kiln_latent *asked;
static int times; /* how often it asks */

/* Asks for it at the first level, at whatever cfg; x becomes the last answer. */
static kiln_status asking(const kiln_sampling *s)
{
    kiln_latent *d = s->slot(s, "d"), *u = s->slot(s, "u");
    asked = u;
    for (int i = 0; i < times; i++) {
        kiln_status status = s->denoise(s, s->x, s->sigma[0], d);
        if (status == KILN_OK) status = s->unconditional(s, u);
        if (status != KILN_OK) return status;
    }
    s->lincomb(s, s->x, 1, (double[]){1}, &u);
    return KILN_OK;
}

static const kiln_sampler asking_row = {.size = sizeof asking_row, .name = "test_asking", .run = asking};

static void test_unconditional_at_cfg_1_from_the_first_step(void)
{
    kiln_value *out[2] = {NULL}, *m = network_model(),
               *how = made(&node_sampler_select, "sampler_name=test_asking", NULL, NULL);
    float direction[2][NUMBERS];
    for (times = 1; times <= 2; times++) { /* alone, then in a batch with the other: f32 sums of another order */
        CHECK_EQ(
            sample(
                (parts){.model = rig_host()->ref(m), .guider = cfg_guider(m, "cfg=1"), .sampler = rig_host()->ref(how)},
                out),
            KILN_OK);
        memcpy(direction[times - 1], samples_of(out[0]), sizeof direction[0]);
        drop(out[0]), drop(out[1]);
    }
    double norm = 0;
    for (int i = 0; i < NUMBERS; i++) norm += fabs((double)direction[0][i] - network_shift);
    CHECK_MSG(norm > 0.1, "the first unconditional guess is nothing");
    CHECK_ARRAY(direction[0], direction[1], NUMBERS,
                1e-6 / network_scale); /* a LATENT holds numbers that are so much larger */
    kiln_value *basic = guider_of(&node_basic_guider, "", m, positive(), NULL, NULL);
    CHECK(sample((parts){.model = m, .guider = basic, .sampler = how}, out) != KILN_OK);
    CHECK_MSG(strstr(call_why.message, "CFGGuider") != NULL, "%s", call_why.message);
}

/* ---- identities ---- */

static void test_models_differ_by_fingerprint_and_the_base_stays(void)
{
    char seen[20][64] = {""};
    kiln_value *base = network_model(), *empty = third(), *again = network_model();
    kiln_value *made_of[] = {base,
                             made(&node_sampling_discrete, "sampling=v_prediction", base, NULL),
                             made(&node_sampling_discrete, "zsnr=true", base, NULL),
                             made(&node_sampling_discrete, "timestep=nearest", base, NULL),
                             made(&node_sampling_edm, "sampling=edm", base, NULL),
                             made(&node_sampling_edm, "sampling=v_prediction", base, NULL),
                             made(&node_sampling_edm, "sampling=edm_playground_v2.5", base, NULL),
                             made(&node_sampling_edm, "sampling=cosmos_rflow", base, NULL),
                             made(&node_sampling_discrete, "sampling=img_to_img", base, NULL),
                             made(&node_sampling_v, "", base, NULL),
                             made(&node_sampling_sd3, "", base, NULL),
                             made(&node_sampling_sd3, "shift=2", base, NULL),
                             made(&node_sampling_aura, "shift=3", base, NULL),
                             made(&node_rescale_cfg, "", base, NULL),
                             made(&node_rescale_cfg, "multiplier=0.5", base, NULL),
                             made(&node_perp_neg, "", base, empty)};
    size_t n = sizeof made_of / sizeof made_of[0];
    CHECK_STR(values()->object_fingerprint(base), values()->object_fingerprint(again));
    for (size_t i = 0; i < n; i++) {
        snprintf(seen[i], sizeof seen[i], "%s", values()->object_fingerprint(made_of[i]));
        for (size_t k = 0; k < i; k++)
            CHECK_MSG(strcmp(seen[i], seen[k]) != 0, "models %zu and %zu have one fingerprint", i, k);
    }
    for (size_t i = 1; i < n; i++) drop(made_of[i]);
    kiln_value *out[2] = {NULL};
    sample((parts){.model = base}, out);
    check_run(out[0], eps_run, "the base after all that"), drop(out[1]);
    drop(empty), drop(again);
}

/* A plugin built before there was guidance passes a shorter struct; what is behind it is not read. */
/* A newer header's struct is longer; one without the fields that are there since the first is refused. */
static void test_models_of_other_headers(void)
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    kiln_value *v = network_model();
    struct {
        kiln_model model;
        void *newer[4];
    } given = {.model = *models->model(rig_ctx(), v), .newer = {&given, &given, &given, &given}};
    given.model.size = sizeof given, given.model.owned = NULL, given.model.release = NULL;
    kiln_value *taken = models->model_new(rig_ctx(), &given.model);
    if (CHECK_MSG(taken != NULL, "%s", rig_message())) {
        CHECK_EQ(models->model(rig_ctx(), taken)->size, sizeof(kiln_model));
        CHECK_STR(values()->object_fingerprint(taken), values()->object_fingerprint(v));
    }
    given.model.size = offsetof(kiln_model, base);
    CHECK(models->model_new(rig_ctx(), &given.model) == NULL);
    drop(taken), drop(v);
}

int main(int argc, char **argv)
{
    open_plugin();
    registry_owner_set("test", NULL);
    ((const kiln_sampler_api *)rig_host()->ability(KILN_SAMPLER_ABILITY))->register_sampler(&asking_row);
    registry_owner_set(NULL, NULL);
    static const test_case cases[] = {
        CASE(test_curves),
        CASE(test_zero_terminal_table),
        CASE(test_levels_of_every_description),
        CASE(test_runs_of_every_description),
        CASE(test_part_of_the_way),
        CASE(test_guiders),
        CASE(test_two_models),
        CASE(test_two_models_of_one_kind_of_latent),
        CASE(test_perp_neg_on_a_model_is_the_guider),
        CASE(test_rescale_cfg),
        CASE(test_guidance_replaces_guidance),
        CASE(test_perp_neg_of_equal_texts),
        CASE(test_areas_have_opposites),
        CASE(test_unconditional_at_cfg_1_from_the_first_step),
        CASE(test_models_differ_by_fingerprint_and_the_base_stays),
        CASE(test_models_of_other_headers),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
