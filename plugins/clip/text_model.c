/* text_model.c - CLIP's text transformer (Radford et al. 2021), names as in transformers' CLIPTextModel.
 *
 *   x = token_embedding[ids] + position_embedding          [N,T,C]; a vector of the prompt's own in the place of a row
 *   layers times:  x += out(attention(q, k, v of norm1(x), causal)),  x += fc2(act(fc1(norm2(x))))
 *   tokens = x after the chosen layer, through final_norm unless the model wants it plain
 *   pooled = final_norm(x after the last)[first end token], through text_projection where there is one
 */
#include "text_model.h"

#include <stdio.h>

static kiln_t weight(const text_recorder *r, const char *prefix, const char *name, uint32_t rank, const int64_t *dim)
{
    char full[160];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return r->ops->weight(r->p, r->w, full, rank, dim);
}

static kiln_t linear(const text_recorder *r, const char *prefix, const char *name, kiln_t x, int64_t in, int64_t out)
{
    char w[64], b[64];
    snprintf(w, sizeof w, "%s.weight", name);
    snprintf(b, sizeof b, "%s.bias", name);
    return r->ops->linear(r->p, x, weight(r, prefix, w, 2, KILN_DIMS(out, in)),
                          weight(r, prefix, b, 1, KILN_DIMS(out)));
}

static kiln_t norm(const text_recorder *r, const char *prefix, const char *name, kiln_t x)
{
    char g[64], b[64];
    const int64_t *dim = &r->c->width;
    snprintf(g, sizeof g, "%s.weight", name);
    snprintf(b, sizeof b, "%s.bias", name);
    return r->ops->layer_norm(r->p, x, r->c->eps, weight(r, prefix, g, 1, dim), weight(r, prefix, b, 1, dim));
}

static kiln_t embed(const text_recorder *r, const kiln_text_inputs *in)
{
    const text_config *c = r->c;
    const char *prefix = "text_model.embeddings.";
    kiln_t table = weight(r, prefix, "token_embedding.weight", 2, KILN_DIMS(c->vocabulary, c->width));
    kiln_t place = weight(r, prefix, "position_embedding.weight", 2, KILN_DIMS(c->length, c->width));
    kiln_t x = r->ops->embedding(r->p, table, in->ids); /* [N,T,C] */
    if (in->vectors.id) x = r->ops->add(r->p, r->ops->mul(r->p, x, in->by_id), in->vectors);
    return r->ops->add(r->p, x, place); /* broadcast over N */
}

/* x [N,T,C] -> [N,T,C] */
static kiln_t layer_of(const text_recorder *r, int32_t i, kiln_t x)
{
    const kiln_ops *o = r->ops;
    int64_t width = r->c->width;
    char prefix[64], scope[32];
    snprintf(prefix, sizeof prefix, "text_model.encoder.layers.%d.", i);
    snprintf(scope, sizeof scope, "layer.%d", i);
    o->scope_push(r->p, scope);
    kiln_t h = norm(r, prefix, "layer_norm1", x);
    kiln_t q = linear(r, prefix, "self_attn.q_proj", h, width, width);
    kiln_t k = linear(r, prefix, "self_attn.k_proj", h, width, width);
    kiln_t v = linear(r, prefix, "self_attn.v_proj", h, width, width);
    h = o->attention(r->p, q, k, v,
                     &(kiln_attention){.size = sizeof(kiln_attention), .heads = r->c->heads, .causal = 1});
    x = o->add(r->p, linear(r, prefix, "self_attn.out_proj", h, width, width), x);
    h = norm(r, prefix, "layer_norm2", x);
    h = o->act(r->p, linear(r, prefix, "mlp.fc1", h, width, r->c->inner), r->c->act); /* [N,T,inner] */
    x = o->add(r->p, linear(r, prefix, "mlp.fc2", h, r->c->inner, width), x);
    o->scope_pop(r->p);
    return x;
}

kiln_t text_model_hidden(const text_recorder *r, kiln_t ids, int32_t layers)
{
    kiln_t x = embed(r, &(kiln_text_inputs){.ids = ids});
    for (int32_t i = 0; i < layers; i++) x = layer_of(r, i, x);
    return x;
}

static kiln_t pool(const text_recorder *r, kiln_t last, kiln_t end)
{
    const text_config *c = r->c;
    kiln_t x = r->ops->gather(r->p, last, end); /* [N,C] */
    if (!c->projection) return x;
    kiln_t w = weight(r, "", "text_projection.weight", 2, KILN_DIMS(c->projection, c->width));
    return r->ops->linear(r->p, x, w, (kiln_t){0});
}

void text_model_record(const text_recorder *r, const kiln_text_inputs *in, kiln_text_features *out)
{
    const text_config *c = r->c;
    int32_t place = c->layers + c->cut_layers + in->layer; /* of the layer, from 0 */
    kiln_t x = embed(r, in), chosen = {0};
    if (in->layer >= 0 || place < 0 || place >= c->layers)
        x = r->ops->fail(r->p,
                         "layer %d is asked for, and the text encoder has layers %d (the last) to -%d (the first)",
                         in->layer, -1 - c->cut_layers, c->layers + c->cut_layers);
    for (int32_t i = 0; i < c->layers; i++) {
        x = layer_of(r, i, x);
        if (i == place) chosen = x;
    }
    kiln_t last = norm(r, "text_model.", "final_layer_norm", x);
    if (c->plain_hidden)
        out->tokens = chosen;
    else
        out->tokens = place == c->layers - 1 ? last : norm(r, "text_model.", "final_layer_norm", chosen);
    out->pooled = pool(r, last, in->end);
}
