/* normalize.c - OP_NORM: each row, or each group of its columns, is loaded once, measured in cache, normalised and
 * stored. Gain and bias are widened to a row of floats once a run; rows of scale and shift when they change.
 */
#include "backend/cpu/cpu.h"

#include <math.h>
#include <string.h>

enum { TILE_ELEMENTS = 1 << 16, CHUNK = 1024, GROUPS = 32 };

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    int64_t rows, columns, rows_per_tile;
    float *gain, *bias, *room; /* NULL: none; room: 3 rows a slot */
} call;

/* n numbers of row `row`, repeated where the operand has one. */
static void load_row(const call *j, uint32_t i, int64_t row, float *to)
{
    const operand_desc *d = &j->c->op.in[i];
    int64_t own = columns_of(d), n = j->columns;
    j->c->k->load(to, place_of(d, j->a->in[i], row, 0), type_of(d), (size_t)own);
    for (int64_t k = own; k < n; k++) to[k] = to[k - own];
}

static double sum_of(const call *j, const float *x, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i += CHUNK)
        s += (double)j->c->k->fold_row(KILN_REDUCE_SUM, x + i, (size_t)min64(CHUNK, n - i));
    return s;
}
static double squares_of(const call *j, const float *x, float mean, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i += CHUNK) s += (double)j->c->k->squares(x + i, mean, (size_t)min64(CHUNK, n - i));
    return s;
}

static double folded_squares(const call *j, const float *x, int64_t n)
{
    double s = 0;
    for (int64_t i = 0; i < n; i += CHUNK)
        s += (double)j->c->k->fold_row(KILN_REDUCE_L2, x + i, (size_t)min64(CHUNK, n - i));
    return s;
}

/* 1 / sigma, or what stands for it */
static float factor_of(const any_norm_attr *t, double square)
{
    double eps = (double)t->eps;
    if (t->kind != KILN_NORM_L2) return (float)(1 / sqrt(square / (double)t->group + eps));
    return (float)(t->eps_inside ? 1 / sqrt(square + eps) : 1 / fmax(sqrt(square), eps));
}

static void measure(const call *j, const float *x, float *mean, float *factor)
{
    const any_norm_attr *t = &j->c->op.attr.any_norm;
    *mean = t->kind == KILN_NORM_LAYER ? (float)(sum_of(j, x, t->group) / (double)t->group) : 0;
    *factor = factor_of(t, *mean == 0 ? folded_squares(j, x, t->group) : squares_of(j, x, *mean, t->group));
}

/* Groups of a row, each a chunk at most and without a mean, are measured together. */
static void measure_groups(const call *j, const float *x, float *mean, float *factor, int64_t n)
{
    const any_norm_attr *t = &j->c->op.attr.any_norm;
    if (t->kind == KILN_NORM_LAYER || t->group > CHUNK) {
        for (int64_t g = 0; g < n; g++) measure(j, x + g * t->group, &mean[g], &factor[g]);
        return;
    }
    j->c->k->fold_groups(KILN_REDUCE_L2, factor, x, (size_t)t->group, (size_t)n);
    for (int64_t g = 0; g < n; g++) mean[g] = 0, factor[g] = factor_of(t, (double)factor[g]);
}

/* Numbers [first, first + n) of a row in x, normalised; scale and shift of the row, or NULL. */
static void finish_group(const call *j, int64_t r, int64_t first, const float *x, float mean, float factor,
                         const float *const more[2])
{
    const operand_desc *out = &j->c->op.out;
    size_t n = (size_t)j->c->op.attr.any_norm.group;
    char *to = (char *)j->a->out + (size_t)(r * out->ld + first) * size_of(out->dtype);
    const float *gain = j->gain ? j->gain + first : NULL, *bias = j->bias ? j->bias + first : NULL,
                *scale = more[0] ? more[0] + first : NULL, *shift = more[1] ? more[1] + first : NULL;
    const float *const all[4] = {gain, bias, scale, shift};
    float row[CHUNK];
    if (out->dtype == KILN_BF16)
        j->c->k->norm_half(to, x, mean, factor, all,
                           place_of(&j->c->op.in[0], j->a->in[0], r + 1 < j->rows ? r + 1 : r, first), n, j->c->past);
    else if (out->dtype == KILN_F32)
        j->c->k->norm_whole(to, x, mean, factor, all, n, j->c->past);
    for (size_t i = 0, now; i < n && out->dtype == KILN_F16; i += now) {
        const float *const some[4] = {gain ? gain + i : NULL, bias ? bias + i : NULL, scale ? scale + i : NULL,
                                      shift ? shift + i : NULL};
        now = n - i < CHUNK ? n - i : CHUNK;
        j->c->k->norm_whole(row, x + i, mean, factor, some, now, 0);
        j->c->k->store(to + i * size_of(KILN_F16), KILN_F16, row, now);
    }
}

/* bf16 of bf16, but for layer norm of groups. */
static int is_half(const op_desc *op)
{
    const any_norm_attr *t = &op->attr.any_norm;
    return (t->kind != KILN_NORM_LAYER || t->group == columns_of(&op->in[0])) && type_of(&op->in[0]) == KILN_BF16 &&
           op->out.dtype == KILN_BF16;
}

/* scale and shift of row r, where they are others than of the row before; 1: they are. */
static int load_more(const call *j, int64_t r, int64_t at[2], float *const more[2])
{
    const op_desc *op = &j->c->op;
    int others = 0;
    for (uint32_t i = 0; i < 2; i++) {
        if (!op->in[3 + i].dtype) continue;
        int64_t from = broadcast_row(&op->out.shape, &op->in[3 + i].shape, r);
        if (from != at[i]) others = 1;
        at[i] = from;
    }
    for (uint32_t i = 0; i < 2 && others; i++)
        if (op->in[3 + i].dtype) load_row(j, 3 + i, at[i], more[i]);
    return others;
}

/* What (x - mean) / sigma is multiplied by and what is added: gain (1 + scale), bias (1 + scale) + shift; in the place
 * of scale and in `row`. */
static void join_more(const call *j, float *scale, const float *shift, float *row, const float *out[2])
{
    const cpu_kernels *k = j->c->k;
    size_t C = (size_t)j->columns;
    if (scale) k->affine(scale, 1, 1, C);
    out[1] = shift;
    if (j->bias) {
        memcpy(row, j->bias, C * sizeof *row);
        if (scale) k->mul(row, scale, C);
        if (shift) k->add(row, shift, C);
        out[1] = row;
    }
    if (scale && j->gain) k->mul(scale, j->gain, C);
    out[0] = scale ? scale : j->gain;
}

static void half_row(const call *j, void *to, const void *x, const float *const by[2])
{
    const any_norm_attr *t = &j->c->op.attr.any_norm;
    size_t n = (size_t)t->group, groups = (size_t)j->columns / n;
    uint32_t how = t->kind != KILN_NORM_L2 ? NORM_MEAN_SQUARE : t->eps_inside ? NORM_SQUARES : NORM_ROOT;
    if (t->kind == KILN_NORM_LAYER)
        j->c->k->layer_stored(to, x, (double)t->eps, by[0], by[1], n, j->c->past);
    else
        j->c->k->groups_stored(to, x, how, (double)t->eps, by[0], by[1], n, groups, j->c->past);
}

static void half_rows(const call *j, int64_t first, int64_t last, float *row)
{
    const op_desc *op = &j->c->op;
    int64_t at[2] = {-1, -1};
    float *more[2] = {row + j->columns, row + 2 * j->columns};
    const float *by[2] = {j->gain, j->bias};
    for (int64_t r = first; r < last; r++) {
        if (load_more(j, r, at, more))
            join_more(j, op->in[3].dtype ? more[0] : NULL, op->in[4].dtype ? more[1] : NULL, row, by);
        half_row(j, (uint16_t *)j->a->out + r * op->out.ld, place_of(&op->in[0], j->a->in[0], r, 0), by);
    }
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const op_desc *op = &j->c->op;
    int64_t C = j->columns, first = (int64_t)index * j->rows_per_tile, last = min64(j->rows, first + j->rows_per_tile);
    int64_t at[2] = {-1, -1}, group = op->attr.any_norm.group;
    float *row = j->room + (size_t)slot * 3 * (size_t)C, *more[2] = {row + C, row + 2 * C};
    const float *shown[2] = {op->in[3].dtype ? more[0] : NULL, op->in[4].dtype ? more[1] : NULL};
    (void)e;
    if (is_half(op)) {
        half_rows(j, first, last, row);
        return KILN_OK;
    }
    for (int64_t r = first; r < last; r++) {
        const float *x = row;
        load_more(j, r, at, more);
        if (type_of(&op->in[0]) == KILN_F32)
            x = (const float *)(const void *)place_of(&op->in[0], j->a->in[0], r, 0);
        else
            j->c->k->load(row, place_of(&op->in[0], j->a->in[0], r, 0), type_of(&op->in[0]), (size_t)C);
        for (int64_t c = 0, now; c < C; c += now * group) {
            float mean[GROUPS], factor[GROUPS];
            now = min64(GROUPS, (C - c) / group);
            measure_groups(j, x + c, mean, factor, now);
            for (int64_t g = 0; g < now; g++)
                finish_group(j, r, c + g * group, x + c + g * group, mean[g], factor[g], shown);
        }
    }
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    int64_t C = columns_of(&c->op.in[0]);
    float *room = a->scratch;
    call j = {.c = c, .a = a, .rows = rows_of(&c->op.in[0]), .columns = C, .room = room + 2 * C};
    if (!C) return KILN_OK;
    j.rows_per_tile = C >= TILE_ELEMENTS ? 1 : TILE_ELEMENTS / C;
    if (c->op.in[1].dtype) {
        load_row(&j, 1, 0, j.gain = room);
        if (c->op.attr.any_norm.one_plus) c->k->affine(j.gain, 1, 1, (size_t)C);
    }
    if (c->op.in[2].dtype) load_row(&j, 2, 0, j.bias = room + C);
    return tiles_run(a->pool, (size_t)((j.rows + j.rows_per_tile - 1) / j.rows_per_tile), tile, &j, e);
}

kiln_status cpu_prepare_norm(cpu_kernel *c, error *e)
{
    (void)e;
    c->body = run;
    c->base.scratch_bytes = (2 + 3 * (size_t)cpu_slots()) * (size_t)columns_of(&c->op.in[0]) * sizeof(float);
    c->base.flops = 6 * (uint64_t)shape_count(&c->op.in[0].shape);
    return KILN_OK;
}
