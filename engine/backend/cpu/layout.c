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
        c->k->copy(dst, src, (size_t)n * to_size);
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

/* ---- permute: units are elements, or runs of the last dimension where that stays last; blocks of them are turned ----
 */

enum { SIDE = 256, RUN_SIDE = 16 };

typedef struct {
    int64_t unit, side, blocks[2], outer; /* elements of a unit; units of a block's side */
    uint32_t n, last;                     /* dimensions of units; which of the operand's is the result's last */
    int64_t from[KILN_MAX_RANK], to[KILN_MAX_RANK]; /* steps of the operand's dimensions, in elements */
} turns;

static turns turns_of(const op_desc *op)
{
    const int64_t *d = op->in[0].shape.dim;
    const uint32_t rank = op->in[0].shape.rank, *axis = op->attr.permute.axis;
    turns t = {.unit = 1, .side = SIDE, .outer = 1, .n = rank};
    if (axis[rank - 1] == rank - 1) t.n = rank - 1, t.unit = d[rank - 1], t.side = RUN_SIDE;
    int64_t from = op->in[0].weight ? d[rank - 1] : op->in[0].ld, to = op->out.ld;
    t.from[rank - 1] = 1, t.to[axis[rank - 1]] = 1;
    for (uint32_t k = rank - 1; k-- > 0;) {
        t.from[k] = from, t.to[axis[k]] = to;
        from *= d[k], to *= op->out.shape.dim[k];
    }
    t.last = t.n ? axis[t.n - 1] : 0;
    for (uint32_t k = 0; k + 1 < t.n; k++)
        if (k != t.last) t.outer *= d[k];
    t.blocks[0] = t.n ? (d[t.n - 1] + t.side - 1) / t.side : 1;
    t.blocks[1] = t.n && t.last != t.n - 1 ? (d[t.last] + t.side - 1) / t.side : 1;
    return t;
}

static void turn_block(const call *j, const turns *t, void *to, const void *from, const size_t size[2])
{
    const uint32_t inner = t->n ? t->n - 1 : 0;
    size_t bytes = size_of(j->c->op.out.dtype), ldf = (size_t)t->from[t->last], ldt = (size_t)t->to[inner];
    if (t->unit == 1 && bytes == 2) {
        j->c->k->transpose_half(to, ldt, from, ldf, size[1], size[0]);
        return;
    }
    if (t->unit == 1) {
        j->c->k->transpose(to, ldt, from, ldf, size[1], size[0]);
        return;
    }
    size_t step = (size_t)t->from[inner] * bytes, run = (size_t)t->unit * bytes;
    for (size_t r = 0; r < size[1]; r++)
        for (size_t c = 0; c < size[0]; c++)
            j->c->k->copy((char *)to + c * ldt * bytes + r * (size_t)t->to[t->last] * bytes,
                          (const char *)from + r * ldf * bytes + c * step, run);
}

static kiln_status turn_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const op_desc *op = &j->c->op;
    const turns t = turns_of(op);
    const int64_t *d = op->in[0].shape.dim;
    uint32_t inner = t.n - 1;
    int64_t c = (int64_t)index % t.blocks[0] * t.side, r = (int64_t)index / t.blocks[0] % t.blocks[1] * t.side;
    int64_t rest = (int64_t)index / t.blocks[0] / t.blocks[1], from = c * t.from[inner] + r * t.from[t.last],
            to = c * t.to[inner] + r * t.to[t.last];
    const size_t size[2] = {(size_t)min64(t.side, d[inner] - c), (size_t)min64(t.side, d[t.last] - r)};
    for (uint32_t k = inner; k-- > 0;) {
        if (k == t.last) continue;
        from += rest % d[k] * t.from[k], to += rest % d[k] * t.to[k];
        rest /= d[k];
    }
    (void)slot, (void)e;
    turn_block(j, &t, (char *)j->a->out + (size_t)to * size_of(op->out.dtype),
               (const char *)j->a->in[0] + (size_t)from * size_of(op->out.dtype), size);
    return KILN_OK;
}

static kiln_status run_turned(const cpu_kernel *c, const kernel_args *a, error *e)
{
    turns t = turns_of(&c->op);
    call j = {c, a};
    return tiles_run(a->pool, (size_t)(t.blocks[0] * t.blocks[1] * t.outer), turn_tile, &j, e);
}

/* What is innermost, but for runs, is not innermost in the result; and nothing is converted. */
static int turns_last(const op_desc *op)
{
    uint32_t rank = op->out.shape.rank;
    if (op->kind != OP_PERMUTE || rank < 2 || op->out.dtype != type_of(&op->in[0])) return 0;
    turns t = turns_of(op);
    return t.n > 1 && t.last != t.n - 1;
}

/* ---- upsample: each row of the operand is spread out once for all rows that repeat it ---- */

static kiln_status upsample_tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const operand_desc *x = &j->c->op.in[0], *out = &j->c->op.out;
    const int64_t *d = out->shape.dim, *s = x->shape.dim;
    int64_t image = (int64_t)index / s[1], y = (int64_t)index % s[1], first = (y * d[1] + s[1] - 1) / s[1],
            last = min64(d[1], ((y + 1) * d[1] + s[1] - 1) / s[1]);
    size_t step = (size_t)out->ld * size_of(out->dtype), width = (size_t)d[3] * size_of(out->dtype);
    char *row = (char *)j->a->out + (size_t)((image * d[1] + first) * d[2]) * step;
    (void)slot, (void)e;
    for (int64_t i = 0; i < d[2] && first < last; i++)
        copy(j->c, out, row + (size_t)i * step, x,
             place_of(x, j->a->in[0], (image * s[1] + y) * s[2] + i * s[2] / d[2], 0), d[3]);
    for (int64_t r = first + 1; r < last; r++) {
        char *to = row + (size_t)((r - first) * d[2]) * step;
        if (step == width)
            j->c->k->copy(to, row, (size_t)d[2] * step);
        else
            for (int64_t i = 0; i < d[2]; i++) memcpy(to + (size_t)i * step, row + (size_t)i * step, width);
    }
    return KILN_OK;
}

static kiln_status run_upsample(const cpu_kernel *c, const kernel_args *a, error *e)
{
    call j = {c, a};
    const int64_t *s = c->op.in[0].shape.dim;
    return tiles_run(a->pool, (size_t)(s[0] * s[1]), upsample_tile, &j, e);
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
    case OP_UPSAMPLE: c->body = run_upsample; return KILN_OK;
    case OP_CONCAT: m->at = concat_at, length = gemm(&op->out.shape, op->attr.concat.axis, op->out.shape.rank); break;
    case OP_SLICE: m->at = slice_at, length = gemm(&op->out.shape, op->attr.slice.axis, op->out.shape.rank); break;
    case OP_PERMUTE:
        m->at = permute_at, length = permute_run(op);
        if (turns_last(op)) c->body = run_turned;
        break;
    default: m->at = reshape_at; break;
    }
    m->spans = (count + length - 1) / length * (op->kind == OP_CONCAT ? op->n_in : 1);
    m->per_tile = length >= TILE_ELEMENTS ? 1 : TILE_ELEMENTS / length;
    return KILN_OK;
}
