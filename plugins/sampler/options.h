/* options.h - a sampler's options by name: any row's, through its kiln_param table.
 *
 * A SAMPLER value is a map: `sampler` (a row's name) and `options`, a map from an option's name to a number, a boolean
 * or (a choice) a text. It is plain data, so that anybody can make one.
 */
#ifndef KILN_SAMPLER_OPTIONS_H
#define KILN_SAMPLER_OPTIONS_H

#include "kiln/sampler.h"
#include "kiln/value.h"

/* The row's struct in the call's scratch: its defaults, then what `options` (a map or NULL) says. Fails with the
 * nearest name for one the row lacks, with the range for a value outside it. *out is NULL when the row has no options.
 */
kiln_status options_fill(const kiln_call *c, const kiln_sampler *row, const kiln_value *options, const void **out);

/* A SAMPLER value; takes the caller's reference to `options` (a map), also when it fails. What it says is checked. */
kiln_status options_sampler(const kiln_call *c, const kiln_sampler *row, kiln_value *options, kiln_value **out);
/* Reads one. */
kiln_status options_read(const kiln_call *c, const kiln_value *sampler, const kiln_sampler **row, const void **options);

/* Puts a parameter of a node into an options map, by name: a choice as its name. Any type but FILE. */
kiln_status options_put(const kiln_call *c, kiln_value *map, const kiln_param *param, const void *params);
/* "eta=0.5, order=2" into a map. Numbers, true, false; everything else is a text. */
kiln_status options_parse(const kiln_call *c, const char *text, kiln_value *map);

/* The name nearest to `text` among `n`, or NULL when none is near. */
const char *options_nearest(const kiln_call *c, const char *text, size_t n,
                            const char *(*at)(const void *arg, size_t i), const void *arg);

#endif
