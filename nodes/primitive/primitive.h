/* primitive.h - the rows of primitive.c. */
#ifndef KILN_NODES_PRIMITIVE_H
#define KILN_NODES_PRIMITIVE_H

#include "kiln/plugin.h"

extern const kiln_node node_primitive_int, node_primitive_float, node_primitive_boolean, node_primitive_string,
    node_primitive_multiline, node_string_concatenate, node_string_replace;

#endif
