/* lora_plugin.c - the entry table of the lora plugin: LoraLoader, LoraLoaderModelOnly, and what a file of patches is.
 */
#include "kiln/kit.h"
#include "lora.h"
#include "lora_family.h"

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *api = host->ability(KILN_MODEL_ABILITY);
    return api ? api->register_family(&lora_family) : KILN_ERR_UNSUPPORTED;
}

KILN_PLUGIN_OPEN("org.kiln.lora", KILN_PLUGIN_VERSION, "MIT", open_plugin, &node_lora_loader,
                 &node_lora_loader_model_only, &node_create_hook_lora, &node_create_hook_lora_model_only,
                 &node_create_hook_model_as_lora, &node_create_hook_model_as_lora_model_only,
                 &node_lora_loader_control_net, &node_lora_save);
