/* cmd_check.c - `kiln check`. */
#include "base/memory_alloc.h"
#include "base/print.h"
#include "base/str.h"
#include "cli/open_catalog.h"
#include "cli/open_workflow.h"

#include <stdio.h>
#include <string.h>

static const option options[] = {
    SOURCE_OPTIONS,
    {"--json", 0, NULL, "print one JSON object for each file instead: faults and warnings with their places", 0},
};
const manual manual_check = {
    .usage = "kiln check FILE... [options]",
    .about = "Reports every fault of workflows as FILE:LINE:COLUMN with what would be right. FILE may be '-'.\n"
             "Exit status: 0 none, 2 some.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "  kiln check workflows/txt2img.yaml\n"
                "  kiln check workflows/txt2img.yaml workflows/lora.yaml --json\n",
    .operand = OPERAND_WORKFLOW,
};

typedef struct {
    str warnings;
} checking;

static void on_log(void *arg, int level, const char *text)
{
    checking *c = arg;
    char *one = level == KILN_LOG_WARN ? fault_json(text, 1) : NULL;
    if (one) str_printf(&c->warnings, "%s{%s}", c->warnings.len ? ", " : "", one);
    mem_free(one);
}

static void put_faults(kiln_workflow *w, size_t n, str *s)
{
    for (size_t i = 0; i < n; i++) {
        char *one = fault_json(kiln_workflow_fault(w, i), 0);
        if (one) str_printf(s, "%s{%s}", i ? ", " : "", one);
        s->failed |= !one;
        mem_free(one);
    }
}

static void print_json(const char *path, kiln_workflow *w, const kiln_message *why, const checking *c)
{
    str s = {0};
    size_t faults = w ? kiln_workflow_fault_count(w) : 1;
    str_append(&s, "{\"file\": "), str_json(&s, path, strlen(path), 1);
    str_printf(&s, ", \"sound\": %s, \"faults\": [", faults ? "false" : "true");
    if (w) {
        put_faults(w, faults, &s);
    } else {
        char *one = fault_json(why->text, 0);
        str_printf(&s, "{%s}", one ? one : "");
        mem_free(one);
    }
    str_printf(&s, "], \"warnings\": [%s]", str_text(&c->warnings));
    if (w) str_printf(&s, ", \"nodes\": %zu", kiln_workflow_node_count(w));
    if (w && kiln_workflow_is_sweep(w)) str_printf(&s, ", \"rows\": %zu", kiln_workflow_row_count(w));
    str_append(&s, "}\n");
    print_raw(stdout,
              s.failed ? "{\"faults\": [{\"severity\": \"error\", \"text\": \"out of memory\"}]}\n" : str_text(&s));
    str_free(&s);
}

static int check_one(const arguments *a, const char *path, const workflow_arguments *common)
{
    workflow_arguments with = *common;
    kiln_message why;
    checking c = {{0}};
    int status, json = argument(a, "--json") != NULL;
    with.from.thorough = 1;
    with.from.console = !json;
    if (json) with.from.on_log = on_log, with.from.arg = &c;
    kiln_workflow *w = open_workflow(a, path, &with, &why, &status);
    size_t faults = w ? kiln_workflow_fault_count(w) : 1;
    if (w) status = faults ? EXIT_BAD_INPUT : EXIT_DONE;
    if (json)
        print_json(path, w, &why, &c);
    else if (!faults && kiln_workflow_is_sweep(w))
        print_text(stdout, "%s: %zu nodes, %zu row%s, no faults\n", path, kiln_workflow_node_count(w),
                   kiln_workflow_row_count(w), kiln_workflow_row_count(w) == 1 ? "" : "s");
    else if (!faults)
        print_text(stdout, "%s: %zu nodes, no faults\n", path, kiln_workflow_node_count(w));
    kiln_workflow_close(w);
    str_free(&c.warnings);
    return status;
}

int cmd_check(int argc, char **argv)
{
    arguments a;
    workflow_arguments with = {.from = {0}};
    int worst = EXIT_DONE;
    if (!arguments_read(&a, &manual_check, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&manual_check), EXIT_DONE;
    if (a.n_operand == 0) {
        print_text(stderr, "kiln: which workflow file?\nusage: %s\n", manual_check.usage);
        return EXIT_BAD_INPUT;
    }
    if (!read_settings(&a, with.set, &with.from.n_set)) return EXIT_BAD_INPUT;
    if (!contain_plugins(&a, &worst)) return worst;
    for (size_t i = 0; i < a.n_operand; i++) {
        int status = check_one(&a, a.operand[i], &with);
        if (status > worst) worst = status;
    }
    return worst;
}
