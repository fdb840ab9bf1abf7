/* deep_shrink.c - see deep_shrink.h. All ways of scaling are linear and go along rows and columns one after the other,
 * so each is a product with a small constant that resize.h gives: what it makes of the unit vectors. */
#include "deep_shrink.h"

#include "kiln/resize.h"
#include "program_math.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The matrix [to][from]; the caller frees it. */
static float *scaling(int64_t from, int64_t to, int method)
{
    float *unit = calloc((size_t)(from * from), sizeof *unit), *out = calloc((size_t)(to * from), sizeof *out);
    for (int64_t i = 0; unit && i < from; i++) unit[i * from + i] = 1;
    if (unit && out)
        resize_plane((resize_source){.data = unit, .h = 1, .w = from, .c = from, .row = from * from}, out, 1, to,
                     method);
    free(unit);
    return out;
}

/* The last dimension of x to `to`. */
static kiln_t scale_last(const kiln_recording *r, kiln_t x, int64_t to, int method)
{
    int64_t from = program_dim(r, x, program_rank(r, x) - 1);
    if (from == to) return x;
    float *by = scaling(from, to, method);
    if (!by) return r->ops->fail(r->program, "out of memory");
    x = program_product(r, x, by, to, from);
    free(by);
    return x;
}

kiln_t program_resize(const kiln_recording *r, kiln_t x, int64_t h, int64_t w, int method)
{
    const kiln_ops *o = r->ops;
    if (program_dim(r, x, 1) == h && program_dim(r, x, 2) == w) return x;
    x = scale_last(r, o->permute(r->program, x, (const uint32_t[]){0, 1, 3, 2}), w, method); /* [N,H,C,w] */
    x = scale_last(r, o->permute(r->program, x, (const uint32_t[]){0, 2, 3, 1}), h, method); /* [N,C,w,h] */
    return o->permute(r->program, x, (const uint32_t[]){0, 3, 2, 1});
}

enum { BLOCK, FACTOR, AFTER_SKIP, DOWN, UP };

static kiln_t shrink(const kiln_hook *hook, const kiln_recording *r, kiln_t x, const kiln_place_info *info)
{
    const model_patch *p = hook->self;
    double by = 1 / p->number[FACTOR];
    int64_t h = (int64_t)rint((double)program_dim(r, x, 1) * by), w = (int64_t)rint((double)program_dim(r, x, 2) * by);
    if (h < 1 || w < 1)
        return r->ops->fail(r->program,
                            "PatchModelAddDownscale: at '%s' there are %lldx%lld cells, and a downscale_factor of %g "
                            "leaves none; take a smaller one, an earlier block or a larger picture",
                            info->place, (long long)program_dim(r, x, 2), (long long)program_dim(r, x, 1),
                            p->number[FACTOR]);
    return program_resize(r, x, h, w, (int)p->number[DOWN]);
}

static kiln_t grow(const kiln_hook *hook, const kiln_recording *r, kiln_t x, const kiln_place_info *info)
{
    const model_patch *p = hook->self;
    int64_t h = program_dim(r, info->beside, 1), w = program_dim(r, info->beside, 2);
    if (!info->beside.id)
        return r->ops->fail(r->program, "PatchModelAddDownscale: '%s' does not say what it is put beside", info->place);
    return program_resize(r, x, h, w, (int)p->number[UP]);
}

model_patch *deep_shrink_new(const deep_shrink_settings *s)
{
    const double number[] = {(double)s->block, s->factor, s->after_skip, s->down, s->up};
    model_patch *p = model_patch_new("PatchModelAddDownscale", number, COUNT(number));
    char place[PATCH_PLACE_MAX];
    if (!p) return NULL;
    snprintf(place, sizeof place, "input.%lld%s", (long long)s->block, s->after_skip ? ".after_skip" : "");
    model_patch_hook(p, place)->at = shrink;
    model_patch_hook(p, "output.*.in")->at = grow;
    for (size_t i = 0; i < p->n_hook; i++) p->hook[i].start = s->start, p->hook[i].end = s->end;
    return p;
}
