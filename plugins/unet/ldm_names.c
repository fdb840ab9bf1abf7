/* ldm_names.c - see ldm_names.h.
 *
 * ldm numbers its blocks consecutively, diffusers by level: input_blocks are walked in order, and a downsample ends a
 * level, as an upsample does of output_blocks. Names inside an attention are the same in both. What no rule knows keeps
 * its own name, so that it can be named as left over.
 */
#include "ldm_names.h"

#include "unet_shapes.h"

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
                    {"label_emb.weight", "class_embedding.weight"},
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

void ldm_rules_add(ldm_rules *r, const char *prefix, const char *from, const char *to)
{
    if (r->n == r->capacity) {
        size_t capacity = 2 * r->capacity + 64;
        kiln_weight_rule *more = realloc(r->rule, capacity * sizeof *more);
        r->nomem |= !more;
        if (!more) return;
        r->rule = more;
        r->capacity = capacity;
    }
    char full[NAME_CAPACITY];
    snprintf(full, sizeof full, "%s%s", prefix, from);
    char *a = strdup(full), *b = strdup(to);
    r->nomem |= !a || !b;
    r->rule[r->n++] = (kiln_weight_rule)KILN_RULE(.from = a, .to = b);
}

static void add(const maker *m, const char *from, const char *to) { ldm_rules_add(m->out, m->prefix, from, to); }

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

/* 1: block `block`.0 is a resnet. One of several tensors will do, so that a missing one is found to be missing. */
static int is_resnet(const maker *m, const char *block)
{
    return has(m, block, "0.in_layers.0.weight") || has(m, block, "0.in_layers.2.weight") ||
           has(m, block, "0.out_layers.3.weight") || has(m, block, "0.in_layers.2.bias");
}

/* The rules of block `block`, a resnet and perhaps an attention, which diffusers has in `side` as number `layer`. */
static void add_layer(const maker *m, const char *block, const char *side, uint32_t layer)
{
    char resnet[48], to[80];
    snprintf(resnet, sizeof resnet, "%.40s.0", block);
    snprintf(to, sizeof to, "%s.resnets.%u", side, layer);
    add_resnet(m, resnet, to);
    snprintf(to, sizeof to, "%s.attentions.%u", side, layer);
    if (has(m, block, "1.norm.weight") || has(m, block, "1.proj_in.weight") || has(m, block, "1.proj_in.bias"))
        add_part(m, block, "1", to);
}

static void add_inputs(const maker *m)
{
    uint32_t level = 0, layer = 0;
    char block[40], side[40], to[80];
    for (uint32_t n = 1; n < BLOCKS_MAX; n++) {
        snprintf(block, sizeof block, "input_blocks.%u", n);
        snprintf(side, sizeof side, "down_blocks.%u", level);
        if (has(m, block, "0.op.weight") || has(m, block, "0.op.bias")) {
            snprintf(to, sizeof to, "%s.downsamplers.0.conv", side);
            add_part(m, block, "0.op", to);
            level++, layer = 0;
            continue;
        }
        if (!is_resnet(m, block)) break;
        add_layer(m, block, side, layer++);
    }
}

static void add_outputs(const maker *m)
{
    uint32_t up = 0, layer = 0;
    char block[40], side[40], to[80];
    for (uint32_t n = 0; n < BLOCKS_MAX; n++) {
        snprintf(block, sizeof block, "output_blocks.%u", n);
        snprintf(side, sizeof side, "up_blocks.%u", up);
        if (!is_resnet(m, block)) break;
        snprintf(to, sizeof to, "%s.upsamplers.0.conv", side);
        int first = has(m, block, "1.conv.weight") || has(m, block, "1.conv.bias"),
            second = has(m, block, "2.conv.weight") || has(m, block, "2.conv.bias");
        if (first) add_part(m, block, "1.conv", to);
        if (second) add_part(m, block, "2.conv", to);
        add_layer(m, block, side, layer++);
        if (first || second) up++, layer = 0;
    }
}

/* SDXL's sizes and unCLIP's picture have one name here. unCLIP has SD2's context and twice its vision encoder's width,
 * or brings that encoder. */
static const char *embedding_name(const maker *m)
{
    kiln_weight_info info = {.size = sizeof info};
    char name[NAME_CAPACITY];
    snprintf(name, sizeof name, "%slabel_emb.0.0.weight", m->prefix);
    int64_t width = unet_dim(m->w, m->set, name, 1);
    if (m->w->find(m->set, "embedder.model.visual.conv1.weight", &info) == KILN_OK) return "class_embedding";
    if (unet_context_width(m->w, m->set, m->prefix) == 1024 && (width == 1536 || width == 2048))
        return "class_embedding";
    return "add_embedding";
}

static void add_embedding(const maker *m)
{
    const char *name = embedding_name(m);
    char to[80];
    for (int i = 0; i < 2; i++) {
        snprintf(to, sizeof to, "%s.linear_%d", name, i + 1);
        add_part(m, "label_emb.0", i ? "2" : "0", to);
    }
}

void ldm_rules_make(const kiln_weights_api *w, const kiln_weights *set, const char *prefix, ldm_rules *out)
{
    maker m = {w, set, prefix, out};
    for (size_t i = 0; i < sizeof single_parts / sizeof single_parts[0]; i++)
        add(&m, single_parts[i].ldm, single_parts[i].diffusers);
    add_embedding(&m);
    add_resnet(&m, "middle_block.0", "mid_block.resnets.0");
    add_resnet(&m, "middle_block.2", "mid_block.resnets.1");
    add_inputs(&m);
    add_outputs(&m);
    if (*prefix) add(&m, "*", "*");
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
