/* qwen_clip.c - Qwen2.5-VL as a CLIP of kiln: where its tensors lie in a file, its tokenizer, and the chat template in
 * which Qwen-Image and Qwen-Image-Edit put a prompt. What the template says before the user's turn is read and then
 * dropped. A prompt with a picture is encoded by a CLIP made for that call: its table knows where the picture stands,
 * which decides what is recorded, and its vectors are given in the place of the picture's tokens.
 */
#include "qwen.h"

#include "kiln/checkpoint.h"

enum { PROMPT_MAX = 1024, TEXT_HEAD = 128, VISION_HEADS = 16 };

static const char *const system_text[2] = {
    "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, spatial "
    "relationships of the objects and background:<|im_end|>\n<|im_start|>user\n",
    "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, texture, objects, "
    "background), then explain how the user's text instruction should alter or modify the image. Generate a new image "
    "that meets the user's requirements while maintaining consistency with the original input where "
    "appropriate.<|im_end|>\n<|im_start|>user\n"};
static const char place_of_picture[] = "<|vision_start|><|image_pad|><|vision_end|>";
static const char after_prompt[] = "<|im_end|>\n<|im_start|>assistant\n";

/* ---- text to tokens ---- */

static const qwen_clip *clip_of(const kiln_text_encoder *e) { return e->self; }
static int has_picture(const qwen_clip *q) { return q->picture.rows > 0; }

static kiln_status encode_text(const qwen_clip *q, const kiln_host *host, kiln_ctx *ctx, const char *text,
                               kiln_encoding *out)
{
    char why[KILN_TOKENIZER_WHY] = "";
    const kiln_tokenizer_input in = {.size = sizeof in, .text = text, .n = strlen(text), .special = 1};
    *out = (kiln_encoding){.size = sizeof *out};
    kiln_status status = q->tokens->encode(q->tokenizer, &in, out, why);
    return status == KILN_OK ? KILN_OK : host->fail(ctx, status, "%s", why);
}

static kiln_status check(const qwen_clip *q, const kiln_host *host, kiln_ctx *ctx, const kiln_encoding *e)
{
    size_t places = 0, n = e->n - (size_t)q->dropped[has_picture(q)] - (has_picture(q) ? 3 : 0);
    for (size_t i = 0; i < e->n; i++) places += e->id[i] == q->image_token;
    if (places && !has_picture(q))
        return host->fail(ctx, KILN_ERR_INVALID,
                          "the prompt has a place for a picture (<|image_pad|>) and there is none; wire one to "
                          "ExampleTextEncodeQwenImageEdit's image, whose template has the place");
    if (places > 1)
        return host->fail(ctx, KILN_ERR_INVALID,
                          "the prompt has %zu places for pictures (<|image_pad|>) beside the template's; there is one "
                          "picture, so leave them out",
                          places - 1);
    if (n <= PROMPT_MAX) return KILN_OK;
    return host->fail(ctx, KILN_ERR_INVALID,
                      "the prompt is %zu tokens long with the template's end, and Qwen-Image "
                      "takes %d; shorten it",
                      n, PROMPT_MAX);
}

/* The picture's token becomes as many as the picture has rows, each with its vector. */
static kiln_status lay_out(const qwen_clip *q, const kiln_host *host, kiln_ctx *ctx, const kiln_encoding *e,
                           kiln_tokens *out)
{
    const qwen_picture *p = &q->picture;
    size_t rows = (size_t)(p->rows * p->columns), n = has_picture(q) ? e->n - 1 + rows : e->n, to = 0;
    out->n_chunk = 1, out->length = (uint32_t)n;
    out->id = host->scratch(ctx, n * sizeof *out->id, KILN_CPU);
    out->weight = host->scratch(ctx, n * sizeof *out->weight, KILN_CPU);
    out->end = host->scratch(ctx, sizeof *out->end, KILN_CPU);
    out->vector = has_picture(q) ? host->scratch(ctx, n * sizeof *out->vector, KILN_CPU) : NULL;
    if (!out->id || !out->weight || !out->end || (has_picture(q) && !out->vector)) return KILN_ERR_NOMEM;
    *out->end = (int32_t)n - 1;
    for (size_t i = 0; i < e->n; i++) {
        int seen = has_picture(q) && e->id[i] == q->image_token;
        for (size_t k = 0; k < (seen ? rows : 1); k++, to++) {
            out->id[to] = e->id[i], out->weight[to] = 1;
            if (out->vector) out->vector[to] = seen ? p->vectors + k * (size_t)q->text.width : NULL;
        }
    }
    return KILN_OK;
}

static kiln_status tokenise(const kiln_text_encoder *of, const kiln_tokenizer *given, const kiln_host *host,
                            kiln_ctx *ctx, const char *text, kiln_tokens *out)
{
    const qwen_clip *q = clip_of(of);
    const char *system = system_text[has_picture(q)], *place = has_picture(q) ? place_of_picture : "";
    size_t n = strlen(system) + strlen(place) + strlen(text) + sizeof after_prompt;
    char *whole = host->scratch(ctx, n, KILN_CPU);
    kiln_encoding e;
    (void)given; /* ours */
    if (!whole) return KILN_ERR_NOMEM;
    snprintf(whole, n, "%s%s%s%s", system, place, text, after_prompt);
    kiln_status status = encode_text(q, host, ctx, whole, &e);
    if (status == KILN_OK) status = check(q, host, ctx, &e);
    if (status == KILN_OK) status = lay_out(q, host, ctx, &e, out);
    q->tokens->encoding_free(&e);
    return status;
}

/* ---- what is recorded ---- */

/* The tower runs in a program of its own, before the text's. Here nothing uses what is recorded of it: a file that
 * lacks a part of it is refused when it is loaded, and not when the first picture comes. */
static void ask_for_tower(const recorder *r, const qwen_clip *q)
{
    static const float picture[4 * 4 * 3];
    qwen_vision_record(r, &q->vision, r->o->constant(r->p, picture, 4, KILN_DIMS(1, 4, 4, 3)));
}

static void record(const kiln_text_encoder *of, const kiln_ops *o, kiln_program *p, kiln_weights *weights,
                   const kiln_text_inputs *in, kiln_text_features *out)
{
    const recorder r = {.o = o, .p = p, .weights = weights};
    const qwen_clip *q = clip_of(of);
    if (!has_picture(q)) ask_for_tower(&r, q);
    out->tokens = qwen_text_record(&r, &q->text, &q->picture, in);
}

static void combine(const kiln_clip *clip, const kiln_ops *o, kiln_program *p, const kiln_combined *in, size_t n,
                    const kiln_outputs *out)
{
    const qwen_clip *q = clip->self;
    const int64_t drop = q->dropped[has_picture(q)];
    int64_t dim[3] = {0};
    (void)n;
    o->shape(p, in->tokens, dim, 3);
    out->add(out, "tokens", o->slice(p, in->tokens, 1, drop, dim[1] - drop));
}

/* ---- prompts with a picture ---- */

const qwen_clip *qwen_clip_of(const kiln_call *c, const kiln_value *value)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_clip *clip = models->clip(c->ctx, value);
    if (!clip) return NULL;
    const kiln_text_encoder *e = kiln_clip_encoder_at(clip, 0)->encoder;
    if (clip->n_encoder == 1 && e->record == record) return clip_of(e);
    const char *what = KILN_HAS(kiln_text_encoder, e, architecture) && e->architecture ? e->architecture : e->family;
    c->host->fail(c->ctx, KILN_ERR_INVALID,
                  "this CLIP is a %s, which sees no pictures; Qwen-Image-Edit wants the Qwen2.5-VL it came with", what);
    return NULL;
}

static void fill_encoder(qwen_clip *q);

kiln_status qwen_encode(const kiln_call *c, const kiln_value *value, const char *prompt, const qwen_picture *picture,
                        kiln_value **out)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_text_api *text = c->host->ability(KILN_TEXT_ABILITY);
    const kiln_prompt all = {.size = sizeof all, .text = prompt};
    const qwen_clip *q = qwen_clip_of(c, value);
    if (!q) return KILN_ERR_INVALID;
    if (!text)
        return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, KILN_TEXT_ABILITY " is not there; load org.kiln.clip");
    if (!picture->rows) return text->encode(c, value, &all, 1, out);
    const kiln_clip *clip = models->clip(c->ctx, value);
    qwen_clip seeing = *q; /* ends with this call, as the value does */
    kiln_clip_encoder row = *kiln_clip_encoder_at(clip, 0);
    kiln_clip changed = *clip;
    seeing.picture = *picture, seeing.picture.at = q->dropped[1] + 1; /* behind <|vision_start|> */
    fill_encoder(&seeing);
    row.encoder = &seeing.encoder;
    changed.encoder = &row, changed.self = &seeing, changed.identity = seeing.identity;
    changed.owned = NULL, changed.release = NULL, changed.base = (kiln_value *)(uintptr_t)value;
    kiln_value *with = models->clip_new(c->ctx, &changed);
    if (!with) return KILN_ERR_INVALID;
    kiln_status status = text->encode(c, with, &all, 1, out);
    c->host->unref(with);
    return status;
}

/* ---- where it lies in a file ---- */

enum { RELEASED, SAVED_AGAIN };
#define NEEDS(decoder, tower)                                                                                          \
    {                                                                                                                  \
        decoder "layers.0.self_attn.q_proj.bias", tower "blocks.0.mlp.gate_proj.weight",                               \
            tower "patch_embed.proj.weight"                                                                            \
    }
static const checkpoint_layout layouts[] = {
    {.prefix = "text_encoder/", .config = "text_encoder/config.json", .needs = NEEDS("model.", "visual.")},
    {.prefix = "text_encoder/",
     .config = "text_encoder/config.json",
     .needs = NEEDS("model.language_model.", "model.visual."),
     .kind = SAVED_AGAIN},
    {.prefix = "", .needs = NEEDS("model.", "visual.")},
    {.prefix = "", .needs = NEEDS("model.language_model.", "model.visual."), .kind = SAVED_AGAIN},
    {.prefix = "text_encoders.qwen25_7b.transformer.", .needs = NEEDS("model.", "visual.")}};

static kiln_weights *view(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, const checkpoint_layout *at)
{
    static const int64_t flat[2] = {-1, 3 * QWEN_TIME * QWEN_PATCH * QWEN_PATCH};
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const char *decoder = at->kind == SAVED_AGAIN ? "model.language_model." : "model.",
               *tower = at->kind == SAVED_AGAIN ? "model.visual." : "visual.";
    char patch[120], towers[100], decoders[100];
    const kiln_weight_rule rules[] = {KILN_RULE(.from = NAME(patch, "%s%spatch_embed.proj.weight", at->prefix, tower),
                                                .to = "visual.patch_embed.proj.weight", .reshape = flat,
                                                .reshape_rank = 2),
                                      KILN_RULE(.from = NAME(towers, "%s%s*", at->prefix, tower), .to = "visual.*"),
                                      KILN_RULE(.from = NAME(decoders, "%s%s*", at->prefix, decoder), .to = "model.*")};
    return w->view(ctx, set, rules, COUNT(rules));
}

/* ---- opening ---- */

typedef struct {
    const kiln_host *host;
    kiln_ctx *ctx;
    const kiln_weights_api *w;
    kiln_weights *view;
    qwen_clip *q;
} opening;

static int64_t size_of(const opening *o, const char *name, uint32_t dimension)
{
    kiln_weight_info info;
    return checkpoint_has(o->w, o->view, "", &info, "%s", name) && dimension < info.rank ? info.dim[dimension] : 0;
}

static int64_t count_of(const opening *o, const char *pattern)
{
    kiln_weight_info info;
    int64_t n = 0;
    char name[120];
    for (;; n++) {
        snprintf(name, sizeof name, "%s.%lld.mlp.gate_proj.weight", pattern, (long long)n);
        if (!checkpoint_has(o->w, o->view, "", &info, "%s", name)) return n;
    }
}

/* A map inside of a configuration, with its place; the whole of it where there is none of that name. */
static config part_of(const config *c, const char *key)
{
    config part = *c;
    const json_t *inner = config_get(c, key);
    if (json_is_object(inner)) part.root = (json_t *)(uintptr_t)inner;
    return part;
}

static void read_text(const opening *o, const config *whole)
{
    qwen_text *m = &o->q->text;
    config c = part_of(whole, "text_config"), rope = part_of(&c, "rope_scaling");
    if (rope.root == c.root) rope = part_of(&c, "rope_parameters");
    m->width = size_of(o, "model.embed_tokens.weight", 1), m->vocabulary = size_of(o, "model.embed_tokens.weight", 0);
    m->layers = count_of(o, "model.layers"), m->hidden = size_of(o, "model.layers.0.mlp.gate_proj.weight", 0);
    m->heads = config_int(&c, "num_attention_heads", m->width / TEXT_HEAD, 1, 1024);
    m->head = m->width / (m->heads ? m->heads : 1);
    m->kv_heads = m->head ? size_of(o, "model.layers.0.self_attn.k_proj.weight", 0) / m->head : 0;
    m->theta = config_number(&c, "rope_theta", config_number(&rope, "rope_theta", 1e6, 1, 1e12), 1, 1e12);
    m->eps = (float)config_number(&c, "rms_norm_eps", 1e-6, 0, 1);
    m->section[0] = m->head / 8, m->section[1] = m->section[2] = m->head / 16 * 3; /* 16, 24, 24 of 64 */
    if (config_get(&rope, "mrope_section"))
        config_ints(&rope, "mrope_section", 0, 1, 1024, QWEN_SECTIONS, m->section, QWEN_SECTIONS);
    if (c.failed || rope.failed) o->q->text.width = 0;
}

static void read_vision(const opening *o, const config *whole)
{
    static const int64_t released[] = {7, 15, 23, 31};
    qwen_vision *m = &o->q->vision;
    config c = part_of(whole, "vision_config");
    int own = c.root != whole->root;
    m->width = size_of(o, "visual.patch_embed.proj.weight", 0);
    m->layers = count_of(o, "visual.blocks"), m->hidden = size_of(o, "visual.blocks.0.mlp.gate_proj.weight", 0);
    m->out = size_of(o, "visual.merger.mlp.2.weight", 0);
    m->heads = own ? config_int(&c, "num_heads", VISION_HEADS, 1, 1024) : VISION_HEADS;
    m->window = own ? config_int(&c, "window_size", 112, QWEN_PATCH * QWEN_MERGE, 1 << 16) : 112;
    memcpy(m->full, released, sizeof released), m->n_full = COUNT(released);
    if (own && config_get(&c, "fullatt_block_indexes"))
        m->n_full = config_ints(&c, "fullatt_block_indexes", 0, 0, 999, 0, m->full, QWEN_FULL_MAX);
    if (c.failed) m->width = 0;
}

/* Sizes that the recording takes for granted. */
static kiln_status check_sizes(const opening *o, const char *path)
{
    const qwen_text *t = &o->q->text;
    const qwen_vision *v = &o->q->vision;
    if (!t->width || !v->width) return KILN_ERR_INVALID; /* the configuration has said why */
    if (t->width == t->heads * t->head && t->kv_heads && t->heads % t->kv_heads == 0 && t->head % 2 == 0 &&
        t->section[0] + t->section[1] + t->section[2] == t->head / 2 && v->width % (v->heads * 4) == 0 &&
        v->window % (QWEN_PATCH * QWEN_MERGE) == 0 && v->out == t->width)
        return KILN_OK;
    return o->host->fail(o->ctx, KILN_ERR_UNSUPPORTED,
                         "%s: heads, sections of M-RoPE or window do not fit a Qwen2.5-VL whose text is %lld wide and "
                         "whose tower is %lld",
                         path, (long long)t->width, (long long)v->width);
}

static kiln_status open_tokenizer(const opening *o, const kiln_weights *set)
{
    static const char *const places[] = {"tokenizer/tokenizer.json", "processor/tokenizer.json", "tokenizer.json",
                                         "__metadata__/tokenizer.json"};
    kiln_tokenizer_file file = {.size = sizeof file, .name = "tokenizer.json"};
    const kiln_tokenizer_source source = {.size = sizeof source, .kind = "byte-bpe", .file = &file, .n_file = 1};
    qwen_clip *q = o->q;
    if (!(q->tokens = o->host->ability(KILN_TOKENIZER_ABILITY)))
        return o->host->fail(o->ctx, KILN_ERR_UNSUPPORTED, KILN_TOKENIZER_ABILITY " is not there");
    for (size_t i = 0; i < COUNT(places) && !file.data; i++) file.data = o->w->text(set, places[i], &file.bytes);
    if (!file.data)
        return o->host->fail(o->ctx, KILN_ERR_INVALID,
                             "this Qwen2.5-VL has no tokenizer; put the release's tokenizer.json into the folder "
                             "tokenizer beside text_encoder, or its text into the file's metadata under that name");
    if (!(q->tokenizer = q->tokens->open(o->ctx, &source))) return KILN_ERR_INVALID;
    q->image_token = q->tokens->special(q->tokenizer, "<|image_pad|>");
    if (q->image_token < 0 || q->tokens->count(q->tokenizer) > q->text.vocabulary)
        return o->host->fail(o->ctx, KILN_ERR_INVALID,
                             "the tokenizer has ids up to %d and %s <|image_pad|>, the encoder's table has %lld rows; "
                             "they do not belong together",
                             q->tokens->count(q->tokenizer) - 1, q->image_token < 0 ? "no" : "a",
                             (long long)q->text.vocabulary);
    for (int i = 0; i < 2; i++) {
        kiln_encoding e;
        TRY(encode_text(q, o->host, o->ctx, system_text[i], &e));
        q->dropped[i] = (int64_t)e.n;
        q->tokens->encoding_free(&e);
    }
    return KILN_OK;
}

static void fill_encoder(qwen_clip *q)
{
    const qwen_text *t = &q->text;
    const qwen_vision *v = &q->vision;
    char full[QWEN_FULL_MAX * 5 + 1] = ""; /* ".999" at most */
    for (size_t i = 0, n = 0; i < v->n_full; i++)
        n += (size_t)snprintf(full + n, sizeof full - n, ".%lld", (long long)v->full[i]);
    snprintf(q->family, sizeof q->family, "example-qwen2.5-vl/%lld/%lld.%lld.%lld/%g/%g/%lld.%lld%s/%lldx%lld@%lld",
             (long long)t->heads, (long long)t->section[0], (long long)t->section[1], (long long)t->section[2],
             t->theta, (double)t->eps, (long long)v->heads, (long long)v->window, full, (long long)q->picture.rows,
             (long long)q->picture.columns, (long long)q->picture.at);
    snprintf(q->identity, sizeof q->identity, "qwen/%lld", (long long)q->dropped[has_picture(q)]);
    q->encoder = (kiln_text_encoder){.size = sizeof q->encoder,
                                     .flags = KILN_TEXT_VECTORS,
                                     .family = q->family,
                                     .self = q,
                                     .width = t->width,
                                     .layers = (int32_t)t->layers,
                                     .default_layer = -1,
                                     .min_length = q->dropped[0] + 1,
                                     .tokenise = tokenise,
                                     .record = record,
                                     .architecture = "Qwen2.5-VL",
                                     .precisions = 1u << KILN_F32 | 1u << KILN_BF16};
}

static void clip_free(void *p)
{
    qwen_clip *q = p;
    if (q->tokenizer) q->tokens->unref(q->tokenizer);
    free(q);
}

static kiln_status read_file(const opening *o, const kiln_weights *set, const checkpoint_layout *at)
{
    const char *path = at->config ? at->config : "__metadata__/config";
    config c = config_open(o->host, o->ctx, set, path);
    read_text(o, &c), read_vision(o, &c);
    config_close(&c);
    if (c.failed) return KILN_ERR_INVALID;
    TRY(check_sizes(o, path));
    return open_tokenizer(o, set);
}

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    return checkpoint_find(w, set, layouts, COUNT(layouts)) ? 90 : 0;
}

static kiln_value *open_clip(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    opening o = {.host = host, .ctx = ctx, .w = host->ability(KILN_WEIGHTS_ABILITY)};
    const checkpoint_layout *at = checkpoint_find(o.w, set, layouts, COUNT(layouts));
    kiln_value *value = NULL;
    if (!at || !(o.q = calloc(1, sizeof *o.q))) return NULL;
    if ((o.view = view(host, ctx, set, at)) && read_file(&o, set, at) == KILN_OK) {
        fill_encoder(o.q);
        o.q->row = (kiln_clip_encoder){.size = sizeof o.q->row,
                                       .name = "qwen25_7b",
                                       .encoder = &o.q->encoder,
                                       .weights = o.view,
                                       .tokenizer = o.q->tokenizer};
        value = models->clip_new(ctx, &(kiln_clip){.size = sizeof(kiln_clip),
                                                   .n_encoder = 1,
                                                   .encoder = &o.q->row,
                                                   .combine = combine,
                                                   .self = o.q,
                                                   .identity = o.q->identity,
                                                   .owned = o.q,
                                                   .release = clip_free});
    }
    if (!value) clip_free(o.q);
    o.w->unref(o.view);
    return value;
}

static const char *const clip_types[] = {"qwen_image", NULL}; /* CLIPLoader's */
const kiln_model_family qwen_clip_family = {.size = sizeof qwen_clip_family,
                                            .kind = KILN_FAMILY_TEXT_ENCODER,
                                            .name = "example-qwen2.5-vl",
                                            .doc = "Qwen2.5-VL, which reads text and sees pictures",
                                            .detect = detect,
                                            .open = open_clip,
                                            .type = clip_types};
