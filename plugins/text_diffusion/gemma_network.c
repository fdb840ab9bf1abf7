/* gemma_network.c - DiffusionGemma's two programs.
 *
 * Both go through the same layers. The prompt's is causal and leaves keys and values in states. The canvas' sees itself
 * both ways and what was read before it; its own keys and values lie behind those, where the next pass puts others in
 * their place, so nothing of a canvas is ever read as a prompt.
 *
 * States "3.keys", "3.values", in the program's precision. Full layers: [1,capacity,kv_heads*D], token p at place p.
 * Sliding ones: rings of window - 1 + the longest pass, token p at place p mod their length. All queries of a canvas
 * that begins at P see the same places there: from P - (window - 1) on.
 */
#include "gemma.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const kiln_map to_f32 = {.size = sizeof to_f32, .dtype = KILN_F32};
static const kiln_map to_i32 = {.size = sizeof to_i32, .dtype = KILN_I32};

typedef struct {
    const text_recording *r;
    const gemma *g;
    int is_canvas;
    kiln_t cos[2], sin[2]; /* of sliding and full layers, f32 [1,T,1,D/2]   */
    kiln_t in_ring;        /* i32 [1,ring]: which token is where, negative: none that is seen */
    kiln_t end;            /* i32 [1]: tokens read and these                */
    int64_t ring;
    long long layer;
} walk;

static const gemma_layer *layer_of(const walk *w) { return &w->g->layer[w->layer]; }

/* ---- positions ---- */

/* How fast pair i of a head turns. */
static double frequency(const gemma *g, int full, int64_t i, int64_t head)
{
    const double f = pow(g->theta[full], -2.0 * (double)i / (double)head);
    if (full && g->divisor) return i < g->n_divisor ? f / (double)g->divisor[i] : 0;
    return i < (int64_t)(g->rotary[full] * (double)head / 2) ? f : 0;
}

static kiln_t table(const walk *w, int full, int64_t head, const char *expression)
{
    const text_recording *r = w->r;
    float *f = malloc((size_t)(head / 2) * sizeof *f);
    if (!f) return td_ops->fail(r->p, "no memory for %lld frequencies", (long long)head / 2);
    for (int64_t i = 0; i < head / 2; i++) f[i] = (float)frequency(w->g, full, i, head);
    const kiln_t operand[] = {td_ops->reshape(r->p, r->offset, 4, KILN_DIMS(1, 1, 1, 1)),
                              td_ops->reshape(r->p, td_ops->arange(r->p, 0, r->t, 1), 4, KILN_DIMS(1, r->t, 1, 1)),
                              td_ops->constant(r->p, f, 4, KILN_DIMS(1, 1, 1, head / 2))};
    free(f);
    return td_ops->map(r->p, expression, operand, COUNT(operand), &to_f32);
}

static void positions(walk *w)
{
    const text_recording *r = w->r;
    int made[2] = {0, 0};
    for (int64_t i = 0; i < w->g->layers; i++) {
        const int full = w->g->layer[i].is_full;
        if (made[full]++) continue;
        w->cos[full] = table(w, full, w->g->layer[i].head, "cos((a + b) * c)");
        w->sin[full] = table(w, full, w->g->layer[i].head, "sin((a + b) * c)");
    }
    const kiln_t length = td_number(r, (int32_t)r->t), seen = td_number(r, (int32_t)w->g->window - 1);
    w->end = td_ops->map(r->p, "a + b", (kiln_t[]){r->offset, length}, 2, &to_i32);
    w->ring = w->g->window - 1 + r->longest;
    kiln_t place = td_ops->reshape(r->p, td_ops->arange(r->p, 0, w->ring, 1), 2, KILN_DIMS(1, w->ring));
    w->in_ring = td_ops->map(r->p, "a - 1 - mod(a - 1 - b, c)",
                             (kiln_t[]){w->end, place, td_number(r, (int32_t)w->ring)}, 3, &to_i32);
    if (w->is_canvas)
        w->in_ring = td_ops->map(r->p, "a >= b - c ? a : 0 - 1", (kiln_t[]){w->in_ring, r->offset, seen}, 3, &to_i32);
}

/* ---- attention ---- */

static kiln_t turn(const walk *w, kiln_t x, int64_t heads)
{
    const int full = layer_of(w)->is_full;
    const kiln_rope rope = {.size = sizeof rope, .heads = (int32_t)heads, .cos = w->cos[full], .sin = w->sin[full]};
    return td_ops->rope(w->r->p, x, &rope);
}

static kiln_t remember(const walk *w, const char *what, kiln_t x)
{
    const text_recording *r = w->r;
    const gemma_layer *l = layer_of(w);
    char name[40];
    snprintf(name, sizeof name, "%lld.%s", w->layer, what);
    kiln_t s = td_ops->state(r->p, name, td_ops->dtype(r->p, x), 3,
                             KILN_DIMS(1, l->is_full ? r->capacity : w->ring, l->kv_heads * l->head));
    return td_ops->state_write(r->p, s, 1, r->offset, x);
}

static void keys_and_values(const walk *w, kiln_t x, kiln_t *keys, kiln_t *values)
{
    const text_recording *r = w->r;
    const gemma_layer *l = layer_of(w);
    const int64_t wide = l->kv_heads * l->head;
    kiln_t k = td_linear(r, x, wide, "layers.%lld.self_attn.k_proj.weight", w->layer), v = k;
    if (!l->is_full || td_has(r, "layers.%lld.self_attn.v_proj.weight", w->layer))
        v = td_linear(r, x, wide, "layers.%lld.self_attn.v_proj.weight", w->layer);
    k = turn(w, gemma_norm(r, k, l->head, "layers.%lld.self_attn.k_norm.weight", w->layer), l->kv_heads);
    *keys = remember(w, "keys", k);
    *values = remember(w, "values", gemma_norm(r, v, l->head, NULL));
}

static kiln_t attention(const walk *w, kiln_t x)
{
    const text_recording *r = w->r;
    const gemma_layer *l = layer_of(w);
    kiln_t q = td_linear(r, x, w->g->heads * l->head, "layers.%lld.self_attn.q_proj.weight", w->layer), k, v;
    q = turn(w, gemma_norm(r, q, l->head, "layers.%lld.self_attn.q_norm.weight", w->layer), w->g->heads);
    keys_and_values(w, x, &k, &v);
    kiln_attention a = {.size = sizeof a,
                        .heads = (int32_t)w->g->heads,
                        .kv_heads = (int32_t)l->kv_heads,
                        .scale = 1,
                        .causal = !w->is_canvas,
                        .offset = r->offset};
    if (l->is_full) a.key_length = w->end;
    if (!l->is_full) a.key_position = w->in_ring;
    if (!l->is_full && !w->is_canvas) a.window = 1, a.left = w->g->window - 1, a.right = 0;
    kiln_t y = td_ops->attention(r->p, q, k, v, &a);
    return td_linear(r, y, r->m->width, "layers.%lld.self_attn.o_proj.weight", w->layer);
}

/* ---- layers ---- */

/* x f32 [1,T,width] */
static kiln_t layer(const walk *w, kiln_t x)
{
    const text_recording *r = w->r;
    kiln_t h = gemma_norm(r, x, 0, "layers.%lld.input_layernorm.weight", w->layer);
    h = gemma_norm(r, attention(w, h), 0, "layers.%lld.post_attention_layernorm.weight", w->layer);
    x = td_ops->map(r->p, "a + b", (kiln_t[]){x, h}, 2, &to_f32);
    h = gemma_feed_forward(r, w->g, w->layer, x);
    h = gemma_norm(r, h, 0, "layers.%lld.post_feedforward_layernorm.weight", w->layer);
    const char *scalar = w->is_canvas || !td_has(r, "layers.%lld.encoder_scalar", w->layer) ? "layer" : "encoder";
    kiln_t scale = td_weight(r, 1, KILN_DIMS(1), "layers.%lld.%s_scalar", w->layer, scalar);
    x = td_ops->map(r->p, "(a + b) * c", (kiln_t[]){x, h, scale}, 3, &to_f32);
    td_see(r, x, "%lld.hidden", w->layer);
    return x;
}

/* Of the last layer of a prompt only the states are wanted. */
static kiln_t layers(walk *w, kiln_t x)
{
    const text_recording *r = w->r;
    char scope[40];
    kiln_t k, v;
    for (w->layer = 0; w->layer < w->g->layers; w->layer++) {
        snprintf(scope, sizeof scope, "layers.%lld", w->layer);
        td_ops->scope_push(r->p, scope);
        if (w->is_canvas || w->layer + 1 < w->g->layers || r->see)
            x = layer(w, x);
        else
            keys_and_values(w, gemma_norm(r, x, 0, "layers.%lld.input_layernorm.weight", w->layer), &k, &v);
        td_ops->scope_pop(r->p);
    }
    return x;
}

kiln_t gemma_record_prompt(const text_recording *r)
{
    walk w = {.r = r, .g = r->m->network};
    positions(&w);
    layers(&w, td_words(r, r->ids));
    return w.end;
}

kiln_t gemma_record_canvas(const text_recording *r, kiln_t soft)
{
    walk w = {.r = r, .g = r->m->network, .is_canvas = 1};
    positions(&w);
    kiln_t x = gemma_norm(r, soft, 0, "self_conditioning.pre_norm.weight");
    x = gemma_mlp(r, x, w.g->hidden, "self_conditioning");
    x = td_ops->map(r->p, "a + b", (kiln_t[]){td_words(r, r->ids), x}, 2, &to_f32);
    td_ops->precision_push(r->p, KILN_F32);
    x = gemma_norm(r, x, 0, NULL);
    td_ops->precision_pop(r->p);
    return gemma_norm(r, layers(&w, x), 0, "norm.weight");
}
