/* control_nodes.h - the rows of the control plugin. */
#ifndef KILN_NODES_CONTROL_NODES_H
#define KILN_NODES_CONTROL_NODES_H

#include "kiln/plugin.h"

extern const kiln_node node_control_net_loader, node_diff_control_net_loader;   /* control_loader.c */
extern const kiln_node node_control_net_apply, node_control_net_apply_advanced, /* control_apply.c */
    node_control_net_inpainting_alimama_apply;
extern const kiln_node node_set_union_control_net_type; /* control_type.c   */

#endif
