/* program_math.c - see program_math.h. */
#include "program_math.h"

#include <math.h>
#include <stdlib.h>

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
    return r->ops->add(r->program, a, r->ops->affine(r->program, b, -1, 0));
}

kiln_t program_at_least(const kiln_recording *r, kiln_t x, float least)
{
    const kiln_ops *o = r->ops;
    kiln_t above = o->act(r->program, o->affine(r->program, x, 1, -least), KILN_ACT_RELU);
    return o->affine(r->program, above, 1, least);
}

/* A norm divides: of (a, -a, s b, -s b) the mean is 0 and the deviation sqrt((a^2 + s^2 b^2) / 2), which is s b / sqrt
 * 2 but for a^2 / (2 s^2 b^2). */
kiln_t program_quotient(const kiln_recording *r, kiln_t a, kiln_t b)
{
    const float s = 1024;
    const kiln_ops *o = r->ops;
    const kiln_t none = {0};
    uint32_t last = program_rank(r, a) - 1;
    kiln_t four[] = {a, o->affine(r->program, a, -1, 0), o->affine(r->program, b, s, 0),
                     o->affine(r->program, b, -s, 0)};
    kiln_t n = o->layer_norm(r->program, o->concat(r->program, four, 4, last), 1e-30f, none, none);
    return o->affine(r->program, o->slice(r->program, n, last, 0, 1), s / sqrtf(2), 0);
}

kiln_t program_product(const kiln_recording *r, kiln_t x, const float *by, int64_t out, int64_t in)
{
    kiln_t w = r->ops->constant(r->program, by, 2, KILN_DIMS(out, in));
    return r->ops->linear(r->program, x, w, (kiln_t){0});
}

kiln_t program_mean(const kiln_recording *r, kiln_t x)
{
    int64_t c = program_dim(r, x, program_rank(r, x) - 1);
    float *row = malloc((size_t)(c > 0 ? c : 1) * sizeof *row);
    if (!row) return r->ops->fail(r->program, "out of memory");
    for (int64_t i = 0; i < c; i++) row[i] = 1 / (float)c;
    kiln_t mean = program_product(r, x, row, 1, c);
    free(row);
    return mean;
}

kiln_t program_mean_size(const kiln_recording *r, kiln_t x)
{
    const kiln_ops *o = r->ops;
    kiln_t below = o->act(r->program, o->affine(r->program, x, -1, 0), KILN_ACT_RELU);
    return program_mean(r, o->add(r->program, o->act(r->program, x, KILN_ACT_RELU), below));
}

/* Halves against each other (with one row in both where there is an odd number): a + relu(b - a). */
kiln_t program_largest(const kiln_recording *r, kiln_t x)
{
    const kiln_ops *o = r->ops;
    for (int64_t rows = program_dim(r, x, 1); rows > 1;) {
        int64_t half = (rows + 1) / 2;
        kiln_t a = o->slice(r->program, x, 1, 0, half), b = o->slice(r->program, x, 1, rows - half, half);
        x = o->add(r->program, a, o->act(r->program, program_minus(r, b, a), KILN_ACT_RELU));
        rows = half;
    }
    return x;
}
