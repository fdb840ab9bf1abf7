/* gligen_plugin.c - the entry table of the gligen plugin: texts that are drawn in boxes. */
#include "gligen_family.h"
#include "gligen_nodes.h"
#include "kiln/kit.h"

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *api = host->ability(KILN_MODEL_ABILITY);
    return api ? api->register_family(&gligen_family) : KILN_ERR_UNSUPPORTED;
}

KILN_PLUGIN_OPEN("org.kiln.gligen", KILN_PLUGIN_VERSION, "MIT", open_plugin, &node_gligen_loader,
                 &node_gligen_text_box_apply);
