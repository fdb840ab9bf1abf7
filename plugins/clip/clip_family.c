/* clip_family.c - see clip_family.h. Opens text_encoder/ and tokenizer/ of a folder, a text encoder's own folder, or
 * the cond_stage_model of a single file, each through a view with transformers' names.
 *
 * A single file has no tokenizer: then the merges come from the data this plugin ships (data/clip-l), and the ids
 * follow from them.
 */
#include "clip_family.h"

#include "kiln/checkpoint.h"
#include "kiln/config.h"
#include "kiln/kit.h"
#include "prompt.h"
#include "text_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    kiln_text_encoder encoder;
    kiln_clip_encoder one;
    text_config config;
    kiln_tokenizer *opened;
    prompt_tokenizer tokenizer;
    char family[160];
} clip_self;

/* ---- layouts ---- */

enum { FOLDER, FILE_ALONE, ENCODER_ALONE };
static const struct {
    const char *vocab, *merges;
} tokenizer_files[] = {
    [FOLDER] = {"tokenizer/vocab.json", "tokenizer/merges.txt"},
    [FILE_ALONE] = {NULL, NULL},
    [ENCODER_ALONE] = {"vocab.json", "merges.txt"},
};

#define TABLE "embeddings.token_embedding.weight"

/* Prefixes include "text_model.", if the checkpoint has it. */
static const checkpoint_layout layouts[] = {
    {.prefix = "text_encoder/text_model.", .config = "text_encoder/config.json", .needs = {TABLE}, .kind = FOLDER},
    {.prefix = "text_encoder/", .config = "text_encoder/config.json", .needs = {TABLE}, .kind = FOLDER},
    {.prefix = "cond_stage_model.transformer.text_model.", .needs = {TABLE}, .kind = FILE_ALONE},
    {.prefix = "cond_stage_model.transformer.", .needs = {TABLE}, .kind = FILE_ALONE},
    {.prefix = "text_model.", .config = "config.json", .needs = {TABLE}, .kind = ENCODER_ALONE},
    {.prefix = "", .config = "config.json", .needs = {TABLE}, .kind = ENCODER_ALONE},
};

/* Tensors of other kinds of encoders, so that the message can say what the checkpoint has. */
static const struct {
    const char *name, *what;
} unsupported[] = {
    {"conditioner.embedders.0.transformer.text_model." TABLE, "the text encoders of SDXL"},
    {"conditioner.embedders.0.model.token_embedding.weight", "the text encoder of SDXL's refiner"},
    {"cond_stage_model.model.token_embedding.weight", "the OpenCLIP text encoder of SD2"},
    {"text_encoder_2/text_model." TABLE, "the two text encoders of SDXL"},
};

static const char *unsupported_part(const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info info = {.size = sizeof info};
    for (size_t i = 0; i < COUNT(unsupported); i++)
        if (w->find(set, unsupported[i].name, &info) == KILN_OK) return unsupported[i].what;
    return NULL;
}

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    if (unsupported_part(w, set)) return 1; /* claimed at low rank, so that open() can say what it is */
    return checkpoint_find(w, set, layouts, COUNT(layouts)) ? 90 : 0;
}

/* ---- config ---- */

static const config_rule expected[] = {
    {"attention_dropout", "0.0"},
    {"add_cross_attention", "false"},
    {"is_decoder", "false"},
    {"tie_word_embeddings", "true"},
};

static const struct {
    const char *name;
    uint32_t act;
} acts[] = {{"quick_gelu", KILN_ACT_QUICK_GELU}, {"gelu", KILN_ACT_GELU}};

static uint32_t read_act(config *c)
{
    const char *name = config_text(c, "hidden_act", "quick_gelu");
    for (size_t i = 0; i < COUNT(acts); i++)
        if (strcmp(name, acts[i].name) == 0) return acts[i].act;
    CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED, "%s: 'hidden_act' is '%.40s'; quick_gelu and gelu are supported", c->path,
                name);
    return 0;
}

/* Reads sizes from the shapes of tensors. They do not show the number of heads. */
static kiln_status read_shapes(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *view, text_config *t)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const char *const names[] = {"embeddings.token_embedding.weight", "embeddings.position_embedding.weight",
                                 "encoder.layers.0.mlp.fc1.weight"};
    kiln_weight_info info[3];
    for (int i = 0; i < 3; i++)
        if (!checkpoint_has(w, view, "text_model.", &info[i], "%s", names[i]) || info[i].rank != 2)
            return host->fail(ctx, KILN_ERR_INVALID, "the text encoder has no two-dimensional tensor 'text_model.%s'",
                              names[i]);
    t->vocabulary = info[0].dim[0];
    t->width = info[0].dim[1];
    t->length = info[1].dim[0];
    t->inner = info[2].dim[0];
    for (t->layers = 0; t->layers < 200; t->layers++) {
        if (!checkpoint_has(w, view, "text_model.", &info[0], "encoder.layers.%d.layer_norm1.weight", t->layers)) break;
    }
    return KILN_OK;
}

static kiln_status read_config(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const kiln_weights *view,
                               const char *path, text_config *t)
{
    text_config seen = {0};
    TRY(read_shapes(host, ctx, view, &seen));
    config c = {.host = host, .ctx = ctx, .path = "the checkpoint"};
    if (path) c = config_open(host, ctx, set, path);
    config_expect(&c, expected, COUNT(expected));
    *t = (text_config){
        .vocabulary = config_int(&c, "vocab_size", seen.vocabulary, 2, 1 << 20),
        .width = config_int(&c, "hidden_size", seen.width, 1, 1 << 16),
        .inner = config_int(&c, "intermediate_size", seen.inner, 1, 1 << 18),
        .length = config_int(&c, "max_position_embeddings", seen.length, 3, 1 << 14),
        .layers = (int32_t)config_int(&c, "num_hidden_layers", seen.layers, 1, 200),
        .heads = (int32_t)config_int(&c, "num_attention_heads", seen.width / 64, 1, 1024),
        .act = read_act(&c),
        .eps = (float)config_number(&c, "layer_norm_eps", 1e-5, 0, 1),
    };
    if (!c.failed && (t->heads < 1 || t->width % t->heads))
        CONFIG_FAIL(&c, KILN_ERR_INVALID, "%s: the width %lld is no multiple of the number of heads, %d", c.path,
                    (long long)t->width, t->heads);
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

/* ---- tokenizer ---- */

static const char *data_folder; /* of this plugin, from the host; NULL when it was installed without its data */

void clip_family_data(const char *folder) { data_folder = folder; }

/* CLIP's own merges.txt, NUL-terminated; NULL when it cannot be read. The caller frees it. */
static char *own_merges(size_t *n)
{
    enum { CAPACITY = 4 << 20 };
    char path[4096];
    int length = data_folder ? snprintf(path, sizeof path, "%s/clip-l/merges.txt", data_folder) : -1;
    FILE *f = length > 0 && length < (int)sizeof path ? fopen(path, "rbe") : NULL;
    char *text = f ? malloc(CAPACITY + 1) : NULL;
    *n = text ? fread(text, 1, CAPACITY, f) : 0;
    if (f) fclose(f);
    if (text) text[*n] = 0;
    return text;
}

/* The tokenizer of files in memory; vocab NULL: merges alone. */
static kiln_status open_files(const kiln_host *host, kiln_ctx *ctx, const char *vocab, size_t n_vocab,
                              const char *merges, size_t n_merges, kiln_tokenizer **out)
{
    const kiln_tokenizer_file files[] = {{sizeof *files, "merges.txt", merges, n_merges},
                                         {sizeof *files, "vocab.json", vocab, n_vocab}};
    const kiln_tokenizer_source source = {
        .size = sizeof source, .kind = "clip-bpe", .file = files, .n_file = vocab ? 2 : 1};
    const kiln_tokenizer_api *api = host->ability(KILN_TOKENIZER_ABILITY);
    if (!api)
        return host->fail(ctx, KILN_ERR_UNSUPPORTED,
                          "there is no tokenizer: kiln-tokenizer.so is not among the plugins; install kiln anew");
    if (!(*out = api->open(ctx, &source))) return KILN_ERR_INVALID;
    return KILN_OK;
}

static kiln_status open_tokenizer(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set,
                                  const checkpoint_layout *at, kiln_tokenizer **out)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const char *vocab_file = tokenizer_files[at->kind].vocab, *merges_file = tokenizer_files[at->kind].merges;
    size_t n_vocab = 0, n_merges = 0;
    char *own = NULL;
    const char *vocab = vocab_file ? w->text(set, vocab_file, &n_vocab) : NULL;
    const char *merges = merges_file ? w->text(set, merges_file, &n_merges) : NULL;
    if (!vocab != !merges)
        return host->fail(ctx, KILN_ERR_INVALID, "the checkpoint has %s but no %s; the tokenizer needs both",
                          vocab ? vocab_file : merges_file, vocab ? merges_file : vocab_file);
    if (!vocab && !(merges = own = own_merges(&n_merges)))
        return host->fail(ctx, KILN_ERR_UNSUPPORTED,
                          "the checkpoint has no tokenizer (%s and merges.txt), and CLIP's own cannot be read from "
                          "clip-l/merges.txt in the folder kiln-clip.data beside the plugin kiln-clip.so; install kiln "
                          "anew",
                          vocab_file ? vocab_file : "tokenizer/vocab.json");
    kiln_status status = open_files(host, ctx, vocab, n_vocab, merges, n_merges, out);
    free(own);
    return status;
}

/* ---- the table's functions ---- */

static kiln_status tokenise(const kiln_text_encoder *e, const kiln_tokenizer *given, const kiln_host *host,
                            kiln_ctx *ctx, const char *text, kiln_tokens *out)
{
    const clip_self *self = e->self;
    prompt_tokenizer tokenizer = self->tokenizer;
    if (given) tokenizer = prompt_tokenizer_of(self->tokenizer.api, given);
    prompt parsed;
    prompt_chunks chunks = {0};
    char why[300];
    kiln_status status = KILN_OK;
    if (!prompt_parse(text, &parsed, why) ||
        !prompt_tokenise(&tokenizer, &parsed, (size_t)e->max_length, &chunks, why)) {
        status = host->fail(ctx, KILN_ERR_INVALID, "%s", why);
    } else {
        size_t n = chunks.n_chunk * chunks.length;
        out->n_chunk = (uint32_t)chunks.n_chunk;
        out->length = (uint32_t)chunks.length;
        out->id = host->scratch(ctx, n * sizeof *out->id, KILN_CPU);
        out->weight = host->scratch(ctx, n * sizeof *out->weight, KILN_CPU);
        out->end = host->scratch(ctx, chunks.n_chunk * sizeof *out->end, KILN_CPU);
        if (out->id && out->weight && out->end) {
            memcpy(out->id, chunks.id, n * sizeof *out->id);
            memcpy(out->weight, chunks.weight, n * sizeof *out->weight);
            memcpy(out->end, chunks.end, chunks.n_chunk * sizeof *out->end);
        } else {
            status = KILN_ERR_NOMEM;
        }
    }
    prompt_free(&parsed);
    prompt_chunks_free(&chunks);
    return status;
}

static void record(const kiln_text_encoder *e, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                   const kiln_text_inputs *in, kiln_text_features *out)
{
    const clip_self *self = e->self;
    text_model_record(&(text_recorder){&self->config, ops, p, w}, in, out);
}

/* ---- opening ---- */

static void release(void *owned)
{
    clip_self *self = owned;
    if (self->opened) self->tokenizer.api->unref(self->opened);
    free(self);
}

static kiln_status fill_self(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const kiln_weights *view,
                             const checkpoint_layout *at, clip_self *self)
{
    text_config *t = &self->config;
    TRY(read_config(host, ctx, set, view, at->config, t));
    self->tokenizer.api = host->ability(KILN_TOKENIZER_ABILITY);
    TRY(open_tokenizer(host, ctx, set, at, &self->opened));
    self->tokenizer = prompt_tokenizer_of(self->tokenizer.api, self->opened);
    int64_t count = self->tokenizer.api->count(self->opened);
    if (count > t->vocabulary)
        return host->fail(ctx, KILN_ERR_INVALID,
                          "the tokenizer has ids up to %lld, the text encoder's table %lld rows; they do not "
                          "belong together",
                          (long long)count - 1, (long long)t->vocabulary);
    /* The key of recorded programs: everything that decides what is recorded, apart from the weights. */
    snprintf(self->family, sizeof self->family, "sd1-clip/%lldx%lldx%lldx%lld.%d.%d.%u.%g", (long long)t->vocabulary,
             (long long)t->width, (long long)t->inner, (long long)t->length, t->layers, t->heads, t->act,
             (double)t->eps);
    self->encoder = (kiln_text_encoder){.size = sizeof self->encoder,
                                        .family = self->family,
                                        .self = self,
                                        .width = t->width,
                                        .pooled_width = t->width,
                                        .flags = KILN_TEXT_WEIGHTED,
                                        .min_length = t->length,
                                        .max_length = t->length,
                                        .layers = t->layers,
                                        .default_layer = -1,
                                        .tokenise = tokenise,
                                        .record = record};
    return KILN_OK;
}

static kiln_value *open_clip(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    const char *other_encoder = unsupported_part(w, set);
    const checkpoint_layout *at = checkpoint_find(w, set, layouts, COUNT(layouts));
    if (other_encoder || !at) {
        host->fail(ctx, KILN_ERR_UNSUPPORTED, "this checkpoint has %s; SD1.x's CLIP-L is the one supported",
                   other_encoder ? other_encoder : "no text encoder this plugin knows");
        return NULL;
    }
    char from[80];
    snprintf(from, sizeof from, "%s*", at->prefix);
    kiln_weights *view = w->view(ctx, set, &(kiln_weight_rule)KILN_RULE(.from = from, .to = "text_model.*"), 1);
    clip_self *self = view ? calloc(1, sizeof *self) : NULL;
    kiln_value *value = NULL;
    if (self && fill_self(host, ctx, set, view, at, self) == KILN_OK) {
        self->one = (kiln_clip_encoder){.size = sizeof self->one,
                                        .name = "l",
                                        .encoder = &self->encoder,
                                        .weights = view,
                                        .tokenizer = self->opened};
        value = models->clip_new(
            ctx,
            &(kiln_clip){
                .size = sizeof(kiln_clip), .n_encoder = 1, .encoder = &self->one, .owned = self, .release = release});
    }
    if (self && !value) release(self);
    w->unref(view);
    return value;
}

const kiln_model_family clip_family = {.size = sizeof clip_family,
                                       .kind = KILN_FAMILY_TEXT_ENCODER,
                                       .name = "sd1-clip",
                                       .doc = "CLIP-L, the text encoder of Stable Diffusion 1.x",
                                       .detect = detect,
                                       .open = open_clip};
