/* sweep.h - the rows of a sweep: what --over, --over-file and a workflow's `matrix:` make together.
 *
 * An axis is a list of points; a point gives values to one name (--over) or to several at once (a line of a CSV file, a
 * map of a `matrix:` that is a list). Rows are the product of all axes, the first varying slowest. Names are what --set
 * takes, values are texts that each parameter reads by its own type.
 */
#ifndef KILN_RUN_SWEEP_H
#define KILN_RUN_SWEEP_H

#include "workflow/document.h"

enum { SWEEP_ROWS_MAX = 100000, SWEEP_AXES_MAX = 16, SWEEP_NAMES_MAX = 64 };

typedef struct {
    size_t n_name, n; /* names a point sets; points */
    const char *const *name;
    const char **value; /* [n * n_name]; NULL: the point leaves that name alone */
    int of_file;        /* the workflow's `matrix`; else the command line's         */
    const char *word;   /* what messages call it: "--over"        */
} sweep_axis;

typedef struct {
    arena memory; /* holds everything below */
    sweep_axis axis[SWEEP_AXES_MAX];
    size_t n_axis, n_name, n_row;
} sweep;

typedef struct {
    const char *const *over; /* texts "NAME=VALUES", in the order given */
    size_t n_over;
    const char *over_file;   /* CSV file, or NULL */
    const yaml_node *matrix; /* the head's, or NULL */
    const char *path;        /* what messages call the workflow */
    const set_option *set;   /* --set: pins what the matrix varies; of a name that --over varies it is an error */
    size_t n_set;
} sweep_source;

/* KILN_ERR_INVALID with a sentence that names the option or the place. The caller ends with sweep_free in every case.
 */
kiln_status sweep_make(sweep *s, const sweep_source *from, error *e);
void sweep_free(sweep *s);

/* The point of axis `a` that row `row` (from 0) stands at. */
size_t sweep_point(const sweep *s, size_t row, size_t a);
/* The row's settings, at most s->n_name of them; returns how many. They point into s. */
size_t sweep_settings(const sweep *s, size_t row, set_option *out);
/* "seed=13 cfg=7" of a row, cut to the room there is (at a character's border). */
void sweep_label(const sweep *s, size_t row, char *text, size_t capacity);
/* "13" of a point of an axis with one name; of several names "seed=13 cfg=7". */
void sweep_point_value(const sweep *s, size_t a, size_t point, char *text, size_t capacity);

#endif
