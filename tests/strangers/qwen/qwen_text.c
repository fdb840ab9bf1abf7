/* qwen_text.c - Qwen2.5's decoder as a text encoder: token ids, and rows of a picture in the place of some of them, to
 * hidden states. Queries have more heads than keys and values, whose linears have biases. A token has a place on three
 * axes (M-RoPE): text goes on along all of them; a picture's rows lie at one time, by row and by column, and the text
 * behind goes on where the longer side ends. The stream is f32 in every precision: Qwen's grows large.
 */
#include "qwen.h"

typedef struct {
    recorder r;
    const qwen_text *m;
    const qwen_picture *picture;
    kiln_t cos, sin; /* f32 [1,T,1,head/2] */
} walk;

/* The place of token t on an axis: time, row or column. */
static int64_t place_of(const qwen_picture *p, int64_t t, int axis)
{
    int64_t inside = t - p->at, n = p->rows * p->columns, side = p->rows > p->columns ? p->rows : p->columns;
    if (n == 0 || inside < 0) return t;
    if (inside >= n) return t - n + side;
    return p->at + (axis == 0 ? 0 : axis == 1 ? inside / p->columns : inside % p->columns);
}

static double angle(const void *of, int64_t t, int64_t column)
{
    const walk *s = of;
    int axis = 0;
    for (int64_t end = s->m->section[0]; axis + 1 < QWEN_SECTIONS && column >= end;) end += s->m->section[++axis];
    return (double)place_of(s->picture, t, axis) * pow(s->m->theta, -2.0 * (double)column / (double)s->m->head);
}

static kiln_t attention(const walk *s, kiln_t x, const char *layer)
{
    const qwen_text *m = s->m;
    const recorder *r = &s->r;
    kiln_rope rope = {.size = sizeof rope, .heads = (int32_t)m->heads, .cos = s->cos, .sin = s->sin};
    kiln_t q = r->o->rope(r->p, qwen_linear(r, x, m->heads * m->head, "%s.self_attn.q_proj", layer), &rope);
    rope.heads = (int32_t)m->kv_heads;
    kiln_t k = r->o->rope(r->p, qwen_linear(r, x, m->kv_heads * m->head, "%s.self_attn.k_proj", layer), &rope);
    kiln_t v = qwen_linear(r, x, m->kv_heads * m->head, "%s.self_attn.v_proj", layer);
    const kiln_attention how = {
        .size = sizeof how, .heads = (int32_t)m->heads, .kv_heads = (int32_t)m->kv_heads, .causal = 1};
    return qwen_linear(r, r->o->attention(r->p, q, k, v, &how), m->width, "%s.self_attn.o_proj", layer);
}

static kiln_t layer_of(const walk *s, kiln_t x, long long i)
{
    const kiln_map to_f32 = {.size = sizeof to_f32, .dtype = KILN_F32};
    const recorder *r = &s->r;
    char layer[40], mlp[48];
    NAME(layer, "model.layers.%lld", i), NAME(mlp, "%s.mlp", layer);
    r->o->scope_push(r->p, layer + sizeof "model." - 1);
    kiln_t h = attention(s, qwen_rms(r, x, s->m->eps, 0, "%s.input_layernorm.weight", layer), layer);
    x = r->o->map(r->p, "a + b", (kiln_t[]){x, h}, 2, &to_f32);
    h = qwen_mlp(r, qwen_rms(r, x, s->m->eps, 0, "%s.post_attention_layernorm.weight", layer), s->m->hidden, mlp);
    x = r->o->map(r->p, "a + b", (kiln_t[]){x, h}, 2, &to_f32);
    r->o->scope_pop(r->p);
    return x;
}

kiln_t qwen_text_record(const recorder *r, const qwen_text *m, const qwen_picture *picture, const kiln_text_inputs *in)
{
    walk s = {.r = *r, .m = m, .picture = picture};
    int64_t dim[2] = {0}, layers = m->layers + 1 + in->layer;
    r->o->shape(r->p, in->ids, dim, 2);
    s.cos = qwen_table(r, &s, angle, dim[1], m->head / 2, cos);
    s.sin = qwen_table(r, &s, angle, dim[1], m->head / 2, sin);
    kiln_t words = qwen_weight(r, "model.embed_tokens.weight", 2, KILN_DIMS(m->vocabulary, m->width));
    kiln_t x = r->o->cast(r->p, r->o->embedding(r->p, words, in->ids), KILN_F32);
    if (in->vectors.id) x = r->o->add(r->p, r->o->mul(r->p, x, in->by_id), in->vectors);
    for (int64_t i = 0; i < layers; i++) x = layer_of(&s, x, i);
    return in->layer == -1 ? qwen_rms(r, x, m->eps, 0, "model.norm.weight") : x;
}
