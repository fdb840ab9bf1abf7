/* image.h - the rows of image.c, image_save.c, image_ops.c, image_shape.c, image_mix.c, image_list.c, image_filters.c,
 * canny.c and mask.c. */
#ifndef KILN_NODES_IMAGE_H
#define KILN_NODES_IMAGE_H

#include "kiln/plugin.h"

extern const kiln_node node_load_image, node_load_image_mask, node_save_image, node_preview_image,
    node_load_image_output, node_mask_preview, node_save_animated_webp, node_save_animated_png;
extern const kiln_node node_empty_image, node_image_invert, node_image_batch, node_solid_mask, node_invert_mask,
    node_mask_to_image, node_image_to_mask;
extern const kiln_node node_image_scale, node_image_scale_by, node_image_scale_total, node_image_crop,
    node_image_crop_region, node_image_rotate, node_image_flip, node_image_pad, node_image_from_batch,
    node_repeat_image_batch, node_get_image_size, node_rebatch_images;
extern const kiln_node node_image_blend, node_image_composite, node_split_alpha, node_join_alpha;
extern const kiln_node node_crop_mask, node_mask_composite, node_feather_mask, node_grow_mask, node_threshold_mask,
    node_colour_to_mask;

extern const kiln_node node_canny, node_image_blur, node_image_sharpen, node_image_threshold, node_colour_blocks,
    node_line_art;

extern const kiln_node node_image_scale_max, node_resize_and_pad, node_resize_longer, node_resize_shorter,
    node_center_crop, node_image_stitch;
extern const kiln_node node_adjust_brightness, node_adjust_contrast, node_normalize_images, node_rgb_to_yuv,
    node_yuv_to_rgb, node_morphology, node_porter_duff;
extern const kiln_node node_batch_images, node_batch_masks, node_merge_image_lists, node_split_tiles, node_merge_tiles,
    node_image_compare, node_image_quantize, node_resize_image_mask, node_save_image_advanced;

#endif
