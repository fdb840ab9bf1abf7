/* clip_encoder.c - see clip_encoder.h. */
#include "clip_encoder.h"

#include "clip_config.h"
#include "clip_embedding.h"
#include "clip_save.h"
#include "kiln/kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCABULARY = 49408, LENGTH = 77 };

static const struct {
    const char *name, *architecture; /* of the released sizes */
    int64_t width;
    int32_t layers, default_layer;
} kinds[] = {
    [CLIP_L] = {"l", "CLIP L", 768, 12, -1},
    [CLIP_H] = {"h", "OpenCLIP H", 1024, 24, -2},
    [CLIP_G] = {"g", "OpenCLIP bigG", 1280, 32, -2},
};

/* ---- the table's functions ---- */

static kiln_status copy_chunks(const kiln_host *host, kiln_ctx *ctx, const prompt_chunks *chunks, kiln_tokens *out)
{
    size_t n = chunks->n_chunk * chunks->length;
    out->n_chunk = (uint32_t)chunks->n_chunk;
    out->length = (uint32_t)chunks->length;
    out->id = host->scratch(ctx, n * sizeof *out->id, KILN_CPU);
    out->weight = host->scratch(ctx, n * sizeof *out->weight, KILN_CPU);
    out->end = host->scratch(ctx, chunks->n_chunk * sizeof *out->end, KILN_CPU);
    if (!out->id || !out->weight || !out->end) return KILN_ERR_NOMEM;
    memcpy(out->id, chunks->id, n * sizeof *out->id);
    memcpy(out->weight, chunks->weight, n * sizeof *out->weight);
    memcpy(out->end, chunks->end, chunks->n_chunk * sizeof *out->end);
    if (!chunks->has_vectors) return KILN_OK;
    if (!(out->vector = host->scratch(ctx, n * sizeof *out->vector, KILN_CPU))) return KILN_ERR_NOMEM;
    memcpy(out->vector, chunks->vector, n * sizeof *out->vector);
    return KILN_OK;
}

static kiln_status tokenise(const kiln_text_encoder *e, const kiln_tokenizer *given, const kiln_host *host,
                            kiln_ctx *ctx, const char *text, kiln_tokens *out)
{
    const clip_encoder *self = e->self;
    prompt_tokenizer tokenizer = self->tokenizer.cut;
    if (given) tokenizer = prompt_tokenizer_of(self->tokenizer.cut.api, given);
    clip_embedding_reader reader = {.host = host, .ctx = ctx, .encoder = kinds[self->kind].name, .width = e->width};
    prompt_embeddings embeddings = {.self = &reader, .find = clip_embedding_find, .width = (size_t)e->width};
    tokenizer.pad = self->tokenizer.cut.pad;
    tokenizer.embeddings = &embeddings;
    prompt parsed;
    prompt_chunks chunks = {0};
    char why[300];
    kiln_status status;
    if (prompt_parse(text, &parsed, why) && prompt_tokenise(&tokenizer, &parsed, (size_t)e->max_length, &chunks, why))
        status = copy_chunks(host, ctx, &chunks, out);
    else
        status = host->fail(ctx, KILN_ERR_INVALID, "%s", why);
    prompt_free(&parsed);
    prompt_chunks_free(&chunks);
    return status;
}

static void record(const kiln_text_encoder *e, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                   const kiln_text_inputs *in, kiln_text_features *out)
{
    const clip_encoder *self = e->self;
    text_model_record(&(text_recorder){&self->config, ops, p, w}, in, out);
}

/* ---- the table ---- */

/* The key of recorded programs: everything that decides what is recorded, apart from the weights. CLIP L of SD1 is
 * called as it always was. */
static void name_program(clip_encoder *self)
{
    const text_config *t = &self->config;
    size_t n = sizeof self->family;
    int sd1 = self->kind == CLIP_L && !t->plain_hidden;
    int at = snprintf(self->family, n, "%s/%lldx%lldx%lldx%lld.%d.%d.%u.%g", sd1 ? "sd1-clip" : "clip",
                      (long long)t->vocabulary, (long long)t->width, (long long)t->inner, (long long)t->length,
                      t->layers, t->heads, t->act, (double)t->eps);
    if (!sd1 && at > 0 && (size_t)at < n)
        snprintf(self->family + at, n - (size_t)at, ".%lld.%d.%u", (long long)t->projection, t->cut_layers,
                 t->plain_hidden);
}

static int has_released_size(const clip_encoder *self)
{
    const text_config *t = &self->config;
    return t->width == kinds[self->kind].width && t->layers + t->cut_layers == kinds[self->kind].layers;
}

int clip_is_released(const clip_encoder *self)
{
    const text_config *t = &self->config;
    uint32_t act = self->kind == CLIP_L ? KILN_ACT_QUICK_GELU : KILN_ACT_GELU;
    return has_released_size(self) && t->heads == t->width / 64 && t->act == act && t->eps == 1e-5f &&
           t->vocabulary == VOCABULARY && t->length == LENGTH;
}

const char *clip_kind_name(clip_kind kind) { return kinds[kind].name; }

const clip_encoder *clip_encoder_of(const kiln_text_encoder *table)
{
    return table->record == record ? table->self : NULL;
}

static void name_architecture(clip_encoder *self)
{
    const text_config *t = &self->config;
    int32_t layers = t->layers + t->cut_layers;
    if (has_released_size(self))
        snprintf(self->architecture, sizeof self->architecture, "%s", kinds[self->kind].architecture);
    else
        snprintf(self->architecture, sizeof self->architecture, "CLIP text encoder, %lldx%d", (long long)t->width,
                 layers);
}

/* `paired`: it is one of SDXL's two. */
static void fill_table(clip_encoder *self, int paired)
{
    text_config *t = &self->config;
    t->plain_hidden = paired || self->kind == CLIP_G;
    name_program(self);
    name_architecture(self);
    self->encoder = (kiln_text_encoder){.size = sizeof self->encoder,
                                        .family = self->family,
                                        .self = self,
                                        .width = t->width,
                                        .pooled_width = t->projection ? t->projection : t->width,
                                        .flags = KILN_TEXT_WEIGHTED | KILN_TEXT_VECTORS,
                                        .min_length = t->length,
                                        .max_length = t->length,
                                        .layers = t->layers + t->cut_layers,
                                        .default_layer = paired ? -2 : kinds[self->kind].default_layer,
                                        .tokenise = tokenise,
                                        .record = record,
                                        .architecture = self->architecture};
}

/* ---- opening one ---- */

static kiln_status check_tokenizer(const kiln_host *host, kiln_ctx *ctx, const clip_encoder *one)
{
    long long last = one->tokenizer.cut.api->count(one->tokenizer.opened) - 1, rows = (long long)one->config.vocabulary;
    if (last < rows) return KILN_OK;
    if (one->tokenizer.own)
        return host->fail(ctx, KILN_ERR_INVALID,
                          "there is no tokenizer beside the text encoder, and CLIP's own has ids up to %lld, its table "
                          "%lld rows; take a folder that has vocab.json and merges.txt as well",
                          last, rows);
    return host->fail(
        ctx, KILN_ERR_INVALID,
        "the tokenizer has ids up to %lld, the text encoder's table %lld rows; they do not belong together", last,
        rows);
}

kiln_status clip_self_add(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const clip_part *part,
                          kiln_weights *view, clip_self *self)
{
    clip_encoder *one = &self->one[self->n];
    self->row[self->n] = (kiln_clip_encoder){
        .size = sizeof *self->row, .name = kinds[part->kind].name, .encoder = &one->encoder, .weights = view};
    self->n++;
    one->kind = part->kind, one->path = part->config, one->tokenizer_path = part->tokenizer;
    TRY(clip_config_read(host, ctx, set, view, part, &one->config));
    TRY(clip_tokenizer_open(host, ctx, set, part, &one->tokenizer));
    self->row[self->n - 1].tokenizer = one->tokenizer.opened;
    return check_tokenizer(host, ctx, one);
}

void clip_self_free(void *owned)
{
    clip_self *self = owned;
    for (size_t i = 0; self && i < CLIP_PARTS; i++)
        if (self->one[i].tokenizer.opened) self->one[i].tokenizer.cut.api->unref(self->one[i].tokenizer.opened);
    free(self);
}

/* ---- what becomes of two ---- */

static const kiln_combined *find(const kiln_combined *in, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(in[i].name, name) == 0) return &in[i];
    return NULL;
}

/* SDXL: tokens side by side on the width, L before G; pooled is G's. */
static void combine(const kiln_clip *clip, const kiln_ops *o, kiln_program *p, const kiln_combined *in, size_t n,
                    const kiln_outputs *out)
{
    const kiln_combined *l = find(in, n, "l"), *g = find(in, n, "g");
    (void)clip;
    out->add(out, "tokens", o->concat(p, (kiln_t[]){l->tokens, g->tokens}, 2, 2));
    out->add(out, "pooled", g->pooled);
}

kiln_value *clip_self_value(const kiln_host *host, kiln_ctx *ctx, clip_self *self)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    kiln_clip clip = {.size = sizeof clip, .n_encoder = self->n, .encoder = self->row};
    for (uint32_t i = 0; i < self->n; i++) fill_table(&self->one[i], self->n == 2);
    if (self->n == 2) clip.combine = combine, clip.identity = "sdxl-clip: l and g", clip.flags = KILN_CLIP_EQUAL_CHUNKS;
    clip.owned = self, clip.release = clip_self_free, clip.save = clip_save;
    kiln_value *value = models->clip_new(ctx, &clip);
    if (!value) clip_self_free(self);
    return value;
}

/* ---- two CLIPs as one ---- */

/* The encoder of ours that the CLIP has alone; NULL: it has others. */
static const clip_encoder *sole_encoder(const kiln_clip *clip)
{
    const kiln_text_encoder *e = kiln_clip_encoder_at(clip, 0)->encoder;
    return clip->n_encoder == 1 && e->record == record ? e->self : NULL;
}

static void take(clip_self *self, const kiln_clip *from, const clip_encoder *one)
{
    clip_encoder *copy = &self->one[self->n];
    *copy = *one;
    copy->tokenizer.opened = one->tokenizer.cut.api->ref(one->tokenizer.opened);
    self->row[self->n++] = (kiln_clip_encoder){.size = sizeof *self->row,
                                               .name = kinds[one->kind].name,
                                               .encoder = &copy->encoder,
                                               .weights = kiln_clip_encoder_at(from, 0)->weights,
                                               .tokenizer = copy->tokenizer.opened};
}

static const char *architecture_of(const kiln_clip *clip)
{
    const kiln_text_encoder *e = kiln_clip_encoder_at(clip, 0)->encoder;
    if (clip->n_encoder > 1) return "more than one text encoder";
    return KILN_HAS(kiln_text_encoder, e, architecture) && e->architecture ? e->architecture : e->family;
}

kiln_value *clip_pair(const kiln_host *host, kiln_ctx *ctx, const kiln_value *first, const kiln_value *second)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    const kiln_clip *a = models->clip(ctx, first), *b = models->clip(ctx, second);
    if (!a || !b) return NULL;
    const clip_encoder *l = sole_encoder(a), *g = sole_encoder(b);
    if (l && g && l->kind == CLIP_G && g->kind == CLIP_L) {
        const clip_encoder *other = l;
        const kiln_clip *clip = a;
        l = g, g = other, a = b, b = clip;
    }
    if (!l || !g || l->kind != CLIP_L || g->kind != CLIP_G) {
        host->fail(ctx, KILN_ERR_INVALID,
                   "the files hold %s and %s; SDXL takes one CLIP L and one OpenCLIP bigG, in any order",
                   architecture_of(a), architecture_of(b));
        return NULL;
    }
    clip_self *self = calloc(1, sizeof *self);
    if (!self) return NULL;
    take(self, a, l), take(self, b, g);
    return clip_self_value(host, ctx, self);
}
