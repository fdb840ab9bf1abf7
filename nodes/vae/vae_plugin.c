/* vae_plugin.c - the entry table of the vae plugin: Stable Diffusion's autoencoders, VAEDecode, VAEEncode and their
 * relatives. */
#include "kiln/kit.h"
#include "taesd_family.h"
#include "vae_family.h"
#include "vae_nodes.h"

static const kiln_vae_api api_of_vaes = {.size = sizeof api_of_vaes, .decode = vae_decode, .encode = vae_encode};

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *api = host->ability(KILN_MODEL_ABILITY);
    if (!api || !KILN_HAS(kiln_host, host, provide)) return KILN_ERR_UNSUPPORTED;
    TRY(host->provide(KILN_VAE_ABILITY, &api_of_vaes));
    TRY(api->register_family(&vae_family));
    return api->register_family(&taesd_family);
}

KILN_PLUGIN_OPEN("org.kiln.vae", KILN_PLUGIN_VERSION, "MIT", open_plugin, &node_vae_decode, &node_vae_encode,
                 &node_vae_decode_tiled, &node_vae_encode_tiled, &node_vae_encode_inpaint, &node_inpaint_conditioning,
                 &node_instruct_conditioning);
