/* text_encode.h - the rows of text_encode.c, and how a text becomes conditioning. */
#ifndef KILN_NODES_TEXT_ENCODE_H
#define KILN_NODES_TEXT_ENCODE_H

#include "kiln/plugin.h"

extern const kiln_node node_clip_text_encode, node_clip_set_last_layer;

#endif
