/* lora.h - the rows of lora.c. */
#ifndef KILN_NODES_LORA_H
#define KILN_NODES_LORA_H

#include "kiln/plugin.h"

extern const kiln_node node_lora_loader, node_lora_loader_model_only;

#endif
