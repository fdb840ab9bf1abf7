/* test_faults.c - faulty workflows: each must be refused at its line and column with a sentence that says what is
 * wrong; and sound ones that look odd must pass. Node types come from fake_nodes.h.
 *
 * A row's text may begin with '+': then what follows is put after `base`, a sound workflow of six lines.
 */
#include "fake_nodes.h"
#include "harness.h"

#include "base/memory_alloc.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>

static const char base[] = "nodes:\n"
                           "  load: {class_type: Load, inputs: {file: a.safetensors}}\n"
                           "  text: {class_type: Text, inputs: {clip: [load, CLIP], text: hello}}\n"
                           "  one: {class_type: Sample, inputs: {model: [load, 0], positive: [text, 0]}}\n"
                           "  save: {class_type: Save, inputs: {latent: [one, LATENT]}}\n"
                           "\n";
#define SAMPLE "+  two: {class_type: Sample, inputs: {model: [load, 0], positive: [text, 0], "

typedef struct {
    const char *text, *place, *part; /* "line:column", part of the message */
} row;

static const row faulty[] = {
    /* ---- the file is no YAML, or too much of it ---- */
    {"", "1:1", "the file is empty"},
    {"# only a remark\n", "1:1", "the file is empty"},
    {"nodes: [", "2:1", "not well-formed YAML"},
    {"nodes: {a: 1", "2:1", "not well-formed YAML"},
    {"nodes:\n\ta: 1\n", "2:1", "not well-formed YAML"},
    {"a: 'open\n", "2:1", "not well-formed YAML"},
    {"a: b: c\n", "1:5", "not well-formed YAML"},
    {"\xff\xfe", "1:1", "not valid UTF-8"},
    {"a: \xc0\xaf\n", "1:1", "not valid UTF-8"},
    {"a: \xed\xa0\x80\n", "1:1", "not valid UTF-8"},
    {"a: \"x\\0y\"\n", "1:4", "a NUL character in a scalar"},
    {"a: 1\nb: 2\na: 3\n", "3:1", "the key 'a' stands here twice; first in line 1"},
    {"a: {b: 1, b: 2}\n", "1:11", "the key 'b' stands here twice"},
    {"a: 1\n\"a\": 2\n", "2:1", "the key 'a' stands here twice"},
    {"? [a, b]\n: 1\n", "1:3", "a key must be a plain name"},
    {"? {a: b}\n: 1\n", "1:3", "a key must be a plain name"},
    {"a: *nobody\n", "1:4", "no anchor '&nobody' stands before this alias"},
    {"a: &x [*x]\n", "1:8", "no anchor '&x' stands before this alias"},
    {"a: 1\n---\nb: 2\n", "2:1", "a second document"},
    {"a: &x 1\nb: {<<: *x}\n", "2:5", "a merge key (<<) takes a map"},
    {"b: {<<: [1, 2]}\n", "1:5", "a merge key (<<) takes a map"},
    /* ---- not the shape of a workflow ---- */
    {"just words\n", "1:1", "a workflow is a map"},
    {"[1, 2]\n", "1:1", "a workflow is a map"},
    {"42\n", "1:1", "a workflow is a map"},
    {"{}\n", "1:1", "there is no `nodes:` here"},
    {"name: x\n", "1:1", "there is no `nodes:` here"},
    {"nodes: 5\n", "1:8", "`nodes` must be a map"},
    {"nodes: []\n", "1:8", "`nodes` must be a map"},
    {"nodes:\n", "1:7", "`nodes` must be a map"},
    {"nodes: {}\n", "1:8", "there are no nodes"},
    {"{\"nodes\": [], \"links\": []}\n", "1:1", "a file of ComfyUI's editor"},
    {"{\"last_node_id\": 3, \"nodes\": [{\"id\": 1}], \"links\": [[1]]}\n", "1:1", "a file of ComfyUI's editor"},
    {"kiln: 2\nnodes: {a: {class_type: Any}}\n", "1:7", "version 1"},
    {"kiln: [1]\nnodes: {a: {class_type: Any}}\n", "1:7", "version 1"},
    {"parms: {a: 1}\nnodes: {a: {class_type: Any}}\n", "1:1", "unknown key 'parms'; did you mean 'params'?"},
    {"zzzzzzzz: 1\nnodes: {a: {class_type: Any}}\n", "1:1", "unknown key 'zzzzzzzz'; the head has"},
    {"include: other.yaml\nnodes: {a: {class_type: Any}}\n", "1:1", "`include` belongs to an entry of `nodes`"},
    {"params: 3\nnodes: {a: {class_type: Any}}\n", "1:9", "`params` must be a map"},
    {"params: {a: [1]}\nnodes: {a: {class_type: Any}}\n", "1:10", "parameter 'a' needs a default"},
    {"params: {a: {help: x}}\nnodes: {a: {class_type: Any}}\n", "1:10", "parameter 'a' needs a default"},
    {"params: {a: {default: 1, hepl: x}}\nnodes: {a: {class_type: Any}}\n", "1:26", "unknown key 'hepl'"},
    /* ---- a node's own form ---- */
    {"+  n: 5\n", "7:6", "node 'n': must be a map with `class_type`"},
    {"+  n: [a, b]\n", "7:6", "node 'n': must be a map"},
    {"+  n: {inputs: {}}\n", "7:3", "node 'n': has no `class_type`"},
    {"+  n: {class_type: [Save]}\n", "7:19", "node 'n': has no `class_type`"},
    {"+  n: {class_type: Any, inputs: 7}\n", "7:32", "`inputs` must be a map"},
    {"+  n: {class_type: Any, inputs: [x]}\n", "7:32", "`inputs` must be a map"},
    {"+  n: {class_typ: Any}\n", "7:7", "unknown key 'class_typ'; did you mean 'class_type'?"},
    {"+  n: {class_type: Any, widgets_values: [1]}\n", "7:24", "unknown key 'widgets_values'"},
    {"+  n: {include: x.yaml}\n", "7:16", "`include`: no file"},
    {"+  n: {class_type: Saev}\n", "7:19", "no node type is called 'Saev'; did you mean 'Save'?"},
    {"+  n: {class_type: SomethingElse}\n", "7:19", "`kiln nodes` lists those there are"},
    {"+  n: {class_type: ''}\n", "7:19", "no node type is called ''"},
    {"+  save: {class_type: Any}\n", "7:3", "the key 'save' stands here twice"},
    /* ---- inputs and wires ---- */
    {"+  n: {class_type: Save}\n", "7:3", "input 'latent' is missing; wire it to an output of type LATENT"},
    {"+  n: {class_type: Save, inputs: {latnet: [one, 0]}}\n", "7:34", "has no input 'latnet'; did you mean 'latent'?"},
    {"+  n: {class_type: Save, inputs: {latent: [one, 0], wholly_other: 1}}\n", "7:52", "see `kiln nodes Save`"},
    {SAMPLE "control_after_generate: fixed}}\n", "7:77", "works only in ComfyUI's editor"},
    {"+  n: {class_type: Save, inputs: {latent: 5}}\n", "7:42", "takes a wire of type LATENT"},
    {"+  n: {class_type: Save, inputs: {latent: {a: b}}}\n", "7:42", "takes a wire of type LATENT"},
    {"+  n: {class_type: Save, inputs: {latent: [one]}}\n", "7:42", "takes a wire of type LATENT"},
    {"+  n: {class_type: Save, inputs: {latent: [one, 0, 0]}}\n", "7:42", "takes a wire of type LATENT"},
    {"+  n: {class_type: Save, inputs: {latent: [oen, 0]}}\n", "7:42",
     "'oen', which is not a node here; did you mean 'one'?"},
    {"+  n: {class_type: Save, inputs: {latent: [nowhere_at_all, 0]}}\n", "7:42",
     "'nowhere_at_all', which is not a node here"},
    {"+  n: {class_type: Save, inputs: {latent: [one, 1]}}\n", "7:42", "has no output '1'; it has 0 LATENT"},
    {"+  n: {class_type: Save, inputs: {latent: [one, -1]}}\n", "7:42", "has no output '-1'"},
    {"+  n: {class_type: Save, inputs: {latent: [one, 99999999999999999999]}}\n", "7:42", "has no output"},
    {"+  n: {class_type: Save, inputs: {latent: [one, latent]}}\n", "7:42", "has no output 'latent'; it has 0 LATENT"},
    {"+  n: {class_type: Save, inputs: {latent: [save, 0]}}\n", "7:42", "it has none"},
    {"+  n: {class_type: Save, inputs: {latent: [load, CLIP]}}\n", "7:42",
     "takes LATENT, but output 'CLIP' of 'load' (Load) is CLIP"},
    {"+  n: {class_type: Save, inputs: {latent: [[one, 0], [one, 0]]}}\n", "7:42", "takes one wire, not 2"},
    {SAMPLE "steps: [load, 0]}}\n", "7:84", "input 'steps' takes INT, but output 'MODEL'"},
    {SAMPLE "steps: [[load, 0], [load, 0]]}}\n", "7:84", "takes one value or one wire"},
    {"+  n: {class_type: Load, inputs: {file: [one, 0]}}\n", "7:40", "names a file and cannot be wired"},
    {"+  n: {class_type: Join, inputs: {parts: [n, 0]}}\n", "7:3", "is part of a cycle: 'n' <- 'n'"},
    {"+  b: {class_type: Join, inputs: {parts: [c, 0]}}\n  c: {class_type: Join, inputs: {parts: [b, 0]}}\n", "7:3",
     "is part of a cycle: 'b' <- 'c' <- 'b'"},
    /* ---- values ---- */
    {SAMPLE "steps: many}}\n", "7:84", "'many' is not a whole number from 1 to 10000"},
    {SAMPLE "steps: 0}}\n", "7:84", "'0' is not a whole number from 1 to 10000"},
    {SAMPLE "steps: 10001}}\n", "7:84", "'10001' is not"},
    {SAMPLE "steps: 2.5}}\n", "7:84", "'2.5' is not a whole number"},
    {SAMPLE "steps: \"20\"}}\n", "7:84", "the text \"20\" is not a whole number"},
    {SAMPLE "steps: 1e400}}\n", "7:84", "'1e400' is not"},
    {SAMPLE "steps: 9223372036854775808}}\n", "7:84", "is not a whole number from 1 to 10000"},
    {SAMPLE "steps: }}\n", "7:84", "has no value; it takes a whole number"},
    {SAMPLE "steps: null}}\n", "7:84", "has no value"},
    {SAMPLE "steps: [1, 2, 3]}}\n", "7:84", "not a list or map"},
    {SAMPLE "steps: {a: 1}}}\n", "7:84", "not a list or map"},
    {SAMPLE "seed: -1}}\n", "7:83", "'-1' is not a whole number from 0 to 18446744073709551615"},
    {SAMPLE "seed: 18446744073709551616}}\n", "7:83", "is not a whole number from 0"},
    {SAMPLE "seed: 1.5}}\n", "7:83", "'1.5' is not"},
    {SAMPLE "cfg: nan}}\n", "7:82", "'nan' is not a number from 0 to 100"},
    {SAMPLE "cfg: .inf}}\n", "7:82", "'.inf' is not a number from 0 to 100"},
    {SAMPLE "cfg: -0.5}}\n", "7:82", "'-0.5' is not a number"},
    {SAMPLE "cfg: 100.5}}\n", "7:82", "'100.5' is not a number"},
    {SAMPLE "cfg: 0x10}}\n", "7:82", "'0x10' is not a number"},
    {SAMPLE "cfg: 1,5}}\n", "7:84", "has no input '5'"},
    {SAMPLE "sampler: eulre}}\n", "7:86", "no sampler is called 'eulre'; did you mean 'euler'?"},
    {SAMPLE "sampler: something_else}}\n", "7:86", "is not one of euler, heun"},
    {SAMPLE "mode: coares}}\n", "7:83", "'coares' is not a choice; did you mean 'coarse'?"},
    {SAMPLE "mode: 3}}\n", "7:83", "'3' is not one of fine, coarse"},
    {SAMPLE "fast: yes}}\n", "7:83", "'yes' is not true or false"},
    {SAMPLE "fast: \"true\"}}\n", "7:83", "the text \"true\" is not true or false"},
    {SAMPLE "fast: 1}}\n", "7:83", "'1' is not true or false"},
    {"+  n: {class_type: Load, inputs: {file: b.safetensors}}\n", "7:40", "no file 'b.safetensors' in models"},
    {"+  n: {class_type: Load, inputs: {file: ''}}\n", "7:40", "no file '' in models"},
    {"+  n: {class_type: Load}\n", "7:3", "input 'file' is missing; it takes a file of the models folder"},
    {"+  n: {class_type: Text, inputs: {clip: [load, 1]}}\n", "7:3", "input 'text' is missing; it takes a text"},
    {"+  n: {class_type: Text, inputs: {clip: [load, 1], text: '${who}'}}\n", "7:57", "no parameter is called 'who'"},
    {"params: {who: x}\nnodes: {a: {class_type: Text, inputs: {text: 'a ${wo}'}}}\n", "2:46", "did you mean '${who}'?"},
    /* ---- nothing to do ---- */
    {"nodes: {a: {class_type: Any}}\n", "1:9", "no node writes anything"},
};

/* What a message must not be taken for: each of these is sound. */
static const char *const sound[] = {
    "+",
    SAMPLE "steps: 20.0, seed: 18446744073709551615, cfg: 7, mode: coarse, fast: true}}\n",
    SAMPLE "steps: [number, INT]}}\n  number: {class_type: Number, inputs: {value: 5}}\n",
    SAMPLE "steps: [any, 0]}}\n  any: {class_type: Any}\n",
    "+  j: {class_type: Join, inputs: {parts: [[one, 0], [one, 0]]}}\n",
    "+  j: {class_type: Join, inputs: {parts: [one, 0]}}\n",
    "x-mine: {a: [1, 2]}\nparams: {who: {default: x, help: y}}\n"
    "nodes: {l: {class_type: Load, inputs: {file: a.safetensors}}, a: {class_type: Text, inputs: {clip: [l, 1], text: "
    "'${who} $${who} $5'}},\n"
    "  s: {class_type: Sample, inputs: {model: [l, 0], positive: [a, 0]}}, z: {class_type: Save, inputs: {latent: [s, "
    "0]}}}\n",
    "{\"1\": {\"class_type\": \"Load\", \"inputs\": {\"file\": \"a.safetensors\"}, \"_meta\": {\"title\": \"T\"}},\n"
    " \"2\": {\"class_type\": \"Text\", \"inputs\": {\"clip\": [\"1\", 1], \"text\": \"${not a param}\"}},\n"
    " \"3\": {\"class_type\": \"Sample\", \"inputs\": {\"model\": [\"1\", 0], \"positive\": [\"2\", 0], \"steps\": "
    "4}},\n"
    " \"4\": {\"class_type\": \"Save\", \"inputs\": {\"latent\": [\"3\", 0]}}}\n",
    ".common: &c {steps: 5, cfg: 2}\n"
    "nodes: {l: {class_type: Load, inputs: {file: a.safetensors}}, a: {class_type: Text, inputs: {clip: [l, 1], text: "
    "x}},\n"
    "  s: {class_type: Sample, inputs: {<<: *c, cfg: 3, model: [l, 0], positive: [a, 0]}}, z: {class_type: Save, "
    "inputs: {latent: [s, 0]}}}\n",
};

static char *whole_text(const char *text)
{
    str s = {0};
    if (text[0] == '+') str_append(&s, base);
    str_append(&s, text + (text[0] == '+'));
    char *copy = mem_strdup(str_text(&s));
    str_free(&s);
    return copy;
}

/* Reads and checks; all messages, one a line, into out. */
static void messages(const char *text, size_t size, char *out, size_t capacity)
{
    error e = {0};
    document d;
    workflow w;
    out[0] = '\0';
    kiln_status status = document_parse(&d, "w", text, size, NULL, 0, &e);
    if (status != KILN_OK) {
        snprintf(out, capacity, "%s\n", e.message);
        return;
    }
    status = workflow_check(&d, &fake_catalog, &w, &e);
    if (status != KILN_OK) snprintf(out, capacity, "%s\n", e.message);
    size_t used = strlen(out);
    for (const fault *f = d.faults; f && used + 1 < capacity; f = f->next) {
        if (f->warning) continue;
        int n = snprintf(out + used, capacity - used, "w:%u:%u: %s\n", f->at.line, f->at.column, f->text);
        used += n > 0 ? (size_t)n : 0;
    }
    document_free(&d);
}

/* A line of `all` begins with "w:PLACE: " and holds `part`. */
static int has_line(const char *all, const char *where, const char *part)
{
    char head[40];
    snprintf(head, sizeof head, "w:%s: ", where);
    for (const char *line = all; *line;) {
        const char *end = strchr(line, '\n'), *at = strstr(line, part);
        if (strncmp(line, head, strlen(head)) == 0 && at && at < end) return 1;
        line = end + 1;
    }
    return 0;
}

static void test_each_fault_has_its_place_and_sentence(void)
{
    static char out[65536];
    for (size_t i = 0; i < sizeof faulty / sizeof faulty[0]; i++) {
        char *text = whole_text(faulty[i].text);
        messages(text, strlen(text), out, sizeof out);
        CHECK_MSG(has_line(out, faulty[i].place, faulty[i].part), "%s\n    wanted %s: ...%s...\n    got    %s",
                  faulty[i].text, faulty[i].place, faulty[i].part, out[0] ? out : "(no fault)");
        mem_free(text);
    }
    CHECK(sizeof faulty / sizeof faulty[0] >= 60);
}

static void test_sound_ones_pass(void)
{
    static char out[65536];
    for (size_t i = 0; i < sizeof sound / sizeof sound[0]; i++) {
        char *text = whole_text(sound[i]);
        messages(text, strlen(text), out, sizeof out);
        CHECK_MSG(out[0] == '\0', "%s\n    got %s", sound[i], out);
        mem_free(text);
    }
}

static void test_every_fault_is_told_at_once_in_order(void)
{
    static char out[65536];
    char *text = whole_text(
        "+  a: {class_type: Saev}\n  b: {class_type: Save, inputs: {latnet: [one, 0]}}\n  c: {class_type: Load}\n");
    messages(text, strlen(text), out, sizeof out);
    mem_free(text);
    const char *a = strstr(out, "w:7:19: "), *b = strstr(out, "w:8:3: "), *b2 = strstr(out, "w:8:34: "),
               *c = strstr(out, "w:9:3: ");
    CHECK_MSG(a && b && b2 && c && a < b && b < b2 && b2 < c, "%s", out);
}

/* ---- sizes ---- */

static void check_big(const char *what, str *s, const char *part)
{
    static char out[65536];
    messages(str_text(s), strlen(str_text(s)), out, sizeof out);
    CHECK_MSG(strstr(out, part) != NULL, "%s: wanted '%s', got %.300s", what, part, out);
    str_free(s);
}

static void test_limits(void)
{
    str s = {0};
    for (int i = 0; i < 65; i++) str_append(&s, "[");
    check_big("65 levels", &s, "w:1:65: nested deeper than 64 levels");
    for (int i = 0; i < 100000; i++) str_append(&s, "[");
    check_big("100,000 levels", &s, "nested deeper than 64 levels");
    for (int i = 0; i < 64; i++) str_append(&s, "[");
    for (int i = 0; i < 64; i++) str_append(&s, "]");
    check_big("64 levels", &s, "a workflow is a map");
    str_append(&s, "a: ");
    for (int i = 0; i < (1 << 20) + 1; i++) str_char(&s, 'x');
    check_big("a long scalar", &s, "w:1:4: a scalar of more than 1 MiB");
    str_append(&s, "a: &a [x, x, x, x, x, x, x, x, x, x]\n");
    for (char c = 'b'; c < 'k'; c++) {
        str_printf(&s, "%c: &%c [", c, c);
        for (int i = 0; i < 10; i++) str_printf(&s, "*%c%s", c - 1, i < 9 ? ", " : "]\n");
    }
    check_big("ten to the tenth by aliases", &s, "aliases expand to more than 10,000 items");
    str_append(&s, "nodes:\n");
    for (int i = 0; i < 100001; i++) str_printf(&s, " %d:\n", i);
    check_big("100,001 nodes", &s, "100001 nodes; at most 100000 are allowed");
    for (int i = 0; i < (16 << 20) + 1; i++) str_char(&s, ' ');
    check_big("a file over 16 MiB", &s, "16 MiB");
}

static void test_long_chain(void)
{
    static char out[65536];
    str s = {0};
    str_append(&s, base);
    str_append(&s, "  j0: {class_type: Join, inputs: {parts: [one, 0]}}\n");
    for (int i = 1; i < 20000; i++) str_printf(&s, "  j%d: {class_type: Join, inputs: {parts: [j%d, 0]}}\n", i, i - 1);
    str_append(&s, "  last: {class_type: Save, inputs: {latent: [j19999, 0]}}\n");
    messages(str_text(&s), strlen(str_text(&s)), out, sizeof out);
    CHECK_MSG(out[0] == '\0', "%.300s", out);
    str_append(&s, "  loop: {class_type: Join, inputs: {parts: [loop2, 0]}}\n  loop2: {class_type: Join, inputs: "
                   "{parts: [loop, 0]}}\n");
    messages(str_text(&s), strlen(str_text(&s)), out, sizeof out);
    CHECK_MSG(strstr(out, "is part of a cycle") != NULL, "%.300s", out);
    str_free(&s);
}

/* ---- --set ---- */

static void test_set(void)
{
    static const struct {
        const char *name, *value, *part; /* NULL: fine */
    } rows[] = {
        {"one.steps", "5", NULL},
        {"one.steps", "0", "'0' is not a whole number"},
        {"one.stesp", "5", "did you mean 'steps'?"},
        {"oen.steps", "5", "no node is called 'oen'; did you mean 'one'?"},
        {"steps", "5", "no parameter or input is called that"},
        {"one.model", "5", "takes a wire of type MODEL"},
        {"", "5", "no parameter or input is called that"},
        {".", "5", "no node is called ''"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        error e = {0};
        document d;
        workflow w;
        char all[4096] = "";
        set_option set = {.name = rows[i].name, .value = rows[i].value};
        CHECK_EQ(document_parse(&d, "w", base, strlen(base), &set, 1, &e), KILN_OK);
        CHECK_EQ(workflow_check(&d, &fake_catalog, &w, &e), KILN_OK);
        for (const fault *f = d.faults; f; f = f->next)
            if (!f->warning) snprintf(all + strlen(all), sizeof all - strlen(all), "%s\n", f->text);
        CHECK_MSG(rows[i].part ? strstr(all, rows[i].part) != NULL : !all[0], "--set %s=%s: %s", rows[i].name,
                  rows[i].value, all);
        if (!rows[i].part) {
            const graph_node *g = &w.node[2];
            CHECK_EQ(((const fake_sample *)g->params)->steps, 5);
        }
        document_free(&d);
    }
}

static void test_values_arrive(void)
{
    static const char text[] = ".c: &c {steps: 5, cfg: 2}\nparams: {n: 9, q: \"4\"}\n"
                               "nodes: {l: {class_type: Load, inputs: {file: a.safetensors}},\n"
                               "  a: {class_type: Text, inputs: {clip: [l, 1], text: '${n} $${n} $5'}},\n"
                               "  s: {class_type: Sample, inputs: {<<: *c, cfg: 3, model: [l, 0], positive: [a, 0], "
                               "seed: '${n}', mode: coarse, fast: true}},\n"
                               "  z: {class_type: Save, inputs: {latent: [s, 0], prefix: '${q}'}}}\n";
    error e = {0};
    document d;
    workflow w;
    CHECK_EQ(document_parse(&d, "w", text, strlen(text), NULL, 0, &e), KILN_OK);
    CHECK_EQ(workflow_check(&d, &fake_catalog, &w, &e), KILN_OK);
    CHECK_EQ(d.n_fault, 0);
    if (d.n_fault == 0) {
        const fake_sample *s = w.node[2].params;
        CHECK_EQ(s->steps, 5);
        CHECK(s->cfg == 3);
        CHECK_EQ(s->seed, 9);
        CHECK_EQ(s->mode, 7);
        CHECK_EQ(s->fast, 1);
        CHECK_STR(s->sampler, "euler");
        CHECK_STR(((const fake_text *)w.node[1].params)->text, "9 ${n} $5");
        CHECK_STR(((const fake_save *)w.node[3].params)->prefix, "4");
    }
    document_free(&d);
}

/* ---- hostility by chance ---- */

/* Every single-byte change and every truncation of the sound text ends in a verdict, never a crash. */
static void test_every_truncation_and_change(void)
{
    static char out[65536];
    static const char put[] = "\0{}[]&*:'\"#\n\t-<%\xff";
    size_t size = sizeof base - 1;
    char copy[sizeof base];
    for (size_t n = 0; n <= size; n++) messages(base, n, out, sizeof out);
    for (size_t i = 0; i < size; i++)
        for (size_t k = 0; k + 1 < sizeof put; k++) {
            memcpy(copy, base, sizeof base);
            copy[i] = put[k];
            messages(copy, size, out, sizeof out);
        }
    CHECK(1);
}

static void test_no_memory(void)
{
    static const char extra[] =
        ".c: &c {steps: 5}\nparams: {n: 9}\n"
        "nodes: {l: {class_type: Load, inputs: {file: a.safetensors}},\n"
        "  a: {class_type: Text, inputs: {clip: [l, 1], text: 'x ${n}'}},\n"
        "  s: {class_type: Sample, inputs: {<<: *c, model: [l, 0], positive: [a, 0], sampler: eulre}},\n"
        "  z: {class_type: Save, inputs: {latent: [s, 0]}}}\n";
    int done = 0;
    for (int64_t k = 0; k < 2000 && !done; k++) {
        error e = {0};
        document d;
        workflow w;
        mem_fail_at(k, 0);
        kiln_status status = document_parse(&d, "w", extra, strlen(extra), NULL, 0, &e);
        int parsed = status == KILN_OK;
        if (parsed) status = workflow_check(&d, &fake_catalog, &w, &e);
        done = mem_count() <= k;
        mem_fail_at(-1, 0);
        /* An unsorted list of faults is the one thing that may go without memory unseen. */
        CHECK_MSG(status == KILN_ERR_NOMEM || (status == KILN_OK && d.n_fault == 1), "allocation %lld: %s %s",
                  (long long)k, status_name(status), e.message);
        if (status == KILN_ERR_NOMEM) CHECK_MSG(e.message[0], "allocation %lld: no message", (long long)k);
        if (parsed) document_free(&d);
    }
    CHECK(done);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_each_fault_has_its_place_and_sentence),
                                      CASE(test_sound_ones_pass),
                                      CASE(test_every_fault_is_told_at_once_in_order),
                                      CASE(test_limits),
                                      CASE(test_long_chain),
                                      CASE(test_set),
                                      CASE(test_values_arrive),
                                      CASE(test_every_truncation_and_change),
                                      CASE(test_no_memory)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
