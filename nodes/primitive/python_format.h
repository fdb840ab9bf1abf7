/* python_format.h - one value as Python's format(value, spec) writes it, for whole numbers of 64 bits, floats, truth
 * values and texts. */
#ifndef KILN_PRIMITIVE_PYTHON_FORMAT_H
#define KILN_PRIMITIVE_PYTHON_FORMAT_H

#include <stddef.h>
#include <stdint.h>

enum { PYTHON_INT, PYTHON_FLOAT, PYTHON_BOOL, PYTHON_TEXT };
enum { PYTHON_TEXT_MAX = 1 << 20 }; /* bytes of a result */

typedef struct {
    int kind;
    int64_t whole; /* PYTHON_INT, PYTHON_BOOL */
    double real;
    const char *text; /* valid UTF-8, of `bytes` bytes */
    size_t bytes;
} python_value;

/* A text that grows, up to PYTHON_TEXT_MAX bytes. Zero is an empty one; free(data). */
typedef struct {
    char *data; /* NUL behind it; NULL while it is empty */
    size_t n, capacity;
    char why[160]; /* empty: nothing is wrong */
} python_made;

void python_put(python_made *to, const char *text, size_t n);
/* The first thing that is wrong stays. */
void python_wrong(python_made *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* str(value), repr(value) and ascii(value). */
void python_str(python_made *to, const python_value *v);
void python_repr(python_made *to, const python_value *v, int ascii);
void python_format(python_made *to, const python_value *v, const char *spec, size_t n);

#endif
