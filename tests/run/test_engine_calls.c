/* test_engine_calls.c - kiln/engine.h as a program calls it: what is refused and with which sentence, structs of other
 * sizes, who hears what, and what a summary says of single runs and of sweeps.
 */
#include "harness.h"

#include "kiln/engine.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char flow[] = "params: {width: 16}\nnodes:\n"
                           "  empty: {class_type: EmptyImage, inputs: {width: \"${width}\", height: 16}}\n"
                           "  save: {class_type: SaveImage, inputs: {images: [empty, 0], filename_prefix: k}}\n"
                           "  more: {class_type: SaveImage, inputs: {images: [empty, 0]}}\n";
static char plugins[600], said[4000];

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!CHECK(f && fputs(text, f) >= 0)) exit(1);
    fclose(f);
}

static void hear(void *arg, int level, const char *text)
{
    (void)arg, (void)level;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", text);
}

static kiln_workflow_options options(void)
{
    return (kiln_workflow_options){
        .size = sizeof(kiln_workflow_options), .path = "flow.yaml", .plugins = plugins, .on_log = hear};
}

static kiln_workflow *opened(const kiln_workflow_options *o, const char *words)
{
    kiln_message why = {.size = sizeof why};
    kiln_workflow *w = kiln_workflow_open(o, &why);
    CHECK_MSG(words ? !w && strstr(why.text, words) : w != NULL, "'%s', wanted '%s'", why.text,
              words ? words : "no fault");
    CHECK_EQ(why.status != KILN_OK, words != NULL);
    return w;
}

static void test_what_is_not_opened(void)
{
    const kiln_setting set[] = {{"width", "24"}};
    struct {
        uint32_t size;
        const char *path;
        uint32_t n_set, stride;
        const kiln_setting *set;
        const char *words;
    } cases[] = {
        {0, "flow.yaml", 0, 0, NULL, "kiln_workflow_options: its member `size` has to be sizeof the struct; it is 0"},
        {3, "flow.yaml", 0, 0, NULL, "its member `size` has to be sizeof the struct; it is 3"},
        {1u << 20, "flow.yaml", 0, 0, NULL, "it is 1048576"},
        {sizeof(kiln_workflow_options), NULL, 0, 0, NULL, "which workflow? `path` is NULL"},
        {sizeof(kiln_workflow_options), "nowhere.yaml", 0, 0, NULL, "nowhere.yaml"},
        {sizeof(kiln_workflow_options), "flow.yaml", 1, 0, set,
         "1 settings, and set_stride is 0: say sizeof(kiln_setting)"},
        {sizeof(kiln_workflow_options), "flow.yaml", 1, sizeof *set + 1, set, "and set_stride is 17"},
        {sizeof(kiln_workflow_options), "flow.yaml", 1, sizeof *set, NULL, "1 settings, and set_stride"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kiln_workflow_options o = options();
        o.size = cases[i].size, o.path = cases[i].path, o.n_set = cases[i].n_set, o.set_stride = cases[i].stride,
        o.set = cases[i].set;
        opened(&o, cases[i].words);
    }
    opened(NULL, "kiln_workflow_options: its member `size`");
    CHECK(kiln_workflow_open(NULL, NULL) == NULL);
    kiln_workflow_close(NULL);
}

static void test_structs_of_other_sizes(void)
{
    struct {
        kiln_workflow_options known;
        char later[64];
    } large = {.known = options()};
    large.known.size = sizeof large;
    kiln_workflow_close(opened(&large.known, NULL));
    kiln_workflow_options small = options();
    small.size = offsetof(kiln_workflow_options, on_log); /* it hears nothing, then */
    small.on_log = NULL;
    kiln_workflow_close(opened(&small, NULL));
    /* A message that is larger than this kiln's, smaller, and none. */
    struct {
        kiln_message known;
        char later[64];
    } long_why = {.known = {.size = sizeof long_why}};
    struct {
        uint32_t size;
        int32_t status;
        char text[8];
    } short_why = {.size = sizeof short_why};
    kiln_message none = {.size = offsetof(kiln_message, text)};
    kiln_workflow_options wrong = options();
    wrong.path = NULL;
    CHECK(!kiln_workflow_open(&wrong, &long_why.known) && strstr(long_why.known.text, "which workflow?"));
    CHECK(!kiln_workflow_open(&wrong, (kiln_message *)(void *)&short_why));
    CHECK_STR(short_why.text, "which w");
    CHECK(!kiln_workflow_open(&wrong, &none) && none.status == 0);
}

static void test_one_at_a_time_and_its_plugins(void)
{
    kiln_workflow_options o = options(), other = options();
    kiln_workflow *w = opened(&o, NULL);
    opened(&o, "one workflow at a time in a process; close the other one first");
    kiln_workflow_close(w);
    other.plugins = NULL;
    opened(&other, "were loaded in this process and stay until it ends; other ones () need another process");
    kiln_workflow_close(opened(&o, NULL));
}

static kiln_status run(kiln_workflow *w, kiln_run_options how, kiln_run_summary *s, const char *words)
{
    kiln_message why = {.size = sizeof why};
    if (!how.size) how.size = sizeof how;
    how.no_cache = 1;
    kiln_status status = kiln_workflow_run(w, &how, s, &why);
    CHECK_MSG(words ? status != KILN_OK && strstr(why.text, words) : status == KILN_OK && !*why.text,
              "'%s', wanted '%s'", why.text, words ? words : "no fault");
    return status;
}

static void test_what_is_not_run(void)
{
    kiln_workflow_options o = options();
    kiln_run_summary s = {.size = sizeof s};
    kiln_workflow *w = opened(&o, NULL);
    if (!w) return;
    run(w, (kiln_run_options){.size = 2}, &s,
        "kiln_run_options: its member `size` has to be sizeof the struct; it is 2");
    run(w, (kiln_run_options){.mode = 3}, &s, "there is no kiln_run_mode 3");
    run(w, (kiln_run_options){.file = "x.png"}, &s, "-o x.png: several nodes write results ('save' and 'more')");
    const char *const of_sweeps = "a sheet, a manifest and `again` belong to a sweep; this is a single run";
    run(w, (kiln_run_options){.sheet = "s.png"}, &s, of_sweeps);
    run(w, (kiln_run_options){.manifest = "m"}, &s, of_sweeps);
    run(w, (kiln_run_options){.again = 1}, &s, of_sweeps);
    CHECK_EQ(kiln_workflow_run(w, NULL, NULL, NULL), KILN_ERR_BUG);
    CHECK_EQ(s.nodes, 0);
    CHECK(kiln_workflow_fault(w, 0) == NULL);
    kiln_workflow_close(w);
    write_text("faulty.yaml",
               "nodes:\n  a: {class_type: EmptyImage, inputs: {width: wide}}\n  b: {class_type: Nothing}\n");
    o.path = "faulty.yaml", o.console = 0;
    if (!(w = opened(&o, NULL))) return;
    CHECK(kiln_workflow_fault_count(w) >= 2);
    CHECK(strstr(kiln_workflow_fault(w, 0), "faulty.yaml:2:") != NULL);
    run(w, (kiln_run_options){0}, &s, " faults, the first: faulty.yaml:2:");
    kiln_workflow_close(w);
}

static void test_runs(void)
{
    kiln_workflow_options o = options();
    kiln_run_summary s = {.size = sizeof s};
    struct {
        uint32_t size, cancelled;
        uint64_t nodes;
    } small = {.size = sizeof small};
    kiln_workflow *w = opened(&o, NULL);
    if (!w) return;
    CHECK_EQ(kiln_workflow_node_count(w), 3);
    CHECK_EQ(kiln_workflow_is_sweep(w) || kiln_workflow_row_count(w), 0);
    run(w, (kiln_run_options){.out = "one"}, &s, NULL);
    CHECK_EQ(s.nodes, 3);
    CHECK_EQ(s.ran, 3);
    CHECK_EQ(s.outputs, 2);
    CHECK(access("one/k_00001_.png", R_OK) == 0);
    run(w, (kiln_run_options){.out = "one"}, (kiln_run_summary *)(void *)&small, NULL);
    CHECK_EQ(small.nodes, 3); /* as much as the program knows of */
    small.size = 0, small.nodes = 7;
    run(w, (kiln_run_options){.out = "one"}, (kiln_run_summary *)(void *)&small, NULL);
    CHECK_EQ(small.nodes, 7);
    run(w, (kiln_run_options){.out = "one"}, NULL, NULL);
    kiln_workflow_close(w);
}

static void count_events(void *arg, const char *json)
{
    size_t *n = arg;
    *n += strstr(json, "\"event\": \"row_done\"") != NULL;
    if (*n == 2) kiln_cancel();
}

static void test_sweeps(void)
{
    const char *over[] = {"width=16,24,wide"};
    size_t n = 0;
    kiln_workflow_options o = options();
    kiln_run_summary s = {.size = sizeof s};
    o.over = over, o.n_over = 1;
    kiln_workflow *w = opened(&o, NULL);
    if (!w) return;
    CHECK_EQ(kiln_workflow_is_sweep(w), 1);
    CHECK_EQ(kiln_workflow_fault_count(w), 1);
    CHECK(strstr(kiln_workflow_fault(w, 0), "[row 3: width=wide]") != NULL);
    run(w, (kiln_run_options){.mode = KILN_RUN_EXPLAIN}, &s, "explain looks at one row and this is a sweep");
    run(w, (kiln_run_options){.out = "rows"}, &s, "");
    CHECK_EQ(s.rows_faulty, 1);
    kiln_workflow_close(w);
    over[0] = "width=16..80..8";
    if (!(w = opened(&o, NULL))) return;
    CHECK_EQ(kiln_workflow_row_count(w), 9);
    CHECK_EQ(run(w, (kiln_run_options){.out = "rows", .on_event = count_events, .arg = &n, .jobs = 1}, &s, "cancelled"),
             KILN_CANCELLED);
    CHECK(s.cancelled && s.rows == 9 && s.rows_done >= 2 && s.rows_left + s.rows_done == 9);
    run(w, (kiln_run_options){.out = "rows"}, &s, NULL); /* it goes on */
    CHECK(s.rows_before >= 2 && s.rows_before + s.rows_done == 9);
    kiln_workflow_close(w);
    over[0] = "width=1..x";
    if (!(w = opened(&o, NULL))) return;
    CHECK_EQ(kiln_workflow_fault_count(w), 1);
    CHECK(strstr(kiln_workflow_fault(w, 0), "is no range") != NULL);
    CHECK_EQ(kiln_workflow_row_count(w), 0);
    kiln_workflow_close(w);
}

static void test_who_hears_a_warning(void)
{
    write_text("round.yaml", "nodes:\n  a: {class_type: EmptyLatentImage, inputs: {width: 100, height: 64}}\n"
                             "  b: {class_type: SaveLatent, inputs: {samples: [a, 0]}}\n");
    kiln_workflow_options o = options();
    o.path = "round.yaml", said[0] = '\0';
    kiln_workflow_close(opened(&o, NULL));
    CHECK_MSG(strstr(said, "is no multiple of 8; 96 will be used"), "%s", said);
    o.console = 1, said[0] = '\0'; /* it is printed, and told as well */
    kiln_workflow_close(opened(&o, NULL));
    CHECK_MSG(strstr(said, "96 will be used"), "%s", said);
    o.console = 0, o.on_log = NULL;
    kiln_workflow_close(opened(&o, NULL));
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_what_is_not_opened),
                                      CASE(test_structs_of_other_sizes),
                                      CASE(test_one_at_a_time_and_its_plugins),
                                      CASE(test_what_is_not_run),
                                      CASE(test_runs),
                                      CASE(test_sweeps),
                                      CASE(test_who_hears_a_warning)};
    snprintf(plugins, sizeof plugins, "%s%s%s/plugins", *test_build() == '/' ? "" : test_root(),
             *test_build() == '/' ? "" : "/", test_build());
    if (chdir(test_folder()) != 0) return 1;
    write_text("flow.yaml", flow);
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
