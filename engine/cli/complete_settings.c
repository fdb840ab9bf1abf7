/* complete_settings.c - what a shell offers behind --set and --over: the names that a workflow has, and of one name the
 * values that can be told: choices, true and false, models.
 */
#include "base/memory_alloc.h"
#include "base/print.h"
#include "cli/settable.h"
#include "param/param_text.h"
#include "plugin/abilities.h"
#include "run/files.h"
#include "workflow/model_alias.h"

#include <string.h>

typedef struct {
    const char *name;
    int several;           /* nodes have an input of that name alone */
    const kiln_param *row; /* of `name`, once it is found */
    const char *value;
} wanted;

/* A line of names: what stands behind the tab describes it. */
static void put_name(void *arg, const settable *one)
{
    (void)arg;
    if (strchr(one->name, '=')) return; /* --set ends the name there */
    print_text(stdout, "%s", one->name);
    print_raw(stdout, "\t");
    print_text(stdout, "%s%s%.60s\n", one->help ? one->help : "", one->help ? "; now " : "now ",
               *one->value ? one->value : "empty");
}

static void keep_row(void *arg, const settable *one)
{
    wanted *w = arg;
    if (!w->value && strcmp(one->name, w->name) == 0) w->row = one->row, w->value = one->value;
}

/* NODE.INPUT of which only INPUT was typed. */
static void keep_bare_row(void *arg, const settable *one)
{
    wanted *w = arg;
    const char *dot = strrchr(one->name, '.');
    if (!dot || strcmp(dot + 1, w->name) != 0) return;
    w->row = w->several++ ? NULL : one->row;
}

static void put_value(void *arg, const char *text) { (void)arg, (void)print_text(stdout, "%s\n", text); }

static void put_alias(void *arg, const char *name, const char *file) { (void)file, put_value(arg, name); }

static void put_models(const arguments *a, const char *path, const char *kind)
{
    arena memory = {0};
    error e = {0};
    file_roots *r = mem_calloc(1, sizeof *r);
    if (r && strcmp(kind, "input") != 0 &&
        file_roots_find(r, &memory, path, argument(a, "--models"), NULL, &e) == KILN_OK) {
        file_roots_names(r, &memory, kind, put_value, NULL);
        model_alias_each(&memory, put_alias, NULL);
    }
    mem_free(r);
    arena_free(&memory);
}

static void put_values(const arguments *a, const wanted *w, const char *path)
{
    const char *name;
    if (!w->row) return;
    switch (w->row->type) {
    case KILN_P_BOOL: put_value(NULL, "true"), put_value(NULL, "false"); break;
    case KILN_P_SEED: put_value(NULL, "random"); break;
    case KILN_P_FILE: put_models(a, path, w->row->from ? w->row->from : "input"); break;
    case KILN_P_ENUM:
    case KILN_P_NAME:
        for (size_t i = 0; (name = param_name_at(w->row, &registry_names, i)); i++) put_value(NULL, name);
        break;
    default: break; /* numbers and texts are anyone's */
    }
}

static void ignore_line(void *arg, const char *text, int is_warning) { (void)arg, (void)text, (void)is_warning; }

int complete_settings(const arguments *a, const char *file, const char *name)
{
    char shipped[SHIPPED_PATH_MAX];
    error e = {0};
    size_t faults = 0;
    take_shipped(&file, shipped);
    job *j =
        job_open(&(job_source){.path = file, .plugins = argument(a, "--plugins"), .line = ignore_line}, &faults, &e);
    if (!j) return print_text(stderr, "kiln: error: %s\n", e.message), EXIT_BAD_INPUT;
    wanted w = {.name = name};
    settable_params(job_workflow(j), name ? keep_row : put_name, &w);
    settable_inputs(job_workflow(j), name ? keep_row : put_name, &w);
    if (name && !w.value) settable_inputs(job_workflow(j), keep_bare_row, &w);
    if (name) put_values(a, &w, file);
    job_close(j);
    return EXIT_DONE;
}
