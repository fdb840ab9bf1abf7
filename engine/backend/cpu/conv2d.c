/* conv2d.c - convolution as a tiled GEMM: row tiles of output rows by column tiles of output channels; see gemm.h.
 *
 * A row tile reads its input rows and the halo in place. Only the first and the last row tile of an image have padding,
 * so a handful of compiled convolutions serve a picture of any size.
 */
#include "backend/cpu/convolution_tiles.h"
#include "backend/cpu/linear.h"
#include "backend/cpu/winograd.h"
#include "tensor/dtype.h"

#include <string.h>

enum { BAND_PIXELS = 512, MAX_BLOCK = 320 };

/* Output rows [first, first + n) of one image: the input rows they need and what is padding. */
static gemm_shape row_tile_shape(const op_desc *op, int64_t first, int64_t n, int64_t *row)
{
    const conv2d_attr *t = &op->attr.conv2d;
    const int64_t *x = op->in[0].shape.dim, *w = op->in[1].shape.dim, *o = op->out.shape.dim;
    int64_t top = first * t->stride[0] - t->pad[0];
    int64_t end = (first + n - 1) * t->stride[0] - t->pad[0] + (w[2] - 1) * t->dilation[0] + 1;
    gemm_shape s = {.conv = 1, .w = x[2], .i = x[3], .oh = n, .ow = o[2], .kh = w[2], .kw = w[3]};
    s.stride[0] = t->stride[0], s.stride[1] = t->stride[1];
    s.dilation[0] = t->dilation[0], s.dilation[1] = t->dilation[1];
    s.pad[0] = top < 0 ? -top : 0, s.pad[1] = t->pad[1];
    s.pad[2] = end > x[1] ? end - x[1] : 0;
    *row = top < 0 ? 0 : top;
    s.h = (end > x[1] ? x[1] : end) - *row;
    s.pad[3] = t->pad[3];
    return s;
}

static int find_variant(const gemm_shape *known, uint32_t n, const gemm_shape *s)
{
    for (uint32_t i = 0; i < n; i++)
        if (memcmp(&known[i], s, sizeof *s) == 0)
            return (int)i; /* NOLINT: both were zeroed before they were filled; a difference in padding makes a variant
                              more, no fault */
    return -1;
}

static int is_linear(const op_desc *op)
{
    const conv2d_attr *t = &op->attr.conv2d;
    const int64_t *w = op->in[1].shape.dim;
    return w[2] == 1 && w[3] == 1 && t->stride[0] == 1 && t->stride[1] == 1 &&
           !(t->pad[0] | t->pad[1] | t->pad[2] | t->pad[3]);
}

static kiln_status fill_row_tiles(cpu_kernel *c, int64_t height, int64_t per_image, error *e)
{
    const op_desc *op = &c->op;
    const int64_t *x = op->in[0].shape.dim, *o = op->out.shape.dim;
    tiled_gemm *g = c->plan;
    gemm_shape known[GEMM_VARIANTS];
    uint32_t n_known = 0;
    for (size_t i = 0; i < g->n_row_tiles; i++) {
        int64_t image = (int64_t)i / per_image, first = (int64_t)i % per_image * height, row;
        int64_t n = min64(height, o[1] - first);
        gemm_shape s = row_tile_shape(op, first, n, &row);
        int v = find_variant(known, n_known, &s);
        if (s.h < 1) return error_set(e, KILN_ERR_UNSUPPORTED, "conv2d: a window that lies in the padding alone");
        if (v < 0) {
            if (n_known == GEMM_VARIANTS)
                return error_set(e, KILN_ERR_UNSUPPORTED, "conv2d: too many kinds of padding");
            v = (int)n_known;
            known[n_known++] = s;
            TRY(tiled_gemm_variant(c, (uint32_t)v, &s, e));
        }
        g->row_tiles[i] = (row_tile){.in = (image * x[1] + row) * x[2],
                                     .n_in = s.h * x[2],
                                     .out = (image * o[1] + first) * o[2],
                                     .n_out = n * o[2],
                                     .variant = (uint32_t)v};
    }
    return KILN_OK;
}

/* Groups are OP_CONV's, which has no epilogue. */
static kiln_status prepare_groups(cpu_kernel *c, error *e)
{
    const conv2d_attr t = c->op.attr.conv2d;
    const op_epilogue *own = &c->op.epilogue;
    if (own->act || own->residual || own->geglu)
        return error_set(e, KILN_ERR_UNSUPPORTED, "conv2d of %d groups: nothing can be fused with it", (int)t.groups);
    c->op.kind = OP_CONV;
    c->op.attr.conv = (conv_attr){.rank = 2,
                                  .stride = {t.stride[0], t.stride[1]},
                                  .before = {t.pad[0], t.pad[1]},
                                  .after = {t.pad[2], t.pad[3]},
                                  .dilation = {t.dilation[0], t.dilation[1]},
                                  .groups = t.groups};
    return cpu_prepare_conv(c, e);
}

kiln_status cpu_prepare_conv2d(cpu_kernel *c, error *e)
{
    const op_desc *op = &c->op;
    const int64_t *o = op->out.shape.dim, *w = op->in[1].shape.dim;
    if (op->attr.conv2d.groups != 1) return prepare_groups(c, e);
    if (!shape_count(&op->out.shape) || !shape_count(&op->in[0].shape))
        return error_set(e, KILN_ERR_UNSUPPORTED, "conv2d: an operand without elements");
    if (op->attr.conv2d.upsampled.rows)
        return convolution_tiles_take_upsampled(op)
                   ? convolution_tiles_prepare(c, e)
                   : error_set(e, KILN_ERR_UNSUPPORTED, "conv2d: no kernel that reads a picture as if upsampled");
    if (is_linear(op)) return linear_prepare_as(c, rows_of(&op->in[0]), w[1], w[0], e);
    if (winograd_fits(op)) return winograd_prepare(c, e);
    if (convolution_tiles_fit(op)) return convolution_tiles_prepare(c, e);
    int64_t height = BAND_PIXELS / o[2];
    height = height < 4 ? 4 : height > o[1] ? o[1] : height;
    height = min64(height, o[1]);
    int64_t per_image = (o[1] + height - 1) / height;
    int64_t width = rows_are_coded(op, 1) ? tiled_gemm_width(w[1] * w[2] * w[3], 64, MAX_BLOCK) : MAX_BLOCK;
    TRY(tiled_gemm_new(c, w[0], min64(w[0], width), (size_t)(o[0] * per_image), e));
    TRY(fill_row_tiles(c, height, per_image, e));
    c->base.flops = 2u * (uint64_t)(o[0] * o[1] * o[2]) * (uint64_t)shape_count(&op->in[1].shape);
    return tiled_gemm_finish(c, e);
}
