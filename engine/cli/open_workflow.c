/* open_workflow.c - see open_workflow.h. */
#include "cli/open_workflow.h"

#include "base/memory_alloc.h"
#include "base/print.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "NAME=VALUE" cut in place (argv is ours to change). */
int read_settings(const arguments *a, kiln_setting set[SETTINGS_MAX], uint32_t *n)
{
    for (size_t i = 0; i < a->n_given; i++) {
        if (strcmp(a->given[i].option->name, "--set") != 0) continue;
        char *text = (char *)(size_t)a->given[i].value, *equals = strchr(text, '=');
        if (!equals || equals == text || *n == SETTINGS_MAX) {
            print_text(stderr, "kiln: --set %s: it is NAME=VALUE (at most %d of them)\n", text, SETTINGS_MAX);
            return 0;
        }
        *equals = '\0';
        set[(*n)++] = (kiln_setting){.name = text, .value = equals + 1};
    }
    return 1;
}

static void read_sweep(const arguments *a, const char **over, kiln_workflow_options *from)
{
    for (size_t i = 0; i < a->n_given; i++)
        if (strcmp(a->given[i].option->name, "--over") == 0) over[from->n_over++] = a->given[i].value;
    from->over = over;
    from->over_file = argument(a, "--over-file");
}

kiln_workflow *open_workflow(const arguments *a, const char *path, workflow_arguments *with, kiln_message *why,
                             int *status)
{
    kiln_workflow_options *from = &with->from;
    from->size = sizeof *from;
    from->path = path;
    from->set = with->set;
    from->set_stride = sizeof *with->set;
    from->plugins = argument(a, "--plugins");
    from->models = argument(a, "--models");
    from->input = argument(a, "--input");
    *status = EXIT_BAD_INPUT;
    why->size = sizeof *why;
    read_sweep(a, with->over, from);
    if (from->over_file && strcmp(from->over_file, "-") == 0 && strcmp(path, "-") == 0) {
        print_text(stderr, "kiln: standard input cannot be the workflow and the rows; give one of them as a file\n");
        return NULL;
    }
    take_shipped(&from->path, with->shipped);
    kiln_workflow *w = kiln_workflow_open(from, why);
    if (w) return w;
    if (from->console) print_text(stderr, "kiln: error: %s\n", why->text);
    *status = why->status == KILN_ERR_NOMEM ? EXIT_RUN_FAILED : EXIT_BAD_INPUT;
    return NULL;
}

/* ---- JSON ---- */

/* "FILE:LINE:COLUMN" ends before `end`: where the numbers begin, else NULL. */
static const char *place_before(const char *line, const char *end)
{
    const char *p = end;
    for (int colons = 0; p > line && colons < 2; colons++) {
        const char *digits = p;
        while (p > line && p[-1] >= '0' && p[-1] <= '9') p--;
        if (p == digits || p == line || p[-1] != ':') return NULL;
        p--;
    }
    return p > line ? p : NULL;
}

char *fault_json(const char *line, int is_warning)
{
    const char *word = is_warning ? "warning: " : "error: ", *at = strstr(line, word);
    const char *text = at ? at + strlen(word) : line, *place = at > line + 2 ? place_before(line, at - 2) : NULL;
    str s = {0};
    if (place) {
        char *rest;
        str_append(&s, "\"file\": "), str_json(&s, line, (size_t)(place - line), 1);
        str_printf(&s, ", \"line\": %ld", strtol(place + 1, &rest, 10));
        str_printf(&s, ", \"column\": %ld, ", strtol(rest + 1, NULL, 10));
    }
    str_printf(&s, "\"severity\": \"%s\", \"text\": ", is_warning ? "warning" : "error");
    str_json(&s, text, strlen(text), 1);
    return str_take(&s);
}
