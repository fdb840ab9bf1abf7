/* flow_plugin.c - the entry table of the flow plugin. */
#include "flow.h"

KILN_PLUGIN("org.kiln.flow", KILN_PLUGIN_VERSION, "MIT", &node_switch, &node_create_list);
