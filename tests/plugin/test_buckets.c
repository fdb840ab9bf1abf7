/* test_buckets.c - a program of a bucket of rows gives the rows in use the bytes that a larger bucket gives them:
 * linears (one long enough for a GPU to cut its sums), norms, attention with a length, caches of another size; with
 * numbers that are none in the rows that nobody uses.
 */
#include "harness.h"
#include "rig.h"

#include <math.h>
#include <string.h>

static const kiln_ops *ops(void) { return rig_host()->ability(KILN_OPS_ABILITY); }

enum { WIDTH = 96, HEADS = 4, KV_HEADS = 2, LIVE = 5, HIDDEN = 1032 };

static float number(int i) { return (float)((i * 7919) % 401 - 200) / 256; }

static kiln_t weight(kiln_program *p, int seed, int64_t out, int64_t in)
{
    static float data[HIDDEN * HIDDEN];
    for (int64_t i = 0; i < out * in; i++) data[i] = number((int)i + seed * 31) / 8;
    return ops()->constant(p, data, 2, KILN_DIMS(out, in));
}

static kiln_bind bind_to(const char *name, uint32_t dtype, void *data, uint32_t rank, const int64_t *dim)
{
    return (kiln_bind)KILN_BIND(
        name,
        {.size = sizeof(kiln_tensor), .dtype = dtype, .device = KILN_CPU, .rank = rank, .dim = dim, .data = data});
}

/* A block over `rows` rows and a cache of `places`: the first LIVE rows are in use. */
static void run_block(uint32_t precision, int64_t rows, int64_t places, int nan_behind, float *y)
{
    const kiln_ops *o = ops();
    kiln_program *p = o->program_new(
        rig_ctx(),
        &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "block", .precision = precision});
    kiln_t x = o->input(p, "x", KILN_F32, 3, KILN_DIMS(1, rows, WIDTH)),
           at = o->input(p, "at", KILN_I32, 1, KILN_DIMS(1)), length = o->input(p, "length", KILN_I32, 1, KILN_DIMS(1));
    int64_t narrow = WIDTH / HEADS * KV_HEADS;
    kiln_t h = o->normalize(p, x, &(kiln_norm){.size = sizeof(kiln_norm), .eps = 1e-6f});
    kiln_t q = o->linear(p, h, weight(p, 1, WIDTH, WIDTH), (kiln_t){0});
    kiln_t k = o->state(p, "k", KILN_F32, 3, KILN_DIMS(1, places, narrow)),
           v = o->state(p, "v", KILN_F32, 3, KILN_DIMS(1, places, narrow));
    k = o->state_write(p, k, 1, at, o->linear(p, h, weight(p, 2, narrow, WIDTH), (kiln_t){0}));
    v = o->state_write(p, v, 1, at, o->linear(p, h, weight(p, 3, narrow, WIDTH), (kiln_t){0}));
    if (precision != KILN_F32) k = o->cast(p, k, precision), v = o->cast(p, v, precision);
    kiln_attention a = {
        .size = sizeof a, .heads = HEADS, .kv_heads = KV_HEADS, .causal = 1, .offset = at, .key_length = length};
    h = o->add(p, x, o->linear(p, o->attention(p, q, k, v, &a), weight(p, 4, WIDTH, WIDTH), (kiln_t){0}));
    kiln_t gate = o->linear(p, h, weight(p, 5, HIDDEN, WIDTH), (kiln_t){0}),
           up = o->linear(p, h, weight(p, 6, HIDDEN, WIDTH), (kiln_t){0});
    h = o->add(p, h,
               o->linear(p, o->map(p, "silu(a) * b", (const kiln_t[]){gate, up}, 2, NULL), weight(p, 7, WIDTH, HIDDEN),
                         (kiln_t){0}));
    o->output(p, "y", o->slice(p, h, 1, 0, LIVE));
    CHECK_MSG(o->plan(rig_ctx(), p, NULL) == KILN_OK, "%s", rig_message());
    float *rows_in = calloc((size_t)(rows * WIDTH), sizeof *rows_in);
    int32_t begin = 0, used = LIVE;
    for (int64_t i = 0; i < rows * WIDTH; i++) rows_in[i] = i < LIVE * WIDTH ? number((int)i) : nan_behind ? NAN : 0;
    kiln_bind in[] = {bind_to("x", KILN_F32, rows_in, 3, KILN_DIMS(1, rows, WIDTH)),
                      bind_to("at", KILN_I32, &begin, 1, KILN_DIMS(1)),
                      bind_to("length", KILN_I32, &used, 1, KILN_DIMS(1))};
    kiln_bind out = bind_to("y", KILN_F32, y, 3, KILN_DIMS(1, LIVE, WIDTH));
    kiln_states *s = o->states_new(rig_ctx(), "test");
    CHECK_MSG(
        o->run_with(rig_ctx(), p,
                    &(kiln_run){.size = sizeof(kiln_run), .states = s, .in = in, .n_in = 3, .out = &out, .n_out = 1}) ==
            KILN_OK,
        "%s", rig_message());
    free(rows_in);
    o->states_free(s);
    o->program_free(p);
}

static void buckets(uint32_t precision)
{
    static const int64_t sizes[][2] = {{5, 8}, {8, 8}, {16, 16}, {16, 200}, {64, 64}, {128, 1024}, {200, 333}};
    static float first[LIVE * WIDTH], y[LIVE * WIDTH];
    run_block(precision, 5, 5, 0, first);
    for (int i = 0; i < LIVE * WIDTH; i++) CHECK(isfinite(first[i]));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int behind = 0; behind < 2; behind++) {
            run_block(precision, sizes[i][0], sizes[i][1], behind, y);
            CHECK_MSG(memcmp(first, y, sizeof y) == 0, "%lld rows, a cache of %lld, %s behind: other bytes",
                      (long long)sizes[i][0], (long long)sizes[i][1], behind ? "NaN" : "zeros");
        }
}

static void test_f32(void) { buckets(KILN_F32); }
static void test_bf16(void) { buckets(KILN_BF16); }

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_f32), CASE(test_bf16)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
