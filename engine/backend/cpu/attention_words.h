/* attention_words.h - attention of bf16 as it is stored, in words of two numbers: by pairs (attention_pairs.h) or by
 * tiles (attention_tiles.h). Layer: backend.
 */
#ifndef KILN_BACKEND_CPU_ATTENTION_WORDS_H
#define KILN_BACKEND_CPU_ATTENTION_WORDS_H

#include "backend/cpu/attention_view.h"

#include <string.h>

/* One slot's scratch: q [strip][rows][width] and sums [strip][channels][width], keys and values of a block. */
typedef struct {
    float *q, *sums, *keys, *values, *scores, *row, *max, *sum;
} attention_buffers;

/* The way of an op, with its words and channels. */
void attention_words_plan(const op_desc *op, attention_plan *p);
size_t attention_words_values(const attention_plan *p); /* floats that a block's values take */
/* n numbers as a row of the plan's words, filled up with 0. */
static inline void attention_words_row(const attention_plan *p, uint32_t *to, const void *row, size_t n)
{
    size_t more = (size_t)p->words - n / 2;
    if (more) memset(to + n / 2, 0, more * sizeof *to);
    memcpy(to, row, n * sizeof(uint16_t));
}

/* Both answer 0 and do nothing where the strip's queries are of several heads, or rows are no whole words.
 * queries: a strip's, turned from where they lie. results: sums by[width], turned to where they go; row: room for
 * Dv / 2 x width words. */
int attention_words_turn_queries(const attention_view *v, const attention_strip *s, uint32_t *to);
int attention_words_turn_results(const attention_view *v, const attention_strip *s, const float *sums, const float *by,
                                 uint32_t *row);
void attention_words_load(const attention_view *v, const attention_buffers *b, int64_t first, int64_t n);
/* Keys [first, first + n) of a block against one strip, whose products are to be multiplied by `scale`. */
void attention_words_attend(const attention_view *v, const attention_buffers *b, int64_t strip,
                            const attention_strip *s, int64_t first, int64_t n, float scale);
/* Round a task. */
void attention_words_begin(const attention_plan *p);
void attention_words_end(const attention_plan *p);

#endif
