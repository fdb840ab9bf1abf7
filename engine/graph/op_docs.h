/* op_docs.h - what `kiln ops` and docs/ops.md say of each op that a plugin can record. Layer: graph. */
#ifndef KILN_GRAPH_OP_DOCS_H
#define KILN_GRAPH_OP_DOCS_H

#include "graph/op.h"

typedef struct {
    op_kind kind;
    const char *group; /* "products"                                     */
    const char *name;  /* of kiln_ops' member                            */
    const char *shapes, *formula;
    const char *used; /* who records it: families that are there, or that it is for */
} op_doc;

const op_doc *op_doc_at(size_t i); /* NULL: past the last */

#endif
