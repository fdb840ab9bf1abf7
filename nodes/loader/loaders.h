/* loaders.h - the rows of checkpoint.c and loaders.c, and what they have in common. */
#ifndef KILN_NODES_LOADERS_H
#define KILN_NODES_LOADERS_H

#include "kiln/plugin.h"

extern const kiln_node node_checkpoint_loader, node_unet_loader, node_vae_loader, node_diffusers_loader,
    node_config_loader;

#define LOADER_NODE                                                                                                    \
    .size = sizeof(kiln_node), .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES,                    \
    .devices = KILN_CPU, .revision = 1, .category = "loaders"
/* The parameter that names the file or folder: the struct's `path`. */
#define LOADER_PATH(struct_, name_, from_, doc_)                                                                       \
    {                                                                                                                  \
        .name = name_, .type = KILN_P_FILE, .flags = KILN_PARAM_REQUIRED, .offset = offsetof(struct_, path),           \
        .from = from_, .doc = doc_                                                                                     \
    }

#endif
