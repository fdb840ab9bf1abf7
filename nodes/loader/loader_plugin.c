/* loader_plugin.c - the entry table of the loader plugin: nodes that open checkpoints and parts of them. */
#include "loaders.h"

KILN_PLUGIN("org.kiln.loader", KILN_PLUGIN_VERSION, "MIT", &node_checkpoint_loader, &node_unet_loader,
            &node_clip_loader, &node_vae_loader, &node_diffusers_loader);
