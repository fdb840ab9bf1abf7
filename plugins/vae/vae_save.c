/* vae_save.c - see vae_save.h; vae_names.h goes the other way. The middle attention's projections become 1x1
 * convolutions again, which is what files of these names have. */
#include "vae_save.h"

#include "kiln/kit.h"

#include <stdio.h>

enum { NAME = 200 };

static const struct {
    const char *from, *to;
} middle[] = {
    {"attentions.0.group_norm.", "attn_1.norm."},
    {"attentions.0.to_q.", "attn_1.q."},
    {"attentions.0.to_k.", "attn_1.k."},
    {"attentions.0.to_v.", "attn_1.v."},
    {"attentions.0.to_out.0.", "attn_1.proj_out."},
    {"resnets.0.", "block_1."},
    {"resnets.1.", "block_2."},
};

/* The rest of a resnet's name. */
static const char *shortcut(const char *rest, char out[NAME])
{
    static const char word[] = "conv_shortcut.";
    if (strncmp(rest, word, sizeof word - 1) != 0) return rest;
    snprintf(out, NAME, "nin_shortcut.%s", rest + sizeof word - 1);
    return out;
}

static int put_middle(const char *half, const char *name, char out[NAME])
{
    char rest[NAME];
    for (size_t i = 0; i < COUNT(middle); i++) {
        size_t n = strlen(middle[i].from);
        if (strncmp(name, middle[i].from, n) != 0) continue;
        return snprintf(out, NAME, "%s.mid.%s%s", half, middle[i].to, shortcut(name + n, rest)) < NAME;
    }
    return 0;
}

static int put_level(const vae_config *v, const char *name, char out[NAME])
{
    uint32_t level, layer;
    int at = 0;
    char rest[NAME];
    if (sscanf(name, "encoder.down_blocks.%u.resnets.%u.%n", &level, &layer, &at) == 2 && at)
        return snprintf(out, NAME, "encoder.down.%u.block.%u.%s", level, layer, shortcut(name + at, rest)) < NAME;
    if (sscanf(name, "encoder.down_blocks.%u.downsamplers.0.%n", &level, &at) == 1 && at)
        return snprintf(out, NAME, "encoder.down.%u.downsample.%s", level, name + at) < NAME;
    if (sscanf(name, "decoder.up_blocks.%u.resnets.%u.%n", &level, &layer, &at) == 2 && at && level < v->levels)
        return snprintf(out, NAME, "decoder.up.%u.block.%u.%s", v->levels - 1 - level, layer,
                        shortcut(name + at, rest)) < NAME;
    if (sscanf(name, "decoder.up_blocks.%u.upsamplers.0.%n", &level, &at) == 1 && at && level < v->levels)
        return snprintf(out, NAME, "decoder.up.%u.upsample.%s", v->levels - 1 - level, name + at) < NAME;
    return 0;
}

/* 0: the name is too long. */
static int ldm_name(const vae_config *v, const char *name, char out[NAME])
{
    static const char *const half[] = {"encoder", "decoder"};
    for (int i = 0; i < 2; i++) {
        char begin[40];
        size_t n = (size_t)snprintf(begin, sizeof begin, "%s.mid_block.", half[i]);
        if (strncmp(name, begin, n) == 0 && put_middle(half[i], name + n, out)) return 1;
        n = (size_t)snprintf(begin, sizeof begin, "%s.conv_norm_out.", half[i]);
        if (strncmp(name, begin, n) == 0) return snprintf(out, NAME, "%s.norm_out.%s", half[i], name + n) < NAME;
    }
    return put_level(v, name, out) || snprintf(out, NAME, "%s", name) < NAME;
}

static kiln_status put_tensor(const vae_config *v, kiln_weights *weights, const kiln_weight_info *info,
                              const kiln_saving *s)
{
    char name[NAME], full[NAME + 20];
    if (!ldm_name(v, info->name, name))
        return s->host->fail(s->ctx, KILN_ERR_UNSUPPORTED, "the name of '%.100s...' is too long", info->name);
    snprintf(full, sizeof full, "%s%s", s->alone ? "" : "first_stage_model.", name);
    kiln_weight_row row = {.size = sizeof row, .name = full, .from = weights, .tensor = &info->name, .n_tensor = 1};
    int projection = strstr(name, ".attn_1.") && info->rank == 2;
    const int64_t dim[4] = {info->dim[0], projection ? info->dim[1] : 1, 1, 1};
    if (projection) row.rank = 4, row.dim = dim;
    return s->tensor(s, &row);
}

kiln_status vae_save(const vae_config *v, const char *config, kiln_weights *weights, const kiln_saving *s)
{
    const kiln_weights_api *w = s->host->ability(KILN_WEIGHTS_ABILITY);
    const char *text = config ? w->text(weights, config, NULL) : NULL;
    for (size_t i = 0; i < w->count(weights); i++) {
        kiln_weight_info info = {.size = sizeof info};
        if (w->at(weights, i, &info) == KILN_OK) TRY(put_tensor(v, weights, &info, s));
    }
    if (!text) text = w->text(weights, "__metadata__/vae_config", NULL);
    return text && v->groups != 32 ? s->text(s, "vae_config", text) : KILN_OK;
}
