/* vocabulary_statistics.h - an op: what is kept of rows of logits, made in one reading of them on a processor.
 *
 * Of logits x [1,t,n], as the head makes them, and a temperature [1], with c = softcap tanh(x / softcap), or x where
 * softcap is 0, and l = c / temperature, or c where that is 0:
 *   statistics [1,t,STATISTICS] f32   their maximum m, sum s of e^(l - m), sum of (l - m) e^(l - m), place of the first
 *                                     maximum, logarithm of the sum of e^c
 *   blocks     [1,t,blocks] f32       sums of e^(l - m) over BLOCK words each, the last of what is left
 *   e          [1,t,n]                e^(l - m), in the program's precision
 */
#ifndef KILN_TEXT_DIFFUSION_VOCABULARY_STATISTICS_H
#define KILN_TEXT_DIFFUSION_VOCABULARY_STATISTICS_H

#include "text_diffusion.h"

enum { BLOCK = 16 };
enum { STATISTIC_MAXIMUM, STATISTIC_SUM, STATISTIC_WEIGHTED, STATISTIC_PLACE, STATISTIC_PLAIN, STATISTICS };

typedef struct {
    float softcap;
    uint32_t plain; /* 1: STATISTIC_PLAIN is wanted; else it is 0 */
} vocabulary_statistics_attributes;

extern const kiln_op_kind vocabulary_statistics_kind;

typedef struct {
    kiln_t statistic[STATISTICS], blocks, e; /* f32 [1,t,1] each; see above */
} vocabulary_statistics;
vocabulary_statistics vocabulary_statistics_of(const text_recording *, kiln_t logits, kiln_t temperature);

#endif
