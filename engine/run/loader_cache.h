/* loader_cache.h - what loaders made, kept from one batch of rows to the next: models are objects, which the store on
 * disk cannot keep. The least recently used one goes when there are more than a few. Any thread. */
#ifndef KILN_RUN_LOADER_CACHE_H
#define KILN_RUN_LOADER_CACHE_H

#include "workflow/check.h"

#include <pthread.h>

enum { LOADERS_KEPT = 4 };

typedef struct {
    digest key;
    kiln_value **out;
    uint32_t n;
    uint64_t used;
} kept_loader;

typedef struct {
    kept_loader kept[LOADERS_KEPT];
    uint64_t clock;
    pthread_mutex_t lock;
} loader_cache;

void loader_cache_init(loader_cache *c);
void loader_cache_free(loader_cache *c);
/* 1: out holds references to what a node of this key made, whose files are still what they were. */
int loader_cache_take(loader_cache *c, const graph_node *g, kiln_value **out);
/* Keeps the outputs when there is an object among them. They are published. */
void loader_cache_keep(loader_cache *c, const graph_node *g, kiln_value *const *out);

#endif
