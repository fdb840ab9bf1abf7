/* linear_tiles.c - see linear_tiles.h.
 *
 * A task is a band of rows by a group of sets of 32 outputs. Where inputs are few, 32 rows after the other go by all
 * sets of the group, whose filters the second cache holds: what they make lies side by side. Else a set's filter stays
 * while the band's rows go by. What becomes of sums is made while the next ones are.
 *
 * Rows are read where they lie; the last ones, fewer than 32, and rows of f32 are copied into the slot's scratch first.
 * Each sum runs over the inputs in order: no bit depends on how many rows there are, on bands, groups or threads.
 */
#include "backend/cpu/linear_tiles.h"

#include "backend/cpu/attention_tiles.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/tile_products.h"
#include "base/memory_alloc.h"

#include <string.h>

#if defined __x86_64__
enum { PAIR = 2 * STRIP_PIXELS, PAIR_SUMS = 4 * TILE_SUMS, MOST_BAND = 512, TASKS_OF_THREAD = 4, MOST_INPUTS = 1280 };
/* Of a band's rows; of a group's filters, where rows go by all of it, and of one that is all there is. */
static const size_t BAND_BYTES = 700 << 10, GROUP_BYTES = 512 << 10, ONE_GROUP_BYTES = 900 << 10;

typedef struct {
    tile_filter filter;
    int64_t rows, band; /* band: of a task, whole pairs of tiles */
    int64_t groups;     /* of sets that rows go by; 0: sets that stay while rows go by */
    size_t copy_bytes;  /* of rows that do not lie as they are read */
    size_t slot_bytes;
} linear_plan;

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    const linear_plan *p;
    int64_t groups; /* of sets of outputs: tasks of a band */
} call;

/* Whatever the number of rows is, so that a row's bits do not depend on it. */
int linear_tiles_fit(const op_desc *op, int64_t k, int64_t columns)
{
    return tile_products_fit(op) && k % STRIP_CHANNELS == 0 &&
           columns % (op->epilogue.geglu ? PANEL_OUTPUTS : SET_OUTPUTS) == 0;
}

/* ---- rows ---- */

static int lies_as_read(const operand_desc *x) { return type_of(x) == KILN_BF16; }

/* n rows from `row` on, as bf16, one behind the other, and zeros for what a last pair has not. */
static void copy_rows(const call *j, int64_t row, int64_t n, char *to)
{
    const operand_desc *x = &j->c->op.in[0];
    size_t bytes = (size_t)j->p->filter.inputs * 2;
    for (int64_t i = 0; i < n; i++) {
        const char *from = place_of(x, j->a->in[0], row + i, 0);
        if (lies_as_read(x))
            memcpy(to + (size_t)i * bytes, from, bytes);
        else
            gemm_convert_row(j->c->k, to + (size_t)i * bytes, KILN_BF16, from, type_of(x), (size_t)j->p->filter.inputs);
    }
    int64_t whole = (int64_t)round_up((size_t)n, PAIR);
    memset(to + (size_t)n * bytes, 0, (size_t)(whole - n) * bytes);
}

/* Rows of a band: those that are read where they lie, and behind them those that were copied. */
typedef struct {
    const char *data, *copy;
    size_t ld, copy_ld;
    int64_t first, n, there; /* there: of n, where they lie */
} band;

static band take_band(const call *j, int64_t index, char *own)
{
    const linear_plan *p = j->p;
    const operand_desc *x = &j->c->op.in[0];
    band b = {.first = index * p->band, .copy = own, .copy_ld = (size_t)p->filter.inputs * 2, .ld = (size_t)x->ld * 2};
    b.n = min64(p->band, p->rows - b.first);
    b.there = lies_as_read(x) ? b.n / PAIR * PAIR : 0;
    b.data = place_of(x, j->a->in[0], b.first, 0);
    if (b.there < b.n) copy_rows(j, b.first + b.there, b.n - b.there, own);
    return b;
}

/* ---- products ---- */

static int64_t bands_of(const linear_plan *p) { return (p->rows + p->band - 1) / p->band; }

/* A task on its way. Sums of two pairs take turns: those that were made last are finished beside the next. */
typedef struct {
    const call *j;
    band rows;
    float *sums[2];
    int turn;
    rows_result before; /* its rows 0: nothing to finish */
} task;

static void multiply_pair(task *t, int64_t row, int64_t set)
{
    const call *j = t->j;
    const linear_plan *p = j->p;
    const band *b = &t->rows;
    float *sums = t->sums[t->turn];
    int there = row < b->there;
    int64_t n = min64(PAIR, b->n - row);
    row_products r = {.filter = {tile_filter_panel(&p->filter, j->a->in[1], set, 0, 0),
                                 tile_filter_panel(&p->filter, j->a->in[1], set, 1, 0)},
                      .depth = (size_t)p->filter.inputs / STRIP_CHANNELS,
                      .ld = there ? b->ld : b->copy_ld,
                      .sums = sums};
    r.rows = (const uint16_t *)(const void *)(there ? b->data + (size_t)row * b->ld
                                                    : b->copy + (size_t)(row - b->there) * b->copy_ld);
    rows_multiply(&r, &t->before);
    t->before.rows = 0;
    if (tile_set_rows(j->c, j->a, sums, n, b->first + row, set, &t->before)) {
        t->turn = !t->turn;
        return;
    }
    for (int64_t k = 0; k < n; k += STRIP_PIXELS, sums += 2 * TILE_SUMS) {
        tile_set_activate(j->c, j->a, sums, set);
        tile_set_store(j->c, j->a, sums, min64(STRIP_PIXELS, n - k), b->first + row + k, 1, set);
    }
}

static kiln_status run_task(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const linear_plan *p = j->p;
    char *own = (char *)j->a->scratch + slot * p->slot_bytes;
    int64_t sets = tile_filter_sets(&p->filter), bands = bands_of(p), each = (sets + j->groups - 1) / j->groups;
    int64_t i = (int64_t)index; /* tasks side by side share what stays in the cache */
    int64_t group = p->groups ? i / bands : i % j->groups, place = p->groups ? i % bands : i / j->groups;
    int64_t first = group * each, last = min64(sets, first + each);
    task t = {.j = j, .sums = {(float *)(void *)own, (float *)(void *)own + PAIR_SUMS}};
    t.rows = take_band(j, place, own + 2 * PAIR_SUMS * sizeof(float));
    (void)e;
    tiles_begin();
    for (int64_t row = 0; p->groups && row < t.rows.n; row += PAIR)
        for (int64_t set = first; set < last; set++) multiply_pair(&t, row, set);
    for (int64_t set = first; !p->groups && set < last; set++)
        for (int64_t row = 0; row < t.rows.n; row += PAIR) multiply_pair(&t, row, set);
    rows_finish(&t.before);
    tiles_end();
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const linear_plan *p = c->plan;
    call j = {.c = c, .a = a, .p = p};
    int64_t threads = a->pool ? (int64_t)pool_threads(a->pool) : 1, bands = bands_of(p);
    j.groups = min64(tile_filter_sets(&p->filter), (TASKS_OF_THREAD * threads + bands - 1) / bands);
    if (p->groups > j.groups) j.groups = p->groups;
    return tiles_run(a->pool, (size_t)(bands * j.groups), run_task, &j, e);
}

/* ---- preparing ---- */

static int64_t band_rows(const linear_plan *p)
{
    int64_t most = (int64_t)(BAND_BYTES / ((size_t)p->filter.inputs * 2)) / PAIR * PAIR;
    most = most < PAIR ? PAIR : min64(most, MOST_BAND);
    int64_t bands = (p->rows + most - 1) / most;
    return (int64_t)round_up((size_t)((p->rows + bands - 1) / bands), PAIR);
}

static int64_t groups_of_filter(const linear_plan *p)
{
    size_t bytes = (size_t)(p->filter.outputs * p->filter.inputs) * 2;
    if (p->filter.inputs > MOST_INPUTS) return 0;
    return bytes <= ONE_GROUP_BYTES ? 1 : (int64_t)((bytes + GROUP_BYTES - 1) / GROUP_BYTES);
}

kiln_status linear_tiles_prepare(cpu_kernel *c, int64_t rows, int64_t k, int64_t columns, error *e)
{
    linear_plan *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->plan = p, c->plan_free = mem_free, c->body = run;
    int gated = c->op.epilogue.geglu != 0;
    p->filter =
        (tile_filter){.outputs = gated ? 2 * columns : columns, .inputs = k, .high = 1, .wide = 1, .gated = gated};
    p->rows = rows;
    p->band = band_rows(p), p->groups = groups_of_filter(p);
    p->copy_bytes = (size_t)(lies_as_read(&c->op.in[0]) ? PAIR : p->band) * (size_t)k * 2;
    p->slot_bytes = 2 * PAIR_SUMS * sizeof(float) + p->copy_bytes;
    c->base.scratch_bytes = cpu_slots() * p->slot_bytes;
    tile_filter_keep(c);
    c->base.flops = 2u * (uint64_t)rows * (uint64_t)k * (uint64_t)p->filter.outputs;
    return KILN_OK;
}
#else
int linear_tiles_fit(const op_desc *op, int64_t k, int64_t columns) { return (void)op, (void)k, (void)columns, 0; }
kiln_status linear_tiles_prepare(cpu_kernel *c, int64_t rows, int64_t k, int64_t columns, error *e)
{
    return (void)c, (void)rows, (void)k, (void)columns, error_set(e, KILN_ERR_BUG, "linear: no tiles here");
}
#endif
