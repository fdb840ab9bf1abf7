/* gemm.c - see gemm.h. A tile widens its part of the operand and of the weights where storage and arithmetic differ,
 * runs its GEMM into f32 scratch, and finishes the rows while they are in cache: activation, GEGLU, residual, rounding.
 * Tiles are dealt out column tile by column tile, so a thread mostly finds the weights it has widened last.
 */
#include "backend/cpu/gemm.h"

#include "base/memory_alloc.h"
#include "tensor/dtype.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { MAX_SLOTS = 64, CHUNK = 1024 };

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    int64_t widened[MAX_SLOTS]; /* [slot] the column tile whose weights it has widened; -1: none */
    size_t whole;               /* of blocks: column tiles that one thread widens and multiplies */
} call;

/* ---- running ---- */

void gemm_convert_row(const cpu_kernels *k, void *dst, uint32_t to, const void *src, uint32_t from, size_t n)
{
    float chunk[CHUNK];
    if (to == from) {
        memcpy(dst, src, n * size_of(to));
        return;
    }
    if (to == KILN_F32) {
        k->load(dst, src, from, n);
        return;
    }
    for (size_t i = 0; i < n; i += CHUNK) {
        size_t width = n - i < CHUNK ? n - i : CHUNK;
        const float *numbers = from == KILN_F32 ? (const float *)src + i : chunk;
        if (from != KILN_F32) k->load(chunk, (const char *)src + i * size_of(from), from, width);
        k->store((char *)dst + i * size_of(to), to, numbers, width);
    }
}

/* The row tile's rows, dense and in the type of the arithmetic. */
static const void *operand_rows_of(const call *j, const tiled_gemm *g, const row_tile *b, char *buffer)
{
    const operand_desc *x = &j->c->op.in[0];
    if (!g->a_bytes) return place_of(x, j->a->in[0], b->in, 0);
    size_t row = (size_t)g->k * size_of(g->type);
    if (!x->weight && x->ld == g->k) {
        gemm_convert_row(j->c->k, buffer, g->type, place_of(x, j->a->in[0], b->in, 0), x->dtype,
                         (size_t)(b->n_in * g->k));
        return buffer;
    }
    for (int64_t r = 0; r < b->n_in; r++)
        gemm_convert_row(j->c->k, buffer + (size_t)r * row, g->type, place_of(x, j->a->in[0], b->in + r, 0), type_of(x),
                         (size_t)g->k);
    return buffer;
}

void gemm_finish_row(const cpu_kernel *c, const kernel_args *a, float *row, int64_t first, int64_t width, int64_t r)
{
    const op_desc *op = &c->op;
    const cpu_kernels *k = c->k;
    size_t n = (size_t)width;
    if (op->epilogue.act) k->act(row, op->epilogue.act, n);
    if (op->epilogue.geglu) k->geglu(row, row + width, n);
    if (op->epilogue.residual) {
        const operand_desc *d = &op->in[op->n_in - 1];
        float other[CHUNK];
        for (size_t i = 0; i < n; i += CHUNK) {
            size_t some = n - i < CHUNK ? n - i : CHUNK;
            k->load(other, place_of(d, a->in[op->n_in - 1], r, first + (int64_t)i), type_of(d), some);
            k->add(row + i, other, some);
        }
    }
    k->store((char *)a->out + (size_t)(r * op->out.ld + first) * size_of(op->out.dtype), op->out.dtype, row, n);
}

/* Scratch of a slot, part by part. */
static char *slot_at(const call *j, const tiled_gemm *g, unsigned slot)
{
    assert(slot < MAX_SLOTS);
    return (char *)j->a->scratch + slot * g->slot_bytes;
}
static char *weights_at(const call *j, const tiled_gemm *g, unsigned slot) { return slot_at(j, g, slot) + g->a_bytes; }
static char *strip_at(const call *j, const tiled_gemm *g, unsigned slot)
{
    return weights_at(j, g, slot) + g->b_bytes + g->c_bytes + g->own_bytes;
}

static kiln_status run_tile(const call *j, const row_tile *rows, const column_tile *columns, const void *weights,
                            unsigned slot, error *e)
{
    const tiled_gemm *g = j->c->plan;
    const gemm *p = g->gemms[rows->variant][columns->variant];
    float *c = (float *)(void *)(weights_at(j, g, slot) + g->b_bytes);
    const void *a = operand_rows_of(j, g, rows, slot_at(j, g, slot));
    const float *bias =
        j->c->op.in[2].dtype ? (const float *)j->a->in[2] + (columns->first * columns->n / columns->width) : NULL;
    TRY(gemm_run(p, a, weights, bias, c, (char *)c + g->c_bytes, e));
    for (int64_t r = 0; r < rows->n_out; r++)
        gemm_finish_row(j->c, j->a, c + r * columns->n, columns->first, columns->width, rows->out + r);
    return KILN_OK;
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    call *j = arg;
    const tiled_gemm *g = j->c->plan;
    assert(index < g->n_row_tiles * g->n_column_tiles);
    const row_tile *rows = &g->row_tiles[index % g->n_row_tiles];
    const column_tile *columns = &g->column_tiles[index / g->n_row_tiles];
    const gemm *p = g->gemms[rows->variant][columns->variant];
    char *weights = weights_at(j, g, slot);
    const void *b = (const char *)j->a->in[1] + columns->packed * size_of(g->stored);
    if (g->b_bytes && j->widened[slot] != (int64_t)(index / g->n_row_tiles)) {
        j->c->k->load((float *)(void *)weights, b, g->stored, gemm_weight_bytes(p) / sizeof(float));
        j->widened[slot] = (int64_t)(index / g->n_row_tiles);
    }
    return run_tile(j, rows, columns, g->b_bytes ? weights : b, slot, e);
}

/* ---- running, of weights that are rows of codes ----
 *
 * Each is widened once a call: a thread takes a column tile as a whole, its weights in the slot's scratch. The last
 * ones, fewer than threads, are widened by all together, each into one slot's scratch, and multiplied by all. */

static block_rows rows_of_tile(const call *j, const tiled_gemm *g, const column_tile *b)
{
    int64_t half = columns_of(&j->c->op.out); /* geglu's gates follow its values */
    return (block_rows){.form = &g->blocks,
                        .data = j->a->in[1],
                        .first = b->first,
                        .half = b->width,
                        .second = half + b->first,
                        .inputs = g->panels[b->variant].inputs};
}

static kiln_status whole_column_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const tiled_gemm *g = j->c->plan;
    const column_tile *columns = &g->column_tiles[index];
    block_rows rows = rows_of_tile(j, g, columns);
    char *weights = weights_at(j, g, slot);
    TRY(block_panel_fill(j->c->k, &g->panels[columns->variant], &rows, weights, strip_at(j, g, slot), e));
    for (size_t r = 0; r < g->n_row_tiles; r++) TRY(run_tile(j, &g->row_tiles[r], columns, weights, slot, e));
    return KILN_OK;
}

static size_t strips_of(const tiled_gemm *g) { return (size_t)block_panel_strips(&g->panels[0]); } /* or fewer */

static kiln_status shared_strip(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const tiled_gemm *g = j->c->plan;
    size_t shared = index / strips_of(g);
    const column_tile *columns = &g->column_tiles[j->whole + shared];
    const block_panel *p = &g->panels[columns->variant];
    block_rows rows = rows_of_tile(j, g, columns);
    int64_t strip = (int64_t)(index % strips_of(g));
    if (strip >= block_panel_strips(p)) return KILN_OK;
    return block_panel_strip(j->c->k, p, &rows, strip, weights_at(j, g, (unsigned)shared), strip_at(j, g, slot), e);
}

static kiln_status shared_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const tiled_gemm *g = j->c->plan;
    size_t shared = index / g->n_row_tiles;
    return run_tile(j, &g->row_tiles[index % g->n_row_tiles], &g->column_tiles[j->whole + shared],
                    weights_at(j, g, (unsigned)shared), slot, e);
}

static kiln_status run_blocks(call *j, pool *p, error *e)
{
    const tiled_gemm *g = j->c->plan;
    size_t threads = p ? pool_threads(p) : 1;
    if (threads > cpu_slots()) threads = cpu_slots();
    size_t shared = g->n_column_tiles % threads;
    j->whole = g->n_column_tiles - shared;
    TRY(tiles_run(p, j->whole, whole_column_tile, j, e));
    if (!shared) return KILN_OK;
    for (size_t i = 0; i < shared; i++)
        block_panel_clear(&g->panels[g->column_tiles[j->whole + i].variant], weights_at(j, g, (unsigned)i));
    TRY(tiles_run(p, shared * strips_of(g), shared_strip, j, e));
    return tiles_run(p, shared * g->n_row_tiles, shared_tile, j, e);
}

static kiln_status tiled_gemm_run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const tiled_gemm *g = c->plan;
    call j = {.c = c, .a = a};
    if (g->blocks.block) return run_blocks(&j, a->pool, e);
    for (size_t i = 0; i < MAX_SLOTS; i++) j.widened[i] = -1;
    return tiles_run(a->pool, g->n_row_tiles * g->n_column_tiles, tile, &j, e);
}

/* ---- packing ----
 *
 * A task is the rows of some strips of a column tile, as many as stand side by side in the layout. They are read where
 * they lie, if the kernels read their type, else they are numbers in the slot's scratch first. */

typedef struct {
    const cpu_kernel *c;
    const row_source *rows; /* or NULL: */
    const char *src;
    uint32_t dtype;
    row_form form;       /* of src as it is read where it lies; block 0: it is not */
    char *dst, *scratch; /* pack_scratch bytes a slot */
} packing;

static kiln_status read_rows(const packing *j, size_t first, size_t n, float *to, error *e)
{
    if (j->rows) return j->rows->read(j->rows->self, first, n, to, e);
    kiln_status st = dtype_convert(to, KILN_F32, j->src + first * dtype_size(j->dtype), j->dtype, n);
    return st == KILN_OK ? st : error_set(e, st, "weights of type %s are not supported", dtype_name(j->dtype));
}

/* Rows [begin, end) of what a column tile is made of, as f32: geglu's gates follow its values. */
static kiln_status gather_rows(const packing *j, const column_tile *b, int64_t begin, int64_t end, size_t width,
                               float *to, error *e)
{
    int64_t half = columns_of(&j->c->op.out);
    for (int64_t row = begin, n; row < end; row += n, to += (size_t)n * width) {
        int64_t part = row / b->width, within = row % b->width;
        n = min64(end - row, b->width - within);
        TRY(read_rows(j, (size_t)(b->first + part * half + within) * width, (size_t)n * width, to, e));
    }
    return KILN_OK;
}

static size_t packed_width(const cpu_kernel *c)
{
    return (size_t)(shape_count(&c->op.in[1].shape) / c->op.in[1].shape.dim[0]);
}

/* Of a layout that is not known everything is one strip, and one task. */
static int64_t strips_of_task(const block_panel *p)
{
    return p->layout.outputs ? p->layout.outputs / BLOCK_PANEL_ROWS : 1;
}
static int64_t rows_of_task(const block_panel *p) { return p->layout.outputs ? p->layout.outputs : p->n; }
static int64_t tasks_of(const block_panel *p)
{
    return (block_panel_strips(p) + strips_of_task(p) - 1) / strips_of_task(p);
}
/* A stored type that is not the arithmetic's is made of whole column tiles. */
static int packs_whole_tiles(const tiled_gemm *g) { return g->type != g->stored; }
static int64_t pack_tasks(const tiled_gemm *g) { return packs_whole_tiles(g) ? 1 : tasks_of(&g->panels[0]); }

/* A slot's scratch is a strip's, then a task's rows as numbers, then a column tile where those are packed whole. */
static size_t gathered_bytes(const block_panel *p, size_t width)
{
    return round_up((size_t)rows_of_task(p) * width * sizeof(float), 64);
}

static kiln_status pack_strips(const packing *j, const column_tile *b, int64_t task, void *to, char *own, error *e)
{
    const tiled_gemm *g = j->c->plan;
    const block_panel *p = &g->panels[b->variant];
    size_t width = packed_width(j->c);
    int64_t begin = task * rows_of_task(p), end = min64(begin + rows_of_task(p), p->n), strips = strips_of_task(p),
            last = min64((task + 1) * strips, block_panel_strips(p));
    float *numbers = (float *)(void *)(own + block_panel_scratch(p));
    row_form as_numbers = {.type = KILN_F32, .block = 1, .block_bytes = 4, .row_bytes = width * sizeof(float)};
    block_rows from = {.form = &j->form,
                       .data = j->src,
                       .first = b->first,
                       .half = b->width,
                       .second = columns_of(&j->c->op.out) + b->first,
                       .inputs = p->inputs};
    if (!j->form.block) {
        TRY(gather_rows(j, b, begin, end, width, numbers, e));
        from.form = &as_numbers, from.data = (const char *)numbers, from.first = -begin, from.half = b->n;
    }
    for (int64_t i = task * strips; i < last; i++) TRY(block_panel_strip(j->c->k, p, &from, i, to, own, e));
    return KILN_OK;
}

static kiln_status pack_whole(const packing *j, const column_tile *b, char *dst, char *own, error *e)
{
    const tiled_gemm *g = j->c->plan;
    const block_panel *p = &g->panels[b->variant];
    char *tile = own + block_panel_scratch(p) + gathered_bytes(p, packed_width(j->c));
    block_panel_clear(p, tile);
    for (int64_t i = 0; i < tasks_of(p); i++) TRY(pack_strips(j, b, i, tile, own, e));
    j->c->k->store(dst, g->stored, (const float *)(const void *)tile, gemm_weight_bytes(p->to) / size_of(g->type));
    return KILN_OK;
}

static kiln_status pack_task(void *arg, size_t index, unsigned slot, error *e)
{
    const packing *j = arg;
    const tiled_gemm *g = j->c->plan;
    const column_tile *b = &g->column_tiles[(int64_t)index / pack_tasks(g)];
    int64_t task = (int64_t)index % pack_tasks(g);
    char *own = j->scratch + slot * j->c->base.pack_scratch[1], *dst = j->dst + b->packed * size_of(g->stored);
    if (packs_whole_tiles(g)) return pack_whole(j, b, dst, own, e);
    return task < tasks_of(&g->panels[b->variant]) ? pack_strips(j, b, task, dst, own, e) : KILN_OK;
}

static kiln_status pack_filter(const packing *j, pool *p, error *e)
{
    const tiled_gemm *g = j->c->plan;
    for (size_t i = 0; i < g->n_column_tiles && !packs_whole_tiles(g); i++)
        block_panel_clear(&g->panels[g->column_tiles[i].variant],
                          j->dst + g->column_tiles[i].packed * size_of(g->stored));
    return tiles_run(p, g->n_column_tiles * (size_t)pack_tasks(g), pack_task, (void *)(uintptr_t)j, e);
}

/* geglu: the bias in the order of the column tiles */
static kiln_status pack_bias(const cpu_kernel *c, const void *src, uint32_t dtype, float *dst, error *e)
{
    const tiled_gemm *g = c->plan;
    packing j = {.c = c, .src = src, .dtype = dtype};
    for (size_t i = 0; i < g->n_column_tiles; i++) {
        const column_tile *b = &g->column_tiles[i];
        TRY(gather_rows(&j, b, 0, b->n, 1, dst + b->first * b->n / b->width, e));
    }
    return KILN_OK;
}

static kiln_status tiled_gemm_pack_in(const kernel *k, uint32_t operand, const void *src, uint32_t dtype, void *dst,
                                      void *scratch, pool *p, error *e)
{
    const cpu_kernel *c = (const cpu_kernel *)k;
    const tiled_gemm *g = c->plan;
    if (operand == 2) return pack_bias(c, src, dtype, dst, e);
    if (operand == 1 && g->blocks.block) return rows_pack(k, operand, src, dtype, dst, p, e);
    if (operand != 1) { /* an operand that happens to be a constant */
        kiln_status st = dtype_convert(dst, KILN_F32, src, dtype, (size_t)shape_count(&c->op.in[operand].shape));
        return st == KILN_OK ? st : error_set(e, st, "constants of type %s are not supported", dtype_name(dtype));
    }
    packing j = {.c = c, .src = src, .dtype = dtype, .dst = dst, .scratch = scratch};
    if (dtype == KILN_F32 || dtype == KILN_BF16 || dtype == KILN_F16)
        j.form = (row_form){
            .type = dtype, .block = 1, .block_bytes = size_of(dtype), .row_bytes = packed_width(c) * size_of(dtype)};
    return pack_filter(&j, p, e);
}

static kiln_status tiled_gemm_pack_rows(const kernel *k, uint32_t operand, const row_source *src, void *dst,
                                        void *scratch, pool *p, error *e)
{
    const cpu_kernel *c = (const cpu_kernel *)k;
    packing j = {.c = c, .rows = src, .dst = dst, .scratch = scratch};
    assert(k->pack_tiles[operand]);
    (void)operand;
    return pack_filter(&j, p, e);
}

static kiln_status tiled_gemm_pack(const kernel *k, uint32_t operand, const void *src, uint32_t dtype, void *dst,
                                   pool *p, error *e)
{
    size_t bytes = k->pack_scratch[operand] * cpu_slots();
    void *scratch = bytes ? mem_aligned(64, bytes) : NULL;
    if (bytes && !scratch) return error_set(e, KILN_ERR_NOMEM, "out of memory for packing weights");
    kiln_status st = tiled_gemm_pack_in(k, operand, src, dtype, dst, scratch, p, e);
    mem_free(scratch);
    return st;
}

/* ---- making ---- */

static void tiled_gemm_free(void *plan)
{
    tiled_gemm *g = plan;
    if (!g) return;
    for (uint32_t v = 0; v < GEMM_VARIANTS; v++)
        for (uint32_t i = 0; i < 2; i++) gemm_free(g->gemms[v][i]);
    mem_free(g->row_tiles);
    mem_free(g->column_tiles);
    mem_free(g);
}

kiln_status tiled_gemm_new(cpu_kernel *c, int64_t columns, int64_t width, size_t n_row_tiles, error *e)
{
    assert(columns > 0 && width > 0);
    const op_desc *op = &c->op;
    if (!op->in[1].weight || (op->in[2].dtype && !op->in[2].weight))
        return error_set(e, KILN_ERR_UNSUPPORTED, "%s: the filter and the bias must be weights or constants",
                         op_name(op->kind));
    tiled_gemm *g = mem_calloc(1, sizeof *g);
    if (!g) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->plan = g, c->plan_free = tiled_gemm_free, c->body = tiled_gemm_run, c->base.pack = tiled_gemm_pack,
    c->base.pack_in = tiled_gemm_pack_in, c->base.pack_rows = tiled_gemm_pack_rows;
    g->type = cpu_gemm_type(op->precision);
    g->stored = op->precision == KILN_BF16 ? KILN_BF16 : KILN_F32;
    if (rows_are_coded(op, 1)) g->blocks = rows_form(op, 1);
    g->k = columns_of(&op->in[0]);
    g->n_row_tiles = n_row_tiles;
    g->n_column_tiles = (size_t)((columns + width - 1) / width);
    g->row_tiles = mem_calloc(n_row_tiles ? n_row_tiles : 1, sizeof *g->row_tiles);
    g->column_tiles = mem_calloc(g->n_column_tiles ? g->n_column_tiles : 1, sizeof *g->column_tiles);
    if (!g->row_tiles || !g->column_tiles) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    for (size_t i = 0; i < g->n_column_tiles; i++) {
        column_tile *b = &g->column_tiles[i];
        b->first = (int64_t)i * width;
        b->width = min64(width, columns - b->first);
        b->n = op->epilogue.geglu ? 2 * b->width : b->width;
        b->variant = b->width == width ? 0 : 1;
    }
    return KILN_OK;
}

kiln_status tiled_gemm_variant(cpu_kernel *c, uint32_t v, const gemm_shape *s, error *e)
{
    assert(v < GEMM_VARIANTS);
    tiled_gemm *g = c->plan;
    for (size_t i = 0; i < g->n_column_tiles; i++) {
        const column_tile *b = &g->column_tiles[i];
        gemm **p = &g->gemms[v][b->variant];
        if (*p) continue;
        gemm_shape own = *s;
        own.type = g->type, own.bias = c->op.in[2].dtype != 0, own.n = b->n;
        TRY(gemm_new(&own, v ? g->gemms[0][b->variant] : NULL, p, e));
    }
    return KILN_OK;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Where a column tile's packed weights are, and what packing and widening them takes. */
static void measure_packed(cpu_kernel *c, column_tile *b, size_t width)
{
    tiled_gemm *g = c->plan;
    size_t bytes = gemm_weight_bytes(g->gemms[0][b->variant]);
    const gemm_shape *s = gemm_shape_of(g->gemms[0][b->variant]);
    block_panel *p = &g->panels[b->variant];
    block_panel_make(p, g->gemms[0][b->variant], g->type, &(row_form){.block = 1},
                     (int64_t)width / (s->conv ? s->i : s->k));
    b->packed = g->packed_elements;
    g->packed_elements += round_up(bytes / size_of(g->type), 64);
    if (g->type != g->stored) g->b_bytes = larger(g->b_bytes, round_up(bytes, 64));
    size_t own = block_panel_scratch(p) + gathered_bytes(p, width);
    if (packs_whole_tiles(g)) own += round_up(bytes, 64);
    c->base.pack_scratch[1] = larger(c->base.pack_scratch[1], own);
}

static void measure_panel(tiled_gemm *g, const column_tile *b, int64_t width)
{
    const gemm *p = g->gemms[0][b->variant];
    const gemm_shape *s = gemm_shape_of(p);
    block_panel_make(&g->panels[b->variant], p, g->type, &g->blocks, width / (s->conv ? s->i : s->k));
    g->b_bytes = larger(g->b_bytes, round_up(gemm_weight_bytes(p), 64));
    g->strip_bytes = larger(g->strip_bytes, block_panel_scratch(&g->panels[b->variant]));
}

int64_t tiled_gemm_width(int64_t k, int64_t least, int64_t most)
{
    int64_t width = (1 << 18) / k / 64 * 64;
    return width < least ? least : width > most ? most : width;
}

kiln_status tiled_gemm_finish(cpu_kernel *c, error *e)
{
    tiled_gemm *g = c->plan;
    const operand_desc *x = &c->op.in[0];
    size_t own = 0, rows_in = 0, rows_out = 0, n = 0;
    uint64_t layout = 0;
    size_t width = (size_t)(shape_count(&c->op.in[1].shape) / c->op.in[1].shape.dim[0]);
    (void)e;
    for (size_t i = 0; i < g->n_row_tiles; i++) {
        rows_in = larger(rows_in, (size_t)g->row_tiles[i].n_in);
        rows_out = larger(rows_out, (size_t)g->row_tiles[i].n_out);
        for (uint32_t k = 0; k < 2; k++) {
            const gemm *p = g->gemms[g->row_tiles[i].variant][k];
            if (p) own = larger(own, gemm_scratch_bytes(p));
        }
    }
    for (size_t i = 0; i < g->n_column_tiles; i++) {
        column_tile *b = &g->column_tiles[i];
        const gemm *p = g->gemms[0][b->variant];
        n = larger(n, (size_t)b->n);
        layout ^= (gemm_layout(p) + 0x9e3779b97f4a7c15u * (i + 1)) * 0x100000001b3u;
        if (i == 0) c->base.name = gemm_name(p);
        if (g->blocks.block)
            measure_panel(g, b, (int64_t)width);
        else
            measure_packed(c, b, width);
    }
    if (x->weight || x->ld != g->k || x->dtype != g->type)
        g->a_bytes = round_up(rows_in * (size_t)g->k * size_of(g->type), 64);
    g->c_bytes = round_up(rows_out * n * sizeof(float), 64);
    g->own_bytes = round_up(own, 64);
    g->slot_bytes = g->a_bytes + g->b_bytes + g->c_bytes + g->own_bytes + g->strip_bytes;
    c->base.scratch_bytes = cpu_slots() * g->slot_bytes;
    if (c->op.in[2].dtype && c->op.epilogue.geglu)
        snprintf(c->base.pack_form[2], sizeof c->base.pack_form[2], "f32:geglu:%lld",
                 (long long)g->column_tiles[0].width);
    if (g->blocks.block) {
        rows_keep(c, 1);
        c->base.pack = tiled_gemm_pack;
        return KILN_OK;
    }
    size_t tasks = g->n_column_tiles * (size_t)pack_tasks(g);
    c->base.pack_tiles[1] = tasks < cpu_slots() ? tasks : cpu_slots();
    c->base.packed_bytes[1] = g->packed_elements * size_of(g->stored);
    snprintf(c->base.pack_form[1], sizeof c->base.pack_form[1], "onednn:%s:%zu:%016llx%s", dtype_name(g->stored),
             g->n_column_tiles, (unsigned long long)layout, c->op.epilogue.geglu ? ":geglu" : "");
    return KILN_OK;
}
