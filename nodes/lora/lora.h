/* lora.h - the rows of lora.c. */
#ifndef KILN_NODES_LORA_H
#define KILN_NODES_LORA_H

#include "kiln/plugin.h"

extern const kiln_node node_lora_loader, node_lora_loader_model_only, node_create_hook_lora,
    node_create_hook_lora_model_only, node_create_hook_model_as_lora, node_create_hook_model_as_lora_model_only,
    node_lora_loader_control_net, node_lora_save;

#endif
