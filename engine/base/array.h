/* array.h - arrays that grow: a pointer, a count and a capacity that stand side by side in their owner.
 *
 *     if (!array_reserve(&list->item, &list->capacity, list->n + 1, sizeof *list->item)) return no memory;
 *     list->item[list->n++] = x;
 *
 * The owner frees the pointer with mem_free.
 */
#ifndef KILN_BASE_ARRAY_H
#define KILN_BASE_ARRAY_H

#include <stddef.h>

/* Room for at least n items of item_size bytes in *array (a T **, passed as void *; NULL: none yet), at least doubled
 * when it grows; what is new is not cleared. 0: no memory, or a size that overflows; the array is as it was. */
int array_reserve(void *array, size_t *capacity, size_t n, size_t item_size);

#endif
