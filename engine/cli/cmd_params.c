/* cmd_params.c - `kiln params`: what --set can change in a workflow. Faults of the file are not said here, so that one
 * whose models are elsewhere can be looked at too.
 */
#include "base/memory_alloc.h"
#include "base/print.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/open_catalog.h"
#include "cli/open_workflow.h"
#include "cli/settable.h"
#include "param/param_text.h"
#include "plugin/abilities.h"

#include <string.h>

static const option options[] = {
    {"--all", 0, NULL, "also every written input of every node, as NODE.INPUT (the default where there is no `params`)",
     0},
    {"--json", 0, NULL, "print one JSON object", 0},
    PLUGINS_OPTION,
};
const manual manual_params = {
    .usage = "kiln params FILE [options]",
    .about = "Lists what --set and --over can change in a workflow: the parameters of its head with their defaults, "
             "what\nthey take and what they do.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "  kiln params workflows/txt2img.yaml\n  kiln params workflows/txt2img.yaml --all --json\n",
    .operand = OPERAND_WORKFLOW,
};

typedef struct {
    const workflow *w;
    int json;
    str out;
    size_t n;
} listing;

static void put_pair(str *s, const char *key, const char *text)
{
    str_printf(s, ", \"%s\": ", key);
    str_json(s, text, strlen(text), 1);
}

static void list_one(void *arg, const settable *one)
{
    listing *l = arg;
    const kiln_param *row = one->row;
    str takes = {0};
    if (row && row->type == KILN_P_FILE)
        str_printf(&takes, "a file of kind '%s'", row->from ? row->from : "?");
    else if (row)
        param_describe(row, &registry_names, PARAM_LISTED, &takes);
    if (l->json) {
        str_append(&l->out, l->n ? ", {\"name\": " : "{\"name\": ");
        str_json(&l->out, one->name, strlen(one->name), 1);
        put_pair(&l->out, "default", one->value);
        if (row) put_pair(&l->out, "takes", str_text(&takes));
        if (one->help) put_pair(&l->out, "help", one->help);
        str_char(&l->out, '}');
    } else {
        print_text(stdout, "%s=%s\n", one->name, one->value);
        if (one->help) print_text(stdout, "    %s\n", one->help);
        if (row) print_text(stdout, "    takes %s\n", str_text(&takes));
    }
    l->n++;
    str_free(&takes);
}

static void ignore_line(void *arg, const char *text, int is_warning) { (void)arg, (void)text, (void)is_warning; }

static int list(const job *j, const arguments *a)
{
    listing l = {.w = job_workflow(j), .json = argument(a, "--json") != NULL};
    int inputs = argument(a, "--all") || !l.w->doc->n_param;
    if (l.json) str_append(&l.out, "{\"params\": [");
    settable_params(l.w, list_one, &l);
    size_t n = l.n;
    l.n = 0;
    if (l.json) str_append(&l.out, "], \"inputs\": [");
    if (inputs) settable_inputs(l.w, list_one, &l);
    if (l.json) str_append(&l.out, "]}\n"), print_str(stdout, &l.out);
    if (!l.json && n + l.n == 0) print_text(stdout, "there is nothing to set\n");
    str_free(&l.out);
    return EXIT_DONE;
}

int cmd_params(int argc, char **argv)
{
    arguments a;
    error e = {0};
    size_t faults = 0;
    char shipped[SHIPPED_PATH_MAX];
    if (!arguments_read(&a, &manual_params, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&manual_params), EXIT_DONE;
    if (a.n_operand != 1) {
        print_text(stderr, "kiln: which workflow file?\nusage: %s\n", manual_params.usage);
        return EXIT_BAD_INPUT;
    }
    take_shipped(&a.operand[0], shipped);
    if (!workflow_is_there(a.operand[0])) return EXIT_BAD_INPUT;
    job *j = job_open(&(job_source){.path = a.operand[0], .plugins = argument(&a, "--plugins"), .line = ignore_line},
                      &faults, &e);
    if (!j) return print_text(stderr, "kiln: error: %s\n", e.message), EXIT_BAD_INPUT;
    int status = list(j, &a);
    job_close(j);
    return status;
}
