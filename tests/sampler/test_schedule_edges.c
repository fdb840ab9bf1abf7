/* test_schedule_edges.c - schedules with one step or none: every sampler gives numbers, and what leaves nothing to do
 * gives the latent back. What an area's inputs are derived from is the whole picture's size.
 */
#include "sampling_kit.h"

static kiln_value *given(void)
{
    float x[NUMBERS];
    pattern(x, 0.9, 1.1);
    return latent_of(x);
}

/* Takes nothing; NULL: it failed. */
static kiln_value *run(const kiln_node *node, kiln_value *m, kiln_value *latent, const char *settings)
{
    kiln_value *in[] = {m, positive(), negative(), latent}, *out[1] = {NULL};
    CHECK_MSG(call(node, settings, in, out) == KILN_OK, "%s: %s", settings, call_why.message);
    drop(in[1]), drop(in[2]);
    return out[0];
}

/* Numbers, and not those that were given; or a sentence of a sampler that needs two levels. */
static void check_few(kiln_value *m, kiln_value *latent, const char *text)
{
    kiln_value *in[] = {m, positive(), negative(), latent}, *out[1] = {NULL};
    kiln_status status = call(&node_ksampler, text, in, out);
    drop(in[1]), drop(in[2]);
    if (status != KILN_OK) {
        CHECK_MSG(strstr(text, "steps=1;") && strstr(call_why.message, "give it two steps or more"), "%s: %s", text,
                  call_why.message);
        return;
    }
    for (int i = 0; i < NUMBERS; i++)
        CHECK_MSG(isfinite((double)samples_of(out[0])[i]), "%s: element %d is no number", text, i);
    CHECK_MSG(!same_latent(out[0], latent), "%s did nothing", text);
    drop(out[0]);
}

static void test_S9_few_steps_of_every_sampler(void)
{
    const kiln_sampler_api *api = rig_host()->ability(KILN_SAMPLER_ABILITY);
    kiln_value *m = network_model(), *latent = given();
    for (size_t i = 0; i < api->sampler_count(); i++)
        for (size_t k = 0; k < api->schedule_count(); k++)
            for (int steps = 1; steps < 3; steps++) {
                char text[200];
                snprintf(text, sizeof text, "steps=%d; cfg=2; sampler_name=%s; scheduler=%s", steps,
                         api->sampler_at(i)->name, api->schedule_at(k)->name);
                check_few(m, latent, text);
            }
    drop(m), drop(latent);
}

static void test_nothing_to_do(void)
{
    static const struct {
        const kiln_node *node;
        const char *settings;
        int same;
    } rows[] = {
        {&node_ksampler, "steps=4; denoise=0", 1},
        {&node_ksampler, "steps=4; denoise=0; sampler_name=dpmpp_2m_sde", 1},
        {&node_ksampler, "steps=4; denoise=0.01", 0},
        {&node_ksampler_advanced, "steps=4; start_at_step=4", 1},
        {&node_ksampler_advanced, "steps=4; start_at_step=10000", 1},
        {&node_ksampler_advanced, "steps=4; start_at_step=3", 0},
        {&node_ksampler_advanced, "steps=4; start_at_step=3; end_at_step=3", 1},
        {&node_ksampler_advanced, "steps=4; start_at_step=3; end_at_step=1", 1},
        {&node_ksampler_advanced, "steps=4; end_at_step=0", 1},
        {&node_ksampler_advanced, "steps=4; end_at_step=0; return_with_leftover_noise=enable", 1},
        {&node_ksampler_advanced, "steps=4; start_at_step=4; sampler_name=dpm_2", 1},
    };
    kiln_value *m = network_model(), *latent = given();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kiln_value *out = run(rows[i].node, m, latent, rows[i].settings);
        CHECK_MSG(same_latent(out, latent) == rows[i].same, "%s", rows[i].settings);
        drop(out);
    }
    drop(m), drop(latent);
}

/* ---- sizes ---- */

static int64_t asked[4];
static size_t n_asked;

static kiln_status note_size(const kiln_denoiser *d, const kiln_derivation *by)
{
    (void)d;
    CHECK_EQ(by->rank, 4);
    memcpy(asked, by->dim, sizeof asked);
    n_asked++;
    return KILN_OK;
}

static kiln_value *with_area(kiln_value *list)
{
    kiln_value *all = values()->new_list(NULL), *entry = values()->map_copy(NULL, values()->list_at(list, 0)),
               *area = values()->new_list(NULL);
    for (int64_t i = 0; i < 4; i++) {
        kiln_value *cells = values()->new_int(NULL, i < 2 ? 1 : 0); /* 1x1 cells at the corner */
        values()->list_push(area, cells);
        drop(cells);
    }
    values()->map_set(entry, "area", area), values()->list_push(all, entry);
    drop(area), drop(entry), drop(list);
    return all;
}

/* What a network is told of the size, as SDXL is, is the picture's, also for a prompt that speaks of a part. */
static void test_an_area_s_inputs_follow_the_whole_picture(void)
{
    kiln_denoiser plain = network;
    network.derive = note_size;
    kiln_value *m = network_model(), *latent = given(), *out[1] = {NULL},
               *in[] = {m, with_area(positive()), negative(), latent};
    CHECK_MSG(call(&node_ksampler, "steps=1", in, out) == KILN_OK, "%s", call_why.message);
    CHECK(n_asked >= 2);
    CHECK(asked[0] == PICTURES && asked[1] == 2 && asked[2] == 2 && asked[3] == CHANNELS);
    drop(in[1]), drop(in[2]), drop(out[0]), drop(m), drop(latent);
    network = plain;
}

int main(int argc, char **argv)
{
    open_plugin();
    static const test_case cases[] = {
        CASE(test_S9_few_steps_of_every_sampler),
        CASE(test_nothing_to_do),
        CASE(test_an_area_s_inputs_follow_the_whole_picture),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
