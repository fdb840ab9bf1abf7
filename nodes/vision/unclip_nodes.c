/* unclip_nodes.c - unCLIPConditioning, which shows a picture to an unCLIP, and unCLIPCheckpointLoader: a checkpoint's
 * denoiser, text encoder, autoencoder and vision encoder, by kiln.loading/1. What is not in the file is a fault only
 * where the workflow takes it.
 */
#include "kiln/kit.h"
#include "kiln/loading.h"
#include "kiln/model.h"
#include "vision_nodes.h"

enum { PARTS = 4 };

typedef struct {
    const char *path;
} loader_params;

static const char *const kinds[PARTS] = {KILN_FAMILY_DENOISER, KILN_FAMILY_TEXT_ENCODER, KILN_FAMILY_AUTOENCODER,
                                         KILN_FAMILY_VISION};
static const char *const missing[PARTS] = {
    "a denoiser in it, and MODEL is used; load one with UNETLoader",
    "a text encoder in it, and CLIP is used; load one with CLIPLoader",
    "an autoencoder in it, and VAE is used; load one with VAELoader",
    "a vision encoder in it, and CLIP_VISION is used; load one with CLIPVisionLoader",
};
static const kiln_port all_out[PARTS] = {
    {.name = "MODEL", .type = "MODEL", .doc = "The denoiser."},
    {.name = "CLIP", .type = "CLIP", .doc = "The text encoder."},
    {.name = "VAE", .type = "VAE", .doc = "The autoencoder."},
    {.name = "CLIP_VISION", .type = "CLIP_VISION", .doc = "The vision encoder."},
};
static const kiln_param loader_param[] = {
    {.name = "ckpt_name",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(loader_params, path),
     .from = "checkpoints",
     .doc = "A .safetensors file or a folder in diffusers' layout, with a vision encoder in it."}};

static kiln_status load(const kiln_call *c)
{
    const char *path = ((const loader_params *)c->params)->path;
    const kiln_load what = {.size = sizeof what, .flags = KILN_LOAD_OPTIONAL, .path = path, .kind = kinds, .n = PARTS};
    TRY(kiln_load_parts(c, &what, c->out));
    for (size_t i = 0; i < PARTS; i++)
        if (!c->out[i] && (!KILN_HAS(kiln_call, c, wanted) || (c->wanted >> i & 1)))
            return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                                 "%s: no loaded plugin knows %s (`kiln inspect` shows what is in the file)", path,
                                 missing[i]);
    return KILN_OK;
}

const kiln_node node_unclip_checkpoint_loader = {
    KIT_NODE("unCLIPCheckpointLoader", "unCLIPCheckpointLoader", "loaders",
             "Opens a checkpoint with a vision encoder: a denoiser that is shown pictures."),
    KILN_ARRAY(out, all_out),
    KIT_PARAMS(loader_params, loader_param),
    .run = load,
};

/* ---- unCLIPConditioning ---- */

typedef struct {
    double strength, noise_augmentation;
} conditioning_params;

static const kiln_port conditioning_in[] = {
    {.name = "conditioning", .type = "CONDITIONING", .doc = "The prompt."},
    {.name = "clip_vision_output", .type = "CLIP_VISION_OUTPUT", .doc = "The pictures, encoded."},
};
static const kiln_port conditioning_out[] = {
    {.name = "CONDITIONING", .type = "CONDITIONING", .doc = "The prompt with the pictures, beside those it had."}};
static const kiln_param conditioning_param[] = {
    KIT_FLOAT(conditioning_params, strength, 1, -10, 10, 0.01, "Times this the pictures are seen; 0: not at all."),
    KIT_FLOAT(conditioning_params, noise_augmentation, 0, 0, 1, 0.01,
              "How much noise is put on them: how freely they are followed."),
};

/* A map of what is shown, as the denoiser reads it. */
static kiln_status make_item(const kiln_call *c, kiln_value **out)
{
    const kiln_value_api *v = kit_values(c);
    const conditioning_params *p = c->params;
    if (!(*out = v->new_map(c->ctx))) return KILN_ERR_NOMEM;
    TRY(v->map_set(*out, "clip_vision_output", c->in[1]));
    TRY(kit_set(c, *out, "strength", v->new_float(c->ctx, p->strength)));
    return kit_set(c, *out, "noise_augmentation", v->new_float(c->ctx, p->noise_augmentation));
}

/* Puts the item behind those that the entry has. */
static kiln_status add_item(const kiln_call *c, kiln_value *entry, kiln_value *item)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_value *before = v->map_get(entry, "unclip_conditioning");
    kiln_value *list = before ? v->list_copy(c->ctx, before) : v->new_list(c->ctx);
    if (!list) return KILN_ERR_NOMEM;
    kiln_status status = v->list_push(list, item);
    if (status == KILN_OK) status = v->map_set(entry, "unclip_conditioning", list);
    c->host->unref(list);
    return status;
}

static kiln_status add_to_all(const kiln_call *c, kiln_value *item, kiln_value *out)
{
    const kiln_value_api *v = kit_values(c);
    for (size_t i = 0; i < v->count(c->in[0]); i++) {
        kiln_value *entry = v->map_copy(c->ctx, v->list_at(c->in[0], i));
        kiln_status status = entry ? add_item(c, entry, item) : KILN_ERR_NOMEM;
        if (status == KILN_OK) status = v->list_push(out, entry);
        c->host->unref(entry);
        TRY(status);
    }
    return KILN_OK;
}

static kiln_status condition(const kiln_call *c)
{
    kiln_value *item = NULL, *out;
    if (((const conditioning_params *)c->params)->strength == 0) {
        c->out[0] = c->host->ref(c->in[0]);
        return KILN_OK;
    }
    if (!(out = kit_values(c)->new_list(c->ctx))) return KILN_ERR_NOMEM;
    kiln_status status = make_item(c, &item);
    if (status == KILN_OK) status = add_to_all(c, item, out);
    c->host->unref(item);
    if (status == KILN_OK)
        c->out[0] = out;
    else
        c->host->unref(out);
    return status;
}

const kiln_node node_unclip_conditioning = {
    KIT_NODE("unCLIPConditioning", "unCLIPConditioning", "conditioning", "Shows a picture to an unCLIP."),
    KILN_ARRAY(in, conditioning_in),
    KILN_ARRAY(out, conditioning_out),
    KIT_PARAMS(conditioning_params, conditioning_param),
    .run = condition,
};
