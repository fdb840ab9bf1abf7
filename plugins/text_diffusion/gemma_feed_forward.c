/* gemma_feed_forward.c - what of a DiffusionGemma's layer comes behind attention: a dense MLP of every token beside the
 * experts that each token chooses. */
#include "gemma.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

static const kiln_map to_f32 = {.size = sizeof to_f32, .dtype = KILN_F32};
static const kiln_map to_i32 = {.size = sizeof to_i32, .dtype = KILN_I32};

kiln_t gemma_norm(const text_recording *r, kiln_t x, int64_t group, const char *name, ...)
{
    char full[160];
    int64_t dim[KILN_MAX_RANK] = {0};
    uint32_t rank = td_ops->shape(r->p, x, dim, KILN_MAX_RANK);
    kiln_norm norm = {
        .size = sizeof norm, .kind = KILN_NORM_RMS, .eps = ((const gemma *)r->m->network)->eps, .group = group};
    if (name) {
        va_list args;
        va_start(args, name);
        vsnprintf(full, sizeof full, name, args);
        va_end(args);
        const int64_t wide = group ? group : rank ? dim[rank - 1] : 0;
        norm.gain = td_ops->weight(r->p, r->m->weights, full, 1, &wide);
    }
    return td_ops->normalize(r->p, x, &norm);
}

kiln_t gemma_mlp(const text_recording *r, kiln_t x, int64_t hidden, const char *name)
{
    kiln_t gate = td_linear(r, x, hidden, "%s.gate_proj.weight", name),
           up = td_linear(r, x, hidden, "%s.up_proj.weight", name);
    kiln_t h = td_ops->map(r->p, "gelu_tanh(a) * b", (kiln_t[]){gate, up}, 2, NULL);
    return td_linear(r, h, r->m->width, "%s.down_proj.weight", name);
}

/* Who goes where: all pairs of a token and an expert, sorted by expert. */
typedef struct {
    kiln_t token;   /* i32 [pairs]                                */
    kiln_t offsets; /* i32 [experts+1]: where an expert's begin   */
    kiln_t back;    /* i32 [pairs]: where pair token * chosen + k went */
    kiln_t weight;  /* f32 [pairs,1]                              */
} routing;

/* f32 throughout: near a tie a rounding decides. h [T,width] is what came out of attention, not normalised by a layer's
 * norm. */
static routing route(const text_recording *r, const gemma *g, long long layer, kiln_t h)
{
    const int64_t pairs = r->t * g->chosen;
    kiln_t expert = {0}, order = {0}, back = {0};
    routing to;
    td_ops->precision_push(r->p, KILN_F32);
    kiln_t x = gemma_norm(r, h, 0, "layers.%lld.router.scale", layer);
    x = td_ops->affine(r->p, x, (float)(1 / sqrt((double)g->width)), 0);
    kiln_t score = td_linear(r, x, g->experts, "layers.%lld.router.proj.weight", layer);
    td_see(r, score, "%lld.router", layer);
    kiln_t weight = td_ops->topk(r->p, td_ops->softmax(r->p, score, NULL), g->chosen, 0, &expert);
    td_see(r, expert, "%lld.chosen", layer);
    kiln_t sum = td_ops->reduce(r->p, weight, KILN_REDUCE_SUM, 2, 1);
    kiln_t scale = td_weight(r, 1, &g->experts, "layers.%lld.router.per_expert_scale", layer);
    scale = td_ops->take(r->p, scale, expert, 0);
    weight = td_ops->map(r->p, "a / b * c", (kiln_t[]){weight, sum, scale}, 3, &to_f32);
    expert = td_ops->reshape(r->p, expert, 1, &pairs);
    td_ops->topk(r->p, expert, 0, 1, &order);
    td_ops->topk(r->p, order, 0, 1, &back);
    to.back = back;
    weight = td_ops->take(r->p, td_ops->reshape(r->p, weight, 1, &pairs), order, 0);
    to.weight = td_ops->reshape(r->p, weight, 2, KILN_DIMS(pairs, 1));
    to.token = td_ops->map(r->p, "a / b", (kiln_t[]){order, td_number(r, (int32_t)g->chosen)}, 2, &to_i32);
    kiln_t begin = td_ops->cumsum(r->p, td_ops->bincount(r->p, expert, g->experts), 0, 1, 0);
    to.offsets = td_ops->concat(r->p, (kiln_t[]){begin, td_number(r, (int32_t)pairs)}, 2, 0);
    td_ops->precision_pop(r->p);
    return to;
}

/* gelu(gate x) * up x of the pairs, and their weights already on it: what they become in the end is four times as wide.
 * Both matrices are one in most files, two in older ones. */
static kiln_t gate_and_up(const text_recording *r, const gemma *g, long long layer, kiln_t x, const routing *to)
{
    const int64_t f = g->expert_hidden;
    kiln_t gate, up;
    if (td_has(r, "layers.%lld.experts.gate_proj", layer)) {
        kiln_t w = td_weight(r, 3, KILN_DIMS(g->experts, f, g->width), "layers.%lld.experts.gate_proj", layer);
        gate = td_ops->grouped_linear(r->p, x, w, (kiln_t){0}, to->offsets);
        w = td_weight(r, 3, KILN_DIMS(g->experts, f, g->width), "layers.%lld.experts.up_proj", layer);
        up = td_ops->grouped_linear(r->p, x, w, (kiln_t){0}, to->offsets);
    } else {
        kiln_t w = td_weight(r, 3, KILN_DIMS(g->experts, 2 * f, g->width), "layers.%lld.experts.gate_up_proj", layer);
        kiln_t both = td_ops->grouped_linear(r->p, x, w, (kiln_t){0}, to->offsets);
        gate = td_ops->slice(r->p, both, 1, 0, f), up = td_ops->slice(r->p, both, 1, f, f);
    }
    return td_ops->map(r->p, "gelu_tanh(a) * b * c", (kiln_t[]){gate, up, to->weight}, 3, NULL);
}

static kiln_t experts(const text_recording *r, const gemma *g, long long layer, kiln_t h)
{
    h = td_ops->reshape(r->p, h, 2, KILN_DIMS(r->t, g->width));
    routing to = route(r, g, layer, h);
    kiln_t x = gemma_norm(r, h, 0, "layers.%lld.pre_feedforward_layernorm_2.weight", layer);
    x = gate_and_up(r, g, layer, td_ops->take(r->p, x, to.token, 0), &to);
    kiln_t w =
        td_weight(r, 3, KILN_DIMS(g->experts, g->width, g->expert_hidden), "layers.%lld.experts.down_proj", layer);
    kiln_t y = td_ops->grouped_linear(r->p, x, w, (kiln_t){0}, to.offsets);
    y = td_ops->reshape(r->p, td_ops->take(r->p, y, to.back, 0), 3, KILN_DIMS(r->t, g->chosen, g->width));
    y = td_ops->reduce(r->p, y, KILN_REDUCE_SUM, 2, 0);
    y = gemma_norm(r, y, 0, "layers.%lld.post_feedforward_layernorm_2.weight", layer);
    return td_ops->reshape(r->p, y, 3, KILN_DIMS(1, r->t, g->width));
}

kiln_t gemma_feed_forward(const text_recording *r, const gemma *g, int64_t layer, kiln_t h)
{
    char name[40];
    const long long n = layer;
    snprintf(name, sizeof name, "layers.%lld.mlp", n);
    kiln_t x = gemma_norm(r, h, 0, "layers.%lld.pre_feedforward_layernorm.weight", n);
    kiln_t dense = gemma_mlp(r, x, g->hidden, name);
    dense = gemma_norm(r, dense, 0, "layers.%lld.post_feedforward_layernorm_1.weight", n);
    return td_ops->map(r->p, "a + b", (kiln_t[]){dense, experts(r, g, n, h)}, 2, &to_f32);
}
