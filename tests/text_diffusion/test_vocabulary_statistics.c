/* test_vocabulary_statistics.c - the op against its definition: rows that `kiln check-plugin` does not draw, and whole
 * vocabularies by it and by the engine's own ops. (Examples, types, guards and threads: check-plugin, which runs here
 * too.)
 */
#include "text_kit.h"

#include "text_vocabulary.h"
#include "vocabulary_statistics.h"

#include <math.h>

enum { WORDS = 1003, BLOCKS = (WORDS + BLOCK - 1) / BLOCK };

typedef struct {
    float statistics[STATISTICS], blocks[BLOCKS], e[WORDS];
} result;

static kiln_status no_message(void *engine, const char *format, ...)
{
    (void)engine, (void)format;
    return KILN_ERR_INVALID;
}

/* One row, by tile() or by reference(). */
static result result_of(const float *x, float temperature, float softcap, int by_tile)
{
    static float workspace[BLOCKS * BLOCK];
    static const int64_t dim[] = {1, 1, WORDS}, one[] = {1}, wide[] = {1, 1, STATISTICS}, blocks[] = {1, 1, BLOCKS};
    const vocabulary_statistics_attributes how = {.softcap = softcap, .plain = 1};
    result r;
    const kiln_tensor in[] = {window_of((void *)(uintptr_t)x, KILN_F32, 3, dim),
                              window_of(&temperature, KILN_F32, 1, one)},
                      out[] = {window_of(r.statistics, KILN_F32, 3, wide), window_of(r.blocks, KILN_F32, 3, blocks),
                               window_of(r.e, KILN_F32, 3, dim)};
    const kiln_op_call call = {.size = sizeof call,
                               .n_in = 2,
                               .n_out = 3,
                               .device = KILN_CPU,
                               .in = in,
                               .out = out,
                               .attributes = &how,
                               .attribute_bytes = sizeof how,
                               .fail = no_message};
    if (by_tile)
        vocabulary_statistics_kind.tile(&call, 0, workspace);
    else
        CHECK_EQ(vocabulary_statistics_kind.reference(&call), KILN_OK);
    return r;
}

static void fill(float *x, float low, float high)
{
    uint32_t seed = 7;
    for (int i = 0; i < WORDS; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = low + (high - low) * (float)(seed >> 8) * 0x1p-24f;
    }
}

/* As far apart as the op says that it may be. */
static void check_row(const char *what, const float *x, float temperature, float softcap)
{
    const result ours = result_of(x, temperature, softcap, 1), theirs = result_of(x, temperature, softcap, 0);
    const float *a = (const float *)(const void *)&ours, *b = (const float *)(const void *)&theirs;
    double worst = 0;
    for (size_t i = 0; i < sizeof ours / sizeof *a; i++) {
        const double bound =
            vocabulary_statistics_kind.absolute + vocabulary_statistics_kind.relative * fabs((double)b[i]);
        const double off = a[i] == b[i] ? 0 : fabs((double)a[i] - (double)b[i]) / bound;
        if (!(off <= worst)) worst = off;
    }
    CHECK_MSG(worst <= 1, "%s: %g of what is allowed", what, worst);
    CHECK_EQ(ours.statistics[STATISTIC_PLACE], theirs.statistics[STATISTIC_PLACE]);
}

static void test_rows(void)
{
    static float x[WORDS];
    fill(x, -40, 40), check_row("behind the cap", x, 0.8f, 30);
    fill(x, -40, 40), check_row("no temperature", x, 0, 30);
    fill(x, -2, 2), check_row("no cap", x, 0.1f, 0);
    fill(x, -1e4f, 1e4f), check_row("far beyond the cap: many are the largest", x, 1, 30);
    fill(x, -1e4f, 1e4f), check_row("far apart", x, 0.5f, 0);
    fill(x, -1e-6f, 1e-6f), check_row("all alike", x, 0.7f, 30);
    for (int i = 0; i < WORDS; i++) x[i] = 1.5f;
    check_row("equal: the first", x, 0.7f, 0);
    x[WORDS - 1] = 2;
    check_row("the last, which is in no whole block", x, 0.7f, 0);
    for (int i = 0; i < WORDS; i++) x[i] = i == 500 ? 0.0f : -INFINITY;
    check_row("one word that may be said", x, 0.7f, 0);
}

/* A NaN among the logits is seen in the sums. */
static void test_a_nan_stays(void)
{
    static float x[WORDS];
    for (int at = 0; at < WORDS; at += 501) {
        fill(x, -3, 3), x[at] = NAN;
        const result r = result_of(x, 1, 30, 1);
        CHECK(isnan(r.statistics[STATISTIC_SUM]) && isnan(r.statistics[STATISTIC_WEIGHTED]) && isnan(r.e[at]));
        CHECK(isnan(r.blocks[at / BLOCK]) && r.statistics[STATISTIC_PLACE] >= 0 &&
              r.statistics[STATISTIC_PLACE] < WORDS);
    }
}

/* ---- a vocabulary in tiles ---- */

enum { PLACES = 5, WIDTH_MAX = 512 };
typedef struct {
    int32_t likeliest[PLACES], drawn[PLACES];
    float entropy[PLACES], confidence[PLACES], soft[PLACES * WIDTH_MAX];
} choices;

static choices choose(const text_diffusion_model *m, uint32_t precision, int on_processor)
{
    static float x[PLACES * WIDTH_MAX];
    const float temperature = 0.7f, draw[PLACES] = {0, 0.25f, 0.5f, 0.75f, 0.999f};
    kiln_ctx *ctx = rig_ctx();
    kiln_program_options o = {.size = sizeof o, .name = "vocabulary", .precision = precision};
    text_recording r = {.p = td_ops->program_new(ctx, &o), .m = m, .t = PLACES, .on_processor = on_processor};
    kiln_t out[RESULTS];
    static choices c;
    for (int i = 0; i < PLACES * WIDTH_MAX; i++) x[i] = (float)(i * 37 % 101) / 50 - 1;
    const vocabulary_draw how = {.temperature = td_ops->input(r.p, "temperature", KILN_F32, 1, KILN_DIMS(1)),
                                 .draw = td_ops->input(r.p, "draw", KILN_F32, 3, KILN_DIMS(1, PLACES, 1))};
    kiln_t state = td_ops->input(r.p, "x", KILN_F32, 3, KILN_DIMS(1, PLACES, m->width));
    vocabulary_choose(&r, td_ops->map(r.p, "a", &state, 1, NULL), &how, out);
    static const char *const name[RESULTS] = {"likeliest", "entropy", "drawn", "confidence", "soft"};
    for (int k = 0; k < RESULTS; k++) td_ops->output(r.p, name[k], out[k]);
    CHECK_MSG(td_ops->plan(ctx, r.p, NULL) == KILN_OK, "%s", rig_message());
    const int64_t one[] = {1}, each[] = {1, PLACES, 1}, wide[] = {1, PLACES, m->width};
    const kiln_bind in[] = {KILN_BIND("x", window_of(x, KILN_F32, 3, wide)),
                            KILN_BIND("temperature", window_of((void *)(uintptr_t)&temperature, KILN_F32, 1, one)),
                            KILN_BIND("draw", window_of((void *)(uintptr_t)draw, KILN_F32, 3, each))},
                    to[] = {KILN_BIND("likeliest", window_of(c.likeliest, KILN_I32, 3, each)),
                            KILN_BIND("drawn", window_of(c.drawn, KILN_I32, 3, each)),
                            KILN_BIND("entropy", window_of(c.entropy, KILN_F32, 3, each)),
                            KILN_BIND("confidence", window_of(c.confidence, KILN_F32, 3, each)),
                            KILN_BIND("soft", window_of(c.soft, KILN_F32, 3, wide))};
    CHECK_MSG(td_ops->run(ctx, r.p, in, COUNT(in), to, COUNT(to)) == KILN_OK, "%s", rig_message());
    td_ops->program_free(r.p);
    return c;
}

static double apart(const float *a, const float *b, int64_t n)
{
    double most = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        size = fmax(size, fabs((double)b[i]));
    }
    return most / size;
}

/* f32: sums of 16 to 256 words in another order. bf16: e is rounded in place of e / s, and the sum behind it. */
static void test_both_ways_agree(void)
{
    static const int64_t rows[] = {16, 100, 200};
    for (size_t i = 0; i < COUNT(rows); i++) {
        text_diffusion_model m;
        if (!tiny_open_in_tiles("tests/text_diffusion/dg-tiny", rows[i], &m)) continue;
        if (!CHECK(m.width <= WIDTH_MAX && vocabulary_tiles(&m) > 1)) continue;
        for (int k = 0; k < 2; k++) {
            const choices ours = choose(&m, k ? KILN_BF16 : KILN_F32, 1),
                          plain = choose(&m, k ? KILN_BF16 : KILN_F32, 0);
            CHECK(!memcmp(ours.likeliest, plain.likeliest, sizeof ours.likeliest));
            CHECK(!memcmp(ours.drawn, plain.drawn, sizeof ours.drawn));
            CHECK(apart(ours.entropy, plain.entropy, PLACES) <= 1e-5);
            CHECK(apart(ours.confidence, plain.confidence, PLACES) <= 2e-5);
            const double soft = apart(ours.soft, plain.soft, PLACES * m.width);
            CHECK_MSG(soft <= (k ? 0x1p-7 : 1e-5), "soft embeddings are %g apart", soft);
        }
        tiny_close(&m);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_rows), CASE(test_a_nan_stays), CASE(test_both_ways_agree)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
