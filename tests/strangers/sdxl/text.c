/* text.c - SDXL's text encoders: a CLIP value with "l" (CLIPTextModel) and "g" (CLIPTextModelWithProjection), or with g
 * alone, which is what a refiner has.
 *
 *   tokens  the hidden states before the last layer, without the final norm; l's and g's side by side  [N,T,l+g]
 *   pooled  g's: the projection of the normed last state at the end token                              [N,projection]
 *
 * The vocabulary is a stub, so that the example needs no files: a word's id is a hash of it.
 */
#include "sdxl.h"

#include "kiln/checkpoint.h"
#include "kiln/config.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- text to tokens ---- */

typedef struct {
    int64_t vocabulary, width, inner, length, projection; /* projection 0: l, which has none */
    int32_t layers, heads;
    uint32_t act;
    int32_t pad; /* -1: the end token */
} text_config;

typedef struct {
    kiln_text_encoder encoder;
    text_config config;
    char family[120];
} text_self;

/* 1 to vocabulary - 3; 0 is g's padding, and the last two begin and end a chunk. */
static int32_t id_of(const char *word, size_t n, int64_t vocabulary)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)word[i]) * 16777619u;
    return (int32_t)(1 + h % (uint32_t)(vocabulary - 3));
}

/* "(word:1.2)" weighs one word; *word, *n is what is inside. */
static float weight_of(const char **word, size_t *n)
{
    const char *colon = memchr(*word, ':', *n);
    if (**word != '(' || (*word)[*n - 1] != ')' || !colon) return 1;
    float weight = strtof(colon + 1, NULL);
    *n = (size_t)(colon - *word) - 1;
    ++*word;
    return weight;
}

/* The next word from *at on, or NULL. */
static const char *next_word(const char **at, size_t *n)
{
    const char *word = *at + strspn(*at, " \n\t");
    *n = strcspn(word, " \n\t");
    *at = word + *n;
    return *n ? word : NULL;
}

static int is_break(const char *word, size_t n) { return n == 5 && memcmp(word, "BREAK", 5) == 0; }

/* Chunks hold length - 2 words; "BREAK" begins a new one. Without `out` they are only counted. */
static uint32_t fill_chunks(const text_config *t, const char *text, kiln_tokens *out)
{
    uint32_t chunk = 0;
    int32_t used = 1;
    size_t n;
    const char *word;
    while ((word = next_word(&text, &n))) {
        if (is_break(word, n) || used == t->length - 1) {
            if (out) out->end[chunk] = used;
            chunk++, used = 1;
            if (is_break(word, n)) continue;
        }
        float weight = weight_of(&word, &n);
        int64_t at = (int64_t)chunk * t->length + used++;
        if (out) out->id[at] = id_of(word, n, t->vocabulary), out->weight[at] = weight;
    }
    if (out) out->end[chunk] = used;
    return chunk + 1;
}

static kiln_status tokenise(const kiln_text_encoder *e, const kiln_tokenizer *none, const kiln_host *host,
                            kiln_ctx *ctx, const char *text, kiln_tokens *out)
{
    const text_config *t = &((const text_self *)e->self)->config;
    (void)none; /* it has rules of its own */
    out->n_chunk = fill_chunks(t, text, NULL), out->length = (uint32_t)t->length;
    size_t n = (size_t)out->n_chunk * out->length;
    out->id = host->scratch(ctx, n * sizeof *out->id, KILN_CPU);
    out->weight = host->scratch(ctx, n * sizeof *out->weight, KILN_CPU);
    out->end = host->scratch(ctx, out->n_chunk * sizeof *out->end, KILN_CPU);
    if (!out->id || !out->weight || !out->end) return KILN_ERR_NOMEM;
    int32_t end = (int32_t)t->vocabulary - 1;
    for (size_t i = 0; i < n; i++) out->id[i] = t->pad < 0 ? end : t->pad, out->weight[i] = 1;
    fill_chunks(t, text, out);
    for (uint32_t i = 0; i < out->n_chunk; i++) {
        out->id[i * out->length] = end - 1;
        out->id[i * out->length + (uint32_t)out->end[i]] = end;
    }
    return KILN_OK;
}

/* ---- the network: CLIP's text transformer ---- */

typedef struct {
    const text_config *c;
    const kiln_ops *o;
    kiln_program *p;
    kiln_weights *w;
} recorder;

static kiln_t weight(const recorder *r, const char *layer, const char *what, uint32_t rank, const int64_t *dim)
{
    char name[160];
    snprintf(name, sizeof name, "%s%s", layer, what);
    return r->o->weight(r->p, r->w, name, rank, dim);
}

static kiln_t linear(const recorder *r, int32_t i, const char *part, kiln_t x, int64_t in, int64_t out)
{
    char layer[120];
    snprintf(layer, sizeof layer, "text_model.encoder.layers.%d.%s", i, part);
    kiln_t w = weight(r, layer, ".weight", 2, KILN_DIMS(out, in));
    return r->o->linear(r->p, x, w, weight(r, layer, ".bias", 1, &out));
}

static kiln_t norm(const recorder *r, const char *layer, kiln_t x)
{
    const int64_t *c = &r->c->width;
    return r->o->layer_norm(r->p, x, 1e-5f, weight(r, layer, ".weight", 1, c), weight(r, layer, ".bias", 1, c));
}

static kiln_t layer_of(const recorder *r, int32_t i, kiln_t x)
{
    const kiln_ops *o = r->o;
    const kiln_attention how = {.size = sizeof how, .heads = r->c->heads, .causal = 1};
    int64_t c = r->c->width;
    char name[80];
    snprintf(name, sizeof name, "text_model.encoder.layers.%d.layer_norm1", i);
    kiln_t h = norm(r, name, x);
    kiln_t q = linear(r, i, "self_attn.q_proj", h, c, c), k = linear(r, i, "self_attn.k_proj", h, c, c);
    h = o->attention(r->p, q, k, linear(r, i, "self_attn.v_proj", h, c, c), &how);
    x = o->add(r->p, linear(r, i, "self_attn.out_proj", h, c, c), x);
    snprintf(name, sizeof name, "text_model.encoder.layers.%d.layer_norm2", i);
    h = o->act(r->p, linear(r, i, "mlp.fc1", norm(r, name, x), c, r->c->inner), r->c->act);
    return o->add(r->p, linear(r, i, "mlp.fc2", h, r->c->inner, c), x);
}

static void record(const kiln_text_encoder *e, const kiln_ops *o, kiln_program *p, kiln_weights *w,
                   const kiln_text_inputs *in, kiln_text_features *out)
{
    const text_config *c = &((const text_self *)e->self)->config;
    recorder r = {c, o, p, w};
    kiln_t table =
        weight(&r, "text_model.embeddings.", "token_embedding.weight", 2, KILN_DIMS(c->vocabulary, c->width));
    kiln_t place = weight(&r, "text_model.embeddings.", "position_embedding.weight", 2, KILN_DIMS(c->length, c->width));
    kiln_t x = o->add(p, o->embedding(p, table, in->ids), place);
    if (in->layer >= 0 || in->layer < -c->layers)
        o->fail(p, "layer %d of a text encoder of %d; -1 is the last and -%d the first", in->layer, c->layers,
                c->layers);
    for (int32_t i = 0; i < c->layers; i++) {
        x = layer_of(&r, i, x);
        if (i == c->layers + in->layer) out->tokens = x; /* no final norm: SDXL takes the states as they are */
    }
    x = o->gather(p, norm(&r, "text_model.final_layer_norm", x), in->end);
    out->pooled = x;
    if (!c->projection) return;
    out->pooled =
        o->linear(p, x, weight(&r, "text_projection", ".weight", 2, KILN_DIMS(c->projection, c->width)), (kiln_t){0});
}

/* ---- what becomes of both ---- */

static const kiln_combined *find(const kiln_combined *in, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(in[i].name, name) == 0) return &in[i];
    return NULL;
}

static void combine(const kiln_clip *clip, const kiln_ops *o, kiln_program *p, const kiln_combined *in, size_t n,
                    const kiln_outputs *out)
{
    const kiln_combined *l = find(in, n, "l"), *g = find(in, n, "g");
    int64_t a[3] = {0}, b[3] = {0};
    (void)clip;
    o->shape(p, l->tokens, a, 3), o->shape(p, g->tokens, b, 3);
    if (a[1] != b[1])
        o->fail(p,
                "the prompt for l has %lld tokens and the one for g %lld; make them equally long, or give them to "
                "SdxlTextEncode, which fills up the shorter one",
                (long long)a[1], (long long)b[1]);
    out->add(out, "tokens", o->concat(p, (kiln_t[]){l->tokens, g->tokens}, 2, 2));
    out->add(out, "pooled", g->pooled);
}

/* ---- opening ---- */

enum { L, G, ENCODERS };
static const struct {
    const char *name, *config;
    checkpoint_layout at;
} parts[ENCODERS] = {
    [L] = {"l",
           "text_encoder/config.json",
           {.prefix = "text_encoder/", .needs = {"text_model.embeddings.token_embedding.weight"}}},
    [G] = {"g",
           "text_encoder_2/config.json",
           {.prefix = "text_encoder_2/",
            .needs = {"text_model.embeddings.token_embedding.weight", "text_projection.weight"}}},
};

/* What a CLIP keeps. */
typedef struct {
    text_self one[ENCODERS];
    kiln_clip_encoder encoder[ENCODERS];
    uint32_t n;
} clip_self;

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    return checkpoint_find(w, set, &parts[G].at, 1) ? 95 : 0;
}

static kiln_status read_config(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const kiln_weights *view,
                               const char *path, text_config *t)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    kiln_weight_info table, place, inner, info;
    if (!checkpoint_has(w, view, "text_model.embeddings.", &table, "token_embedding.weight") || table.rank != 2 ||
        !checkpoint_has(w, view, "text_model.embeddings.", &place, "position_embedding.weight") ||
        !checkpoint_has(w, view, "text_model.encoder.layers.0.", &inner, "mlp.fc1.weight"))
        return host->fail(ctx, KILN_ERR_INVALID, "%s: the text encoder beside it has no embeddings or no layers", path);
    *t =
        (text_config){.vocabulary = table.dim[0], .width = table.dim[1], .length = place.dim[0], .inner = inner.dim[0]};
    if (checkpoint_has(w, view, "", &info, "text_projection.weight")) t->projection = info.dim[0];
    while (checkpoint_has(w, view, "", &info, "text_model.encoder.layers.%d.layer_norm1.weight", t->layers))
        t->layers++;
    config c = config_open(host, ctx, set, path);
    t->heads = (int32_t)config_int(&c, "num_attention_heads", t->width / 64, 1, 1024);
    const char *act = config_text(&c, "hidden_act", "quick_gelu");
    t->act = strcmp(act, "gelu") == 0 ? KILN_ACT_GELU : KILN_ACT_QUICK_GELU;
    if (t->act == KILN_ACT_QUICK_GELU && strcmp(act, "quick_gelu") != 0)
        CONFIG_FAIL(&c, KILN_ERR_UNSUPPORTED, "%s: 'hidden_act' is '%.40s'; gelu and quick_gelu are supported", path,
                    act);
    if (!c.failed && (t->heads < 1 || t->width % t->heads || t->vocabulary < 4 || t->length < 3))
        CONFIG_FAIL(&c, KILN_ERR_INVALID, "%s: %d heads for a width of %lld", path, t->heads, (long long)t->width);
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

static void set_table(text_self *self, const char *name)
{
    const text_config *t = &self->config;
    snprintf(self->family, sizeof self->family, "example-sdxl-%s/%d.%u", name, t->heads, t->act);
    self->encoder = (kiln_text_encoder){.size = sizeof self->encoder,
                                        .flags = KILN_TEXT_WEIGHTED,
                                        .family = self->family,
                                        .self = self,
                                        .width = t->width,
                                        .pooled_width = t->projection ? t->projection : t->width,
                                        .layers = t->layers,
                                        .default_layer = -2,
                                        .min_length = t->length,
                                        .max_length = t->length,
                                        .tokenise = tokenise,
                                        .record = record};
}

/* Adds part i of the checkpoint, if it is there. The encoder holds a reference to its view of the weights. */
static kiln_status add_encoder(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, int i, clip_self *self)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    text_self *one = &self->one[self->n];
    char from[40];
    if (!checkpoint_find(w, set, &parts[i].at, 1)) return KILN_OK;
    snprintf(from, sizeof from, "%s*", parts[i].at.prefix);
    kiln_weights *view = w->view(ctx, set, &(kiln_weight_rule)KILN_RULE(.from = from, .to = "*"), 1);
    if (!view) return KILN_ERR_INVALID;
    self->encoder[self->n++] = (kiln_clip_encoder){
        .size = sizeof(kiln_clip_encoder), .name = parts[i].name, .encoder = &one->encoder, .weights = view};
    TRY(read_config(host, ctx, set, view, parts[i].config, &one->config));
    one->config.pad = i == G ? 0 : -1;
    set_table(one, parts[i].name);
    return KILN_OK;
}

static kiln_value *open_clip(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    clip_self *self = calloc(1, sizeof *self);
    kiln_value *value = NULL;
    kiln_status status = self ? KILN_OK : host->fail(ctx, KILN_ERR_NOMEM, "no memory for a text encoder");
    for (int i = 0; i < ENCODERS && status == KILN_OK; i++) status = add_encoder(host, ctx, set, i, self);
    if (status == KILN_OK) {
        kiln_clip clip = {.size = sizeof clip, .n_encoder = self->n, .encoder = self->encoder};
        clip.owned = self, clip.release = free;
        if (self->n > 1) clip.combine = combine, clip.identity = "example-sdxl: l and g side by side";
        value = models->clip_new(ctx, &clip);
    }
    for (uint32_t i = 0; self && i < self->n; i++) w->unref(self->encoder[i].weights); /* the value has its own */
    if (!value) free(self);
    return value;
}

const kiln_model_family sdxl_text_family = {.size = sizeof sdxl_text_family,
                                            .kind = KILN_FAMILY_TEXT_ENCODER,
                                            .name = "example-sdxl-clip",
                                            .doc = "CLIP-L and CLIP-G side by side, or CLIP-G alone",
                                            .detect = detect,
                                            .open = open_clip};
