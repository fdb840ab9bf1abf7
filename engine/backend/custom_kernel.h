/* custom_kernel.h - what backends share to run ops of plugins: dense operands in a kernel's scratch, and the call.
 * Layer: backend.
 */
#ifndef KILN_BACKEND_CUSTOM_KERNEL_H
#define KILN_BACKEND_CUSTOM_KERNEL_H

#include "backend/backend.h"
#include "graph/custom_call.h"

/* Operands whose rows lie apart are copied, one after the other, to the start of the scratch. */
size_t custom_dense_bytes(const op_desc *op);
static inline int custom_is_dense(const operand_desc *d)
{
    int64_t columns = d->shape.rank ? d->shape.dim[d->shape.rank - 1] : 1;
    return d->weight || d->ld == columns || shape_count(&d->shape) == columns;
}
/* Where operand i's dense copy is in the scratch; it has one where it is not dense. */
size_t custom_dense_at(const op_desc *op, uint32_t i);
/* The call, with the data where it lies (a NULL: without). */
void custom_call_of(custom_call *c, const op_desc *op, const kernel_args *a, uint32_t device, error *e);
/* Copies rows together on a host. */
void custom_make_dense(const op_desc *op, const kernel_args *a);
/* The first time an op runs by its reference, a warning that says so. */
void custom_warn_slow(const op_desc *op, const char *device);

#endif
