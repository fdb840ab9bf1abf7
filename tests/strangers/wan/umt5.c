/* umt5.c - the encoder of UMT5 (Chung et al. 2023) under transformers' names, with its SentencePiece model as a tensor
 * beside the weights ("spiece_model"), as the single files have it: text -> tokens.
 *
 * It is a T5 1.1 whose blocks each have a table of relative places of their own. What Wan does with it: a prompt is one
 * chunk of at most 512 tokens with an end token, and behind its tokens there are rows of zeros, up to 512.
 */
#include "wan.h"

#include <ctype.h>
#include <stdlib.h>

enum { DISTANCE = 128 };

typedef struct {
    kiln_text_encoder encoder;
    kiln_clip_encoder one;
    const kiln_tokenizer_api *tokenizers;
    int64_t width, inner, heads, hidden, vocabulary, buckets;
} umt5;

/* ---- text to tokens ---- */

/* Wan's cleaning, as far as it is blanks: runs of them are one, none at the ends. */
static char *clean(const kiln_host *host, kiln_ctx *ctx, const char *text)
{
    char *to = host->scratch(ctx, strlen(text) + 1, KILN_CPU);
    size_t n = 0;
    if (!to) return NULL;
    for (; *text; text++) {
        if (!isspace((unsigned char)*text))
            to[n++] = *text;
        else if (n && to[n - 1] != ' ')
            to[n++] = ' ';
    }
    while (n && to[n - 1] == ' ') n--;
    to[n] = 0;
    return to;
}

static kiln_status keep(const kiln_host *host, kiln_ctx *ctx, const kiln_encoding *e, kiln_tokens *out)
{
    const uint32_t n = e->n < WAN_TEXT ? (uint32_t)e->n : WAN_TEXT;
    out->n_chunk = 1, out->length = n;
    out->id = host->scratch(ctx, n * sizeof *out->id, KILN_CPU);
    out->weight = host->scratch(ctx, n * sizeof *out->weight, KILN_CPU);
    out->end = host->scratch(ctx, sizeof *out->end, KILN_CPU);
    if (!out->id || !out->weight || !out->end) return KILN_ERR_NOMEM;
    memcpy(out->id, e->id, n * sizeof *out->id);
    out->id[n - 1] = e->id[e->n - 1]; /* the end, also of what is cut */
    for (uint32_t i = 0; i < n; i++) out->weight[i] = 1;
    *out->end = (int32_t)n - 1;
    return KILN_OK;
}

static kiln_status tokenise(const kiln_text_encoder *self, const kiln_tokenizer *tokenizer, const kiln_host *host,
                            kiln_ctx *ctx, const char *text, kiln_tokens *out)
{
    const kiln_tokenizer_api *api = host->ability(KILN_TOKENIZER_ABILITY);
    char why[KILN_TOKENIZER_WHY] = "";
    kiln_encoding e = {.size = sizeof e};
    const char *cleaned = clean(host, ctx, text);
    (void)self;
    if (!cleaned) return KILN_ERR_NOMEM;
    const kiln_tokenizer_input in = {.size = sizeof in, .text = cleaned, .n = strlen(cleaned), .ends = 1};
    kiln_status status = api->encode(tokenizer, &in, &e, why);
    if (status != KILN_OK)
        host->fail(ctx, status, "%s", why);
    else if (!e.n)
        status = host->fail(ctx, KILN_ERR_INVALID, "the tokenizer of this UMT5 has no end token");
    else
        status = keep(host, ctx, &e, out);
    api->encoding_free(&e);
    return status;
}

/* ---- the network ---- */

typedef struct {
    const kiln_ops *o;
    kiln_program *p;
    kiln_weights *w;
    const umt5 *m;
} walk;

static kiln_t linear(const walk *s, kiln_t x, int64_t out, int64_t in, const char *name)
{
    return s->o->linear(s->p, x, s->o->weight(s->p, s->w, name, DIMS(out, in)), (kiln_t){0});
}

static kiln_t norm(const walk *s, kiln_t x, const char *name)
{
    kiln_norm how = {.size = sizeof how, .kind = KILN_NORM_RMS, .eps = 1e-6f};
    how.gain = s->o->weight(s->p, s->w, name, DIMS(s->m->width));
    return s->o->normalize(s->p, x, &how);
}

/* Scores are not scaled. */
static kiln_t attention(const walk *s, kiln_t x, long long i)
{
    const umt5 *m = s->m;
    char name[112];
#define PART(which) NAME(name, "encoder.block.%lld.layer.0.SelfAttention." which ".weight", i)
    kiln_attention how = {
        .size = sizeof how, .heads = (int32_t)m->heads, .scale = 1, .bidirectional = 1, .max_distance = DISTANCE};
    how.bias_table = s->o->weight(s->p, s->w, PART("relative_attention_bias"), DIMS(m->buckets, m->heads));
    kiln_t q = linear(s, x, m->inner, m->width, PART("q")), k = linear(s, x, m->inner, m->width, PART("k"));
    kiln_t v = linear(s, x, m->inner, m->width, PART("v"));
    return linear(s, s->o->attention(s->p, q, k, v, &how), m->width, m->inner, PART("o"));
}

static kiln_t feed_forward(const walk *s, kiln_t x, long long i)
{
    const umt5 *m = s->m;
    char name[112];
#define MATRIX(which) NAME(name, "encoder.block.%lld.layer.1.DenseReluDense." which ".weight", i)
    kiln_t gate = linear(s, x, m->hidden, m->width, MATRIX("wi_0")),
           up = linear(s, x, m->hidden, m->width, MATRIX("wi_1"));
    return linear(s, s->o->map(s->p, "gelu_tanh(a) * b", (kiln_t[]){gate, up}, 2, NULL), m->width, m->hidden,
                  MATRIX("wo"));
}

/* The stream is f32 in every precision: T5's grows large. */
static void record(const kiln_text_encoder *e, const kiln_ops *o, kiln_program *p, kiln_weights *w,
                   const kiln_text_inputs *in, kiln_text_features *out)
{
    const kiln_map to_f32 = {.size = sizeof to_f32, .dtype = KILN_F32};
    const walk s = {o, p, w, e->self};
    char name[96];
    kiln_t words = o->weight(p, w, "shared.weight", DIMS(s.m->vocabulary, s.m->width));
    kiln_t x = o->cast(p, o->embedding(p, words, in->ids), KILN_F32), h;
    if (in->layer != -1) o->fail(p, "layer %d of UMT5 is asked for; Wan takes the last one (-1)", in->layer);
    for (long long i = 0; i < e->layers; i++) {
        h = norm(&s, x, NAME(name, "encoder.block.%lld.layer.0.layer_norm.weight", i));
        x = o->map(p, "a + b", (kiln_t[]){x, attention(&s, h, i)}, 2, &to_f32);
        h = norm(&s, x, NAME(name, "encoder.block.%lld.layer.1.layer_norm.weight", i));
        x = o->map(p, "a + b", (kiln_t[]){x, feed_forward(&s, h, i)}, 2, &to_f32);
    }
    out->tokens = norm(&s, x, "encoder.final_layer_norm.weight");
}

/* Rows of zeros behind the prompt's own: Wan's transformer looks at all 512. */
static void combine(const kiln_clip *clip, const kiln_ops *o, kiln_program *p, const kiln_combined *in, size_t n,
                    const kiln_outputs *out)
{
    int64_t dim[3] = {0};
    (void)clip, (void)n;
    o->shape(p, in->tokens, dim, 3);
    out->add(out, "tokens",
             o->pad(p, in->tokens, KILN_DIMS(0, 0, 0), KILN_DIMS(0, WAN_TEXT - dim[1], 0), KILN_PAD_ZERO, 0));
}

/* ---- opening ---- */

#define BIAS "layer.0.SelfAttention.relative_attention_bias.weight"
static const checkpoint_layout layout = {
    .prefix = "",
    .needs = {"shared.weight", "encoder.block.0." BIAS, "encoder.block.1." BIAS, "encoder.final_layer_norm.weight"}};

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    return checkpoint_find(w, set, &layout, 1) ? 90 : 0;
}

static kiln_status read_sizes(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, umt5 *m)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    kiln_weight_info words, bias, q, gate, layer;
    int32_t layers = 0;
    if (!checkpoint_has(w, set, "", &words, "shared.weight") || words.rank != 2 ||
        !checkpoint_has(w, set, "encoder.block.0.", &bias, BIAS) || bias.rank != 2 ||
        !checkpoint_has(w, set, "encoder.block.0.", &q, "layer.0.SelfAttention.q.weight") ||
        !checkpoint_has(w, set, "encoder.block.0.", &gate, "layer.1.DenseReluDense.wi_0.weight"))
        return host->fail(ctx, KILN_ERR_INVALID, "this UMT5 has no gated layers (layer.1.DenseReluDense.wi_0.weight)");
    while (checkpoint_has(w, set, "encoder.block.", &layer, "%d.layer.0.layer_norm.weight", layers)) layers++;
    m->vocabulary = words.dim[0], m->width = words.dim[1], m->buckets = bias.dim[0], m->heads = bias.dim[1];
    m->inner = q.dim[0], m->hidden = gate.dim[0];
    m->encoder = (kiln_text_encoder){.size = sizeof m->encoder,
                                     .family = "example-umt5/1", /* all else is in shapes */
                                     .self = m,
                                     .width = m->width,
                                     .layers = layers,
                                     .default_layer = -1,
                                     .min_length = 1,
                                     .tokenise = tokenise,
                                     .record = record,
                                     .architecture = "UMT5"};
    return KILN_OK;
}

static kiln_tokenizer *open_tokenizer(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_tokenizer_api *api = host->ability(KILN_TOKENIZER_ABILITY);
    kiln_weight_info info = {.size = sizeof info};
    if (!api || w->find(set, "spiece_model", &info) != KILN_OK) {
        host->fail(ctx, KILN_ERR_UNSUPPORTED,
                   "this UMT5 has no tokenizer: a tensor 'spiece_model' with the bytes of spiece.model, as ComfyUI's "
                   "single files have it, is expected beside the weights");
        return NULL;
    }
    const kiln_tokenizer_file file = {sizeof file, "spiece.model", w->map(ctx, set, "spiece_model"), info.bytes};
    return file.data ? api->open(ctx, &(kiln_tokenizer_source){.size = sizeof(kiln_tokenizer_source),
                                                               .kind = "sentencepiece",
                                                               .file = &file,
                                                               .n_file = 1})
                     : NULL;
}

static void release(void *owned)
{
    umt5 *m = owned;
    if (m->one.tokenizer) m->tokenizers->unref(m->one.tokenizer);
    free(m);
}

static kiln_value *open_clip(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    umt5 *m = calloc(1, sizeof *m);
    kiln_value *value = NULL;
    if (!m) return NULL;
    m->tokenizers = host->ability(KILN_TOKENIZER_ABILITY);
    m->one = (kiln_clip_encoder){.size = sizeof m->one, .name = "umt5xxl", .encoder = &m->encoder, .weights = set};
    if (read_sizes(host, ctx, set, m) == KILN_OK && (m->one.tokenizer = open_tokenizer(host, ctx, set)))
        value = models->clip_new(ctx, &(kiln_clip){.size = sizeof(kiln_clip),
                                                   .n_encoder = 1,
                                                   .encoder = &m->one,
                                                   .combine = combine,
                                                   .identity = "example-wan: 512 tokens",
                                                   .owned = m,
                                                   .release = release});
    if (!value) release(m);
    return value;
}

static const char *const clip_types[] = {"wan", NULL}; /* CLIPLoader's */
const kiln_model_family umt5_family = {.size = sizeof umt5_family,
                                       .kind = KILN_FAMILY_TEXT_ENCODER,
                                       .name = "example-umt5",
                                       .doc = "UMT5 as Wan reads it: 512 tokens, zeros behind the prompt",
                                       .detect = detect,
                                       .open = open_clip,
                                       .type = clip_types};
