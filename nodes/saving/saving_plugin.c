/* saving_plugin.c - the entry table of the saving plugin: nodes that write models into files. */
#include "save_nodes.h"

KILN_PLUGIN("org.kiln.saving", KILN_PLUGIN_VERSION, "MIT", &node_checkpoint_save, &node_model_save, &node_clip_save,
            &node_vae_save);
