/* deepseek_v2.c - DeepSeek-V2 (DeepSeek-AI 2024, arXiv:2405.04434) under transformers' names.
 *
 * Latent attention: of a token the cache has one row of kv_rank numbers, of which all heads' keys and values are
 * products, and one key of `rope` columns that all heads share: state "3.cache", [N,room,kv_rank+rope], in the
 * program's precision. Several tokens at once get keys, [rope | nope] wide, and narrower values made of the whole
 * cache; a single one attends to the cache itself, with its queries taken through the keys' matrix and what it finds
 * through the values' (section 2.1.2 of the paper).
 */
#include "deepseek_v2.h"

#include <stdio.h>

static void *open_deepseek(config *c)
{
    static const config_rule expected[] = {{"hidden_act", "\"silu\""}, {"attention_bias", "false"}};
    deepseek *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    config_expect(c, expected, COUNT(expected));
    m->width = config_int(c, "hidden_size", 4096, 1, 1 << 16);
    m->heads = config_int(c, "num_attention_heads", 32, 1, 1024);
    m->layers = config_int(c, "num_hidden_layers", 32, 1, 1000);
    m->dense_layers = config_int(c, "first_k_dense_replace", 0, 0, 1000);
    m->hidden = config_int(c, "intermediate_size", 11008, 1, 1 << 20);
    m->q_rank = config_int(c, "q_lora_rank", 0, 0, 1 << 16);
    m->kv_rank = config_int(c, "kv_lora_rank", 512, 1, 1 << 16);
    m->nope = config_int(c, "qk_nope_head_dim", 128, 1, 4096);
    m->rope = config_int(c, "qk_rope_head_dim", 64, 2, 4096);
    m->value = config_int(c, "v_head_dim", 128, 1, 4096);
    m->experts = config_int(c, "n_routed_experts", 64, 1, 4096);
    m->chosen = config_int(c, "num_experts_per_tok", 6, 1, m->experts);
    m->shared = config_int(c, "n_shared_experts", 2, 1, 64);
    m->expert_hidden = config_int(c, "moe_intermediate_size", 1407, 1, 1 << 20);
    m->groups =
        !strcmp(config_text(c, "topk_method", "greedy"), "greedy") ? 1 : config_int(c, "n_group", 1, 1, m->experts);
    m->chosen_groups = m->groups > 1 ? config_int(c, "topk_group", 1, 1, m->groups) : 1;
    m->theta = config_number(c, "rope_theta", 10000, 1, 1e9);
    m->eps = (float)config_number(c, "rms_norm_eps", 1e-6, 0, 1);
    m->routed_scale = (float)config_number(c, "routed_scaling_factor", 1, 0, 1e6);
    if (m->experts % m->groups)
        CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: n_group does not divide n_routed_experts", c->path);
    if (!c->failed) return m;
    free(m);
    return NULL;
}

static const kiln_map to_f32 = {.size = sizeof to_f32, .dtype = KILN_F32};
static const float latent_eps = 1e-6f; /* of the norms in the attention, whatever rms_norm_eps is */

/* ---- positions: the tables of all layers, f32 [N,T,1,rope/2], from the places on the device ---- */

typedef struct {
    const language_recording *r;
    const deepseek *m;
    kiln_t cos, sin, keys; /* keys: i32 [N], how many there are after this piece */
    long long layer;
} walk;

static kiln_t table(const language_recording *r, const deepseek *m, const char *expression)
{
    const int64_t half = m->rope / 2;
    float *frequency = malloc((size_t)half * sizeof *frequency);
    if (!frequency) return ops->fail(r->p, "no memory for %lld frequencies", (long long)half);
    for (int64_t i = 0; i < half; i++) frequency[i] = (float)pow(m->theta, -2.0 * (double)i / (double)m->rope);
    const kiln_t operand[] = {ops->reshape(r->p, r->offset, 4, KILN_DIMS(r->n, 1, 1, 1)),
                              language_count_up(r, 4, 1, r->t),
                              ops->constant(r->p, frequency, 4, KILN_DIMS(1, 1, 1, half))};
    free(frequency);
    return ops->map(r->p, expression, operand, COUNT(operand), &to_f32);
}

/* x [N,T,heads*rope] */
static kiln_t turn(const walk *w, kiln_t x, int64_t heads)
{
    const kiln_rope rope = {
        .size = sizeof rope, .heads = (int32_t)heads, .interleaved = 1, .cos = w->cos, .sin = w->sin};
    return ops->rope(w->r->p, x, &rope);
}

/* ---- attention ---- */

/* [N,T,heads*(nope+rope)] -> [N,T,heads*(rope+nope)], turned */
static kiln_t queries(const walk *w, kiln_t x)
{
    const language_recording *r = w->r;
    const deepseek *m = w->m;
    const int64_t wide = m->nope + m->rope;
    if (m->q_rank) {
        x = language_linear(r, x, m->q_rank, "model.layers.%lld.self_attn.q_a_proj", w->layer);
        x = language_norm(r, x, latent_eps, 0, "model.layers.%lld.self_attn.q_a_layernorm.weight", w->layer);
    }
    x = language_linear(r, x, m->heads * wide, "model.layers.%lld.self_attn.q_%sproj", w->layer, m->q_rank ? "b_" : "");
    x = ops->reshape(r->p, x, 4, KILN_DIMS(r->n, r->t, m->heads, wide));
    kiln_t turned =
        ops->reshape(r->p, ops->slice(r->p, x, 3, m->nope, m->rope), 3, KILN_DIMS(r->n, r->t, m->heads * m->rope));
    turned = ops->reshape(r->p, turn(w, turned, m->heads), 4, KILN_DIMS(r->n, r->t, m->heads, m->rope));
    x = ops->concat(r->p, (kiln_t[]){turned, ops->slice(r->p, x, 3, 0, m->nope)}, 2, 3);
    return ops->reshape(r->p, x, 3, KILN_DIMS(r->n, r->t, m->heads * wide));
}

/* The cache with this piece in it, [N,room,kv_rank+rope]. */
static kiln_t remember(const walk *w, kiln_t x)
{
    const language_recording *r = w->r;
    const deepseek *m = w->m;
    char name[40];
    x = language_linear(r, x, m->kv_rank + m->rope, "model.layers.%lld.self_attn.kv_a_proj_with_mqa", w->layer);
    kiln_t latent = language_norm(r, ops->slice(r->p, x, 2, 0, m->kv_rank), latent_eps, 0,
                                  "model.layers.%lld.self_attn.kv_a_layernorm.weight", w->layer);
    kiln_t key = turn(w, ops->slice(r->p, x, 2, m->kv_rank, m->rope), 1);
    snprintf(name, sizeof name, "%lld.cache", w->layer);
    kiln_t cache = ops->state(r->p, name, ops->dtype(r->p, latent), 3, KILN_DIMS(r->n, r->room, m->kv_rank + m->rope));
    return ops->state_write(r->p, cache, 1, r->offset, ops->concat(r->p, (kiln_t[]){latent, key}, 2, 2));
}

/* The keys' (of_values 0) or values' part of kv_b_proj, [heads,nope or value,kv_rank]. */
static kiln_t kv_part(const walk *w, int of_values)
{
    const deepseek *m = w->m;
    const int64_t both = m->nope + m->value;
    kiln_t kv = language_weight(w->r, 2, KILN_DIMS(m->heads * both, m->kv_rank),
                                "model.layers.%lld.self_attn.kv_b_proj.weight", w->layer);
    kv = ops->reshape(w->r->p, kv, 3, KILN_DIMS(m->heads, both, m->kv_rank));
    return ops->slice(w->r->p, kv, 1, of_values ? m->nope : 0, of_values ? m->value : m->nope);
}

/* x [N,T,heads*from] head by head through w [heads,..]: [N,T,heads*to] */
static kiln_t by_head(const walk *w, kiln_t x, int64_t from, int64_t to, kiln_t weight, uint32_t transposed)
{
    const language_recording *r = w->r;
    const uint32_t swap[] = {0, 2, 1, 3};
    x = ops->permute(r->p, ops->reshape(r->p, x, 4, KILN_DIMS(r->n, r->t, w->m->heads, from)), swap);
    x = ops->matmul(r->p, x, weight, &(kiln_matmul){.size = sizeof(kiln_matmul), .transpose_b = transposed});
    return ops->reshape(r->p, ops->permute(r->p, x, swap), 3, KILN_DIMS(r->n, r->t, w->m->heads * to));
}

/* q [N,T,heads*(rope+nope)] over the cache itself: one head of keys, which are values as well. */
static kiln_t attend_to_cache(const walk *w, kiln_t q, kiln_t cache, kiln_attention a)
{
    const language_recording *r = w->r;
    const deepseek *m = w->m;
    q = ops->reshape(r->p, q, 4, KILN_DIMS(r->n, r->t, m->heads, m->rope + m->nope));
    kiln_t turned = ops->slice(r->p, q, 3, 0, m->rope), nope = ops->slice(r->p, q, 3, m->rope, m->nope);
    nope = ops->reshape(r->p, nope, 3, KILN_DIMS(r->n, r->t, m->heads * m->nope));
    nope = by_head(w, nope, m->nope, m->kv_rank, kv_part(w, 0), 0);
    nope = ops->reshape(r->p, nope, 4, KILN_DIMS(r->n, r->t, m->heads, m->kv_rank));
    q = ops->concat(r->p, (kiln_t[]){nope, turned}, 2, 3);
    q = ops->reshape(r->p, q, 3, KILN_DIMS(r->n, r->t, m->heads * (m->kv_rank + m->rope)));
    a.kv_heads = 1, a.scale = (float)(1 / sqrt((double)(m->nope + m->rope)));
    kiln_t found = ops->attention(r->p, q, cache, ops->slice(r->p, cache, 2, 0, m->kv_rank), &a);
    return by_head(w, found, m->kv_rank, m->value, kv_part(w, 1), 1);
}

/* The same over keys and values of every head, which are made of the cache first. */
static kiln_t attend(const walk *w, kiln_t q, kiln_t cache, const kiln_attention *a)
{
    const language_recording *r = w->r;
    const deepseek *m = w->m;
    const int64_t wide = m->nope + m->rope, both = m->nope + m->value;
    kiln_t kv = language_linear(r, ops->slice(r->p, cache, 2, 0, m->kv_rank), m->heads * both,
                                "model.layers.%lld.self_attn.kv_b_proj", w->layer);
    kv = ops->reshape(r->p, kv, 4, KILN_DIMS(r->n, r->room, m->heads, both));
    kiln_t one = ops->slice(r->p, cache, 2, m->kv_rank, m->rope);
    one = ops->reshape(r->p, one, 4, KILN_DIMS(r->n, r->room, 1, m->rope));
    one = ops->expand(r->p, one, 4, KILN_DIMS(r->n, r->room, m->heads, m->rope));
    kiln_t k = ops->concat(r->p, (kiln_t[]){one, ops->slice(r->p, kv, 3, 0, m->nope)}, 2, 3);
    k = ops->reshape(r->p, k, 3, KILN_DIMS(r->n, r->room, m->heads * wide));
    kiln_t v = ops->slice(r->p, kv, 3, m->nope, m->value);
    v = ops->reshape(r->p, v, 3, KILN_DIMS(r->n, r->room, m->heads * m->value));
    return ops->attention(r->p, q, k, v, a);
}

static kiln_t attention(const walk *w, kiln_t x)
{
    const language_recording *r = w->r;
    const deepseek *m = w->m;
    kiln_t q = queries(w, x), cache = remember(w, x);
    const kiln_attention a = {
        .size = sizeof a, .heads = (int32_t)m->heads, .causal = 1, .offset = r->offset, .key_length = w->keys};
    kiln_t y = r->t == 1 ? attend_to_cache(w, q, cache, a) : attend(w, q, cache, &a);
    return language_linear(r, y, m->width, "model.layers.%lld.self_attn.o_proj", w->layer);
}

/* ---- the decoder ---- */

kiln_t deepseek_mlp(const language_recording *r, kiln_t x, int64_t hidden, const char *name)
{
    kiln_t gate = language_linear(r, x, hidden, "%s.gate_proj", name),
           up = language_linear(r, x, hidden, "%s.up_proj", name);
    int64_t dim[KILN_MAX_RANK] = {0};
    uint32_t rank = ops->shape(r->p, x, dim, KILN_MAX_RANK);
    kiln_t h = ops->map(r->p, "silu(a) * b", (kiln_t[]){gate, up}, 2, NULL);
    return language_linear(r, h, rank ? dim[rank - 1] : 0, "%s.down_proj", name);
}

/* x [N,T,D] f32 */
static kiln_t block(const walk *w, kiln_t x)
{
    const language_recording *r = w->r;
    char name[60];
    kiln_t h = language_norm(r, x, w->m->eps, 0, "model.layers.%lld.input_layernorm.weight", w->layer);
    x = ops->map(r->p, "a + b", (kiln_t[]){x, attention(w, h)}, 2, &to_f32);
    h = language_norm(r, x, w->m->eps, 0, "model.layers.%lld.post_attention_layernorm.weight", w->layer);
    snprintf(name, sizeof name, "model.layers.%lld.mlp", w->layer);
    h = w->layer < w->m->dense_layers ? deepseek_mlp(r, h, w->m->hidden, name) : deepseek_mixture(r, w->m, w->layer, h);
    return ops->map(r->p, "a + b", (kiln_t[]){x, h}, 2, &to_f32);
}

static kiln_t record(const language_recording *r)
{
    const deepseek *m = r->m->network;
    char scope[40];
    kiln_t words = language_weight(r, 2, KILN_DIMS(r->m->vocabulary, m->width), "model.embed_tokens.weight");
    kiln_t x = ops->cast(r->p, ops->embedding(r->p, words, r->ids), KILN_F32);
    walk w = {.r = r, .m = m, .cos = table(r, m, "cos((a + b) * c)"), .sin = table(r, m, "sin((a + b) * c)")};
    w.keys = ops->map(r->p, "a + b", (kiln_t[]){r->offset, r->count}, 2,
                      &(kiln_map){.size = sizeof(kiln_map), .dtype = KILN_I32});
    for (w.layer = 0; w.layer < m->layers; w.layer++) {
        snprintf(scope, sizeof scope, "layers.%lld", w.layer);
        ops->scope_push(r->p, scope);
        x = block(&w, x);
        ops->scope_pop(r->p);
    }
    return language_norm(r, x, m->eps, 0, "model.norm.weight");
}

static kiln_t head(const language_recording *r, kiln_t x) { return language_linear(r, x, r->m->vocabulary, "lm_head"); }

/* All experts of a layer are one tensor. */
#define EXPERTS(name)                                                                                                  \
    KILN_RULE(.from = "model.layers.{}.mlp.experts.0." name ".weight", .to = "model.layers.{}.mlp.experts." name,      \
              .join = KILN_JOIN_STACK, .each = "model.layers.{}.mlp.experts.#." name ".weight")
static const kiln_weight_rule rules[] = {EXPERTS("gate_proj"), EXPERTS("up_proj"), EXPERTS("down_proj"),
                                         KILN_RULE(.from = "*", .to = "*")};

const language_family deepseek_v2_family = {.model_type = "deepseek_v2",
                                            .rule = rules,
                                            .n_rule = COUNT(rules),
                                            .open = open_deepseek,
                                            .record = record,
                                            .head = head};
