/* tile_products.h - what linears and convolutions by AMX's tiles share: filters in tiles, and what becomes of sums
 * (convolution_strips.h has the tiles). Layer: backend.
 *
 * A filter is packed as [outputs / 16][inputs / 32][taps] tiles. Products make sets of 32 outputs: two panels of 16,
 * one behind the other; of GEGLU 16 values and their gates. Of a 3x3 filter over an upsampled picture
 * (conv2d_attr.upsampled) each panel has four filters of 2x2 taps, one behind the other: of results in even rows and
 * even columns, even rows and odd columns, and so on. Taps that meet the same number there are added up.
 */
#ifndef KILN_BACKEND_CPU_TILE_PRODUCTS_H
#define KILN_BACKEND_CPU_TILE_PRODUCTS_H

#include "backend/cpu/convolution_strips.h"
#include "backend/cpu/cpu.h"

enum { SET_OUTPUTS = 2 * PANEL_OUTPUTS };

/* The first member of a kernel's plan. Inputs are a multiple of 32, outputs (gates included) of 32. */
typedef struct {
    int64_t outputs, inputs, high, wide; /* taps of a product */
    int gated, upsampled;
} tile_filter;

/* Products of operands of these types, by tiles: AMX is there, and the weights are numbers? */
int tile_products_fit(const op_desc *);
static inline int64_t tile_filter_taps(const tile_filter *f) { return f->high * f->wide; }
static inline int64_t tile_filter_sets(const tile_filter *f) { return f->outputs / SET_OUTPUTS; }
static inline int64_t tile_filter_phases(const tile_filter *f) { return f->upsampled ? 4 : 1; }
/* Of one phase. */
static inline size_t tile_panel_numbers(const tile_filter *f)
{
    return (size_t)(f->inputs * tile_filter_taps(f)) * PANEL_OUTPUTS;
}
/* Panel k, 0 or 1, of a set, for a phase. */
const uint16_t *tile_filter_panel(const tile_filter *f, const void *packed, int64_t set, int k, int64_t phase);
/* Operand 1 is packed so, and operand 2 is a bias of f32. Of a kernel whose plan is there. */
void tile_filter_keep(cpu_kernel *c);
/* How rows_multiply() finishes [2 rows][2 outputs] tiles by a set: 1 where it can, which is where all is bf16 and there
 * is no activation. Else the two functions below do. */
int tile_set_rows(const cpu_kernel *c, const kernel_args *a, const float *sums, int64_t rows, int64_t row, int64_t set,
                  rows_result *out);
/* Two tiles of sums by a set: bias, activation, gates, in place. */
void tile_set_activate(const cpu_kernel *c, const kernel_args *a, float *sums, int64_t set);
/* Rows of such tiles, from where `sums` points, as the result's rows from `row` on, `apart` rows from each other: what
 * is added, stored. */
void tile_set_store(const cpu_kernel *c, const kernel_args *a, const float *sums, int64_t rows, int64_t row,
                    int64_t apart, int64_t set);

#endif
