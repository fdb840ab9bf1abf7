/* explain.h - --explain: a table of a single run's nodes with their keys, memory and FLOPs, and what the memory budget
 * means. */
#ifndef KILN_RUN_EXPLAIN_H
#define KILN_RUN_EXPLAIN_H

#include "run/batch.h"

void explain_head(void);
/* A budget that is too small for what goes from node to node is KILN_ERR_NOMEM with the least that works. */
/* json: as one object. */
kiln_status explain_batch(machine *m, batch *b, int json, error *e);

#endif
