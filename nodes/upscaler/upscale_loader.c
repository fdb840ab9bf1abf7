/* upscale_loader.c - UpscaleModelLoader. */
#include "kiln/kit.h"
#include "kiln/loading.h"
#include "kiln/model.h"
#include "upscale_nodes.h"

typedef struct {
    const char *path;
} loader_params;

static const kiln_port upscaler_out[] = {{.name = "UPSCALE_MODEL", .type = "UPSCALE_MODEL", .doc = "The upscaler."}};
static const kiln_param loader_param[] = {{.name = "model_name",
                                           .type = KILN_P_FILE,
                                           .flags = KILN_PARAM_REQUIRED,
                                           .offset = offsetof(loader_params, path),
                                           .from = "upscale_models",
                                           .doc = "A .safetensors file with an ESRGAN, a Real-ESRGAN, a compact "
                                                  "network (SRVGG) or a SPAN."}};

static kiln_status load(const kiln_call *c)
{
    return kiln_load_one(c, ((const loader_params *)c->params)->path, KILN_FAMILY_UPSCALER, c->out);
}

const kiln_node node_upscale_model_loader = {
    KIT_NODE("UpscaleModelLoader", "Load Upscale Model", "loaders", "Opens a network that makes pictures larger."),
    KILN_ARRAY(out, upscaler_out), KIT_PARAMS(loader_params, loader_param), .run = load};
