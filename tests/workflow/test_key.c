/* test_key.c - what a node's key depends on, and what it must not depend on: one row for each ingredient. */
#include "fake_nodes.h"
#include "harness.h"

#include "base/file.h"
#include "workflow/key.h"

#include <stdio.h>

static char model_path[300], copy_path[300];

static const key_setting cpu_f32 = {.device = "cpu", .precision = "f32"};

/* The key of node `name` of a workflow text. */
static digest key_on(const char *text, const char *name, const key_setting *on)
{
    error e = {0};
    document d;
    workflow w;
    digest key = {0};
    if (!CHECK_MSG(document_parse(&d, "w", text, strlen(text), NULL, 0, &e) == KILN_OK, "%s", e.message)) return key;
    CHECK_EQ(workflow_check(&d, &fake_catalog, &w, &e), KILN_OK);
    CHECK_MSG(d.n_fault == 0, "%s: %s", text, d.faults ? d.faults->text : "");
    if (d.n_fault == 0) {
        CHECK_MSG(workflow_keys(&w, on, &e) == KILN_OK, "%s", e.message);
        for (size_t i = 0; i < w.n; i++)
            if (strcmp(w.node[i].doc->name, name) == 0) key = w.node[i].key;
    }
    document_free(&d);
    CHECK_MSG(key.hi || key.lo, "no key of '%s'", name);
    return key;
}

static const char graph[] = "  l: {class_type: Load, inputs: {file: a.safetensors}}\n"
                            "  t: {class_type: Text, inputs: {clip: [l, 1], text: hello}}\n"
                            "  s: {class_type: Sample, inputs: {model: [l, 0], positive: [t, 0]%s}}\n"
                            "  z: {class_type: Save, inputs: {latent: [s, 0]}}\n%s";

static digest key_with(const char *inputs, const char *more)
{
    char text[2048], body[1900];
    snprintf(body, sizeof body, graph, inputs, more);
    snprintf(text, sizeof text, "nodes:\n%s", body);
    return key_on(text, "s", &cpu_f32);
}

static void setup(void)
{
    error e = {0};
    snprintf(model_path, sizeof model_path, "%s/a.safetensors", test_folder());
    snprintf(copy_path, sizeof copy_path, "%s/b.safetensors", test_folder());
    CHECK_EQ(file_write_whole(model_path, "content", 7, &e), KILN_OK);
    CHECK_EQ(file_write_whole(copy_path, "content", 7, &e), KILN_OK);
    fake_file = model_path;
}

static void test_what_does_not_matter(void)
{
    setup();
    digest plain = key_with("", "");
    static const struct {
        const char *what, *inputs, *more;
    } rows[] = {
        {"a default that is written out", ", steps: 20, cfg: 8.0, sampler: euler, mode: fine, fast: false, seed: 0, label: ''", ""},
        {"another way to write a number", ", steps: 2e1, cfg: 8.000", ""},
        {"a further node", "", "  extra: {class_type: Save, inputs: {latent: [s, 0]}}\n"},
        {"a title", "", "  other: {class_type: Any, title: x}\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        CHECK_MSG(digest_equal(key_with(rows[i].inputs, rows[i].more), plain), "%s changes the key", rows[i].what);
    digest renamed = key_on("name: other\nparams: {p: hello}\nnodes:\n  z: {class_type: Save, inputs: {latent: [s, LATENT]}}\n"
                            "  s: {class_type: Sample, title: t, inputs: {positive: [words, CONDITIONING], model: [load, MODEL]}}\n"
                            "  words: {class_type: Text, inputs: {text: '${p}', clip: [load, CLIP]}}\n"
                            "  load: {class_type: Load, inputs: {file: a.safetensors}}\n", "s", &cpu_f32);
    CHECK_MSG(digest_equal(renamed, plain), "names, order of nodes and inputs, or output names change the key");
    digest api = key_on("{\"1\": {\"class_type\": \"Load\", \"inputs\": {\"file\": \"a.safetensors\"}}, \"2\": {\"class_type\": \"Text\", \"inputs\": "
                        "{\"clip\": [\"1\", 1], \"text\": \"hello\"}}, \"s\": {\"class_type\": \"Sample\", \"inputs\": {\"model\": [\"1\", 0], "
                        "\"positive\": [\"2\", 0], \"steps\": 20}}, \"9\": {\"class_type\": \"Save\", \"inputs\": {\"latent\": [\"s\", 0]}}}", "s", &cpu_f32);
    CHECK_MSG(digest_equal(api, plain), "the form of the file changes the key");
    fake_file = copy_path;
    CHECK_MSG(digest_equal(key_with("", ""), plain), "the path of a file changes the key though its content is the same");
    fake_file = model_path;
}

static void test_what_matters(void)
{
    setup();
    digest plain = key_with("", ""), seen[32];
    size_t n = 0;
    static const char *const inputs[] = {", seed: 1", ", seed: 18446744073709551615", ", steps: 21", ", cfg: 8.0000000001", ", sampler: heun", ", mode: coarse",
                                         ", fast: true", ", label: x", ", label: ' x'", ", mask: [m, 0]", ", steps: [k, 0]"};
    seen[n++] = plain;
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
        seen[n++] = key_with(inputs[i], "  m: {class_type: Any}\n  k: {class_type: Number, inputs: {value: 20}}\n");
    seen[n++] = key_with(", steps: [k, 0]", "  k: {class_type: Number, inputs: {value: 21}}\n"); /* through a wire */
    error e = {0};
    CHECK_EQ(file_write_whole(model_path, "changed", 7, &e), KILN_OK); /* the same size */
    seen[n++] = key_with("", "");
    CHECK_EQ(file_write_whole(model_path, "content", 7, &e), KILN_OK);
    CHECK_MSG(digest_equal(key_with("", ""), plain), "the old content does not bring the old key back");
    kiln_node *sample = &fake_node[FAKE_SAMPLE], *text = &fake_node[FAKE_TEXT];
    sample->revision = 2;
    seen[n++] = key_with("", "");
    sample->revision = 1;
    text->revision = 2; /* of a node it hangs on */
    seen[n++] = key_with("", "");
    text->revision = 1;
    fake_plugin.lo++;
    seen[n++] = key_with("", "");
    fake_plugin.lo--;
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++) CHECK_MSG(!digest_equal(seen[i], seen[k]), "changes %zu and %zu give one key", i, k);
}

/* Device and precision count for nodes that compute on the device, and for what hangs on them; not for the others. */
static void test_device_and_precision(void)
{
    setup();
    char body[1024], text[1100];
    snprintf(body, sizeof body, graph, "", "");
    snprintf(text, sizeof text, "nodes:\n%s", body);
    const key_setting bf16 = {.device = "cpu", .precision = "bf16"}, cuda = {.device = "cuda", .precision = "f32"};
    CHECK(!digest_equal(key_on(text, "s", &cpu_f32), key_on(text, "s", &bf16)));
    CHECK(!digest_equal(key_on(text, "s", &cpu_f32), key_on(text, "s", &cuda)));
    CHECK(!digest_equal(key_on(text, "z", &cpu_f32), key_on(text, "z", &cuda)));
    CHECK(digest_equal(key_on(text, "t", &cpu_f32), key_on(text, "t", &bf16)));
    CHECK(digest_equal(key_on(text, "t", &cpu_f32), key_on(text, "t", &cuda)));
}

static void test_neutral_parameter_and_output_number(void)
{
    setup();
    static const char with[] = "nodes: {l: {class_type: Load, inputs: {file: a.safetensors}}, t: {class_type: Text, inputs: {clip: [l, 1], text: x}},\n"
                               " s: {class_type: Sample, inputs: {model: [l, 0], positive: [t, 0]}}, z: {class_type: Save, inputs: {latent: [s, 0], prefix: %s}},\n"
                               " a: {class_type: Any, inputs: {x: [l, %s]}}, s2: {class_type: Sample, inputs: {model: [l, 0], positive: [t, 0], mask: [a, 0]}},\n"
                               " z2: {class_type: Save, inputs: {latent: [s2, 0]}}}\n";
    char one[1024], two[1024], three[1024];
    snprintf(one, sizeof one, with, "p", "0");
    snprintf(two, sizeof two, with, "q", "0");
    snprintf(three, sizeof three, with, "p", "1");
    CHECK(digest_equal(key_on(one, "z", &cpu_f32), key_on(two, "z", &cpu_f32)));
    CHECK(!digest_equal(key_on(one, "a", &cpu_f32), key_on(three, "a", &cpu_f32)));
    CHECK(!digest_equal(key_on(one, "s2", &cpu_f32), key_on(three, "s2", &cpu_f32)));
}

/* Order and number of a list port's wires count. */
static void test_list_port(void)
{
    setup();
    static const char with[] = "nodes: {l: {class_type: Load, inputs: {file: a.safetensors}}, t: {class_type: Text, inputs: {clip: [l, 1], text: x}},\n"
                               " a: {class_type: Sample, inputs: {model: [l, 0], positive: [t, 0]}}, b: {class_type: Sample, inputs: {model: [l, 0], positive: [t, 0], seed: 3}},\n"
                               " j: {class_type: Join, inputs: {parts: %s}}, z: {class_type: Save, inputs: {latent: [j, 0]}}, y: {class_type: Save, inputs: {latent: [a, 0]}},\n"
                               " x: {class_type: Save, inputs: {latent: [b, 0]}}}\n";
    static const char *const parts[] = {"[[a, 0], [b, 0]]", "[[b, 0], [a, 0]]", "[[a, 0]]", "[[a, 0], [a, 0]]"};
    digest seen[4];
    for (size_t i = 0; i < 4; i++) {
        char text[1024];
        snprintf(text, sizeof text, with, parts[i]);
        seen[i] = key_on(text, "j", &cpu_f32);
        for (size_t k = 0; k < i; k++) CHECK_MSG(!digest_equal(seen[i], seen[k]), "%s and %s give one key", parts[i], parts[k]);
    }
}

static void test_file_that_went_away(void)
{
    error e = {0};
    document d;
    workflow w;
    char body[1024], text[1100];
    fake_file = "/nowhere/at/all.safetensors";
    snprintf(body, sizeof body, graph, "", "");
    snprintf(text, sizeof text, "nodes:\n%s", body);
    CHECK_EQ(document_parse(&d, "w", text, strlen(text), NULL, 0, &e), KILN_OK);
    CHECK_EQ(workflow_check(&d, &fake_catalog, &w, &e), KILN_OK);
    CHECK_EQ(workflow_keys(&w, &cpu_f32, &e), KILN_ERR_IO);
    CHECK_MSG(strstr(e.message, "node 'l' (Load)") && strstr(e.message, "/nowhere/at/all.safetensors"), "%s", e.message);
    document_free(&d);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_what_does_not_matter), CASE(test_what_matters), CASE(test_device_and_precision),
                                      CASE(test_neutral_parameter_and_output_number), CASE(test_list_port), CASE(test_file_that_went_away)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
