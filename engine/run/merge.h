/* merge.h - several checked workflows as one, so that one schedule runs them all.
 *
 * The parts' nodes stand one part after the other, and so they do in the order: since a run takes the first node that
 * may start, an earlier part is finished before a later one is begun. Nodes of equal keys in different parts run once
 * (run_setting.part_of), which is how the parts share models and prefixes.
 *
 * The merged nodes borrow types, parameters and document nodes from the parts, which have to outlive them.
 */
#ifndef KILN_RUN_MERGE_H
#define KILN_RUN_MERGE_H

#include "workflow/check.h"

typedef struct {
    workflow all;
    size_t *first;     /* [n]: index of each part's first node in `all` */
    uint32_t *part_of; /* [all.n]                                        */
    size_t n;
    arena memory;
} merged;

/* The parts have their keys. On failure m is empty. */
kiln_status workflow_merge(merged *m, const workflow *const *part, size_t n, error *e);
void merged_free(merged *m);

#endif
