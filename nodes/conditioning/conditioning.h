/* conditioning.h - the rows of this folder. */
#ifndef KILN_NODES_CONDITIONING_H
#define KILN_NODES_CONDITIONING_H

#include "kiln/plugin.h"

extern const kiln_node node_conditioning_combine, node_conditioning_average, node_conditioning_concat,
    node_conditioning_multiply, node_conditioning_set_area, node_conditioning_set_area_percentage,
    node_conditioning_set_area_strength, node_conditioning_set_mask, node_conditioning_set_timestep_range,
    node_conditioning_zero_out, node_conditioning_set_model_range;
extern const kiln_node node_upscale_conditioning; /* upscale_conditioning.c */

#endif
