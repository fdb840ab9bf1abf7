/* regex_pattern.h - a regular expression of Python's `re` as one of PCRE2. */
#ifndef KILN_NODES_REGEX_PATTERN_H
#define KILN_NODES_REGEX_PATTERN_H

#include <stddef.h>

enum { REGEX_WHY = 200, REGEX_GROWTH = 16 };

/* Writes at most REGEX_GROWTH times the pattern's bytes, and as many more, and a NUL to `to`. 0: it is none of
 * Python's, or has something in it that is not taken: `why`, which names the place. */
int regex_pattern(const char *python, char *to, char why[REGEX_WHY]);

#endif
