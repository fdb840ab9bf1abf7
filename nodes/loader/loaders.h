/* loaders.h - the rows of loaders.c. */
#ifndef KILN_NODES_LOADERS_H
#define KILN_NODES_LOADERS_H

#include "kiln/plugin.h"

extern const kiln_node node_checkpoint_loader, node_unet_loader, node_vae_loader, node_diffusers_loader;

#endif
