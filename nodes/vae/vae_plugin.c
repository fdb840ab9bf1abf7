/* vae_plugin.c - the entry table of the vae plugin: Stable Diffusion's autoencoders, VAEDecode, VAEEncode and their
 * relatives. */
#include "kiln/kit.h"
#include "taesd_family.h"
#include "vae_family.h"
#include "vae_nodes.h"

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *api = host->ability(KILN_MODEL_ABILITY);
    if (!api) return KILN_ERR_UNSUPPORTED;
    TRY(api->register_family(&vae_family));
    return api->register_family(&taesd_family);
}

KILN_PLUGIN_OPEN("org.kiln.vae", KILN_PLUGIN_VERSION, "MIT", open_plugin, &node_vae_decode, &node_vae_encode,
                 &node_vae_decode_tiled, &node_vae_encode_tiled, &node_vae_encode_inpaint, &node_inpaint_conditioning,
                 &node_instruct_conditioning);
