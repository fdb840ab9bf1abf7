/* program_math.c - see program_math.h. */
#include "program_math.h"

uint32_t program_rank(const kiln_recording *r, kiln_t x)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    return r->ops->shape(r->program, x, dim, KILN_MAX_RANK);
}

int64_t program_dim(const kiln_recording *r, kiln_t x, uint32_t i)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    uint32_t rank = r->ops->shape(r->program, x, dim, KILN_MAX_RANK);
    return i < rank && i < KILN_MAX_RANK ? dim[i] : 0;
}

kiln_t program_minus(const kiln_recording *r, kiln_t a, kiln_t b)
{
    return r->ops->map(r->program, "a - b", (kiln_t[]){a, b}, 2, NULL);
}

kiln_t program_at_least(const kiln_recording *r, kiln_t x, float least)
{
    return r->ops->map(r->program, "max(a, p)", &x, 1, &(kiln_map){.size = sizeof(kiln_map), .number = {least}});
}

kiln_t program_quotient(const kiln_recording *r, kiln_t a, kiln_t b)
{
    return r->ops->map(r->program, "b == 0 ? 0 : a / b", (kiln_t[]){a, b}, 2, NULL);
}

kiln_t program_product(const kiln_recording *r, kiln_t x, const float *by, int64_t out, int64_t in)
{
    kiln_t w = r->ops->constant(r->program, by, 2, KILN_DIMS(out, in));
    return r->ops->linear(r->program, x, w, (kiln_t){0});
}

kiln_t program_mean(const kiln_recording *r, kiln_t x)
{
    return r->ops->reduce(r->program, x, KILN_REDUCE_MEAN, 1u << (program_rank(r, x) - 1), 1);
}

kiln_t program_mean_size(const kiln_recording *r, kiln_t x)
{
    return program_mean(r, r->ops->map(r->program, "abs(a)", &x, 1, NULL));
}
