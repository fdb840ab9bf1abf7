/* flow.h - the rows of flow.c. */
#ifndef KILN_NODES_FLOW_H
#define KILN_NODES_FLOW_H

#include "kiln/plugin.h"

extern const kiln_node node_switch, node_create_list;

#endif
