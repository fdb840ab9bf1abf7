/* unet.c - Stable Video Diffusion's network under the names of its release:
 *
 *   x = [noisy latent, the picture's latent] of each frame [N,H,W,8]
 *   e = mlp(sinusoid(ln(sigma)/4)) + mlp(sinusoids of fps - 1, motion bucket, augmentation) [N,E]
 *   input_blocks, middle_block, output_blocks of resnets and transformers (blocks.c), with skip connections
 * What there is follows from the weights' names; channels from their shapes.
 */
#include "svd.h"

enum { BLOCKS = 64 };

typedef struct {
    svd_walk *s;
    const svd_network *n;
    const kiln_recording *r;
    kiln_t e, context;
    int level, levels;
} unet;

static int has(const svd_walk *s, const char *block, const char *part)
{
    return svd_size(s->find, s->w, 0, "%s%s", block, part) > 0;
}

static kiln_t transformer(const unet *u, kiln_t x, const char *block, const char *place)
{
    int64_t c = svd_dim(u->s, x, 3), heads = u->n->heads[u->level] ? u->n->heads[u->level] : c / 64;
    if (heads < 1 || c % heads)
        return u->s->o->fail(u->s->p,
                             "%s has %lld channels, which are no heads of 64; write num_attention_heads into "
                             "the file's metadata, as unet_config",
                             block, (long long)c);
    return svd_transformer(u->s, x, u->context, heads, block, place);
}

static kiln_t at_place(const unet *u, kiln_t x, const char *place, kiln_t before)
{
    const kiln_place_info info = {.size = sizeof info, .place = place, .timestep_embedding = u->e, .input = before};
    return kiln_place(u->r, x, &info);
}

/* ---- what goes in ---- */

static kiln_t mlp(const svd_walk *s, kiln_t x, const char *name, const char *first, const char *second)
{
    int64_t inner = svd_size(s->find, s->w, 0, "%s%s.weight", name, first);
    x = s->o->act(s->p, svd_linear(s, x, name, first, inner), KILN_ACT_SILU);
    return svd_linear(s, x, name, second, svd_size(s->find, s->w, 0, "%s%s.weight", name, second));
}

static kiln_t embedding(const svd_walk *s, const kiln_denoise_inputs *in)
{
    static const char *const number[] = {"fps", "motion_bucket_id", "augmentation_level"};
    const kiln_timestep_embedding how = {.size = sizeof how, .cos_first = 1};
    const kiln_map f32 = {.size = sizeof f32, .dtype = KILN_F32};
    int64_t width = svd_size(s->find, s->w, 0, "input_blocks.0.0.weight"),
            each = svd_size(s->find, s->w, 1, "label_emb.0.0.weight") / (int64_t)COUNT(number);
    kiln_t part[COUNT(number)];
    kiln_t e = mlp(s, s->o->timestep_embedding(s->p, in->timestep, width, &how), "time_embed", ".0", ".2");
    for (size_t i = 0; i < COUNT(number); i++) {
        kiln_t x = kiln_input(in->input, in->n_input, number[i]);
        if (i == 0) x = s->o->map(s->p, "a - 1", &x, 1, &f32); /* it was trained with one less */
        part[i] = s->o->timestep_embedding(s->p, x, each, &how);
    }
    return s->o->add(s->p, e, mlp(s, s->o->concat(s->p, part, COUNT(number), 1), "label_emb.0", ".0", ".2"));
}

/* ---- the blocks ---- */

/* A resnet and, where there is one, its transformer. Diffusers has another eps in most of them. */
static kiln_t block(const unet *u, kiln_t x, const char *name, const char *place, int down)
{
    char part[SVD_NAME];
    if (kiln_left_out(u->r, place)) return x;
    int attended = has(u->s, name, ".1.norm.weight");
    kiln_t before = x, e = u->s->o->act(u->s->p, u->e, KILN_ACT_SILU);
    x = svd_unet_resnet(u->s, x, NAME(part, "%s.0", name), e, attended || !down ? u->n->outer_eps : 1e-5f);
    if (attended) x = transformer(u, x, NAME(part, "%s.1", name), place);
    return at_place(u, x, place, before);
}

static size_t way_down(unet *u, kiln_t x, kiln_t skip[BLOCKS])
{
    static const kiln_conv2d half = {.size = sizeof half, .stride = {2, 2}, .pad = {1, 1, 1, 1}};
    const svd_walk *s = u->s;
    char name[SVD_NAME], place[SVD_NAME], part[SVD_NAME];
    size_t n = 0;
    skip[n++] = svd_conv(s, x, "input_blocks.0.0", svd_size(s->find, s->w, 0, "input_blocks.0.0.weight"), NULL);
    for (; n < BLOCKS; n++) {
        NAME(name, "input_blocks.%zu", n), NAME(place, "input.%zu", n);
        if (has(s, name, ".0.op.weight")) {
            skip[n] = svd_conv(s, skip[n - 1], NAME(part, "%s.0.op", name), svd_dim(s, skip[n - 1], 3), &half);
            u->level++;
        } else if (has(s, name, ".0.in_layers.2.weight"))
            skip[n] = block(u, skip[n - 1], name, place, 1);
        else
            break;
    }
    return n;
}

static kiln_t middle(const unet *u, kiln_t x)
{
    kiln_t e = u->s->o->act(u->s->p, u->e, KILN_ACT_SILU), before = x;
    if (kiln_left_out(u->r, "middle.1")) return x;
    x = svd_unet_resnet(u->s, x, "middle_block.0", e, 1e-5f);
    x = transformer(u, x, "middle_block.1", "middle.1");
    return at_place(u, svd_unet_resnet(u->s, x, "middle_block.2", e, 1e-5f), "middle.1", before);
}

static kiln_t way_up(unet *u, kiln_t x, const kiln_t *skip, size_t n)
{
    const svd_walk *s = u->s;
    char name[SVD_NAME], place[SVD_NAME], part[SVD_NAME];
    for (size_t i = 0; n-- > 0; i++) {
        NAME(name, "output_blocks.%zu", i), NAME(place, "output.%zu", i);
        x = block(u, s->o->concat(s->p, (kiln_t[]){x, skip[n]}, 2, 3), name, place, 0);
        int conv = has(s, name, ".1.conv.weight") ? 1 : has(s, name, ".2.conv.weight") ? 2 : 0;
        if (!conv || !n) continue;
        x = s->o->upsample_nearest(s->p, x, svd_dim(s, skip[n - 1], 1), svd_dim(s, skip[n - 1], 2));
        x = svd_conv(s, x, NAME(part, "%s.%d.conv", name, conv), svd_dim(s, x, 3), NULL), u->level--;
    }
    return x;
}

kiln_t svd_record_unet(const svd_network *n, svd_walk *s, const kiln_denoise_inputs *in)
{
    kiln_t skip[BLOCKS], both[] = {in->x, kiln_input(in->input, in->n_input, "concat_latent_image")};
    unet u = {.s = s, .n = n, .r = s->hooked};
    u.context = kiln_input(in->input, in->n_input, "tokens");
    u.e = embedding(s, in);
    size_t blocks = way_down(&u, s->o->concat(s->p, both, 2, 3), skip);
    kiln_t x = way_up(&u, middle(&u, skip[blocks - 1]), skip, blocks);
    x = s->o->act(s->p, svd_group_norm(s, x, "out.0", 1e-5f), KILN_ACT_SILU);
    return svd_conv(s, x, "out.2", svd_size(s->find, s->w, 0, "out.2.weight"), NULL);
}

/* ---- places ---- */

typedef struct {
    const kiln_weights_api *w;
    const kiln_weights *set;
    void (*fn)(void *, const char *, uint32_t);
    void *arg;
} place_list;

static void places_of(const place_list *l, const char *transformer, const char *place)
{
    static const char *const part[] = {".attn1", ".attn2", ".time.attn1", ".time.attn2"};
    char name[SVD_NAME];
    int attended = svd_size(l->w, l->set, 0, "%s.norm.weight", transformer) > 0;
    for (size_t i = 0; attended && i < COUNT(part); i++)
        l->fn(l->arg, NAME(name, "%s%s", place, part[i]), KILN_PLACE_ATTENTION);
    l->fn(l->arg, place, KILN_PLACE_BLOCK);
}

void svd_unet_places(const kiln_weights_api *w, const kiln_weights *set, void (*fn)(void *, const char *, uint32_t),
                     void *arg)
{
    const place_list l = {w, set, fn, arg};
    static const char *const ways[][2] = {{"input_blocks", "input"}, {"output_blocks", "output"}};
    char name[SVD_NAME], place[SVD_NAME];
    for (int way = 0; way < 2; way++) {
        for (int i = way ? 0 : 1; i < BLOCKS; i++) {
            int resnet = svd_size(w, set, 0, "%s.%d.0.in_layers.2.weight", ways[way][0], i) > 0;
            if (resnet) places_of(&l, NAME(name, "%s.%d.1", ways[way][0], i), NAME(place, "%s.%d", ways[way][1], i));
            if (!resnet && !svd_size(w, set, 0, "%s.%d.0.op.weight", ways[way][0], i)) break;
        }
        if (way == 0) places_of(&l, "middle_block.1", "middle.1");
    }
}
