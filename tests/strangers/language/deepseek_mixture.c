/* deepseek_mixture.c - DeepSeek-V2's experts: which ones a token has, and what they make of it. */
#include "deepseek_v2.h"

#include <stdio.h>

static const kiln_map to_f32 = {.size = sizeof to_f32, .dtype = KILN_F32};

/* x [R,C] where it is one of the n largest of its row, of equal ones the first; 0 elsewhere. x > 0 */
static kiln_t only_largest(const language_recording *r, kiln_t x, int64_t n, int64_t columns)
{
    kiln_t left = x, place = language_count_up(r, 2, 1, columns);
    for (int64_t i = 0; i < n; i++) {
        kiln_t best = ops->reduce(r->p, left, KILN_REDUCE_ARGMAX, 2, 1);
        left = ops->map(r->p, "b == c ? 0 : a", (kiln_t[]){left, best, place}, 3, &to_f32);
    }
    return ops->map(r->p, "a - b", (kiln_t[]){x, left}, 2, &to_f32);
}

/* How much each expert is wanted for a token, f32 [R,experts]: 0 where its group is not. */
static kiln_t scores_of(const language_recording *r, const deepseek *m, long long layer, kiln_t x)
{
    const int64_t rows = r->n * r->t, each = m->experts / m->groups;
    kiln_t w = language_weight(r, 2, KILN_DIMS(m->experts, m->width), "model.layers.%lld.mlp.gate.weight", layer);
    kiln_t scores = ops->softmax(r->p, ops->linear(r->p, x, w, (kiln_t){0}), NULL);
    if (m->groups == 1) return scores;
    kiln_t grouped = ops->reshape(r->p, scores, 3, KILN_DIMS(rows, m->groups, each));
    kiln_t best = ops->reduce(r->p, grouped, KILN_REDUCE_MAX, 4, 0);
    best = ops->reshape(r->p, only_largest(r, best, m->chosen_groups, m->groups), 3, KILN_DIMS(rows, m->groups, 1));
    grouped = ops->map(r->p, "b > 0 ? a : 0", (kiln_t[]){grouped, best}, 2, &to_f32);
    return ops->reshape(r->p, grouped, 2, KILN_DIMS(rows, m->experts));
}

/* Who goes where: all pairs of a token and an expert, P of them, sorted by expert. */
typedef struct {
    kiln_t token;   /* i32 [P]                                             */
    kiln_t offsets; /* i32 [experts+1]: where each expert's pairs begin    */
    kiln_t weight;  /* f32 [P,1]                                           */
} routing;

static routing route(const language_recording *r, const deepseek *m, long long layer, kiln_t x)
{
    const int64_t pairs = r->n * r->t * m->chosen;
    const kiln_map number = {.size = sizeof number, .dtype = KILN_I32};
    kiln_t expert = {0}, order = {0};
    routing to;
    ops->precision_push(r->p, KILN_F32);
    kiln_t weight = ops->topk(r->p, scores_of(r, m, layer, x), m->chosen, 0, &expert);
    expert = ops->reshape(r->p, expert, 1, &pairs);
    ops->topk(r->p, expert, 0, 1, &order);
    to.token = ops->map(r->p, "a / b", (kiln_t[]){order, language_number(r, (int32_t)m->chosen)}, 2, &number);
    kiln_t begin = ops->cumsum(r->p, ops->bincount(r->p, expert, m->experts), 0, 1, 0);
    to.offsets = ops->concat(r->p, (kiln_t[]){begin, language_number(r, (int32_t)pairs)}, 2, 0);
    weight = ops->take(r->p, ops->reshape(r->p, weight, 1, &pairs), order, 0);
    to.weight = ops->reshape(r->p, weight, 2, KILN_DIMS(pairs, 1));
    ops->precision_pop(r->p);
    return to;
}

static kiln_t experts(const language_recording *r, const deepseek *m, long long layer, kiln_t x, kiln_t offsets)
{
    const int64_t in = m->width, hidden = m->expert_hidden;
#define MATRIX(name, o, i)                                                                                             \
    language_weight(r, 3, KILN_DIMS(m->experts, o, i), "model.layers.%lld.mlp.experts." name, layer)
    kiln_t gate = ops->grouped_linear(r->p, x, MATRIX("gate_proj", hidden, in), (kiln_t){0}, offsets);
    kiln_t up = ops->grouped_linear(r->p, x, MATRIX("up_proj", hidden, in), (kiln_t){0}, offsets);
    kiln_t h = ops->map(r->p, "silu(a) * b", (kiln_t[]){gate, up}, 2, NULL);
    return ops->grouped_linear(r->p, h, MATRIX("down_proj", in, hidden), (kiln_t){0}, offsets);
}

kiln_t deepseek_mixture(const language_recording *r, const deepseek *m, int64_t layer, kiln_t x)
{
    const int64_t rows = r->n * r->t;
    const kiln_map scaled = {.size = sizeof scaled, .dtype = KILN_F32, .number = {m->routed_scale}};
    char name[60];
    snprintf(name, sizeof name, "model.layers.%lld.mlp.shared_experts", (long long)layer);
    kiln_t sum = ops->cast(r->p, deepseek_mlp(r, x, m->shared * m->expert_hidden, name), KILN_F32);
    sum = ops->reshape(r->p, sum, 2, KILN_DIMS(rows, m->width));
    x = ops->reshape(r->p, x, 2, KILN_DIMS(rows, m->width));
    routing to = route(r, m, layer, x);
    kiln_t y = experts(r, m, layer, ops->take(r->p, x, to.token, 0), to.offsets);
    y = ops->map(r->p, "a * b * p", (kiln_t[]){y, to.weight}, 2, &scaled);
    return ops->reshape(r->p, ops->scatter(r->p, sum, to.token, y, 0, 1), 3, KILN_DIMS(r->n, r->t, m->width));
}
