/* print.h - everything the command prints, so that no name, path or message from a file can control the terminal.
 *
 *     print_text(stderr, "kiln: error: %s\n", e.message);
 *
 * The format string is trusted and is written as it is, with its newlines and its "\r\033[K". The arguments are not: C0
 * and C1 controls, DEL, invalid UTF-8 and bidirectional marks (U+202A-202E, U+2066-2069) are escaped as \n, \t, \x1b,
 * \u202e. No other file of the engine calls stdio's printing functions (tests/cli/test_foreign_text.sh checks). Any
 * thread; the output of one call is not interleaved with another's.
 */
#ifndef KILN_BASE_PRINT_H
#define KILN_BASE_PRINT_H

#include "base/str.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* Returns the bytes printed, or -1. `fmt` has less than 1,000 characters. Text over 4,000 characters is cut when there
 * is no memory. */
int print_text(FILE *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int print_textv(FILE *to, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));
/* Prints trusted text as it is: help, or JSON whose strings str_json() has escaped. -1 and errno when it failed. */
int print_raw(FILE *to, const char *text);
/* The same of a str; where there was no memory for all of it, that is a write that failed. */
int print_str(FILE *to, const str *s);
int print_flush(FILE *to);
/* From here on, drops what print_text writes to standard output (out 1), and what print_text and print_raw write to
 * standard error (err 1): for programs that use the library and have their own output. */
void print_silence(int out, int err);
/* Gives this process's own printing a descriptor of its own for standard output, so that descriptor 1 can lead
 * elsewhere; returns it, or -1. */
int print_own_output(void);
int print_descriptor(void); /* of standard output: that one, or 1 */
/* errno of the first write to standard output that failed; 0: none failed. */
int print_lost(void);

/* Escapes n bytes of `from` into `to`, cut between characters to fit `capacity` (at least 1) with a NUL; returns the
 * length. */
size_t text_escape(char *to, size_t capacity, const char *from, size_t n);

#endif
