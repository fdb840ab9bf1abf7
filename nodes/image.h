/* image.h - the rows of image.c and image_ops.c. */
#ifndef KILN_NODES_IMAGE_H
#define KILN_NODES_IMAGE_H

#include "kiln/plugin.h"

extern const kiln_node node_load_image, node_save_image, node_preview_image;
extern const kiln_node node_empty_image, node_image_invert, node_image_scale, node_image_batch, node_solid_mask, node_invert_mask,
    node_mask_to_image, node_image_to_mask;

#endif
