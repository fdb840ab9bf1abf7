/* default_entries.c - see default_entries.h. */
#include "default_entries.h"

#include "kiln/kit.h"

static int acts_at(const condition *c, double sigma) { return sigma <= c->sigma_start && sigma >= c->sigma_end; }

int default_entries_act(const conditions *given, double sigma)
{
    for (size_t i = 0; i < given->n; i++)
        if (given->entry[i].is_default && acts_at(&given->entry[i], sigma)) return 1;
    return 0;
}

/* Takes what the entry has of picture `b` from rest[height][width]. */
static void take(const default_part *part, const condition *e, int64_t b, float *rest)
{
    const float *weight = e->host_weight ? e->host_weight + b % e->host_weights * e->h * e->w : NULL;
    for (int64_t y = 0; y < e->h; y++)
        for (int64_t x = 0; x < e->w; x++)
            rest[(e->y + y) * part->width + e->x + x] -= weight ? weight[y * e->w + x] : 1;
}

/* 1: something is left. */
static int cut(float *rest, size_t n)
{
    int left = 0;
    for (size_t i = 0; i < n; i++) {
        rest[i] = rest[i] > 0 ? rest[i] : 0;
        left = left || rest[i] > 0;
    }
    return left;
}

/* What is left, [*masks][height][width]; NULL: nothing, or no memory (*status). */
static float *make_rest(const kiln_call *c, const default_part *part, const uint8_t *acts, int64_t *masks,
                        kiln_status *status)
{
    const conditions *given = part->given;
    size_t plane = (size_t)(part->height * part->width);
    *masks = 1;
    for (size_t i = 0; i < given->n; i++)
        if (acts[i] && given->entry[i].host_weights > 1) *masks = part->pictures;
    size_t n = plane * (size_t)*masks;
    float *rest = c->host->scratch(c->ctx, n * sizeof *rest, KILN_CPU);
    *status = rest ? KILN_OK : KILN_ERR_NOMEM;
    if (!rest || kit_estimating(c)) return rest;
    for (size_t i = 0; i < n; i++) rest[i] = 1;
    for (int64_t b = 0; b < *masks; b++)
        for (size_t i = 0; i < given->n; i++)
            if (acts[i]) take(part, &given->entry[i], b, rest + (size_t)b * plane);
    return cut(rest, n) ? rest : NULL;
}

kiln_status default_entries_make(const kiln_call *c, const default_part *part, const uint8_t *acts, default_rest *out)
{
    const conditions *given = part->given;
    kiln_status status;
    int64_t masks;
    const float *rest = make_rest(c, part, acts, &masks, &status);
    out->entries = (conditions){0};
    if (!rest) return status;
    if (!(out->entries.entry = c->host->scratch(c->ctx, given->n * sizeof *given->entry, KILN_CPU)))
        return KILN_ERR_NOMEM;
    for (size_t i = 0; i < given->n; i++) {
        if (!given->entry[i].is_default) continue;
        condition *e = &out->entries.entry[out->entries.n++];
        *e = given->entry[i];
        e->weight = rest, e->weights = masks;
    }
    return KILN_OK;
}
