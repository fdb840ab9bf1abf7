/* loader_plugin.c - the entry table of the loader plugin: nodes that open checkpoints and parts of them, and
 * "kiln.loading/1". */
#include "load_part.h"
#include "loaders.h"

static kiln_status open_plugin(const kiln_host *host)
{
    if (!KILN_HAS(kiln_host, host, provide)) return KILN_ERR_UNSUPPORTED;
    return host->provide(KILN_LOADING_ABILITY, &loading_api);
}

KILN_PLUGIN_OPEN("org.kiln.loader", KILN_PLUGIN_VERSION, "MIT", open_plugin, &node_checkpoint_loader, &node_unet_loader,
                 &node_vae_loader, &node_diffusers_loader, &node_config_loader);
