/* test_vae_wider.c - networks whose numbers do not fit into 16 bits: a table that says so gets the next wider type, and
 * a result that is not finite is made once more in f32, with a warning. The autoencoder multiplies by a number that is
 * too large and divides by it again; f16 is the reference backend's, since the CPU's has none.
 */
#include "golden_kit.h"

#include "kiln/model.h"
#include "vae_nodes.h"

#include <math.h>

enum { CELLS = 6, NUMBERS = CELLS * 4, BITS_F16 = 1 << KILN_F16, BITS_BF16 = 1 << KILN_BF16, BITS_F32 = 1 << KILN_F32 };

static char warning[600];
static int warnings;

/* ---- the run ---- */

static void run_in(const char *where, uint32_t precision)
{
    error e = {0};
    rig_ctx();
    runtime_free(rig_runtime);
    rig_runtime =
        runtime_new(&(runtime_setting){.backend = backend_find(where), .threads = 1, .precision = precision}, &e);
    if (!CHECK_MSG(rig_runtime != NULL, "%s", e.message)) exit(1);
    rig_environment = (call_environment){.runtime = rig_runtime, .pool = runtime_pool(rig_runtime)};
    warnings = 0, warning[0] = '\0';
}

static void note(int level, const char *text)
{
    if (level <= KILN_LOG_WARN) warnings++, snprintf(warning, sizeof warning, "%s", text);
}

/* ---- the autoencoder ---- */

/* x * factor / factor, stored between the two. */
static kiln_t there_and_back(const kiln_autoencoder *a, const kiln_ops *ops, kiln_program *p, kiln_t x)
{
    float factor = *(const float *)a->self;
    const int64_t one = 1;
    const float up = factor, down = 1 / (factor / 4);
    x = ops->mul(p, x, ops->constant(p, &up, 1, &one));
    x = ops->permute(p, x, (const uint32_t[]){0, 2, 1, 3});
    x = ops->permute(p, x, (const uint32_t[]){0, 2, 1, 3});
    return ops->mul(p, x, ops->constant(p, &down, 1, &one));
}
static kiln_t record_decode(const kiln_autoencoder *a, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                            kiln_t latent)
{
    (void)w;
    return there_and_back(a, ops, p, latent);
}
static void record_encode(const kiln_autoencoder *a, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                          kiln_t image, kiln_latent_distribution *out)
{
    (void)w;
    out->mean = there_and_back(a, ops, p, image);
}

static const double one = 1;
static const kiln_latent_scaling scaling = {sizeof scaling, 1, &one, NULL};
static const kiln_latent_format format = {.size = sizeof format, .channels = 4, .factor = 1, .scaling = &scaling};
static float factor;
static kiln_autoencoder loud = {.size = sizeof loud,
                                .family = "loud",
                                .self = &factor,
                                .latent = &format,
                                .image_channels = 4,
                                .record_encode = record_encode,
                                .record_decode = record_decode};

static kiln_status call(const kiln_node *node, float by, uint32_t precisions, float out[NUMBERS])
{
    static const uint64_t defaults[8];
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    const kiln_value_api *values = rig_host()->ability(KILN_VALUE_ABILITY);
    static kiln_weights *weights;
    if (!weights) weights = open_weights("tests/golden/tiny-sd1");
    factor = by, loud.precisions = precisions;
    kiln_value *vae =
        models->vae_new(rig_ctx(), &(kiln_vae){.size = sizeof(kiln_vae), .autoencoder = &loud, .weights = weights});
    kiln_value *data = rig_host()->tensor_new(rig_ctx(), KILN_F32, KILN_CPU, 4, KILN_DIMS(1, 1, CELLS, 4)),
               *map = values->new_map(NULL);
    kiln_tensor t = {.size = sizeof t};
    rig_host()->view(rig_ctx(), data, &t);
    for (size_t i = 0; i < NUMBERS; i++) ((float *)t.data)[i] = (float)i / NUMBERS;
    ((float *)t.data)[1] = 1; /* of which the factor is too much */
    CHECK_EQ(values->map_set(map, "samples", data), KILN_OK);
    kiln_host host = *rig_host();
    host.log = note;
    kiln_value *in[2] = {node == &node_vae_decode ? map : data, vae}, *made = NULL;
    kiln_call c = {.size = sizeof c,
                   .device = KILN_CPU,
                   .host = &host,
                   .ctx = rig_ctx(),
                   .params = defaults,
                   .in = in,
                   .out = &made};
    kiln_status status = node->run(&c);
    if (status == KILN_OK &&
        rig_host()->view(NULL, node == &node_vae_decode ? made : values->map_get(made, "samples"), &t) == KILN_OK)
        memcpy(out, t.data, NUMBERS * sizeof *out);
    rig_host()->unref(made), rig_host()->unref(map), rig_host()->unref(data), rig_host()->unref(vae);
    return status;
}

static const kiln_node *const nodes[] = {&node_vae_decode, &node_vae_encode};
enum { NODES = 2 };

/* What f32 makes of it. */
static void wanted_of(const kiln_node *node, float by, float out[NUMBERS])
{
    run_in("reference", KILN_F32);
    CHECK_MSG(call(node, by, 0, out) == KILN_OK, "%s", rig_message());
    CHECK_EQ(warnings, 0);
}

static void test_N3_a_result_that_overflows_is_made_again_in_f32(void)
{
    static const struct {
        const char *backend;
        uint32_t precision;
        float factor;
        const char *type;
    } rows[] = {{"reference", KILN_F16, 7e4f, "in f16"}, {"cpu", KILN_BF16, 3.4e38f, "in bf16"}};
    float wanted[NUMBERS], got[NUMBERS];
    for (size_t i = 0; i < 2; i++)
        for (size_t n = 0; n < NODES; n++) {
            wanted_of(nodes[n], rows[i].factor, wanted);
            run_in(rows[i].backend, rows[i].precision);
            CHECK_MSG(call(nodes[n], rows[i].factor, 0, got) == KILN_OK, "%s", rig_message());
            CHECK(memcmp(wanted, got, sizeof got) == 0);
            CHECK_EQ(warnings, 1);
            CHECK_MSG(strstr(warning, rows[i].type) && strstr(warning, "node 'test' (test)") &&
                          strstr(warning, n ? "VAE's encoder" : "VAE's decoder") && strstr(warning, "again in f32"),
                      "%s", warning);
        }
}

static void test_nothing_is_made_twice_without_need(void)
{
    float wanted[NUMBERS], got[NUMBERS];
    for (size_t n = 0; n < NODES; n++) {
        wanted_of(nodes[n], 4, wanted);
        run_in("reference", KILN_F16);
        CHECK_MSG(call(nodes[n], 4, 0, got) == KILN_OK, "%s", rig_message());
        CHECK_EQ(warnings, 0);
        CHECK_EQ(runtime_usage_get(rig_runtime).runs, 1);
        for (size_t i = 0; i < NUMBERS; i++) CHECK_NEAR(got[i], wanted[i], 1e-2);
        CHECK(memcmp(wanted, got, sizeof got) != 0); /* it was in f16 */
    }
}

static void test_what_a_table_excludes_is_not_tried(void)
{
    float wanted[NUMBERS], got[NUMBERS];
    for (size_t n = 0; n < NODES; n++) {
        run_in("reference", KILN_BF16);
        CHECK_EQ(call(nodes[n], 7e4f, 0, wanted), KILN_OK);
        run_in("reference", KILN_F16);
        CHECK_MSG(call(nodes[n], 7e4f, BITS_BF16 | BITS_F32, got) == KILN_OK, "%s", rig_message());
        CHECK_EQ(warnings, 0);
        CHECK_EQ(runtime_usage_get(rig_runtime).runs, 1);
        CHECK(memcmp(wanted, got, sizeof got) == 0); /* bf16 */
        wanted_of(nodes[n], 7e4f, wanted);
        run_in("reference", KILN_F16);
        CHECK_EQ(call(nodes[n], 7e4f, BITS_F16 | BITS_F32, got), KILN_OK); /* f16 is said to do */
        CHECK_EQ(warnings, 1);
        run_in("reference", KILN_F16);
        CHECK_EQ(call(nodes[n], 7e4f, BITS_F32, got), KILN_OK);
        CHECK(memcmp(wanted, got, sizeof got) == 0);
        CHECK_EQ(warnings, 0);
        run_in("cpu", KILN_BF16); /* a run in a wider type keeps it: f16 alone is no wish to be narrower */
        CHECK_EQ(call(nodes[n], 3.4e38f, BITS_F16 | BITS_BF16, got), KILN_OK);
        CHECK_EQ(warnings, 1);
    }
}

static void test_what_is_broken_in_f32_too_is_said(void)
{
    float got[NUMBERS];
    for (size_t n = 0; n < NODES; n++) {
        run_in("reference", KILN_F16);
        CHECK_EQ(call(nodes[n], INFINITY, 0, got), KILN_ERR_INVALID);
        CHECK_MSG(strstr(rig_message(), "not finite, in f32 too") && strstr(rig_message(), "kiln inspect --finite ") &&
                      strstr(rig_message(), "tiny-sd1"),
                  "%s", rig_message());
        CHECK_EQ(warnings, 1);
        run_in("cpu", KILN_F32);
        CHECK_EQ(call(nodes[n], INFINITY, 0, got), KILN_ERR_INVALID);
        CHECK_EQ(warnings, 0); /* nothing is wider */
        CHECK_EQ(runtime_usage_get(rig_runtime).runs, 1);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_N3_a_result_that_overflows_is_made_again_in_f32), CASE(test_nothing_is_made_twice_without_need),
        CASE(test_what_a_table_excludes_is_not_tried), CASE(test_what_is_broken_in_f32_too_is_said)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
