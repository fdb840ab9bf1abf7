/* load_part.h - "kiln.loading/1" (kiln/loading.h), which this plugin provides and its own nodes use. */
#ifndef KILN_NODES_LOAD_PART_H
#define KILN_NODES_LOAD_PART_H

#include "kiln/loading.h"

extern const kiln_loading_api loading_api;

#endif
