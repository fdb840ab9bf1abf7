/* checked.h - arithmetic on sizes that come from files, users and plugins: 1 when it fits, 0 when it overflows. */
#ifndef KILN_BASE_CHECKED_H
#define KILN_BASE_CHECKED_H

#include <stddef.h>
#include <stdint.h>

static inline int checked_add_size(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline int checked_mul_size(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline int checked_add_u64(uint64_t a, uint64_t b, uint64_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline int checked_mul_u64(uint64_t a, uint64_t b, uint64_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline int checked_add_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline int checked_mul_i64(int64_t a, int64_t b, int64_t *out) { return !__builtin_mul_overflow(a, b, out); }

/* Bytes of a tensor: the product of `rank` dimensions times `element` bytes. 0 also when a dimension is negative. */
static inline int checked_bytes(uint32_t rank, const int64_t *dim, size_t element, size_t *out)
{
    size_t n = element;
    for (uint32_t i = 0; i < rank; i++)
        if (dim[i] < 0 || !checked_mul_size(n, (size_t)dim[i], &n)) return 0;
    *out = n;
    return 1;
}

#endif
