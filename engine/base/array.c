/* array.c - see array.h. */
#include "base/array.h"

#include "base/checked.h"
#include "base/memory_alloc.h"

#include <assert.h>
#include <string.h>

enum { FIRST_CAPACITY = 8 };

int array_reserve(void *array, size_t *capacity, size_t n, size_t item_size)
{
    void *data;
    assert(array && capacity && item_size > 0);
    size_t wanted = *capacity ? *capacity : FIRST_CAPACITY, bytes;
    if (n <= *capacity) return 1;
    while (wanted < n)
        if (!checked_mul_size(wanted, 2, &wanted)) return 0;
    if (!checked_mul_size(wanted, item_size, &bytes)) return 0;
    memcpy(&data, array, sizeof data); /* *array is a T *: memcpy reads it without breaking aliasing rules */
    assert(data || *capacity == 0);
    data = mem_realloc(data, bytes);
    if (!data) return 0;
    memcpy(array, &data, sizeof data);
    *capacity = wanted;
    return 1;
}
