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

const uint16_t *tile_filter_panel(const tile_filter *f, const void *packed, int64_t set, int k, int64_t phase)
{
    return (const uint16_t *)packed +
           (size_t)(panel_of(f, set, k) * tile_filter_phases(f) + phase) * tile_panel_numbers(f);
}

/* ---- results ---- */

static size_t columns_of_set(const tile_filter *f) { return f->gated ? PANEL_OUTPUTS : SET_OUTPUTS; }

typedef struct {
    const float *sums;
    int64_t rows, row, apart, first; /* rows of the result, the first of its columns */
} tile_part;

static void store_by_rows(const cpu_kernel *c, const kernel_args *a, const tile_part *t)
{
    const op_desc *op = &c->op;
    const operand_desc *d = &op->in[op->n_in - 1];
    size_t n = columns_of_set(c->plan);
    for (int64_t i = 0; i < t->rows; i++) {
        float line[SET_OUTPUTS], other[SET_OUTPUTS];
        int64_t row = t->row + i * t->apart;
        for (size_t k = 0; k < n / PANEL_OUTPUTS; k++)
            memcpy(line + k * PANEL_OUTPUTS, t->sums + k * TILE_SUMS + i * PANEL_OUTPUTS, PANEL_OUTPUTS * sizeof *line);
        if (op->epilogue.residual) {
            c->k->load(other, place_of(d, a->in[op->n_in - 1], row, t->first), type_of(d), n);
            c->k->add(line, other, n);
        }
        c->k->store((char *)a->out + (size_t)(row * op->out.ld + t->first) * size_of(op->out.dtype), op->out.dtype,
                    line, n);
    }
}

void tile_set_store(const cpu_kernel *c, const kernel_args *a, const float *sums, int64_t rows, int64_t row,
                    int64_t apart, int64_t set)
{
    const op_desc *op = &c->op;
    const operand_desc *added = op->epilogue.residual ? &op->in[op->n_in - 1] : NULL;
    const tile_part t = {sums, rows, row, apart, set * (int64_t)columns_of_set(c->plan)};
    if (op->out.dtype != KILN_BF16 || (added && type_of(added) != KILN_BF16)) {
        store_by_rows(c, a, &t);
        return;
    }
    strip_result r = {.sums = sums,
                      .panels = columns_of_set(c->plan) / PANEL_OUTPUTS,
                      .to = (uint16_t *)a->out + row * op->out.ld + t.first,
                      .ld = (size_t)(apart * op->out.ld),
                      .pixels = (size_t)rows};
    if (added) {
        r.added = (const uint16_t *)(const void *)place_of(added, a->in[op->n_in - 1], row, t.first);
        r.added_ld = (size_t)(apart * added->ld);
    }
    strips_store(&r);
}

int tile_set_rows(const cpu_kernel *c, const kernel_args *a, const float *sums, int64_t rows, int64_t row, int64_t set,
                  rows_result *out)
{
    const op_desc *op = &c->op;
    const tile_filter *f = c->plan;
    const operand_desc *added = op->epilogue.residual ? &op->in[op->n_in - 1] : NULL;
    int64_t first = set * (int64_t)columns_of_set(f);
    if (op->epilogue.act || op->out.dtype != KILN_BF16 || (added && type_of(added) != KILN_BF16)) return 0;
    *out = (rows_result){.sums = sums,
                         .gated = f->gated,
                         .to = (uint16_t *)a->out + row * op->out.ld + first,
                         .ld = (size_t)op->out.ld,
                         .rows = (size_t)rows};
    for (int k = 0; k < 2 && op->in[2].dtype; k++)
        out->bias[k] = (const float *)a->in[2] + panel_of(f, set, k) * PANEL_OUTPUTS;
    if (added) {
        out->added = (const uint16_t *)(const void *)place_of(added, a->in[op->n_in - 1], row, first);
        out->added_ld = (size_t)added->ld;
    }
    return 1;
}

void tile_set_activate(const cpu_kernel *c, const kernel_args *a, float *sums, int64_t set)
{
    const op_desc *op = &c->op;
    const tile_filter *f = c->plan;
    const float *bias = op->in[2].dtype ? a->in[2] : NULL;
    if (bias)
        strips_add_bias(sums, bias + panel_of(f, set, 0) * PANEL_OUTPUTS, bias + panel_of(f, set, 1) * PANEL_OUTPUTS);
    if (op->epilogue.act) c->k->act(sums, op->epilogue.act, (size_t)2 * TILE_SUMS);
    if (f->gated) c->k->geglu(sums, sums + TILE_SUMS, TILE_SUMS);
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

/* Taps of a filter as it comes, and of all that is packed for it. */
static int64_t taps_given(const tile_filter *f) { return f->upsampled ? 9 : tile_filter_taps(f); }
static int64_t taps_packed(const tile_filter *f) { return tile_filter_phases(f) * tile_filter_taps(f); }

/* Of an upsampled picture's filter a "row" of taps is a phase. */
static block_panel words_of(const tile_filter *f)
{
    int64_t taps = tile_filter_taps(f), depth = f->inputs / STRIP_CHANNELS;
    gemm_words layout = {.outputs = PANEL_OUTPUTS,
                         .output_stride = depth * taps_packed(f) * TILE_SUMS,
                         .steps = STRIP_CHANNELS / 2,
                         .step_stride = taps * TILE_SUMS,
                         .wide = f->wide,
                         .high = f->high,
                         .high_stride = f->wide * TILE_SUMS,
                         .wide_stride = TILE_SUMS};
    if (f->upsampled)
        layout.high = tile_filter_phases(f), layout.wide = taps, layout.high_stride = depth * taps * TILE_SUMS;
    block_panel b;
    block_panel_of_words(&b, &layout, f->outputs, f->inputs, KILN_BF16, &numbers, taps_packed(f));
    return b;
}

static size_t given_row(const tile_filter *f) { return (size_t)(f->inputs * taps_given(f)); }
static size_t packed_row(const tile_filter *f) { return (size_t)(f->inputs * taps_packed(f)); }

/* Three taps of one axis as the two that an even and an odd result have over numbers of which each stands twice. */
static void add_taps(const float *w, size_t apart, float *even, float *odd)
{
    even[0] = w[0], even[1] = w[apart] + w[2 * apart];
    odd[0] = w[0] + w[apart], odd[1] = w[2 * apart];
}

/* n filters of 3x3, from the end of `rows` on, become n times 4 of 2x2, from its beginning on. */
static void upsampled_filters(float *rows, size_t n)
{
    const float *from = rows + n * (16 - 9);
    for (size_t i = 0; i < n; i++, from += 9, rows += 16) {
        float by_row[4][3]; /* even rows' two, odd rows' two */
        for (size_t x = 0; x < 3; x++) {
            float even[2], odd[2];
            add_taps(from + x, 3, even, odd);
            by_row[0][x] = even[0], by_row[1][x] = even[1], by_row[2][x] = odd[0], by_row[3][x] = odd[1];
        }
        for (size_t y = 0; y < 4; y++) {
            float *to = rows + y / 2 * 8 + y % 2 * 2;
            add_taps(by_row[y], 1, to, to + 4);
        }
    }
}

/* Rows of the strip as f32, in `rows`. */
static kiln_status read_strip(const packing *j, size_t strip, float *rows, error *e)
{
    const tile_filter *f = j->c->plan;
    size_t row = given_row(f), first = strip * PANEL_OUTPUTS * row, n = PANEL_OUTPUTS * row;
    float *to = rows + PANEL_OUTPUTS * (packed_row(f) - row);
    if (j->rows)
        TRY(j->rows->read(j->rows->self, first, n, to, e));
    else {
        kiln_status st = dtype_convert(to, KILN_F32, j->src + first * dtype_size(j->dtype), j->dtype, n);
        if (st != KILN_OK) return error_set(e, st, "weights of type %s are not supported", dtype_name(j->dtype));
    }
    if (f->upsampled) upsampled_filters(rows, PANEL_OUTPUTS * (size_t)f->inputs);
    return KILN_OK;
}

static kiln_status pack_strip(void *arg, size_t strip, unsigned slot, error *e)
{
    const packing *j = arg;
    const tile_filter *f = j->c->plan;
    block_panel panel = words_of(f);
    char *own = j->scratch + slot * j->c->base.pack_scratch[1];
    row_form form = numbers;
    block_rows from = {.form = &form, .data = j->src, .half = f->outputs, .inputs = f->inputs};
    if (j->rows || f->upsampled || !(j->dtype == KILN_F32 || j->dtype == KILN_BF16 || j->dtype == KILN_F16)) {
        float *rows = (float *)(void *)(own + block_panel_scratch(&panel));
        TRY(read_strip(j, strip, rows, e));
        from.data = (const char *)rows, from.first = -(int64_t)(strip * PANEL_OUTPUTS);
    } else
        form.type = j->dtype;
    form.block_bytes = size_of(form.type), form.row_bytes = packed_row(f) * form.block_bytes;
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
    c->base.pack_scratch[1] = round_up(block_panel_scratch(&panel) + PANEL_OUTPUTS * packed_row(f) * sizeof(float), 64);
    c->base.packed_bytes[1] = (size_t)f->outputs * packed_row(f) * 2;
    snprintf(c->base.pack_form[1], sizeof c->base.pack_form[1], "tiles:bf16:%lldx%lld%s", (long long)f->high,
             (long long)f->wide, f->upsampled ? ":upsampled" : "");
    c->base.name = f->upsampled ? "tiles:amx_bf16:upsampled" : "tiles:amx_bf16";
}
#endif
