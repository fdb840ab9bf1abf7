/* vision_plugin.c - the entry table of the vision plugin: what looks at pictures, and what steers a denoiser by them.
 */
#include "clip_vision_family.h"
#include "ip_adapter_family.h"
#include "kiln/kit.h"
#include "style_adapter.h"
#include "vision_encode.h"
#include "vision_nodes.h"

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *api = host->ability(KILN_MODEL_ABILITY);
    if (!api) return KILN_ERR_UNSUPPORTED;
    TRY(api->register_family(&clip_vision_family));
    TRY(api->register_family(&ip_adapter_family));
    TRY(api->register_family(&style_adapter_family));
    return vision_output_type(host);
}

KILN_PLUGIN_OPEN("org.kiln.vision", KILN_PLUGIN_VERSION, "MIT", open_plugin, &node_clip_vision_loader,
                 &node_clip_vision_encode, &node_unclip_checkpoint_loader, &node_unclip_conditioning,
                 &node_ip_adapter_model_loader, &node_ip_adapter, &node_ip_adapter_advanced, &node_style_model_loader,
                 &node_style_model_apply, &node_reference_only_simple);
