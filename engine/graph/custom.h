/* custom.h - recording ops of plugins. Layer: graph. */
#ifndef KILN_GRAPH_CUSTOM_H
#define KILN_GRAPH_CUSTOM_H

#include "graph/custom_call.h"
#include "graph/program.h"

typedef struct {
    const kiln_op_kind *kind;
    const void *attributes;
    size_t attribute_bytes;
} custom_what;
kiln_t record_custom(recording *r, const custom_what *what, const kiln_t *x, uint32_t n, kiln_t *more);

#endif
