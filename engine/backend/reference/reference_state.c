/* reference_state.c - writing into a state: x becomes its places offset, offset + 1, .. of an axis, round the end. */
#include "backend/reference/reference.h"

#include <string.h>

kiln_status reference_state_write(const op_desc *op, const kernel_args *a, error *e)
{
    const shape *s = &op->out.shape, *x = &op->in[2].shape;
    uint32_t axis = op->attr.state_write.axis;
    int64_t outer = 1, inner = 1, places = s->dim[axis], n = x->dim[axis], offsets = shape_count(&op->in[1].shape);
    int64_t columns = operand_columns(&op->in[2]);
    for (uint32_t i = 0; i < axis; i++) outer *= s->dim[i];
    for (uint32_t i = axis + 1; i < s->rank; i++) inner *= s->dim[i];
    for (int64_t o = 0; o < outer; o++) {
        int64_t offset = operand_get_i32(&op->in[1], a->in[1], offsets == 1 ? 0 : o);
        if (offset < 0)
            return error_set(e, KILN_ERR_INVALID, "a state is written from place %lld on", (long long)offset);
        int64_t count = n;
        if (op->n_in > 3) count = operand_get_i32(&op->in[3], a->in[3], shape_count(&op->in[3].shape) == 1 ? 0 : o);
        if (count < 0 || count > n)
            return error_set(e, KILN_ERR_INVALID, "a state is written with %lld of %lld places", (long long)count,
                             (long long)n);
        for (int64_t k = 0; k < count; k++)
            for (int64_t i = 0; i < inner; i++) {
                int64_t to = (o * places + (offset + k) % places) * inner + i, from = (o * n + k) * inner + i;
                int64_t out_columns = operand_columns(&op->out);
                if (op->out.dtype == KILN_I32)
                    ((int32_t *)a->out)[to] = operand_get_i32(&op->in[2], a->in[2], from);
                else
                    operand_set(&op->out, a->out, to / out_columns, to % out_columns,
                                operand_get(&op->in[2], a->in[2], from / columns, from % columns));
            }
    }
    return KILN_OK;
}
