/* test_describe_source.c - kiln's own form of a checked workflow: what comes out reads as the same workflow, says
 * itself again, and lets --set reach what it reached; references through included files, beside other text, in numbers,
 * in wires; and references of references that would grow without end.
 */
#include "base/file.h"
#include "base/memory_alloc.h"
#include "harness.h"
#include "workflow/describe.h"
#include "workflow/fake_catalog.h"
#include "workflow/key.h"

#include <sys/stat.h>

static void put(const char *name, const char *text)
{
    char path[600];
    error e = {0};
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    CHECK_MSG(file_write_whole(path, text, strlen(text), &e) == KILN_OK, "%s", e.message);
}

typedef struct {
    document d;
    workflow w;
    char fault[600];
} opened;

static void take_fault(void *arg, const char *line, int is_warning)
{
    (void)is_warning;
    char *text = arg;
    if (!*text) snprintf(text, 600, "%s", line);
}

static int open_text(opened *o, const char *text, const char *name, const char *value)
{
    static const key_setting on = {.device = "cpu", .precision = "f32"};
    char path[600];
    error e = {0};
    catalog_view catalog = fake_catalog();
    set_option set = {.name = name, .value = value};
    put("x", "a model");
    fake_files_folder = test_folder();
    memset(o, 0, sizeof *o);
    snprintf(path, sizeof path, "%s/main.yaml", test_folder());
    if (!CHECK_MSG(document_parse(&o->d, path, text, strlen(text), &set, name ? 1 : 0, &e) == KILN_OK, "%s in %s",
                   e.message, text))
        return 0;
    CHECK_EQ(workflow_check(&o->d, &catalog, &o->w, &e), KILN_OK);
    document_print_faults(&o->d, take_fault, o->fault);
    return o->d.n_fault == 0 && CHECK_EQ(workflow_keys(&o->w, &on, &e), KILN_OK);
}

static const graph_node *node_of(const opened *o, const char *name)
{
    for (size_t i = 0; i < o->w.n; i++)
        if (strcmp(o->w.node[i].doc->name, name) == 0) return &o->w.node[i];
    return NULL;
}

static int same_keys(const opened *a, const opened *b)
{
    int same = 1;
    for (size_t i = 0; i < a->w.n; i++) {
        const graph_node *other = node_of(b, a->w.node[i].doc->name);
        if (a->w.node[i].needed) same &= other && digest_equal(other->key, a->w.node[i].key);
    }
    return same;
}

/* The file with a setting, and what a picture of the file without it carries with that setting, are the same workflow.
 */
static void check_set(const char *text, const char *name, const char *value)
{
    opened file, set, back, again;
    if (!CHECK_MSG(open_text(&file, text, NULL, NULL), "%s", file.fault)) return;
    char *carried = describe_source(&file.w, SOURCE_NONE);
    CHECK_MSG(open_text(&back, carried, NULL, NULL) && same_keys(&file, &back), "%s\n  from %s", back.fault, carried);
    char *twice = describe_source(&back.w, SOURCE_NONE);
    CHECK_STR(twice, carried);
    CHECK_MSG(open_text(&set, text, name, value), "%s", set.fault);
    CHECK_MSG(open_text(&again, carried, name, value), "%s\n  from %s", again.fault, carried);
    CHECK_MSG(same_keys(&set, &again), "--set %s=%s is another workflow\n  from %s", name, value, carried);
    CHECK_MSG(!same_keys(&file, &set), "--set %s=%s changes nothing", name, value);
    mem_free(carried), mem_free(twice);
    document_free(&file.d), document_free(&set.d), document_free(&back.d), document_free(&again.d);
}

#define HEAD                                                                                                           \
    "params: {seed: 3, steps: 4, cfg: 2.50, word: 'a \"quoted\" $ {x} \\ word', mode: karras, noise: false, sampler: " \
    "heun, width: 32}\n"
#define NODES                                                                                                          \
    "nodes:\n  m: {class_type: Load, inputs: {ckpt: x}}\n  c: {class_type: Text, inputs: {clip: [m, CLIP], text: "     \
    "\"before ${word} $$ $ after ${word}\"}}\n"                                                                        \
    "  s: {class_type: Sample, title: 'a title', inputs: {model: [m, 0], positive: [c, 0], seed: '${seed}', steps: "   \
    "'${steps}', cfg: '${cfg}', sampler: '${sampler}', mode: '${mode}', noise: '${noise}'}}\n"                         \
    "  b: {class_type: Blank, inputs: {width: '${width}', height: 16}}\n  j: {class_type: Join, inputs: {images: "     \
    "[[s, 0], [b, 0]]}}\n  o: {class_type: Save, inputs: {images: [j, 0]}}\n"

static void test_every_kind_of_parameter(void)
{
    static const char *const set[][2] = {{"seed", "18446744073709551615"},
                                         {"steps", "9"},
                                         {"cfg", "7"},
                                         {"word", "100"},
                                         {"word", ""},
                                         {"word", "$$ ${seed} \xf0\x9f\x94\xa5"},
                                         {"mode", "normal"},
                                         {"noise", "true"},
                                         {"sampler", "euler"},
                                         {"width", "48"},
                                         {"s.steps", "8"},
                                         {"c.text", "$ plain"}};
    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++) check_set(HEAD NODES, set[i][0], set[i][1]);
}

static void test_through_included_files(void)
{
    put("inner.yaml", "params: {amount: 1, text: x, own: kept}\noutputs: {out: [b, 0]}\n"
                      "nodes:\n  b: {class_type: Blank, inputs: {width: '${amount}'}}\n  w: {class_type: Save, inputs: "
                      "{images: [b, 0], text: 'inner ${text} $$ ${own}'}}\n");
    put("outer.yaml", "params: {side: 16, word: y}\noutputs: {out: [i, out]}\nnodes:\n  i: {include: inner.yaml, set: "
                      "{amount: '${side}', text: 'outer ${word} $$'}}\n");
    static const char text[] = "params: {width: 32, word: 'z $ z'}\nnodes:\n  o: {include: outer.yaml, set: {side: "
                               "'${width}', word: '<${word}>'}}\n"
                               "  s: {class_type: Save, inputs: {images: [o, out]}}\n";
    check_set(text, "width", "64");
    check_set(text, "word", "a $ b");
    check_set(text, "o/i/b.width", "80");
    opened o;
    if (!CHECK_MSG(open_text(&o, text, NULL, NULL), "%s", o.fault)) return;
    char *carried = describe_source(&o.w, SOURCE_NONE);
    CHECK_MSG(strstr(carried, "\"inner outer <${word}> $$ $$ kept\"") != NULL, "%s", carried);
    CHECK_MSG(strstr(carried, "\"own\"") == NULL && strstr(carried, "\"side\"") == NULL,
              "the parts' parameters are in it: %s", carried);
    mem_free(carried);
    document_free(&o.d);
}

/* What decides more than a value has become it, wherever else it stood. */
static void test_structure_is_fixed(void)
{
    opened o, set;
    static const char text[] =
        "params: {which: b, digit: 3, word: hello}\nnodes:\n  a: {class_type: Blank, inputs: {width: 16}}\n  b:\n    "
        "class_type: Blank\n    inputs:\n      width: 2${digit}\n"
        "  s: {class_type: Save, inputs: {images: ['${which}', 0], text: '${which} ${digit} ${word}'}}\n";
    if (!CHECK_MSG(open_text(&o, text, NULL, NULL), "%s", o.fault)) return;
    char *carried = describe_source(&o.w, SOURCE_NONE);
    CHECK_MSG(strstr(carried, "\"text\": \"b 3 ${word}\"") && strstr(carried, "\"width\": 23") &&
                  strstr(carried, "\"params\": {\"word\": \"hello\"}"),
              "%s", carried);
    CHECK(!open_text(&set, carried, "which", "a"));
    CHECK_MSG(strstr(set.fault, "no parameter or input is called that") != NULL, "%s", set.fault);
    check_set(text, "word", "other");
    mem_free(carried);
    document_free(&o.d), document_free(&set.d);
}

static void test_only_what_is_executed(void)
{
    opened o;
    static const char text[] = "params: {used: 16, unused: 17}\nnodes:\n  a: {class_type: Blank, inputs: {width: "
                               "'${used}'}}\n  b: {class_type: Blank, inputs: {width: '${unused}'}}\n"
                               "  s: {class_type: Save, inputs: {images: [a, 0]}}\n";
    if (!CHECK_MSG(open_text(&o, text, NULL, NULL), "%s", o.fault)) return;
    char *carried = describe_source(&o.w, SOURCE_NONE);
    CHECK_MSG(strstr(carried, "unused") == NULL && strstr(carried, "\"b\"") == NULL, "%s", carried);
    mem_free(carried);
    document_free(&o.d);
    if (!open_text(&o,
                   "{\"1\": {\"class_type\": \"Blank\", \"inputs\": {}}, \"2\": {\"class_type\": \"Save\", \"inputs\": "
                   "{\"images\": [\"1\", 0]}}}",
                   NULL, NULL))
        return;
    carried = describe_source(&o.w, SOURCE_NONE);
    CHECK_STR(carried, "");
    mem_free(carried);
    document_free(&o.d);
}

/* Each part doubles what it was given, and gives it on; the values are empty, so that only their sources grow. */
static void test_sources_do_not_grow_without_end(void)
{
    enum { REFERENCES = 4000, LEVELS = 4 };
    str refs = {0}, main_text = {0};
    opened o;
    for (int i = 0; i < REFERENCES; i++) str_append(&refs, "${p}");
    for (int level = 0; level < LEVELS; level++) {
        str part = {0};
        char name[40];
        snprintf(name, sizeof name, "level%d.yaml", level);
        if (level + 1 < LEVELS)
            str_printf(&part, "params: {p: ''}\nnodes:\n  i: {include: level%d.yaml, set: {p: '%s'}}\n", level + 1,
                       str_text(&refs));
        else
            str_printf(&part,
                       "params: {p: ''}\nnodes:\n  b: {class_type: Blank}\n  s: {class_type: Save, inputs: {images: "
                       "[b, 0], text: '%s'}}\n",
                       str_text(&refs));
        put(name, str_text(&part));
        str_free(&part);
    }
    str_printf(&main_text, "params: {p: ''}\nnodes:\n  i: {include: level0.yaml, set: {p: '%s'}}\n", str_text(&refs));
    CHECK(!open_text(&o, str_text(&main_text), NULL, NULL));
    CHECK_MSG(strstr(o.fault, "make more than 16 MiB of text") != NULL, "%s", o.fault);
    document_free(&o.d);
    str_free(&refs), str_free(&main_text);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_every_kind_of_parameter), CASE(test_through_included_files),
                                      CASE(test_structure_is_fixed), CASE(test_only_what_is_executed),
                                      CASE(test_sources_do_not_grow_without_end)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
