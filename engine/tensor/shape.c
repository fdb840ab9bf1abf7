/* shape.c - see shape.h. */
#include "tensor/shape.h"

#include "base/checked.h"

#include <stdio.h>
#include <string.h>

#define ELEMENTS_MAX (INT64_C(1) << 40)

int shape_make(shape *s, uint32_t rank, const int64_t *dim)
{
    if (rank > KILN_MAX_RANK) return 0;
    *s = (shape){.rank = rank};
    int64_t n = 1;
    for (uint32_t i = 0; i < rank; i++) {
        if (dim[i] < 0 || !checked_mul_i64(n, dim[i], &n) || n > ELEMENTS_MAX) return 0;
        s->dim[i] = dim[i];
    }
    return 1;
}

int64_t shape_count(const shape *s)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < s->rank; i++) n *= s->dim[i];
    return n;
}

int shape_equal(const shape *a, const shape *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, a->rank * sizeof a->dim[0]) == 0;
}

const char *shape_text(const shape *s, char buf[80])
{
    size_t n = 0;
    buf[n++] = '[';
    for (uint32_t i = 0; i < s->rank && n < 70; i++)
        n += (size_t)snprintf(buf + n, 78 - n, "%s%lld", i ? "," : "", (long long)s->dim[i]);
    if (n > 77) n = 77;
    buf[n++] = ']';
    buf[n] = '\0';
    return buf;
}
