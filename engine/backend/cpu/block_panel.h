/* block_panel.h - rows of a weight as they lie in files, by blocks, as codes with scales or as numbers (row_forms.h),
 * into the layout in which oneDNN reads a weight. Layer: backend.
 *
 * A row is what one output is made of: a number for each input, in a convolution one for each tap of each input. Of a
 * panel's rows 16 are read at a time (a strip); oneDNN's layouts have blocks of 16 outputs or more, so a strip becomes
 * whole cache lines. Bytes are those that gemm_pack() makes of the same numbers.
 */
#ifndef KILN_BACKEND_CPU_BLOCK_PANEL_H
#define KILN_BACKEND_CPU_BLOCK_PANEL_H

#include "backend/cpu/onednn.h"
#include "backend/cpu/row_forms.h"

enum { BLOCK_PANEL_ROWS = 16 }; /* of a strip */

typedef struct {
    const gemm *to; /* NULL: of a layout that is no GEMM's */
    gemm_words layout;
    uint32_t type;           /* of the arithmetic */
    int64_t n, inputs, taps; /* rows, and what one consists of */
    int64_t step;            /* inputs that are read at once: whole blocks, and pairs */
    size_t line_bytes;       /* of turned rows: room for what 16 outputs are made of by one input */
} block_panel;

/* Where a panel's rows lie: row i is row first + i of the data, from `half` on second + i - half. */
typedef struct {
    const row_form *form;
    const char *data;
    int64_t first, half, second;
    int64_t from, inputs; /* inputs of a row from `from` on; the panel's others are 0 */
    int64_t turned;       /* or: a row of the data is one input's and has so many taps for each output, of which... */
    const int32_t *tap;   /* ...the panel takes these, [taps] */
} block_rows;

void block_panel_make(block_panel *p, const gemm *to, uint32_t type, const row_form *form, int64_t taps);
/* The same of a layout that is no GEMM's, which the rows fill: n of them, of so many inputs, whole pairs. */
void block_panel_of_words(block_panel *p, const gemm_words *layout, int64_t n, int64_t inputs, uint32_t type,
                          const row_form *form, int64_t taps);
/* Its rows will be turned ones. After block_panel_make(). */
void block_panel_turn(block_panel *p, const row_form *form, int64_t turned);
size_t block_panel_scratch(const block_panel *p); /* bytes of a call */
/* A layout that is not known is one strip, which oneDNN orders. */
int64_t block_panel_strips(const block_panel *p);
/* What no strip fills. Before them. */
void block_panel_clear(const block_panel *p, void *packed);
kiln_status block_panel_strip(const cpu_kernels *k, const block_panel *p, const block_rows *from, int64_t strip,
                              void *packed, void *scratch, error *e);
/* All of it. */
kiln_status block_panel_fill(const cpu_kernels *k, const block_panel *p, const block_rows *from, void *packed,
                             void *scratch, error *e);

#endif
