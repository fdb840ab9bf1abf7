/* reference_gemm.c - convolution, linear: the definitions. */
#include "backend/reference/reference.h"

/* Outputs whose sums are made side by side, each in its own order: the additions of one sum wait for each other, and
 * most of what the tests of ops take is that. */
enum { TOGETHER = 8 };

static int64_t at_once(int64_t left) { return left < TOGETHER ? left : TOGETHER; }

static void start_sums(const op_desc *op, const kernel_args *a, int64_t first, int64_t n, double *sum)
{
    for (int64_t k = 0; k < n; k++)
        sum[k] = op->in[2].dtype ? (double)operand_get(&op->in[2], a->in[2], 0, first + k) : 0;
}

/* out[n,y,x,o] = bias[o] + sum over ky,kx,i of x[n, y*sy + ky*dy - top, x*sx + kx*dx - left, i] w[o,i,ky,kx]
 * for `together` outputs from o on, all of one group */
static void conv_at(const op_desc *op, const kernel_args *a, int64_t n, int64_t y, int64_t x, int64_t o,
                    int64_t together, double *sum)
{
    const conv2d_attr *c = &op->attr.conv2d;
    const operand_desc *in = &op->in[0], *w = &op->in[1];
    int64_t H = in->shape.dim[1], W = in->shape.dim[2], I = w->shape.dim[1], kh = w->shape.dim[2], kw = w->shape.dim[3];
    const float *weight = (const float *)a->in[1] + o * I * kh * kw;
    int64_t first = o / (w->shape.dim[0] / c->groups) * I; /* first input channel of this group */
    int upsampled = c->upsampled.rows != 0;
    start_sums(op, a, o, together, sum);
    for (int64_t ky = 0; ky < kh; ky++) {
        int64_t sy = y * c->stride[0] + ky * c->dilation[0] - c->pad[0];
        if (sy < 0 || sy >= (upsampled ? c->upsampled.rows : H)) continue;
        if (upsampled) sy = (sy + c->upsampled.first) / 2;
        for (int64_t kx = 0; kx < kw; kx++) {
            int64_t sx = x * c->stride[1] + kx * c->dilation[1] - c->pad[1];
            if (sx < 0 || sx >= (upsampled ? 2 * W : W)) continue;
            if (upsampled) sx /= 2;
            for (int64_t i = 0; i < I; i++) {
                double v = (double)operand_get(in, a->in[0], (n * H + sy) * W + sx, first + i);
                const float *by = weight + (i * kh + ky) * kw + kx;
                for (int64_t k = 0; k < together; k++) sum[k] += v * (double)by[k * I * kh * kw];
            }
        }
    }
}

kiln_status reference_conv2d(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    const int64_t *d = op->out.shape.dim;
    int64_t each = d[3] / op->attr.conv2d.groups; /* outputs of a group */
    for (int64_t n = 0; n < d[0]; n++)
        for (int64_t y = 0; y < d[1]; y++)
            for (int64_t x = 0; x < d[2]; x++)
                for (int64_t o = 0, together; o < d[3]; o += together) {
                    double sum[TOGETHER];
                    together = at_once(each - o % each);
                    conv_at(op, a, n, y, x, o, together, sum);
                    for (int64_t k = 0; k < together; k++)
                        epilogue_store(op, a, (n * d[1] + y) * d[2] + x, o + k, sum[k], 0);
                }
    return KILN_OK;
}

/* out[r,o] = bias[o] + sum_i x[r,i] w[o,i], for `together` outputs from o on */
static void linear_at(const op_desc *op, const kernel_args *a, int64_t row, int64_t o, int64_t together, double *sum)
{
    int64_t I = op->in[1].shape.dim[1];
    const float *w = (const float *)a->in[1] + o * I;
    start_sums(op, a, o, together, sum);
    for (int64_t i = 0; i < I; i++) {
        double v = (double)operand_get(&op->in[0], a->in[0], row, i);
        for (int64_t k = 0; k < together; k++) sum[k] += v * (double)w[k * I + i];
    }
}

kiln_status reference_linear(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    int64_t rows = operand_rows(&op->out), columns = operand_columns(&op->out);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0, together; o < columns; o += together) {
            double sum[TOGETHER], gate[TOGETHER] = {0};
            together = at_once(columns - o);
            linear_at(op, a, r, o, together, sum);
            if (op->epilogue.geglu) linear_at(op, a, r, columns + o, together, gate);
            for (int64_t k = 0; k < together; k++) epilogue_store(op, a, r, o + k, sum[k], gate[k]);
        }
    return KILN_OK;
}
