/* str.h - a growing string. A failed allocation is sticky: check `failed` once, at the end. */
#ifndef KILN_BASE_STR_H
#define KILN_BASE_STR_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *data; /* NUL-terminated; NULL until something is appended */
    size_t len, capacity;
    int failed;
} str; /* {0} is the empty string */

void str_append(str *s, const char *text);
void str_append_n(str *s, const char *bytes, size_t n);
void str_char(str *s, char c);
void str_printf(str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Appends a JSON string with its quotes. Control characters are escaped; `ascii`: so is everything above 127. Invalid
 * UTF-8 becomes U+FFFD. */
void str_json(str *s, const char *text, size_t n, int ascii);
/* Appends the shortest decimal that reads back as the same double, with '.' in every locale. */
void str_double(str *s, double v);
const char *str_text(const str *s); /* "" when empty */
char *str_take(str *s);             /* the caller frees with mem_free; NULL if anything failed */
void str_free(str *s);

/* strtod in the C locale over all n bytes; 0 when they are not a finite decimal number. */
int str_to_double(const char *text, size_t n, double *out);
int str_to_i64(const char *text, size_t n, int64_t *out); /* decimal, optional sign, no overflow */
int str_to_u64(const char *text, size_t n, uint64_t *out);
/* A size such as "500M", "20 GB", "1.5GiB" or "4096" (bytes). K, M, G, T are powers of 1000, KiB, MiB, ... of 1024. */
int str_to_bytes(const char *text, size_t n, uint64_t *out);
/* A size for people, such as "1.2 kB" or "5.6 GB"; returns buf. */
const char *str_bytes(char buf[16], uint64_t bytes);
/* A path without its folders and its last ending: "b.c" of "a/b.c.png". *n: its length. */
const char *str_stem(const char *path, size_t *n);
int utf8_valid(const char *s, size_t n);
/* Length of the well-formed UTF-8 sequence at s (Unicode 15, table 3-7), its character in *code; 0: not well-formed. */
size_t utf8_sequence(const unsigned char *s, size_t n, uint32_t *code);
/* 1: a terminal obeys this character instead of showing it: C0, DEL, C1, bidirectional marks. */
int text_is_control(uint32_t code);

#endif
