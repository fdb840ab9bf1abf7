/* turn_writer.h - a conversation's text into a buffer that may be too short, for the render() of families. */
#ifndef KILN_TEXT_DIFFUSION_TURN_WRITER_H
#define KILN_TEXT_DIFFUSION_TURN_WRITER_H

#include <ctype.h>
#include <stddef.h>
#include <string.h>

typedef struct {
    char *out;
    size_t n, capacity; /* n: bytes there are, written or not */
} turn_writer;

static inline void turn_put_n(turn_writer *w, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++, w->n++)
        if (w->n < w->capacity) w->out[w->n] = s[i];
}
static inline void turn_put(turn_writer *w, const char *s) { turn_put_n(w, s, strlen(s)); }

static inline void turn_put_trimmed(turn_writer *w, const char *s)
{
    size_t n = strlen(s);
    while (n && isspace((unsigned char)s[0])) s++, n--;
    while (n && isspace((unsigned char)s[n - 1])) n--;
    turn_put_n(w, s, n);
}

#endif
