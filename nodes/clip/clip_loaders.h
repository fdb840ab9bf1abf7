/* clip_loaders.h - the rows of clip_loaders.c. */
#ifndef KILN_NODES_CLIP_LOADERS_H
#define KILN_NODES_CLIP_LOADERS_H

#include "kiln/plugin.h"

extern const kiln_node node_clip_loader, node_dual_clip_loader;

#endif
