/* ip_adapter_plugin.c - the entry table: one family of the kind "vision", and the nodes. */
#include "ip_adapter.h"

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    return models ? models->register_family(&clip_vision_family) : KILN_ERR_UNSUPPORTED;
}

KILN_PLUGIN_OPEN("org.example.ip-adapter", "1.0.0", "MIT", open_plugin, &node_vision_loader, &node_vision_encode,
                 &node_ip_adapter, &node_attention_is_v, &node_further_keys, &node_leave_out, &node_stronger_backbone);
