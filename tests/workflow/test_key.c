/* test_key.c - each ingredient of a node's key: change what matters and the key is another, change what does not and it
 * is the same. Also that what goes into a picture as its workflow has the keys of the workflow it came from.
 */
#include "base/memory_alloc.h"
#include "harness.h"
#include "workflow/describe.h"
#include "workflow/fake_catalog.h"
#include "workflow/key.h"

#include <sys/stat.h>
#include <time.h>

static const char model[] = "nodes:\n"
                            "  m: {class_type: Load, inputs: {ckpt: one.bin}}\n"
                            "  t: {class_type: Text, inputs: {clip: [m, CLIP], text: a red circle}}\n"
                            "  b: {class_type: Blank, inputs: {width: 64}}\n"
                            "  x: {class_type: Sample, inputs: {model: [m, MODEL], positive: [t, COND], seed: 5, "
                            "steps: 20, cfg: 7.0, mode: karras}}\n"
                            "  j: {class_type: Join, inputs: {images: [[b, 0], [x, 0]]}}\n"
                            "  s: {class_type: Save, inputs: {images: [j, IMAGE]}}\n";
static const key_setting cpu = {.device = "cpu", .precision = "f32"};

static void write_file(const char *name, const char *content)
{
    char path[512];
    error e = {0};
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    CHECK_MSG(file_write_whole(path, content, strlen(content), &e) == KILN_OK, "%s", e.message);
    fake_files_folder = test_folder();
}

/* The key of one node of a workflow text; zero when something is wrong with it. */
static digest key_of(const char *text, const char *node, const key_setting *on, set_option *set)
{
    error e = {0};
    document d;
    workflow w;
    catalog_view catalog = fake_catalog();
    digest key = {0};
    if (!CHECK_MSG(document_parse(&d, "t", text, strlen(text), set, set != NULL, &e) == KILN_OK, "%s", e.message))
        return key;
    int fine =
        workflow_check(&d, &catalog, &w, &e) == KILN_OK && d.n_fault == 0 && workflow_keys(&w, on, &e) == KILN_OK;
    CHECK_MSG(fine, "%s%s\n%s", e.message, d.faults ? d.faults->text : "", text);
    for (size_t i = 0; fine && i < w.n; i++)
        if (strcmp(w.node[i].doc->name, node) == 0) key = w.node[i].key;
    CHECK_MSG(key.lo || key.hi, "no key for '%s'", node);
    document_free(&d);
    return key;
}

static digest key_with(const char *node, const char *name, const char *value)
{
    set_option set = {.name = name, .value = value};
    return key_of(model, node, &cpu, &set);
}

#define SAME(a, b) CHECK_MSG(digest_equal((a), (b)), "%s and %s differ", #a, #b)
#define OTHER(a, b) CHECK_MSG(!digest_equal((a), (b)), "%s and %s are the same", #a, #b)

typedef struct {
    const char *name, *value;
    int matters;
} change;

static void test_parameters(void)
{
    static const change changes[] = {
        {"x.seed", "6", 1},
        {"x.seed", "5", 0},
        {"x.seed", "18446744073709551615", 1},
        {"x.steps", "21", 1},
        {"x.steps", "20.0", 0},
        {"x.steps", "2e1", 0},
        {"x.cfg", "7", 0},
        {"x.cfg", "7.00", 0},
        {"x.cfg", "7.000000000000001", 1},
        {"x.cfg", "-0", 1},
        {"x.mode", "normal", 1},
        {"x.noise", "true", 0},
        {"x.noise", "false", 1},
        {"x.sampler", "heun", 1},
        {"x.sampler", "euler", 0},
        {"x.preview", "7", 0},
        {"t.text", "a red  circle", 1},
        {"t.text", "", 1},
        {"b.height", "64", 1},
        {"b.height", "512", 0},
        {"m.ckpt", "two.bin", 1},
        {"m.ckpt", "copy.bin", 0},
        {"s.text", "elsewhere", 0}, /* downstream of j */
    };
    write_file("one.bin", "one"), write_file("copy.bin", "one"), write_file("two.bin", "two");
    digest base = key_of(model, "j", &cpu, NULL);
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        digest key = key_with("j", changes[i].name, changes[i].value);
        CHECK_MSG(digest_equal(key, base) == !changes[i].matters, "--set %s=%s: the key %s", changes[i].name,
                  changes[i].value, changes[i].matters ? "is the same" : "is another");
    }
    SAME(key_with("x", "x.cfg", "0"), key_with("x", "x.cfg", "-0"));
}

/* Every parameter of the sampling node that is not declared neutral, against every other one: no two changes look
 * alike. */
static void test_parameters_do_not_look_alike(void)
{
    static const change changes[] = {{"x.seed", "9", 1},      {"x.steps", "9", 1},     {"x.cfg", "9", 1},
                                     {"x.noise", "false", 1}, {"x.mode", "normal", 1}, {"x.sampler", "heun", 1}};
    enum { N = sizeof changes / sizeof changes[0] };
    digest key[N];
    write_file("one.bin", "one");
    for (size_t i = 0; i < N; i++) {
        key[i] = key_with("x", changes[i].name, changes[i].value);
        for (size_t k = 0; k < i; k++)
            CHECK_MSG(!digest_equal(key[i], key[k]), "%s and %s", changes[i].name, changes[k].name);
    }
}

static void test_only_what_hangs_on_it_changes(void)
{
    write_file("one.bin", "one");
    digest x = key_of(model, "x", &cpu, NULL), t = key_of(model, "t", &cpu, NULL), b = key_of(model, "b", &cpu, NULL),
           s = key_of(model, "s", &cpu, NULL);
    SAME(key_with("t", "x.seed", "9"), t);
    SAME(key_with("b", "x.seed", "9"), b);
    OTHER(key_with("x", "x.seed", "9"), x);
    OTHER(key_with("s", "x.seed", "9"), s);
    OTHER(key_with("x", "t.text", "blue"), x);
}

static void test_wires(void)
{
    static const char two[] =
        "nodes:\n  a: {class_type: Blank, inputs: {width: 64}}\n  b: {class_type: Blank, inputs: {width: 32}}\n"
        "  j: {class_type: Join, inputs: {images: %s}}\n  s: {class_type: Save, inputs: {images: [j, 0]}}\n";
    char ab[400], ba[400], a[400], aa[400], named[400];
    snprintf(ab, sizeof ab, two, "[[a, 0], [b, 0]]");
    snprintf(ba, sizeof ba, two, "[[b, 0], [a, 0]]");
    snprintf(a, sizeof a, two, "[a, 0]");
    snprintf(aa, sizeof aa, two, "[[a, 0], [a, 0]]");
    snprintf(named, sizeof named, two, "[[a, IMAGE], [b, IMAGE]]");
    digest key = key_of(ab, "j", &cpu, NULL);
    SAME(key_of(named, "j", &cpu, NULL), key);
    OTHER(key_of(ba, "j", &cpu, NULL), key);
    OTHER(key_of(a, "j", &cpu, NULL), key);
    OTHER(key_of(aa, "j", &cpu, NULL), key);
    OTHER(key_of(aa, "j", &cpu, NULL), key_of(a, "j", &cpu, NULL));
}

/* An output number, an optional input, a parameter wired instead of written. */
static void test_wires_of_other_kinds(void)
{
    static const char *const text[] = {
        "nodes:\n  m: {class_type: Load, inputs: {ckpt: one.bin}}\n  y: {class_type: Any, inputs: {any: [m, 0]}}\n  s: "
        "{class_type: Save, inputs: {images: [y, 0]}}\n",
        "nodes:\n  m: {class_type: Load, inputs: {ckpt: one.bin}}\n  y: {class_type: Any, inputs: {any: [m, 1]}}\n  s: "
        "{class_type: Save, inputs: {images: [y, 0]}}\n",
        "nodes:\n  n: {class_type: Number, inputs: {amount: 64}}\n  y: {class_type: Blank, inputs: {width: [n, 0]}}\n  "
        "s: {class_type: Save, inputs: {images: [y, 0]}}\n",
        "nodes:\n  n: {class_type: Number, inputs: {amount: 64}}\n  y: {class_type: Blank, inputs: {height: [n, 0]}}\n "
        " s: {class_type: Save, inputs: {images: [y, 0]}}\n",
        "nodes:\n  n: {class_type: Number, inputs: {amount: 32}}\n  y: {class_type: Blank, inputs: {width: [n, 0]}}\n  "
        "s: {class_type: Save, inputs: {images: [y, 0]}}\n",
    };
    enum { N = sizeof text / sizeof text[0] };
    digest key[N];
    write_file("one.bin", "one");
    for (size_t i = 0; i < N; i++) {
        key[i] = key_of(text[i], "y", &cpu, NULL);
        for (size_t k = 0; k < i; k++) CHECK_MSG(!digest_equal(key[i], key[k]), "texts %zu and %zu", i, k);
    }
}

static void test_names_order_and_form_do_not_matter(void)
{
    static const char yaml[] = "nodes:\n  s: {class_type: Save, inputs: {images: [dec, 0]}}\n  dec: {class_type: "
                               "Decode, title: nice, inputs: {images: [blank, IMAGE]}}\n"
                               "  blank: {class_type: Blank, inputs: {height: 512, width: 64}}\n";
    static const char param[] = "params: {w: 64}\nnodes:\n  q: {class_type: Blank, inputs: {width: \"${w}\"}}\n  dec: "
                                "{class_type: Decode, inputs: {images: [q, 0]}}\n"
                                "  s: {class_type: Save, inputs: {images: [dec, 0]}}\n";
    static const char json[] = "{\"3\":{\"inputs\":{\"width\":64},\"class_type\":\"Blank\"},\"dec\":{\"inputs\":{"
                               "\"images\":[\"3\",0]},\"class_type\":\"Decode\",\"_meta\":{\"title\":\"D\"}},"
                               "\"5\":{\"inputs\":{\"images\":[\"dec\",0]},\"class_type\":\"Save\"}}";
    digest key = key_of(yaml, "dec", &cpu, NULL);
    SAME(key_of(param, "dec", &cpu, NULL), key);
    SAME(key_of(json, "dec", &cpu, NULL), key);
    set_option set = {.name = "w", .value = "65"};
    OTHER(key_of(param, "dec", &cpu, &set), key);
}

static void test_device_and_precision(void)
{
    static const key_setting bf16 = {.device = "cpu", .precision = "bf16"}, f16 = {.device = "cpu", .precision = "f16"},
                             cuda = {.device = "cuda", .precision = "f32"};
    write_file("one.bin", "one");
    OTHER(key_of(model, "x", &bf16, NULL), key_of(model, "x", &cpu, NULL));
    OTHER(key_of(model, "x", &cuda, NULL), key_of(model, "x", &cpu, NULL));
    OTHER(key_of(model, "s", &bf16, NULL), key_of(model, "s", &cpu, NULL));
    OTHER(key_of(model, "x", &f16, NULL), key_of(model, "x", &bf16, NULL));
    OTHER(key_of(model, "x", &f16, NULL), key_of(model, "x", &cpu, NULL));
    SAME(key_of(model, "b", &bf16, NULL), key_of(model, "b", &cpu, NULL)); /* computes nothing on the device */
    SAME(key_of(model, "m", &cuda, NULL), key_of(model, "m", &cpu, NULL));
}

static void test_plugin_and_revision(void)
{
    write_file("one.bin", "one");
    digest x = key_of(model, "x", &cpu, NULL), saved = fake_plugin;
    fake_plugin.lo++;
    OTHER(key_of(model, "x", &cpu, NULL), x);
    fake_plugin = saved;
    SAME(key_of(model, "x", &cpu, NULL), x);
}

static int origin_of(void *arg, const char *from, const char *name, digest *out)
{
    *out = *(digest *)arg;
    return strcmp(from, "sampler") == 0 && strcmp(name, "euler") == 0;
}

static void test_plugins_behind_names_and_models(void)
{
    digest one = {1, 2}, two = {1, 3};
    key_setting a = {.device = "cpu", .precision = "f32", .origin = origin_of, .arg = &one}, b = a, c = a;
    b.arg = &two, c.families = two;
    write_file("one.bin", "one");
    OTHER(key_of(model, "x", &b, NULL), key_of(model, "x", &a, NULL)); /* another build of the sampler's plugin */
    SAME(key_of(model, "m", &b, NULL), key_of(model, "m", &a, NULL));
    SAME(key_of(model, "b", &b, NULL), key_of(model, "b", &a, NULL));
    OTHER(key_of(model, "m", &c, NULL), key_of(model, "m", &a, NULL)); /* another build of a family's */
    SAME(key_of(model, "b", &c, NULL), key_of(model, "b", &a, NULL));
    set_option heun = {.name = "x.sampler", .value = "heun"}; /* nobody's: the name alone */
    SAME(key_of(model, "x", &b, &heun), key_of(model, "x", &a, &heun));
}

static const kiln_node *newer(void *self, const char *type, digest *identity)
{
    static kiln_node node;
    const kiln_node *old = fake_find(self, type, identity);
    if (!old || strcmp(type, "Blank") != 0) return old;
    node = *old;
    node.revision++;
    return &node;
}

static void test_revision(void)
{
    static const char text[] = "nodes:\n  a: {class_type: Blank}\n  s: {class_type: Save, inputs: {images: [a, 0]}}\n";
    error e = {0};
    document d;
    workflow w;
    catalog_view catalog = fake_catalog();
    catalog.find = newer;
    REQUIRE(document_parse(&d, "t", text, sizeof text - 1, NULL, 0, &e) == KILN_OK);
    REQUIRE(workflow_check(&d, &catalog, &w, &e) == KILN_OK && workflow_keys(&w, &cpu, &e) == KILN_OK);
    OTHER(w.node[0].key, key_of(text, "a", &cpu, NULL));
    document_free(&d);
}

/* The content, not the name, the time or the folder of a file. */
static void test_file_content(void)
{
    char path[512];
    write_file("one.bin", "one");
    digest key = key_of(model, "m", &cpu, NULL);
    snprintf(path, sizeof path, "%s/one.bin", test_folder());
    CHECK_EQ(utimensat(-1, path, (const struct timespec[2]){{.tv_sec = 1}, {.tv_sec = 1}}, 0), 0);
    SAME(key_of(model, "m", &cpu, NULL), key);
    write_file("one.bin", "eno");
    OTHER(key_of(model, "m", &cpu, NULL), key);
    write_file("one.bin", "one");
    SAME(key_of(model, "m", &cpu, NULL), key);
    write_file("one.bin", "");
    OTHER(key_of(model, "m", &cpu, NULL), key);
}

static void test_a_file_that_went_is_an_error(void)
{
    char path[512];
    error e = {0};
    document d;
    workflow w;
    catalog_view catalog = fake_catalog();
    write_file("one.bin", "one");
    REQUIRE(document_parse(&d, "t", model, sizeof model - 1, NULL, 0, &e) == KILN_OK);
    REQUIRE(workflow_check(&d, &catalog, &w, &e) == KILN_OK && d.n_fault == 0);
    snprintf(path, sizeof path, "%s/one.bin", test_folder());
    REQUIRE(remove(path) == 0);
    CHECK_EQ(workflow_keys(&w, &cpu, &e), KILN_ERR_IO);
    CHECK_MSG(strstr(e.message, "node 'm' (Load)") && strstr(e.message, "one.bin"), "%s", e.message);
    document_free(&d);
}

/* Two nodes that may give anything are two results, and so is whatever is made of them. */
static void test_impure_nodes_are_their_own(void)
{
    static const char text[] =
        "nodes:\n  r: {class_type: Random}\n  q: {class_type: Random}\n  a: {class_type: Blank, inputs: {width: [r, "
        "0]}}\n"
        "  b: {class_type: Blank, inputs: {width: [q, 0]}}\n  c: {class_type: Blank, inputs: {width: [r, 0]}}\n"
        "  j: {class_type: Join, inputs: {images: [[a, 0], [b, 0], [c, 0]]}}\n  s: {class_type: Save, inputs: {images: "
        "[j, 0]}}\n";
    OTHER(key_of(text, "r", &cpu, NULL), key_of(text, "q", &cpu, NULL));
    OTHER(key_of(text, "a", &cpu, NULL), key_of(text, "b", &cpu, NULL));
    SAME(key_of(text, "a", &cpu, NULL), key_of(text, "c", &cpu, NULL));
}

static void test_unneeded_nodes_read_no_files(void)
{
    static const char text[] = "nodes:\n  m: {class_type: Load, inputs: {ckpt: gone.bin}}\n  a: {class_type: Blank}\n  "
                               "s: {class_type: Save, inputs: {images: [a, 0]}}\n";
    error e = {0};
    document d;
    workflow w;
    catalog_view catalog = fake_catalog();
    char path[512];
    write_file("gone.bin", "x");
    REQUIRE(document_parse(&d, "t", text, sizeof text - 1, NULL, 0, &e) == KILN_OK);
    REQUIRE(workflow_check(&d, &catalog, &w, &e) == KILN_OK);
    CHECK_EQ(d.n_fault, 0);
    CHECK_EQ(d.n_warning, 1);
    snprintf(path, sizeof path, "%s/gone.bin", test_folder());
    REQUIRE(remove(path) == 0);
    CHECK_EQ(workflow_keys(&w, &cpu, &e), KILN_OK);
    document_free(&d);
}

/* The text a picture carries runs again to the same result: every key of it is the key of the workflow it came from. */
static void test_a_picture_carries_its_keys(void)
{
    static const char text[] =
        "params: {p: \"\\\"quoted\\\" \\\\ud83d \\U0001F600 ${x} $$ \\t\\n \\x7f\"}\n"
        "nodes:\n  m: {class_type: Load, inputs: {ckpt: one.bin}}\n  t: {class_type: Text, inputs: {clip: [m, CLIP], "
        "text: \"${p}\"}}\n"
        "  n: {class_type: Number, inputs: {amount: 3}}\n"
        "  x: {class_type: Sample, title: \"t \\u00e9\", inputs: {model: [m, MODEL], positive: [t, COND], seed: "
        "18446744073709551615, steps: [n, 0], cfg: 0.1, mode: karras, noise: false}}\n"
        "  b: {class_type: Blank}\n  j: {class_type: Join, inputs: {images: [[x, 0], [b, 0]]}}\n  s: {class_type: "
        "Save, inputs: {images: [j, 0]}}\n"
        "  unneeded: {class_type: Blank}\n";
    error e = {0};
    document d;
    workflow w;
    catalog_view catalog = fake_catalog();
    write_file("one.bin", "one");
    REQUIRE(document_parse(&d, "t", text, sizeof text - 1, NULL, 0, &e) == KILN_OK);
    REQUIRE(workflow_check(&d, &catalog, &w, &e) == KILN_OK && d.n_fault == 0 &&
            workflow_keys(&w, &cpu, &e) == KILN_OK);
    char *json = describe_prompt(&w, SOURCE_NONE);
    REQUIRE(json != NULL);
    CHECK(strstr(json, "unneeded") == NULL);
    for (size_t i = 0; i < w.n; i++)
        if (w.node[i].needed)
            CHECK_MSG(digest_equal(key_of(json, w.node[i].doc->name, &cpu, NULL), w.node[i].key), "node '%s' of\n%s",
                      w.node[i].doc->name, json);
    mem_free(json);
    document_free(&d);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_parameters),
        CASE(test_parameters_do_not_look_alike),
        CASE(test_only_what_hangs_on_it_changes),
        CASE(test_wires),
        CASE(test_wires_of_other_kinds),
        CASE(test_names_order_and_form_do_not_matter),
        CASE(test_device_and_precision),
        CASE(test_plugin_and_revision),
        CASE(test_plugins_behind_names_and_models),
        CASE(test_revision),
        CASE(test_file_content),
        CASE(test_a_file_that_went_is_an_error),
        CASE(test_impure_nodes_are_their_own),
        CASE(test_unneeded_nodes_read_no_files),
        CASE(test_a_picture_carries_its_keys),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
