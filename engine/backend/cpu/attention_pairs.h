/* attention_pairs.h - attention's inner loops by bf16's products of pairs: queries, keys, values and exponentials are
 * bf16, sums f32. Layer: backend.
 *
 * A word holds two numbers of bf16, the first in its low half: of q and k two channels, of v and p two keys. q is
 * [word][width] and k [key][word], s is [key][width] floats, p [key / 2][width], v [key / 2][channel], sums
 * [channel][width] floats. width is a multiple of 16, to 64.
 */
#ifndef KILN_BACKEND_CPU_ATTENTION_PAIRS_H
#define KILN_BACKEND_CPU_ATTENTION_PAIRS_H

#include <stddef.h>
#include <stdint.h>

/* s = scale q k */
void pairs_scores(float *s, const uint32_t *q, const uint32_t *k, size_t keys, size_t words, size_t width, float scale);
/* One step of an online softmax, base 2, of `keys` scores a query, an even number: p (which may be s) becomes
 * 2^(s - base), within 1.1e-4 before it is rounded to bf16; sum, of what was rounded, is brought forward. base is a
 * whole number (or -inf) that stays until a score is above it by more than 8, so that factor, what sums made before are
 * to be multiplied by, is exact; returns whether any is not 1. */
int pairs_softmax(uint32_t *p, const float *s, size_t keys, size_t width, float *base, float *sum, float *factor);
/* The same of scores that are still to be multiplied by `scale`, above 0. */
int pairs_softmax_scaled(uint32_t *p, const float *s, size_t keys, size_t width, float scale, float *base, float *sum,
                         float *factor);
/* sums += p v */
void pairs_values(float *sums, const uint32_t *p, const uint32_t *v, size_t pairs, size_t channels, size_t width);
/* to[channel / 2][width] = words of sums by[width], of an even number of channels; subnormal numbers become 0. */
void pairs_results(uint32_t *to, const float *sums, const float *by, size_t channels, size_t width);
/* Words of two rows of n numbers. */
void pairs_of_rows(uint32_t *to, const uint16_t *low, const uint16_t *high, size_t n);
/* Words of one row of n numbers; an odd one is filled up with 0. */
void pairs_row(uint32_t *to, const uint16_t *from, size_t n);

#endif
