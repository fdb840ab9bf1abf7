/* test_paged_cache.c - a cache of keys and values in pages of a pool that is a state: where a token goes is computed in
 * the program from the sequence's table of pages, one program serves all steps, forks share pages and a saved one goes
 * on. It attends as a cache does whose sequences lie in one piece each.
 */
#include "harness.h"
#include "rig.h"
#include "tensor/value.h"

#include <math.h>
#include <string.h>

static const kiln_ops *ops(void) { return rig_host()->ability(KILN_OPS_ABILITY); }

enum { SEQUENCES = 2, PAGE = 4, PAGES = 4, POOL = 11, HEADS = 4, KV_HEADS = 2, DIM = 8, STEPS = 14 };
enum { WIDE = HEADS * DIM, NARROW = KV_HEADS * DIM, OUT = SEQUENCES * WIDE };
static int32_t table[SEQUENCES][PAGES] = {{9, 2, 5, 0}, {3, 10, 1, 7}};

static kiln_program *begin(void)
{
    return ops()->program_new(
        rig_ctx(),
        &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "cache", .precision = KILN_F32});
}

typedef struct {
    kiln_t q, k, v, at, pages;
} operands;

static operands inputs(kiln_program *p)
{
    const kiln_ops *o = ops();
    return (operands){.q = o->input(p, "q", KILN_F32, 3, KILN_DIMS(SEQUENCES, 1, WIDE)),
                      .k = o->input(p, "k", KILN_F32, 3, KILN_DIMS(SEQUENCES, 1, NARROW)),
                      .v = o->input(p, "v", KILN_F32, 3, KILN_DIMS(SEQUENCES, 1, NARROW)),
                      .at = o->input(p, "at", KILN_I32, 1, KILN_DIMS(SEQUENCES))};
}

static kiln_program *end(kiln_program *p, const operands *x, kiln_t k, kiln_t v)
{
    const kiln_ops *o = ops();
    kiln_attention a = {.size = sizeof a,
                        .heads = HEADS,
                        .kv_heads = KV_HEADS,
                        .causal = 1,
                        .offset = x->at,
                        .key_length = o->map(p, "a + 1", &x->at, 1, NULL),
                        .pages = x->pages};
    o->output(p, "y", o->attention(p, x->q, k, v, &a));
    CHECK_MSG(o->plan(rig_ctx(), p, NULL) == KILN_OK, "%s", rig_message());
    return p;
}

/* The pool with one token of each sequence written. */
static kiln_t written(kiln_program *p, const char *name, kiln_t x, kiln_t place)
{
    const kiln_ops *o = ops();
    kiln_t all = o->state(p, name, KILN_F32, 2, KILN_DIMS(POOL * PAGE, NARROW));
    for (int n = 0; n < SEQUENCES; n++)
        all = o->state_write(p, all, 0, o->reshape(p, o->slice(p, place, 0, n, 1), 1, KILN_DIMS(1)),
                             o->reshape(p, o->slice(p, x, 0, n, 1), 2, KILN_DIMS(1, NARROW)));
    return o->reshape(p, all, 3, KILN_DIMS(POOL, PAGE, NARROW));
}

static kiln_program *paged(void)
{
    const kiln_ops *o = ops();
    kiln_program *p = begin();
    operands x = inputs(p);
    x.pages = o->input(p, "pages", KILN_I32, 2, KILN_DIMS(SEQUENCES, PAGES));
    kiln_t at = o->reshape(p, x.at, 2, KILN_DIMS(SEQUENCES, 1)), one = o->map(p, "a / 4", &at, 1, NULL);
    kiln_t page = o->take_along(p, x.pages, one), place = o->map(p, "a * 4 + mod(b, 4)", (kiln_t[]){page, at}, 2, NULL);
    return end(p, &x, written(p, "k", x.k, place), written(p, "v", x.v, place));
}

static kiln_program *in_one_piece(void)
{
    const kiln_ops *o = ops();
    kiln_program *p = begin();
    operands x = inputs(p);
    kiln_t k = o->state(p, "k", KILN_F32, 3, KILN_DIMS(SEQUENCES, PAGES * PAGE, NARROW)),
           v = o->state(p, "v", KILN_F32, 3, KILN_DIMS(SEQUENCES, PAGES * PAGE, NARROW));
    return end(p, &x, o->state_write(p, k, 1, x.at, x.k), o->state_write(p, v, 1, x.at, x.v));
}

static kiln_bind bound(const char *name, uint32_t dtype, void *data, uint32_t rank, const int64_t *dim)
{
    return (kiln_bind)KILN_BIND(
        name,
        {.size = sizeof(kiln_tensor), .dtype = dtype, .device = KILN_CPU, .rank = rank, .dim = dim, .data = data});
}

/* Sequences of unequal lengths: the second gets a token in every other step. */
static void step(kiln_program *p, kiln_states *s, int with_pages, int t, int seed, float *y)
{
    float x[OUT + 2 * SEQUENCES * NARROW];
    int32_t at[SEQUENCES] = {t, t / 2};
    for (int i = 0; i < OUT + 2 * SEQUENCES * NARROW; i++)
        x[i] = (float)((i * 7919 + t * 104729 + seed * 31) % 201 - 100) / 64;
    kiln_bind in[] = {bound("q", KILN_F32, x, 3, KILN_DIMS(SEQUENCES, 1, WIDE)),
                      bound("k", KILN_F32, x + OUT, 3, KILN_DIMS(SEQUENCES, 1, NARROW)),
                      bound("v", KILN_F32, x + OUT + SEQUENCES * NARROW, 3, KILN_DIMS(SEQUENCES, 1, NARROW)),
                      bound("at", KILN_I32, at, 1, KILN_DIMS(SEQUENCES)),
                      bound("pages", KILN_I32, table, 2, KILN_DIMS(SEQUENCES, PAGES))};
    kiln_bind out = bound("y", KILN_F32, y, 3, KILN_DIMS(SEQUENCES, 1, WIDE));
    kiln_run r = {.size = sizeof r, .states = s, .in = in, .n_in = with_pages ? 5 : 4, .out = &out, .n_out = 1};
    CHECK_MSG(ops()->run_with(rig_ctx(), p, &r) == KILN_OK, "%s", rig_message());
}

static kiln_program *program[2];

/* One step of both; sums over keys in the same order, but perhaps cut elsewhere. */
static void both(kiln_states *const s[2], int t, int seed)
{
    float y[2][OUT];
    for (int k = 0; k < 2; k++) step(program[k], s[k], !k, t, seed, y[k]);
    for (int i = 0; i < OUT; i++)
        if (!CHECK_MSG(fabsf(y[0][i] - y[1][i]) <= 2e-6f, "step %d: %.9g in pages, %.9g in one piece", t,
                       (double)y[0][i], (double)y[1][i]))
            return;
}

static void test_pages_are_a_cache_in_one_piece(void)
{
    kiln_states *s[2], *fork[2], *again[2];
    program[0] = paged(), program[1] = in_one_piece();
    for (int k = 0; k < 2; k++) s[k] = ops()->states_new(rig_ctx(), "test");
    for (int t = 0; t < 6; t++) both(s, t, 1);
    for (int k = 0; k < 2; k++) REQUIRE((fork[k] = ops()->states_fork(rig_ctx(), s[k])) != NULL);
    for (int t = 6; t < STEPS; t++) both(fork, t, 2), both(s, t, 1);
    for (int k = 0; k < 2; k++) {
        kiln_value *saved = ops()->states_save(rig_ctx(), fork[k]);
        again[k] = ops()->states_new(rig_ctx(), "again");
        REQUIRE(saved && again[k]);
        CHECK_MSG(ops()->states_load(rig_ctx(), again[k], saved) == KILN_OK, "%s", rig_message());
        value_unref(saved);
    }
    both(again, STEPS, 3), both(fork, STEPS, 3);
    for (int k = 0; k < 2; k++) {
        ops()->states_free(s[k]), ops()->states_free(fork[k]), ops()->states_free(again[k]);
        ops()->program_free(program[k]);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_pages_are_a_cache_in_one_piece)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
