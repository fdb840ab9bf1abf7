/* tile_products.c - see tile_products.h. */
#include "backend/cpu/tile_products.h"

#include "backend/cpu/block_panel.h"
#include "backend/cpu/row_forms.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#if defined __x86_64__
int tile_products_fit(const op_desc *op)
{
    uint32_t type = type_of(&op->in[0]);
    return cpu_level_get() == CPU_AMX && cpu_gemm_type(op->precision) == KILN_BF16 && op->in[1].weight &&
           !rows_are_coded(op, 1) && !op->in[0].weight && (!op->in[2].dtype || op->in[2].weight) &&
           (type == KILN_BF16 || type == KILN_F32);
}

/* GEGLU's gates follow its values. */
static int64_t panel_of(const tile_filter *f, int64_t set, int k)
{
    return f->gated ? set + k * tile_filter_sets(f) : 2 * set + k;
}

const uint16_t *tile_filter_panel(const tile_filter *f, const void *packed, int64_t set, int k)
{
    return (const uint16_t *)packed + (size_t)panel_of(f, set, k) * tile_panel_numbers(f);
}

/* ---- results ---- */

static size_t columns_of_set(const tile_filter *f) { return f->gated ? PANEL_OUTPUTS : SET_OUTPUTS; }

static void store_by_rows(const cpu_kernel *c, const kernel_args *a, const float *sums, int64_t rows, int64_t row,
                          int64_t first)
{
    const op_desc *op = &c->op;
    const operand_desc *d = &op->in[op->n_in - 1];
    size_t n = columns_of_set(c->plan);
    for (int64_t i = 0; i < rows; i++) {
        float line[SET_OUTPUTS], other[SET_OUTPUTS];
        for (size_t t = 0; t < n / PANEL_OUTPUTS; t++)
            memcpy(line + t * PANEL_OUTPUTS, sums + t * TILE_SUMS + i * PANEL_OUTPUTS, PANEL_OUTPUTS * sizeof *line);
        if (op->epilogue.residual) {
            c->k->load(other, place_of(d, a->in[op->n_in - 1], row + i, first), type_of(d), n);
            c->k->add(line, other, n);
        }
        c->k->store((char *)a->out + (size_t)((row + i) * op->out.ld + first) * size_of(op->out.dtype), op->out.dtype,
                    line, n);
    }
}

static void store(const cpu_kernel *c, const kernel_args *a, const float *sums, int64_t rows, int64_t row,
                  int64_t first)
{
    const op_desc *op = &c->op;
    const operand_desc *added = op->epilogue.residual ? &op->in[op->n_in - 1] : NULL;
    if (op->out.dtype != KILN_BF16 || (added && type_of(added) != KILN_BF16)) {
        store_by_rows(c, a, sums, rows, row, first);
        return;
    }
    strip_result r = {.sums = sums,
                      .panels = columns_of_set(c->plan) / PANEL_OUTPUTS,
                      .to = (uint16_t *)a->out + row * op->out.ld + first,
                      .ld = (size_t)op->out.ld,
                      .pixels = (size_t)rows};
    if (added) {
        r.added = (const uint16_t *)(const void *)place_of(added, a->in[op->n_in - 1], row, first);
        r.added_ld = (size_t)added->ld;
    }
    strips_store(&r);
}

void tile_set_finish(const cpu_kernel *c, const kernel_args *a, float *sums, int64_t rows, int64_t row, int64_t set)
{
    const op_desc *op = &c->op;
    const tile_filter *f = c->plan;
    const float *bias = op->in[2].dtype ? a->in[2] : NULL;
    if (bias)
        strips_add_bias(sums, bias + panel_of(f, set, 0) * PANEL_OUTPUTS, bias + panel_of(f, set, 1) * PANEL_OUTPUTS);
    if (op->epilogue.act) c->k->act(sums, op->epilogue.act, (size_t)2 * TILE_SUMS);
    if (f->gated) c->k->geglu(sums, sums + TILE_SUMS, TILE_SUMS);
    store(c, a, sums, rows, row, set * (int64_t)columns_of_set(f));
}

/* ---- packing ---- */

typedef struct {
    const cpu_kernel *c;
    const row_source *rows; /* or NULL: */
    const char *src;
    uint32_t dtype;
    char *dst, *scratch; /* pack_scratch bytes a slot */
} packing;

static const row_form numbers = {.type = KILN_F32, .block = 1, .block_bytes = sizeof(float)};

static block_panel words_of(const tile_filter *f)
{
    int64_t taps = tile_filter_taps(f);
    const gemm_words layout = {.outputs = PANEL_OUTPUTS,
                               .output_stride = f->inputs / STRIP_CHANNELS * taps * TILE_SUMS,
                               .steps = STRIP_CHANNELS / 2,
                               .step_stride = taps * TILE_SUMS,
                               .wide = f->wide,
                               .high = f->high,
                               .high_stride = f->wide * TILE_SUMS,
                               .wide_stride = TILE_SUMS};
    block_panel b;
    block_panel_of_words(&b, &layout, f->outputs, f->inputs, KILN_BF16, &numbers, taps);
    return b;
}

static size_t filter_row(const tile_filter *f) { return (size_t)(f->inputs * tile_filter_taps(f)); }

static kiln_status pack_strip(void *arg, size_t strip, unsigned slot, error *e)
{
    const packing *j = arg;
    const tile_filter *f = j->c->plan;
    block_panel panel = words_of(f);
    size_t row = filter_row(f), first = strip * PANEL_OUTPUTS;
    char *own = j->scratch + slot * j->c->base.pack_scratch[1];
    row_form form = numbers;
    block_rows from = {.form = &form, .data = j->src, .half = f->outputs, .inputs = f->inputs};
    if (j->rows || !(j->dtype == KILN_F32 || j->dtype == KILN_BF16 || j->dtype == KILN_F16)) {
        float *rows = (float *)(void *)(own + block_panel_scratch(&panel));
        if (j->rows) {
            TRY(j->rows->read(j->rows->self, first * row, PANEL_OUTPUTS * row, rows, e));
        } else {
            kiln_status st = dtype_convert(rows, KILN_F32, j->src + first * row * dtype_size(j->dtype), j->dtype,
                                           PANEL_OUTPUTS * row);
            if (st != KILN_OK) return error_set(e, st, "weights of type %s are not supported", dtype_name(j->dtype));
        }
        from.data = (const char *)rows, from.first = -(int64_t)first;
    } else
        form.type = j->dtype;
    form.block_bytes = size_of(form.type), form.row_bytes = row * form.block_bytes;
    return block_panel_strip(j->c->k, &panel, &from, (int64_t)strip, j->dst, own, e);
}

static kiln_status pack_filter(packing *j, pool *q, error *e)
{
    return tiles_run(q, (size_t)((const tile_filter *)j->c->plan)->outputs / PANEL_OUTPUTS, pack_strip, j, e);
}

static kiln_status pack_in(const kernel *k, uint32_t operand, const void *src, uint32_t dtype, void *dst, void *scratch,
                           pool *q, error *e)
{
    const cpu_kernel *c = (const cpu_kernel *)k;
    packing j = {.c = c, .src = src, .dtype = dtype, .dst = dst, .scratch = scratch};
    if (operand == 1) return pack_filter(&j, q, e);
    kiln_status st = dtype_convert(dst, KILN_F32, src, dtype, (size_t)shape_count(&c->op.in[operand].shape));
    return st == KILN_OK ? st : error_set(e, st, "constants of type %s are not supported", dtype_name(dtype));
}

static kiln_status pack(const kernel *k, uint32_t operand, const void *src, uint32_t dtype, void *dst, pool *q,
                        error *e)
{
    size_t bytes = k->pack_scratch[operand] * cpu_slots();
    void *scratch = bytes ? mem_aligned(64, bytes) : NULL;
    if (bytes && !scratch) return error_set(e, KILN_ERR_NOMEM, "out of memory for packing weights");
    kiln_status st = pack_in(k, operand, src, dtype, dst, scratch, q, e);
    mem_free(scratch);
    return st;
}

static kiln_status pack_rows(const kernel *k, uint32_t operand, const row_source *src, void *dst, void *scratch,
                             pool *q, error *e)
{
    packing j = {.c = (const cpu_kernel *)k, .rows = src, .dst = dst, .scratch = scratch};
    assert(k->pack_tiles[operand] && scratch);
    (void)operand;
    return pack_filter(&j, q, e);
}

void tile_filter_keep(cpu_kernel *c)
{
    const tile_filter *f = c->plan;
    block_panel panel = words_of(f);
    size_t strips = (size_t)f->outputs / PANEL_OUTPUTS;
    assert(f->outputs % SET_OUTPUTS == 0 && f->inputs % STRIP_CHANNELS == 0);
    c->base.pack = pack, c->base.pack_in = pack_in, c->base.pack_rows = pack_rows;
    c->base.pack_tiles[1] = strips < cpu_slots() ? strips : cpu_slots();
    c->base.pack_scratch[1] = round_up(block_panel_scratch(&panel) + PANEL_OUTPUTS * filter_row(f) * sizeof(float), 64);
    c->base.packed_bytes[1] = (size_t)f->outputs * filter_row(f) * 2;
    snprintf(c->base.pack_form[1], sizeof c->base.pack_form[1], "tiles:bf16:%lldx%lld", (long long)f->high,
             (long long)f->wide);
    c->base.name = "tiles:amx_bf16";
}
#endif
