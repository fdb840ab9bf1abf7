/* test_text_resume.c - generations that go on where a run before left: the same tokens with the steps that were
 * missing, whichever step it left after; and states that are not this generation's, which are as none.
 */
#include "text_kit.h"
#include "tokenizer_kit.h"

#include "text_generation.h"
#include "text_loader.h"
#include "tensor/value.h"

enum { CANVAS = 16, CANVASES = 2, STEPS = 5, KEPT_MAX = CANVASES * STEPS };

static text_diffusion_model tiny;

/* ---- a store ---- */

static struct {
    kiln_value *saved[KEPT_MAX];
    int64_t n_saved;
    kiln_value *load;
    int due;
} store;

static kiln_value *fake_load(kiln_ctx *c) { return (void)c, rig_host()->ref(store.load); }
static int fake_due(kiln_ctx *c) { return (void)c, store.due; }
static kiln_status fake_save(kiln_ctx *c, const kiln_value *state)
{
    (void)c;
    if (!CHECK(store.n_saved < KEPT_MAX)) return KILN_ERR_IO;
    store.saved[store.n_saved++] = rig_host()->ref((kiln_value *)(uintptr_t)state);
    return KILN_OK;
}
static const kiln_store_api fake_store = {
    .size = sizeof fake_store, .state_load = fake_load, .state_due = fake_due, .state_save = fake_save};
static const void *ability(const char *id)
{
    return strcmp(id, KILN_STORE_ABILITY) == 0 ? &fake_store : engine_host.ability(id);
}

/* ---- a generation ---- */

static int64_t looked;
static void count_looks(void *self, const text_look *look, const text_canvas *canvas)
{
    (void)self, (void)look, (void)canvas, looked++;
}

/* The tokens; their number. *steps: of all runs together. */
static int64_t generate(int sampler, kiln_value *from, int due, int32_t ids[CANVASES * CANVAS], int64_t *steps)
{
    int64_t n = 0, prompt_n;
    const text_request request = {.canvases = CANVASES,
                                  .canvas = CANVAS,
                                  .steps = STEPS,
                                  .stability = 2,
                                  .temperature = 0.8,
                                  .temperature_end = 0.4,
                                  .confidence = 0.005,
                                  .sampler = &text_samplers[sampler],
                                  .settings = {0.1, 0.95},
                                  .seed = 7,
                                  .see = count_looks};
    kiln_call c = {.size = sizeof(kiln_call), .host = td_host, .ctx = rig_ctx()};
    int32_t *prompt = ids_of(&prompt_n, "prompt.21", 0);
    text_state *s = text_state_new(c.ctx, &tiny, text_capacity(prompt_n + CANVAS * CANVASES), 64);
    memset(ids, 0, sizeof *ids * CANVASES * CANVAS);
    store.load = from, store.due = due, looked = 0;
    CHECK_EQ(text_read(&c, &tiny, s, prompt, prompt_n), KILN_OK);
    CHECK_MSG(text_generate(&c, &tiny, s, &request, ids, &n, steps) == KILN_OK, "%s", rig_message());
    text_state_free(s);
    free(prompt);
    return n;
}

static void forget(void)
{
    while (store.n_saved) rig_host()->unref(store.saved[--store.n_saved]);
}

static void test_goes_on_after_every_step(void)
{
    for (int sampler = 0; sampler < TEXT_SAMPLERS; sampler++) {
        int32_t whole[CANVASES * CANVAS], part[CANVASES * CANVAS];
        int64_t all = 0, steps = 0, n = generate(sampler, NULL, 1, whole, &all);
        CHECK_EQ(looked, all);
        CHECK_MSG(store.n_saved >= CANVASES, "%lld states", (long long)store.n_saved);
        int64_t last = all;
        for (int64_t k = 0; k < store.n_saved; k++) {
            CHECK_EQ(generate(sampler, store.saved[k], 0, part, &steps), n);
            CHECK(!memcmp(part, whole, (size_t)n * sizeof *part));
            CHECK_EQ(steps, all);
            CHECK_MSG(looked < last, "state %lld: %lld steps, %lld after the one before", (long long)k,
                      (long long)looked, (long long)last);
            last = looked;
        }
        forget();
    }
}

/* ---- states that are not its own ---- */

static kiln_value *copy_of(const kiln_value *map)
{
    kiln_value *copy = value_api.new_map(NULL);
    for (size_t i = 0; i < value_api.count(map); i++) {
        const char *key;
        kiln_value *item = value_api.map_at(map, i, &key);
        CHECK_EQ(value_api.map_set(copy, key, item), KILN_OK);
    }
    return copy;
}

static kiln_value *numbers(uint32_t dtype, int64_t n, int32_t each)
{
    kiln_tensor t = {.size = sizeof t};
    kiln_value *v = rig_host()->tensor_new(NULL, dtype, KILN_CPU, 1, KILN_DIMS(n));
    if (!CHECK(v && rig_host()->view(NULL, v, &t) == KILN_OK)) exit(1);
    if (dtype == KILN_U8)
        memset(t.data, each, (size_t)n);
    else
        for (int64_t i = 0; i < n; i++) ((int32_t *)t.data)[i] = each;
    return v;
}

/* Starts anew: the same tokens, by all the steps. */
static void check_is_refused(const char *what, kiln_value *state, const int32_t *whole, int64_t n, int64_t all)
{
    int32_t part[CANVASES * CANVAS];
    int64_t steps = 0;
    CHECK_EQ(generate(0, state, 0, part, &steps), n);
    CHECK_MSG(looked == all && steps == all && !memcmp(part, whole, (size_t)n * sizeof *part), "%s: %lld of %lld steps",
              what, (long long)looked, (long long)all);
    rig_host()->unref(state);
}

static void test_what_is_not_its_own_is_as_none(void)
{
    static const char *const number[] = {"block", "step", "steps", "seen"}, *const tensor[] = {"ids", "token", "stays",
                                                                                               "history", "soft"};
    static const int64_t too_large[] = {CANVASES, STEPS};
    int32_t whole[CANVASES * CANVAS];
    int64_t all = 0, n = generate(0, NULL, 1, whole, &all);
    REQUIRE(store.n_saved > 0);
    const kiln_value *good = store.saved[store.n_saved - 1];
    for (size_t i = 0; i < COUNT(number); i++) {
        kiln_value *map = copy_of(good), *v = value_api.new_int(NULL, -1);
        CHECK_EQ(value_api.map_set(map, number[i], v), KILN_OK);
        rig_host()->unref(v);
        check_is_refused(number[i], map, whole, n, all);
        map = copy_of(good), v = value_api.new_string(NULL, "1", 1);
        CHECK_EQ(value_api.map_set(map, number[i], v), KILN_OK);
        rig_host()->unref(v);
        check_is_refused(number[i], map, whole, n, all);
        if (i >= COUNT(too_large)) continue;
        map = copy_of(good), v = value_api.new_int(NULL, too_large[i]);
        CHECK_EQ(value_api.map_set(map, number[i], v), KILN_OK);
        rig_host()->unref(v);
        check_is_refused(number[i], map, whole, n, all);
    }
    for (size_t i = 0; i < COUNT(tensor); i++) {
        kiln_value *map = copy_of(good), *v = numbers(KILN_I32, 3, 0);
        CHECK_EQ(value_api.map_set(map, tensor[i], v), KILN_OK);
        rig_host()->unref(v);
        check_is_refused(tensor[i], map, whole, n, all);
        map = copy_of(good), v = value_api.new_int(NULL, 0);
        CHECK_EQ(value_api.map_set(map, tensor[i], v), KILN_OK);
        rig_host()->unref(v);
        check_is_refused(tensor[i], map, whole, n, all);
    }
    const int32_t outside[] = {-1, (int32_t)tiny.vocabulary};
    for (size_t i = 0; i < 2 * COUNT(outside); i++) { /* ids that are no tokens */
        kiln_value *map = copy_of(good), *v = numbers(KILN_I32, i < 2 ? CANVAS : CANVAS * CANVASES, outside[i % 2]);
        CHECK_EQ(value_api.map_set(map, i < 2 ? "token" : "ids", v), KILN_OK);
        rig_host()->unref(v);
        check_is_refused("a token", map, whole, n, all);
    }
    kiln_value *map = copy_of(good), *v = numbers(KILN_U8, CANVAS * 4, 0); /* as many bytes, of another type */
    CHECK_EQ(value_api.map_set(map, "token", v), KILN_OK);
    rig_host()->unref(v);
    check_is_refused("its type", map, whole, n, all);
    check_is_refused("an empty one", value_api.new_map(NULL), whole, n, all);
    forget();
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_goes_on_after_every_step), CASE(test_what_is_not_its_own_is_as_none)};
    static kiln_host host;
    char folder[600];
    if (!tiny_open("tests/text_diffusion/dg-tiny", &tiny) || !tokenizers()) return 1;
    snprintf(folder, sizeof folder, "%s/tests/text_diffusion/dg-tiny", test_root());
    tiny.tokenizer = text_tokenizer(rig_ctx(), folder);
    if (!CHECK_MSG(tiny.tokenizer != NULL, "%s", rig_message())) return 1;
    host = engine_host, host.ability = ability, td_host = &host;
    int failed = test_main(argc, argv, cases, COUNT(cases));
    tokenizers()->unref(tiny.tokenizer);
    tiny_close(&tiny);
    return failed;
}
