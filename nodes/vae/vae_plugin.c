/* vae_plugin.c - the entry table of the vae plugin: SD1.x's autoencoder, VAEDecode, VAEEncode and their relatives. */
#include "vae_family.h"
#include "vae_nodes.h"

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *api = host->ability(KILN_MODEL_ABILITY);
    return api ? api->register_family(&vae_family) : KILN_ERR_UNSUPPORTED;
}

KILN_PLUGIN_OPEN("org.kiln.vae", KILN_PLUGIN_VERSION, "MIT", open_plugin, &node_vae_decode, &node_vae_encode,
                 &node_vae_decode_tiled, &node_vae_encode_tiled, &node_vae_encode_inpaint, &node_inpaint_conditioning,
                 &node_instruct_conditioning);
