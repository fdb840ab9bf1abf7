/* save_nodes.h - the nodes of the saving plugin. */
#ifndef KILN_SAVING_SAVE_NODES_H
#define KILN_SAVING_SAVE_NODES_H

#include "kiln/plugin.h"

extern const kiln_node node_checkpoint_save, node_model_save, node_clip_save, node_vae_save;

#endif
