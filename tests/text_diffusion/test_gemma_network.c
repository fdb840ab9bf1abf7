/* test_gemma_network.c - DiffusionGemma's two programs against transformers in float64, on dg-tiny (make_dg_tiny.py):
 * keys, values, hidden states, routers, logits, for prompts around the window's length, in pieces, behind one canvas
 * and two.
 *
 * Tolerance: transformers' own f32 is up to 4e-6 of the largest logit off its f64; 1e-5 is what is aimed at.
 */
#include "text_kit.h"

#define CLOSE 1e-5
enum { CANVAS = 16, WIDTH = 256, WORDS = 512, LAYERS = 4, EXPERTS = 6, CHOSEN = 2 };

static text_diffusion_model tiny;

static kiln_states *fresh(void) { return td_ops->states_new(rig_ctx(), "test"); }

static void read_ids(kiln_states *s, const int32_t *ids, int64_t n, int32_t at, int64_t longest)
{
    const pass job = {
        .m = &tiny, .precision = KILN_F32, .t = n, .capacity = 96, .longest = longest, .ids = ids, .offset = at};
    pass_run(&job, s);
}

static void read_prompt(kiln_states *s, int n, int64_t part, int64_t longest)
{
    char name[20];
    int64_t length;
    snprintf(name, sizeof name, "prompt.%d", n);
    int32_t *ids = ids_of(&length, name, 0);
    for (int64_t at = 0; at < n; at += part) read_ids(s, ids + at, n - at < part ? n - at : part, (int32_t)at, longest);
    free(ids);
}

static void check_logits(kiln_states *s, int canvas, int32_t at, const float *soft, int64_t longest, const char *name)
{
    static float got[CANVAS * WORDS];
    int64_t n;
    int32_t *ids = ids_of(&n, "canvases", canvas);
    array wanted = golden(tiny_goldens(), "%s", name);
    const pass job = {.m = &tiny,
                      .is_canvas = 1,
                      .precision = KILN_F32,
                      .t = n,
                      .capacity = 96,
                      .longest = longest,
                      .ids = ids,
                      .offset = at,
                      .soft = soft,
                      .look = "logits",
                      .out = got,
                      .out_dtype = KILN_F32,
                      .out_rank = 3,
                      .out_dim = KILN_DIMS(1, CANVAS, WORDS)};
    if (pass_run(&job, s) == KILN_OK && CHECK_MSG(wanted.n == CANVAS * WORDS, "%s", name))
        check_array(got, wanted.data, wanted.n, CLOSE, name, __FILE__, __LINE__);
    free(wanted.data);
    free(ids);
}

static void test_sizes(void)
{
    REQUIRE(tiny.canvas == CANVAS && tiny.width == WIDTH && tiny.vocabulary == WORDS && tiny.context == 512);
    CHECK_EQ(tiny.sampling.steps, 12);
    CHECK(tiny.sampling.entropy_bound == 0.1 && tiny.sampling.temperature_end == 0.4);
}

/* Below, at and above the window of 8, and far above. */
static void test_logits_behind_prompts_of_any_length(void)
{
    static const int lengths[] = {1, 7, 8, 9, 21, 40};
    for (size_t i = 0; i < COUNT(lengths); i++) {
        char name[30];
        kiln_states *s = fresh();
        read_prompt(s, lengths[i], 64, 64);
        snprintf(name, sizeof name, "logits.%d", lengths[i]);
        check_logits(s, 0, lengths[i], NULL, 64, name);
        check_logits(s, 0, lengths[i], NULL, 64, name); /* a canvas leaves nothing behind */
        td_ops->states_free(s);
    }
}

static void test_self_conditioning(void)
{
    kiln_states *s = fresh();
    array soft = golden(tiny_goldens(), "soft");
    read_prompt(s, 21, 64, 64);
    check_logits(s, 1, 21, soft.data, 64, "conditioned.21");
    td_ops->states_free(s);
    free(soft.data);
}

/* In pieces whose rings go round: 7 + 16 places. */
static void test_in_pieces_and_behind_canvases(void)
{
    static const int64_t pieces[] = {9, 1, 16};
    for (size_t i = 0; i < COUNT(pieces); i++) {
        kiln_states *s = fresh();
        int64_t n;
        int32_t *first = ids_of(&n, "canvases", 0), *second = ids_of(&n, "canvases", 1);
        read_prompt(s, 21, pieces[i], CANVAS);
        check_logits(s, 0, 21, NULL, CANVAS, "logits.21");
        read_ids(s, first, n, 21, CANVAS);
        check_logits(s, 1, 37, NULL, CANVAS, "logits.committed");
        read_ids(s, second, n, 37, CANVAS);
        check_logits(s, 2, 53, NULL, CANVAS, "logits.committed_twice");
        free(first), free(second);
        td_ops->states_free(s);
    }
}

/* ---- what the states hold ---- */

static void check_states(kiln_states *s, int64_t end, const char *of)
{
    const kiln_value_api *v = rig_host()->ability(KILN_VALUE_ABILITY);
    kiln_value *map = td_ops->states_save(rig_ctx(), s);
    REQUIRE(map);
    for (int layer = 0; layer < LAYERS; layer++)
        for (int k = 0; k < 2; k++) {
            char name[40];
            kiln_tensor t = {.size = sizeof t};
            snprintf(name, sizeof name, "%d.%s", layer, k ? "values" : "keys");
            array wanted = golden(tiny_goldens(), "%s.%s", of, name);
            const kiln_value *item = v->map_get(map, name);
            if (!CHECK_MSG(item && wanted.data, "%s", name)) continue;
            CHECK_EQ(rig_host()->view(rig_ctx(), item, &t), KILN_OK);
            const int64_t wide = t.dim[2], rows = wanted.dim[0], ring = t.dim[1];
            CHECK_EQ(wide, wanted.dim[1]);
            CHECK_EQ(rows, layer % 2 ? end : 7); /* transformers keeps the last 7 of a sliding layer */
            float *got = calloc(wanted.n, sizeof *got);
            for (int64_t i = 0; i < rows; i++)
                memcpy(got + i * wide, (float *)t.data + (end - rows + i) % ring * wide, (size_t)wide * sizeof *got);
            check_array(got, wanted.data, wanted.n, CLOSE, name, __FILE__, __LINE__);
            free(got), free(wanted.data);
        }
    rig_host()->unref(map);
}

static void test_keys_and_values(void)
{
    kiln_states *s = fresh();
    int64_t n;
    int32_t *ids = ids_of(&n, "canvases", 0);
    read_prompt(s, 21, 9, CANVAS);
    check_states(s, 21, "prefill");
    read_ids(s, ids, n, 21, CANVAS);
    check_states(s, 37, "commit");
    td_ops->states_free(s);
    free(ids);
}

/* ---- layers and routers ---- */

static void check_layer(int canvas, int layer, const char *what, int64_t t, int64_t wide)
{
    char name[40];
    int64_t n;
    const char *of = canvas ? "canvas" : "prefill";
    int32_t *ids = ids_of(&n, canvas ? "canvases" : "prompt.21", 0);
    const int exact = !strcmp(what, "chosen");
    array all = golden(tiny_goldens(), "%s.%s", of, what);
    const size_t count = (size_t)(t * wide);
    REQUIRE(all.n == count * LAYERS);
    void *got = calloc(count, sizeof(float));
    kiln_states *s = fresh();
    if (canvas) read_prompt(s, 21, 64, 64);
    snprintf(name, sizeof name, "%d.%s", layer, what);
    const int64_t flat[] = {t, wide}, cubic[] = {1, t, wide};
    const int is_hidden = !strcmp(what, "hidden");
    const pass job = {.m = &tiny,
                      .is_canvas = canvas,
                      .precision = KILN_F32,
                      .t = t,
                      .capacity = 96,
                      .longest = 64,
                      .ids = ids,
                      .offset = canvas ? 21 : 0,
                      .look = name,
                      .out = got,
                      .out_dtype = exact ? KILN_I32 : KILN_F32,
                      .out_rank = is_hidden ? 3 : 2,
                      .out_dim = is_hidden ? cubic : flat};
    pass_run(&job, s);
    const float *wanted = all.data + (size_t)layer * count;
    size_t wrong = 0;
    for (size_t i = 0; exact && i < count; i++) wrong += ((int32_t *)got)[i] != (int32_t)wanted[i];
    CHECK_MSG(wrong == 0, "%s.%s: %zu of %zu experts are others", of, name, wrong, count);
    if (!exact) check_array(got, wanted, count, CLOSE, name, __FILE__, __LINE__);
    td_ops->states_free(s);
    free(got), free(all.data), free(ids);
}

static void test_layers_and_routers(void)
{
    for (int canvas = 0; canvas < 2; canvas++)
        for (int layer = 0; layer < LAYERS; layer++) {
            const int64_t t = canvas ? CANVAS : 21;
            check_layer(canvas, layer, "chosen", t, CHOSEN);
            check_layer(canvas, layer, "router", t, EXPERTS);
            check_layer(canvas, layer, "hidden", t, WIDTH);
        }
}

/* Hardly further off than transformers is in bf16: routers' near ties fall the other way when hidden states are
 * rounded, so this says little more than that nothing else is wrong. Where products are made in f32 it is 1.08 times as
 * far. */
static void test_bf16(void)
{
    static float got[CANVAS * WORDS];
    int64_t n;
    kiln_states *s = fresh();
    int32_t *prompt = ids_of(&n, "prompt.21", 0), *canvas = ids_of(&n, "canvases", 0);
    array wanted = golden(tiny_goldens(), "logits.21");
    pass job = {.m = &tiny, .precision = KILN_BF16, .t = 21, .capacity = 96, .longest = 64, .ids = prompt};
    pass_run(&job, s);
    job = (pass){.m = &tiny,
                 .is_canvas = 1,
                 .precision = KILN_BF16,
                 .t = n,
                 .capacity = 96,
                 .longest = 64,
                 .ids = canvas,
                 .offset = 21,
                 .look = "logits",
                 .out = got,
                 .out_dtype = KILN_F32,
                 .out_rank = 3,
                 .out_dim = KILN_DIMS(1, CANVAS, WORDS)};
    pass_run(&job, s);
    array theirs = golden(tiny_goldens(), "off_in_bf16");
    if (CHECK(theirs.n == 1))
        check_array(got, wanted.data, wanted.n, 1.25 * (double)theirs.data[0], "bf16", __FILE__, __LINE__);
    free(theirs.data);
    td_ops->states_free(s);
    free(prompt), free(canvas), free(wanted.data);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_sizes),
                                      CASE(test_logits_behind_prompts_of_any_length),
                                      CASE(test_self_conditioning),
                                      CASE(test_in_pieces_and_behind_canvases),
                                      CASE(test_keys_and_values),
                                      CASE(test_layers_and_routers),
                                      CASE(test_bf16)};
    if (!tiny_open("tests/text_diffusion/dg-tiny", &tiny)) {
        fprintf(stderr, "%s\n", rig_message());
        return 1;
    }
    int failed = test_main(argc, argv, cases, COUNT(cases));
    tiny_close(&tiny);
    return failed;
}
