/* embedding.c - embedding, gather and the timestep embedding. Ids are looked at first, then rows are dealt out. */
#include "backend/cpu/row_forms.h"

#include <math.h>

enum { CHUNK = 1024, TILE_ELEMENTS = 1 << 16 };

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    int64_t rows, per_tile;
} call;

static void copy_row(const cpu_kernel *c, const kernel_args *a, int64_t to, int64_t from)
{
    const operand_desc *out = &c->op.out, *in = &c->op.in[0];
    int64_t D = columns_of(out);
    float row[CHUNK];
    row_form table = c->rows_kept & 1 ? rows_form(&c->op, 0) : (row_form){0};
    char *row_to = (char *)a->out + (size_t)(to * out->ld) * size_of(out->dtype);
    const char *row_from =
        table.type ? (const char *)a->in[0] + (size_t)from * table.row_bytes : place_of(in, a->in[0], from, 0);
    if ((table.type ? table.type : type_of(in)) == out->dtype) {
        c->k->copy(row_to, row_from, (size_t)D * size_of(out->dtype));
        return;
    }
    for (int64_t i = 0; i < D; i += CHUNK) {
        size_t n = (size_t)min64(CHUNK, D - i);
        if (c->rows_kept & 1)
            row_form_read(c->k, &table, a->in[0], from, i, row, n);
        else
            c->k->load(row, place_of(in, a->in[0], from, i), type_of(in), n);
        c->k->store(row_to + (size_t)i * size_of(out->dtype), out->dtype, row, n);
    }
}

static int32_t id_at(const operand_desc *d, const void *data, int64_t i)
{
    int64_t columns = columns_of(d);
    return ((const int32_t *)data)[columns ? i / columns * d->ld + i % columns : 0];
}

static kiln_status rows_run(const cpu_kernel *c, const kernel_args *a, int64_t rows, tile_fn *tile, error *e)
{
    call j = {c, a, rows, TILE_ELEMENTS / (columns_of(&c->op.out) + 1) + 1};
    return tiles_run(a->pool, (size_t)((rows + j.per_tile - 1) / j.per_tile), tile, &j, e);
}

/* The id of each row is the table's row, or a place in the row's own sequence. */
static kiln_status copy_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const op_desc *op = &j->c->op;
    int64_t N = op->in[0].shape.dim[0], T = op->kind == OP_GATHER ? op->in[0].shape.dim[1] : 0;
    int64_t first = (int64_t)index * j->per_tile, last = min64(j->rows, first + j->per_tile);
    (void)slot, (void)e;
    for (int64_t n = first; n < last; n++)
        copy_row(j->c, j->a, n, (T ? n / (j->rows / N) * T : 0) + id_at(&op->in[1], j->a->in[1], n));
    return KILN_OK;
}

static kiln_status embedding(const cpu_kernel *c, const kernel_args *a, error *e)
{
    int64_t n = shape_count(&c->op.in[1].shape), V = c->op.in[0].shape.dim[0];
    for (int64_t i = 0; i < n; i++) {
        int32_t id = id_at(&c->op.in[1], a->in[1], i);
        if (id < 0 || id >= V)
            return error_set(e, KILN_ERR_INVALID, "token id %d is outside the table of %lld", id, (long long)V);
    }
    return rows_run(c, a, n, copy_tile, e);
}

static kiln_status gather(const cpu_kernel *c, const kernel_args *a, error *e)
{
    int64_t T = c->op.in[0].shape.dim[1], rows = shape_count(&c->op.in[1].shape);
    for (int64_t n = 0; n < rows; n++) {
        int32_t t = id_at(&c->op.in[1], a->in[1], n);
        if (t < 0 || t >= T)
            return error_set(e, KILN_ERR_INVALID, "place %d is outside the %lld of the sequence", t, (long long)T);
    }
    return rows_run(c, a, rows, copy_tile, e);
}

/* As the reference's: the angle t f is rounded to float, sines and cosines are those of doubles. */
static kiln_status timestep_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const operand_desc *out = &j->c->op.out;
    int64_t dim = j->c->op.attr.timestep.dim, half = dim / 2, cosines_first = j->c->op.attr.timestep.cos_first != 0;
    int64_t last = min64(j->rows, ((int64_t)index + 1) * j->per_tile);
    const float *frequency = j->a->scratch;
    float *row = (float *)j->a->scratch + half + (int64_t)slot * dim;
    int own = out->dtype == KILN_F32 || out->dtype == KILN_BF16;
    uint32_t type = own ? out->dtype : (uint32_t)KILN_F32;
    size_t cosine = cosines_first ? 0 : (size_t)half * size_of(type), sine = (size_t)half * size_of(type) - cosine;
    (void)e;
    for (int64_t n = (int64_t)index * j->per_tile; n < last; n++) {
        char *to = (char *)j->a->out + (size_t)(n * out->ld) * size_of(out->dtype), *made = own ? to : (char *)row;
        if (dim % 2) memset(made + 2 * (size_t)half * size_of(type), 0, size_of(type));
        j->c->k->waves(made + sine, made + cosine, type, frequency, ((const float *)j->a->in[0])[n], (size_t)half);
        if (!own) j->c->k->store(to, out->dtype, row, (size_t)dim);
    }
    return KILN_OK;
}

static kiln_status timestep(const cpu_kernel *c, const kernel_args *a, error *e)
{
    int64_t half = c->op.attr.timestep.dim / 2;
    float *frequency = a->scratch;
    for (int64_t i = 0; i < half; i++) {
        double exponent = -log(c->op.attr.timestep.max_period) * (double)i / ((double)half - c->op.attr.timestep.shift);
        frequency[i] = (float)exp(exponent);
    }
    return rows_run(c, a, shape_count(&c->op.in[0].shape), timestep_tile, e);
}

kiln_status cpu_prepare_embedding(cpu_kernel *c, error *e)
{
    const op_desc *op = &c->op;
    c->body = op->kind == OP_EMBEDDING ? embedding : op->kind == OP_GATHER ? gather : timestep;
    if (op->kind == OP_TIMESTEP)
        c->base.scratch_bytes = (cpu_slots() + 1) * (size_t)op->attr.timestep.dim * sizeof(float);
    if (op->kind == OP_EMBEDDING && op->in[0].weight) rows_keep(c, 0);
    if (op->kind != OP_TIMESTEP && (op->in[1].dtype != KILN_I32 || op->in[1].weight))
        return error_set(e, KILN_ERR_UNSUPPORTED, "%s: the ids must be i32 and not a weight", op_name(op->kind));
    if (op->kind == OP_TIMESTEP && op->in[0].dtype != KILN_F32)
        return error_set(e, KILN_ERR_UNSUPPORTED, "timestep_embedding: the times must be f32");
    return KILN_OK;
}
