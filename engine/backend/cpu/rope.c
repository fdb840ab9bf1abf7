/* rope.c - pairs of columns turned by given tables: a row is loaded, its heads are turned in cache, and stored. */
#include "backend/cpu/cpu.h"

enum { TILE_ELEMENTS = 1 << 16 };

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    int64_t rows, columns, rows_per_tile;
} call;

/* The table's row for head h of row r. */
static const float *table_row(const call *j, uint32_t i, int64_t r, int64_t h)
{
    const operand_desc *d = &j->c->op.in[i];
    int64_t T = j->c->op.in[0].shape.dim[1], n = d->shape.dim[0] == 1 ? 0 : r / T;
    int64_t row = (n * T + r % T) * d->shape.dim[2] + (d->shape.dim[2] == 1 ? 0 : h);
    return (const float *)(const void *)place_of(d, j->a->in[i], row, 0);
}

static void turn(const call *j, float *x, int64_t r)
{
    const op_desc *op = &j->c->op;
    int64_t heads = op->attr.rope.heads, D = j->columns / heads, half = op->attr.rope.rotary / 2;
    for (int64_t h = 0; h < heads; h++, x += D) {
        const float *c = table_row(j, 1, r, h), *s = table_row(j, 2, r, h);
        if (op->attr.rope.interleaved)
            j->c->k->rope_pairs(x, c, s, (size_t)half);
        else
            j->c->k->rope_halves(x, x + half, c, s, (size_t)half);
    }
}

/* The same of a row of bf16 all of which is turned. */
static void turn_half(const call *j, int64_t r)
{
    const op_desc *op = &j->c->op;
    const uint16_t *x = (const uint16_t *)(const void *)place_of(&op->in[0], j->a->in[0], r, 0);
    uint16_t *to = (uint16_t *)j->a->out + r * op->out.ld;
    int64_t D = op->attr.rope.rotary;
    for (int64_t h = 0; h < op->attr.rope.heads; h++, x += D, to += D) {
        const float *c = table_row(j, 1, r, h), *s = table_row(j, 2, r, h);
        if (op->attr.rope.interleaved)
            j->c->k->rope_pairs_half(to, x, c, s, (size_t)(D / 2), j->c->past);
        else
            j->c->k->rope_halves_half(to, x, c, s, (size_t)(D / 2), j->c->past);
    }
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const operand_desc *x = &j->c->op.in[0], *out = &j->c->op.out;
    int64_t first = (int64_t)index * j->rows_per_tile, last = min64(j->rows, first + j->rows_per_tile);
    float *row = (float *)j->a->scratch + (size_t)slot * (size_t)j->columns;
    (void)e;
    int half = type_of(x) == KILN_BF16 && out->dtype == KILN_BF16 &&
               j->columns == j->c->op.attr.rope.heads * j->c->op.attr.rope.rotary;
    for (int64_t r = first; r < last; r++) {
        if (half) {
            turn_half(j, r);
            continue;
        }
        j->c->k->load(row, place_of(x, j->a->in[0], r, 0), type_of(x), (size_t)j->columns);
        turn(j, row, r);
        j->c->k->store((char *)j->a->out + (size_t)(r * out->ld) * size_of(out->dtype), out->dtype, row,
                       (size_t)j->columns);
    }
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    call j = {.c = c, .a = a, .rows = rows_of(&c->op.in[0]), .columns = columns_of(&c->op.in[0])};
    if (!j.columns) return KILN_OK;
    j.rows_per_tile = j.columns >= TILE_ELEMENTS ? 1 : TILE_ELEMENTS / j.columns;
    return tiles_run(a->pool, (size_t)((j.rows + j.rows_per_tile - 1) / j.rows_per_tile), tile, &j, e);
}

kiln_status cpu_prepare_rope(cpu_kernel *c, error *e)
{
    if (c->op.in[1].dtype != KILN_F32 || c->op.in[2].dtype != KILN_F32)
        return error_set(e, KILN_ERR_UNSUPPORTED, "rope: the tables must be f32");
    c->body = run;
    c->base.scratch_bytes = (size_t)cpu_slots() * (size_t)columns_of(&c->op.in[0]) * sizeof(float);
    c->base.flops = 3 * (uint64_t)shape_count(&c->op.in[0].shape);
    return KILN_OK;
}
