/* convolution_blocks.c - OP_CONV of rank 1 to 3 by oneDNN: a tile is a block of the result, whose part of the picture,
 * with what is around it, is copied into the type of the arithmetic, padding filled in. So one compiled convolution
 * without padding serves all blocks of a size, whatever the pad mode; the last block of a dimension may be smaller.
 * Groups are convolutions of their own over the same blocks.
 *
 * A picture of rank 1 or 2 is one of rank 3 with dimensions of 1 before it.
 */
#include "backend/cpu/convolution_blocks.h"

#include "backend/cpu/gemm.h"
#include "backend/resample.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"

#include <stdio.h>
#include <string.h>

enum { SIZES = 8 }; /* whole or last along each dimension: bits */
static const int64_t BLOCK_NUMBERS = 1 << 18;

typedef struct {
    int64_t x[3], out[3], kernel[3], stride[3], before[3], dilation[3], block[3], blocks[3];
    int64_t images, groups, in_group, out_group, taps;
    uint32_t type, pad_mode; /* of the arithmetic */
    gemm *gemms[SIZES];
    size_t a_bytes, c_bytes, slot_bytes, group_bytes; /* group: packed weights */
} blocks_plan;

typedef struct {
    const cpu_kernel *c;
    const kernel_args *a;
    const blocks_plan *p;
} call;

typedef struct { /* a block: where it begins, its sizes, and those of what it sees */
    int64_t image, first[3], n[3], seen[3];
    uint32_t size;
} block_place;

static int64_t seen_by(const blocks_plan *p, int d, int64_t n)
{
    return (n - 1) * p->stride[d] + (p->kernel[d] - 1) * p->dilation[d] + 1;
}

static block_place block_at(const blocks_plan *p, int64_t index)
{
    block_place b = {.size = 0};
    for (int d = 2; d >= 0; d--) {
        b.first[d] = index % p->blocks[d] * p->block[d];
        b.n[d] = min64(p->block[d], p->out[d] - b.first[d]);
        b.seen[d] = seen_by(p, d, b.n[d]);
        if (b.n[d] != p->block[d]) b.size |= 1u << d;
        index /= p->blocks[d];
    }
    b.image = index;
    return b;
}

/* ---- what a block sees ---- */

/* n pixels of a row of the picture from place `at` on, `width` channels each. */
static void copy_pixels(const call *j, char *to, int64_t row, int64_t at, int64_t n, int64_t channel)
{
    const operand_desc *x = &j->c->op.in[0];
    const blocks_plan *p = j->p;
    size_t width = (size_t)p->in_group, bytes = width * size_of(p->type);
    if (x->ld == p->in_group) {
        gemm_convert_row(j->c->k, to, p->type, place_of(x, j->a->in[0], row + at, channel), type_of(x),
                         (size_t)n * width);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const char *from = place_of(x, j->a->in[0], row + at + i, channel);
        if (type_of(x) == p->type)
            memcpy(to + (size_t)i * bytes, from, bytes);
        else
            gemm_convert_row(j->c->k, to + (size_t)i * bytes, p->type, from, type_of(x), width);
    }
}

static void copy_row(const call *j, const block_place *b, char *to, int64_t z, int64_t y, int64_t channel)
{
    const blocks_plan *p = j->p;
    size_t bytes = (size_t)p->in_group * size_of(p->type);
    int64_t start = b->first[2] * p->stride[2] - p->before[2], row = ((b->image * p->x[0] + z) * p->x[1] + y) * p->x[2];
    for (int64_t i = 0; i < b->seen[2];) {
        int64_t at = padded_place((int)p->pad_mode, start + i, p->x[2]), n = 1;
        int inside = start + i >= 0 && start + i < p->x[2];
        if (inside) n = min64(b->seen[2] - i, p->x[2] - at);
        if (at < 0)
            memset(to + (size_t)i * bytes, 0, bytes);
        else
            copy_pixels(j, to + (size_t)i * bytes, row, at, n, channel);
        i += n;
    }
}

static void copy_block(const call *j, const block_place *b, int64_t channel, char *to)
{
    const blocks_plan *p = j->p;
    size_t row = (size_t)(b->seen[2] * p->in_group) * size_of(p->type);
    for (int64_t i = 0; i < b->seen[0] * b->seen[1]; i++, to += row) {
        int64_t z = padded_place((int)p->pad_mode, b->first[0] * p->stride[0] - p->before[0] + i / b->seen[1], p->x[0]);
        int64_t y = padded_place((int)p->pad_mode, b->first[1] * p->stride[1] - p->before[1] + i % b->seen[1], p->x[1]);
        if (z < 0 || y < 0)
            memset(to, 0, row);
        else
            copy_row(j, b, to, z, y, channel);
    }
}

/* ---- a block ---- */

static void store_block(const call *j, const block_place *b, int64_t column, float *c)
{
    const blocks_plan *p = j->p;
    const operand_desc *out = &j->c->op.out;
    const float *bias = j->c->op.in[2].dtype ? (const float *)j->a->in[2] + column : NULL;
    size_t n = (size_t)p->out_group;
    for (int64_t i = 0; i < b->n[0] * b->n[1] * b->n[2]; i++, c += n) {
        int64_t x = b->first[2] + i % b->n[2], y = b->first[1] + i / b->n[2] % b->n[1],
                z = b->first[0] + i / b->n[2] / b->n[1];
        int64_t row = ((b->image * p->out[0] + z) * p->out[1] + y) * p->out[2] + x;
        if (bias) j->c->k->add(c, bias, n);
        j->c->k->store((char *)j->a->out + (size_t)(row * out->ld + column) * size_of(out->dtype), out->dtype, c, n);
    }
}

static kiln_status tile(void *arg, size_t index, unsigned slot, error *e)
{
    const call *j = arg;
    const blocks_plan *p = j->p;
    block_place b = block_at(p, (int64_t)index);
    char *a = (char *)j->a->scratch + slot * p->slot_bytes, *own = a + p->a_bytes + p->c_bytes;
    float *c = (float *)(void *)(a + p->a_bytes);
    for (int64_t g = 0; g < p->groups; g++) {
        copy_block(j, &b, g * p->in_group, a);
        TRY(gemm_run(p->gemms[b.size], a, (const char *)j->a->in[1] + (size_t)g * p->group_bytes, NULL, c, own, e));
        store_block(j, &b, g * p->out_group, c);
    }
    return KILN_OK;
}

static kiln_status run(const cpu_kernel *c, const kernel_args *a, error *e)
{
    call j = {c, a, c->plan};
    return tiles_run(a->pool, (size_t)(j.p->images * j.p->blocks[0] * j.p->blocks[1] * j.p->blocks[2]), tile, &j, e);
}

/* ---- weights: [O][I / groups][taps], a group after the other ---- */

static kiln_status pack(const kernel *base, uint32_t operand, const void *src, uint32_t src_dtype, void *dst,
                        pool *workers, error *e)
{
    const cpu_kernel *c = (const cpu_kernel *)base;
    const blocks_plan *p = c->plan;
    size_t n =
        operand == 1 ? (size_t)(p->out_group * p->in_group * p->taps) : (size_t)shape_count(&c->op.in[operand].shape);
    size_t groups = operand == 1 ? (size_t)p->groups : 1;
    float *plain = operand == 1 ? mem_alloc(n * sizeof *plain) : dst;
    kiln_status status = plain ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory for weights");
    (void)workers;
    for (size_t g = 0; g < groups && status == KILN_OK; g++) {
        status = dtype_convert(plain, KILN_F32, (const char *)src + g * n * dtype_size(src_dtype), src_dtype, n);
        if (status != KILN_OK)
            error_set(e, status, "weights of type %s are not supported", dtype_name(src_dtype));
        else if (operand == 1)
            status = gemm_pack(p->gemms[0], plain, (char *)dst + g * p->group_bytes, e);
    }
    if (operand == 1) mem_free(plain);
    return status;
}

/* ---- preparing ---- */

static void free_plan(void *plan)
{
    blocks_plan *p = plan;
    for (int i = 0; p && i < SIZES; i++) gemm_free(p->gemms[i]);
    mem_free(p);
}

static void measure(blocks_plan *p, const op_desc *op)
{
    const conv_attr *t = &op->attr.conv;
    for (int d = 0; d < 3; d++) {
        int own = d + (int)t->rank - 3; /* the dimension of the convolution's; below 0: one that is not there */
        p->x[d] = own < 0 ? 1 : op->in[0].shape.dim[1 + own];
        p->out[d] = own < 0 ? 1 : op->out.shape.dim[1 + own];
        p->kernel[d] = own < 0 ? 1 : op->in[1].shape.dim[2 + own];
        p->stride[d] = own < 0 ? 1 : t->stride[own];
        p->dilation[d] = own < 0 ? 1 : t->dilation[own];
        p->before[d] = own < 0 ? 0 : t->before[own];
    }
    p->taps = p->kernel[0] * p->kernel[1] * p->kernel[2];
    p->images = op->in[0].shape.dim[0], p->groups = t->groups, p->pad_mode = t->pad_mode;
    p->in_group = columns_of(&op->in[0]) / p->groups, p->out_group = columns_of(&op->out) / p->groups;
}

/* Blocks of about a megabyte of results, several frames deep, at least four of them where that is possible. */
static void cut(blocks_plan *p)
{
    int64_t pixels = BLOCK_NUMBERS / p->out_group;
    pixels = pixels < 64 ? 64 : pixels > 1024 ? 1024 : pixels;
    p->block[2] = min64(p->out[2], p->out[1] == 1 && p->out[0] == 1 ? min64(pixels, (p->out[2] + 3) / 4) : 64);
    p->block[0] = min64(p->out[0], 4);
    int64_t rows = pixels / p->block[2] / p->block[0];
    p->block[1] = min64(p->out[1], rows < 4 ? 4 : rows);
    if (p->out[1] > 4) p->block[1] = min64(p->block[1], (p->out[1] + 3) / 4);
    for (int d = 0; d < 3; d++) p->blocks[d] = (p->out[d] + p->block[d] - 1) / p->block[d];
}

static kiln_status make_gemms(blocks_plan *p, error *e)
{
    size_t own = 0;
    for (uint32_t size = 0; size < SIZES; size++) {
        int64_t n[3];
        int there = 1;
        for (int d = 0; d < 3; d++) {
            int64_t last = p->out[d] - (p->blocks[d] - 1) * p->block[d];
            n[d] = size >> d & 1 ? last : p->block[d];
            if (size >> d & 1 && last == p->block[d]) there = 0;
        }
        if (!there) continue;
        gemm_shape s = {.type = p->type, .conv = 1, .n = p->out_group, .i = p->in_group};
        s.h = seen_by(p, 1, n[1]), s.w = seen_by(p, 2, n[2]), s.oh = n[1], s.ow = n[2];
        s.kh = p->kernel[1], s.kw = p->kernel[2], s.stride[0] = p->stride[1], s.stride[1] = p->stride[2];
        s.dilation[0] = p->dilation[1], s.dilation[1] = p->dilation[2];
        if (p->x[0] > 1 || p->kernel[0] > 1) {
            s.d = seen_by(p, 0, n[0]), s.od = n[0], s.kd = p->kernel[0];
            s.deep_stride = p->stride[0], s.deep_dilation = p->dilation[0];
        }
        TRY(gemm_new(&s, p->gemms[0], &p->gemms[size], e));
        size_t bytes = gemm_scratch_bytes(p->gemms[size]);
        own = bytes > own ? bytes : own;
    }
    int64_t seen = seen_by(p, 0, p->block[0]) * seen_by(p, 1, p->block[1]) * seen_by(p, 2, p->block[2]);
    p->a_bytes = round_up((size_t)(seen * p->in_group) * size_of(p->type), 64);
    p->c_bytes = round_up((size_t)(p->block[0] * p->block[1] * p->block[2] * p->out_group) * sizeof(float), 64);
    p->slot_bytes = p->a_bytes + p->c_bytes + round_up(own, 64);
    p->group_bytes = round_up(gemm_weight_bytes(p->gemms[0]), 64);
    return KILN_OK;
}

kiln_status convolution_blocks_prepare(cpu_kernel *c, error *e)
{
    const op_desc *op = &c->op;
    blocks_plan *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    measure(p, op);
    cut(p);
    p->type = cpu_gemm_type(op->precision);
    kiln_status status = make_gemms(p, e);
    if (status == KILN_OK && strncmp(gemm_name(p->gemms[0]), "ref", 3) == 0)
        status = error_set(e, KILN_ERR_UNSUPPORTED, "oneDNN has no fast convolution for it");
    if (status != KILN_OK) {
        free_plan(p);
        return status;
    }
    c->plan = p, c->plan_free = free_plan, c->body = run;
    c->base.name = gemm_name(p->gemms[0]);
    c->base.pack = pack;
    c->base.packed_bytes[1] = (size_t)p->groups * p->group_bytes;
    c->base.scratch_bytes = cpu_slots() * p->slot_bytes;
    snprintf(c->base.pack_form[1], sizeof c->base.pack_form[1], "conv onednn:%s:%lld:%016llx", dtype_name(p->type),
             (long long)p->groups, (unsigned long long)gemm_layout(p->gemms[0]));
    c->base.flops = 2 * (uint64_t)shape_count(&op->out.shape) * (uint64_t)(p->taps * p->in_group);
    return KILN_OK;
}
