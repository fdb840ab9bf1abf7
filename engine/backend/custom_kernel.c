/* custom_kernel.c - see custom_kernel.h. */
#include "backend/custom_kernel.h"

#include "base/log.h"
#include "tensor/dtype.h"

#include <pthread.h>
#include <string.h>

enum { ALIGNMENT = 256, WARNED_MAX = 64 };

static size_t dense_bytes_of(const operand_desc *d)
{
    size_t n = d->dtype && !custom_is_dense(d) ? (size_t)shape_count(&d->shape) * dtype_size(d->dtype) : 0;
    return (n + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

size_t custom_dense_at(const op_desc *op, uint32_t i)
{
    size_t at = 0;
    for (uint32_t k = 0; k < i; k++) at += dense_bytes_of(&op->in[k]);
    return at;
}

size_t custom_dense_bytes(const op_desc *op) { return custom_dense_at(op, op->n_in); }

void custom_call_of(custom_call *c, const op_desc *op, const kernel_args *a, uint32_t device, error *e)
{
    const custom_op *o = op->attr.custom;
    custom_call_make(c, o, device, e);
    for (uint32_t i = 0; i < op->n_in; i++) {
        const operand_desc *d = &op->in[i];
        const void *data = !a || !d->dtype      ? NULL
                           : custom_is_dense(d) ? a->in[i]
                                                : (const char *)a->scratch + custom_dense_at(op, i);
        custom_call_in(c, i, d->dtype, &d->shape, data);
    }
    custom_call_out(c, 0, op->out.dtype, &op->out.shape, a ? a->out : NULL);
    for (uint32_t i = 0; i < op->n_more; i++)
        custom_call_out(c, i + 1, op->more[i].dtype, &op->more[i].shape, a ? a->more[i] : NULL);
    c->call.n_out = o->kind.n_out;
}

void custom_make_dense(const op_desc *op, const kernel_args *a)
{
    for (uint32_t i = 0; i < op->n_in; i++) {
        const operand_desc *d = &op->in[i];
        if (!d->dtype || custom_is_dense(d)) continue;
        size_t size = dtype_size(d->dtype), row = (size_t)d->shape.dim[d->shape.rank - 1] * size;
        char *to = (char *)a->scratch + custom_dense_at(op, i);
        const char *from = a->in[i];
        for (int64_t r = 0, n = shape_count(&d->shape) / d->shape.dim[d->shape.rank - 1]; r < n; r++)
            memcpy(to + (size_t)r * row, from + (size_t)r * (size_t)d->ld * size, row);
    }
}

void custom_warn_slow(const op_desc *op, const char *device)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const char *warned[WARNED_MAX];
    static size_t n;
    const char *name = op->attr.custom->kind.name;
    int known = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < n; i++) known |= warned[i] == name;
    if (!known && n < WARNED_MAX) warned[n++] = name;
    pthread_mutex_unlock(&lock);
    if (!known) log_warn("op '%s' has no kernel for %s; its reference runs, which is slow", name, device);
}
