/* terminal.h - what standard error can show. */
#ifndef KILN_BASE_TERMINAL_H
#define KILN_BASE_TERMINAL_H

/* 1: a terminal on which a line can be drawn over; not for TERM=dumb. */
int terminal_moves(void);
/* 1: it has colours and nobody has asked for none (NO_COLOR, https://no-color.org). */
int terminal_colours(void);
/* Prints a line to standard error with its first "error:" red or "warning:" yellow, where there are colours. */
void terminal_print_fault(const char *line, int is_warning);

#endif
