/* json_scan.h - a strict pull reader of small JSON texts that come from outside. Layer: weights.
 *
 * The caller says what must come next and gets a sentence with file and byte offset when it does
 * not. No tree is built and nothing recurses: depth is a counter. Stricter than JSON where
 * safetensors is: numbers that are asked for are whole, 0..2^53, without sign, fraction or exponent;
 * strings are well-formed UTF-8 without NUL, their surrogates in pairs.
 */
#ifndef KILN_WEIGHTS_JSON_SCAN_H
#define KILN_WEIGHTS_JSON_SCAN_H

#include "base/status.h"

enum { JSON_DEPTH_MAX = 8 };

typedef struct {
    const char *file;    /* for messages */
    const uint8_t *text; /* [size] */
    size_t size, at;
    uint64_t offset; /* of text[0] in the file, for messages */
    char *pool;      /* where strings are decoded to: the caller gives size + 1 bytes, which always do */
    size_t pool_used;
    unsigned depth;
    error *e;
} json_scan;

/* Records "file: byte N: ..." for the place `at` of the text; returns KILN_ERR_INVALID. */
kiln_status json_fail(json_scan *s, size_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Enters an object '{' or an array '['. */
kiln_status json_open(json_scan *s, char bracket);
/* To the next member or element: *more = 0 when the closing bracket was passed. *index counts from 0
 * and belongs to the caller. */
kiln_status json_more(json_scan *s, char closing, size_t *index, int *more);
/* A string, decoded and NUL-terminated, living in the pool. */
kiln_status json_string(json_scan *s, const char **out, size_t *length);
/* A member's name and the colon after it. */
kiln_status json_key(json_scan *s, const char **out, size_t *length);
kiln_status json_count(json_scan *s, uint64_t *out);
/* Any value, checked as JSON and dropped. */
kiln_status json_skip(json_scan *s);
/* Where the next token starts. */
size_t json_here(json_scan *s);

#endif
