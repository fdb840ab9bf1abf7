/* lora_plugin.c - the entry table of the lora plugin: LoraLoader, LoraLoaderModelOnly. */
#include "lora.h"

KILN_PLUGIN("org.kiln.lora", KILN_PLUGIN_VERSION, "MIT", &node_lora_loader, &node_lora_loader_model_only);
