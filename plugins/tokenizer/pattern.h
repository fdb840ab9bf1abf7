/* pattern.h - regular expressions as tokenizer.json has them, over UTF-8 with our own Unicode classes.
 *
 * What there is: characters and escapes, classes with ranges, \s \S \d \D \w \W \p{..} \P{..}, groups, (?:) (?i:),
 * look-ahead (?=) (?!), alternatives, ? * + {m,n}, lazy and possessive forms, ^ and $ at the ends of the text. What
 * there is not (look-behind, back references, scripts) is refused when the pattern is compiled.
 *
 * Matching goes back and forth as Perl's and Oniguruma's does, and finds what they find: the first alternative that
 * fits, not the longest. Its work is bounded: a pattern that takes too long for its text is an error.
 */
#ifndef KILN_TOKENIZER_PATTERN_H
#define KILN_TOKENIZER_PATTERN_H

#include "token_pool.h"

typedef struct pattern pattern;

/* NULL with a sentence in why[300]. */
pattern *pattern_new(token_pool *, const char *source, size_t n, char *why);
/* One that matches exactly this text. */
pattern *pattern_literal(token_pool *, const char *text, size_t n);

typedef struct {
    size_t from, to;
    int is_match;
} text_range;

typedef struct {
    text_range *item;
    size_t n, capacity;
} range_list;

/* The whole text as matches and what lies between them, in order, none of them empty. 1: done; 0: no memory; -1: the
 * pattern takes too long. */
int pattern_ranges(const pattern *, token_pool *, const char *s, size_t n, range_list *out);

#endif
