/* batch.h - rows merged into one workflow, and what belongs to its nodes while they run: instances, texts for pictures,
 * files read. A single run is a batch of one row.
 */
#ifndef KILN_RUN_BATCH_H
#define KILN_RUN_BATCH_H

#include "base/file_list.h"
#include "run/machine.h"
#include "run/merge.h"
#include "run/rows.h"

#include <pthread.h>
#include <string.h>

enum { BATCH_ROWS = 64 };

typedef struct {
    open_row row[BATCH_ROWS];
    size_t n_row;
    size_t number[BATCH_ROWS]; /* of the rows, from 1; this and the next for the report */
    const char *label[BATCH_ROWS];
    merged merged;
    const node_info **info; /* [merged.all.n], and so the next four */
    void **instance;        /* made at the node's first call         */
    char **text;            /* by node and kind, made when asked for  */
    file_list **files;      /* of a call while it runs (node_files.h) */
    uint64_t *n_file;       /* how many files it has written          */
    pthread_mutex_t lock;   /* of `text` */
} batch;

/* Reads the rows again, gives their nodes keys, merges them, and gives them to the report and the store. Close it
 * also on failure; the batch stays where it is. */
kiln_status batch_open(batch *b, row_set *r, const uint32_t *todo, size_t n, machine *m, error *e);
void batch_close(batch *b);

static inline const graph_node *batch_node(const batch *b, size_t i) { return &b->merged.all.node[i]; }
/* 1: the check found the file, which is in the node's key. */
static inline int batch_names_file(const batch *b, size_t i, const char *folder, const char *name)
{
    const graph_node *g = batch_node(b, i);
    for (size_t k = 0; k < g->n_named; k++)
        if (strcmp(g->named[k].folder, folder) == 0 && strcmp(g->named[k].name, name) == 0) return 1;
    return 0;
}
static inline open_row *batch_row_of(batch *b, size_t node) { return &b->row[b->merged.part_of[node]]; }

/* "prompt", "parameters", "kiln": what a picture says of how it was made; of the node's own row. NULL: no such text, or
 * no memory. Any thread. */
const char *batch_text(batch *b, size_t node, const char *name);
/* The node's instance, made when there is none yet. One call of a node at a time. */
kiln_status batch_instance(batch *b, size_t node, void **out, error *e);

#endif
