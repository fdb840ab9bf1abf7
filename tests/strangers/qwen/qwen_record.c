/* qwen_record.c - layers that transformer, text encoder and vision tower have in common. */
#include "qwen.h"

#include <stdarg.h>

enum { NAME_MAX = 160 };

kiln_t qwen_weight(const recorder *r, const char *name, uint32_t rank, const int64_t *dim)
{
    return r->o->weight(r->p, r->weights, name, rank, dim);
}

static int64_t width_of(const recorder *r, kiln_t x)
{
    int64_t dim[KILN_MAX_RANK] = {0};
    uint32_t rank = r->o->shape(r->p, x, dim, KILN_MAX_RANK);
    return rank ? dim[rank - 1] : 0;
}

kiln_t qwen_linear(const recorder *r, kiln_t x, int64_t out, const char *name, ...)
{
    char part[NAME_MAX], full[NAME_MAX + 16];
    va_list args;
    va_start(args, name);
    vsnprintf(part, sizeof part, name, args);
    va_end(args);
    kiln_t w = qwen_weight(r, NAME(full, "%s.weight", part), 2, KILN_DIMS(out, width_of(r, x)));
    kiln_t b = r->o->weight_optional(r->p, r->weights, NAME(full, "%s.bias", part), 1, &out);
    return r->o->linear(r->p, x, w, b);
}

kiln_t qwen_rms(const recorder *r, kiln_t x, float eps, int64_t group, const char *name, ...)
{
    char part[NAME_MAX];
    const int64_t columns = group ? group : width_of(r, x);
    kiln_norm how = {.size = sizeof how, .kind = KILN_NORM_RMS, .eps = eps, .group = group};
    va_list args;
    va_start(args, name);
    vsnprintf(part, sizeof part, name, args);
    va_end(args);
    how.gain = qwen_weight(r, part, 1, &columns);
    return r->o->normalize(r->p, x, &how);
}

kiln_t qwen_mlp(const recorder *r, kiln_t x, int64_t hidden, const char *name)
{
    kiln_t gate = qwen_linear(r, x, hidden, "%s.gate_proj", name), up = qwen_linear(r, x, hidden, "%s.up_proj", name);
    kiln_t h = r->o->map(r->p, "silu(a) * b", (kiln_t[]){gate, up}, 2, NULL);
    return qwen_linear(r, h, width_of(r, x), "%s.down_proj", name);
}

kiln_t qwen_table(const recorder *r, const void *of, qwen_angle *angle, int64_t places, int64_t half,
                  double (*function)(double))
{
    float *data = malloc((size_t)(places * half) * sizeof *data);
    if (!data) return r->o->fail(r->p, "no memory for the places of %lld tokens", (long long)places);
    for (int64_t i = 0; i < places * half; i++) data[i] = (float)function(angle(of, i / half, i % half));
    kiln_t t = r->o->constant(r->p, data, 4, KILN_DIMS(1, places, 1, half));
    free(data);
    return t;
}
