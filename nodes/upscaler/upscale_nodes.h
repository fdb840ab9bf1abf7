/* upscale_nodes.h - the rows of the upscaler plugin. */
#ifndef KILN_NODES_UPSCALE_NODES_H
#define KILN_NODES_UPSCALE_NODES_H

#include "kiln/plugin.h"

extern const kiln_node node_upscale_model_loader;     /* upscale_loader.c */
extern const kiln_node node_image_upscale_with_model; /* upscale_image.c  */

#endif
