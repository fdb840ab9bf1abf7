/* t2i_names.c - see t2i_names.h. */
#include "t2i_names.h"

#include "t2i_adapter.h"

#include <stdio.h>

enum { RELEASE_RESNETS = 2, RULES_MAX = 4 * T2I_LEVELS_MAX + 4, TEXT = 80 };

typedef struct {
    kiln_weight_rule rule[RULES_MAX];
    char from[RULES_MAX][TEXT], to[RULES_MAX][TEXT];
    size_t n;
} rules;

static void add(rules *r, const char *prefix, const char *from, const char *to)
{
    if (r->n == RULES_MAX) return;
    snprintf(r->from[r->n], TEXT, "%.30s%.48s", prefix, from);
    snprintf(r->to[r->n], TEXT, "%.78s", to);
    r->rule[r->n] = (kiln_weight_rule)KILN_RULE(.from = r->from[r->n], .to = r->to[r->n]);
    r->n++;
}

static void add_level(rules *r, const char *prefix, uint32_t level)
{
    static const char *const parts[] = {"in_conv", "down_opt"};
    char from[TEXT / 2], to[TEXT / 2];
    for (size_t i = 0; i < 2; i++) {
        snprintf(from, sizeof from, "body.%u.%s.*", RELEASE_RESNETS * level, parts[i]);
        snprintf(to, sizeof to, "body.%u.%s.*", level, parts[i]);
        add(r, prefix, from, to);
    }
    for (uint32_t i = 0; i < RELEASE_RESNETS; i++) {
        snprintf(from, sizeof from, "body.%u.*", RELEASE_RESNETS * level + i);
        snprintf(to, sizeof to, "body.%u.resnets.%u.*", level, i);
        add(r, prefix, from, to);
    }
}

kiln_weights *t2i_view(const kiln_weights_api *w, kiln_ctx *ctx, kiln_weights *set, const char *prefix,
                       t2i_layout layout)
{
    rules r = {.n = 0};
    for (uint32_t i = 0; layout == T2I_RELEASE_FULL && i < T2I_LEVELS_MAX; i++) add_level(&r, prefix, i);
    if (layout == T2I_RELEASE_LIGHT) add(&r, prefix, "body.{}.body.{}.*", "body.{}.resnets.{}.*");
    add(&r, prefix, "*", "*");
    return w->view(ctx, set, r.rule, r.n);
}
