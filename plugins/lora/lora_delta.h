/* lora_delta.h - changes that add a difference, which a kind of patch computes row by row, as such or by the rule of
 * DoRA.
 *
 *   W + s d,  s = strength * scale
 *   W + strength * (m * (W + scale d) / |W + scale d| - W)          (Liu et al. 2024, "DoRA")
 *
 * The norm |.| is of a row, or of all that belongs to one input; m is the file's. With strength 1 this is what peft and
 * LyCORIS merge; with another it lies as far between W and that.
 */
#ifndef KILN_LORA_DELTA_H
#define KILN_LORA_DELTA_H

#include "lora_change.h"

typedef struct {
    /* Floats that delta() works in, for each row. NULL: none */
    size_t (*scratch)(const kiln_weight_call *);
    /* d's rows [row, row + rows) are added to `to`, which is 0; w: W's. */
    void (*delta)(const kiln_weight_call *, const float *w, size_t row, size_t rows, float *to, float *scratch);
} delta_kind;

size_t delta_rows(const kiln_weight_call *);
size_t delta_scratch(const kiln_weight_call *, const delta_kind *, size_t rows);
void delta_apply(const kiln_weight_call *, const delta_kind *, float *w, size_t row, size_t rows, float *scratch);

#endif
