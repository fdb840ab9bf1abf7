/* unet_shapes.c - see unet_shapes.h. Blocks are counted by the highest index that any tensor of them has, so that one
 * missing tensor is a missing tensor and not a smaller network. */
#include "unet_shapes.h"

#include "kiln/checkpoint.h"
#include "kiln/kit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- single tensors ---- */

static int ends_with(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

int64_t unet_dim(const kiln_weights_api *w, const kiln_weights *view, const char *name, uint32_t i)
{
    kiln_weight_info info;
    if (checkpoint_has(w, view, "", &info, "%s", name)) return i < info.rank ? info.dim[i] : 0;
    if (!ends_with(name, ".weight")) return 0;
    int part = (int)(strlen(name) - strlen("weight")); /* of a low-rank change, up [O,r] and down [r,I,...] */
    if (!checkpoint_has(w, view, "", &info, "%.*s%s", part, name, i ? "down" : "up")) return 0;
    return i < info.rank ? info.dim[i] : 0;
}

int64_t unet_context_width(const kiln_weights_api *w, const kiln_weights *set, const char *prefix)
{
    kiln_weight_info info = {.size = sizeof info};
    for (size_t i = 0; i < w->count(set); i++)
        if (w->at(set, i, &info) == KILN_OK && strncmp(info.name, prefix, strlen(prefix)) == 0 &&
            (ends_with(info.name, ".attn2.to_k.weight") || ends_with(info.name, ".attn2.to_k.down")) && info.rank == 2)
            return info.dim[1];
    return 0;
}

/* Bit 2: a projection of rank 2, bit 4: one of rank 4. */
static uint32_t projection_ranks(const kiln_weights_api *w, const kiln_weights *view)
{
    kiln_weight_info info = {.size = sizeof info};
    uint32_t ranks = 0;
    for (size_t i = 0; i < w->count(view); i++)
        if (w->at(view, i, &info) == KILN_OK && info.rank <= 4 &&
            (ends_with(info.name, ".proj_in.weight") || ends_with(info.name, ".proj_out.weight") ||
             ends_with(info.name, ".proj_in.up")))
            ranks |= info.rank;
    return ranks & 6;
}

int unet_projections_linear(const kiln_weights_api *w, const kiln_weights *view)
{
    return projection_ranks(w, view) == 2;
}

int unet_projections_mixed(const kiln_weights_api *w, const kiln_weights *view)
{
    return projection_ranks(w, view) == 6;
}

/* ---- counting blocks ---- */

enum { RESNETS_MAX = UNET_LAYERS_MAX + 1 };

typedef struct {
    uint32_t blocks, resnets[UNET_LEVELS_MAX], depth[UNET_LEVELS_MAX][RESNETS_MAX];
    uint32_t attention[UNET_LEVELS_MAX][RESNETS_MAX]; /* 1: it has some tensor */
} side;
typedef struct {
    side down, up, middle; /* the middle is block 0 */
    int beyond;            /* an index that this reader has no room for */
} counts;

/* Steps over `word` and the number behind it; 0: something else stands there. */
static int numbered(const char **at, const char *word, uint32_t *out)
{
    size_t n = strlen(word);
    if (strncmp(*at, word, n) != 0 || (*at)[n] < '0' || (*at)[n] > '9') return 0;
    const char *digit = *at + n;
    for (*out = 0; *digit >= '0' && *digit <= '9' && *out < 1000; digit++) *out = *out * 10 + (uint32_t)(*digit - '0');
    if (*digit != '.') return 0;
    *at = digit + 1;
    return 1;
}

static void raise_to(uint32_t *count, uint32_t index)
{
    if (index + 1 > *count) *count = index + 1;
}

/* A name behind its block. */
static void count_part(const char *at, uint32_t block, side *s, int *beyond)
{
    uint32_t part, transformer;
    if (block >= UNET_LEVELS_MAX) {
        *beyond = 1;
        return;
    }
    raise_to(&s->blocks, block);
    if (numbered(&at, "resnets.", &part)) {
        if (part < RESNETS_MAX) raise_to(&s->resnets[block], part);
        *beyond |= part >= RESNETS_MAX;
    } else if (numbered(&at, "attentions.", &part)) {
        *beyond |= part >= RESNETS_MAX;
        if (part >= RESNETS_MAX) return;
        s->attention[block][part] = 1;
        if (numbered(&at, "transformer_blocks.", &transformer)) raise_to(&s->depth[block][part], transformer);
        *beyond |= s->depth[block][part] > 64;
    }
}

static void count_name(const char *name, counts *c)
{
    uint32_t block = 0;
    if (numbered(&name, "down_blocks.", &block))
        count_part(name, block, &c->down, &c->beyond);
    else if (numbered(&name, "up_blocks.", &block))
        count_part(name, block, &c->up, &c->beyond);
    else if (strncmp(name, "mid_block.", 10) == 0)
        count_part(name + 10, 0, &c->middle, &c->beyond);
}

/* ---- what the counts are ---- */

typedef struct {
    const kiln_host *host;
    kiln_ctx *ctx;
    const kiln_weights_api *w;
    const kiln_weights *view;
    unet_config *out;
} reader;

__attribute__((format(printf, 2, 3))) static kiln_status refuse(const reader *r, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return r->host->fail(r->ctx, KILN_ERR_UNSUPPORTED, "this %s: %s", r->out->encoder ? "ControlNet" : "UNet", text);
}

#define REFUSE(...) return refuse(__VA_ARGS__)

static kiln_status check_attentions(const reader *r, const side *s, const char *where)
{
    for (uint32_t b = 0; b < s->blocks; b++)
        for (uint32_t i = 0; i < RESNETS_MAX; i++)
            if (s->attention[b][i] && (!s->depth[b][i] || i >= s->resnets[b]))
                REFUSE(r, "%s %u has attention %u %s", where, b, i,
                       s->depth[b][i] ? "and no resnet before it" : "without transformer blocks");
    return KILN_OK;
}

/* The way up has a resnet for each skip. */
static kiln_status check_way_up(const reader *r, const counts *c)
{
    if (c->up.blocks != c->down.blocks) REFUSE(r, "%u down blocks and %u up blocks", c->down.blocks, c->up.blocks);
    for (uint32_t i = 0; i < c->down.blocks; i++) {
        uint32_t down = c->down.resnets[i], up = c->up.resnets[c->up.blocks - 1 - i];
        if (up != down + 1)
            REFUSE(r, "up block %u has %u resnets, where the skips of down block %u want %u", c->up.blocks - 1 - i, up,
                   i, down + 1);
    }
    return check_attentions(r, &c->up, "up block");
}

static kiln_status check_counts(const reader *r, const counts *c)
{
    if (c->beyond)
        REFUSE(r, "more than 8 levels, 7 layers or 64 transformer blocks; it is larger than this plugin reads");
    if (!c->down.blocks) REFUSE(r, "no down block is in it");
    for (uint32_t i = 0; i < c->down.blocks; i++) {
        uint32_t down = c->down.resnets[i];
        if (!down || down > UNET_LAYERS_MAX) REFUSE(r, "down block %u has %u resnets; 1 to 7 are supported", i, down);
    }
    TRY(check_attentions(r, &c->down, "down block"));
    if (r->out->encoder && c->up.blocks) REFUSE(r, "it has up blocks too");
    if (!r->out->encoder) TRY(check_way_up(r, c));
    int plain = c->middle.resnets[0] == 2 && c->middle.depth[0][0];
    if (!plain && (c->middle.resnets[0] > 1 || c->middle.attention[0][0]))
        REFUSE(r,
               "the middle block has %u resnets and an attention of %u transformer blocks; two around one, one alone "
               "and none are supported",
               c->middle.resnets[0], c->middle.depth[0][0]);
    return KILN_OK;
}

static void take_counts(const counts *c, unet_config *out)
{
    out->levels = c->down.blocks;
    memcpy(out->layers, c->down.resnets, sizeof out->layers);
    memcpy(out->down, c->down.depth, sizeof out->down);
    memcpy(out->up, c->up.depth, sizeof out->up);
    out->middle = c->middle.resnets[0], out->middle_depth = c->middle.depth[0][0];
}

/* Widths of levels, and whether a level's first attention attends to the context (shapes show it where both differ). */
static kiln_status take_widths(const reader *r)
{
    unet_config *c = r->out;
    char name[100];
    for (uint32_t i = 0; i < c->levels; i++) {
        snprintf(name, sizeof name, "down_blocks.%u.resnets.0.conv1.weight", i);
        c->channels[i] = unet_dim(r->w, r->view, name, 0);
        if (!c->channels[i]) REFUSE(r, "no tensor '%s'", name);
        snprintf(name, sizeof name, "down_blocks.%u.attentions.0.transformer_blocks.0.attn1.to_k.weight", i);
        int64_t seen = unet_dim(r->w, r->view, name, 1);
        c->context_only[i] = seen && seen != c->channels[i] && seen == c->context;
    }
    return KILN_OK;
}

static kiln_status take_beside(const reader *r)
{
    static const struct {
        const char *name;
        uint32_t dim, kind;
    } known[] = {{"add_embedding.linear_1.weight", 1, UNET_SIZES},
                 {"class_embedding.linear_1.weight", 1, UNET_VECTOR},
                 {"class_embedding.weight", 0, UNET_CLASS}};
    for (size_t i = 0; i < COUNT(known); i++) {
        int64_t n = unet_dim(r->w, r->view, known[i].name, known[i].dim);
        if (!n) continue;
        if (r->out->beside) REFUSE(r, "both classes and sizes are embedded beside the time");
        r->out->beside = known[i].kind, r->out->embedded = n;
    }
    r->out->guidance = unet_dim(r->w, r->view, "time_embedding.cond_proj.weight", 1);
    return KILN_OK;
}

static kiln_status take_channels(const reader *r)
{
    unet_config *c = r->out;
    if (!unet_dim(r->w, r->view, "conv_in.weight", 3)) REFUSE(r, "its first layer is not a 2-D convolution");
    c->in_channels = c->out_channels = unet_dim(r->w, r->view, "conv_in.weight", 1);
    if (c->encoder) return KILN_OK;
    c->out_channels = unet_dim(r->w, r->view, "conv_out.weight", 0);
    int64_t more = c->in_channels - c->out_channels;
    if (more == 0)
        c->concat = UNET_PLAIN;
    else if (more == c->out_channels + 1)
        c->concat = UNET_INPAINT;
    else if (more == c->out_channels && !(c->linear && c->beside != UNET_SIZES))
        c->concat = UNET_EDIT;
    else if (more == 3 && c->beside == UNET_CLASS)
        c->concat = UNET_UPSCALE;
    else
        REFUSE(r, "%lld channels in and %lld out; what the further ones are is not known", (long long)c->in_channels,
               (long long)c->out_channels);
    if (c->beside == UNET_CLASS && c->concat != UNET_UPSCALE)
        REFUSE(r, "it has a table of classes, which only the x4 upscaler is known to have");
    return KILN_OK;
}

kiln_status unet_shapes_read(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *view, unet_config *out)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    reader r = {host, ctx, w, view, out};
    counts c = {0};
    kiln_weight_info info = {.size = sizeof info};
    *out = (unet_config){.groups = 32, .cos_first = 1, .eps = 1e-5f, .encoder = out->encoder};
    for (size_t i = 0; i < w->count(view); i++)
        if (w->at(view, i, &info) == KILN_OK) count_name(info.name, &c);
    TRY(check_counts(&r, &c));
    take_counts(&c, out);
    out->context = unet_context_width(w, view, "");
    out->linear = (uint32_t)unet_projections_linear(w, view);
    if (!out->context && !out->encoder) REFUSE(&r, "it has no cross-attention");
    TRY(take_widths(&r));
    TRY(take_beside(&r));
    return take_channels(&r);
}
