/* unet_blocks.c - see unet_blocks.h. Shapes: N pictures, H x W cells, C channels, T = H*W tokens.
 *
 * Details that have caused bugs elsewhere: the resnet's norms have eps 1e-5 and the attention's 1e-6; the
 * transformer's projections are 1x1 convolutions in SD1.x and linear layers in SD2 and SDXL; GEGLU's gate is the
 * second half and its gelu is exact.
 */
#include "unet_blocks.h"

#include <stdio.h>

enum { NAME_CAPACITY = 160 };
#define ATTENTION_EPS 1e-6f

/* ---- weights ---- */

static kiln_t weight(const unet_recorder *r, const char *name, const char *kind, uint32_t rank, const int64_t *dim)
{
    char full[NAME_CAPACITY];
    snprintf(full, sizeof full, "%s.%s", name, kind);
    kiln_t own = r->base ? r->ops->weight_optional(r->p, r->w, full, rank, dim) : (kiln_t){0};
    return own.id ? own : r->ops->weight(r->p, r->base ? r->base : r->w, full, rank, dim);
}

static int64_t dim_of(const unet_recorder *r, kiln_t x, uint32_t i)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    uint32_t rank = r->ops->shape(r->p, x, dim, KILN_MAX_RANK);
    return i < rank && i < KILN_MAX_RANK ? dim[i] : 0;
}

static int64_t channels_of(const unet_recorder *r, kiln_t x)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    uint32_t rank = r->ops->shape(r->p, x, dim, KILN_MAX_RANK);
    return rank && rank <= KILN_MAX_RANK ? dim[rank - 1] : 0;
}

kiln_t unet_linear(const unet_recorder *r, const char *name, kiln_t x, int64_t out, int bias)
{
    kiln_t w = weight(r, name, "weight", 2, KILN_DIMS(out, channels_of(r, x)));
    return r->ops->linear(r->p, x, w, bias ? weight(r, name, "bias", 1, &out) : (kiln_t){0});
}

kiln_t unet_conv(const unet_recorder *r, const char *name, kiln_t x, int64_t out, int32_t kernel, int32_t stride)
{
    int32_t pad = kernel / 2;
    kiln_t w = weight(r, name, "weight", 4, KILN_DIMS(out, channels_of(r, x), kernel, kernel));
    kiln_conv2d options = {.size = sizeof options, .stride = {stride, stride}, .pad = {pad, pad, pad, pad}};
    return r->ops->conv2d(r->p, x, w, weight(r, name, "bias", 1, &out), &options);
}

kiln_t unet_group_norm(const unet_recorder *r, const char *name, kiln_t x, float eps)
{
    int64_t c = channels_of(r, x);
    return r->ops->group_norm(r->p, x, (int32_t)r->config->groups, eps, weight(r, name, "weight", 1, &c),
                              weight(r, name, "bias", 1, &c));
}

kiln_t unet_layer_norm(const unet_recorder *r, const char *name, kiln_t x)
{
    int64_t c = channels_of(r, x);
    return r->ops->layer_norm(r->p, x, 1e-5f, weight(r, name, "weight", 1, &c), weight(r, name, "bias", 1, &c));
}

/* ---- hooks ---- */

static kiln_recording recording_of(const unet_recorder *r)
{
    return (kiln_recording){.size = sizeof(kiln_recording), .ops = r->ops, .program = r->p, .in = r->in};
}

kiln_t unet_place(const unet_recorder *r, const char *what, kiln_t x, const kiln_place_info *more)
{
    char place[80];
    kiln_place_info info = more ? *more : (kiln_place_info){0};
    kiln_recording recording = recording_of(r);
    snprintf(place, sizeof place, "%s%s%s", r->place, *what ? "." : "", what);
    info.size = sizeof info, info.place = place, info.timestep_embedding = r->temb;
    return kiln_place(&recording, x, &info);
}

int unet_left_out(const unet_recorder *r, kiln_t x, int64_t channels)
{
    kiln_recording recording = recording_of(r);
    if (!kiln_left_out(&recording, r->place)) return 0;
    if (channels_of(r, x) != channels)
        r->ops->fail(r->p,
                     "a hook leaves out block '%s', which changes %lld channels to %lld; nothing else can do that",
                     r->place, (long long)channels_of(r, x), (long long)channels);
    return 1;
}

/* ---- resnet ---- */

kiln_t unet_resnet(const unet_recorder *r, const char *name, kiln_t x, int64_t out)
{
    const kiln_ops *o = r->ops;
    char part[NAME_CAPACITY];
#define PART(what) (snprintf(part, sizeof part, "%s.%s", name, what), part)
    o->scope_push(r->p, name);
    kiln_t h = unet_group_norm(r, PART("norm1"), x, r->config->eps);
    h = unet_conv(r, PART("conv1"), o->act(r->p, h, KILN_ACT_SILU), out, 3, 1); /* [N,H,W,out] */
    kiln_t t = unet_linear(r, PART("time_emb_proj"), r->temb, out, 1);          /* [N,out]     */
    h = o->add(r->p, h, o->reshape(r->p, t, 4, KILN_DIMS(dim_of(r, t, 0), 1, 1, out)));
    h = unet_group_norm(r, PART("norm2"), h, r->config->eps);
    h = unet_conv(r, PART("conv2"), o->act(r->p, h, KILN_ACT_SILU), out, 3, 1);
    if (channels_of(r, x) != out) x = unet_conv(r, PART("conv_shortcut"), x, out, 1, 1);
    h = o->add(r->p, h, x);
    o->scope_pop(r->p);
    return h;
}

/* ---- attention ---- */

/* Attention of x [N,T,C] to `to` [N,S,D]; `which` is "attn1" or "attn2". */
static kiln_t attend(const unet_recorder *r, const char *block, const char *which, kiln_t x, kiln_t to, int64_t heads)
{
    int64_t c = channels_of(r, x);
    char name[NAME_CAPACITY - 16], part[NAME_CAPACITY], place[96], out[16], after[16];
    kiln_recording recording = recording_of(r);
    snprintf(name, sizeof name, "%s.%s", block, which);
    snprintf(place, sizeof place, "%s.%s", r->place, which);
    snprintf(out, sizeof out, "%s.out", which);
    snprintf(after, sizeof after, "%s.to_out", which);
    kiln_attention_info a = {.size = sizeof a, .heads = (int32_t)heads, .place = place, .x = x, .context = to};
    a.q = unet_linear(r, PART("to_q"), x, c, 0);
    a.k = unet_linear(r, PART("to_k"), to, c, 0);
    a.v = unet_linear(r, PART("to_v"), to, c, 0);
    a.grid[0] = 1, a.grid[1] = r->grid[0], a.grid[2] = r->grid[1];
    kiln_t h = kiln_attention_at(&recording, &a);
    h = unet_place(r, out, h, &(kiln_place_info){.attention = &a});
    return unet_place(r, after, unet_linear(r, PART("to_out.0"), h, c, 1), NULL);
}

kiln_t unet_transformer_block(const unet_recorder *r, const char *name, kiln_t x, const unet_transformer *of)
{
    const kiln_ops *o = r->ops;
    int64_t c = channels_of(r, x);
    char part[NAME_CAPACITY];
    o->scope_push(r->p, name);
    kiln_t h = unet_place(r, "attn1.in", unet_layer_norm(r, PART("norm1"), x), NULL);
    x = o->add(r->p, attend(r, name, "attn1", h, of->context_only ? r->context : h, of->heads), x);
    x = unet_place(r, "middle", x, NULL);
    h = unet_place(r, "attn2.in", unet_layer_norm(r, PART("norm2"), x), NULL);
    x = o->add(r->p, attend(r, name, "attn2", h, r->context, of->heads), x);
    h = unet_linear(r, PART("ff.net.0.proj"), unet_layer_norm(r, PART("norm3"), x), 8 * c, 1); /* [N,T,8C]   */
    h = unet_linear(r, PART("ff.net.2"), o->geglu(r->p, h), c, 1);                             /* [N,T,4C] -> C */
    x = o->add(r->p, h, x);
    o->scope_pop(r->p);
    return x;
}

/* Cells [N,H,W,C] -> tokens [N,T,C], and back. */
static kiln_t project_in(const unet_recorder *r, const char *name, kiln_t x, const int64_t tokens[3])
{
    if (r->config->linear) return unet_linear(r, name, r->ops->reshape(r->p, x, 3, tokens), tokens[2], 1);
    return r->ops->reshape(r->p, unet_conv(r, name, x, tokens[2], 1, 1), 3, tokens);
}

static kiln_t project_out(const unet_recorder *r, const char *name, kiln_t x, const int64_t cells[4])
{
    if (r->config->linear) return r->ops->reshape(r->p, unet_linear(r, name, x, cells[3], 1), 4, cells);
    return unet_conv(r, name, r->ops->reshape(r->p, x, 4, cells), cells[3], 1, 1);
}

kiln_t unet_attention(const unet_recorder *r, const char *name, kiln_t x, const unet_transformer *of)
{
    const kiln_ops *o = r->ops;
    int64_t n = dim_of(r, x, 0), h = dim_of(r, x, 1), w = dim_of(r, x, 2), c = channels_of(r, x);
    char part[NAME_CAPACITY];
    o->scope_push(r->p, name);
    kiln_t y = unet_group_norm(r, PART("norm"), x, ATTENTION_EPS);
    y = project_in(r, PART("proj_in"), y, KILN_DIMS(n, h * w, c));
    unet_recorder inside = *r;
    inside.grid[0] = h, inside.grid[1] = w;
    for (uint32_t i = 0; i < of->depth; i++) {
        char block[NAME_CAPACITY];
        snprintf(block, sizeof block, "%s.transformer_blocks.%u", name, i);
        if (i) snprintf(inside.place, sizeof inside.place, "%.30s.t%u", r->place, i);
        y = unet_transformer_block(&inside, block, y, of);
    }
    y = o->add(r->p, project_out(r, PART("proj_out"), y, KILN_DIMS(n, h, w, c)), x);
    o->scope_pop(r->p);
    return y;
#undef PART
}

kiln_t unet_upsample(const unet_recorder *r, const char *name, kiln_t x, int64_t h, int64_t w)
{
    char part[NAME_CAPACITY];
    snprintf(part, sizeof part, "%s.conv", name);
    return unet_conv(r, part, r->ops->upsample_nearest(r->p, x, h, w), channels_of(r, x), 3, 1);
}
