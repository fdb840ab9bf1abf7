/* test_text_wider.c - a text encoder whose numbers do not fit into f16: its prompt is encoded once more in f32, with a
 * warning; a table that excludes f16 gets bf16. On the reference backend, since the CPU's has no f16.
 */
#include "golden_kit.h"

#include "encode_text.h"

#include <math.h>

enum { LENGTH = 3, WIDTH = 4, NUMBERS = LENGTH * WIDTH };

static char warning[600];
static int warnings;
static float factor;

static void run_in(uint32_t precision)
{
    error e = {0};
    rig_ctx();
    runtime_free(rig_runtime);
    rig_runtime =
        runtime_new(&(runtime_setting){.backend = backend_find("reference"), .threads = 1, .precision = precision}, &e);
    if (!CHECK_MSG(rig_runtime != NULL, "%s", e.message)) exit(1);
    rig_environment = (call_environment){.runtime = rig_runtime, .pool = runtime_pool(rig_runtime)};
    warnings = 0, warning[0] = '\0';
}

static void note(int level, const char *text)
{
    if (level <= KILN_LOG_WARN) warnings++, snprintf(warning, sizeof warning, "%s", text);
}

static kiln_status tokenise(const kiln_text_encoder *e, const kiln_tokenizer *t, const kiln_host *host, kiln_ctx *ctx,
                            const char *text, kiln_tokens *out)
{
    static int32_t id[LENGTH] = {0, 1, 2}, end[1] = {2};
    static float weight[LENGTH] = {1, 1, 1};
    (void)e, (void)t, (void)host, (void)ctx, (void)text;
    out->n_chunk = 1, out->length = LENGTH;
    out->id = id, out->weight = weight, out->end = end;
    return KILN_OK;
}

/* Rows of a table, times a number and divided by it; the product is stored. */
static void record(const kiln_text_encoder *e, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                   const kiln_text_inputs *in, kiln_text_features *out)
{
    int64_t dim[] = {LENGTH, WIDTH};
    float table[NUMBERS];
    const float up = factor, down = 1 / factor;
    const int64_t one = 1;
    (void)e, (void)w;
    for (int i = 0; i < NUMBERS; i++) table[i] = 1 + (float)i / 7;
    kiln_t x = ops->embedding(p, ops->constant(p, table, 2, dim), in->ids);
    x = ops->mul(p, x, ops->constant(p, &up, 1, &one));
    x = ops->permute(p, ops->permute(p, x, (const uint32_t[]){0, 2, 1}), (const uint32_t[]){0, 2, 1});
    out->tokens = ops->mul(p, x, ops->constant(p, &down, 1, &one));
    out->pooled = ops->gather(p, out->tokens, in->end);
}

static kiln_text_encoder loud = {.size = sizeof loud,
                                 .family = "loud",
                                 .width = WIDTH,
                                 .pooled_width = WIDTH,
                                 .layers = 1,
                                 .default_layer = -1,
                                 .min_length = LENGTH,
                                 .max_length = LENGTH,
                                 .tokenise = tokenise,
                                 .record = record};

static kiln_status encode(float by, uint32_t precisions, float out[NUMBERS])
{
    const kiln_model_api *models = rig_host()->ability(KILN_MODEL_ABILITY);
    const kiln_value_api *values = rig_host()->ability(KILN_VALUE_ABILITY);
    static kiln_weights *weights;
    if (!weights) weights = open_weights("tests/golden/tiny-sd1");
    factor = by, loud.precisions = precisions;
    kiln_clip_encoder encoder = {.size = sizeof encoder, .name = "l", .encoder = &loud, .weights = weights};
    kiln_value *clip =
        models->clip_new(rig_ctx(), &(kiln_clip){.size = sizeof(kiln_clip), .n_encoder = 1, .encoder = &encoder});
    if (!CHECK_MSG(clip != NULL, "%s", rig_message())) exit(1);
    kiln_host host = *rig_host();
    host.log = note;
    kiln_call c = {.size = sizeof c, .device = KILN_CPU, .host = &host, .ctx = rig_ctx()};
    kiln_prompt prompt = {.size = sizeof prompt, .text = "a"};
    kiln_value *made = NULL;
    kiln_tensor t = {.size = sizeof t};
    kiln_status status = text_api.encode(&c, clip, &prompt, 1, &made);
    if (status == KILN_OK && rig_host()->view(NULL, values->map_get(values->list_at(made, 0), "tokens"), &t) == KILN_OK)
        memcpy(out, t.data, NUMBERS * sizeof *out);
    rig_host()->unref(made), rig_host()->unref(clip);
    return status;
}

static void test_a_prompt_that_overflows_is_encoded_again(void)
{
    float wanted[NUMBERS], got[NUMBERS];
    run_in(KILN_F32);
    CHECK_MSG(encode(7e4f, 0, wanted) == KILN_OK, "%s", rig_message());
    CHECK_EQ(warnings, 0);
    run_in(KILN_F16);
    CHECK_MSG(encode(7e4f, 0, got) == KILN_OK, "%s", rig_message());
    CHECK(memcmp(wanted, got, sizeof got) == 0);
    CHECK_EQ(warnings, 1);
    CHECK_MSG(strstr(warning, "node 'test' (test)") && strstr(warning, "text encoder") && strstr(warning, "in f16"),
              "%s", warning);
    run_in(KILN_F16); /* and no other one */
    CHECK_EQ(encode(2, 0, got), KILN_OK);
    CHECK_EQ(warnings, 0);
    CHECK_EQ(runtime_usage_get(rig_runtime).runs, 1);
}

static void test_what_a_table_excludes_is_not_tried(void)
{
    float wanted[NUMBERS], got[NUMBERS];
    run_in(KILN_BF16);
    CHECK_EQ(encode(7e4f, 0, wanted), KILN_OK);
    run_in(KILN_F16);
    CHECK_EQ(encode(7e4f, 1u << KILN_BF16 | 1u << KILN_F32, got), KILN_OK);
    CHECK(memcmp(wanted, got, sizeof got) == 0);
    CHECK_EQ(warnings, 0);
}

static void test_what_is_broken_in_f32_too_is_said(void)
{
    float got[NUMBERS];
    run_in(KILN_F16);
    CHECK_EQ(encode(INFINITY, 0, got), KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), "text encoder 'l' gave numbers that are not finite, in f32 too") &&
                  strstr(rig_message(), "kiln inspect --finite "),
              "%s", rig_message());
    CHECK_EQ(warnings, 1);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_a_prompt_that_overflows_is_encoded_again),
                                      CASE(test_what_a_table_excludes_is_not_tried),
                                      CASE(test_what_is_broken_in_f32_too_is_said)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
