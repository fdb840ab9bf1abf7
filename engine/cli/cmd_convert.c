/* cmd_convert.c - `kiln convert`: a workflow in another form. */
#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "cli/command.h"
#include "cli/open_workflow.h"
#include "run/job.h"
#include "workflow/convert.h"

#include <stdio.h>
#include <string.h>

static const option options[] = {
    {"--output", 'o', "FILE", "x.yaml: kiln's form; x.json: ComfyUI's API form (default: YAML to standard output)", 0},
    {"--plugins", 0, "PATHS", "look for plugins here first", 0},
};
const manual manual_convert = {
    .usage = "kiln convert FILE [-o x.yaml|x.json] [options]",
    .about =
        "Writes a workflow that ComfyUI's editor saved, its API form or a picture's in kiln's own form, or in the API\n"
        "form. It runs as FILE does. Its models need not be here.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "  kiln convert flow.json -o flow.yaml\n"
                "  kiln convert pictures/kiln_00001_.png -o again.yaml\n",
    .operand = OPERAND_WORKFLOW,
};

static const kiln_node *row_of(const void *self, const char *type)
{
    const node_info *n = catalog_find(self, type);
    return n ? n->node : NULL;
}

/* 1: the API form is wanted; 0: YAML; -1: after an error. */
static int form_of(const char *path)
{
    const char *dot = path ? strrchr(path, '.') : NULL;
    if (!path || strcmp(path, "-") == 0) return 0;
    if (dot && strcmp(dot, ".json") == 0) return 1;
    if (dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0)) return 0;
    print_text(stderr, "kiln: -o %s: the ending must be .yaml or .json\n", path);
    return -1;
}

static int write_out(const char *text, const char *path)
{
    error e = {0};
    if (!path || strcmp(path, "-") == 0) return print_raw(stdout, text) < 0 ? EXIT_RUN_FAILED : EXIT_DONE;
    if (file_write_whole(path, text, strlen(text), &e) == KILN_OK) return EXIT_DONE;
    print_text(stderr, "kiln: error: %s\n", e.message);
    return EXIT_RUN_FAILED;
}

/* It is what is asked for already. Pictures carry it as JSON. */
static int is_done(const document *d, int api)
{
    if (api || d->api_format || d->is_json) return 0;
    print_text(stderr, "kiln: %s is in kiln's own form; -o x.json writes ComfyUI's API form of it\n", d->path);
    return 1;
}

static int convert(job *j, const char *path, int api)
{
    error e = {0};
    const document *d = job_workflow(j)->doc;
    if (is_done(d, api)) return EXIT_BAD_INPUT;
    convert_rows rows = {.self = job_catalog(j), .find = row_of};
    char *text = api ? convert_to_api(d, &rows, &e) : convert_to_yaml(d, &rows, &e);
    if (!text) print_text(stderr, "kiln: error: %s\n", e.message);
    int status = text ? write_out(text, path) : EXIT_BAD_INPUT;
    mem_free(text);
    return status;
}

int cmd_convert(int argc, char **argv)
{
    arguments a;
    error e = {0};
    size_t faults = 0;
    if (!arguments_read(&a, &manual_convert, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&manual_convert), EXIT_DONE;
    const char *path = argument(&a, "--output");
    int api = form_of(path);
    if (api < 0) return EXIT_BAD_INPUT;
    if (a.n_operand != 1) {
        print_text(stderr, "kiln: which workflow file?\nusage: %s\n", manual_convert.usage);
        return EXIT_BAD_INPUT;
    }
    char shipped[SHIPPED_PATH_MAX];
    take_shipped(&a.operand[0], shipped);
    if (!workflow_is_there(a.operand[0])) return EXIT_BAD_INPUT;
    job *j = job_open(&(job_source){.path = a.operand[0], .plugins = argument(&a, "--plugins"), .unchecked = 1},
                      &faults, &e);
    if (!j) {
        print_text(stderr, "kiln: error: %s\n", e.message);
        return EXIT_BAD_INPUT;
    }
    int status = faults ? EXIT_BAD_INPUT : convert(j, path, api);
    job_close(j);
    return status;
}
