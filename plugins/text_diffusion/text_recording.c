/* text_recording.c - what the recordings of families share. */
#include "text_diffusion.h"

#include <stdarg.h>
#include <stdio.h>

#define NAME_OF(full, name)                                                                                            \
    char full[160];                                                                                                    \
    va_list args;                                                                                                      \
    va_start(args, name);                                                                                              \
    vsnprintf(full, sizeof full, name, args);                                                                          \
    va_end(args)

kiln_t td_weight(const text_recording *r, uint32_t rank, const int64_t *dim, const char *name, ...)
{
    NAME_OF(full, name);
    return td_ops->weight(r->p, r->m->weights, full, rank, dim);
}

int td_has(const text_recording *r, const char *name, ...)
{
    const kiln_weights_api *w = td_host->ability(KILN_WEIGHTS_ABILITY);
    kiln_weight_info info = {.size = sizeof info};
    NAME_OF(full, name);
    return w->find(r->m->weights, full, &info) == KILN_OK;
}

kiln_t td_linear(const text_recording *r, kiln_t x, int64_t out, const char *name, ...)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    uint32_t rank = td_ops->shape(r->p, x, dim, KILN_MAX_RANK);
    NAME_OF(full, name);
    kiln_t w = td_ops->weight(r->p, r->m->weights, full, 2, KILN_DIMS(out, rank ? dim[rank - 1] : 0));
    return td_ops->linear(r->p, x, w, (kiln_t){0});
}

void td_see(const text_recording *r, kiln_t x, const char *name, ...)
{
    if (!r->see) return;
    NAME_OF(full, name);
    r->see(r->self, full, x);
}

kiln_t td_number(const text_recording *r, int32_t value) { return td_ops->constant_i32(r->p, &value, 1, KILN_DIMS(1)); }
