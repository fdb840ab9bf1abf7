/* key_set.h - a set of digests, each with a number: open addressing, never shrinks. Its owner locks it. Zeroed: empty.
 */
#ifndef KILN_CACHE_KEY_SET_H
#define KILN_CACHE_KEY_SET_H

#include "base/hash.h"

#include <stddef.h>

typedef struct {
    digest *key;
    uint32_t *tag; /* what goes with the key, plus 1; 0: a free place */
    size_t n, capacity;
} key_set;

/* 0: no memory. The tag of a key that is there already is replaced. */
int key_set_add(key_set *set, digest key, uint32_t tag);
int key_set_find(const key_set *set, digest key, uint32_t *tag); /* 1: it is there; tag may be NULL */
void key_set_clear(key_set *set);
void key_set_free(key_set *set);

#endif
