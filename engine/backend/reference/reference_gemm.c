/* reference_gemm.c - convolution, linear: the definitions. */
#include "backend/reference/reference.h"

/* out[n,y,x,o] = bias[o] + sum over ky,kx,i of x[n, y*sy + ky*dy - top, x*sx + kx*dx - left, i] w[o,i,ky,kx] */
static double conv_at(const op_desc *op, const kernel_args *a, int64_t n, int64_t y, int64_t x, int64_t o)
{
    const conv2d_attr *c = &op->attr.conv2d;
    const operand_desc *in = &op->in[0], *w = &op->in[1];
    int64_t H = in->shape.dim[1], W = in->shape.dim[2], I = w->shape.dim[1], kh = w->shape.dim[2], kw = w->shape.dim[3];
    const float *weight = (const float *)a->in[1] + o * I * kh * kw;
    int64_t first = o / (w->shape.dim[0] / c->groups) * I; /* first input channel of this output's group */
    double sum = op->in[2].dtype ? (double)operand_get(&op->in[2], a->in[2], 0, o) : 0;
    int upsampled = c->upsampled.rows != 0;
    for (int64_t ky = 0; ky < kh; ky++) {
        int64_t sy = y * c->stride[0] + ky * c->dilation[0] - c->pad[0];
        if (sy < 0 || sy >= (upsampled ? c->upsampled.rows : H)) continue;
        if (upsampled) sy = (sy + c->upsampled.first) / 2;
        for (int64_t kx = 0; kx < kw; kx++) {
            int64_t sx = x * c->stride[1] + kx * c->dilation[1] - c->pad[1];
            if (sx < 0 || sx >= (upsampled ? 2 * W : W)) continue;
            if (upsampled) sx /= 2;
            for (int64_t i = 0; i < I; i++)
                sum += (double)operand_get(in, a->in[0], (n * H + sy) * W + sx, first + i) *
                       (double)weight[(i * kh + ky) * kw + kx];
        }
    }
    return sum;
}

kiln_status reference_conv2d(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    const int64_t *d = op->out.shape.dim;
    for (int64_t n = 0; n < d[0]; n++)
        for (int64_t y = 0; y < d[1]; y++)
            for (int64_t x = 0; x < d[2]; x++)
                for (int64_t o = 0; o < d[3]; o++)
                    epilogue_store(op, a, (n * d[1] + y) * d[2] + x, o, conv_at(op, a, n, y, x, o), 0);
    return KILN_OK;
}

/* out[r,o] = bias[o] + sum_i x[r,i] w[o,i] */
static double linear_at(const op_desc *op, const kernel_args *a, int64_t row, int64_t o)
{
    int64_t I = op->in[1].shape.dim[1];
    const float *w = (const float *)a->in[1] + o * I;
    double sum = op->in[2].dtype ? (double)operand_get(&op->in[2], a->in[2], 0, o) : 0;
    for (int64_t i = 0; i < I; i++) sum += (double)operand_get(&op->in[0], a->in[0], row, i) * (double)w[i];
    return sum;
}

kiln_status reference_linear(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    int64_t rows = operand_rows(&op->out), columns = operand_columns(&op->out);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < columns; o++) {
            double gate = op->epilogue.geglu ? linear_at(op, a, r, columns + o) : 0;
            epilogue_store(op, a, r, o, linear_at(op, a, r, o), gate);
        }
    return KILN_OK;
}
