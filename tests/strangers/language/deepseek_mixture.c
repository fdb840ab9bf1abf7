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

/* What each expert counts for a token, f32 [R,experts]: 0 of those it does not have. */
static kiln_t route(const language_recording *r, const deepseek *m, long long layer, kiln_t x)
{
    const int64_t rows = r->n * r->t, each = m->experts / m->groups;
    ops->precision_push(r->p, KILN_F32);
    kiln_t w = language_weight(r, 2, KILN_DIMS(m->experts, m->width), "model.layers.%lld.mlp.gate.weight", layer);
    kiln_t scores = ops->softmax(r->p, ops->linear(r->p, x, w, (kiln_t){0}), NULL);
    if (m->groups > 1) {
        kiln_t grouped = ops->reshape(r->p, scores, 3, KILN_DIMS(rows, m->groups, each));
        kiln_t best = ops->reduce(r->p, grouped, KILN_REDUCE_MAX, 4, 0);
        best = ops->reshape(r->p, only_largest(r, best, m->chosen_groups, m->groups), 3, KILN_DIMS(rows, m->groups, 1));
        grouped = ops->map(r->p, "b > 0 ? a : 0", (kiln_t[]){grouped, best}, 2, &to_f32);
        scores = ops->reshape(r->p, grouped, 2, KILN_DIMS(rows, m->experts));
    }
    scores = only_largest(r, scores, m->chosen, m->experts);
    ops->precision_pop(r->p);
    return scores;
}

kiln_t deepseek_mixture(const language_recording *r, const deepseek *m, int64_t layer, kiln_t x)
{
    const int64_t rows = r->n * r->t;
    const float scale = m->routed_scale;
    char name[60];
    snprintf(name, sizeof name, "model.layers.%lld.mlp.shared_experts", (long long)layer);
    kiln_t sum = deepseek_mlp(r, x, m->shared * m->expert_hidden, name);
    x = ops->reshape(r->p, x, 2, KILN_DIMS(rows, m->width));
    sum = ops->reshape(r->p, sum, 2, KILN_DIMS(rows, m->width));
    kiln_t weights = route(r, m, layer, x);
    for (int64_t e = 0; e < m->experts; e++) {
        snprintf(name, sizeof name, "model.layers.%lld.mlp.experts.%lld", (long long)layer, (long long)e);
        const kiln_t operand[] = {sum, deepseek_mlp(r, x, m->expert_hidden, name), ops->slice(r->p, weights, 1, e, 1)};
        sum = ops->map(r->p, "a + b * c * p", operand, 3,
                       &(kiln_map){.size = sizeof(kiln_map), .dtype = KILN_F32, .number = {scale}});
    }
    return ops->reshape(r->p, sum, 3, KILN_DIMS(r->n, r->t, m->width));
}
