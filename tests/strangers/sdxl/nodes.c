/* nodes.c - what a workflow for SDXL needs beside kiln's own nodes, and the plugin's entry table.
 *
 *   SdxlTextEncode         a prompt for each encoder, and the sizes the picture shall be drawn for
 *   SdxlRefinerTextEncode  a prompt for g, and the aesthetic score
 *   SdxlRefine             one MODEL out of base and refiner: the refiner goes on from a share of the way
 *   SdxlBindRange          a CONDITIONING for one of the two alone
 */
#include "sdxl.h"

#include "kiln/sampling.h"

#include <stdio.h>
#include <stdlib.h>

static const kiln_port clip_in[] = {{.name = "clip", .type = "CLIP", .doc = "The text encoders."}};
static const kiln_port conditioning_out[] = {
    {.name = "CONDITIONING", .type = "CONDITIONING", .doc = "What the sampler is steered by."}};
#define ENCODING(type_, doc_)                                                                                          \
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, type_, type_,     \
                   "example", doc_)
#define TEXT(struct_, field_, doc_)                                                                                    \
    {                                                                                                                  \
        .name = #field_, .type = KILN_P_STRING, .flags = KILN_PARAM_MULTILINE, .offset = offsetof(struct_, field_),    \
        .def_str = "", .doc = (doc_)                                                                                   \
    }

/* ---- entries ---- */

typedef struct {
    const char *key;
    double value;
} number;

/* *out = the CONDITIONING with these numbers in each of its entries. What the caller was given is immutable: entries
 * are copied, their tensors are not. Takes the caller's reference to `from`. */
static kiln_status with_numbers(const kiln_call *c, kiln_value *from, const number *n, size_t count, kiln_value **out)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *list = v->new_list(c->ctx);
    kiln_status status = list ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < v->count(from); i++) {
        kiln_value *entry = v->map_copy(c->ctx, v->list_at(from, i));
        status = entry ? KILN_OK : KILN_ERR_NOMEM;
        for (size_t k = 0; status == KILN_OK && k < count; k++)
            status = kit_set(c, entry, n[k].key, v->new_float(c->ctx, n[k].value));
        if (status == KILN_OK) status = v->list_push(list, entry);
        c->host->unref(entry);
    }
    c->host->unref(from);
    if (status == KILN_OK)
        *out = list;
    else
        c->host->unref(list);
    return status;
}

static kiln_status encode(const kiln_call *c, const kiln_prompt *prompt, size_t n_prompt, const number *n, size_t count)
{
    const kiln_text_api *text = c->host->ability(KILN_TEXT_ABILITY);
    kiln_value *plain;
    if (!text) return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, "this kiln has no %s", KILN_TEXT_ABILITY);
    TRY(text->encode(c, c->in[0], prompt, n_prompt, &plain));
    return with_numbers(c, plain, n, count, &c->out[0]);
}

/* ---- SdxlTextEncode ---- */

typedef struct {
    const char *text_g, *text_l;
    int64_t width, height, crop_w, crop_h, target_width, target_height;
} sdxl_params;

#define PIXELS(field_, default_, doc_) KIT_INT(sdxl_params, field_, default_, 0, 1 << 20, doc_)
static const kiln_param sdxl_param[] = {
    TEXT(sdxl_params, text_g, "The prompt for g. (word:1.2) weighs a word, BREAK begins another 75 words."),
    TEXT(sdxl_params, text_l, "The prompt for l."),
    PIXELS(width, 1024, "Of the pictures this one shall look like."),
    PIXELS(height, 1024, "Of the pictures this one shall look like."),
    PIXELS(crop_w, 0, "What was cut off them at the left."),
    PIXELS(crop_h, 0, "What was cut off them above."),
    PIXELS(target_width, 0, "Of this picture; 0: as width."),
    PIXELS(target_height, 0, "Of this picture; 0: as height."),
};

/* How many chunks the CLIP's encoder of that name makes of a prompt; 0 where it has none. */
static kiln_status count_chunks(const kiln_call *c, const kiln_clip *clip, const char *name, const char *text,
                                uint32_t *out)
{
    *out = 0;
    for (uint32_t i = 0; i < clip->n_encoder; i++) {
        const kiln_clip_encoder *e = kiln_clip_encoder_at(clip, i);
        kiln_tokens tokens = {.size = sizeof tokens};
        if (strcmp(e->name, name) != 0) continue;
        TRY(e->encoder->tokenise(e->encoder, e->tokenizer, c->host, c->ctx, text, &tokens));
        *out = tokens.n_chunk;
    }
    return KILN_OK;
}

/* The text with as many further, empty chunks. */
static kiln_status fill_up(const kiln_call *c, const char **text, uint32_t chunks)
{
    static const char more[] = " BREAK";
    size_t n = strlen(*text), each = sizeof more - 1;
    char *longer = chunks ? c->host->scratch(c->ctx, n + chunks * each + 1, KILN_CPU) : NULL;
    if (!chunks) return KILN_OK;
    if (!longer) return KILN_ERR_NOMEM;
    memcpy(longer, *text, n);
    for (uint32_t i = 0; i < chunks; i++) memcpy(longer + n + i * each, more, each);
    longer[n + chunks * each] = 0;
    *text = longer;
    return KILN_OK;
}

static kiln_status sdxl_run(const kiln_call *c)
{
    const sdxl_params *p = c->params;
    const kiln_clip *clip = ((const kiln_model_api *)c->host->ability(KILN_MODEL_ABILITY))->clip(c->ctx, c->in[0]);
    kiln_prompt prompt[] = {{sizeof *prompt, "g", p->text_g}, {sizeof *prompt, "l", p->text_l}};
    number numbers[6] = {{"width", (double)p->width},
                         {"height", (double)p->height},
                         {"crop_w", (double)p->crop_w},
                         {"crop_h", (double)p->crop_h}};
    size_t n = 4;
    uint32_t g, l;
    if (!clip) return KILN_ERR_INVALID;
    TRY(count_chunks(c, clip, "g", p->text_g, &g));
    TRY(count_chunks(c, clip, "l", p->text_l, &l));
    if (g && l) TRY(fill_up(c, &prompt[g < l ? 0 : 1].text, g < l ? l - g : g - l)); /* their tokens lie side by side */
    /* What is left out is the model's to fill in (kiln_input_spec.fallback_from). */
    if (p->target_width) numbers[n++] = (number){"target_width", (double)p->target_width};
    if (p->target_height) numbers[n++] = (number){"target_height", (double)p->target_height};
    return encode(c, prompt, COUNT(prompt), numbers, n);
}

static const kiln_node sdxl_node = {ENCODING("SdxlTextEncode", "Encodes a prompt for each of SDXL's encoders."),
                                    KILN_ARRAY(in, clip_in), KILN_ARRAY(out, conditioning_out),
                                    KIT_PARAMS(sdxl_params, sdxl_param), .run = sdxl_run};

/* ---- SdxlRefinerTextEncode ---- */

typedef struct {
    const char *text;
    double score;
    int64_t width, height;
} refiner_params;

static const kiln_param refiner_param[] = {
    TEXT(refiner_params, text, "The prompt."),
    {.name = "aesthetic_score",
     .type = KILN_P_FLOAT,
     .offset = offsetof(refiner_params, score),
     .def = 6,
     .min = 0,
     .max = 1000,
     .step = 0.01,
     .doc = "6 for what the picture should be like, 2.5 for what it should not."},
    KIT_INT(refiner_params, width, 1024, 0, 1 << 20, "Of the pictures this one shall look like."),
    KIT_INT(refiner_params, height, 1024, 0, 1 << 20, "Of the pictures this one shall look like."),
};

static kiln_status refiner_run(const kiln_call *c)
{
    const refiner_params *p = c->params;
    const kiln_prompt prompt = {sizeof prompt, NULL, p->text};
    const number numbers[] = {
        {"width", (double)p->width}, {"height", (double)p->height}, {"aesthetic_score", p->score}};
    return encode(c, &prompt, 1, numbers, COUNT(numbers));
}

static const kiln_node refiner_node = {ENCODING("SdxlRefinerTextEncode", "Encodes a prompt for SDXL's refiner."),
                                       KILN_ARRAY(in, clip_in), KILN_ARRAY(out, conditioning_out),
                                       KIT_PARAMS(refiner_params, refiner_param), .run = refiner_run};

/* ---- SdxlRefine ---- */

typedef struct {
    double share;
} refine_params;

static const kiln_param refine_param[] = {
    {.name = "start",
     .type = KILN_P_FLOAT,
     .offset = offsetof(refine_params, share),
     .def = 0.8,
     .min = 0,
     .max = 1,
     .step = 0.01,
     .doc = "The share of the way from noise to picture where the refiner takes over."},
};
static const kiln_port refine_in[] = {
    {.name = "model", .type = "MODEL", .doc = "Begins."},
    {.name = "refiner", .type = "MODEL", .doc = "Ends. Its latents are of the same kind."},
};
static const kiln_port refine_out[] = {{.name = "MODEL", .type = "MODEL", .doc = "Both, one after the other."}};

/* What the new MODEL keeps. The struct of the first one stays where it is, because the value itself is its base. */
typedef struct {
    kiln_model_range range;
    kiln_value *refiner;
} pair;

static const kiln_host *the_host;

static void pair_release(void *owned)
{
    pair *p = owned;
    the_host->unref(p->refiner);
    free(p);
}

static kiln_status refine_run(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_sampling_api *s = c->host->ability(KILN_SAMPLING_ABILITY);
    const kiln_model *base = models->model(c->ctx, c->in[0]);
    double below;
    if (!s) return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, "this kiln has no %s", KILN_SAMPLING_ABILITY);
    if (!base || !models->model(c->ctx, c->in[1])) return KILN_ERR_INVALID;
    if (base->n_range)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "this MODEL has a refiner already; connect the base's own");
    TRY(s->percent_to_sigma(c, c->in[0], ((const refine_params *)c->params)->share, &below));
    pair *p = calloc(1, sizeof *p);
    if (!p) return KILN_ERR_NOMEM;
    p->refiner = c->host->ref(c->in[1]);
    p->range = (kiln_model_range){.size = sizeof p->range, .name = "refiner", .below = below, .model = p->refiner};
    kiln_model m = *base; /* its name, "base", is what entries for it are bound to */
    m.range = &p->range, m.n_range = 1;
    m.owned = p, m.release = pair_release, m.base = c->in[0];
    if (!(c->out[0] = models->model_new(c->ctx, &m))) return pair_release(p), KILN_ERR_INVALID;
    return KILN_OK;
}

static const kiln_node refine_node = {KIT_NODE("SdxlRefine", "SdxlRefine", "example", "Base and refiner as one MODEL."),
                                      KILN_ARRAY(in, refine_in), KILN_ARRAY(out, refine_out),
                                      KIT_PARAMS(refine_params, refine_param), .run = refine_run};

/* ---- SdxlBindRange ---- */

typedef struct {
    int32_t range;
} bind_params;

static const kiln_choice ranges[] = {{.name = "base", .value = 0}, {.name = "refiner", .value = 1}, {0}};
static const kiln_param bind_param[] = {KIT_ENUM(bind_params, range, ranges, 0, "Who reads the conditioning.")};
static const kiln_port bind_in[] = {{.name = "conditioning", .type = "CONDITIONING", .doc = "For one model alone."}};

static kiln_status bind_entry(const kiln_call *c, const kiln_value *from, const char *range, kiln_value *list)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *entry = v->map_copy(c->ctx, from);
    if (!entry) return KILN_ERR_NOMEM;
    kiln_status status = kit_set(c, entry, "model_range", v->new_string(c->ctx, range, strlen(range)));
    if (status == KILN_OK) status = v->list_push(list, entry);
    c->host->unref(entry);
    return status;
}

static kiln_status bind_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    const char *range = ranges[((const bind_params *)c->params)->range].name;
    kiln_value *list = v->new_list(c->ctx);
    kiln_status status = list ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < v->count(c->in[0]); i++)
        status = bind_entry(c, v->list_at(c->in[0], i), range, list);
    if (status == KILN_OK)
        c->out[0] = list;
    else
        c->host->unref(list);
    return status;
}

static const kiln_node bind_node = {KIT_NODE("SdxlBindRange", "SdxlBindRange", "example", "For base or refiner alone."),
                                    KILN_ARRAY(in, bind_in), KILN_ARRAY(out, conditioning_out),
                                    KIT_PARAMS(bind_params, bind_param), .run = bind_run};

/* ---- the plugin ---- */

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    if (!models) return KILN_ERR_UNSUPPORTED;
    the_host = host;
    TRY(models->register_family(&sdxl_base_family));
    TRY(models->register_family(&sdxl_refiner_family));
    return models->register_family(&sdxl_text_family);
}

KILN_PLUGIN_OPEN("org.example.sdxl", "1.0.0", "MIT", open_plugin, &sdxl_node, &refiner_node, &refine_node, &bind_node,
                 &sdxl_dump_node);
