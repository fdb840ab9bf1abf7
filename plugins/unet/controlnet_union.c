/* controlnet_union.c - see controlnet_union.h. Names as released (xinsir's ControlNet++): "transformer_layes" is
 * theirs.
 *
 *   t = mean(hint) + task_embedding[kind]
 *   each layer: t += out_proj(v(ln_1(t))); t += mlp(ln_2(t))
 *   every cell of the hint += spatial_ch_projs(t)
 *
 * The layer's attention sees one token a picture, so that its softmax is 1 and its result is v. (In the release the
 * tokens of a batch attend to one another, because the batch is taken for the sequence; where all have one hint, as
 * with guidance, that is the same.)
 */
#include "controlnet_union.h"

#include "unet_embedding.h"

#include <stdio.h>
#include <stdlib.h>

kiln_t controlnet_mean(const unet_recorder *r, kiln_t x)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    r->ops->shape(r->p, x, dim, KILN_MAX_RANK);
    int64_t n = dim[0], cells = dim[1] * dim[2], c = dim[3];
    float *share = cells > 0 ? malloc((size_t)cells * sizeof *share) : NULL;
    if (!share) return r->ops->fail(r->p, "no memory for a mean over %lld cells", (long long)cells);
    for (int64_t i = 0; i < cells; i++) share[i] = 1.0f / (float)cells;
    kiln_t w = r->ops->constant(r->p, share, 2, KILN_DIMS(1, cells));
    free(share);
    x = r->ops->permute(r->p, r->ops->reshape(r->p, x, 3, KILN_DIMS(n, cells, c)), (const uint32_t[]){0, 2, 1});
    return r->ops->reshape(r->p, r->ops->linear(r->p, x, w, (kiln_t){0}), 2, KILN_DIMS(n, c));
}

/* The sinusoid of 0 for each kind, for every picture [N,types*sinusoid]: 0 times the timestep, and the row added. */
static kiln_t no_type(const unet_recorder *r, const controlnet_config *c)
{
    int64_t n = c->types * c->sinusoid, half = c->sinusoid / 2, pictures[KILN_MAX_RANK] = {0};
    float *zeros = calloc((size_t)n, sizeof *zeros), *row = calloc((size_t)n, sizeof *row);
    if (!zeros || !row) {
        free(zeros), free(row);
        return r->ops->fail(r->p, "no memory for a Union ControlNet's kinds");
    }
    for (int64_t i = 0; i < n; i++) row[i] = (i % c->sinusoid < half) == (c->unet.cos_first != 0) ? 1.0f : 0.0f;
    r->ops->shape(r->p, r->in->timestep, pictures, KILN_MAX_RANK);
    kiln_t t = r->ops->reshape(r->p, r->in->timestep, 2, KILN_DIMS(pictures[0], 1));
    t = r->ops->linear(r->p, t, r->ops->constant(r->p, zeros, 2, KILN_DIMS(n, 1)),
                       r->ops->constant(r->p, row, 1, KILN_DIMS(n)));
    free(zeros), free(row);
    return t;
}

kiln_t controlnet_embed_type(const unet_recorder *r, const controlnet_config *c, kiln_t type)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    if (!type.id) return unet_mlp(r, "control_add_embedding", no_type(r, c));
    r->ops->shape(r->p, type, dim, KILN_MAX_RANK);
    kiln_timestep_embedding how = {.size = sizeof how, .cos_first = c->unet.cos_first, .shift = c->unet.freq_shift};
    kiln_t t = r->ops->timestep_embedding(r->p, type, c->sinusoid, &how); /* [N,types,sinusoid] */
    return unet_mlp(r, "control_add_embedding", r->ops->reshape(r->p, t, 2, KILN_DIMS(dim[0], c->types * c->sinusoid)));
}

static kiln_t layer(const unet_recorder *r, uint32_t number, kiln_t t, int64_t width)
{
    char name[80];
#define PART(what) (snprintf(name, sizeof name, "transformer_layes.%u.%s", number, what), name)
    kiln_t h = unet_linear(r, PART("attn.v"), unet_layer_norm(r, PART("ln_1"), t), width, 1);
    t = r->ops->add(r->p, unet_linear(r, PART("attn.out_proj"), h, width, 1), t);
    h = unet_linear(r, PART("mlp.c_fc"), unet_layer_norm(r, PART("ln_2"), t), 4 * width, 1);
    h = r->ops->act(r->p, h, KILN_ACT_QUICK_GELU);
    return r->ops->add(r->p, unet_linear(r, PART("mlp.c_proj"), h, width, 1), t);
#undef PART
}

kiln_t controlnet_fuse_type(const unet_recorder *r, const controlnet_config *c, kiln_t hint, kiln_t type)
{
    int64_t n[KILN_MAX_RANK] = {0}, width = c->unet.channels[0];
    r->ops->shape(r->p, type, n, KILN_MAX_RANK);
    /* 1 for one kind and 0 for the others takes that kind's row */
    kiln_t rows = r->ops->weight(r->p, r->w, "task_embedding", 2, KILN_DIMS(width, c->types));
    kiln_t t = r->ops->add(r->p, controlnet_mean(r, hint), r->ops->linear(r->p, type, rows, (kiln_t){0}));
    for (uint32_t i = 0; i < c->fusers; i++) t = layer(r, i, t, width);
    t = unet_linear(r, "spatial_ch_projs", t, width, 1);
    return r->ops->add(r->p, hint, r->ops->reshape(r->p, t, 4, KILN_DIMS(n[0], 1, 1, width)));
}
