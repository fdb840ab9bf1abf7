/* test_sampling_wider.c - a denoiser whose numbers do not fit into f16: the evaluation is made again in f32 and the
 * sampling goes on in it, also when it is stopped and taken up again; a table that excludes f16 gets bf16. On the
 * reference backend, since the CPU's has no f16.
 */
#include "sampling_kit.h"

#include "kiln/sampler.h"
#include "kiln/store.h"

enum { STEPS = 6 };

static struct {
    kiln_value *saved[STEPS + 1], *load;
    size_t n;
    int warnings;
    char warning[600];
} world;

static void run_in(uint32_t precision)
{
    error e = {0};
    rig_ctx();
    runtime_free(rig_runtime);
    rig_runtime =
        runtime_new(&(runtime_setting){.backend = backend_find("reference"), .threads = 1, .precision = precision}, &e);
    if (!CHECK_MSG(rig_runtime != NULL, "%s", e.message)) exit(1);
    rig_environment = (call_environment){.runtime = rig_runtime, .pool = runtime_pool(rig_runtime)};
    world.warnings = 0, world.warning[0] = '\0';
}

/* The kit's network and a thousandth of x t, by way of a number that f16 does not hold at the first levels. */
static kiln_t loud_record(const kiln_denoiser *d, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                          const kiln_denoise_inputs *in)
{
    int64_t n[4] = {0};
    ops->shape(p, in->x, n, 4);
    kiln_t t = ops->reshape(p, ops->affine(p, in->timestep, 70, 0), 4, KILN_DIMS(n[0], 1, 1, 1));
    kiln_t y = ops->mul(p, in->x, t);
    y = ops->permute(p, ops->permute(p, y, (const uint32_t[]){0, 2, 1, 3}), (const uint32_t[]){0, 2, 1, 3});
    return ops->add(p, network_record(d, ops, p, w, in), ops->affine(p, y, 1e-6f, 0));
}

/* ---- the host: warnings are noted, states kept ---- */

static kiln_value *keep_load(kiln_ctx *c)
{
    (void)c;
    return world.load ? rig_host()->ref(world.load) : NULL;
}
static int keep_due(kiln_ctx *c) { return (void)c, 1; }
static kiln_status keep_save(kiln_ctx *c, const kiln_value *state)
{
    (void)c;
    if (world.n <= STEPS) world.saved[world.n++] = rig_host()->ref((kiln_value *)(uintptr_t)state);
    return KILN_OK;
}
static const kiln_store_api keeping = {
    .size = sizeof keeping, .state_load = keep_load, .state_due = keep_due, .state_save = keep_save};
static const void *ability(const char *id)
{
    return strcmp(id, KILN_STORE_ABILITY) == 0 ? &keeping : engine_host.ability(id);
}
static void note(int level, const char *text)
{
    if (level <= KILN_LOG_WARN) world.warnings++, snprintf(world.warning, sizeof world.warning, "%s", text);
}
static kiln_status run_inside(const kiln_call *c)
{
    kiln_host host = engine_host;
    kiln_call inside = *c;
    host.ability = ability, host.log = note;
    inside.host = &host;
    return node_ksampler.run(&inside);
}

static kiln_value *drawn(uint32_t precisions, kiln_status *status)
{
    kiln_node node = node_ksampler;
    char settings[100];
    network.record = loud_record, network.family = "loud", network.precisions = precisions;
    kiln_value *model = network_model(), *in[4] = {model, positive(), negative(), empty_latent()}, *out[2] = {NULL};
    node.run = run_inside;
    snprintf(settings, sizeof settings, "seed=3; steps=%d; cfg=3; sampler_name=euler; scheduler=karras", STEPS);
    *status = call(&node, settings, in, out);
    for (int i = 0; i < 4; i++) drop(in[i]);
    return out[0];
}

static void forget(void)
{
    while (world.n) drop(world.saved[--world.n]);
    world.load = NULL;
}

static void test_N3_a_sampling_goes_on_in_f32(void)
{
    kiln_status status;
    run_in(KILN_F32);
    kiln_value *wanted = drawn(0, &status);
    CHECK_EQ(world.warnings, 0);
    forget();
    run_in(KILN_F16);
    kiln_value *whole = drawn(0, &status);
    REQUIRE(CHECK_MSG(status == KILN_OK, "%s", call_why.message));
    CHECK_MSG(same_latent(wanted, whole), "it is not f32's from the first evaluation on");
    CHECK_EQ(world.warnings, 1);
    CHECK_MSG(strstr(world.warning, "node 'test' (KSampler)") && strstr(world.warning, "denoiser") &&
                  strstr(world.warning, "in f16"),
              "%s", world.warning);
    /* taken up after each step: the same bytes, though f16 would hold the numbers of the last levels */
    kiln_value *state[STEPS + 1];
    size_t n = world.n;
    memcpy(state, world.saved, sizeof state);
    world.n = 0;
    CHECK_EQ(n, STEPS);
    for (size_t i = 0; i < n; i++) {
        run_in(KILN_F16);
        world.load = state[i];
        kiln_value *rest = drawn(0, &status);
        CHECK_MSG(same_latent(wanted, rest), "taken up after step %zu it gives other bytes", i + 1);
        CHECK_EQ(world.warnings, 0);
        drop(rest), drop(state[i]);
        forget();
    }
    drop(wanted), drop(whole);
}

static void test_what_a_table_excludes_is_not_tried(void)
{
    kiln_status status;
    run_in(KILN_BF16);
    kiln_value *wanted = drawn(0, &status);
    forget();
    run_in(KILN_F16);
    kiln_value *got = drawn(1u << KILN_BF16 | 1u << KILN_F32, &status);
    CHECK_MSG(status == KILN_OK && same_latent(wanted, got), "%s", call_why.message);
    CHECK_EQ(world.warnings, 0);
    forget();
    drop(wanted), drop(got);
}

static kiln_t broken_record(const kiln_denoiser *d, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                            const kiln_denoise_inputs *in)
{
    return ops->affine(p, network_record(d, ops, p, w, in), INFINITY, 0);
}

static void test_what_is_broken_in_f32_too_is_said(void)
{
    run_in(KILN_F16);
    network.record = broken_record, network.family = "broken", network.precisions = 0;
    kiln_node node = node_ksampler;
    kiln_value *in[4] = {network_model(), positive(), negative(), empty_latent()}, *out[2] = {NULL};
    node.run = run_inside;
    refused(&node, "steps=2", in, "not finite at noise level");
    CHECK_MSG(strstr(call_why.message, "kiln inspect --finite ") && strstr(call_why.message, "timestep.safetensors"),
              "%s", call_why.message);
    CHECK_EQ(world.warnings, 1);
    for (int i = 0; i < 4; i++) drop(in[i]);
    drop(out[0]);
    forget();
}

/* A sampler of somebody else's, which makes infinities of its own. */
static kiln_status diverge(const kiln_sampling *s)
{
    kiln_latent *d = s->slot(s, "guess");
    if (!d) return KILN_ERR_NOMEM;
    for (size_t i = s->first; i < s->n; i++) {
        kiln_status status = s->denoise(s, s->x, s->sigma[i], d);
        if (status) return status;
        s->lincomb(s, s->x, 2, (double[]){INFINITY, 1}, (kiln_latent *[]){s->x, d});
        if ((status = s->step(s, i, d))) return status;
    }
    return KILN_OK;
}

static void test_a_foreign_sampler_is_named_first(void)
{
    static const kiln_sampler row = {.size = sizeof row, .name = "diverging", .doc = "Diverges.", .run = diverge};
    run_in(KILN_F32);
    network.record = network_record, network.family = "kit";
    registry_owner_set("test", NULL);
    CHECK_EQ(((const kiln_sampler_api *)rig_host()->ability(KILN_SAMPLER_ABILITY))->register_sampler(&row), KILN_OK);
    registry_owner_set(NULL, NULL);
    kiln_node node = node_ksampler;
    kiln_value *in[4] = {network_model(), positive(), negative(), empty_latent()};
    node.run = run_inside;
    refused(&node, "steps=3; sampler_name=diverging", in,
            "sampler 'diverging' of test asked the model about a number that is not finite at noise "
            "level");
    network.record = broken_record, network.family = "broken too";
    refused(&node, "steps=3; sampler_name=diverging", in,
            "sampler 'diverging' of test got from the model a number that is not finite");
    CHECK_MSG(strstr(call_why.message, "kiln inspect --finite ") != NULL, "%s", call_why.message);
    for (int i = 0; i < 4; i++) drop(in[i]);
    forget();
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_N3_a_sampling_goes_on_in_f32), CASE(test_what_a_table_excludes_is_not_tried),
        CASE(test_what_is_broken_in_f32_too_is_said), CASE(test_a_foreign_sampler_is_named_first)};
    open_plugin();
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
