/* test_text_generation.c - whole generations against transformers' generate(), which was given the same random numbers:
 * each step's entropies, accepted places, canvases and likeliest tokens, the step that stops, the tokens written. And
 * what does not change them: pieces, prompts that are forked, threads.
 */
#include "text_kit.h"
#include "tokenizer_kit.h"

#include "text_generation.h"
#include "text_loader.h"

#include <math.h>

enum { CANVAS = 16, STEPS_MAX = 24 };

static text_diffusion_model tiny;

typedef struct {
    array x, likeliest, accepted, entropy;
    int64_t step, other_x, other_likeliest, other_accepted;
    double entropy_off;
} watching;

static void watch(void *self, const text_look *look, const text_canvas *canvas)
{
    watching *w = self;
    const size_t at = (size_t)w->step++ * CANVAS;
    if (at + CANVAS > w->x.n) return;
    for (size_t i = 0; i < CANVAS; i++) {
        w->other_x += canvas->token[i] != (int32_t)w->x.data[at + i];
        w->other_likeliest += look->likeliest[i] != (int32_t)w->likeliest.data[at + i];
        w->other_accepted += canvas->stays[i] != (uint8_t)w->accepted.data[at + i];
        double off = fabs((double)look->entropy[i] - (double)w->entropy.data[at + i]);
        if (off > w->entropy_off) w->entropy_off = off;
    }
}

static kiln_call call(void) { return (kiln_call){.size = sizeof(kiln_call), .host = rig_host(), .ctx = rig_ctx()}; }

/* The golden prompt, read. */
static text_state *prompt_read(int64_t longest)
{
    int64_t n;
    int32_t *ids = ids_of(&n, "prompt.21", 0);
    kiln_call c = call();
    text_state *s = text_state_new(c.ctx, &tiny, text_capacity(n + CANVAS), longest);
    if (CHECK(s != NULL)) CHECK_EQ(text_read(&c, &tiny, s, ids, n), KILN_OK);
    free(ids);
    return s;
}

typedef struct {
    const char *name;
    int64_t canvases, steps, stability;
    double first, last, bound, confidence;
    double off; /* of entropies: four times what transformers' own f32 is off its f64; `stops`, whose temperature ends
                   low, eight times: AVX2's and plain sums are off 6.0e-3 and 4.5e-3 there */
} told;

static const told plain = {"plain", 2, 8, 1, 0.8, 0.4, 0.1, 0.005, 1.1e-3},
                  stops = {"stops", 2, 12, 0, 0.8, 0.1, 0.5, 0.7, 7e-3},
                  ends = {"ends", 3, 4, 1, 0.8, 0.4, 0.1, 0.005, 8e-4};

static text_noise noise_of(const kiln_weights *set, int64_t blocks, int64_t steps)
{
    kiln_weight_info info;
    return (text_noise){blocks,
                        steps,
                        CANVAS,
                        (const int32_t *)weights_bytes(set, "start", &info),
                        (const int32_t *)weights_bytes(set, "renoise", &info),
                        (const float *)weights_bytes(set, "draw", &info),
                        NULL};
}

/* more: room to grow by, behind what the prompt was read into */
static void check_generation(const told *r, int64_t longest, int64_t more)
{
    char path[100];
    int32_t ids[4 * CANVAS] = {0};
    int64_t n = 0, steps = 0, all = 0;
    snprintf(path, sizeof path, "tests/text_diffusion/%s.noise.safetensors", r->name);
    kiln_weights *set = open_weights(path);
    const text_noise noise = noise_of(set, r->canvases, r->steps);
    watching w = {.x = golden(tiny_goldens(), "%s.x", r->name),
                  .likeliest = golden(tiny_goldens(), "%s.argmax", r->name),
                  .accepted = golden(tiny_goldens(), "%s.accepted", r->name),
                  .entropy = golden(tiny_goldens(), "%s.entropy", r->name)};
    array wanted = golden(tiny_goldens(), "%s.ids", r->name), ran = golden(tiny_goldens(), "%s.steps", r->name);
    REQUIRE(wanted.n && w.x.n && noise.start);
    for (size_t i = 0; i < ran.n; i++) all += (int64_t)ran.data[i];
    const text_request request = {.canvases = r->canvases,
                                  .canvas = CANVAS,
                                  .steps = r->steps,
                                  .stability = r->stability,
                                  .temperature = r->first,
                                  .temperature_end = r->last,
                                  .confidence = r->confidence,
                                  .sampler = &text_samplers[TEXT_SAMPLER_ENTROPY_BOUND],
                                  .settings = {r->bound, 0},
                                  .noise = &noise,
                                  .see = watch,
                                  .self = &w};
    text_state *prompt = prompt_read(longest);
    kiln_call c = call();
    text_state *s = text_state_fork(&c, &tiny, prompt, text_capacity(21 + CANVAS * r->canvases) + more);
    kiln_status status = text_generate(&c, &tiny, s, &request, ids, &n, &steps);
    CHECK_MSG(status == KILN_OK, "%s", rig_message());
    CHECK_EQ(steps, all);
    CHECK_EQ(w.step, all);
    CHECK_EQ(w.other_x, 0);
    CHECK_EQ(w.other_likeliest, 0);
    CHECK_EQ(w.other_accepted, 0);
    CHECK_MSG(w.entropy_off < r->off, "%s: entropies are %g off", r->name, w.entropy_off);
    int64_t others = 0;
    for (int64_t i = 0; i < n && i < (int64_t)wanted.n; i++) others += ids[i] != (int32_t)wanted.data[i];
    CHECK_EQ(others, 0);
    for (size_t i = (size_t)n; i < wanted.n; i++)
        CHECK_EQ((int64_t)wanted.data[i], 0); /* transformers pads behind a stop token */
    text_state_free(s), text_state_free(prompt);
    free(w.x.data), free(w.likeliest.data), free(w.accepted.data), free(w.entropy.data), free(wanted.data),
        free(ran.data);
    weights_unref(set);
}

static void test_two_canvases(void) { check_generation(&plain, 64, 0); }
static void test_stops_when_it_is_confident(void) { check_generation(&stops, 64, 0); }
static void test_ends_at_a_stop_token(void) { check_generation(&ends, 64, 0); }
static void test_rings_that_go_round(void) { check_generation(&plain, CANVAS, 0); }
static void test_room_that_grows(void) { check_generation(&plain, 64, 256); }

/* ---- seeds ---- */

static int64_t from_seed(uint64_t seed, int sampler, int64_t steps, int32_t ids[2 * CANVAS])
{
    int64_t n = 0, ran = 0;
    const text_request request = {.canvases = 2,
                                  .canvas = CANVAS,
                                  .steps = steps,
                                  .stability = 1,
                                  .temperature = 0.8,
                                  .temperature_end = 0.4,
                                  .confidence = 0.005,
                                  .sampler = &text_samplers[sampler],
                                  .settings = {0.1, 0.95},
                                  .seed = seed};
    text_state *prompt = prompt_read(64);
    kiln_call c = call();
    text_state *s = text_state_fork(&c, &tiny, prompt, text_capacity(21 + 2 * CANVAS));
    CHECK_EQ(text_generate(&c, &tiny, s, &request, ids, &n, &ran), KILN_OK);
    text_state_free(s), text_state_free(prompt);
    return n;
}

static void test_a_seed_decides(void)
{
    int32_t one[2 * CANVAS], same[2 * CANVAS], other[2 * CANVAS];
    for (int sampler = 0; sampler < TEXT_SAMPLERS; sampler++) {
        int64_t n = from_seed(7, sampler, 6, one), m = from_seed(7, sampler, 6, same);
        CHECK_EQ(n, m);
        CHECK(!memcmp(one, same, (size_t)n * sizeof *one));
        from_seed(8, sampler, 6, other);
        CHECK(memcmp(one, other, CANVAS * sizeof *one) != 0);
    }
}

/* ---- masks ---- */

static int64_t masks_seen, looked_at;

static int count_masks(const text_sampler_settings *settings, const text_step *made, text_canvas *canvas)
{
    (void)settings;
    for (int64_t i = 0; i < made->n; i++, looked_at++)
        masks_seen += canvas->token[i] == tiny.mask && made->noise[i] == tiny.mask;
    memcpy(canvas->token, made->drawn, (size_t)made->n * sizeof *canvas->token);
    return 1;
}

/* A model that has a mask token, of whichever number, begins with it everywhere and puts it back; another with any. */
static void test_what_a_canvas_begins_with(void)
{
    static const text_sampler counts = {.name = "counts", .step = count_masks};
    static const int32_t masks[] = {0, 7, -1};
    const int32_t before = tiny.mask;
    for (size_t i = 0; i < COUNT(masks); i++) {
        int32_t ids[CANVAS];
        int64_t n, steps;
        const text_request request = {.canvases = 1,
                                      .canvas = CANVAS,
                                      .steps = 2,
                                      .temperature = 0.8,
                                      .temperature_end = 0.4,
                                      .sampler = &counts,
                                      .seed = 3};
        text_state *prompt = prompt_read(64);
        kiln_call c = call();
        tiny.mask = masks[i], masks_seen = looked_at = 0;
        CHECK_EQ(text_generate(&c, &tiny, prompt, &request, ids, &n, &steps), KILN_OK);
        CHECK_EQ(looked_at, CANVAS);
        CHECK_EQ(masks_seen, masks[i] >= 0 ? CANVAS : 0);
        text_state_free(prompt);
    }
    tiny.mask = before;
}

static void test_a_prompt_serves_many(void)
{
    int32_t one[CANVAS], two[CANVAS];
    int64_t n, steps;
    text_request request = {.canvases = 1,
                            .canvas = CANVAS,
                            .steps = 4,
                            .temperature = 0.8,
                            .temperature_end = 0.4,
                            .sampler = &text_samplers[0],
                            .settings = {0.1, 0},
                            .seed = 3};
    text_state *prompt = prompt_read(64);
    for (int k = 0; k < 2; k++) {
        kiln_call c = call();
        text_state *s = text_state_fork(&c, &tiny, prompt, prompt->capacity);
        request.seed = k ? 3 : 99;
        CHECK_EQ(text_generate(&c, &tiny, s, &request, one, &n, &steps), KILN_OK);
        text_state_free(s);
    }
    text_state *again = prompt_read(64);
    kiln_call c = call();
    CHECK_EQ(text_generate(&c, &tiny, again, &request, two, &n, &steps), KILN_OK);
    CHECK(!memcmp(one, two, sizeof one));
    text_state_free(again), text_state_free(prompt);
}

/* Tiles of 512 words: five, the last of them shorter; as many as there are blocks; and one whose last block is not
 * full.
 */
static void test_a_part_of_the_vocabulary_at_a_time(void)
{
    static const int64_t rows[] = {100, 16, 300};
    const text_diffusion_model whole = tiny;
    for (size_t i = 0; i < COUNT(rows); i++) {
        text_diffusion_model cut;
        if (!tiny_open_in_tiles("tests/text_diffusion/dg-tiny", rows[i], &cut)) continue;
        cut.tokenizer = whole.tokenizer, cut.n_stop = whole.n_stop;
        memcpy(cut.stop, whole.stop, sizeof cut.stop), memcpy(cut.thought, whole.thought, sizeof cut.thought);
        snprintf(cut.identity, sizeof cut.identity, "tiles of %lld", (long long)rows[i]); /* another program */
        tiny = cut;
        check_generation(&plain, 64, 0);
        check_generation(&stops, 64, 0);
        tiny_close(&cut);
    }
    tiny = whole;
}

/* ---- programs ---- */

static int programs_recorded;

static kiln_program *counted_keep(kiln_ctx *ctx, const char *key, const kiln_program_options *o, int *fresh)
{
    const kiln_ops *ops = rig_host()->ability(KILN_OPS_ABILITY);
    kiln_program *p = ops->program_keep(ctx, key, o, fresh);
    programs_recorded += *fresh;
    return p;
}

/* A prompt, canvases and noise: three programs for all steps of all canvases, and one that reads a canvas. */
static void test_programs_serve_all_steps(void)
{
    static kiln_ops counting;
    int32_t ids[2 * CANVAS];
    counting = *td_ops, counting.program_keep = counted_keep;
    const kiln_ops *real = td_ops;
    td_ops = &counting;
    snprintf(tiny.identity, sizeof tiny.identity, "counted");
    programs_recorded = 0;
    from_seed(7, TEXT_SAMPLER_ENTROPY_BOUND, 6, ids);
    CHECK_MSG(programs_recorded >= 3 && programs_recorded <= 4, "%d programs", programs_recorded);
    programs_recorded = 0;
    from_seed(8, TEXT_SAMPLER_FIXED, 9, ids);
    CHECK_EQ(programs_recorded, 0);
    td_ops = real, tiny.identity[0] = 0;
}

/* What stands between <|channel> and <channel|> was thought. */
static void test_thoughts(void)
{
    static const int32_t ids[] = {101, 300, 100, 5, 6, 101, 301, 100, 7};
    const kiln_tokenizer_api *api = tokenizers();
    static const int32_t said[] = {300, 301};
    kiln_call c = call();
    char wanted[40] = "", all[80] = "";
    api->decode(tiny.tokenizer, said, 2, 0, wanted, sizeof wanted - 1);
    api->decode(tiny.tokenizer, ids, COUNT(ids), 1, all, sizeof all - 1);
    kiln_value *text = text_of_ids(&c, &tiny, ids, COUNT(ids), 0), *whole = text_of_ids(&c, &tiny, ids, COUNT(ids), 1);
    CHECK_STR(kit_values(&c)->get_string(text, NULL), wanted);
    CHECK_STR(kit_values(&c)->get_string(whole, NULL), all);
    rig_host()->unref(text), rig_host()->unref(whole);
}

static void test_no_room(void)
{
    int32_t ids[600] = {0};
    text_state *prompt = prompt_read(64);
    kiln_call c = call();
    CHECK_EQ(text_read(&c, &tiny, prompt, ids, 600), KILN_ERR_INVALID);
    CHECK_STR(rig_message(), "600 tokens behind 21 do not fit into room for 256");
    text_state_free(prompt);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_two_canvases),
                                      CASE(test_stops_when_it_is_confident),
                                      CASE(test_ends_at_a_stop_token),
                                      CASE(test_rings_that_go_round),
                                      CASE(test_room_that_grows),
                                      CASE(test_a_part_of_the_vocabulary_at_a_time),
                                      CASE(test_programs_serve_all_steps),
                                      CASE(test_thoughts),
                                      CASE(test_a_seed_decides),
                                      CASE(test_a_prompt_serves_many),
                                      CASE(test_what_a_canvas_begins_with),
                                      CASE(test_no_room)};
    char folder[600];
    if (!tiny_open("tests/text_diffusion/dg-tiny", &tiny) || !tokenizers()) return 1;
    snprintf(folder, sizeof folder, "%s/tests/text_diffusion/dg-tiny", test_root());
    tiny.tokenizer = text_tokenizer(rig_ctx(), folder);
    if (!CHECK_MSG(tiny.tokenizer != NULL, "%s", rig_message())) return 1;
    tiny.stop[0] = 1, tiny.stop[1] = 106, tiny.stop[2] = 50, tiny.n_stop = 3, tiny.thought[0] = 100,
    tiny.thought[1] = 101;
    int failed = test_main(argc, argv, cases, COUNT(cases));
    tokenizers()->unref(tiny.tokenizer);
    tiny_close(&tiny);
    return failed;
}
