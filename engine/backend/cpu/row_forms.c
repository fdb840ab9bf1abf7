/* row_forms.c - see rows.h. */
#include "backend/cpu/row_forms.h"

#include "backend/cpu/gemm.h"
#include "tensor/block.h"
#include "tensor/dtype.h"
#include "weights/packed_rows.h"

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
    int filter = (op->kind == OP_CONV2D || op->kind == OP_CONV) && d->shape.dim[0];
    return filter ? shape_count(&d->shape) / d->shape.dim[0] : columns_of(d);
}

int rows_are_coded(const op_desc *op, uint32_t operand)
{
    const operand_desc *d = &op->in[operand];
    const stored_rows *r = &d->rows;
    int64_t width = d->weight && op_reads_blocks(op->kind, operand) ? rows_width(op, operand) : 0;
    if (!width) return 0;
    if (dtype_is_block(d->dtype)) return width % (int64_t)dtype_block(d->dtype) == 0;
    if (d->stored) return 1;
    return r->coding && r->columns == width && r->rows * width == shape_count(&d->shape) &&
           (r->coding != WEIGHTS_BLOCKS || width % (int64_t)dtype_block(r->dtype) == 0);
}

static row_form coded_form(const operand_desc *d, int64_t width)
{
    const stored_rows *r = &d->rows;
    row_form f = {.coding = WEIGHTS_BLOCKS, .type = d->dtype, .block = 1, .block_bytes = 1};
    if (d->stored) {
        f.coding = WEIGHTS_F8, f.type = d->stored;
    } else if (!dtype_is_block(d->dtype)) {
        f.coding = r->coding, f.type = r->dtype ? r->dtype : (uint32_t)KILN_U8;
        f.scales = (size_t)r->scales, f.scale_columns = (size_t)r->scale_columns;
        f.scales_at = stored_rows_scales_at(r), f.codebook_at = stored_rows_codebook_at(r);
        if (r->coding == WEIGHTS_NIBBLES) f.block = 2;
    }
    if (f.coding == WEIGHTS_BLOCKS) f.block = dtype_block(f.type), f.block_bytes = dtype_block_bytes(f.type);
    f.row_bytes = (size_t)width / f.block * f.block_bytes;
    return f;
}

row_form rows_form(const op_desc *op, uint32_t operand)
{
    if (rows_are_coded(op, operand)) return coded_form(&op->in[operand], rows_width(op, operand));
    row_form f = {.type = kept_type(op, operand)};
    f.block = dtype_block(f.type), f.block_bytes = dtype_block_bytes(f.type);
    f.row_bytes = (size_t)rows_width(op, operand) / f.block * f.block_bytes;
    return f;
}

/* Pieces of a table, since a vocabulary's is hundreds of megabytes and memory that is touched for the first time is
 * slow: bytes as they are (type 0), or numbers that become others. */
typedef struct {
    const char *src;
    char *dst;
    uint32_t type, src_type;
    size_t n;
} copying;

enum { PIECE = 1 << 20 }; /* whole blocks of any type */

/* 0: of an unknown type, which no conversion takes. */
static size_t bytes_of(uint32_t type, size_t n)
{
    size_t block = dtype_block(type);
    return block ? n / block * dtype_block_bytes(type) : 0;
}

static kiln_status copy_piece(void *arg, size_t index, unsigned slot, error *e)
{
    const copying *j = arg;
    size_t first = index * PIECE, n = j->n - first < PIECE ? j->n - first : PIECE;
    (void)slot;
    if (!j->type) {
        memcpy(j->dst + first, j->src + first, n);
        return KILN_OK;
    }
    kiln_status status = dtype_convert(j->dst + bytes_of(j->type, first), j->type,
                                       j->src + bytes_of(j->src_type, first), j->src_type, n);
    return status == KILN_OK ? status
                             : error_set(e, status, "weights of type %s are not supported", dtype_name(j->src_type));
}

kiln_status rows_pack(const kernel *k, uint32_t operand, const void *src, uint32_t src_dtype, void *dst, pool *p,
                      error *e)
{
    const cpu_kernel *c = (const cpu_kernel *)k;
    const operand_desc *d = &c->op.in[operand];
    uint32_t type = c->rows_kept >> operand & 1 ? rows_form(&c->op, operand).type
                    : d->dtype == KILN_I32      ? (uint32_t)KILN_I32
                                                : (uint32_t)KILN_F32;
    copying j = {.src = src, .dst = dst, .type = type, .src_type = src_dtype, .n = (size_t)shape_count(&d->shape)};
    if (type == src_dtype && k->pack_copies[operand] == type && rows_are_coded(&c->op, operand))
        j.type = 0, j.n = k->packed_bytes[operand];
    return tiles_run(p, (j.n + PIECE - 1) / PIECE, copy_piece, &j, e);
}

void rows_keep(cpu_kernel *c, uint32_t operand)
{
    row_form f = rows_form(&c->op, operand);
    c->rows_kept |= 1u << operand;
    c->base.pack = rows_pack;
    int64_t width = rows_width(&c->op, operand);
    const stored_rows *r = &c->op.in[operand].rows;
    size_t rows = (size_t)(shape_count(&c->op.in[operand].shape) / (width ? width : 1));
    c->base.packed_bytes[operand] = rows * f.row_bytes;
    c->base.pack_copies[operand] = f.type;
    snprintf(c->base.pack_form[operand], sizeof c->base.pack_form[operand], "rows:%s", dtype_name(f.type));
    if (!f.coding || !r->coding) return;
    c->base.pack_rows_as[operand] = 1;
    if (f.coding == WEIGHTS_BLOCKS) return;
    c->base.packed_bytes[operand] = f.codebook_at + (f.coding == WEIGHTS_NIBBLES ? 16 * sizeof(float) : (size_t)0);
    c->base.pack_copies[operand] = 0;
    snprintf(c->base.pack_form[operand], sizeof c->base.pack_form[operand], "rows:%u %s %lld", r->coding,
             r->dtype ? dtype_name(r->dtype) : "", (long long)r->scale_columns);
}

/* Vocabularies are long beside their width; the widest layers of networks are not. */
int rows_is_table(const operand_desc *d)
{
    const int64_t *n = d->shape.dim;
    return d->weight && d->shape.rank == 2 && n[0] >= 24576 && n[0] >= 4 * n[1];
}

static code_row code_row_of(const row_form *f, const void *data, int64_t row)
{
    code_row r = {.kind = f->coding == WEIGHTS_INT8      ? CODES_INT8
                          : f->coding == WEIGHTS_NIBBLES ? CODES_NIBBLES
                          : f->type == KILN_F8_E4M3      ? CODES_E4M3
                                                         : CODES_E5M2,
                  .codes = (const uint8_t *)data + (size_t)row * f->row_bytes,
                  .scale_columns = f->scale_columns};
    if (f->scales) r.scale = (const float *)(const void *)((const char *)data + f->scales_at) + (size_t)row * f->scales;
    if (f->coding == WEIGHTS_NIBBLES) r.codebook = (const float *)(const void *)((const char *)data + f->codebook_at);
    return r;
}

void row_form_codes(const cpu_kernels *k, const row_form *f, const void *data, int64_t row, int64_t column, void *to,
                    uint32_t as, size_t n)
{
    if (!f->coding) {
        gemm_convert_row(k, to, as, (const char *)data + (size_t)row * f->row_bytes + (size_t)column * f->block_bytes,
                         f->type, n);
        return;
    }
    if (f->coding == WEIGHTS_BLOCKS) {
        const char *blocks = (const char *)data + (size_t)row * f->row_bytes;
        k->blocks_read(to, as, f->type, blocks + (size_t)column / f->block * f->block_bytes, n);
        return;
    }
    code_row r = code_row_of(f, data, row);
    k->codes_read(to, as, &r, (size_t)column, n);
}

void row_form_dots(const cpu_kernels *k, const row_form *f, const void *data, int64_t row, float *out, const float *x,
                   size_t ldx, size_t m, size_t n)
{
    if (f->coding == WEIGHTS_BLOCKS) {
        k->blocks_dots(out, f->type, (const char *)data + (size_t)row * f->row_bytes, x, ldx, m, n);
        return;
    }
    code_row r = code_row_of(f, data, row);
    k->codes_dots(out, &r, x, ldx, m, n);
}

void row_form_read(const cpu_kernels *k, const row_form *f, const void *data, int64_t row, int64_t column, float *to,
                   size_t n)
{
    row_form_codes(k, f, data, row, column, to, KILN_F32, n);
}
