/* sampler_rows.h - what the sampling nodes have in common: the head of their rows, SIGMAS values. */
#ifndef KILN_NODES_SAMPLER_ROWS_H
#define KILN_NODES_SAMPLER_ROWS_H

#include "kiln/kit.h"

/* The head of a row whose title is its type. */
#define PLAIN_NODE(type_, ...) KIT_NODE(type_, type_, __VA_ARGS__)
#define PLAIN_NODE_AT(revision_, type_, ...) KIT_NODE_AT(revision_, type_, type_, __VA_ARGS__)

/* A new SIGMAS value of n levels. */
static inline kiln_status sigmas_new(const kiln_call *c, const double *sigma, size_t n, kiln_value **out)
{
    kiln_tensor t;
    TRY(kit_new_f32(c, 1, (const int64_t[]){(int64_t)n}, out, &t));
    for (size_t i = 0; i < n; i++) ((float *)t.data)[i] = (float)sigma[i];
    return KILN_OK;
}

/* The levels of one, as double, in scratch; *n may be 0. */
static inline kiln_status sigmas_read(const kiln_call *c, const kiln_value *value, double **sigma, size_t *n)
{
    kiln_tensor t;
    TRY(kit_f32(c, value, 1, "sigmas", &t));
    *n = (size_t)t.dim[0];
    *sigma = c->host->scratch(c->ctx, (*n + 1) * sizeof **sigma, KILN_CPU);
    if (!*sigma) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < *n; i++) (*sigma)[i] = (double)((const float *)t.data)[i];
    return KILN_OK;
}

#endif
