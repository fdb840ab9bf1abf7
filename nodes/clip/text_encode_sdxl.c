/* text_encode_sdxl.c - CLIPTextEncodeSDXL and CLIPTextEncodeSDXLRefiner: prompts, and the numbers that SDXL was trained
 * to look at, in one CONDITIONING. */
#include "text_encode_sdxl.h"

#include "encode_text.h"
#include "kiln/kit.h"
#include "prompt.h"

enum { SIDE_MAX = 16384 };

static const kiln_port clip_in[] = {{.name = "clip", .type = "CLIP", .doc = "The text encoders."}};
static const kiln_port conditioning_out[] = {
    {.name = "CONDITIONING", .type = "CONDITIONING", .doc = "What the sampler is steered by."},
};
#define ENCODING(type_, title_, doc_)                                                                                  \
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, type_, title_,    \
                   "conditioning", doc_)
#define PROMPT(struct_, field_, doc_)                                                                                  \
    {                                                                                                                  \
        .name = #field_, .type = KILN_P_STRING, .flags = KILN_PARAM_REQUIRED | KILN_PARAM_MULTILINE,                   \
        .offset = offsetof(struct_, field_), .doc = doc_                                                               \
    }

/* ---- entries with numbers ---- */

typedef struct {
    const char *key;
    kiln_value *value; /* a reference; NULL: no memory */
} number;

/* Sets the numbers, whose references are used up, in a copy of the entry and adds it to the list. */
static kiln_status add_entry(const kiln_call *c, const kiln_value *from, const number *n, size_t count,
                             kiln_value *list)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *entry = v->map_copy(c->ctx, from);
    kiln_status status = entry ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; i < count; i++) {
        if (status == KILN_OK)
            status = kit_set(c, entry, n[i].key, n[i].value);
        else
            c->host->unref(n[i].value);
    }
    if (status == KILN_OK) status = v->list_push(list, entry);
    c->host->unref(entry);
    return status;
}

/* What the encoders make of the prompts is one entry; the numbers go into it. */
static kiln_status encode(const kiln_call *c, const kiln_prompt *text, size_t n_text, const number *n, size_t count)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *plain = NULL, *list = NULL;
    kiln_status status = text_api.encode(c, c->in[0], text, n_text, &plain);
    if (status == KILN_OK && !(list = v->new_list(c->ctx))) status = KILN_ERR_NOMEM;
    if (status == KILN_OK)
        status = add_entry(c, v->list_at(plain, 0), n, count, list);
    else
        for (size_t i = 0; i < count; i++) c->host->unref(n[i].value);
    c->host->unref(plain);
    if (status == KILN_OK)
        c->out[0] = list;
    else
        c->host->unref(list);
    return status;
}

static number whole(const kiln_call *c, const char *key, int64_t value)
{
    return (number){key, kit_values(c)->new_int(c->ctx, value)};
}

/* ---- CLIPTextEncodeSDXL ---- */

typedef struct {
    int64_t width, height, crop_w, crop_h, target_width, target_height;
    const char *text_g, *text_l;
} sdxl_params;

#define PIXELS(struct_, field_, default_, doc_) KIT_INT(struct_, field_, default_, 0, SIDE_MAX, doc_)
static const kiln_param sdxl_param[] = {
    PIXELS(sdxl_params, width, 1024, "Width of the pictures that this one shall look like; small ones are blurred."),
    PIXELS(sdxl_params, height, 1024, "Height of the pictures that this one shall look like."),
    PIXELS(sdxl_params, crop_w, 0, "What was cut off those at the left; 0 centres the object."),
    PIXELS(sdxl_params, crop_h, 0, "What was cut off those at the top."),
    PIXELS(sdxl_params, target_width, 1024, "Width of this picture."),
    PIXELS(sdxl_params, target_height, 1024, "Height of this picture."),
    PROMPT(sdxl_params, text_g, "The prompt for OpenCLIP bigG, of which the pooled vector is made too."),
    PROMPT(sdxl_params, text_l, "The prompt for CLIP L; mostly the same."),
};

static kiln_status sdxl_run(const kiln_call *c)
{
    const sdxl_params *p = c->params;
    const kiln_prompt text[] = {{.size = sizeof *text, .encoder = "g", .text = p->text_g},
                                {.size = sizeof *text, .encoder = "l", .text = p->text_l}};
    const number n[] = {
        whole(c, "width", p->width),
        whole(c, "height", p->height),
        whole(c, "crop_w", p->crop_w),
        whole(c, "crop_h", p->crop_h),
        whole(c, "target_width", p->target_width),
        whole(c, "target_height", p->target_height),
    };
    return encode(c, text, COUNT(text), n, COUNT(n));
}

static void names_of_both(const void *params, const kiln_file_names *to)
{
    const sdxl_params *p = params;
    prompt_names_files(p->text_g, "text_g", to);
    prompt_names_files(p->text_l, "text_l", to);
}

const kiln_node node_clip_text_encode_sdxl = {
    ENCODING("CLIPTextEncodeSDXL", "CLIP Text Encode (SDXL)",
             "Encodes a prompt for each of SDXL's text encoders, with the sizes it was trained to look at."),
    KILN_ARRAY(in, clip_in),
    KILN_ARRAY(out, conditioning_out),
    KIT_PARAMS(sdxl_params, sdxl_param),
    .run = sdxl_run,
    .names_files = names_of_both,
};

/* ---- CLIPTextEncodeSDXLRefiner ---- */

typedef struct {
    double ascore;
    int64_t width, height;
    const char *text;
} refiner_params;

static const kiln_param refiner_param[] = {
    KIT_FLOAT(refiner_params, ascore, 6, 0, 1000, 0.01,
              "How beautiful people found such pictures, 1 to 10: 6 for what it should be like, 2.5 for what not."),
    PIXELS(refiner_params, width, 1024, "Width of the pictures that this one shall look like."),
    PIXELS(refiner_params, height, 1024, "Height of the pictures that this one shall look like."),
    PROMPT(refiner_params, text, "The prompt. (x:1.2) weighs x, (x) is (x:1.1); any length."),
};

static kiln_status refiner_run(const kiln_call *c)
{
    const refiner_params *p = c->params;
    const kiln_prompt text = {.size = sizeof text, .text = p->text};
    const number n[] = {
        {"aesthetic_score", kit_values(c)->new_float(c->ctx, p->ascore)},
        whole(c, "width", p->width),
        whole(c, "height", p->height),
    };
    return encode(c, &text, 1, n, COUNT(n));
}

static void names_embeddings(const void *params, const kiln_file_names *to)
{
    prompt_names_files(((const refiner_params *)params)->text, "text", to);
}

const kiln_node node_clip_text_encode_sdxl_refiner = {
    ENCODING("CLIPTextEncodeSDXLRefiner", "CLIP Text Encode (SDXL Refiner)",
             "Encodes a prompt for SDXL's refiner, with an aesthetic score."),
    KILN_ARRAY(in, clip_in),
    KILN_ARRAY(out, conditioning_out),
    KIT_PARAMS(refiner_params, refiner_param),
    .run = refiner_run,
    .names_files = names_embeddings,
};
