/* known_patterns.h - how models cut text into words, by the name that GGUF files have for it. */
#ifndef KILN_TOKENIZER_KNOWN_PATTERNS_H
#define KILN_TOKENIZER_KNOWN_PATTERNS_H

#include "tokenizer.h"

extern const char *const gpt2_pattern;

typedef struct {
    const char *name; /* tokenizer.ggml.pre */
    const char *pattern;
    int ignore_merges, nfc;
} known_pattern;

const known_pattern *known_pattern_find(const char *name, size_t n);

/* The splitter of byte-level BPE: the pattern, then bytes as characters. */
int opening_byte_split(opening *, const char *pattern);

#endif
