/* vision_recorder.c - see vision_recorder.h. */
#include "vision_recorder.h"

#include <stdio.h>

enum { FULL_NAME = 200 };

int64_t vision_dim(const vision_recorder *r, kiln_t x, uint32_t i)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    return i < r->ops->shape(r->p, x, dim, KILN_MAX_RANK) ? dim[i] : 0;
}

static int64_t last_dim(const vision_recorder *r, kiln_t x)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    uint32_t rank = r->ops->shape(r->p, x, dim, KILN_MAX_RANK);
    return rank ? dim[rank - 1] : 0;
}

kiln_t vision_vector(const vision_recorder *r, const char *name, int64_t n)
{
    return r->ops->weight(r->p, r->w, name, 1, &n);
}

static kiln_t part(const vision_recorder *r, const char *name, const char *what, int64_t n)
{
    char full[FULL_NAME];
    snprintf(full, sizeof full, "%.160s.%s", name, what);
    return vision_vector(r, full, n);
}

kiln_t vision_linear(const vision_recorder *r, const char *name, kiln_t x, int64_t out, int bias)
{
    char full[FULL_NAME];
    snprintf(full, sizeof full, "%.160s.weight", name);
    kiln_t w = r->ops->weight(r->p, r->w, full, 2, KILN_DIMS(out, last_dim(r, x)));
    return r->ops->linear(r->p, x, w, bias ? part(r, name, "bias", out) : (kiln_t){0});
}

kiln_t vision_norm(const vision_recorder *r, const char *name, kiln_t x, float eps)
{
    int64_t n = last_dim(r, x);
    return r->ops->layer_norm(r->p, x, eps, part(r, name, "weight", n), part(r, name, "bias", n));
}

/* No op repeats a weight for each picture: it is added to zeros. */
kiln_t vision_tokens(const vision_recorder *r, const char *name, kiln_t x, int64_t n, int64_t width)
{
    const kiln_ops *o = r->ops;
    kiln_t zeros = o->affine(r->p, o->slice(r->p, x, 1, 0, 1), 0, 0); /* [N,1,C] */
    kiln_t rows = o->weight(r->p, r->w, name, 3, KILN_DIMS(1, n, width)), each = zeros;
    if (last_dim(r, x) != width)
        return o->fail(r->p, "'%s' is %lld wide, and what it stands beside is not", name, (long long)width);
    for (int64_t have = 1; have < n;) {
        int64_t more = have < n - have ? have : n - have;
        each = o->concat(r->p, (kiln_t[]){each, more == have ? each : o->slice(r->p, each, 1, 0, more)}, 2, 1);
        have += more;
    }
    return o->add(r->p, each, rows);
}
