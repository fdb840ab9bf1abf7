/* hook_nodes.h - the rows of the hook plugin's files, and what they share. */
#ifndef KILN_NODES_HOOK_NODES_H
#define KILN_NODES_HOOK_NODES_H

#include "kiln/kit.h"

/* A reference to both lists one after the other, each hook once; either may be NULL, and then it is the other. NULL: no
 * memory. */
kiln_value *hooks_joined(const kiln_call *c, kiln_value *a, kiln_value *b);

extern const kiln_node node_set_hook_keyframes, node_create_hook_keyframe, node_create_hook_keyframes_interpolated,
    node_create_hook_keyframes_from_floats;                                           /* keyframes.c */
extern const kiln_node node_combine_hooks2, node_combine_hooks4, node_combine_hooks8; /* combine_hooks.c */
extern const kiln_node node_set_clip_hooks;                                           /* clip_hook_node.c */
extern const kiln_node node_conditioning_set_properties, node_conditioning_set_properties_and_combine,
    node_pair_conditioning_set_properties, node_pair_conditioning_set_properties_and_combine,
    node_conditioning_set_default_combine, node_pair_conditioning_set_default_combine, node_pair_conditioning_combine,
    node_conditioning_timesteps_range; /* entry_properties.c */

#endif
