/* t5.c - the encoder of a T5 1.1 (Raffel et al. 2020; Shazeer 2020) under transformers' names, as a text encoder of
 * kiln: a prompt of any length, filled up to 256 tokens, -> hidden states. What a key is away from a query counts by a
 * table of buckets, the first block's in all of them. Scores are not scaled.
 *
 * Its tokenizer, SentencePiece's unigram model, lies beside the weights as tokenizer.json or spiece.model: in their
 * folder, or in the metadata of their file.
 */
#include "flux.h"

#include "kiln/config.h"
#include "kiln/model.h"

enum { LEAST = 256 }; /* tokens that Flux sees, the padding's too */

typedef struct {
    kiln_text_encoder encoder;
    kiln_clip_encoder row;
    const kiln_tokenizer_api *api;
    int64_t width, head, heads, hidden, layers, vocabulary, buckets, distance;
    float eps;
    char family[120];
} t5;

typedef struct {
    const kiln_ops *o;
    kiln_program *p;
    kiln_weights *weights;
    const t5 *m;
} walk;

/* ---- the network ---- */

static kiln_t linear(const walk *s, kiln_t x, int64_t out, int64_t in, const char *name)
{
    return s->o->linear(s->p, x, s->o->weight(s->p, s->weights, name, 2, KILN_DIMS(out, in)), (kiln_t){0});
}

static kiln_t norm(const walk *s, kiln_t x, const char *name)
{
    kiln_norm how = {.size = sizeof how, .kind = KILN_NORM_RMS, .eps = s->m->eps};
    how.gain = s->o->weight(s->p, s->weights, name, 1, &s->m->width);
    return s->o->normalize(s->p, x, &how);
}

static kiln_t attention(const walk *s, kiln_t x, long long i, kiln_t table)
{
    const t5 *m = s->m;
    const int64_t inner = m->heads * m->head;
    char name[96];
#define PART(which) NAME(name, "encoder.block.%lld.layer.0.SelfAttention." which ".weight", i)
    kiln_t q = linear(s, x, inner, m->width, PART("q")), k = linear(s, x, inner, m->width, PART("k"));
    kiln_t v = linear(s, x, inner, m->width, PART("v"));
    const kiln_attention a = {.size = sizeof a,
                              .heads = (int32_t)m->heads,
                              .scale = 1,
                              .bias_table = table,
                              .bidirectional = 1,
                              .max_distance = m->distance};
    return linear(s, s->o->attention(s->p, q, k, v, &a), m->width, inner, PART("o"));
}

static kiln_t feed_forward(const walk *s, kiln_t x, long long i)
{
    const t5 *m = s->m;
    char name[96];
#define MATRIX(which) NAME(name, "encoder.block.%lld.layer.1.DenseReluDense." which ".weight", i)
    kiln_t gate = linear(s, x, m->hidden, m->width, MATRIX("wi_0")),
           up = linear(s, x, m->hidden, m->width, MATRIX("wi_1"));
    kiln_t h = s->o->map(s->p, "gelu_tanh(a) * b", (kiln_t[]){gate, up}, 2, NULL);
    return linear(s, h, m->width, m->hidden, MATRIX("wo"));
}

/* The stream is f32 in every precision: T5's grows large. */
static void record(const kiln_text_encoder *e, const kiln_ops *ops, kiln_program *p, kiln_weights *weights,
                   const kiln_text_inputs *in, kiln_text_features *out)
{
    const kiln_map to_f32 = {.size = sizeof to_f32, .dtype = KILN_F32};
    const walk walker = {ops, p, weights, e->self}, *s = &walker;
    char name[96];
    kiln_t words = ops->weight(p, weights, "shared.weight", 2, KILN_DIMS(s->m->vocabulary, s->m->width));
    kiln_t table = ops->weight(p, weights, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 2,
                               KILN_DIMS(s->m->buckets, s->m->heads));
    kiln_t x = ops->cast(p, ops->embedding(p, words, in->ids), KILN_F32);
    if (in->layer != -1) ops->fail(p, "T5 conditions with its last layer, and layer %d was asked for", in->layer);
    for (long long i = 0; i < s->m->layers; i++) {
        kiln_t h = norm(s, x, NAME(name, "encoder.block.%lld.layer.0.layer_norm.weight", i));
        x = ops->map(p, "a + b", (kiln_t[]){x, attention(s, h, i, table)}, 2, &to_f32);
        h = norm(s, x, NAME(name, "encoder.block.%lld.layer.1.layer_norm.weight", i));
        x = ops->map(p, "a + b", (kiln_t[]){x, feed_forward(s, h, i)}, 2, &to_f32);
    }
    out->tokens = norm(s, x, "encoder.final_layer_norm.weight");
}

/* ---- text to tokens: one chunk, an end token, then padding ---- */

static kiln_status fill(const t5 *m, const kiln_encoding *e, const kiln_host *host, kiln_ctx *ctx, kiln_tokens *out)
{
    const int32_t pad = 0;
    uint32_t least = out->length > LEAST ? out->length : LEAST, used = (uint32_t)e->n;
    out->n_chunk = 1, out->length = used > least ? used : least;
    out->id = host->scratch(ctx, out->length * sizeof *out->id, KILN_CPU);
    out->weight = host->scratch(ctx, out->length * sizeof *out->weight, KILN_CPU);
    out->end = host->scratch(ctx, sizeof *out->end, KILN_CPU);
    out->count = host->scratch(ctx, sizeof *out->count, KILN_CPU);
    if (!out->id || !out->weight || !out->end || !out->count) return KILN_ERR_NOMEM;
    for (uint32_t i = 0; i < out->length; i++) out->id[i] = i < used ? e->id[i] : pad, out->weight[i] = 1;
    *out->end = (int32_t)used - 1, *out->count = (int32_t)used;
    for (uint32_t i = 0; i < used; i++)
        if (out->id[i] >= m->vocabulary)
            return host->fail(ctx, KILN_ERR_INVALID, "the tokenizer knows token %d, and the T5 has %lld", out->id[i],
                              (long long)m->vocabulary);
    return KILN_OK;
}

static kiln_status tokenise(const kiln_text_encoder *encoder, const kiln_tokenizer *tokenizer, const kiln_host *host,
                            kiln_ctx *ctx, const char *text, kiln_tokens *out)
{
    const t5 *m = encoder->self;
    const kiln_tokenizer_input in = {.size = sizeof in, .text = text, .n = strlen(text), .ends = 1};
    char why[KILN_TOKENIZER_WHY] = "";
    kiln_encoding e = {.size = sizeof e};
    kiln_status status = m->api->encode(tokenizer, &in, &e, why);
    if (status == KILN_OK)
        status = fill(m, &e, host, ctx, out);
    else
        host->fail(ctx, status, "%s", why);
    m->api->encoding_free(&e);
    return status;
}

/* ---- opening ---- */

static const char alone[] = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    kiln_weight_info info = {.size = sizeof info};
    return w->find(set, alone, &info) == KILN_OK ? 90 : 0;
}

/* In the folder's files, or in the file's metadata. */
static const char *text_of(const kiln_weights_api *w, const kiln_weights *set, const char *file, size_t *n)
{
    char name[96];
    const char *text = w->text(set, file, n);
    return text ? text : w->text(set, NAME(name, "__metadata__/%s", file), n);
}

static kiln_status read_config(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, t5 *m)
{
    static const config_rule expected[] = {{"feed_forward_proj", "\"gated-gelu\""}};
    config from = config_open(host, ctx, set, "config.json");
    if (!from.root && !from.failed) from = config_open(host, ctx, set, "__metadata__/config.json");
    if (!from.root && !from.failed)
        CONFIG_FAIL(&from, KILN_ERR_INVALID, "this T5 has no config.json beside it, nor in its metadata");
    config_expect(&from, expected, COUNT(expected));
    m->width = config_int(&from, "d_model", 4096, 1, 1 << 16);
    m->head = config_int(&from, "d_kv", 64, 1, 1024);
    m->heads = config_int(&from, "num_heads", 64, 1, 1024);
    m->hidden = config_int(&from, "d_ff", 10240, 1, 1 << 20);
    m->layers = config_int(&from, "num_layers", 24, 1, 1000);
    m->vocabulary = config_int(&from, "vocab_size", 32128, 1, 1 << 20);
    m->buckets = config_int(&from, "relative_attention_num_buckets", 32, 2, 1024);
    m->distance = config_int(&from, "relative_attention_max_distance", 128, 2, 1 << 20);
    m->eps = (float)config_number(&from, "layer_norm_epsilon", 1e-6, 0, 1);
    config_close(&from);
    return from.failed ? KILN_ERR_INVALID : KILN_OK;
}

static kiln_tokenizer *open_tokenizer(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const t5 *m)
{
    static const char *const files[] = {"tokenizer.json", "spiece.model"};
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    kiln_tokenizer_file file = {.size = sizeof file};
    for (size_t i = 0; i < COUNT(files) && !file.data; i++)
        file.name = files[i], file.data = text_of(w, set, files[i], &file.bytes);
    if (m->api && file.data)
        return m->api->open(
            ctx, &(kiln_tokenizer_source){.size = sizeof(kiln_tokenizer_source), .file = &file, .n_file = 1});
    host->fail(ctx, KILN_ERR_INVALID,
               m->api ? "this T5 has no tokenizer: put its tokenizer.json or spiece.model beside "
                        "it, or into its metadata"
                      : "there is no tokenizer: load the plugin org.kiln.tokenizer");
    return NULL;
}

static void release(void *owned)
{
    t5 *m = owned;
    if (m->row.tokenizer) m->api->unref(m->row.tokenizer);
    free(m);
}

static kiln_status open_parts(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, t5 *m)
{
    TRY(read_config(host, ctx, set, m));
    m->api = host->ability(KILN_TOKENIZER_ABILITY);
    if (!(m->row.tokenizer = open_tokenizer(host, ctx, set, m))) return KILN_ERR_INVALID;
    NAME(m->family, "example-t5/%lld.%lld.%g", (long long)m->heads, (long long)m->distance, (double)m->eps);
    m->encoder = (kiln_text_encoder){.size = sizeof m->encoder,
                                     .family = m->family,
                                     .self = m,
                                     .width = m->width,
                                     .layers = (int32_t)m->layers,
                                     .default_layer = -1,
                                     .min_length = LEAST,
                                     .tokenise = tokenise,
                                     .record = record,
                                     .architecture = "T5"};
    m->row.size = sizeof m->row, m->row.name = "t5xxl", m->row.encoder = &m->encoder, m->row.weights = set;
    return KILN_OK;
}

static kiln_value *open_t5(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    t5 *m = calloc(1, sizeof *m);
    kiln_value *value = NULL;
    if (!m) return NULL;
    if (open_parts(host, ctx, set, m) == KILN_OK)
        value = models->clip_new(
            ctx, &(kiln_clip){
                     .size = sizeof(kiln_clip), .n_encoder = 1, .encoder = &m->row, .owned = m, .release = release});
    if (!value) release(m);
    return value;
}

const kiln_model_family t5_family = {.size = sizeof t5_family,
                                     .kind = KILN_FAMILY_TEXT_ENCODER,
                                     .name = "example-t5",
                                     .doc = "T5's encoder",
                                     .detect = detect,
                                     .open = open_t5};
