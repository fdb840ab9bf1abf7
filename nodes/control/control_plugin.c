/* control_plugin.c - the entry table of the control plugin: T2I-Adapters, and the nodes around controls of any family.
 */
#include "control_nodes.h"
#include "t2i_family.h"

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *api = host->ability(KILN_MODEL_ABILITY);
    return api ? api->register_family(&t2i_family) : KILN_ERR_UNSUPPORTED;
}

KILN_PLUGIN_OPEN("org.kiln.control", KILN_PLUGIN_VERSION, "MIT", open_plugin, &node_control_net_loader,
                 &node_diff_control_net_loader, &node_control_net_apply, &node_control_net_apply_advanced,
                 &node_control_net_inpainting_alimama_apply, &node_set_union_control_net_type);
