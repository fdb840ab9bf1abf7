/* primitive_plugin.c - the entry table of the primitive plugin. */
#include "primitive.h"

KILN_PLUGIN("org.kiln.primitive", KILN_PLUGIN_VERSION, "MIT", &node_primitive_int, &node_primitive_float,
            &node_primitive_boolean, &node_primitive_string, &node_primitive_multiline, &node_string_concatenate,
            &node_string_replace);
