/* control_plugin.c - the entry table: two families of the kind "control", and the nodes around them. */
#include "control.h"

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    if (!models) return KILN_ERR_UNSUPPORTED;
    TRY(models->register_family(&controlnet_family));
    return models->register_family(&t2i_adapter_family);
}

KILN_PLUGIN_OPEN("org.example.control", "1.0.0", "MIT", open_plugin, &node_control_loader, &node_control_apply,
                 &node_control_apart);
