/* open_workflow.c - see open_workflow.h. */
#include "cli/open_workflow.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/names.h"
#include "base/print.h"
#include "base/str.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAMES_MAX = 500 };

/* "NAME=VALUE" cut in place (argv is ours to change). */
int read_settings(const arguments *a, kiln_setting set[SETTINGS_MAX], uint32_t *n)
{
    for (size_t i = 0; i < a->n_given; i++) {
        if (strcmp(a->given[i].option->name, "--set") != 0) continue;
        char *text = (char *)(size_t)a->given[i].value, *equals = strchr(text, '=');
        if (*n == SETTINGS_MAX) return print_text(stderr, "kiln: --set: at most %d of them\n", SETTINGS_MAX), 0;
        if (!equals || equals == text)
            return print_text(stderr, "kiln: --set %s: it is NAME=VALUE, as in --set seed=3\n", text), 0;
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

/* What reads standard input: only one can. 0: said. */
static int reads_input_once(const kiln_workflow_options *from)
{
    int workflow = strcmp(from->path, "-") == 0, rows = from->over_file && strcmp(from->over_file, "-") == 0;
    for (size_t i = 0; i < from->n_over; i++)
        for (const char *at = from->over[i]; (at = strstr(at, "@-")); at++)
            rows += (at[-(at > from->over[i])] == '=' || at[-(at > from->over[i])] == ',') && (!at[2] || at[2] == ',');
    if (workflow && rows)
        print_text(stderr, "kiln: standard input cannot be the workflow and the rows; give one of them as a file\n");
    else if (rows > 1)
        print_text(stderr, "kiln: standard input can be read once; give the others of %d as files\n", rows);
    return workflow + rows <= 1;
}

/* The file of the nearest name in the folder where it was looked for, or below workflows/ among those that kiln ships.
 */
static const char *nearest_file(const char *path, const char *shipped_folder, char near[SHIPPED_PATH_MAX])
{
    const char *slash = strrchr(path, '/'), *name[NAMES_MAX] = {0}, *found = NULL;
    char folder[SHIPPED_PATH_MAX];
    arena memory = {0};
    size_t n = 0;
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    DIR *d = opendir(shipped_folder ? shipped_folder : folder[0] ? folder : "/");
    for (struct dirent *x; d && n < NAMES_MAX && (x = readdir(d));)
        if (x->d_name[0] != '.') name[n++] = arena_strdup(&memory, x->d_name);
    if (d) closedir(d);
    found = nearest_of(slash ? slash + 1 : path, name, n);
    if (found && slash)
        snprintf(near, SHIPPED_PATH_MAX, "%.2000s/%.1000s", folder, found);
    else if (found)
        snprintf(near, SHIPPED_PATH_MAX, "%s", found);
    arena_free(&memory);
    return found ? near : NULL;
}

/* "txt2img" or "txt2img.yaml" that is not here, but among the workflows that kiln ships; "" when it is not. */
static void shipped_name(const char *path, char name[SHIPPED_PATH_MAX])
{
    char found[SHIPPED_PATH_MAX];
    const char *slash = strrchr(path, '/'), *own = slash ? slash + 1 : path, *dot = strrchr(own, '.'), *at = name;
    snprintf(name, SHIPPED_PATH_MAX, "workflows/%.*s.yaml", dot ? (int)(dot - own) : (int)strnlen(own, 200), own);
    take_shipped(&at, found);
    if (at == name) *name = '\0';
}

static int is_model(const char *path)
{
    static const char *const endings[] = {".safetensors", ".gguf", ".ckpt", ".pt", ".pth", ".sft"};
    const char *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof endings[0]; i++)
        if (strcasecmp(dot, endings[i]) == 0) return 1;
    return 0;
}

/* Something is there; 1: it may be a workflow. */
static int may_be_workflow(const char *path)
{
    if (folder_exists(path))
        return print_text(stderr, "kiln: %s: this is a folder; name a workflow file in it\n", path), 0;
    if (!is_model(path)) return 1;
    print_text(stderr,
               "kiln: %s: this is a model and no workflow; `kiln inspect %s` says what is in it, and a workflow "
               "names it: kiln run workflows/txt2img.yaml --set ckpt_name=%s\n",
               path, path, path);
    return 0;
}

int workflow_is_there(const char *path)
{
    char near[SHIPPED_PATH_MAX], shipped[SHIPPED_PATH_MAX];
    const char *text = NULL, *any = "workflows/txt2img.yaml";
    struct stat link;
    if (strcmp(path, "-") == 0) return 1;
    if (access(path, F_OK) == 0) return may_be_workflow(path);
    if (strstr(path, "://")) return print_text(stderr, "kiln: %s: kiln reads files; download it first\n", path), 0;
    if (lstat(path, &link) == 0 && S_ISLNK(link.st_mode))
        return print_text(stderr, "kiln: %s: this is a link to a file that is not there\n", path), 0;
    if (strncmp(path, "workflows/", 10) == 0 && !folder_exists("workflows")) {
        take_shipped(&any, shipped);
        *strrchr(shipped, '/') = '\0';
        text = shipped;
    }
    const char *found = nearest_file(path, text, near);
    if (!found) shipped_name(path, near), found = *near ? near : NULL;
    print_text(stderr, "kiln: %s: there is no such file%s%s%s\n", path, found ? "; did you mean '" : "",
               found ? found : "", found ? "'?" : "");
    return 0;
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
    if (!reads_input_once(from)) return NULL;
    take_shipped(&from->path, with->shipped);
    if (from->console && !workflow_is_there(from->path)) return NULL;
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
