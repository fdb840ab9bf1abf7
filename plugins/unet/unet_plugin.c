/* unet_plugin.c - the entry table of the unet plugin: the denoisers of the Stable Diffusion family. */
#include "unet_family.h"

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *api = host->ability(KILN_MODEL_ABILITY);
    return api ? api->register_family(&unet_family) : KILN_ERR_UNSUPPORTED;
}

KILN_PLUGIN_WITHOUT_NODES("org.kiln.unet", KILN_PLUGIN_VERSION, "MIT", open_plugin);
