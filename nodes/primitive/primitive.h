/* primitive.h - the rows of primitive.c. */
#ifndef KILN_NODES_PRIMITIVE_H
#define KILN_NODES_PRIMITIVE_H

#include "kiln/plugin.h"

extern const kiln_node node_primitive_int, node_primitive_float, node_primitive_boolean, node_primitive_string,
    node_primitive_multiline, node_string_concatenate, node_string_replace;

extern const kiln_node node_string_substring, node_string_trim, node_strip_whitespace, node_string_length,
    node_truncate_text, node_case_converter, node_text_to_lowercase, node_text_to_uppercase, node_string_contains,
    node_string_compare, node_add_text_prefix, node_add_text_suffix, node_replace_text;
extern const kiln_node node_not, node_and, node_or, node_number_convert, node_color_to_rgb_int, node_seed,
    node_preview_any, node_math_expression;
extern const kiln_node node_regex_match, node_regex_extract, node_regex_replace, node_resolution_selector,
    node_json_extract_string, node_string_format;
extern const kiln_node node_primitive_bounding_box, node_custom_combo; /* box_and_combo.c */

#endif
