/* text_encode_sdxl.h - the rows of text_encode_sdxl.c. */
#ifndef KILN_NODES_TEXT_ENCODE_SDXL_H
#define KILN_NODES_TEXT_ENCODE_SDXL_H

#include "kiln/plugin.h"

extern const kiln_node node_clip_text_encode_sdxl, node_clip_text_encode_sdxl_refiner;

#endif
