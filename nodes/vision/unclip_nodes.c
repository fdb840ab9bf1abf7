/* unclip_nodes.c - unCLIPCheckpointLoader: a checkpoint's denoiser, text encoder, autoencoder and vision encoder, by
 * kiln.loading/1. What is not in the file is a fault only where the workflow takes it.
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
    const kiln_loading_api *loading = c->host->ability(KILN_LOADING_ABILITY);
    const char *path = ((const loader_params *)c->params)->path;
    const kiln_load what = {.size = sizeof what, .flags = KILN_LOAD_OPTIONAL, .path = path, .kind = kinds, .n = PARTS};
    if (!loading)
        return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                             "kiln.loading/1 is not there; load the plugin org.kiln.loader");
    TRY(loading->load(c, &what, c->out));
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
