/* weight_slabs.h - small weights on the host, side by side in larger blocks: each by itself would be a mapping in pages
 * of 4 KB (SD1.5 in bf16 has 430 MB of them, 110,000 page faults), together they come in pages of 2 MB.
 */
#ifndef KILN_MEMORY_WEIGHT_SLABS_H
#define KILN_MEMORY_WEIGHT_SLABS_H

#include <stddef.h>

enum {
    WEIGHT_SLAB_LEAST = 64 << 10,
    WEIGHT_SLAB_MOST = 4 << 20
}; /* of a weight: what is smaller or larger stays apart */
enum { WEIGHT_SLAB_FIRST = 2 << 20, WEIGHT_SLAB_LARGEST = 32 << 20 }; /* of a slab: each is twice the one before */

/* Memory that is given back by weight_slab_free(): at a multiple of 64. What is freed in a slab goes back to the
 * system, page by page, and is not given out again; a slab without weights goes as a whole. NULL: there is no memory.
 * [any] */
void *weight_slab_alloc(size_t bytes);
void weight_slab_free(void *p); /* NULL is nothing */

/* For tests: slabs there are now. */
size_t weight_slabs_count(void);

#endif
