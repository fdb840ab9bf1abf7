/* conditioning_plugin.c - the entry table of the conditioning plugin. */
#include "conditioning.h"

KILN_PLUGIN("org.kiln.conditioning", KILN_PLUGIN_VERSION, "MIT", &node_conditioning_combine, &node_conditioning_average,
            &node_conditioning_concat, &node_conditioning_multiply, &node_conditioning_set_area,
            &node_conditioning_set_area_percentage, &node_conditioning_set_area_strength, &node_conditioning_set_mask,
            &node_conditioning_set_timestep_range, &node_conditioning_zero_out, &node_conditioning_set_model_range,
            &node_upscale_conditioning);
