/* unicode_tables.h - ranges of code points, made by scripts/tokenizer_tables.py; unicode.h reads them. */
#ifndef KILN_TOKENIZER_UNICODE_TABLES_H
#define KILN_TOKENIZER_UNICODE_TABLES_H

#include <stddef.h>
#include <stdint.h>

extern const uint32_t unicode_category_starts[], unicode_lower_ranges[], unicode_inert_ranges[],
    unicode_bert_control_ranges[], unicode_bert_accent_ranges[], unicode_combining_ranges[],
    unicode_bert_punctuation_ranges[], unicode_numeric_ranges[], unicode_word_ranges[], unicode_pattern_word_ranges[];
extern const size_t unicode_category_starts_n, unicode_lower_ranges_n, unicode_inert_ranges_n,
    unicode_bert_control_ranges_n, unicode_bert_accent_ranges_n, unicode_combining_ranges_n,
    unicode_bert_punctuation_ranges_n, unicode_numeric_ranges_n, unicode_word_ranges_n, unicode_pattern_word_ranges_n;

#endif
