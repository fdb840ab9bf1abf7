/* clip_vision.c - see clip_vision.h.
 *
 *   tokens = [class, patches] + positions; norm; layers of (norm, attention, + ; norm, MLP, +)
 *
 * last_hidden_state is what comes out of the last layer, penultimate_hidden_states what goes into it, both without the
 * final norm; image_embeds is the norm of token 0, projected.
 */
#include "clip_vision.h"

#include "kiln/kit.h"
#include "vision_recorder.h"

#include <stdio.h>

enum { NAME = 160 };

static kiln_t layer(const vision_recorder *r, const clip_vision_config *c, int64_t number, kiln_t x)
{
    const kiln_ops *o = r->ops;
    char base[80], part[NAME];
    kiln_attention how = {.size = sizeof how, .heads = (int32_t)c->heads};
    snprintf(base, sizeof base, "vision_model.encoder.layers.%lld", (long long)number);
#define PART(what) (snprintf(part, sizeof part, "%.79s.%s", base, what), part)
    kiln_t h = vision_norm(r, PART("layer_norm1"), x, c->eps);
    kiln_t q = vision_linear(r, PART("self_attn.q_proj"), h, c->width, 1);
    kiln_t k = vision_linear(r, PART("self_attn.k_proj"), h, c->width, 1);
    kiln_t v = vision_linear(r, PART("self_attn.v_proj"), h, c->width, 1);
    h = o->attention(r->p, q, k, v, &how);
    x = o->add(r->p, vision_linear(r, PART("self_attn.out_proj"), h, c->width, 1), x);
    h = vision_linear(r, PART("mlp.fc1"), vision_norm(r, PART("layer_norm2"), x, c->eps), c->inner, 1);
    return o->add(r->p, vision_linear(r, PART("mlp.fc2"), o->act(r->p, h, c->act), c->width, 1), x);
#undef PART
}

/* -> [N,1+patches,width]. No op repeats the class token for each picture: it is added to zeros. */
static kiln_t embed(const vision_recorder *r, const clip_vision_config *c, kiln_t pixels)
{
    const kiln_ops *o = r->ops;
    int64_t side = c->size / c->patch, n = vision_dim(r, pixels, 0);
    kiln_conv2d how = {.size = sizeof how, .stride = {(int32_t)c->patch, (int32_t)c->patch}};
    kiln_t w = o->weight(r->p, r->w, "vision_model.embeddings.patch_embedding.weight", 4,
                         KILN_DIMS(c->width, 3, c->patch, c->patch));
    kiln_t x = o->reshape(r->p, o->conv2d(r->p, pixels, w, (kiln_t){0}, &how), 3, KILN_DIMS(n, side * side, c->width));
    kiln_t token = vision_vector(r, "vision_model.embeddings.class_embedding", c->width);
    token = o->add(r->p, o->affine(r->p, o->slice(r->p, x, 1, 0, 1), 0, 0), token);
    x = o->concat(r->p, (kiln_t[]){token, x}, 2, 1);
    return o->add(r->p, x,
                  o->weight(r->p, r->w, "vision_model.embeddings.position_embedding.weight", 2,
                            KILN_DIMS(side * side + 1, c->width)));
}

static kiln_t embeds_of(const vision_recorder *r, const clip_vision_config *c, kiln_t x)
{
    x = r->ops->reshape(r->p, r->ops->slice(r->p, x, 1, 0, 1), 2, KILN_DIMS(vision_dim(r, x, 0), c->width));
    x = vision_norm(r, "vision_model.post_layernorm", x, c->eps);
    return c->projection ? vision_linear(r, "visual_projection", x, c->projection, 0) : x;
}

/* LLaVA's: two linears of each patch's penultimate features. */
static kiln_t projected(const vision_recorder *r, const clip_vision_config *c, kiln_t x)
{
    x = r->ops->slice(r->p, x, 1, 1, vision_dim(r, x, 1) - 1);
    x = r->ops->act(r->p, vision_linear(r, "multi_modal_projector.linear_1", x, c->projector, 1), KILN_ACT_GELU);
    return vision_linear(r, "multi_modal_projector.linear_2", x, c->projector, 1);
}

void clip_vision_record(const clip_vision_config *c, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                        kiln_t pixels, const kiln_outputs *out)
{
    const vision_recorder r = {ops, p, w};
    kiln_t x = vision_norm(&r, "vision_model.pre_layrnorm", embed(&r, c, pixels), c->eps), before = x;
    for (int64_t i = 0; i < c->layers; i++) before = x, x = layer(&r, c, i, x);
    out->add(out, "last_hidden_state", x);
    out->add(out, "penultimate_hidden_states", before);
    out->add(out, "image_embeds", embeds_of(&r, c, x));
    if (c->projector) out->add(out, "mm_projected", projected(&r, c, before));
}
