/* loaders.c - UNETLoader and VAELoader: one part of a file or folder each, by kiln.loading/1. */
#include "loaders.h"

#include "kiln/kit.h"
#include "kiln/model.h"
#include "load_part.h"

static kiln_status load_kind(const kiln_call *c, const char *path, const char *kind)
{
    const kiln_load what = {.size = sizeof what, .path = path, .kind = &kind, .n = 1};
    return loading_api.load(c, &what, c->out);
}

static const kiln_port vae_out[] = {{.name = "VAE", .type = "VAE", .doc = "The autoencoder."}};
typedef struct {
    const char *path;
} vae_params;

static const kiln_param vae_param[] = {
    LOADER_PATH(vae_params, "vae_name", "vae", "A .safetensors file or a folder with an autoencoder."),
};
static kiln_status load_vae(const kiln_call *c)
{
    return load_kind(c, ((const vae_params *)c->params)->path, KILN_FAMILY_AUTOENCODER);
}
const kiln_node node_vae_loader = {
    LOADER_NODE,
    .type = "VAELoader",
    .title = "Load VAE",
    .doc = "Opens an autoencoder.",
    KILN_ARRAY(out, vae_out),
    KIT_PARAMS(vae_params, vae_param),
    .run = load_vae,
};

/* The choices are ComfyUI's, so that its workflows are understood; what is not there yet is refused by name. */
static kiln_status refuse_choice(const kiln_call *c, const kiln_choice *choice, int32_t value, const char *why)
{
    while (choice->name && choice->value != value) choice++;
    return kit_at_param(c, c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, why, choice->name ? choice->name : "?"),
                        "weight_dtype");
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
    return dtype == 0
               ? KILN_OK
               : refuse_choice(
                     c, unet_dtype, dtype,
                     "weight_dtype '%s' means rounding weights to 8 bits, which kiln does not; use default: a file "
                     "that is stored in fp8 is read as it is, and --precision bf16 or f16 saves memory");
}
static kiln_status load_unet(const kiln_call *c)
{
    TRY(check_unet(c));
    return load_kind(c, ((const unet_params *)c->params)->path, KILN_FAMILY_DENOISER);
}
const kiln_node node_unet_loader = {
    LOADER_NODE,
    .type = "UNETLoader",
    .title = "Load Diffusion Model",
    .doc = "Opens a denoiser.",
    KILN_ARRAY(out, unet_out),
    KIT_PARAMS(unet_params, unet_param),
    .run = load_unet,
    .check = check_unet,
};
