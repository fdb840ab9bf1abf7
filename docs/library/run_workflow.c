/* run_workflow.c - runs a workflow file from a program and prints what it wrote.
 *
 *     cc run_workflow.c -o run_workflow $(pkg-config --cflags --libs kiln-engine)
 *     ./run_workflow txt2img.yaml pictures seed=7
 */
#include <kiln/engine.h>

#include <stdio.h>
#include <string.h>

/* Events are JSON objects (docs/workflows.md); a program with a JSON reader would use that. */
static void on_event(void *arg, const char *json)
{
    (void)arg;
    if (strstr(json, "\"event\": \"file\"")) printf("%s\n", json);
}

static int fail(const char *what, const kiln_message *why)
{
    fprintf(stderr, "%s: %s\n", what, why->text);
    return 1;
}

int main(int argc, char **argv)
{
    kiln_message why = {.size = sizeof why};
    kiln_setting set[16];
    kiln_workflow_options from = {
        .size = sizeof from, .path = argc > 1 ? argv[1] : NULL, .set = set, .set_stride = sizeof *set};
    kiln_run_options how = {.size = sizeof how, .out = argc > 2 ? argv[2] : "out", .on_event = on_event};
    kiln_run_summary done = {.size = sizeof done};
    if (argc < 2) return fprintf(stderr, "usage: run_workflow FILE [OUT [NAME=VALUE ...]]\n"), 2;
    for (int i = 3; i < argc && from.n_set < 16; i++) {
        char *equals = strchr(argv[i], '=');
        if (!equals) return fprintf(stderr, "%s: it is NAME=VALUE\n", argv[i]), 2;
        *equals = '\0';
        set[from.n_set++] = (kiln_setting){.name = argv[i], .value = equals + 1};
    }
    kiln_workflow *w = kiln_workflow_open(&from, &why);
    if (!w) return fail("the workflow cannot be opened", &why);
    for (size_t i = 0; i < kiln_workflow_fault_count(w); i++) fprintf(stderr, "%s\n", kiln_workflow_fault(w, i));
    if (kiln_workflow_fault_count(w)) return kiln_workflow_close(w), 2;
    kiln_status status = kiln_workflow_run(w, &how, &done, &why);
    printf("%llu of %llu nodes ran, %llu came from the cache\n", (unsigned long long)done.ran,
           (unsigned long long)done.nodes, (unsigned long long)done.cached);
    kiln_workflow_close(w);
    return status == KILN_OK ? 0 : fail("the run failed", &why);
}
