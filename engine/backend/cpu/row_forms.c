/* row_forms.c - see rows.h. */
#include "backend/cpu/row_forms.h"

#include "tensor/block.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <string.h>

/* f32 is kept as bf16 where the op's results are no finer. */
static uint32_t kept_type(const op_desc *op, uint32_t operand)
{
    uint32_t type = op->in[operand].dtype;
    return type == KILN_F32 && op->precision == KILN_BF16 && op->out.dtype == KILN_BF16 ? (uint32_t)KILN_BF16 : type;
}

int64_t rows_width(const op_desc *op, uint32_t operand)
{
    const operand_desc *d = &op->in[operand];
    return op->kind == OP_CONV2D && d->shape.dim[0] ? shape_count(&d->shape) / d->shape.dim[0] : columns_of(d);
}

row_form rows_form(const op_desc *op, uint32_t operand)
{
    row_form f = {.type = kept_type(op, operand)};
    f.block = dtype_block(f.type), f.block_bytes = dtype_block_bytes(f.type);
    f.row_bytes = (size_t)rows_width(op, operand) / f.block * f.block_bytes;
    return f;
}

kiln_status rows_pack(const kernel *k, uint32_t operand, const void *src, uint32_t src_dtype, void *dst, pool *p,
                      error *e)
{
    const cpu_kernel *c = (const cpu_kernel *)k;
    const operand_desc *d = &c->op.in[operand];
    uint32_t type = c->rows_kept >> operand & 1 ? rows_form(&c->op, operand).type
                    : d->dtype == KILN_I32      ? (uint32_t)KILN_I32
                                                : (uint32_t)KILN_F32;
    (void)p;
    if (type == src_dtype && dtype_is_block(type)) {
        memcpy(dst, src, k->packed_bytes[operand]);
        return KILN_OK;
    }
    kiln_status status = dtype_convert(dst, type, src, src_dtype, (size_t)shape_count(&d->shape));
    return status == KILN_OK ? status
                             : error_set(e, status, "weights of type %s are not supported", dtype_name(src_dtype));
}

void rows_keep(cpu_kernel *c, uint32_t operand)
{
    row_form f = rows_form(&c->op, operand);
    c->rows_kept |= 1u << operand;
    c->base.pack = rows_pack;
    int64_t width = rows_width(&c->op, operand);
    c->base.packed_bytes[operand] = (size_t)(shape_count(&c->op.in[operand].shape) / (width ? width : 1)) * f.row_bytes;
    c->base.pack_copies[operand] = f.type;
    snprintf(c->base.pack_form[operand], sizeof c->base.pack_form[operand], "rows:%s", dtype_name(f.type));
}

/* Vocabularies are long beside their width; the widest layers of networks are not. */
int rows_is_table(const operand_desc *d)
{
    const int64_t *n = d->shape.dim;
    return d->weight && d->shape.rank == 2 && n[0] >= 24576 && n[0] >= 4 * n[1];
}

void row_form_read(const cpu_kernels *k, const row_form *f, const void *data, int64_t row, int64_t column, float *to,
                   size_t n)
{
    const char *at = (const char *)data + (size_t)row * f->row_bytes + (size_t)column / f->block * f->block_bytes;
    if (f->block > 1)
        k->blocks_read(to, KILN_F32, f->type, at, n);
    else
        k->load(to, at, f->type, n);
}
