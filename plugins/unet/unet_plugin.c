/* unet_plugin.c - the entry table of the unet plugin: SD1.x's denoiser, and the nodes that load checkpoints. */
#include "loaders.h"
#include "unet_family.h"

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *api = host->ability(KILN_MODEL_ABILITY);
    return api ? api->register_family(&unet_family) : KILN_ERR_UNSUPPORTED;
}

KILN_PLUGIN_OPEN("org.kiln.unet", KILN_PLUGIN_VERSION, "MIT", open_plugin, &node_checkpoint_loader, &node_unet_loader,
                 &node_clip_loader, &node_vae_loader, &node_diffusers_loader);
