/* lora_names.c - see lora_names.h. */
#include "lora_names.h"

#include "kiln/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIASES_MAX = 4, LAYERS_MAX = 64 }; /* of one module; resnets of a block */

/* ---- single-file names: the reverse of plugins/unet/ldm_names.c ---- */

static const struct {
    const char *diffusers, *ldm;
} resnet_parts[] = {{"norm1", "in_layers.0"},  {"conv1", "in_layers.2"},  {"time_emb_proj", "emb_layers.1"},
                    {"norm2", "out_layers.0"}, {"conv2", "out_layers.3"}, {"conv_shortcut", "skip_connection"}},
  single_parts[] = {{"time_embedding.linear_1", "time_embed.0"},
                    {"time_embedding.linear_2", "time_embed.2"},
                    {"add_embedding.linear_1", "label_emb.0.0"},
                    {"add_embedding.linear_2", "label_emb.0.2"},
                    {"conv_in", "input_blocks.0.0"},
                    {"conv_norm_out", "out.0"},
                    {"conv_out", "out.2"}};

static int put(char *out, const char *block, unsigned number, unsigned place, const char *rest)
{
    int n = snprintf(out, LORA_NAME_CAPACITY, "%s.%u.%u.%s", block, number, place, rest);
    return n > 0 && n < LORA_NAME_CAPACITY;
}

static int put_resnet(char *out, const char *block, unsigned number, const char *part)
{
    for (size_t i = 0; i < COUNT(resnet_parts); i++)
        if (strcmp(part, resnet_parts[i].diffusers) == 0) return put(out, block, number, 0, resnet_parts[i].ldm);
    return 0;
}

/* Parses "PREFIX<number>.REST": the number, and REST as the result; NULL: it has another form. */
static const char *numbered(const char *text, const char *prefix, unsigned *number)
{
    size_t n = strlen(prefix);
    if (strncmp(text, prefix, n) != 0) return NULL;
    char *end;
    unsigned long v = text[n] >= '0' && text[n] <= '9' ? strtoul(text + n, &end, 10) : LAYERS_MAX;
    if (v >= LAYERS_MAX || *end != '.') return NULL;
    *number = (unsigned)v;
    return end + 1;
}

/* Translates a name inside a down or up block; `first` is the ldm number of its first block. */
static int block_name(const char *in, unsigned first, unsigned layers, int up, int attends, char *out)
{
    const char *block = up ? "output_blocks" : "input_blocks", *rest;
    unsigned i;
    if ((rest = numbered(in, "resnets.", &i))) return put_resnet(out, block, first + i, rest);
    if ((rest = numbered(in, "attentions.", &i))) return put(out, block, first + i, 1, rest);
    if (!up && strcmp(in, "downsamplers.0.conv") == 0) return put(out, block, first + layers, 0, "op");
    if (up && strcmp(in, "upsamplers.0.conv") == 0) return put(out, block, first + layers, attends ? 2 : 1, "conv");
    return 0;
}

int lora_ldm_name(const char *module, unsigned layers, int attends, char out[LORA_NAME_CAPACITY])
{
    unsigned level, i;
    const char *rest;
    for (size_t k = 0; k < COUNT(single_parts); k++)
        if (strcmp(module, single_parts[k].diffusers) == 0)
            return snprintf(out, LORA_NAME_CAPACITY, "%s", single_parts[k].ldm) > 0;
    if ((rest = numbered(module, "down_blocks.", &level)))
        return block_name(rest, 1 + level * (layers + 1), layers, 0, attends, out);
    if ((rest = numbered(module, "up_blocks.", &level)))
        return block_name(rest, level * (layers + 1), layers, 1, attends, out);
    if ((rest = numbered(module, "mid_block.attentions.", &i)) && i == 0)
        return snprintf(out, LORA_NAME_CAPACITY, "middle_block.1.%s", rest) < LORA_NAME_CAPACITY;
    if (!(rest = numbered(module, "mid_block.resnets.", &i)) || i > 1) return 0;
    for (size_t k = 0; k < COUNT(resnet_parts); k++)
        if (strcmp(rest, resnet_parts[k].diffusers) == 0)
            return snprintf(out, LORA_NAME_CAPACITY, "middle_block.%u.%s", 2 * i, resnet_parts[k].ldm) > 0;
    return 0;
}

/* ---- the table ---- */

typedef struct {
    const kiln_host *host;
    kiln_ctx *ctx;
    const kiln_weights_api *w;
    const kiln_weights *set;
    lora_part part;
    lora_blocks blocks;
    lora_names *out;
} maker;

static char *copy_of(const maker *m, const char *text, int underscores)
{
    size_t n = strlen(text) + 1;
    char *p = m->host->scratch(m->ctx, n, KILN_CPU);
    for (size_t i = 0; p && i < n; i++) p[i] = underscores && text[i] == '.' ? '_' : text[i];
    return p;
}

static kiln_status add(const maker *m, const char *alias, const char *module)
{
    char *copy = copy_of(m, alias, 1);
    if (!copy) return KILN_ERR_NOMEM;
    m->out->name[m->out->n++] = (lora_name){copy, module};
    return KILN_OK;
}

static int set_has(const kiln_weights_api *w, const kiln_weights *set, const char *fmt, unsigned i)
{
    char name[80];
    kiln_weight_info info = {.size = sizeof info};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(name, sizeof name, fmt, i); /* one of the literals below */
#pragma GCC diagnostic pop
    return w->find(set, name, &info) == KILN_OK;
}

static int has(const maker *m, const char *fmt, unsigned i) { return set_has(m->w, m->set, fmt, i); }

lora_blocks lora_blocks_of(const kiln_weights_api *w, const kiln_weights *set)
{
    lora_blocks b = {.w = w, .set = set};
    while (set && b.layers < LAYERS_MAX && set_has(w, set, "down_blocks.0.resnets.%u.conv1.weight", b.layers))
        b.layers++;
    return b;
}

int lora_single_name(const lora_blocks *b, const char *module, char out[LORA_NAME_CAPACITY])
{
    unsigned level = 0;
    int attends =
        numbered(module, "up_blocks.", &level) && set_has(b->w, b->set, "up_blocks.%u.attentions.0.norm.weight", level);
    return lora_ldm_name(module, b->layers, attends, out);
}

/* Adds the module's name with its ending `from` replaced by `to`, if it has that ending. */
static kiln_status add_ending(const maker *m, const char *module, const char *from, const char *to)
{
    char name[LORA_NAME_CAPACITY];
    size_t n = strlen(module), k = strlen(from);
    if (n < k || strcmp(module + n - k, from) != 0) return KILN_OK;
    snprintf(name, sizeof name, "%.*s%s", (int)(n - k), module, to);
    return add(m, name, module);
}

/* A ControlNet's module as single files of ControlNets call it. */
static kiln_status add_control(const maker *m, const char *module)
{
    static const char down[] = "controlnet_down_blocks.", hint[] = "controlnet_cond_embedding.";
    char name[LORA_NAME_CAPACITY];
    unsigned i = 0;
    if (strcmp(module, "controlnet_mid_block") == 0) return add(m, "middle_block_out.0", module);
    if (strncmp(module, down, sizeof down - 1) == 0) {
        snprintf(name, sizeof name, "zero_convs.%s.0", module + sizeof down - 1);
        return add(m, name, module);
    }
    if (strncmp(module, hint, sizeof hint - 1) != 0) return KILN_OK;
    const char *part = module + sizeof hint - 1;
    if (strcmp(part, "conv_in") == 0) return add(m, "input_hint_block.0", module);
    while (i < LAYERS_MAX && has(m, "controlnet_cond_embedding.blocks.%u.weight", i)) i++;
    unsigned number = strcmp(part, "conv_out") == 0 ? i : 0;
    if (!number && sscanf(part, "blocks.%u", &number) != 1) return KILN_OK;
    snprintf(name, sizeof name, "input_hint_block.%u", 2 * (number + 1));
    return add(m, name, module);
}

static kiln_status add_unet(const maker *m, const char *module)
{
    char ldm[LORA_NAME_CAPACITY];
    if (lora_single_name(&m->blocks, module, ldm)) TRY(add(m, ldm, module));
    TRY(add_control(m, module));
    return add_ending(m, module, "to_out.0", "to_out");
}

static const struct {
    const char *now, *then;
} text_ends[] = {{"self_attn.q_proj", "self_attn.to_q"},
                 {"self_attn.k_proj", "self_attn.to_k"},
                 {"self_attn.v_proj", "self_attn.to_v"},
                 {"self_attn.out_proj", "self_attn.to_out"}};

static kiln_status add_text(const maker *m, const char *module)
{
    static const char model[] = "text_model.";
    for (size_t i = 0; i < COUNT(text_ends); i++) TRY(add_ending(m, module, text_ends[i].now, text_ends[i].then));
    return strncmp(module, model, sizeof model - 1) == 0 ? add(m, module + sizeof model - 1, module) : KILN_OK;
}

static kiln_status add_module(const maker *m, const char *name)
{
    static const char end[] = ".weight";
    size_t n = strlen(name), k = sizeof end - 1;
    if (n <= k || n >= LORA_NAME_CAPACITY || strcmp(name + n - k, end) != 0) return KILN_OK;
    char *module = copy_of(m, name, 0);
    if (!module) return KILN_ERR_NOMEM;
    module[n - k] = '\0';
    TRY(add(m, module, module));
    return m->part == LORA_UNET ? add_unet(m, module) : add_text(m, module);
}

static int by_alias(const void *a, const void *b)
{
    return strcmp(((const lora_name *)a)->alias, ((const lora_name *)b)->alias);
}

kiln_status lora_names_make(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, lora_part part,
                            lora_names *out)
{
    maker m = {
        .host = host, .ctx = ctx, .w = host->ability(KILN_WEIGHTS_ABILITY), .set = set, .part = part, .out = out};
    size_t count = set ? m.w->count(set) : 0;
    *out = (lora_names){.name = host->scratch(ctx, (count * ALIASES_MAX + 1) * sizeof *out->name, KILN_CPU)};
    if (!out->name) return KILN_ERR_NOMEM;
    m.blocks = lora_blocks_of(m.w, set);
    for (size_t i = 0; i < count; i++) {
        kiln_weight_info info = {.size = sizeof info};
        TRY(m.w->at(set, i, &info));
        TRY(add_module(&m, info.name));
    }
    qsort(out->name, out->n, sizeof *out->name, by_alias);
    return KILN_OK;
}

const char *lora_names_find(const lora_names *names, const char *alias)
{
    lora_name key = {.alias = alias};
    const lora_name *found = names->n ? bsearch(&key, names->name, names->n, sizeof key, by_alias) : NULL;
    return found ? found->module : NULL;
}
