/* sampling.h - the rows of sampling.c. */
#ifndef KILN_NODES_SAMPLING_H
#define KILN_NODES_SAMPLING_H

#include "kiln/plugin.h"

extern const kiln_node node_ksampler, node_ksampler_advanced;

#endif
