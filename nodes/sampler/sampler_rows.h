/* sampler_rows.h - what the sampling nodes' rows have in common: parameters in one line, SIGMAS values. */
#ifndef KILN_NODES_SAMPLER_ROWS_H
#define KILN_NODES_SAMPLER_ROWS_H

#include "kiln/kit.h"

#define FLOAT_PARAM(type_, field, default_, low, high, step_, text)                                                    \
    {                                                                                                                  \
        .name = #field, .type = KILN_P_FLOAT, .offset = offsetof(type_, field), .def = default_, .min = low,           \
        .max = high, .step = step_, .doc = text                                                                        \
    }
#define INT_PARAM(type_, field, default_, low, high, text)                                                             \
    {                                                                                                                  \
        .name = #field, .type = KILN_P_INT, .offset = offsetof(type_, field), .def = default_, .min = low,             \
        .max = high, .step = 1, .doc = text                                                                            \
    }
#define BOOL_PARAM(type_, field, default_, text)                                                                       \
    {                                                                                                                  \
        .name = #field, .type = KILN_P_BOOL, .offset = offsetof(type_, field), .def = default_, .doc = text            \
    }
#define ENUM_PARAM(type_, field, choices, default_, text)                                                              \
    {                                                                                                                  \
        .name = #field, .type = KILN_P_ENUM, .offset = offsetof(type_, field), .def = default_, .choice = choices,     \
        .doc = text                                                                                                    \
    }
#define SEED_PARAM(type_, field, text)                                                                                 \
    {                                                                                                                  \
        .name = #field, .type = KILN_P_SEED, .offset = offsetof(type_, field), .doc = text                             \
    }

#define PLAIN_NODE(...) PLAIN_NODE_AT(1, __VA_ARGS__)
#define PLAIN_NODE_AT(revision_, id, category_, text)                                                                  \
    .size = sizeof(kiln_node), .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT, .devices = KILN_CPU,                     \
    .revision = revision_, .type = id, .title = id, .category = category_, .doc = text

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
