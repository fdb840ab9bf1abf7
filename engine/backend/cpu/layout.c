/* layout.c - upsample, concat, slice, reshape, permute: runs of consecutive elements that only change their
 * place. Each op says how many runs it has and where run i comes from and goes to; copying is shared.
 */
#include "backend/cpu/cpu.h"

#include "base/memory_alloc.h"

#include <string.h>

enum { CHUNK = 1024, TILE_ELEMENTS = 1 << 16 };

/* Places are element numbers of the dense tensor. */
typedef struct {
    uint32_t operand;
    int64_t from, to, length;
} span;

typedef struct {
    int64_t spans, per_tile;
    span (*at)(const op_desc *, int64_t i);
} moves;

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
} call;

static int64_t gemm(const shape *s, uint32_t from, uint32_t to)
{
    int64_t n = 1;
    for (uint32_t i = from; i < to; i++) n *= s->dim[i];
    return n;
}

static span upsample_at(const op_desc *op, int64_t i)
{
    const int64_t *d = op->out.shape.dim, *s = op->in[0].shape.dim;
    int64_t x = i % d[2], y = i / d[2] % d[1], n = i / d[2] / d[1];
    return (span){0, ((n * s[1] + y * s[1] / d[1]) * s[2] + x * s[2] / d[2]) * d[3], i * d[3], d[3]};
}

/* Run i is one outer index of one operand. */
static span concat_at(const op_desc *op, int64_t i)
{
    uint32_t axis = op->attr.concat.axis, operand = (uint32_t)(i % op->n_in);
    int64_t outer = i / op->n_in, inner = gemm(&op->out.shape, axis + 1, op->out.shape.rank), place = 0;
    for (uint32_t k = 0; k < operand; k++) place += op->in[k].shape.dim[axis];
    int64_t length = op->in[operand].shape.dim[axis] * inner;
    return (span){operand, outer * length, (outer * op->out.shape.dim[axis] + place) * inner, length};
}

static span slice_at(const op_desc *op, int64_t i)
{
    uint32_t axis = op->attr.slice.axis;
    int64_t inner = gemm(&op->out.shape, axis + 1, op->out.shape.rank), length = op->attr.slice.length * inner;
    return (span){0, (i * op->in[0].shape.dim[axis] + op->attr.slice.start) * inner, i * length, length};
}

static span reshape_at(const op_desc *op, int64_t i)
{
    int64_t n = shape_count(&op->out.shape);
    return (span){0, i * CHUNK, i * CHUNK, min64(CHUNK, n - i * CHUNK)};
}

/* Runs of the last dimension when it stays last, else single elements. */
static int64_t permute_run(const op_desc *op)
{
    uint32_t last = op->out.shape.rank - 1;
    return op->out.shape.rank && op->attr.permute.axis[last] == last ? op->out.shape.dim[last] : 1;
}
static span permute_at(const op_desc *op, int64_t i)
{
    const shape *s = &op->in[0].shape, *d = &op->out.shape;
    int64_t index[KILN_MAX_RANK] = {0}, length = permute_run(op), rest = i * length, source = 0;
    for (uint32_t k = d->rank; k-- > 0;) {
        index[op->attr.permute.axis[k]] = rest % d->dim[k];
        rest /= d->dim[k];
    }
    for (uint32_t k = 0; k < s->rank; k++) source = source * s->dim[k] + index[k];
    return (span){0, source, i * length, length};
}

static void copy(const cpu_kernel *c, const operand_desc *to, char *dst, const operand_desc *from, const char *src,
                 int64_t n)
{
    float chunk[CHUNK];
    size_t to_size = size_of(to->dtype), from_size = from->weight ? 4 : size_of(from->dtype);
    if (dst == src && to->dtype == type_of(from)) return; /* the planner may have put it in its place already */
    if (to->dtype == type_of(from)) {
        memcpy(dst, src, (size_t)n * to_size);
        return;
    }
    for (int64_t i = 0; i < n; i += CHUNK) {
        size_t width = (size_t)min64(CHUNK, n - i);
        c->k->load(chunk, src + (size_t)i * from_size, type_of(from), width);
        c->k->store(dst + (size_t)i * to_size, to->dtype, chunk, width);
    }
}

/* A run may cross rows whose ld differs: cut it at every row end of either side. */
static void copy_span(const cpu_kernel *c, const kernel_args *a, span s)
{
    const operand_desc *to = &c->op.out, *from = &c->op.in[s.operand];
    int64_t to_columns = columns_of(to), from_columns = columns_of(from);
    int dense = (to->ld == to_columns) && (from->weight || from->ld == from_columns);
    while (s.length > 0) {
        int64_t to_column = s.to % to_columns, from_column = s.from % from_columns;
        int64_t n = dense ? s.length : min64(s.length, min64(to_columns - to_column, from_columns - from_column));
        char *dst = (char *)a->out + (size_t)(s.to / to_columns * to->ld + to_column) * size_of(to->dtype);
        copy(c, to, dst, from, place_of(from, a->in[s.operand], s.from / from_columns, from_column), n);
        s.to += n, s.from += n, s.length -= n;
    }
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const moves *m = j->c->plan;
    (void)slot, (void)e;
    int64_t first = (int64_t)index * m->per_tile, last = min64(m->spans, first + m->per_tile);
    for (int64_t i = first; i < last; i++) copy_span(j->c, j->a, m->at(&j->c->op, i));
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const moves *m = c->plan;
    call j = {c, a};
    return tiles_run(a->pool, (size_t)((m->spans + m->per_tile - 1) / m->per_tile), tile, &j, e);
}

kiln_status cpu_prepare_layout(cpu_kernel *c, error *e)
{
    const op_desc *op = &c->op;
    int64_t count = shape_count(&op->out.shape), length = CHUNK;
    moves *m = mem_calloc(1, sizeof *m);
    if (!m) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    c->plan = m, c->plan_free = mem_free, c->body = run, m->per_tile = 1;
    if (!count) return KILN_OK;
    switch (op->kind) {
    case OP_UPSAMPLE: m->at = upsample_at, length = op->out.shape.dim[3]; break;
    case OP_CONCAT: m->at = concat_at, length = gemm(&op->out.shape, op->attr.concat.axis, op->out.shape.rank); break;
    case OP_SLICE: m->at = slice_at, length = gemm(&op->out.shape, op->attr.slice.axis, op->out.shape.rank); break;
    case OP_PERMUTE: m->at = permute_at, length = permute_run(op); break;
    default: m->at = reshape_at; break;
    }
    m->spans = (count + length - 1) / length * (op->kind == OP_CONCAT ? op->n_in : 1);
    m->per_tile = length >= TILE_ELEMENTS ? 1 : TILE_ELEMENTS / length;
    return KILN_OK;
}
