/* gguf_metadata.h - the keys and values at the head of a GGUF file. Nothing else of it is looked at.
 *
 * The file is hostile: counts are compared with the bytes that are left before memory is asked for, texts and arrays
 * with their ends, keys with one another; arrays of arrays and unknown types are refused.
 */
#ifndef KILN_TOKENIZER_GGUF_METADATA_H
#define KILN_TOKENIZER_GGUF_METADATA_H

#include "token_index.h"

typedef enum {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64
} gguf_type;

typedef struct {
    gguf_type type;
    gguf_type item;            /* GGUF_ARRAY */
    uint64_t count;            /* GGUF_ARRAY */
    const unsigned char *data; /* of the value; a string: its length first */
} gguf_value;

typedef struct {
    vocabulary keys; /* key -> index of value */
    gguf_value *value;
} gguf_metadata;

/* 0 with a sentence in why[300]. Points into data. */
int gguf_read(token_pool *, const void *data, size_t bytes, gguf_metadata *, char *why);
const gguf_value *gguf_find(const gguf_metadata *, const char *key);
const gguf_value *gguf_array(const gguf_metadata *, const char *key, gguf_type item); /* of this type, or NULL */
/* A text; NULL when the key is not there or is none. */
const char *gguf_text(const gguf_metadata *, const char *key, size_t *n);
int64_t gguf_integer(const gguf_metadata *, const char *key, int64_t otherwise); /* whole numbers and bools */
/* Item i of an array of numbers; the texts of an array of strings one after the other (*at begins at value->data). */
double gguf_number_at(const gguf_value *, uint64_t i);
const char *gguf_next_text(const unsigned char **at, size_t *n);

#endif
