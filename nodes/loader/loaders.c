/* loaders.c - CheckpointLoaderSimple, DiffusersLoader, UNETLoader, VAELoader: rows over kiln.loading/1. */
#include "loaders.h"

#include "kiln/kit.h"
#include "kiln/model.h"
#include "load_part.h"

/* ---- whole checkpoints ---- */

static kiln_status load_kinds(const kiln_call *c, const char *path, const char *const *kind, size_t n)
{
    const kiln_load what = {.size = sizeof what, .path = path, .kind = kind, .n = n};
    return loading_api.load(c, &what, c->out);
}

static kiln_status load_kind(const kiln_call *c, const char *path, const char *kind)
{
    return load_kinds(c, path, &kind, 1);
}

typedef struct {
    const char *path;
} path_params;

#define PATH_PARAM(name_, from_, doc_)                                                                                 \
    {                                                                                                                  \
        .name = name_, .type = KILN_P_FILE, .flags = KILN_PARAM_REQUIRED, .offset = offsetof(path_params, path),       \
        .from = from_, .doc = doc_                                                                                     \
    }
#define LOADER                                                                                                         \
    .size = sizeof(kiln_node), .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES,                    \
    .devices = KILN_CPU, .revision = 1, .category = "loaders"

static const kiln_port all_out[] = {
    {.name = "MODEL", .type = "MODEL", .doc = "The denoiser."},
    {.name = "CLIP", .type = "CLIP", .doc = "The text encoder."},
    {.name = "VAE", .type = "VAE", .doc = "The autoencoder."},
};

static kiln_status load_all(const kiln_call *c)
{
    static const char *const kinds[] = {KILN_FAMILY_DENOISER, KILN_FAMILY_TEXT_ENCODER, KILN_FAMILY_AUTOENCODER};
    return load_kinds(c, ((const path_params *)c->params)->path, kinds, COUNT(kinds));
}

static const kiln_param checkpoint_param[] = {
    PATH_PARAM("ckpt_name", "checkpoints",
               "A .safetensors file or a folder in diffusers' layout, below a checkpoints folder."),
};
const kiln_node node_checkpoint_loader = {
    LOADER,
    .type = "CheckpointLoaderSimple",
    .title = "Load Checkpoint",
    .doc = "Opens a checkpoint: its denoiser, text encoder and autoencoder.",
    KILN_ARRAY(out, all_out),
    KIT_PARAMS(path_params, checkpoint_param),
    .run = load_all,
};

static const kiln_param diffusers_param[] = {PATH_PARAM("model_path", "diffusers", "A folder in diffusers' layout.")};
const kiln_node node_diffusers_loader = {
    LOADER,
    .type = "DiffusersLoader",
    .title = "Load Diffusers Folder",
    .doc = "Opens a folder in diffusers' layout; CheckpointLoaderSimple does too.",
    KILN_ARRAY(out, all_out),
    KIT_PARAMS(path_params, diffusers_param),
    .run = load_all,
};

/* ---- parts ---- */

static const kiln_port vae_out[] = {{.name = "VAE", .type = "VAE", .doc = "The autoencoder."}};
static const kiln_param vae_param[] = {
    PATH_PARAM("vae_name", "vae", "A .safetensors file or a folder with an autoencoder."),
};
static kiln_status load_vae(const kiln_call *c)
{
    return load_kind(c, ((const path_params *)c->params)->path, KILN_FAMILY_AUTOENCODER);
}
const kiln_node node_vae_loader = {
    LOADER,
    .type = "VAELoader",
    .title = "Load VAE",
    .doc = "Opens an autoencoder.",
    KILN_ARRAY(out, vae_out),
    KIT_PARAMS(path_params, vae_param),
    .run = load_vae,
};

/* The choices are ComfyUI's, so that its workflows are understood; what is not there yet is refused by name. */
static kiln_status refuse_choice(const kiln_call *c, const kiln_choice *choice, int32_t value, const char *why)
{
    while (choice->name && choice->value != value) choice++;
    return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, why, choice->name ? choice->name : "?");
}

typedef struct {
    const char *path;
    int32_t dtype;
} unet_params;

static const kiln_choice unet_dtype[] = {
    {.name = "default", .doc = "as --precision says", .value = 0},
    {.name = "fp8_e4m3fn", .value = 1},
    {.name = "fp8_e4m3fn_fast", .value = 2},
    {.name = "fp8_e5m2", .value = 3},
    {0},
};
static const kiln_port unet_out[] = {{.name = "MODEL", .type = "MODEL", .doc = "The denoiser."}};
static const kiln_param unet_param[] = {
    {.name = "unet_name",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(unet_params, path),
     .from = "diffusion_models",
     .doc = "A .safetensors file or a folder with a denoiser."},
    {.name = "weight_dtype",
     .type = KILN_P_ENUM,
     .offset = offsetof(unet_params, dtype),
     KILN_CHOICES(unet_dtype),
     .doc = "How weights are kept."},
};
static kiln_status check_unet(const kiln_call *c)
{
    int32_t dtype = ((const unet_params *)c->params)->dtype;
    return dtype == 0 ? KILN_OK
                      : refuse_choice(c, unet_dtype, dtype,
                                      "weight_dtype '%s': kiln keeps no weights in 8 bits yet; use default, and "
                                      "--precision bf16 or f16");
}
static kiln_status load_unet(const kiln_call *c)
{
    TRY(check_unet(c));
    return load_kind(c, ((const unet_params *)c->params)->path, KILN_FAMILY_DENOISER);
}
const kiln_node node_unet_loader = {
    LOADER,
    .type = "UNETLoader",
    .title = "Load Diffusion Model",
    .doc = "Opens a denoiser.",
    KILN_ARRAY(out, unet_out),
    KIT_PARAMS(unet_params, unet_param),
    .run = load_unet,
    .check = check_unet,
};
