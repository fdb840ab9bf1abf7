/* rrdb_names.c - see rrdb_names.h. */
#include "rrdb_names.h"

#include "kiln/checkpoint.h"

#include <stdio.h>

enum { RULES_MAX = 16, TEXT = 120 };

typedef struct {
    kiln_weight_rule rule[RULES_MAX];
    char from[RULES_MAX][TEXT], to[RULES_MAX][TEXT];
    size_t n;
    const char *prefix;
} rules;

static void add(rules *r, const char *from, const char *to)
{
    if (r->n == RULES_MAX) return;
    snprintf(r->from[r->n], TEXT, "%.40s%.70s", r->prefix, from);
    snprintf(r->to[r->n], TEXT, "%.100s", to);
    r->rule[r->n] = (kiln_weight_rule)KILN_RULE(.from = r->from[r->n], .to = r->to[r->n]);
    r->n++;
}

/* The layer with that number in a row of them. */
static void add_layer(rules *r, const char *from, uint32_t number, const char *to)
{
    char name[TEXT / 2];
    snprintf(name, sizeof name, "%s.%u.*", from, number);
    add(r, name, to);
}

/* A number behind the last block's and one behind the last layer's decide what is what. */
static void add_old(rules *r, const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info info;
    uint32_t blocks = 0, last = 0;
    for (uint32_t i = 0; i < RRDB_BLOCKS_MAX; i++)
        if (checkpoint_has(w, set, r->prefix, &info, "model.1.sub.%u.RDB1.conv1.0.weight", i)) blocks = i + 1;
    for (uint32_t i = 2; i <= 3 * RRDB_UPS_MAX + 4; i++)
        if (checkpoint_has(w, set, r->prefix, &info, "model.%u.weight", i)) last = i;
    uint32_t ups = last > 4 ? (last - 4) / 3 : 0;
    add(r, "model.0.*", "conv_first.*");
    add(r, "model.1.sub.{}.RDB{}.conv{}.0.{}", "body.{}.rdb{}.conv{}.{}");
    add(r, "model.1.sub.{}.RDB{}.conv1x1.{}", "body.{}.rdb{}.conv1x1.{}");
    add_layer(r, "model.1.sub", blocks, "conv_body.*");
    for (uint32_t i = 1; i <= ups; i++) {
        char to[TEXT / 2];
        snprintf(to, sizeof to, "conv_up%u.*", i);
        add_layer(r, "model", 3 * i, to);
    }
    add_layer(r, "model", 3 * ups + 2, "conv_hr.*");
    add_layer(r, "model", 3 * ups + 4, "conv_last.*");
}

kiln_weights *rrdb_view(const kiln_weights_api *w, kiln_ctx *ctx, kiln_weights *set, const char *prefix,
                        rrdb_names names)
{
    rules r = {.prefix = prefix};
    if (names == RRDB_OLD) add_old(&r, w, set);
    if (names == RRDB_TRUNK) {
        add(&r, "RRDB_trunk.{}.RDB{}.*", "body.{}.rdb{}.*");
        add(&r, "trunk_conv.*", "conv_body.*");
        add(&r, "upconv{}.*", "conv_up{}.*");
        add(&r, "HRconv.*", "conv_hr.*");
    }
    add(&r, "*", "*");
    return w->view(ctx, set, r.rule, r.n);
}
