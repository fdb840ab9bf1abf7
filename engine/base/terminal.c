/* terminal.c - see terminal.h. */
#include "base/terminal.h"

#include "base/print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int terminal_moves(void)
{
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

int terminal_colours(void)
{
    const char *none = getenv("NO_COLOR");
    return terminal_moves() && !(none && *none);
}

void terminal_print_fault(const char *line, int is_warning)
{
    const char *word = is_warning ? "warning:" : "error:", *at = terminal_colours() ? strstr(line, word) : NULL;
    if (at)
        print_text(stderr, "%.*s\033[%sm%s\033[0m%s\n", (int)(at - line), line, is_warning ? "33" : "31", word,
                   at + strlen(word));
    else
        print_text(stderr, "%s\n", line);
}
