/* names.h - what may be a name in a table, and the nearest right name for a misspelt one.
 *
 * There is one rule of nearness, here, for nodes, inputs, choices, samplers, options, commands, tensors and files
 * alike: a candidate is near when
 *     - at most a third of the word's letters, and one, are wrong: edits <= length / 3 + 1, and
 *     - at least half of the letters are right: 2 * edits <= the longer of the two lengths.
 * An edit puts in, leaves out or changes a letter, or swaps two neighbours; case does not count. So "etta" is near
 * "eta", and "x" is near no "a". Where nothing is near, nothing is suggested.
 */
#ifndef KILN_BASE_NAMES_H
#define KILN_BASE_NAMES_H

#include <stddef.h>

/* The nearest of n candidates, the first of several that are equally near; NULL: none is near. A candidate may be NULL.
 * For "unknown node 'KSamplr'; did you mean 'KSampler'?". */
const char *nearest_name(const char *word, const char *(*at)(void *arg, size_t i), size_t n, void *arg);
/* The same of node types, of which many begin with one word ("ImageInvert", "ImageBlend"): nearer ones alone. */
const char *nearest_type(const char *word, const char *(*at)(void *arg, size_t i), size_t n, void *arg);
const char *nearest_of(const char *word, const char *const *name, size_t n);

/* [A-Za-z0-9_.+-]{1,128}: node types, ports, parameters, plugin ids. NULL is no name. */
int name_is_valid(const char *name);
/* The same with blanks between the others, one at a time: types of nodes. */
int node_type_is_valid(const char *type);
/* One line of text for people: not NULL, not empty, not endless, no control characters. */
int line_is_valid(const char *text);

#endif
