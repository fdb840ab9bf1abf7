/* unet_plugin.c - the entry table of the unet plugin: the denoisers of the Stable Diffusion family, and the ControlNets
 * that are made of the same blocks. */
#include "controlnet_family.h"
#include "kiln/kit.h"
#include "unet_family.h"

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *api = host->ability(KILN_MODEL_ABILITY);
    if (!api) return KILN_ERR_UNSUPPORTED;
    TRY(api->register_family(&unet_family));
    return api->register_family(&controlnet_family);
}

KILN_PLUGIN_WITHOUT_NODES("org.kiln.unet", KILN_PLUGIN_VERSION, "MIT", open_plugin);
