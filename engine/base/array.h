/* array.h - growable arrays: the owner's struct has a pointer, a count and a capacity.
 *
 *     if (!array_reserve(&list->item, &list->capacity, list->n + 1, sizeof *list->item)) return no memory;
 *     list->item[list->n++] = x;
 *
 * The owner frees the pointer with mem_free.
 */
#ifndef KILN_BASE_ARRAY_H
#define KILN_BASE_ARRAY_H

#include <stddef.h>

/* Gives *array a capacity of at least n items of item_size bytes. `array` is a T **; *array is NULL before the first
 * call. Capacity at least doubles; new items are not zeroed. 0: no memory or an overflow, and the array is unchanged.
 */
int array_reserve(void *array, size_t *capacity, size_t n, size_t item_size);

#endif
