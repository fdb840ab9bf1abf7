/* reference_gemm.c - convolution, linear, attention: the definitions. */
#include "backend/reference/reference.h"

#include <math.h>

/* out[n,y,x,o] = bias[o] + sum over ky,kx,i of x[n, y*sy + ky*dy - top, x*sx + kx*dx - left, i] w[o,i,ky,kx] */
static double conv_at(const op_desc *op, const kernel_args *a, int64_t n, int64_t y, int64_t x, int64_t o)
{
    const conv2d_attr *c = &op->attr.conv2d;
    const operand_desc *in = &op->in[0], *w = &op->in[1];
    int64_t H = in->shape.dim[1], W = in->shape.dim[2], I = w->shape.dim[1], kh = w->shape.dim[2], kw = w->shape.dim[3];
    const float *weight = (const float *)a->in[1] + o * I * kh * kw;
    int64_t first = o / (w->shape.dim[0] / c->groups) * I; /* first input channel of this output's group */
    double sum = op->in[2].dtype ? (double)operand_get(&op->in[2], a->in[2], 0, o) : 0;
    for (int64_t ky = 0; ky < kh; ky++) {
        int64_t sy = y * c->stride[0] + ky * c->dilation[0] - c->pad[0];
        if (sy < 0 || sy >= H) continue;
        for (int64_t kx = 0; kx < kw; kx++) {
            int64_t sx = x * c->stride[1] + kx * c->dilation[1] - c->pad[1];
            if (sx < 0 || sx >= W) continue;
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

/* The mask's value for (n, head, query, key): dimensions of size 1 repeat. */
static double mask_at(const operand_desc *m, const void *data, int64_t n, int64_t h, int64_t q, int64_t k)
{
    const int64_t *d = m->shape.dim;
    int64_t row = ((d[0] == 1 ? 0 : n) * d[1] + (d[1] == 1 ? 0 : h)) * d[2] + q;
    return (double)operand_get(m, data, row, k);
}

static double score_at(const op_desc *op, const kernel_args *a, int64_t n, int64_t h, int64_t q, int64_t k)
{
    const operand_desc *in = op->in;
    int64_t Tq = in[0].shape.dim[1], Tk = in[1].shape.dim[1], D = in[0].shape.dim[2] / op->attr.attention.heads;
    double s = 0;
    for (int64_t i = 0; i < D; i++)
        s += (double)operand_get(&in[0], a->in[0], n * Tq + q, h * D + i) *
             (double)operand_get(&in[1], a->in[1], n * Tk + k, h * D + i);
    s *= (double)op->attr.attention.scale;
    return op->n_in > 3 && in[3].dtype ? s + mask_at(&in[3], a->in[3], n, h, q, k) : s;
}

/* softmax(q k^T scale + mask) v for one query of one head: two passes over the keys, and one for every few columns of
 * the result, which is as many as are summed at a time without memory of their own. */
static void attend(const op_desc *op, const kernel_args *a, int64_t n, int64_t h, int64_t q)
{
    enum { AT_ONCE = 64 };
    const operand_desc *in = op->in;
    int64_t Tq = in[0].shape.dim[1], Tk = in[1].shape.dim[1], D = in[0].shape.dim[2] / op->attr.attention.heads;
    int64_t keys = op->attr.attention.causal && q + 1 < Tk ? q + 1 : Tk;
    double most = -INFINITY, total = 0;
    for (int64_t k = 0; k < keys; k++) most = fmax(most, score_at(op, a, n, h, q, k));
    for (int64_t k = 0; k < keys && most > -INFINITY; k++) total += exp(score_at(op, a, n, h, q, k) - most);
    for (int64_t first = 0; first < D; first += AT_ONCE) {
        int64_t count = D - first < AT_ONCE ? D - first : AT_ONCE;
        double sum[AT_ONCE] = {0};
        for (int64_t k = 0; k < keys && total > 0; k++) {
            double weight = exp(score_at(op, a, n, h, q, k) - most);
            for (int64_t i = 0; weight > 0 && i < count; i++)
                sum[i] += weight * (double)operand_get(&in[2], a->in[2], n * Tk + k, h * D + first + i);
        }
        for (int64_t i = 0; i < count; i++)
            operand_set(&op->out, a->out, n * Tq + q, h * D + first + i, total > 0 ? (float)(sum[i] / total) : 0);
    }
}

kiln_status reference_attention(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    for (int64_t n = 0; n < op->in[0].shape.dim[0]; n++)
        for (int64_t h = 0; h < op->attr.attention.heads; h++)
            for (int64_t q = 0; q < op->in[0].shape.dim[1]; q++) attend(op, a, n, h, q);
    return KILN_OK;
}
