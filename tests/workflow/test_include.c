/* test_include.c - a workflow file as a part of another: names, wires in and out, settings, faults with the place in
 * the right file, and what is refused (circles, depth, too much).
 */
#include "base/file.h"
#include "base/memory_alloc.h"
#include "harness.h"
#include "workflow/fake_catalog.h"
#include "workflow/key.h"

#include <sys/stat.h>

static char folder[400];

static void put(const char *name, const char *text)
{
    char path[600];
    error e = {0};
    snprintf(folder, sizeof folder, "%s", test_folder());
    snprintf(path, sizeof path, "%s/parts", folder);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_MSG(file_write_whole(path, text, strlen(text), &e) == KILN_OK, "%s", e.message);
}

typedef struct {
    document d;
    workflow w;
    char faults[4000]; /* as printed, without the folder */
} opened;

static void gather(void *arg, const char *line, int is_warning)
{
    (void)is_warning;
    char *all = arg;
    size_t n = strlen(folder);
    if (strncmp(line, folder, n) == 0) line += n + 1;
    if (strlen(all) + strlen(line) + 2 < 4000) strcat(strcat(all, line), "\n");
}

static opened *open_main(const char *text, const set_option *set, size_t n_set)
{
    static opened o;
    char path[600];
    error e = {0};
    catalog_view catalog = fake_catalog();
    fake_files_folder = NULL;
    memset(&o, 0, sizeof o);
    snprintf(path, sizeof path, "%s/main.yaml", test_folder());
    snprintf(folder, sizeof folder, "%s", test_folder());
    if (!CHECK_MSG(document_parse(&o.d, path, text, strlen(text), set, n_set, &e) == KILN_OK, "%s", e.message))
        return &o;
    CHECK_EQ(workflow_check(&o.d, &catalog, &o.w, &e), KILN_OK);
    document_sort_faults(&o.d);
    document_print_faults(&o.d, gather, o.faults);
    return &o;
}

static const graph_node *node_of(const opened *o, const char *name)
{
    for (size_t i = 0; i < o->w.n; i++)
        if (strcmp(o->w.node[i].doc->name, name) == 0) return &o->w.node[i];
    return NULL;
}

#define FAULT(text, part)                                                                                              \
    do {                                                                                                               \
        opened *o_ = open_main(text, NULL, 0);                                                                         \
        CHECK_MSG(strstr(o_->faults, part) != NULL, "%s not in: %s", part, o_->faults);                                \
        document_free(&o_->d);                                                                                         \
    } while (0)

#define PART                                                                                                           \
    "params: {steps: 5, seed: 1}\ninputs: {model: [s, model], positive: [s, positive]}\noutputs: {image: [d, 0]}\n"    \
    "nodes:\n  s: {class_type: Sample, inputs: {steps: \"${steps}\", seed: \"${seed}\"}}\n  d: {class_type: Decode, "  \
    "inputs: {images: [s, IMAGE]}}\n"
#define AROUND(entry)                                                                                                  \
    "params: {n: 7}\nnodes:\n  m: {class_type: Load, inputs: {ckpt: c}}\n  t: {class_type: Text, inputs: {clip: [m, "  \
    "1]}}\n" entry "  out: {class_type: Save, inputs: {images: [p, image]}}\n"
#define ENTRY "  p: {include: parts/part.yaml, inputs: {model: [m, 0], positive: [t, 0]}, set: {steps: \"${n}\"}}\n"

static void test_a_part_joins(void)
{
    put("parts/part.yaml", PART);
    opened *o = open_main(AROUND(ENTRY), NULL, 0);
    CHECK_STR(o->faults, "");
    CHECK_EQ(o->w.n, 5);
    const graph_node *s = node_of(o, "p/s"), *d = node_of(o, "p/d"), *out = node_of(o, "out");
    REQUIRE(s && d && out);
    CHECK_EQ(((const fake_sample_params *)s->params)->steps, 7);
    CHECK(&o->w.node[s->in[0].from[0].node] == node_of(o, "m"));
    CHECK(&o->w.node[out->in[0].from[0].node] == d);
    document_free(&o->d);
    o = open_main(AROUND(ENTRY), &(set_option){.name = "p/s.seed", .value = "9"}, 1);
    CHECK_EQ(((const fake_sample_params *)node_of(o, "p/s")->params)->seed, 9);
    document_free(&o->d);
}

static void test_twice_and_through_two_files(void)
{
    put("parts/part.yaml", PART);
    put("parts/both.yaml", "inputs: {model: [[a, model], [b, model]], positive: [[a, positive], [b, "
                           "positive]]}\noutputs: {first: [a, image], image: [b, image]}\n"
                           "nodes:\n  a: {include: part.yaml}\n  b: {include: part.yaml, set: {seed: 2}}\n");
    opened *o = open_main(AROUND("  p: {include: parts/both.yaml, inputs: {model: [m, 0], positive: [t, 0]}}\n  q: "
                                 "{class_type: Save, inputs: {images: [p, first]}}\n"),
                          NULL, 0);
    CHECK_MSG(strstr(o->faults, "error") == NULL, "%s", o->faults);
    REQUIRE(node_of(o, "p/a/s") && node_of(o, "p/b/s"));
    CHECK_EQ(((const fake_sample_params *)node_of(o, "p/b/s")->params)->seed, 2);
    CHECK(&o->w.node[node_of(o, "p/a/s")->in[0].from[0].node] == node_of(o, "m"));
    CHECK(&o->w.node[node_of(o, "out")->in[0].from[0].node] == node_of(o, "p/b/d"));
    CHECK(&o->w.node[node_of(o, "q")->in[0].from[0].node] == node_of(o, "p/a/d"));
    document_free(&o->d);
}

static void test_faults_carry_their_file(void)
{
    put("parts/part.yaml", "outputs: {image: [d, 0]}\nnodes:\n  d: {class_type: Decode, inputs: {imagez: [x, 0]}}\n");
    FAULT(AROUND("  p: {include: parts/part.yaml}\n"),
          "parts/part.yaml:3:36: error: node 'p/d' (Decode): has no input 'imagez'");
    put("parts/part.yaml", "outputs: {image: [d, 0]}\nnodes:\n  d: [\n");
    FAULT(AROUND("  p: {include: parts/part.yaml}\n"), "main.yaml:5:16: error: node 'p': `include`: ");
    put("parts/part.yaml", PART);
    FAULT(AROUND("  p: {include: parts/part.yaml, inputs: {modle: [m, 0]}}\n"),
          "main.yaml:5:42: error: node 'p': what 'p' includes has no input 'modle'; did you mean 'model'?");
    FAULT(AROUND("  p: {include: parts/part.yaml, set: {stepz: 3}}\n"),
          "main.yaml:5:38: error: `set`: stepz: no parameter or input is called that; did you mean 'steps'?");
    FAULT(AROUND("  p: {include: parts/part.yaml, set: {steps: [1]}}\n"),
          "main.yaml:5:46: error: node 'p': `set`: 'steps' takes a single value");
    FAULT(AROUND("  p: {include: parts/part.yaml}\n  z: {class_type: Save, inputs: {images: [p, picture]}}\n"),
          "has no output 'picture'");
    FAULT(AROUND(ENTRY "  p/s: {class_type: Load, inputs: {ckpt: c}}\n"),
          "names that begin with 'p/' are those of what is included");
    put("parts/part.yaml", "outputs: {image: [gone, 0]}\nnodes:\n  d: {class_type: Blank}\n");
    FAULT(AROUND("  p: {include: parts/part.yaml}\n"),
          "parts/part.yaml:1:18: error: `outputs`: 'image' names 'gone', which is not a node here");
}

static void test_what_is_refused(void)
{
    char text[300];
    FAULT(AROUND("  p: {include: parts/none.yaml}\n"), "`include`: no file '");
    FAULT(AROUND("  p: {include: /etc/passwd}\n"), "relative to this one");
    FAULT(AROUND("  p: {include: parts}\n"), "`include`: ");
    FAULT(AROUND("  p: {include: [a]}\n"), "names one file");
    FAULT(AROUND("  p: {include: parts/part.yaml, class_type: Save}\n"), "which is it?");
    FAULT(AROUND("  p: {class_type: Save, set: {a: 1}}\n"), "belongs to an `include`");
    put("parts/part.yaml", "- 1\n");
    FAULT(AROUND("  p: {include: parts/part.yaml}\n"),
          "parts/part.yaml:1:1: error: a file to include is a workflow with `nodes:`");
    put("parts/part.yaml", "nodes:\n  q: {include: more.yaml}\n");
    put("parts/more.yaml", "nodes:\n  r: {include: part.yaml}\n");
    FAULT(AROUND("  p: {include: parts/part.yaml}\n"), "goes in a circle: ");
    FAULT(AROUND("  p: {include: parts/part.yaml}\n"), "more.yaml -> ");
    for (int i = 0; i < 12; i++) {
        char name[40];
        snprintf(name, sizeof name, "parts/d%d.yaml", i);
        snprintf(text, sizeof text, "nodes:\n  n: {include: d%d.yaml}\n", i + 1);
        put(name, text);
    }
    FAULT(AROUND("  p: {include: parts/d0.yaml}\n"), "more than 8 files deep");
}

/* Ten includes a file, eight levels: a hundred million files, were there no limit. */
static void test_a_bomb_is_bounded(void)
{
    for (int i = 0; i < 8; i++) {
        char name[40], text[1000] = "nodes:\n";
        snprintf(name, sizeof name, "parts/b%d.yaml", i);
        for (int k = 0; k < 10; k++)
            snprintf(text + strlen(text), sizeof text - strlen(text),
                     i < 7 ? "  n%d: {include: b%d.yaml}\n" : "  n%d: {class_type: Blank} # %d\n", k, i + 1);
        put(name, text);
    }
    FAULT(AROUND("  p: {include: parts/b0.yaml}\n"), "more than 1000 files are included");
}

static void test_every_allocation_may_fail(void)
{
    char path[600];
    const char *text = AROUND(ENTRY);
    put("parts/part.yaml", PART);
    snprintf(path, sizeof path, "%s/main.yaml", folder);
    for (int64_t k = 0; k < 120; k++) {
        document d;
        error e = {0};
        mem_fail_at(k, 0);
        kiln_status status = document_parse(&d, path, text, strlen(text), NULL, 0, &e);
        mem_fail_at(-1, 0);
        CHECK(status == KILN_OK || status == KILN_ERR_NOMEM);
        if (status == KILN_OK) document_free(&d);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_a_part_joins),    CASE(test_twice_and_through_two_files), CASE(test_faults_carry_their_file),
        CASE(test_what_is_refused), CASE(test_a_bomb_is_bounded),           CASE(test_every_allocation_may_fail)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
