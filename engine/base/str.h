/* str.h - a growing string. Failure to grow is sticky: check `failed` (or str_ok) at the end. */
#ifndef KILN_BASE_STR_H
#define KILN_BASE_STR_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    char *data; /* NUL-terminated once anything was appended, else NULL */
    size_t len, capacity;
    int failed;
} str; /* {0} is the empty string */

void str_append(str *s, const char *text);
void str_append_n(str *s, const char *bytes, size_t n);
void str_char(str *s, char c);
void str_printf(str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A JSON string with quotes; control characters are escaped, with `ascii` everything above 127 too, as \uXXXX. Invalid
 * UTF-8 becomes U+FFFD. */
void str_json(str *s, const char *text, size_t n, int ascii);
/* A short decimal that reads back as the same double; always with '.', 'e' or neither, never a locale's comma. */
void str_double(str *s, double v);
const char *str_text(const str *s); /* "" when empty */
char *str_take(str *s);             /* the caller frees with mem_free; NULL if anything failed */
void str_free(str *s);

/* Locale-independent strtod over the whole of [text, text+n); 0 when it is not a number. */
int str_to_double(const char *text, size_t n, double *out);
int str_to_i64(const char *text, size_t n, int64_t *out); /* decimal, optional sign, no overflow */
int str_to_u64(const char *text, size_t n, uint64_t *out);
/* A size as people write it: "500M", "20 GB", "1.5GiB", "4096" (bytes). K, M, G, T are powers of 1000, KiB ... of 1024.
 */
int str_to_bytes(const char *text, size_t n, uint64_t *out);
/* "1,234.5 MB"-style sizes for people: 1.2 kB, 3.4 MB, 5.6 GB into buf[16]. */
const char *str_bytes(char buf[16], uint64_t bytes);
int utf8_valid(const char *s, size_t n);
/* Length of the well-formed UTF-8 sequence at s (Unicode 15, table 3-7) and its character; 0 when there is none. */
size_t utf8_sequence(const unsigned char *s, size_t n, uint32_t *code);
/* A character that does something to a terminal instead of being shown: C0, DEL, C1, and the marks that turn text
 * round. */
int text_is_control(uint32_t code);

#endif
