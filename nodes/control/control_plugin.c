/* control_plugin.c - the entry table of the control plugin: the nodes around ControlNets. */
#include "control_nodes.h"

KILN_PLUGIN("org.kiln.control", KILN_PLUGIN_VERSION, "MIT", &node_control_net_loader, &node_diff_control_net_loader,
            &node_control_net_apply, &node_control_net_apply_advanced, &node_set_union_control_net_type);
