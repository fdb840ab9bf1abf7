/* blocks.c - resnets and transformers of Stable Video Diffusion: each does its work within every frame, then across
 * frames, and a learned number says how much of either counts.
 *
 *   resnet       h = resnet2d(x) [N,H,W,C]; g = h + convolutions of 3 frames [videos,frames,H,W,C]; mix(h, g)
 *   transformer  h = block(h) of a frame's cells [N,H*W,C]; g = block(h + place of the frame) of a cell's frames
 *                [videos*H*W,frames,C]; mix(h, g)
 */
#include "svd.h"

#include <stdarg.h>

const char *svd_name(char *text, size_t size, const char *pattern, ...)
{
    va_list args;
    va_start(args, pattern);
    vsnprintf(text, size, pattern, args);
    va_end(args);
    return text;
}

int64_t svd_size(const kiln_weights_api *w, const kiln_weights *set, uint32_t i, const char *name, ...)
{
    char full[SVD_NAME];
    kiln_weight_info info = {.size = sizeof info};
    va_list args;
    va_start(args, name);
    vsnprintf(full, sizeof full, name, args);
    va_end(args);
    return w->find(set, full, &info) == KILN_OK && i < info.rank ? info.dim[i] : 0;
}

int64_t svd_dim(const svd_walk *s, kiln_t x, uint32_t i)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    return i < s->o->shape(s->p, x, dim, KILN_MAX_RANK) ? dim[i] : 0;
}

static int64_t channels(const svd_walk *s, kiln_t x)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    uint32_t rank = s->o->shape(s->p, x, dim, KILN_MAX_RANK);
    return rank ? dim[rank - 1] : 0;
}

static kiln_t vector(const svd_walk *s, const char *name, const char *part, int64_t n)
{
    char full[SVD_NAME];
    return s->o->weight(s->p, s->w, NAME(full, "%s%s", name, part), 1, &n);
}

/* ---- layers ---- */

static kiln_t without_bias(const svd_walk *s, kiln_t x, const char *name, const char *part, int64_t out)
{
    char full[SVD_NAME];
    kiln_t w = s->o->weight(s->p, s->w, NAME(full, "%s%s.weight", name, part), 2, KILN_DIMS(out, channels(s, x)));
    return s->o->linear(s->p, x, w, (kiln_t){0});
}

kiln_t svd_linear(const svd_walk *s, kiln_t x, const char *name, const char *part, int64_t out)
{
    char full[SVD_NAME];
    kiln_t w = s->o->weight(s->p, s->w, NAME(full, "%s%s.weight", name, part), 2, KILN_DIMS(out, channels(s, x)));
    return s->o->linear(s->p, x, w, s->o->weight(s->p, s->w, NAME(full, "%s%s.bias", name, part), 1, &out));
}

kiln_t svd_conv(const svd_walk *s, kiln_t x, const char *name, int64_t out, const kiln_conv2d *how)
{
    char full[SVD_NAME];
    int64_t k = svd_size(s->find, s->w, 2, "%s.weight", name);
    const kiln_conv2d same = {.size = sizeof same,
                              .pad = {(int32_t)k / 2, (int32_t)k / 2, (int32_t)k / 2, (int32_t)k / 2}};
    kiln_t w = s->o->weight(s->p, s->w, NAME(full, "%s.weight", name), 4, KILN_DIMS(out, channels(s, x), k, k));
    return s->o->conv2d(s->p, x, w, vector(s, name, ".bias", out), how ? how : &same);
}

kiln_t svd_group_norm(const svd_walk *s, kiln_t x, const char *name, float eps)
{
    int64_t c = channels(s, x);
    return s->o->group_norm(s->p, x, s->groups, eps, vector(s, name, ".weight", c), vector(s, name, ".bias", c));
}

static kiln_t layer_norm(const svd_walk *s, kiln_t x, const char *name, const char *part)
{
    char full[SVD_NAME];
    int64_t c = channels(s, x);
    NAME(full, "%s%s", name, part);
    return s->o->layer_norm(s->p, x, 1e-5f, vector(s, full, ".weight", c), vector(s, full, ".bias", c));
}

/* The share of `frame` is sigmoid(mix_factor), or (SVD_SHARE_OF_TIME) that of `time`. */
static kiln_t mixed(const svd_walk *s, kiln_t frame, kiln_t time, const char *factor, svd_mix mix)
{
    const int64_t one = 1;
    kiln_t x[] = {mix == SVD_SHARE_OF_FRAME ? frame : time, mix == SVD_SHARE_OF_FRAME ? time : frame,
                  s->o->weight(s->p, s->w, factor, 1, &one)};
    return s->o->map(s->p, "a * sigmoid(c) + b * (1 - sigmoid(c))", x, COUNT(x), NULL);
}

/* ---- resnets ---- */

/* A convolution of three frames, one before and one after: x [videos,frames,H,W,C]. */
static kiln_t time_conv(const svd_walk *s, kiln_t x, const char *name)
{
    const kiln_conv how = {.size = sizeof how, .rank = 3, .before = {1, 0, 0}, .after = {1, 0, 0}};
    int64_t c = channels(s, x);
    char full[SVD_NAME];
    kiln_t w = s->o->weight(s->p, s->w, NAME(full, "%s.weight", name), 5, KILN_DIMS(c, c, 3, 1, 1));
    return s->o->conv(s->p, x, w, vector(s, name, ".bias", c), &how);
}

/* The norms are of a video's whole, all frames together. */
static kiln_t across_frames(const svd_walk *s, kiln_t x, const char *block, kiln_t embedding, float eps)
{
    char name[SVD_NAME];
    int64_t h = svd_dim(s, x, 1), w = svd_dim(s, x, 2), c = channels(s, x);
    kiln_t before = s->o->reshape(s->p, x, 5, KILN_DIMS(s->videos, s->frames, h, w, c));
    kiln_t y = s->o->act(s->p, svd_group_norm(s, before, NAME(name, "%s.in_layers.0", block), eps), KILN_ACT_SILU);
    y = time_conv(s, y, NAME(name, "%s.in_layers.2", block));
    if (embedding.id) {
        kiln_t e = svd_linear(s, embedding, block, ".emb_layers.1", c);
        y = s->o->add(s->p, y, s->o->reshape(s->p, e, 5, KILN_DIMS(s->videos, s->frames, 1, 1, c)));
    }
    y = s->o->act(s->p, svd_group_norm(s, y, NAME(name, "%s.out_layers.0", block), eps), KILN_ACT_SILU);
    y = s->o->add(s->p, time_conv(s, y, NAME(name, "%s.out_layers.3", block)), before);
    return s->o->reshape(s->p, y, 4, KILN_DIMS(s->videos * s->frames, h, w, c));
}

/* What the layers of a resnet are called. */
typedef struct {
    const char *norm1, *conv1, *norm2, *conv2, *shortcut;
} resnet_names;

static kiln_t within_frame(const svd_walk *s, kiln_t x, const char *block, const resnet_names *n, kiln_t embedding,
                           float eps)
{
    char name[SVD_NAME];
    int64_t out = svd_size(s->find, s->w, 0, "%s.%s.weight", block, n->conv1), count = svd_dim(s, x, 0);
    kiln_t y = s->o->act(s->p, svd_group_norm(s, x, NAME(name, "%s.%s", block, n->norm1), eps), KILN_ACT_SILU);
    y = svd_conv(s, y, NAME(name, "%s.%s", block, n->conv1), out, NULL);
    if (embedding.id) {
        kiln_t e = svd_linear(s, embedding, block, ".emb_layers.1", out);
        y = s->o->add(s->p, y, s->o->reshape(s->p, e, 4, KILN_DIMS(count, 1, 1, out)));
    }
    y = s->o->act(s->p, svd_group_norm(s, y, NAME(name, "%s.%s", block, n->norm2), eps), KILN_ACT_SILU);
    y = svd_conv(s, y, NAME(name, "%s.%s", block, n->conv2), out, NULL);
    if (channels(s, x) != out) x = svd_conv(s, x, NAME(name, "%s.%s", block, n->shortcut), out, NULL);
    return s->o->add(s->p, y, x);
}

kiln_t svd_unet_resnet(const svd_walk *s, kiln_t x, const char *block, kiln_t embedding, float eps)
{
    static const resnet_names names = {"in_layers.0", "in_layers.2", "out_layers.0", "out_layers.3", "skip_connection"};
    char name[SVD_NAME];
    kiln_t frame = within_frame(s, x, block, &names, embedding, eps);
    kiln_t time = across_frames(s, frame, NAME(name, "%s.time_stack", block), embedding, eps);
    return mixed(s, frame, time, NAME(name, "%s.time_mixer.mix_factor", block), SVD_SHARE_OF_FRAME);
}

kiln_t svd_vae_resnet(const svd_walk *s, kiln_t x, const char *block, int in_time)
{
    static const resnet_names names = {"norm1", "conv1", "norm2", "conv2", "nin_shortcut"};
    char name[SVD_NAME];
    kiln_t frame = within_frame(s, x, block, &names, (kiln_t){0}, 1e-6f);
    if (!in_time) return frame;
    kiln_t time = across_frames(s, frame, NAME(name, "%s.time_stack", block), (kiln_t){0}, 1e-5f);
    return mixed(s, frame, time, NAME(name, "%s.mix_factor", block), SVD_SHARE_OF_TIME);
}

/* ---- transformers ---- */

/* An attention as hooks see it. */
typedef struct {
    kiln_t x, context; /* what queries, and what keys and values are made of */
    int64_t heads;
    const char *block, *part; /* "input_blocks.1.1.transformer_blocks.0", ".attn1" */
    const char *place;        /* "input.1" */
    int64_t grid[3];
} attention;

static kiln_t attend(const svd_walk *s, const attention *a)
{
    char name[SVD_NAME], place[SVD_NAME];
    int64_t c = channels(s, a->x);
    NAME(name, "%s%s", a->block, a->part);
    kiln_attention_info info = {.size = sizeof info,
                                .heads = (int32_t)a->heads,
                                .place = NAME(place, "%s%s", a->place, a->part),
                                .x = a->x,
                                .context = a->context,
                                .grid = {a->grid[0], a->grid[1], a->grid[2]}};
    info.q = without_bias(s, a->x, name, ".to_q", c);
    info.k = without_bias(s, a->context, name, ".to_k", c), info.v = without_bias(s, a->context, name, ".to_v", c);
    return svd_linear(s, kiln_attention_at(s->hooked, &info), name, ".to_out.0", c);
}

static kiln_t feed_forward(const svd_walk *s, kiln_t x, const char *block, const char *part)
{
    char name[SVD_NAME];
    int64_t c = channels(s, x);
    NAME(name, "%s%s", block, part);
    return svd_linear(s, s->o->geglu(s->p, svd_linear(s, x, name, ".net.0.proj", 8 * c)), name, ".net.2", c);
}

/* Self-attention of x [..,T,C], attention to the context, MLP. */
static kiln_t rest_of_block(const svd_walk *s, kiln_t x, kiln_t context, attention a)
{
    const uint32_t rank = 3;
    int64_t dim[KILN_MAX_RANK] = {0};
    s->o->shape(s->p, x, dim, rank);
    a.x = a.context = layer_norm(s, x, a.block, ".norm1"), a.part = ".attn1";
    x = s->o->add(s->p, attend(s, &a), x);
    /* A context is the same for all cells of a video: their frames are one long row of queries to it. */
    int64_t n = svd_dim(s, context, 0), cells = n > 0 ? dim[0] / n : 0; /* 0: something went wrong before */
    a.x = s->o->reshape(s->p, layer_norm(s, x, a.block, ".norm2"), rank, KILN_DIMS(n, cells * dim[1], dim[2]));
    a.context = context, a.part = ".attn2";
    x = s->o->add(s->p, s->o->reshape(s->p, attend(s, &a), rank, dim), x);
    return s->o->add(s->p, feed_forward(s, layer_norm(s, x, a.block, ".norm3"), a.block, ".ff"), x);
}

/* [N,T,C] as [videos*T,frames,C], and back. */
static kiln_t turned(const svd_walk *s, kiln_t x, int64_t a, int64_t b)
{
    int64_t c = channels(s, x);
    x = s->o->permute(s->p, s->o->reshape(s->p, x, 4, KILN_DIMS(s->videos, a, b, c)), (const uint32_t[]){0, 2, 1, 3});
    return s->o->reshape(s->p, x, 3, KILN_DIMS(s->videos * b, a, c));
}

/* [frames,1,C]: where a frame is, a sinusoid of its number through a small network. */
static kiln_t frame_places(const svd_walk *s, const char *block, int64_t c)
{
    const kiln_timestep_embedding how = {.size = sizeof how, .cos_first = 1};
    kiln_t t = s->o->cast(s->p, s->o->arange(s->p, 0, s->frames, 1), KILN_F32);
    int64_t inner = svd_size(s->find, s->w, 0, "%s.time_pos_embed.0.weight", block);
    kiln_t e = svd_linear(s, s->o->timestep_embedding(s->p, t, c, &how), block, ".time_pos_embed.0", inner);
    e = svd_linear(s, s->o->act(s->p, e, KILN_ACT_SILU), block, ".time_pos_embed.2", c);
    return s->o->reshape(s->p, e, 3, KILN_DIMS(s->frames, 1, c));
}

/* x [N,T,C] of T cells, context [videos,..] of the first frame. */
static kiln_t across(const svd_walk *s, kiln_t x, kiln_t places, kiln_t context, attention a)
{
    int64_t cells = svd_dim(s, x, 1), c = channels(s, x), n = svd_dim(s, x, 0);
    x = s->o->reshape(s->p, x, 4, KILN_DIMS(s->videos, s->frames, cells, c));
    x = s->o->reshape(s->p, s->o->add(s->p, x, places), 3, KILN_DIMS(n, cells, c));
    x = turned(s, x, s->frames, cells);
    x = s->o->add(s->p, feed_forward(s, layer_norm(s, x, a.block, ".norm_in"), a.block, ".ff_in"), x);
    return turned(s, rest_of_block(s, x, context, a), cells, s->frames);
}

/* [videos,T,D] of the first frames of [N,T,D]. */
static kiln_t of_first_frames(const svd_walk *s, kiln_t context)
{
    int64_t t = svd_dim(s, context, 1), d = svd_dim(s, context, 2);
    kiln_t by_video = s->o->reshape(s->p, context, 4, KILN_DIMS(s->videos, s->frames, t, d));
    return s->o->reshape(s->p, s->o->slice(s->p, by_video, 1, 0, 1), 3, KILN_DIMS(s->videos, t, d));
}

kiln_t svd_transformer(const svd_walk *s, kiln_t x, kiln_t context, int64_t heads, const char *block, const char *place)
{
    char name[SVD_NAME], time_place[SVD_NAME], within[SVD_NAME], stack[SVD_NAME];
    int64_t n = svd_dim(s, x, 0), h = svd_dim(s, x, 1), w = svd_dim(s, x, 2), c = channels(s, x);
    kiln_t places = frame_places(s, block, c), first = of_first_frames(s, context);
    kiln_t y =
        s->o->reshape(s->p, svd_group_norm(s, x, NAME(name, "%s.norm", block), 1e-6f), 3, KILN_DIMS(n, h * w, c));
    y = svd_linear(s, y, block, ".proj_in", c);
    NAME(time_place, "%s.time", place);
    for (int i = 0; svd_size(s->find, s->w, 0, "%s.transformer_blocks.%d.norm1.weight", block, i); i++) {
        attention a = {.heads = heads,
                       .place = place,
                       .block = NAME(within, "%s.transformer_blocks.%d", block, i),
                       .grid = {1, h, w}};
        y = rest_of_block(s, y, context, a);
        a.block = NAME(stack, "%s.time_stack.%d", block, i), a.place = time_place;
        a.grid[0] = a.grid[1] = a.grid[2] = 0; /* its tokens are frames of one cell, which no grid says */
        y = mixed(s, y, across(s, y, places, first, a), NAME(name, "%s.time_mixer.mix_factor", block),
                  SVD_SHARE_OF_FRAME);
    }
    y = s->o->reshape(s->p, svd_linear(s, y, block, ".proj_out", c), 4, KILN_DIMS(n, h, w, c));
    return s->o->add(s->p, y, x);
}
