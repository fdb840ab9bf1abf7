/* gemma_settings.c - what a DiffusionGemma's files say of it. Sizes are those of its tensors; what no shape says stands
 * in the keys of a GGUF file, or in config.json and generation_config.json of a folder. */
#include "gemma.h"
#include "kiln/config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define GGUF_KEY "__metadata__/diffusion-gemma."
#define ARCHITECTURE "__metadata__/general.architecture"

static const kiln_weights_api *weights_of(void) { return td_host->ability(KILN_WEIGHTS_ABILITY); }

int gemma_is_gguf(const kiln_weights *set)
{
    const char *text = weights_of()->text(set, ARCHITECTURE, NULL);
    return text && !strcmp(text, "diffusion-gemma");
}

/* ---- the two kinds of files, read alike ---- */

typedef struct {
    kiln_ctx *ctx;
    const kiln_weights *set;
    int is_gguf;
    config top, text; /* of a folder; text borrows its root */
    kiln_status status;
} source;

#define REFUSE(s, ...)                                                                                                 \
    do {                                                                                                               \
        if ((s)->status == KILN_OK) (s)->status = td_host->fail((s)->ctx, KILN_ERR_INVALID, __VA_ARGS__);              \
    } while (0)

/* Item i of a GGUF key; 0: it is not there, or is no number. */
static int gguf_item(source *s, const char *path, size_t i, kiln_weight_item *out)
{
    kiln_weight_value v = {.size = sizeof v};
    *out = (kiln_weight_item){.size = sizeof *out};
    return weights_of()->metadata(s->set, path, &v) == KILN_OK && v.kind != KILN_META_STRING &&
           weights_of()->metadata_item(&v, i, out) == KILN_OK;
}

/* A number by its key in either; key NULL: that kind of file does not say it. Absent: `absent`, or refused if that is
 * NAN. */
static double number(source *s, config *c, const char *gguf, const char *key, double absent)
{
    char path[160];
    kiln_weight_item item;
    double x = NAN;
    if (s->is_gguf && gguf) {
        snprintf(path, sizeof path, "%s%s", strncmp(gguf, "diffusion.", 10) ? GGUF_KEY : "__metadata__/", gguf);
        if (gguf_item(s, path, 0, &item)) x = item.number;
    } else if (!s->is_gguf && key) {
        x = config_number(c, key, NAN, -1e18, 1e18);
    }
    if (isnan(x)) x = absent;
    if (isnan(x)) REFUSE(s, "the model does not say its %s", s->is_gguf ? gguf : key);
    return x;
}

static int64_t whole(source *s, config *c, const char *gguf, const char *key, const double range[3])
{
    double x = number(s, c, gguf, key, range[0]);
    if (x >= range[1] && x <= range[2] && x == floor(x)) return (int64_t)x;
    REFUSE(s, "the model's %s is %g; a whole number from %g to %g is expected", s->is_gguf && gguf ? gguf : key, x,
           range[1], range[2]);
    return (int64_t)range[1];
}
/* transformers leaves out of config.json what its class says anyhow; a GGUF file says everything. */
#define CLASS(number) (s->is_gguf ? (double)NAN : (number))
#define RANGE(absent, min, max) ((const double[]){(absent), (min), (max)})

/* ---- shapes ---- */

static int64_t size_of(source *s, const kiln_weights *named, uint32_t rank, uint32_t axis, const char *name, ...)
    __attribute__((format(printf, 5, 6)));
static int64_t size_of(source *s, const kiln_weights *named, uint32_t rank, uint32_t axis, const char *name, ...)
{
    char full[120];
    kiln_weight_info info = {.size = sizeof info};
    va_list args;
    va_start(args, name);
    vsnprintf(full, sizeof full, name, args);
    va_end(args);
    if (weights_of()->find(named, full, &info) != KILN_OK)
        REFUSE(s, "the tensor '%s' is missing", full);
    else if (info.rank != rank || info.dim[axis] < 1)
        REFUSE(s, "the tensor '%s' has %u dimensions; %u are expected, none of them 0", full, info.rank, rank);
    else
        return info.dim[axis];
    return 1;
}

static int is_full(source *s, int64_t i)
{
    kiln_weight_item item;
    if (s->is_gguf) {
        if (gguf_item(s, GGUF_KEY "attention.sliding_window_pattern", (size_t)i, &item)) return !item.integer;
    } else {
        const json_t *types = config_get(&s->text, "layer_types");
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        if (!types) return i % 6 == 5;
        if (type && (!strcmp(type, "full_attention") || !strcmp(type, "sliding_attention"))) return type[0] == 'f';
    }
    REFUSE(s, "the model does not say whether layer %lld is a sliding or a full one", (long long)i);
    return 0;
}

static void read_layer(source *s, const kiln_weights *named, gemma *g, int64_t i)
{
    gemma_layer *l = &g->layer[i];
    const long long n = i;
    l->is_full = is_full(s, i);
    l->head = size_of(s, named, 1, 0, "layers.%lld.self_attn.q_norm.weight", n);
    const int64_t q = size_of(s, named, 2, 0, "layers.%lld.self_attn.q_proj.weight", n),
                  k = size_of(s, named, 2, 0, "layers.%lld.self_attn.k_proj.weight", n);
    l->kv_heads = k / l->head;
    if (s->status != KILN_OK) return;
    if (l->head % 2 || k % l->head || q != g->heads * l->head || g->heads % l->kv_heads)
        REFUSE(s,
               "layer %lld has %lld columns of queries and %lld of keys, which are not %lld heads and a part of them "
               "of %lld columns each",
               n, (long long)q, (long long)k, (long long)g->heads, (long long)l->head);
}

static void read_rope(source *s, const kiln_weights *named, gemma *g)
{
    static const char *const kind[] = {"sliding_attention", "full_attention"};
    static const char *const key[] = {"rope.freq_base_swa", "rope.freq_base"};
    kiln_weight_info info = {.size = sizeof info};
    const json_t *both = config_get(&s->text, "rope_parameters");
    for (int i = 0; i < 2; i++) {
        config c = s->text;
        c.path = "config.json: rope_parameters", c.root = json_object_get(both, kind[i]);
        g->theta[i] = number(s, &c, key[i], "rope_theta", i ? 1e6 : 1e4);
        g->rotary[i] = number(s, &c, NULL, "partial_rotary_factor", i ? 0.25 : 1);
        const char *type = config_text(&c, "rope_type", i ? "proportional" : "default");
        if (strcmp(type, "default") != 0 && strcmp(type, "proportional") != 0)
            REFUSE(s, "config.json: the rope_type '%.40s' is not known here; default and proportional are", type);
        if (!(g->theta[i] >= 1 && g->theta[i] <= 1e12) || !(g->rotary[i] >= 0 && g->rotary[i] <= 1))
            REFUSE(s, "the model's rope has base %g and turns %g of the pairs", g->theta[i], g->rotary[i]);
    }
    if (s->status != KILN_OK || weights_of()->find(named, "rope_freqs.weight", &info) != KILN_OK) return;
    if (info.rank != 1 || info.dim[0] < 1 || info.dim[0] > 1 << 16) {
        REFUSE(s, "the tensor 'rope_freqs.weight' is no list of a head's pairs");
        return;
    }
    g->n_divisor = info.dim[0];
    if (!(g->divisor = malloc((size_t)info.dim[0] * sizeof *g->divisor))) s->status = KILN_ERR_NOMEM;
    if (g->divisor) s->status = weights_of()->read_f32(s->ctx, named, "rope_freqs.weight", g->divisor);
    for (int64_t i = 0; s->status == KILN_OK && i < g->n_divisor; i++)
        if (!(g->divisor[i] > 0))
            REFUSE(s, "the tensor 'rope_freqs.weight' has %g, and nothing is divided by that", (double)g->divisor[i]);
}

static void read_sizes(source *s, const kiln_weights *named, gemma *g, text_diffusion_model *m)
{
    m->vocabulary = size_of(s, named, 2, 0, "embed_tokens.weight");
    m->width = g->width = size_of(s, named, 2, 1, "embed_tokens.weight");
    m->word_scale = (float)sqrt((double)m->width);
    g->hidden = size_of(s, named, 2, 0, "layers.0.mlp.gate_proj.weight");
    g->experts = size_of(s, named, 2, 0, "layers.0.router.proj.weight");
    g->expert_hidden = size_of(s, named, 3, 2, "layers.0.experts.down_proj");
    g->heads = whole(s, &s->text, "attention.head_count", "num_attention_heads", RANGE(CLASS(8), 1, 4096));
    g->chosen = whole(s, &s->text, "expert_used_count", "top_k_experts", RANGE(NAN, 1, (double)g->experts));
    g->window = whole(s, &s->text, "attention.sliding_window", "sliding_window", RANGE(CLASS(512), 1, CONTEXT_MAX));
    g->eps = (float)number(s, &s->text, "attention.layer_norm_rms_epsilon", "rms_norm_eps", 1e-6);
    m->softcap = (float)number(s, &s->text, "final_logit_softcapping", "final_logit_softcapping", s->is_gguf ? 0 : 30);
    if (!(g->eps >= 0 && g->eps < 1) || !(m->softcap >= 0))
        REFUSE(s, "the model's eps is %g, its soft-cap %g", (double)g->eps, (double)m->softcap);
    m->canvas = whole(s, &s->top, "diffusion.canvas_length", "canvas_length", RANGE(CLASS(256), 1, CANVAS_MAX));
    m->context = whole(s, &s->text, "context_length", "max_position_embeddings", RANGE(CLASS(131072), 1, CONTEXT_MAX));
    int64_t said = whole(s, &s->text, NULL, "vocab_size", RANGE((double)m->vocabulary, 1, 1 << 30));
    if (said != m->vocabulary)
        REFUSE(s, "config.json: vocab_size is %lld, and 'embed_tokens.weight' has %lld rows", (long long)said,
               (long long)m->vocabulary);
}

static void read_sampling(source *s, text_sampling *to)
{
    config c = s->is_gguf ? (config){.host = td_host, .ctx = s->ctx, .path = ""}
                          : config_open(td_host, s->ctx, s->set, "generation_config.json");
    config eb = c;
    eb.root = json_object_get(c.root, "sampler_config");
    to->steps = whole(s, &c, "diffusion.eb_max_steps", "max_denoising_steps", RANGE(48, 1, 10000));
    to->stability = whole(s, &c, "diffusion.eb_stability_threshold", "stability_threshold", RANGE(1, 0, 100));
    to->temperature = number(s, &c, "diffusion.eb_t_max", "t_max", 0.8);
    to->temperature_end = number(s, &c, "diffusion.eb_t_min", "t_min", 0.4);
    to->entropy_bound = number(s, &eb, "diffusion.eb_entropy_bound", "entropy_bound", 0.1);
    to->confidence = number(s, &c, "diffusion.eb_confidence_threshold", "confidence_threshold", 0.005);
    if (c.failed || eb.failed) s->status = KILN_ERR_INVALID;
    config_close(&c);
}

/* FNV-1a over all that decides what is recorded, and no shape says. */
static uint64_t digest(const gemma *g, const text_diffusion_model *m)
{
    const double number[] = {(double)g->chosen, (double)g->window, (double)g->eps, (double)m->softcap,
                             g->theta[0],       g->theta[1],       g->rotary[0],   g->rotary[1],
                             (double)m->canvas, (double)g->heads};
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < sizeof number; i++) h = (h ^ ((const unsigned char *)number)[i]) * UINT64_C(1099511628211);
    for (int64_t i = 0; i < g->layers; i++) h = (h ^ (uint64_t)(g->layer[i].is_full + 1)) * UINT64_C(1099511628211);
    return h;
}

static kiln_status read_all(source *s, const kiln_weights *named, text_diffusion_model *m)
{
    const int64_t layers =
        whole(s, &s->text, "block_count", "num_hidden_layers", RANGE(CLASS(30), 1, GEMMA_LAYERS_MAX));
    static const config_rule expected[] = {{"hidden_activation", "\"gelu_pytorch_tanh\""}, {"attention_bias", "false"}};
    if (!s->is_gguf) config_expect(&s->text, expected, COUNT(expected));
    gemma *g = s->status == KILN_OK ? calloc(1, sizeof *g + (size_t)layers * sizeof g->layer[0]) : NULL;
    if (!g) return s->status == KILN_OK ? KILN_ERR_NOMEM : s->status;
    m->network = g, g->layers = layers;
    read_sizes(s, named, g, m);
    for (int64_t i = 0; s->status == KILN_OK && i < layers; i++) read_layer(s, named, g, i);
    read_rope(s, named, g);
    read_sampling(s, &m->sampling);
    m->mask = -1;
    m->settings = digest(g, m);
    return s->text.failed || s->top.failed ? KILN_ERR_INVALID : s->status;
}

kiln_status gemma_settings(kiln_ctx *ctx, const kiln_weights *set, const kiln_weights *named, text_diffusion_model *m)
{
    source s = {.ctx = ctx, .set = set, .is_gguf = gemma_is_gguf(set)};
    s.top = s.text = (config){.host = td_host, .ctx = ctx, .path = "config.json"};
    if (!s.is_gguf) s.top = config_open(td_host, ctx, set, "config.json");
    s.text.root = json_object_get(s.top.root, "text_config");
    kiln_status status = s.top.failed ? KILN_ERR_INVALID : KILN_OK;
    if (status == KILN_OK && !s.is_gguf && !json_is_object(s.text.root))
        status = td_host->fail(ctx, KILN_ERR_INVALID, "config.json has no map text_config");
    if (status == KILN_OK) status = read_all(&s, named, m);
    config_close(&s.top);
    return status;
}
