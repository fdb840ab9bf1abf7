/* ip_adapter.c - see ip_adapter.h. A resampler's layer (Alayrac et al. 2022, "Flamingo", section 3.2) attends from its
 * queries to the features and the queries themselves.
 */
#include "ip_adapter.h"

#include "vision_recorder.h"

#include <stdio.h>

#define EPS 1e-5f

enum { NAME = 120 };

const char *ip_adapter_features(const ip_adapter_config *c)
{
    return c->kind == IP_ADAPTER_EMBEDS ? "image_embeds" : "penultimate_hidden_states";
}

static kiln_t project(const vision_recorder *r, const ip_adapter_config *c, kiln_t x)
{
    int64_t n = vision_dim(r, x, 0);
    x = vision_linear(r, "image_proj.proj", x, c->tokens * c->width, 1);
    x = r->ops->reshape(r->p, x, 3, KILN_DIMS(n, c->tokens, c->width));
    return vision_norm(r, "image_proj.norm", x, EPS);
}

static kiln_t project_each(const vision_recorder *r, const ip_adapter_config *c, kiln_t x)
{
    x = r->ops->act(r->p, vision_linear(r, "image_proj.proj.0", x, c->hidden, 1), KILN_ACT_GELU);
    return vision_norm(r, "image_proj.proj.3", vision_linear(r, "image_proj.proj.2", x, c->width, 1), EPS);
}

static kiln_t resampler_attention(const vision_recorder *r, const ip_adapter_config *c, const char *base, kiln_t x,
                                  kiln_t queries)
{
    const kiln_ops *o = r->ops;
    char name[NAME];
    kiln_attention how = {.size = sizeof how, .heads = (int32_t)c->heads};
#define PART(what) (snprintf(name, sizeof name, "%.80s.0.%s", base, what), name)
    x = vision_norm(r, PART("norm1"), x, EPS);
    queries = vision_norm(r, PART("norm2"), queries, EPS);
    kiln_t q = vision_linear(r, PART("to_q"), queries, c->inner, 0);
    kiln_t kv = vision_linear(r, PART("to_kv"), o->concat(r->p, (kiln_t[]){x, queries}, 2, 1), 2 * c->inner, 0);
    kiln_t out =
        o->attention(r->p, q, o->slice(r->p, kv, 2, 0, c->inner), o->slice(r->p, kv, 2, c->inner, c->inner), &how);
    return vision_linear(r, PART("to_out"), out, c->dim, 0);
#undef PART
}

static kiln_t resampler_mlp(const vision_recorder *r, const ip_adapter_config *c, const char *base, kiln_t x)
{
    char name[NAME];
#define PART(what) (snprintf(name, sizeof name, "%.80s.1.%s", base, what), name)
    x = vision_norm(r, PART("0"), x, EPS);
    x = r->ops->act(r->p, vision_linear(r, PART("1"), x, c->hidden, 0), KILN_ACT_GELU);
    return vision_linear(r, PART("3"), x, c->dim, 0);
#undef PART
}

static kiln_t resample(const vision_recorder *r, const ip_adapter_config *c, kiln_t x)
{
    char base[NAME];
    x = vision_linear(r, "image_proj.proj_in", x, c->dim, 1);
    kiln_t queries = vision_tokens(r, "image_proj.latents", x, c->tokens, c->dim);
    for (int64_t i = 0; i < c->depth; i++) {
        snprintf(base, sizeof base, "image_proj.layers.%lld", (long long)i);
        queries = r->ops->add(r->p, resampler_attention(r, c, base, x, queries), queries);
        queries = r->ops->add(r->p, resampler_mlp(r, c, base, queries), queries);
    }
    return vision_norm(r, "image_proj.norm_out", vision_linear(r, "image_proj.proj_out", queries, c->width, 1), EPS);
}

kiln_t ip_adapter_record(const ip_adapter_config *c, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                         kiln_t features)
{
    const vision_recorder r = {ops, p, w};
    return c->kind == IP_ADAPTER_EMBEDS ? project(&r, c, features)
           : c->kind == IP_ADAPTER_PLUS ? resample(&r, c, features)
                                        : project_each(&r, c, features);
}
