/* image_plugin.c - the entry table of the image plugin. */
#include "image.h"

KILN_PLUGIN("org.kiln.image", KILN_PLUGIN_VERSION, "MIT", &node_load_image, &node_save_image, &node_preview_image, &node_empty_image,
            &node_image_invert, &node_image_scale, &node_image_batch, &node_solid_mask, &node_invert_mask, &node_mask_to_image,
            &node_image_to_mask);
