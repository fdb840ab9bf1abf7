/* print.h - everything the command prints, so that no name, path or message that comes from a file reaches the terminal
 * as an order to it.
 *
 *     print_text(stderr, "kiln: error: %s\n", e.message);
 *
 * What the format string holds is ours and is written as it is, with its newlines and its "\r\033[K". What the
 * arguments bring is foreign: C0 and C1 controls, DEL, invalid UTF-8 and the marks that turn text round (U+202A-202E,
 * U+2066-2069) are written as \n, \t, \x1b, \u202e. No other file of the engine calls stdio's printing functions
 * (tests/cli/test_foreign_text.sh looks). Any thread; a call's text is not torn.
 */
#ifndef KILN_BASE_PRINT_H
#define KILN_BASE_PRINT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* Returns the bytes printed, or -1. A format string has less than 1,000 characters; without memory a text over 4,000 is
 * cut. */
int print_text(FILE *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int print_textv(FILE *to, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));
/* Text that is ours from end to end: help, or JSON, whose strings str_json() has escaped. -1 and errno when it failed.
 */
int print_raw(FILE *to, const char *text);
int print_flush(FILE *to);
/* What print_text writes to standard output (out) or standard error (err), and print_raw to standard error, is dropped
 * from here on where the flag is 1: a program that uses the library has its own words. */
void print_silence(int out, int err);
/* errno of the first write to standard output that failed; 0: none has. */
int print_lost(void);

/* `from` as it may be shown, cut at a character's end to fit in `room` (at least 1) with its NUL; returns its length.
 */
size_t text_escape(char *to, size_t capacity, const char *from, size_t n);

#endif
