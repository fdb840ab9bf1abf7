/* unet.c - SDXL's network (Podell et al. 2023), base and refiner; names are those of diffusers' UNet2DConditionModel.
 *
 *   sizes  = concat(pooled, sinusoid(height), sinusoid(width), ...)        [N, pooled + numbers x sinusoid]
 *   time   = silu(mlp(sinusoid(timestep)) + mlp(sizes))                    [N,4C]
 *   down:    for each level: layers x (resnet, attention of the level's depth), downsample; every result is a skip
 *   middle:  resnet, attention, resnet
 *   up:      for each level upwards: (layers + 1) x (concat with the last skip, resnet, attention), upsample
 *
 * Shapes: N pictures, H x W cells, C channels, T = H W tokens. Blocks have the numbers of ldm's source, and those name
 * the places for hooks: "input.4", "middle.1", "output.0".
 */
#include "sdxl.h"

#include <stdarg.h>
#include <stdio.h>

enum { NAME = 160, SKIPS = 64 };
static const kiln_t none = {0};

typedef struct {
    const sdxl_unet *c;
    const kiln_ops *o;
    kiln_program *p;
    kiln_weights *w;
    const kiln_denoise_inputs *in;
    kiln_t time, context;
    kiln_t skip[SKIPS];
    uint32_t n_skip, number; /* number: of the next block */
    char place[NAME];        /* of the current block      */
} recorder;

__attribute__((format(printf, 2, 3))) static const char *name_of(char out[NAME], const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(out, NAME, fmt, args);
    va_end(args);
    return out;
}

static int64_t dim_of(const recorder *r, kiln_t x, int32_t i) /* i < 0: from the end */
{
    int64_t dim[KILN_MAX_RANK] = {0};
    int32_t rank = (int32_t)r->o->shape(r->p, x, dim, KILN_MAX_RANK), at = i < 0 ? rank + i : i;
    return at >= 0 && at < rank ? dim[at] : 0;
}

/* ---- layers ---- */

static kiln_t weight(const recorder *r, const char *layer, const char *what, uint32_t rank, const int64_t *dim)
{
    char name[NAME];
    return r->o->weight(r->p, r->w, name_of(name, "%s.%s", layer, what), rank, dim);
}

static kiln_t linear(const recorder *r, const char *layer, kiln_t x, int64_t out, int bias)
{
    kiln_t w = weight(r, layer, "weight", 2, KILN_DIMS(out, dim_of(r, x, -1)));
    return r->o->linear(r->p, x, w, bias ? weight(r, layer, "bias", 1, &out) : none);
}

static kiln_t conv(const recorder *r, const char *layer, kiln_t x, int64_t out, int32_t side, int32_t stride)
{
    int32_t pad = side / 2;
    kiln_conv2d how = {.size = sizeof how, .stride = {stride, stride}, .pad = {pad, pad, pad, pad}};
    kiln_t w = weight(r, layer, "weight", 4, KILN_DIMS(out, dim_of(r, x, -1), side, side));
    return r->o->conv2d(r->p, x, w, weight(r, layer, "bias", 1, &out), &how);
}

static kiln_t group_norm(const recorder *r, const char *layer, kiln_t x, float eps)
{
    int64_t c = dim_of(r, x, -1);
    return r->o->group_norm(r->p, x, (int32_t)r->c->groups, eps, weight(r, layer, "weight", 1, &c),
                            weight(r, layer, "bias", 1, &c));
}

static kiln_t layer_norm(const recorder *r, const char *layer, kiln_t x)
{
    int64_t c = dim_of(r, x, -1);
    return r->o->layer_norm(r->p, x, 1e-5f, weight(r, layer, "weight", 1, &c), weight(r, layer, "bias", 1, &c));
}

static kiln_t silu(const recorder *r, kiln_t x) { return r->o->act(r->p, x, KILN_ACT_SILU); }

/* ---- time and sizes ---- */

static kiln_t mlp(const recorder *r, const char *name, kiln_t x)
{
    char layer[NAME];
    x = linear(r, name_of(layer, "%s.linear_1", name), x, 4 * r->c->channels[0], 1);
    return linear(r, name_of(layer, "%s.linear_2", name), silu(r, x), 4 * r->c->channels[0], 1);
}

/* None of it changes from step to step: the engine computes it once a prompt. */
static kiln_t sizes(const recorder *r)
{
    const kiln_timestep_embedding how = {.size = sizeof how, .cos_first = 1};
    kiln_t part[1 + SDXL_NUMBERS] = {kiln_input(r->in->input, r->in->n_input, "pooled")};
    for (uint32_t i = 0; i < r->c->n_number; i++) {
        kiln_t number = kiln_input(r->in->input, r->in->n_input, r->c->number[i]); /* [N] */
        part[1 + i] = r->o->timestep_embedding(r->p, number, r->c->sinusoid, &how);
    }
    return mlp(r, "add_embedding", r->o->concat(r->p, part, 1 + r->c->n_number, 1));
}

static kiln_t time_of(const recorder *r)
{
    const kiln_timestep_embedding how = {.size = sizeof how, .cos_first = 1};
    kiln_t t = r->o->timestep_embedding(r->p, r->in->timestep, r->c->channels[0], &how);
    return silu(r, r->o->add(r->p, mlp(r, "time_embedding", t), sizes(r)));
}

/* ---- blocks ---- */

static kiln_t resnet(const recorder *r, const char *name, kiln_t x, int64_t out)
{
    const kiln_ops *o = r->o;
    char layer[NAME];
    kiln_t h = silu(r, group_norm(r, name_of(layer, "%s.norm1", name), x, 1e-5f));
    h = conv(r, name_of(layer, "%s.conv1", name), h, out, 3, 1);
    kiln_t t = linear(r, name_of(layer, "%s.time_emb_proj", name), r->time, out, 1);
    h = o->add(r->p, h, o->reshape(r->p, t, 4, KILN_DIMS(dim_of(r, t, 0), 1, 1, out)));
    h = silu(r, group_norm(r, name_of(layer, "%s.norm2", name), h, 1e-5f));
    h = conv(r, name_of(layer, "%s.conv2", name), h, out, 3, 1);
    if (dim_of(r, x, -1) != out) x = conv(r, name_of(layer, "%s.conv_shortcut", name), x, out, 1, 1);
    return o->add(r->p, h, x);
}

/* Attention of x [N,T,C] to `to` [N,S,D]; what is "attn1" or "attn2". */
static kiln_t attend(const recorder *r, const char *block, const char *what, kiln_t x, kiln_t to, int64_t heads)
{
    kiln_recording recording = {sizeof recording, r->o, r->p, r->in};
    char layer[NAME], place[NAME];
    int64_t c = dim_of(r, x, -1);
    kiln_attention_info a = {.size = sizeof a, .heads = (int32_t)heads, .x = x, .context = to};
    a.place = name_of(place, "%s.%s", r->place, what);
    a.q = linear(r, name_of(layer, "%s.%s.to_q", block, what), x, c, 0);
    a.k = linear(r, name_of(layer, "%s.%s.to_k", block, what), to, c, 0);
    a.v = linear(r, name_of(layer, "%s.%s.to_v", block, what), to, c, 0);
    return linear(r, name_of(layer, "%s.%s.to_out.0", block, what), kiln_attention_at(&recording, &a), c, 1);
}

static kiln_t transformer_block(const recorder *r, const char *name, kiln_t x, int64_t heads)
{
    const kiln_ops *o = r->o;
    char layer[NAME];
    int64_t c = dim_of(r, x, -1);
    kiln_t h = layer_norm(r, name_of(layer, "%s.norm1", name), x);
    x = o->add(r->p, attend(r, name, "attn1", h, h, heads), x);
    h = layer_norm(r, name_of(layer, "%s.norm2", name), x);
    x = o->add(r->p, attend(r, name, "attn2", h, r->context, heads), x);
    h = layer_norm(r, name_of(layer, "%s.norm3", name), x);
    h = linear(r, name_of(layer, "%s.ff.net.0.proj", name), h, 8 * c, 1);
    return o->add(r->p, linear(r, name_of(layer, "%s.ff.net.2", name), o->geglu(r->p, h), c, 1), x);
}

/* x [N,H,W,C] -> the same; SDXL's projections are linear, over tokens. */
static kiln_t attention(const recorder *r, const char *name, kiln_t x, int64_t heads, uint32_t depth)
{
    const kiln_ops *o = r->o;
    char part[NAME];
    int64_t n = dim_of(r, x, 0), h = dim_of(r, x, 1), w = dim_of(r, x, 2), c = dim_of(r, x, 3);
    kiln_t y = group_norm(r, name_of(part, "%s.norm", name), x, 1e-6f);
    y = o->reshape(r->p, y, 3, KILN_DIMS(n, h * w, c));
    y = linear(r, name_of(part, "%s.proj_in", name), y, c, 1);
    for (uint32_t i = 0; i < depth; i++)
        y = transformer_block(r, name_of(part, "%s.transformer_blocks.%u", name, i), y, heads);
    y = linear(r, name_of(part, "%s.proj_out", name), y, c, 1);
    return o->add(r->p, o->reshape(r->p, y, 4, KILN_DIMS(n, h, w, c)), x);
}

static void enter(recorder *r, const char *part, uint32_t number)
{
    name_of(r->place, "%s.%u", part, number);
    r->o->scope_push(r->p, r->place);
}

static kiln_t leave(recorder *r, kiln_t x)
{
    const kiln_recording recording = {sizeof recording, r->o, r->p, r->in};
    const kiln_place_info here = {.size = sizeof here, .place = r->place, .timestep_embedding = r->time};
    x = kiln_place(&recording, x, &here);
    r->o->scope_pop(r->p);
    return x;
}

static kiln_t keep(recorder *r, kiln_t x)
{
    if (r->n_skip < SKIPS) r->skip[r->n_skip++] = x;
    return x;
}

static kiln_t down(recorder *r, kiln_t x, uint32_t level)
{
    const sdxl_unet *c = r->c;
    char name[NAME];
    for (uint32_t i = 0; i < c->layers; i++) {
        enter(r, "input", r->number++);
        x = resnet(r, name_of(name, "down_blocks.%u.resnets.%u", level, i), x, c->channels[level]);
        name_of(name, "down_blocks.%u.attentions.%u", level, i);
        if (c->depth[level]) x = attention(r, name, x, c->heads[level], c->depth[level]);
        x = keep(r, leave(r, x));
    }
    if (level + 1 == c->levels) return x;
    enter(r, "input", r->number++);
    x = conv(r, name_of(name, "down_blocks.%u.downsamplers.0.conv", level), x, c->channels[level], 3, 2);
    return keep(r, leave(r, x));
}

static kiln_t middle(recorder *r, kiln_t x)
{
    uint32_t last = r->c->levels - 1;
    int64_t c = r->c->channels[last];
    enter(r, "middle", 0), x = leave(r, resnet(r, "mid_block.resnets.0", x, c));
    enter(r, "middle", 1);
    x = leave(r, attention(r, "mid_block.attentions.0", x, r->c->heads[last], r->c->middle_depth));
    enter(r, "middle", 2);
    return leave(r, resnet(r, "mid_block.resnets.1", x, c));
}

/* An upsample has the size of the skip that follows, so that any size of x works. */
static kiln_t up(recorder *r, kiln_t x, uint32_t block)
{
    const sdxl_unet *c = r->c;
    uint32_t level = c->levels - 1 - block;
    char name[NAME];
    for (uint32_t i = 0; i <= c->layers; i++) {
        enter(r, "output", r->number++);
        x = r->o->concat(r->p, (kiln_t[]){x, r->skip[--r->n_skip]}, 2, 3);
        x = resnet(r, name_of(name, "up_blocks.%u.resnets.%u", block, i), x, c->channels[level]);
        name_of(name, "up_blocks.%u.attentions.%u", block, i);
        if (c->depth[level]) x = attention(r, name, x, c->heads[level], c->depth[level]);
        if (i == c->layers && level > 0) {
            kiln_t next = r->skip[r->n_skip - 1];
            x = r->o->upsample_nearest(r->p, x, dim_of(r, next, 1), dim_of(r, next, 2));
            x = conv(r, name_of(name, "up_blocks.%u.upsamplers.0.conv", block), x, c->channels[level], 3, 1);
        }
        x = leave(r, x);
    }
    return x;
}

kiln_t sdxl_unet_record(const sdxl_unet *c, const kiln_ops *o, kiln_program *p, kiln_weights *w,
                        const kiln_denoise_inputs *in)
{
    recorder r = {.c = c, .o = o, .p = p, .w = w, .in = in};
    r.context = kiln_input(in->input, in->n_input, "context");
    r.time = time_of(&r);
    enter(&r, "input", r.number++);
    kiln_t x = keep(&r, leave(&r, conv(&r, "conv_in", in->x, c->channels[0], 3, 1)));
    for (uint32_t i = 0; i < c->levels; i++) x = down(&r, x, i);
    x = middle(&r, x);
    r.number = 0;
    for (uint32_t i = 0; i < c->levels; i++) x = up(&r, x, i);
    return conv(&r, "conv_out", silu(&r, group_norm(&r, "conv_norm_out", x, 1e-5f)), c->latent, 3, 1);
}

/* ---- places ---- */

static void visit(void (*fn)(void *, const char *, uint32_t), void *arg, const char *part, uint32_t number, int attends)
{
    char place[NAME];
    fn(arg, name_of(place, "%s.%u", part, number), KILN_PLACE_POINT);
    if (!attends) return;
    fn(arg, name_of(place, "%s.%u.attn1", part, number), KILN_PLACE_ATTENTION);
    fn(arg, name_of(place, "%s.%u.attn2", part, number), KILN_PLACE_ATTENTION);
}

void sdxl_unet_places(const sdxl_unet *c, void (*fn)(void *arg, const char *place, uint32_t kind), void *arg)
{
    uint32_t n = 0;
    visit(fn, arg, "input", n++, 0);
    for (uint32_t level = 0; level < c->levels; level++) {
        for (uint32_t i = 0; i < c->layers; i++) visit(fn, arg, "input", n++, c->depth[level] > 0);
        if (level + 1 < c->levels) visit(fn, arg, "input", n++, 0);
    }
    for (uint32_t i = 0; i < 3; i++) visit(fn, arg, "middle", i, i == 1);
    n = 0;
    for (uint32_t level = c->levels; level-- > 0;)
        for (uint32_t i = 0; i <= c->layers; i++) visit(fn, arg, "output", n++, c->depth[level] > 0);
}
