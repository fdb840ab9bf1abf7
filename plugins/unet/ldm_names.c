/* ldm_names.c - see ldm_names.h.
 *
 * ldm numbers its blocks consecutively, diffusers by level: input_blocks are walked in order, and a downsample ends a
 * level; output_blocks come in groups of layers+1. Names inside an attention are the same in both.
 */
#include "ldm_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS_MAX = 100, NAME_CAPACITY = 160 };

static const struct {
    const char *ldm, *diffusers;
} resnet_parts[] = {{"in_layers.0.*", "norm1.*"},          {"in_layers.2.*", "conv1.*"},
                    {"emb_layers.1.*", "time_emb_proj.*"}, {"out_layers.0.*", "norm2.*"},
                    {"out_layers.3.*", "conv2.*"},         {"skip_connection.*", "conv_shortcut.*"}},
  single_parts[] = {{"time_embed.0.*", "time_embedding.linear_1.*"},
                    {"time_embed.2.*", "time_embedding.linear_2.*"},
                    {"input_blocks.0.0.*", "conv_in.*"},
                    {"middle_block.1.*", "mid_block.attentions.0.*"},
                    {"out.0.*", "conv_norm_out.*"},
                    {"out.2.*", "conv_out.*"}};

typedef struct {
    const kiln_weights_api *w;
    const kiln_weights *set;
    const char *prefix;
    ldm_rules *out;
} maker;

static void add(const maker *m, const char *from, const char *to)
{
    ldm_rules *r = m->out;
    if (r->n == r->capacity) {
        size_t capacity = 2 * r->capacity + 64;
        kiln_weight_rule *more = realloc(r->rule, capacity * sizeof *more);
        r->nomem |= !more;
        if (!more) return;
        r->rule = more;
        r->capacity = capacity;
    }
    char full[NAME_CAPACITY];
    snprintf(full, sizeof full, "%s%s", m->prefix, from);
    char *a = strdup(full), *b = strdup(to);
    r->nomem |= !a || !b;
    r->rule[r->n++] = (kiln_weight_rule)KILN_RULE(.from = a, .to = b);
}

static int has(const maker *m, const char *block, const char *name)
{
    char full[NAME_CAPACITY];
    kiln_weight_info info = {.size = sizeof info};
    snprintf(full, sizeof full, "%s%s.%s", m->prefix, block, name);
    return m->w->find(m->set, full, &info) == KILN_OK;
}

static void add_resnet(const maker *m, const char *block, const char *to)
{
    char a[NAME_CAPACITY], b[NAME_CAPACITY];
    for (size_t i = 0; i < sizeof resnet_parts / sizeof resnet_parts[0]; i++) {
        snprintf(a, sizeof a, "%s.%s", block, resnet_parts[i].ldm);
        snprintf(b, sizeof b, "%s.%s", to, resnet_parts[i].diffusers);
        add(m, a, b);
    }
}

/* Renames `block`.`part`.* to `to`.*, with the rest of each name unchanged. */
static void add_part(const maker *m, const char *block, const char *part, const char *to)
{
    char a[NAME_CAPACITY], b[NAME_CAPACITY];
    snprintf(a, sizeof a, "%s.%s.*", block, part);
    snprintf(b, sizeof b, "%s.*", to);
    add(m, a, b);
}

/* Adds the rules of the input blocks; returns the number of resnets in the first level. */
static uint32_t add_inputs(const maker *m)
{
    uint32_t level = 0, layer = 0, layers = 0;
    char block[40], to[80];
    for (uint32_t n = 1; n < BLOCKS_MAX; n++) {
        snprintf(block, sizeof block, "input_blocks.%u", n);
        if (has(m, block, "0.op.weight")) {
            snprintf(to, sizeof to, "down_blocks.%u.downsamplers.0.conv", level++);
            add_part(m, block, "0.op", to);
            layer = 0;
            continue;
        }
        if (!has(m, block, "0.in_layers.0.weight")) break;
        snprintf(to, sizeof to, "down_blocks.%u.resnets.%u", level, layer);
        char resnet[48];
        snprintf(resnet, sizeof resnet, "%s.0", block);
        add_resnet(m, resnet, to);
        snprintf(to, sizeof to, "down_blocks.%u.attentions.%u", level, layer++);
        if (has(m, block, "1.norm.weight")) add_part(m, block, "1", to);
        if (level == 0) layers = layer;
    }
    return layers;
}

static void add_outputs(const maker *m, uint32_t layers)
{
    char block[40], resnet[48], to[80];
    for (uint32_t n = 0; n < BLOCKS_MAX; n++) {
        uint32_t up = n / (layers + 1), layer = n % (layers + 1);
        snprintf(block, sizeof block, "output_blocks.%u", n);
        if (!has(m, block, "0.in_layers.0.weight")) break;
        snprintf(resnet, sizeof resnet, "%s.0", block);
        snprintf(to, sizeof to, "up_blocks.%u.resnets.%u", up, layer);
        add_resnet(m, resnet, to);
        snprintf(to, sizeof to, "up_blocks.%u.attentions.%u", up, layer);
        if (has(m, block, "1.norm.weight")) add_part(m, block, "1", to);
        snprintf(to, sizeof to, "up_blocks.%u.upsamplers.0.conv", up);
        if (has(m, block, "1.conv.weight")) add_part(m, block, "1.conv", to);
        if (has(m, block, "2.conv.weight")) add_part(m, block, "2.conv", to);
    }
}

void ldm_rules_make(const kiln_weights_api *w, const kiln_weights *set, const char *prefix, ldm_rules *out)
{
    maker m = {w, set, prefix, out};
    *out = (ldm_rules){0};
    for (size_t i = 0; i < sizeof single_parts / sizeof single_parts[0]; i++)
        add(&m, single_parts[i].ldm, single_parts[i].diffusers);
    add_resnet(&m, "middle_block.0", "mid_block.resnets.0");
    add_resnet(&m, "middle_block.2", "mid_block.resnets.1");
    add_outputs(&m, add_inputs(&m));
}

void ldm_rules_free(ldm_rules *r)
{
    for (size_t i = 0; i < r->n; i++) {
        free((char *)r->rule[i].from);
        free((char *)r->rule[i].to);
    }
    free(r->rule);
    *r = (ldm_rules){0};
}
