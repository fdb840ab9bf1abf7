/* reference_custom.c - ops of plugins by their own reference. */
#include "backend/custom_kernel.h"
#include "backend/reference/reference.h"

#include "base/memory_alloc.h"

kiln_status reference_custom(const op_desc *op, const kernel_args *a, error *e)
{
    custom_call c;
    kernel_args own = *a;
    size_t bytes = custom_dense_bytes(op);
    if (bytes && !(own.scratch = mem_aligned(64, bytes)))
        return error_set(e, KILN_ERR_NOMEM, "out of memory for dense operands");
    custom_make_dense(op, &own);
    custom_call_of(&c, op, &own, KILN_CPU, e);
    kiln_status status = op->attr.custom->kind.reference(&c.call);
    if (bytes) mem_free(own.scratch);
    return status;
}
