/* binds.c - see binds.h. */
#include "backend/binds.h"

#include <string.h>

enum { BIND_1_0 = offsetof(kiln_bind, tensor) + sizeof(kiln_tensor), BIND_MAX = 65536 };

const kiln_bind *bind_at(const kiln_bind *b, size_t i)
{
    return (const kiln_bind *)(const void *)((const char *)b + i * b->size);
}

const kiln_bind *bind_named(const kiln_bind *b, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(bind_at(b, i)->name, name) == 0) return bind_at(b, i);
    return NULL;
}

kiln_status binds_check(const kiln_bind *b, size_t n, const char *program, error *e)
{
    for (size_t i = 0; i < n; i++) {
        if (b->size < BIND_1_0 || b->size > BIND_MAX || b->size % sizeof(void *) || bind_at(b, i)->size != b->size)
            return error_set(e, KILN_ERR_BUG,
                             "program '%s': bind %zu of %zu has no size, or not that of the first; make each with "
                             "KILN_BIND",
                             program, i, n);
        const kiln_bind *x = bind_at(b, i);
        if (!x->name) return error_set(e, KILN_ERR_BUG, "program '%s': bind %zu has no name", program, i);
        if (x->tensor.rank && !x->tensor.dim)
            return error_set(e, KILN_ERR_BUG, "program '%s': '%s' is bound to a tensor of rank %u without dimensions",
                             program, x->name, x->tensor.rank);
    }
    return KILN_OK;
}
