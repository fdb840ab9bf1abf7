/* attention_bias.h - T5's buckets of distances between a query and a key (Raffel et al. 2020), as transformers'
 * T5Attention._relative_position_bucket rounds them: near distances have a bucket each, far ones share buckets that
 * grow with the logarithm. Layer: backend.
 */
#ifndef KILN_BACKEND_ATTENTION_BIAS_H
#define KILN_BACKEND_ATTENTION_BIAS_H

#include "graph/op.h"

#include <math.h>

/* Buckets of one direction. */
static inline int64_t bias_buckets(const attention_attr *a, int64_t rows) { return a->bidirectional ? rows / 2 : rows; }

/* The bucket, of `buckets` in one direction, of a distance of 0 or more. f32 steps, for they decide at the edges. */
static inline int64_t bias_bucket_of(int64_t distance, int64_t buckets, int64_t max_distance)
{
    int64_t exact = buckets / 2;
    if (distance < exact) return distance;
    if (distance >= max_distance) return buckets - 1;
    float part = logf((float)distance / (float)exact) / (float)log((double)max_distance / (double)exact);
    int64_t bucket = exact + (int64_t)(part * (float)(buckets - exact));
    return bucket < buckets - 1 ? bucket : buckets - 1;
}

/* The row of the bias table for a key at position `key` and a query at `query`. */
static inline int64_t bias_row(const attention_attr *a, int64_t rows, int64_t key, int64_t query)
{
    int64_t each = bias_buckets(a, rows), apart = key - query;
    if (!a->bidirectional) return bias_bucket_of(apart < 0 ? -apart : 0, each, a->max_distance);
    return (apart > 0 ? each : 0) + bias_bucket_of(apart < 0 ? -apart : apart, each, a->max_distance);
}

#endif
