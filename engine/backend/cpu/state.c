/* state.c - writing into a state: rows of x to their places on an axis, round the end; see kiln/ops.h. */
#include "backend/cpu/cpu.h"

#include <string.h>

enum { CHUNK = 1024, TILE_ELEMENTS = 1 << 15 };

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    int64_t places, n, inner, per_tile, spans; /* a span: what lies behind one place of the axis */
} call;

static void copy(const call *j, char *to, const char *from, int64_t n)
{
    const operand_desc *x = &j->c->op.in[2], *out = &j->c->op.out;
    float chunk[CHUNK];
    if (x->dtype == out->dtype) {
        memcpy(to, from, (size_t)n * size_of(x->dtype));
        return;
    }
    for (int64_t i = 0; i < n; i += CHUNK) {
        size_t width = (size_t)min64(CHUNK, n - i);
        j->c->k->load(chunk, from + (size_t)i * size_of(x->dtype), x->dtype, width);
        j->c->k->store(to + (size_t)i * size_of(out->dtype), out->dtype, chunk, width);
    }
}

/* Elements [element, element + n) of x, which may lie in rows apart, to a dense place. */
static void copy_rows(const call *j, int64_t to, int64_t element, int64_t n)
{
    const operand_desc *x = &j->c->op.in[2], *out = &j->c->op.out;
    int64_t columns = columns_of(x);
    while (n > 0) {
        int64_t column = element % columns, width = x->ld == columns ? n : min64(n, columns - column);
        copy(j, (char *)j->a->out + (size_t)to * size_of(out->dtype),
             place_of(x, j->a->in[2], element / columns, column), width);
        element += width, to += width, n -= width;
    }
}

/* The number of sequence `outer`, or the one of all of them. */
static int32_t number_of(const call *j, uint32_t operand, int64_t outer)
{
    const operand_desc *d = &j->c->op.in[operand];
    return *(const int32_t *)(const void *)place_of(d, j->a->in[operand], 0, shape_count(&d->shape) == 1 ? 0 : outer);
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    (void)slot;
    for (int64_t i = (int64_t)index * j->per_tile; i < min64(j->spans, ((int64_t)index + 1) * j->per_tile); i++) {
        int64_t outer = i / j->n, k = i % j->n;
        int32_t offset = number_of(j, 1, outer);
        int64_t count = j->c->op.n_in > 3 ? number_of(j, 3, outer) : j->n;
        if (offset < 0) return error_set(e, KILN_ERR_INVALID, "a state is written from place %d on", offset);
        if (count < 0 || count > j->n)
            return error_set(e, KILN_ERR_INVALID, "a state is written with %lld of %lld places", (long long)count,
                             (long long)j->n);
        if (k >= count) continue;
        copy_rows(j, (outer * j->places + (offset + k) % j->places) * j->inner, i * j->inner, j->inner);
    }
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    const shape *s = &c->op.out.shape;
    uint32_t axis = c->op.attr.state_write.axis;
    call j = {.c = c, .a = a, .places = s->dim[axis], .n = c->op.in[2].shape.dim[axis], .inner = 1, .spans = 1};
    for (uint32_t i = axis + 1; i < s->rank; i++) j.inner *= s->dim[i];
    for (uint32_t i = 0; i < axis; i++) j.spans *= s->dim[i];
    j.spans *= j.n;
    j.per_tile = j.inner >= TILE_ELEMENTS ? 1 : TILE_ELEMENTS / j.inner;
    return tiles_run(a->pool, (size_t)((j.spans + j.per_tile - 1) / j.per_tile), tile, &j, e);
}

kiln_status cpu_prepare_state_write(cpu_kernel *c, error *e)
{
    (void)e;
    c->body = run;
    return KILN_OK;
}
