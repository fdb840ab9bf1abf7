/* mamba2.c - Mamba-2 (Dao and Gu 2024, arXiv:2405.21060) under transformers' names.
 *
 *   gate, u, dt = linear(rms(x)); u = silu(a depthwise convolution of the last K rows of u); X, B, C = parts of u
 *   y = scan(X, softplus(dt + bias), -exp(A_log), B, C, D); x += linear(rms(y silu(gate)) by group)
 *
 * States of a layer: the last K - 1 rows of u, [N,K-1,C], and the scan's [N,H,D,S]; f32 in every precision.
 * Padding leaves no trace: its dt is 0, and the rows that stay are those before it.
 */
#include "language.h"

#include <stdio.h>

typedef struct {
    int64_t width, inner, heads, state, groups, kernel, layers; /* inner: heads x their width */
    float eps;
} mamba2;

static void *open_mamba2(config *c)
{
    static const config_rule expected[] = {{"hidden_act", "\"silu\""}, {"use_bias", "false"}};
    mamba2 *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    config_expect(c, expected, COUNT(expected));
    m->width = config_int(c, "hidden_size", 4096, 1, 1 << 16);
    m->heads = config_int(c, "num_heads", 128, 1, 4096);
    m->inner = m->heads * config_int(c, "head_dim", 64, 1, 4096);
    m->state = config_int(c, "state_size", 128, 1, 256);
    m->groups = config_int(c, "n_groups", 8, 1, 4096);
    m->kernel = config_int(c, "conv_kernel", 4, 2, 64);
    m->layers = config_int(c, "num_hidden_layers", 64, 1, 1000);
    m->eps = (float)config_number(c, "layer_norm_epsilon", 1e-5, 0, 1);
    if (m->heads % m->groups) CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: n_groups does not divide num_heads", c->path);
    if (!c->failed) return m;
    free(m);
    return NULL;
}

static const kiln_map to_f32 = {.size = sizeof to_f32, .dtype = KILN_F32};

/* Row t of u [N,T+K-1,C] and those after it, weighted column by column by w [C,1,K]. */
static kiln_t depthwise(const language_recording *r, int64_t kernel, kiln_t u, kiln_t w, kiln_t sum)
{
    w = ops->permute(r->p, w, (const uint32_t[]){1, 2, 0});
    for (int64_t k = 0; k < kernel; k++) {
        const kiln_t operand[] = {sum, ops->slice(r->p, u, 1, k, r->t), ops->slice(r->p, w, 1, k, 1)};
        sum = ops->map(r->p, "a + b * c", operand, 3, &to_f32);
    }
    return sum;
}

/* u [N,T,C] convolved with what came before it, which the state is made to hold. */
static kiln_t convolve(const language_recording *r, const mamba2 *m, int64_t layer, kiln_t u)
{
    char name[40];
    const int64_t channels = m->inner + 2 * m->groups * m->state, tail = m->kernel - 1;
    snprintf(name, sizeof name, "%lld.tail", (long long)layer);
    kiln_t before = ops->state(r->p, name, KILN_F32, 3, KILN_DIMS(r->n, tail, channels));
    u = ops->concat(r->p, (kiln_t[]){before, ops->cast(r->p, u, KILN_F32)}, 2, 1);
    kiln_t rows[64];
    for (int64_t i = 0; i < tail; i++) {
        kiln_t at = ops->map(r->p, "a + b", (kiln_t[]){r->count, language_number(r, (int32_t)i)}, 2,
                             &(kiln_map){.size = sizeof(kiln_map), .dtype = KILN_I32});
        rows[i] = ops->reshape(r->p, ops->gather(r->p, u, at), 3, KILN_DIMS(r->n, 1, channels));
    }
    ops->state_write(r->p, before, 1, language_number(r, 0), ops->concat(r->p, rows, (uint32_t)tail, 1));
    kiln_t w = language_weight(r, 3, KILN_DIMS(channels, 1, m->kernel), "backbone.layers.%lld.mixer.conv1d.weight",
                               (long long)layer);
    snprintf(name, sizeof name, "backbone.layers.%lld", (long long)layer);
    kiln_t b = language_weight(r, 1, &channels, "%s.mixer.conv1d.bias", name);
    return ops->act(r->p, depthwise(r, m->kernel, u, w, b), KILN_ACT_SILU);
}

/* softplus(dt + bias) [N,T,H], 0 of padding */
static kiln_t time_steps(const language_recording *r, const mamba2 *m, int64_t layer, kiln_t dt)
{
    kiln_t bias = language_weight(r, 1, &m->heads, "backbone.layers.%lld.mixer.dt_bias", (long long)layer);
    kiln_t count = ops->reshape(r->p, r->count, 3, KILN_DIMS(r->n, 1, 1));
    return ops->map(r->p, "c < d ? softplus(a + b) : 0", (kiln_t[]){dt, bias, language_count_up(r, 3, 1, r->t), count},
                    4, &to_f32);
}

static kiln_t scan(const language_recording *r, const mamba2 *m, int64_t layer, kiln_t u, kiln_t dt)
{
    char name[40];
    const int64_t shared = m->groups * m->state;
    kiln_t log = language_weight(r, 1, &m->heads, "backbone.layers.%lld.mixer.A_log", (long long)layer), last = {0};
    snprintf(name, sizeof name, "%lld.rows", (long long)layer);
    kiln_t before = ops->state(r->p, name, KILN_F32, 4, KILN_DIMS(r->n, m->heads, m->inner / m->heads, m->state));
    const kiln_t operand[] = {ops->slice(r->p, u, 2, 0, m->inner),
                              dt,
                              ops->map(r->p, "-exp(a)", &log, 1, &to_f32),
                              ops->slice(r->p, u, 2, m->inner, shared),
                              ops->slice(r->p, u, 2, m->inner + shared, shared),
                              language_weight(r, 1, &m->heads, "backbone.layers.%lld.mixer.D", (long long)layer),
                              before};
    kiln_t y = ops->custom(r->p, &ssd_scan, operand, COUNT(operand), NULL, 0, &last);
    ops->state_write(r->p, before, 1, language_number(r, 0), last);
    return y;
}

/* x [N,T,D] f32 */
static kiln_t block(const language_recording *r, const mamba2 *m, int64_t layer, kiln_t x)
{
    const long long l = layer;
    const int64_t channels = m->inner + 2 * m->groups * m->state;
    kiln_t h = language_norm(r, x, m->eps, 0, "backbone.layers.%lld.norm.weight", l);
    h = language_linear(r, h, m->inner + channels + m->heads, "backbone.layers.%lld.mixer.in_proj", l);
    kiln_t gate = ops->slice(r->p, h, 2, 0, m->inner);
    kiln_t u = convolve(r, m, layer, ops->slice(r->p, h, 2, m->inner, channels));
    kiln_t dt = time_steps(r, m, layer, ops->slice(r->p, h, 2, m->inner + channels, m->heads));
    kiln_t y = scan(r, m, layer, u, dt);
    y = ops->map(r->p, "a * silu(b)", (kiln_t[]){y, gate}, 2, &to_f32);
    y = language_norm(r, y, m->eps, m->inner / m->groups, "backbone.layers.%lld.mixer.norm.weight", l);
    y = language_linear(r, y, m->width, "backbone.layers.%lld.mixer.out_proj", l);
    return ops->map(r->p, "a + b", (kiln_t[]){x, y}, 2, &to_f32);
}

static kiln_t record(const language_recording *r)
{
    const mamba2 *m = r->m->network;
    char scope[40];
    kiln_t table = language_weight(r, 2, KILN_DIMS(r->m->vocabulary, m->width), "backbone.embeddings.weight");
    kiln_t x = ops->cast(r->p, ops->embedding(r->p, table, r->ids), KILN_F32);
    for (int64_t i = 0; i < m->layers; i++) {
        snprintf(scope, sizeof scope, "layers.%lld", (long long)i);
        ops->scope_push(r->p, scope);
        x = block(r, m, i, x);
        ops->scope_pop(r->p);
    }
    return language_norm(r, x, m->eps, 0, "backbone.norm_f.weight");
}

static kiln_t head(const language_recording *r, kiln_t x) { return language_linear(r, x, r->m->vocabulary, "lm_head"); }

const language_family mamba2_family = {.model_type = "mamba2", .open = open_mamba2, .record = record, .head = head};
