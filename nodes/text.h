/* text.h - the rows of text.c, and how a text becomes conditioning. */
#ifndef KILN_NODES_TEXT_H
#define KILN_NODES_TEXT_H

#include "kiln/plugin.h"

extern const kiln_node node_clip_text_encode, node_clip_set_last_layer;

#endif
