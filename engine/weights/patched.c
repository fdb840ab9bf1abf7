/* patched.c - computes the elements of a patched tensor; see set.h and include/kiln/weights.h.
 *
 * An element is, in this order and all in f32: the base's element, then what each patch makes of it, in the order
 * given. A product adds factor * sum, the sum over the rank ascending from 0 (gemm_tile.h), a difference factor *
 * element, a change does what its plugin does. The work goes by blocks of rows that stay in a core's cache, on the
 * pool's threads: the base's rows are read and all patches applied to them before the next block. A change that needs
 * all rows together has a round of its own. Packing asks for rows as it goes (weights_f32_rows), so that no copy of the
 * whole tensor is made. An element does not depend on how the rows are cut, nor on the threads.
 */
#include "base/memory_alloc.h"
#include "base/pool.h"
#include "tensor/dtype.h"
#include "weights/derived.h"
#include "weights/gemm_tile.h"

#include <assert.h>
#include <string.h>

enum { BLOCK_BYTES = 128 << 10, PANEL_RANK = 256, PANEL_COLUMNS = 32, PANEL_STRIP = 16, DIFFERENCE_CHUNK = 4096 };

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }
static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
static size_t round_up(size_t n, size_t step) { return (n + step - 1) / step * step; }
static size_t rows_of(const weights_patched *p) { return p->count / p->columns; }

static kiln_status no_memory(const weights_entry *x, error *e)
{
    return error_set(e, KILN_ERR_NOMEM, "%s: out of memory for '%.200s'", x->file->map.path, x->name);
}

/* ---- products ---- */

static const gemm_tiling *best_tiling(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
            return &gemm_tiling_avx512;
        return &gemm_tiling_avx2;
    }
#endif
    return &gemm_tiling_plain;
}

/* One tile's columns of b, close together: rows of b that are a power of two apart would share few lines of the cache.
 */
static void copy_panel(float *panel, const float *b, size_t b_ld, size_t inner, size_t columns)
{
    for (size_t k = 0; k < inner; k++) memcpy(panel + k * columns, b + k * b_ld, columns * sizeof *panel);
}

/* Columns [c, c + width) of it, at most a tile's; b: the first of them. */
static void add_columns(const gemm_tiling *by, const kiln_weight_product *p, size_t c, size_t width, const float *b,
                        size_t b_ld)
{
    gemm_tile_operands o = {.dst = p->to + c,
                            .dst_ld = p->to_ld,
                            .up = p->a,
                            .up_ld = p->inner,
                            .down = b,
                            .down_ld = b_ld,
                            .inner = p->inner,
                            .factor = p->factor};
    size_t left = p->rows;
    for (; width == by->columns && left >= by->rows; left -= by->rows) {
        by->tile(&o);
        o.dst += by->rows * o.dst_ld, o.up += by->rows * o.up_ld;
    }
    by->rest(&o, left, width);
}

static void add_product(const kiln_weight_product *p)
{
    _Alignas(64) float panel[PANEL_RANK * PANEL_COLUMNS];
    const gemm_tiling *by = best_tiling();
    for (size_t c = 0; c < p->columns; c += by->columns) {
        size_t width = smaller(by->columns, p->columns - c);
        int copied = width == by->columns && p->inner <= PANEL_RANK && p->rows >= 2 * GEMM_TILE_ROWS;
        if (copied) copy_panel(panel, p->b + c, p->b_ld, p->inner, width);
        add_columns(by, p, c, width, copied ? panel : p->b + c, copied ? width : p->b_ld);
    }
}

/* Rows [first, first + n) of b [inner, columns] into its panels: a tile's columns each, one behind the other. */
static void fill_panels(float *panels, const float *b, size_t columns, size_t inner, size_t first, size_t n)
{
    const gemm_tiling *by = best_tiling();
    for (size_t c = 0; c < columns; c += by->columns) {
        size_t width = smaller(by->columns, columns - c);
        copy_panel(panels + c * inner + first * width, b + c, columns, n, width);
    }
}

/* The same with b in panels. */
static void add_panels(const kiln_weight_product *p)
{
    const gemm_tiling *by = best_tiling();
    for (size_t c = 0; c < p->columns; c += by->columns) {
        size_t width = smaller(by->columns, p->columns - c);
        add_columns(by, p, c, width, p->b + c * p->inner, width);
    }
}

/* ---- one reading ---- */

/* A term with what it is computed from. */
typedef struct {
    const patch_term *term;
    float *left, *right, *prepared; /* product: up's rows of this reading, and down in panels */
    kiln_weight_factor *factor;     /* change: its factors, as f32 */
    kiln_weight_call call;
    size_t rows; /* that it needs together */
} loaded;

typedef struct {
    const weights_entry *x;
    const weights_patched *p;
    weights_access how;
    loaded *term;
    size_t n_term, row, rows; /* rows [row, row + rows) of what the patch computes */
    float *dst;
    pool *pool;
} reading;

static void on_all_cores(const kiln_weight_call *c, size_t n, void (*fn)(void *, size_t), void *arg)
{
    pool_for(c->self, n, fn, arg);
}

/* factor: the term's, by whom it was filled. */
static kiln_weight_call call_of(const weights_patched *p, const patch_term *t, kiln_weight_factor *factor,
                                pool *threads)
{
    return (kiln_weight_call){.size = sizeof(kiln_weight_call),
                              .rank = p->base->rank,
                              .dim = p->base->dim,
                              .rows = rows_of(p),
                              .columns = p->columns,
                              .strength = t->strength,
                              .scale = t->scale,
                              .option = t->option,
                              .factor = factor,
                              .self = threads,
                              .add_product = add_product,
                              .each = on_all_cores};
}

static kiln_weight_call sizes_of(const weights_patched *p, const patch_term *t)
{
    return call_of(p, t, t->factor_of, NULL);
}

static size_t rows_together(const weights_patched *p, const patch_term *t)
{
    if (!t->change || !t->change->rows) return 1;
    kiln_weight_call c = sizes_of(p, t);
    size_t rows = t->change->rows(&c);
    return rows && rows <= rows_of(p) ? rows : rows_of(p);
}

static size_t common_multiple(size_t a, size_t b)
{
    size_t x = a, y = b;
    while (y) {
        size_t rest = x % y;
        x = y, y = rest;
    }
    return a / x * b;
}

/* Rows that terms [from, to) need together; all of them, at most. */
static size_t rows_of_all(const weights_patched *p, const patch_term *from, const patch_term *to)
{
    size_t rows = 1;
    for (const patch_term *t = from; t != to && rows < rows_of(p); t = t->next)
        rows = common_multiple(rows, rows_together(p, t));
    return smaller(rows, rows_of(p));
}

size_t weights_patched_rows(const weights_patched *p) { return rows_of_all(p, p->term, NULL); }

/* Rows of a block: as many as the cache holds, whole tiles, a multiple of what is needed together. */
static size_t block_rows(const weights_patched *p, size_t together)
{
    size_t rows = round_up(larger(BLOCK_BYTES / sizeof(float) / p->columns, 32), GEMM_TILE_ROWS);
    return round_up(rows, common_multiple(together, together < rows_of(p) ? (size_t)GEMM_TILE_ROWS : 1));
}

/* ---- loading ---- */

static size_t factors_bytes(const patch_term *t)
{
    size_t n = 0;
    for (uint32_t i = 0; i < t->n_from; i++)
        n += t->from[i] ? round_up(weights_count_of(t->from[i]) * sizeof(float), 64) : 0;
    return n;
}

static size_t prepared_floats(const weights_patched *p, const patch_term *t)
{
    if (!t->change || !t->change->prepared || !t->change->prepare) return 0;
    kiln_weight_call c = sizes_of(p, t);
    return t->change->prepared(&c);
}

static void unload(reading *r)
{
    for (size_t i = 0; i < r->n_term; i++) {
        loaded *l = &r->term[i];
        for (uint32_t k = 0; l->factor && k < l->term->n_from; k++) mem_free((float *)(uintptr_t)l->factor[k].data);
        mem_free(l->factor);
        mem_free(l->left);
        mem_free(l->right);
        mem_free(l->prepared);
    }
    mem_free(r->term);
}

static float *read_all(const reading *r, const weights_entry *x, size_t first, size_t n, error *e)
{
    weights_access how = {NULL, r->how.beside};
    float *data = mem_alloc(n * sizeof *data + 1);
    if (!data) return no_memory(x, e), NULL;
    if (weights_read_range(x, how, first, n, data, r->pool, e) == KILN_OK) return data;
    mem_free(data);
    return NULL;
}

/* Rows of down that are read at once on their way into panels: some, or all where they are computed. */
static size_t rows_at_once(const weights_entry *down, size_t rank)
{
    return weights_reads_by_parts(down) ? smaller(rank, PANEL_STRIP) : rank;
}

static kiln_status load_product(const reading *r, loaded *l, error *e)
{
    const patch_term *t = l->term;
    const weights_entry *down = t->from[1];
    size_t columns = r->p->columns, n = rows_at_once(down, t->rank);
    weights_access how = {NULL, r->how.beside};
    if (!(l->left = read_all(r, t->from[0], r->row * t->rank, r->rows * t->rank, e))) return e->status;
    float *rows = mem_alloc(n * columns * sizeof *rows);
    l->right = mem_alloc(t->rank * columns * sizeof *l->right);
    kiln_status status = rows && l->right ? KILN_OK : no_memory(r->x, e);
    for (size_t k = 0; k < t->rank && status == KILN_OK; k += n) {
        size_t m = smaller(n, t->rank - k);
        status = weights_read_range(down, how, k * columns, m * columns, rows, r->pool, e);
        if (status == KILN_OK) fill_panels(l->right, rows, columns, t->rank, k, m);
    }
    mem_free(rows);
    return status;
}

static kiln_status load_change(const reading *r, loaded *l, error *e)
{
    const patch_term *t = l->term;
    size_t n = prepared_floats(r->p, t);
    l->factor = mem_calloc(t->n_from + 1, sizeof *l->factor);
    if (!l->factor) return no_memory(r->x, e);
    for (uint32_t i = 0; i < t->n_from; i++) {
        l->factor[i] = t->factor_of[i];
        if (t->from[i] && !(l->factor[i].data = read_all(r, t->from[i], 0, weights_count_of(t->from[i]), e)))
            return e->status;
    }
    l->call = call_of(r->p, t, l->factor, r->pool);
    if (!n) return KILN_OK;
    if (!(l->prepared = mem_alloc(n * sizeof *l->prepared))) return no_memory(r->x, e);
    t->change->prepare(&l->call, l->prepared);
    l->call.prepared = l->prepared;
    return KILN_OK;
}

static kiln_status load_terms(reading *r, error *e)
{
    size_t n = 0;
    for (const patch_term *t = r->p->term; t; t = t->next) n++;
    if (!(r->term = mem_calloc(n + 1, sizeof *r->term))) return no_memory(r->x, e);
    for (const patch_term *t = r->p->term; t; t = t->next) {
        loaded *l = &r->term[r->n_term++];
        *l = (loaded){.term = t, .rows = rows_together(r->p, t)};
        if (t->change)
            TRY(load_change(r, l, e));
        else if (t->rank)
            TRY(load_product(r, l, e));
    }
    return KILN_OK;
}

/* ---- a round of blocks ---- */

typedef struct {
    const reading *r;
    size_t from, to; /* terms */
    size_t step;     /* rows of a block */
    int base, last;  /* reads the base's rows first; looks for what is no number */
    pthread_mutex_t lock;
    size_t failed; /* the first block that did, and why; SIZE_MAX: none */
    error why;
} blocks;

static kiln_status add_difference(const blocks *b, const loaded *l, size_t row, size_t rows, float *dst, error *e)
{
    size_t columns = b->r->p->columns, first = row * columns, n = rows * columns;
    const weights_entry *x = l->term->from[0];
    float *d = mem_alloc(smaller(DIFFERENCE_CHUNK, n) * sizeof *d);
    kiln_status status = d ? KILN_OK : no_memory(x, e);
    for (size_t i = 0; i < n && status == KILN_OK; i += DIFFERENCE_CHUNK) {
        size_t m = smaller(DIFFERENCE_CHUNK, n - i);
        status = weights_read_range(x, (weights_access){NULL, b->r->how.beside}, first + i, m, d, NULL, e);
        for (size_t k = 0; k < m && status == KILN_OK; k++) dst[i + k] += l->term->factor * d[k];
    }
    mem_free(d);
    return status;
}

static kiln_status apply_change(const blocks *b, const loaded *l, size_t row, size_t rows, float *dst, error *e)
{
    const kiln_weight_change *c = l->term->change;
    size_t n = c->scratch ? c->scratch(&l->call, rows) : 0;
    float *scratch = n ? mem_alloc(n * sizeof *scratch) : NULL;
    if (n && !scratch) return no_memory(b->r->x, e);
    c->apply(&l->call, dst, row, rows, scratch);
    mem_free(scratch);
    return KILN_OK;
}

static kiln_status apply_term(const blocks *b, const loaded *l, size_t row, size_t rows, float *dst, error *e)
{
    const patch_term *t = l->term;
    size_t columns = b->r->p->columns;
    if (t->change) return apply_change(b, l, row, rows, dst, e);
    if (!t->rank) return add_difference(b, l, row, rows, dst, e);
    add_panels(&(kiln_weight_product){.to = dst,
                                      .to_ld = columns,
                                      .a = l->left + (row - b->r->row) * t->rank,
                                      .b = l->right,
                                      .rows = rows,
                                      .columns = columns,
                                      .inner = t->rank,
                                      .factor = t->factor});
    return KILN_OK;
}

static kiln_status look_for_nonfinite(const blocks *b, size_t first, size_t n, const float *dst, error *e)
{
    const weights_entry *x = b->r->x;
    size_t at = b->last ? weights_first_nonfinite(dst, n) : n;
    if (at == n) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID,
                     "%s: tensor '%.200s' comes out as a NaN or infinity at element %zu when it is patched; the patch "
                     "is too strong or damaged",
                     x->file->map.path, x->name, first + at);
}

/* Rows [row, row + rows) of the tensor into dst. */
static kiln_status compute_rows(const blocks *b, size_t row, size_t rows, float *dst, error *e)
{
    const reading *r = b->r;
    size_t first = row * r->p->columns, n = rows * r->p->columns;
    weights_access how = {NULL, r->how.beside};
    if (b->base) TRY(weights_read_range(r->p->base, how, first, n, dst, NULL, e));
    for (size_t k = b->from; k < b->to; k++) TRY(apply_term(b, &r->term[k], row, rows, dst, e));
    return look_for_nonfinite(b, first, n, dst, e);
}

static kiln_status compute_block(const blocks *b, size_t i, error *e)
{
    const reading *r = b->r;
    size_t row = i * b->step;
    return compute_rows(b, r->row + row, smaller(b->step, r->rows - row), r->dst + row * r->p->columns, e);
}

static void run_block(void *arg, size_t i)
{
    blocks *b = arg;
    error e = {0};
    if (compute_block(b, i, &e) == KILN_OK) return;
    pthread_mutex_lock(&b->lock);
    if (i < b->failed) b->failed = i, b->why = e;
    pthread_mutex_unlock(&b->lock);
}

/* As many terms as can go together; returns the first that cannot. */
static size_t run_round(const reading *r, size_t from, int base, error *e)
{
    blocks b = {.r = r, .from = from, .to = from, .base = base, .failed = SIZE_MAX};
    size_t all = rows_of(r->p), together = 1;
    while (b.to < r->n_term) {
        size_t more = common_multiple(together, r->term[b.to].rows);
        if (more >= all && all > 1 && (b.to > from || base)) break;
        together = more, b.to++;
        if (more >= all && all > 1) break;
    }
    b.step = together >= all ? all : block_rows(r->p, together);
    b.last = b.to == r->n_term;
    pthread_mutex_init(&b.lock, NULL);
    size_t n = (r->rows + b.step - 1) / b.step;
    if (n == 1)
        run_block(&b, 0); /* a change may want the threads itself */
    else
        pool_for(r->pool, n, run_block, &b);
    pthread_mutex_destroy(&b.lock);
    if (b.failed != SIZE_MAX) *e = b.why;
    return b.to;
}

/* Rows [row, row + rows) into r->dst. A base that is itself computed is read whole, so that it is prepared once. */
static kiln_status read_rows(reading *r, error *e)
{
    const weights_patched *p = r->p;
    weights_access how = {NULL, r->how.beside};
    error why = {0};
    int base = weights_reads_by_parts(p->base);
    if (!base) TRY(weights_read_range(p->base, how, r->row * p->columns, r->rows * p->columns, r->dst, r->pool, e));
    kiln_status status = load_terms(r, &why);
    for (size_t done = 0; status == KILN_OK && (base || done < r->n_term); base = 0) {
        done = run_round(r, done, base, &why);
        status = why.status;
    }
    unload(r);
    return status == KILN_OK ? KILN_OK : error_set(e, status, "%s", why.message);
}

/* ---- ranges ---- */

/* The rows that have elements [first, first + n), widened to what is computed together. */
static void rows_around(const weights_patched *p, size_t first, size_t n, size_t *row, size_t *rows)
{
    size_t together = weights_patched_rows(p), end = (first + n - 1) / p->columns + 1;
    *row = first / p->columns / together * together;
    *rows = smaller(round_up(end, together), rows_of(p)) - *row;
}

kiln_status weights_read_patched(const weights_entry *x, weights_access how, size_t first, size_t n, float *dst,
                                 pool *p, error *e)
{
    reading r = {.x = x, .p = x->patch, .how = how, .dst = dst, .pool = p};
    size_t columns = r.p->columns;
    rows_around(r.p, first, n, &r.row, &r.rows);
    int exact = first == r.row * columns && n == r.rows * columns;
    if (!exact && !(r.dst = mem_alloc(r.rows * columns * sizeof *dst))) return no_memory(x, e);
    kiln_status status = read_rows(&r, e);
    if (!exact && status == KILN_OK) memcpy(dst, r.dst + (first - r.row * columns), n * sizeof *dst);
    if (!exact) mem_free(r.dst);
    return status;
}

/* ---- by rows ---- */

/* The factors of one patched tensor, and what of them its rows come from; or a tensor that is stored. */
struct weights_f32_rows {
    const weights_entry *x;
    reading r;
    blocks b;
};

static int apart(const weights_entry *x, size_t width)
{
    const weights_patched *p = x->patch;
    if (x->transposed || !x->dtype || !x->bytes) return 0;
    if (!p) return weights_reads_by_parts(x);
    return weights_reads_by_parts(p->base) && weights_patched_rows(p) == 1 && width % p->columns == 0 &&
           x->begin / sizeof(float) % p->columns == 0;
}

int weights_f32_rows_apart(const kiln_weights *w, const char *name, size_t width)
{
    const weights_entry *x = weights_entry_of(w, name);
    return x && apart(x, width);
}

static kiln_status open_rows(weights_f32_rows *rows, pool *p, error *e)
{
    const weights_entry *x = rows->x;
    reading *r = &rows->r;
    size_t columns = x->patch->columns, row = (size_t)x->begin / sizeof(float) / columns;
    *r = (reading){.x = x, .p = x->patch, .pool = p, .row = row, .rows = (size_t)x->bytes / sizeof(float) / columns};
    TRY(load_terms(r, e));
    rows->b = (blocks){.r = r, .to = r->n_term, .step = block_rows(r->p, 1), .base = 1, .last = 1};
    return KILN_OK;
}

kiln_status weights_f32_rows_open(const kiln_weights *w, const char *name, pool *p, weights_f32_rows **out, error *e)
{
    weights_entry *x = weights_entry_of(w, name);
    if (!x) return weights_missing(w, name, e);
    TRY(weights_usable(x, e));
    weights_mark_entry(w, x);
    weights_f32_rows *rows = mem_calloc(1, sizeof *rows);
    if (!rows) return no_memory(x, e);
    rows->x = x;
    kiln_status status = x->patch ? open_rows(rows, p, e) : KILN_OK;
    if (status == KILN_OK)
        *out = rows;
    else
        weights_f32_rows_close(rows);
    return status;
}

void weights_f32_rows_close(weights_f32_rows *rows)
{
    if (rows) unload(&rows->r);
    mem_free(rows);
}

kiln_status weights_f32_rows_read(const weights_f32_rows *rows, size_t first, size_t n, float *dst, error *e)
{
    if (!rows->x->patch) return weights_read_range(rows->x, (weights_access){0}, first, n, dst, NULL, e);
    size_t columns = rows->r.p->columns, row = first / columns, end = row + n / columns;
    assert(first % columns == 0 && n % columns == 0 && end <= rows->r.rows);
    for (; row < end; row += rows->b.step)
        TRY(compute_rows(&rows->b, rows->r.row + row, smaller(rows->b.step, end - row), dst + (row * columns - first),
                         e));
    return KILN_OK;
}

/* ---- memory ---- */

/* What a block's work takes beside its rows. */
static size_t block_scratch(const weights_patched *p, const patch_term *t, size_t rows)
{
    if (!t->change) return t->rank ? 0 : smaller(DIFFERENCE_CHUNK, rows * p->columns) * sizeof(float);
    if (!t->change->scratch) return 0;
    kiln_weight_call c = sizes_of(p, t);
    return t->change->scratch(&c, rows) * sizeof(float);
}

size_t weights_patched_scratch(const weights_entry *x, size_t first, size_t n, size_t threads)
{
    const weights_patched *p = x->patch;
    size_t row, rows, terms = 0, nested = weights_scratch_of(p->base, threads), blocks_most = 0;
    rows_around(p, first, n, &row, &rows);
    for (const patch_term *t = p->term; t; t = t->next) {
        size_t together = rows_together(p, t),
               step = smaller(together >= rows_of(p) ? together : block_rows(p, together), rows),
               at_once = smaller(threads, (rows + step - 1) / step);
        if (t->change)
            terms += factors_bytes(t) + prepared_floats(p, t) * sizeof(float);
        else
            terms += (rows + p->columns) * t->rank * sizeof(float);
        for (uint32_t i = 0; i < t->n_from; i++)
            if (t->from[i]) nested = larger(nested, terms + weights_scratch_of(t->from[i], threads));
        if (t->rank) /* rows of down before they lie in panels */
            nested = larger(nested, terms + p->columns * rows_at_once(t->from[1], t->rank) * sizeof(float));
        blocks_most = larger(blocks_most, block_scratch(p, t, step) * at_once);
    }
    size_t most = larger(nested, terms + blocks_most);
    return most + (rows * p->columns == n ? 0 : rows * p->columns * sizeof(float));
}
