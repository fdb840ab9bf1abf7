/* controlnet_blocks.c - see control.h. Shapes: N pictures, H x W cells, C channels, T = H*W tokens. */
#include "control.h"

#include <stdio.h>

enum { NAME_LENGTH = 160 };
#define NAME(part_) (snprintf(full, sizeof full, "%.100s.%.40s", name, part_), full)

int64_t control_dim(const kiln_ops *ops, kiln_program *p, kiln_t x, uint32_t i)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    uint32_t rank = ops->shape(p, x, dim, KILN_MAX_RANK);
    return i < rank ? dim[i] : i == UINT32_MAX && rank ? dim[rank - 1] : 0;
}

kiln_t control_conv(const kiln_ops *ops, kiln_program *p, kiln_weights *w, const char *name, kiln_t x,
                    const int64_t out_kernel_stride[3])
{
    char full[NAME_LENGTH];
    int64_t out = out_kernel_stride[0], kernel = out_kernel_stride[1];
    int32_t stride = (int32_t)out_kernel_stride[2], pad = (int32_t)kernel / 2;
    kiln_conv2d options = {.size = sizeof options, .stride = {stride, stride}, .pad = {pad, pad, pad, pad}};
    kiln_t weight = ops->weight(p, w, NAME("weight"), 4, KILN_DIMS(out, control_dim(ops, p, x, 3), kernel, kernel));
    return ops->conv2d(p, x, weight, ops->weight(p, w, NAME("bias"), 1, &out), &options);
}

static int64_t width(const controlnet_recorder *r, kiln_t x) { return control_dim(r->ops, r->p, x, UINT32_MAX); }

kiln_t controlnet_conv(const controlnet_recorder *r, const char *name, kiln_t x, int64_t out, int64_t kernel,
                       int64_t stride)
{
    return control_conv(r->ops, r->p, r->w, name, x, KILN_DIMS(out, kernel, stride));
}

static kiln_t linear(const controlnet_recorder *r, const char *name, const char *part, kiln_t x, int64_t out, int bias)
{
    char full[NAME_LENGTH];
    snprintf(full, sizeof full, "%.100s.%.40s.weight", name, part);
    kiln_t w = r->ops->weight(r->p, r->w, full, 2, KILN_DIMS(out, width(r, x))), b = {0};
    snprintf(full, sizeof full, "%.100s.%.40s.bias", name, part);
    if (bias) b = r->ops->weight(r->p, r->w, full, 1, &out);
    return r->ops->linear(r->p, x, w, b);
}

/* gamma and beta of NAME.PART. */
static void affine_of(const controlnet_recorder *r, const char *name, const char *part, kiln_t x, kiln_t out[2])
{
    char full[NAME_LENGTH];
    int64_t n = width(r, x);
    snprintf(full, sizeof full, "%.100s.%.40s.weight", name, part);
    out[0] = r->ops->weight(r->p, r->w, full, 1, &n);
    snprintf(full, sizeof full, "%.100s.%.40s.bias", name, part);
    out[1] = r->ops->weight(r->p, r->w, full, 1, &n);
}

static kiln_t group_norm(const controlnet_recorder *r, const char *name, const char *part, kiln_t x, float eps)
{
    kiln_t g[2];
    affine_of(r, name, part, x, g);
    return r->ops->group_norm(r->p, x, (int32_t)r->config->groups, eps, g[0], g[1]);
}

static kiln_t layer_norm(const controlnet_recorder *r, const char *name, const char *part, kiln_t x)
{
    kiln_t g[2];
    affine_of(r, name, part, x, g);
    return r->ops->layer_norm(r->p, x, 1e-5f, g[0], g[1]);
}

static kiln_t silu(const controlnet_recorder *r, kiln_t x) { return r->ops->act(r->p, x, KILN_ACT_SILU); }

kiln_t controlnet_time(const controlnet_recorder *r, kiln_t timestep)
{
    int64_t channels = r->config->channels[0];
    kiln_timestep_embedding how = {.size = sizeof how, .cos_first = 1};
    kiln_t h = r->ops->timestep_embedding(r->p, timestep, channels, &how);
    h = silu(r, linear(r, "time_embedding", "linear_1", h, 4 * channels, 1));
    return linear(r, "time_embedding", "linear_2", h, 4 * channels, 1);
}

kiln_t controlnet_resnet(const controlnet_recorder *r, const char *name, kiln_t x, int64_t out)
{
    const kiln_ops *o = r->ops;
    char full[NAME_LENGTH];
    kiln_t h = silu(r, group_norm(r, name, "norm1", x, r->config->eps));
    h = controlnet_conv(r, NAME("conv1"), h, out, 3, 1);          /* [N,H,W,out] */
    kiln_t t = linear(r, name, "time_emb_proj", r->temb, out, 1); /* [N,out]     */
    h = o->add(r->p, h, o->reshape(r->p, t, 4, KILN_DIMS(control_dim(o, r->p, t, 0), 1, 1, out)));
    h = silu(r, group_norm(r, name, "norm2", h, r->config->eps));
    h = controlnet_conv(r, NAME("conv2"), h, out, 3, 1);
    if (width(r, x) != out) x = controlnet_conv(r, NAME("conv_shortcut"), x, out, 1, 1);
    return o->add(r->p, h, x);
}

/* Attention of x [N,T,C] to `to` [N,S,D]. */
static kiln_t attend(const controlnet_recorder *r, const char *name, kiln_t x, kiln_t to, int64_t heads)
{
    int64_t c = width(r, x);
    kiln_attention how = {.size = sizeof how, .heads = (int32_t)heads};
    kiln_t q = linear(r, name, "to_q", x, c, 0), k = linear(r, name, "to_k", to, c, 0),
           v = linear(r, name, "to_v", to, c, 0);
    return linear(r, name, "to_out.0", r->ops->attention(r->p, q, k, v, &how), c, 1);
}

/* Tokens x [N,T,C] -> [N,T,C]. */
static kiln_t transformer_block(const controlnet_recorder *r, const char *name, kiln_t x, int64_t heads)
{
    const kiln_ops *o = r->ops;
    char full[NAME_LENGTH];
    int64_t c = width(r, x);
    kiln_t h = layer_norm(r, name, "norm1", x);
    x = o->add(r->p, attend(r, NAME("attn1"), h, h, heads), x);
    h = layer_norm(r, name, "norm2", x);
    x = o->add(r->p, attend(r, NAME("attn2"), h, r->context, heads), x);
    h = linear(r, name, "ff.net.0.proj", layer_norm(r, name, "norm3", x), 8 * c, 1);
    h = linear(r, name, "ff.net.2", o->geglu(r->p, h), c, 1);
    return o->add(r->p, h, x);
}

kiln_t controlnet_attention(const controlnet_recorder *r, const char *name, kiln_t x, int64_t heads)
{
    const kiln_ops *o = r->ops;
    char full[NAME_LENGTH];
    int64_t n = control_dim(o, r->p, x, 0), h = control_dim(o, r->p, x, 1), w = control_dim(o, r->p, x, 2),
            c = width(r, x);
    kiln_t y = controlnet_conv(r, NAME("proj_in"), group_norm(r, name, "norm", x, 1e-6f), c, 1, 1);
    y = transformer_block(r, NAME("transformer_blocks.0"), o->reshape(r->p, y, 3, KILN_DIMS(n, h * w, c)), heads);
    y = controlnet_conv(r, NAME("proj_out"), o->reshape(r->p, y, 4, KILN_DIMS(n, h, w, c)), c, 1, 1);
    return o->add(r->p, y, x);
}
