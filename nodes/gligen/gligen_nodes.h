/* gligen_nodes.h - the rows of the gligen plugin. */
#ifndef KILN_NODES_GLIGEN_NODES_H
#define KILN_NODES_GLIGEN_NODES_H

#include "kiln/plugin.h"

extern const kiln_node node_gligen_loader, node_gligen_text_box_apply; /* gligen_nodes.c */

#endif
