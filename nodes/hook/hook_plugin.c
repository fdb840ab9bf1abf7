/* hook_plugin.c - the entry table of the hook plugin: how strong hooks are on the way, and which conditionings and
 * CLIPs they are put on. What a hook does is its maker's (kiln/entry_hook.h). */
#include "hook_nodes.h"

KILN_PLUGIN("org.kiln.hook", KILN_PLUGIN_VERSION, "MIT", &node_set_hook_keyframes, &node_create_hook_keyframe,
            &node_create_hook_keyframes_interpolated, &node_create_hook_keyframes_from_floats, &node_combine_hooks2,
            &node_combine_hooks4, &node_combine_hooks8, &node_set_clip_hooks, &node_conditioning_set_properties,
            &node_conditioning_set_properties_and_combine, &node_pair_conditioning_set_properties,
            &node_pair_conditioning_set_properties_and_combine, &node_conditioning_set_default_combine,
            &node_pair_conditioning_set_default_combine, &node_pair_conditioning_combine,
            &node_conditioning_timesteps_range);
