/* sheet.h - the contact sheet of a sweep: one picture with each row's first picture, scaled down, under labelled axes.
 *
 * One axis of a few points is one line of pictures; two axes are a grid; of more, the last runs along the top and the
 * others together down the side. Where there is no such grid (one long axis, rows of a file) pictures fill lines one
 * after the other, each with its own label. A row that failed is crossed out.
 */
#ifndef KILN_RUN_SHEET_H
#define KILN_RUN_SHEET_H

#include "run/sweep.h"

typedef enum { SHEET_EMPTY, SHEET_PICTURE, SHEET_FAILED } sheet_state;

typedef struct {
    sheet_state state;
    const char *path; /* SHEET_PICTURE */
} sheet_cell;

enum { SHEET_CELL_MAX = 256, SHEET_CELL_MIN = 16, SHEET_SIDE_MAX = 16384 };

/* cell[s->n_row]. A picture that cannot be read is drawn as failed, with a warning. The file appears whole or not
 * at all. */
kiln_status sheet_write(const sweep *s, const sheet_cell *cell, const char *path, error *e);

#endif
