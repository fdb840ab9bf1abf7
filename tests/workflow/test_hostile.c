/* test_hostile.c - faulty and hostile workflows: each is refused with a sentence that names line, column and remedy.
 *
 * A table of texts against what is said of them, then the ones too large to write down, each with a limit on time. A
 * row's `n` is how many faults there are in all: one mistake is one fault.
 */
#include "base/memory_alloc.h"
#include "base/str.h"
#include "harness.h"
#include "workflow/fake_catalog.h"

#include <stdlib.h>
#include <time.h>

typedef struct {
    const char *text; /* the file                                    */
    const char *at;   /* "line:column" of the fault                  */
    const char *part; /* what its sentence holds                     */
    size_t n;         /* faults in all                               */
} hostile;

typedef struct {
    hostile row;
    set_option set; /* what --set asks for */
} hostile_set;

/* The end of a file whose node under test comes first: line N+1 is 'a', N+2 is 's'. */
#define SOUND "  a: {class_type: Blank}\n  s: {class_type: Save, inputs: {images: [a, IMAGE]}}\n"
#define SAMPLE(inputs)                                                                                                 \
    "nodes:\n  x: {class_type: Sample, inputs: {" inputs "}}\n"                                                        \
    "  m: {class_type: Load, inputs: {ckpt: c}}\n  t: {class_type: Text, inputs: {clip: [m, 1]}}\n" SOUND
#define WIRED "model: [m, 0], positive: [t, 0]"

static const hostile table[] = {
    /* ---- not YAML, or not what a workflow may be ---- */
    {"", "1:1", "the file is empty", 1},
    {"# nothing but a comment\n", "1:1", "the file is empty", 1},
    {"---\n...\n", "2:1", "a workflow is a map", 1},
    {"hello", "1:1", "a workflow is a map with `nodes:`", 1},
    {"[1, 2]", "1:1", "a workflow is a map", 1},
    {"{}", "1:1", "there is no `nodes:` here", 1},
    {"a: {b: c}\n", "1:1", "nor any node with a `class_type`", 1},
    {"nodes:\n  a: [1, 2\n", "3:1", "not well-formed YAML", 1},
    {"nodes:\n\ta: b\n", "2:1", "not well-formed YAML", 1},
    {"nodes: {a: \"b}\n", "2:1", "not well-formed YAML", 1},
    {"nodes:\n  a: b\n c: d\n", "3:2", "not well-formed YAML", 1},
    {"nodes: %x\n", "1:8", "not well-formed YAML", 1},
    {"{\"nodes\": {\"a\": 1,, }}", "1:19", "not well-formed JSON", 1},
    {"{\"a\": {\"class_type\": \"Blank\", \"inputs\": {}}", "2:1", "not well-formed JSON", 1},
    {"{\"a\": {\"class_type\": \"\\ud83d\"}}", "1:25", "not well-formed JSON", 1},
    {"nodes:\n  a: \"x\001y\"\n", "2:8", "control characters are not allowed", 1},
    {"nodes:\n  a: \"\\0\"\n", "2:6", "a NUL character", 1},
    {"nodes: \xff\xfe\n", "1:1", "not valid UTF-8", 1},
    {"nodes: \xc0\xaf\n", "1:1", "not valid UTF-8", 1},
    {"nodes: \xed\xa0\x80\n", "1:1", "not valid UTF-8", 1},
    {"nodes: {}\n---\nnodes: {}\n", "2:1", "a second document", 1},
    {"nodes: {}\nnodes: {}\n", "2:1", "the key 'nodes' stands here twice; first in line 1", 1},
    {"nodes:\n  a: {class_type: Blank, class_type: Save}\n", "2:26", "'class_type' stands here twice", 1},
    {"{\"1\": {\"class_type\": \"Blank\"}, \"1\": {\"class_type\": \"Blank\"}}", "1:32",
     "the key '1' stands here twice", 1},
    {"? [a, b]\n: c\n", "1:3", "a key must be a plain name", 1},
    {"{a: b}: c\n", "1:1", "a key must be a plain name", 1},
    {"nodes: !!python/object:os.system {a: b}\n", "1:8",
     "the tag 'tag:yaml.org,2002:python/object:os.system' means nothing here", 1},
    {"kiln: !!int 1\n", "1:7", "the tag 'tag:yaml.org,2002:int' means nothing here", 1},
    {"nodes: !mine [a]\n", "1:8", "the tag '!mine' means nothing here", 1},
    {"%YAML 3.0\n---\nnodes: {}\n", "1:1", "not well-formed YAML", 1},
    /* ---- anchors and merge keys ---- */
    {"nodes: *nowhere\n", "1:8", "no anchor '&nowhere' stands before this alias", 1},
    {"nodes: &n {a: *n}\n", "1:15", "no anchor '&n' stands before this alias", 1},
    {"nodes:\n  a: {<<: 7, class_type: Blank}\n", "2:7", "a merge key (<<) takes a map", 1},
    {"nodes:\n  a: {<<: [{inputs: {}}, 7]}\n", "2:7", "a merge key (<<) takes a map", 1},
    {"nodes:\n  a: {\"<<\": 1, \"<<\": 2}\n", "2:16", "'<<' stands here twice", 1},
    {"x-s: &s {width: 64, widht: 64}\nnodes:\n  a: {class_type: Blank, inputs: {<<: *s}}\n  s: {class_type: Save, "
     "inputs: {images: [a, 0]}}\n",
     "1:21", "has no input 'widht'; did you mean 'width'?", 1},
    /* ---- head ---- */
    {"kiln: 2\nnodes:\n" SOUND, "1:7", "workflows of version 1", 1},
    {"kiln: [1]\nnodes:\n" SOUND, "1:7", "workflows of version 1", 1},
    {"name: {a: b}\nnodes:\n" SOUND, "1:7", "`name` must be a text", 1},
    {"description: [a]\nnodes:\n" SOUND, "1:14", "`description` must be a text", 1},
    {"parms: {}\nnodes:\n" SOUND, "1:1", "unknown key 'parms'; did you mean 'params'?", 1},
    {"zzzzzzzz: 1\nnodes:\n" SOUND, "1:1", "unknown key 'zzzzzzzz'; the head has kiln, name", 1},
    {"include: other.yaml\nnodes:\n" SOUND, "1:1", "`include` belongs to an entry of `nodes`", 1},
    {"params: [a]\nnodes:\n" SOUND, "1:9", "`params` must be a map", 1},
    {"params: {p: [1, 2]}\nnodes:\n" SOUND, "1:10", "parameter 'p' needs a default", 1},
    {"params: {p: {help: no default}}\nnodes:\n" SOUND, "1:10", "parameter 'p' needs a default", 1},
    {"params: {p: {default: 1, max: 2}}\nnodes:\n  a: {class_type: Blank, inputs: {width: \"${p}\"}}\n", "1:26",
     "parameter 'p': unknown key 'max'", 2},
    {"params: {steps: 1}\nnodes:\n  a: {class_type: Blank, inputs: {width: \"${stesp}\"}}\n", "3:42",
     "no parameter is called 'stesp'; did you mean '${steps}'?", 2},
    {"nodes:\n  a: {class_type: Blank, inputs: {width: \"${w}\"}}\n", "2:42", "declare it under `params:`", 2},
    {"nodes:\n  b: {class_type: Words, inputs: {text: \"a ${w\"}}\n" SOUND, "2:41", "a ${ without its }", 1},
    {"params: {w: \"64\"}\nnodes:\n  b: {class_type: Blank, inputs: {width: \"${w}\"}}\n" SOUND, "3:42",
     "the text \"64\" is not a whole number", 1},
    {"params: {w: abc}\nnodes:\n  b: {class_type: Blank, inputs: {width: \"${w}\"}}\n" SOUND, "3:42",
     "'abc' is not a whole number from 16 to 16384", 1},
    /* ---- nodes ---- */
    {"nodes:\n", "1:7", "`nodes` must be a map", 1},
    {"nodes: []\n", "1:8", "`nodes` must be a map", 1},
    {"nodes: {}\n", "1:8", "there are no nodes", 1},
    {"nodes:\n  b: Blank\n" SOUND, "2:6", "node 'b': must be a map with `class_type` and `inputs`", 1},
    {"nodes:\n  b: {inputs: {}}\n" SOUND, "2:3", "node 'b': has no `class_type`", 1},
    {"nodes:\n  b: {class_type: [Blank]}\n" SOUND, "2:19", "has no `class_type`", 1},
    {"nodes:\n  b: {class_type: }\n" SOUND, "2:19", "no node type is called ''", 1},
    {"nodes:\n  b: {class_type: Blnak}\n" SOUND, "2:19", "no node type is called 'Blnak'; did you mean 'Blank'?", 1},
    {"nodes:\n  b: {class_type: QQQQQQQQ}\n" SOUND, "2:19", "`kiln plugins` what did not load", 1},
    {"nodes:\n  b: {class_type: ../../etc/passwd}\n" SOUND, "2:19", "no node type is called '../../etc/passwd'", 1},
    {"nodes:\n  b: {clas_type: Blank}\n" SOUND, "2:7", "unknown key 'clas_type'; did you mean 'class_type'?", 2},
    {"nodes:\n  b: {class_type: Blank, colour: red}\n" SOUND, "2:26",
     "unknown key 'colour'; a node has `class_type` and `inputs`", 1},
    {"nodes:\n  b: {class_type: Blank, title: [x]}\n" SOUND, "2:33", "`title` must be a text", 1},
    {"nodes:\n  b: {include: refiner.yaml}\n" SOUND, "2:16", "`include`: no file", 1},
    {"nodes:\n  b: {class_type: Blank, inputs: [width, 1]}\n" SOUND, "2:34", "`inputs` must be a map", 1},
    {"nodes:\n  \"b\\e[31m\\n\": {class_type: Blank, inputs: 7}\n" SOUND, "2:44",
     "node 'b\x1b[31m\n' (Blank): `inputs` must be a map", 1},
    {"nodes:\n  a: {class_type: Blank}\n", "2:3", "no node writes anything; add one like SaveImage", 1},
    {"{\"nodes\": [], \"links\": [], \"version\": 0.4}", "1:1", "a file of ComfyUI's editor", 1},
    {"{\"1\": {\"class_type\": \"Blnk\"}}", "1:22", "did you mean 'Blank'?", 1},
    {"{\"prompt\": {\"1\": {\"class_type\": \"Blnk\"}}}", "1:33", "did you mean 'Blank'?", 1},
    /* ---- inputs ---- */
    {"nodes:\n  b: {class_type: Blank, inputs: {widht: 64}}\n" SOUND, "2:35",
     "has no input 'widht'; did you mean 'width'?", 1},
    {"nodes:\n  b: {class_type: Blank, inputs: {colour: 64}}\n" SOUND, "2:35",
     "has no input 'colour'; see `kiln nodes Blank`", 1},
    {"nodes:\n  b: {class_type: Blank, inputs: {control_after_generate: fixed}}\n" SOUND, "2:35",
     "works only in ComfyUI's editor", 1},
    {"nodes:\n  b: {class_type: Blank, inputs: {width: 15}}\n" SOUND, "2:42",
     "'15' is not a whole number from 16 to 16384", 1},
    {"nodes:\n  b: {class_type: Blank, inputs: {width: 16385}}\n" SOUND, "2:42",
     "is not a whole number from 16 to 16384", 1},
    {"nodes:\n  b: {class_type: Blank, inputs: {width: -64}}\n" SOUND, "2:42", "is not a whole number", 1},
    {"nodes:\n  b: {class_type: Blank, inputs: {width: 64.5}}\n" SOUND, "2:42", "is not a whole number", 1},
    {"nodes:\n  b: {class_type: Blank, inputs: {width: 0x40}}\n" SOUND, "2:42", "is not a whole number", 1},
    {"nodes:\n  b: {class_type: Blank, inputs: {width: \"64\"}}\n" SOUND, "2:42",
     "the text \"64\" is not a whole number", 1},
    {"nodes:\n  b: {class_type: Blank, inputs: {width: 99999999999999999999}}\n" SOUND, "2:42", "is not a whole number",
     1},
    {"nodes:\n  b: {class_type: Blank, inputs: {width: true}}\n" SOUND, "2:42", "is not a whole number", 1},
    {"nodes:\n  b: {class_type: Blank, inputs: {width: }}\n" SOUND, "2:42", "has no value; it takes a whole number", 1},
    {"nodes:\n  b: {class_type: Blank, inputs: {width: null}}\n" SOUND, "2:42", "has no value", 1},
    {"nodes:\n  b: {class_type: Blank, inputs: {width: {a: b}}}\n" SOUND, "2:42",
     "takes a whole number from 16 to 16384, not a list or map", 1},
    {"nodes:\n  b: {class_type: Blank, inputs: {width: [1, 2, 3]}}\n" SOUND, "2:42", "not a list or map", 1},
    {SAMPLE(WIRED ", cfg: .nan"), "2:74", "'.nan' is not a number from 0 to 100", 1},
    {SAMPLE(WIRED ", cfg: .inf"), "2:74", "'.inf' is not a number", 1},
    {SAMPLE(WIRED ", cfg: 1e999"), "2:74", "'1e999' is not a number", 1},
    {SAMPLE(WIRED ", cfg: nan"), "2:74", "'nan' is not a number", 1},
    {SAMPLE(WIRED ", cfg: 100.0001"), "2:74", "is not a number from 0 to 100", 1},
    {SAMPLE(WIRED ", cfg: \"7,5\""), "2:74", "the text \"7,5\" is not a number", 1},
    {SAMPLE(WIRED ", cfg: 0x1p3"), "2:74", "is not a number", 1},
    {SAMPLE(WIRED ", seed: -1"), "2:75", "'-1' is not a whole number from 0 to 18446744073709551615", 1},
    {SAMPLE(WIRED ", seed: 18446744073709551616"), "2:75", "is not a whole number from 0", 1},
    {SAMPLE(WIRED ", noise: yes"), "2:76", "'yes' is not true or false", 1},
    {SAMPLE(WIRED ", noise: 1"), "2:76", "'1' is not true or false", 1},
    {SAMPLE(WIRED ", noise: \"true\""), "2:76", "the text \"true\" is not true or false", 1},
    {SAMPLE(WIRED ", mode: karas"), "2:75", "'karas' is not a choice; did you mean 'karras'?", 1},
    {SAMPLE(WIRED ", mode: 4"), "2:75", "'4' is not one of normal, karras", 1},
    {SAMPLE(WIRED ", sampler: eulr"), "2:78", "no sampler is called 'eulr'; did you mean 'euler'?", 1},
    {SAMPLE(WIRED ", sampler: qqqqqq"), "2:78", "is not one of euler, heun, dpmpp_2m", 1},
    {SAMPLE("positive: [t, 0]"), "2:3", "input 'model' is missing; wire it to an output of type MODEL", 1},
    {"nodes:\n  m: {class_type: Load}\n" SOUND, "2:3",
     "input 'ckpt' is missing; it takes a file of the checkpoints folder", 1},
    {"nodes:\n  m: {class_type: Load, inputs: {ckpt: absent}}\n" SOUND, "2:40", "no file 'absent' for checkpoints", 1},
    {"nodes:\n  m: {class_type: Load, inputs: {ckpt: [a, 0]}}\n" SOUND, "2:40", "names a file and cannot be wired", 1},
    /* ---- wires ---- */
    {"nodes:\n  d: {class_type: Decode, inputs: {images: a}}\n" SOUND, "2:44",
     "takes a wire of type IMAGE: [node, output]", 1},
    {"nodes:\n  d: {class_type: Decode, inputs: {images: [a]}}\n" SOUND, "2:44", "takes a wire of type IMAGE", 1},
    {"nodes:\n  d: {class_type: Decode, inputs: {images: [[a, 0], [a, 0]]}}\n" SOUND, "2:44", "takes one wire, not 2",
     1},
    {"nodes:\n  blank: {class_type: Blank}\n  d: {class_type: Decode, inputs: {images: [blnak, 0]}}\n" SOUND, "3:44",
     "is wired to 'blnak', which is not a node here; did you mean 'blank'?", 1},
    {"nodes:\n  d: {class_type: Decode, inputs: {images: [qqqqqq, 0]}}\n" SOUND, "2:44",
     "'qqqqqq', which is not a node here", 1},
    {"nodes:\n  d: {class_type: Decode, inputs: {images: [a, 1]}}\n" SOUND, "2:44",
     "'a' (Blank) has no output '1'; it has 0 IMAGE", 1},
    {"nodes:\n  d: {class_type: Decode, inputs: {images: [a, -1]}}\n" SOUND, "2:44", "has no output '-1'", 1},
    {"nodes:\n  d: {class_type: Decode, inputs: {images: [a, 18446744073709551616]}}\n" SOUND, "2:44",
     "has no output '18446744073709551616'", 1},
    {"nodes:\n  d: {class_type: Decode, inputs: {images: [a, image]}}\n" SOUND, "2:44",
     "has no output 'image'; it has 0 IMAGE", 1},
    {"nodes:\n  d: {class_type: Decode, inputs: {images: [s, 0]}}\n" SOUND, "2:44", "has no output '0'; it has none",
     1},
    {SAMPLE("model: [m, CLIP], positive: [t, 0]"), "2:43",
     "input 'model' takes MODEL, but output 'CLIP' of 'm' (Load) is CLIP", 1},
    {SAMPLE(WIRED ", steps: [w, 0]}}\n  w: {class_type: Words, inputs: {text: x"), "2:76",
     "input 'steps' takes INT, but output 'STRING' of 'w' (Words) is STRING", 1},
    {SAMPLE(WIRED ", steps: [[w, 0], [w, 0]]}}\n  w: {class_type: Number, inputs: {amount: 5"), "2:76",
     "takes one value or one wire", 1},
    {"nodes:\n  d: {class_type: Decode, inputs: {images: [d, 0]}}\n" SOUND, "2:3",
     "is part of a cycle: 'd' <- 'd'; a node cannot wait for itself", 1},
    {"nodes:\n  d: {class_type: Decode, inputs: {images: [e, 0]}}\n  e: {class_type: Decode, inputs: {images: [d, "
     "0]}}\n" SOUND,
     "2:3", "is part of a cycle: 'd' <- 'e' <- 'd'", 1},
    {"nodes:\n  n: {class_type: Number, inputs: {amount: [n, 0]}}\n" SOUND, "2:3", "is part of a cycle", 1},
    {"nodes:\n  j: {class_type: Join, inputs: {images: [[a, 0], [j, 0]]}}\n" SOUND, "2:3", "is part of a cycle", 1},
};

static const hostile_set set_table[] = {
    {{"params: {w: 64}\nnodes:\n  b: {class_type: Blank, inputs: {width: \"${w}\"}}\n" SOUND, "3:42",
      "'7' is not a whole number from 16 to 16384", 1},
     {.name = "w", .value = "7"}},
    {{"params: {width: 64}\nnodes:\n  b: {class_type: Blank, inputs: {width: \"${width}\"}}\n" SOUND, "",
      "--set widht: no parameter or input is called that; did you mean 'width'?", 1},
     {.name = "widht", .value = "7"}},
    {{"nodes:\n" SOUND, "", "--set zzz: no parameter or input is called that", 1}, {.name = "zzz", .value = "7"}},
    {{"nodes:\n  blank: {class_type: Blank}\n" SOUND, "", "no node is called 'blanc'; did you mean 'blank'?", 1},
     {.name = "blanc.width", .value = "7"}},
    {{"nodes:\n" SOUND, "2:3", "has no input 'hight'; did you mean 'height'?", 1}, {.name = "a.hight", .value = "64"}},
    {{"nodes:\n" SOUND, "2:3", "input 'width': '64.5' is not a whole number", 1}, {.name = "a.width", .value = "64.5"}},
    {{"nodes:\n" SOUND, "3:3", "input 'images' takes a wire of type IMAGE", 1}, {.name = "s.images", .value = "a"}},
};

typedef struct {
    const hostile *row;
    int found;
    str said;
} search;

static void look(void *arg, const char *text, int is_warning)
{
    (void)is_warning;
    search *s = arg;
    char start[64];
    if (s->row->at[0])
        snprintf(start, sizeof start, "t.yaml:%s: ", s->row->at);
    else
        snprintf(start, sizeof start, "error: ");
    s->found |= strncmp(text, start, strlen(start)) == 0 && strstr(text, s->row->part) != NULL;
    str_printf(&s->said, "      %s\n", text);
}

/* Reads and checks; the number of faults. What they say goes to look(). */
static size_t faults_of(const hostile *row, size_t size, const set_option *set, search *s)
{
    error e = {0};
    document d;
    workflow w;
    catalog_view catalog = fake_catalog();
    kiln_status status = document_parse(&d, "t.yaml", row->text, size, set, set != NULL, &e);
    if (status != KILN_OK) {
        look(s, e.message, 0);
        return 1;
    }
    CHECK_EQ(workflow_check(&d, &catalog, &w, &e), KILN_OK);
    document_print_faults(&d, look, s);
    size_t n = d.n_fault;
    document_free(&d);
    return n;
}

static void check_row(const hostile *row, const set_option *set)
{
    search s = {.row = row};
    size_t n = faults_of(row, strlen(row->text), set, &s);
    CHECK_MSG(s.found && n == row->n, "%s\n    wanted %zu, one at %s with \"%s\"; said %zu:\n%s", row->text, row->n,
              row->at, row->part, n, str_text(&s.said));
    str_free(&s.said);
}

static void test_hostile_table(void)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) check_row(&table[i], NULL);
}

static void test_hostile_settings(void)
{
    for (size_t i = 0; i < sizeof set_table / sizeof set_table[0]; i++) check_row(&set_table[i].row, &set_table[i].set);
}

/* Every row cut off after each of its bytes, too: no crash, and never sound by accident (the tail holds the output
 * node). */
static void test_truncated_everywhere(void)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        for (size_t n = 0; n < strlen(table[i].text); n++) {
            search s = {.row = &table[i]};
            char *exact = malloc(n + 1); /* so that a sanitizer sees a read past the end */
            REQUIRE(exact != NULL);
            memcpy(exact, table[i].text, n);
            hostile cut = table[i];
            cut.text = exact;
            faults_of(&cut, n, NULL, &s);
            free(exact);
            str_free(&s.said);
        }
}

/* ---- what must be accepted, so that the refusals above are known to be about the fault ---- */

static const char *const sound[] = {
    "nodes:\n" SOUND,
    SAMPLE(WIRED ", steps: 20.0, cfg: 4, seed: 18446744073709551615, noise: false, mode: karras, sampler: heun"),
    SAMPLE(WIRED ", steps: [w, INT]}}\n  w: {class_type: Number, inputs: {amount: 5"),
    "x-size: &s {width: 64, height: 64}\nnodes:\n  a: {class_type: Blank, inputs: {<<: *s, width: 32}}\n  s: "
    "{class_type: Save, inputs: {images: [a, 0]}}\n",
    "kiln: 1\nname: n\ndescription: d\nparams: {w: 64, t: {default: x, help: h}}\nnodes:\n  a: {class_type: Blank, "
    "inputs: {width: \"${w}\"}}\n"
    "  s: {class_type: Save, inputs: {images: [a, 0], text: \"$${t} is ${t}, $5 $$\"}}\n",
    "{\"1\":{\"class_type\":\"Blank\",\"inputs\":{},\"_meta\":{\"title\":\"x\"},\"is_changed\":[\"x\"]},\"2\":{\"class_"
    "type\":\"Save\",\"inputs\":{\"images\":[\"1\",0],\"text\":\"${no}\"}}}",
    "{\"client_id\": \"x\", \"prompt\": {\"1\": {\"class_type\": \"Blank\"}, \"2\": {\"class_type\": \"Save\", "
    "\"inputs\": {\"images\": [\"1\", 0]}}}}",
    "\xef\xbb\xbfnodes:\n" SOUND,
    "nodes:\r\n  a: {class_type: Blank}\r\n  s: {class_type: Save, inputs: {images: [a, 0]}}\r\n",
    "nodes:\n  j: {class_type: Join, inputs: {images: [[a, 0], [a, IMAGE]]}}\n  y: {class_type: Any, inputs: {any: [j, "
    "0]}}\n"
    "  z: {class_type: Save, inputs: {images: [y, any]}}\n" SOUND,
};

static void test_sound_ones_pass(void)
{
    for (size_t i = 0; i < sizeof sound / sizeof sound[0]; i++) {
        hostile row = {.text = sound[i], .at = "", .part = "\001"};
        search s = {.row = &row};
        size_t n = faults_of(&row, strlen(sound[i]), NULL, &s);
        CHECK_MSG(n == 0, "sound[%zu]: %zu faults\n%s", i, n, str_text(&s.said));
        str_free(&s.said);
    }
}

/* What a node is given: the text of input `input` of node `node`. */
static void check_text(const char *file, const char *node, const char *input, const char *wanted)
{
    error e = {0};
    document d;
    if (!CHECK_MSG(document_parse(&d, "t", file, strlen(file), NULL, 0, &e) == KILN_OK, "%s", e.message)) return;
    doc_node *n = document_node(&d, node);
    for (size_t i = 0; n && i < n->n_input; i++)
        if (strcmp(n->input[i].name, input) == 0) CHECK_STR(n->input[i].text, wanted);
    CHECK(n != NULL);
    document_free(&d);
}

static void test_texts_arrive_as_written(void)
{
    check_text("params: {t: x}\nnodes:\n  s: {class_type: Save, inputs: {text: \"$${t} is ${t}, $5 $$ $\"}}\n", "s",
               "text", "${t} is x, $5 $ $");
    check_text("{\"1\": {\"class_type\": \"Save\", \"inputs\": {\"text\": \"$$ ${t}\"}}}", "1", "text", "$$ ${t}");
    /* JSON's two halves of one character; an escaped backslash before u is no escape */
    check_text("{\"1\": {\"class_type\": \"Save\", \"inputs\": {\"text\": \"\\ud83d\\ude00 \\\\ud83d\\\\ude00 \\u00e9 "
               "\\/\"}}}",
               "1", "text", "\xf0\x9f\x98\x80 \\ud83d\\ude00 \xc3\xa9 /");
    check_text(
        "x-a: &a {text: a, width: 1}\nx-b: &b {text: b}\nnodes:\n  s: {class_type: Save, inputs: {<<: [*b, *a]}}\n",
        "s", "text", "b");
    check_text("x-a: &a {text: a}\nnodes:\n  s: {class_type: Save, inputs: {<<: *a, text: own}}\n", "s", "text", "own");
}

/* ---- large ones ---- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The file must be refused with `part` at a cost near that of reading it. The limit is for a build with sanitizers on a
 * busy machine, far above what is measured (under 1 s each); the quadratic work it guards against took minutes. */
static void check_large(str *file, const char *at, const char *part)
{
    enum { LIMIT_S = 20 };
    hostile row = {.text = str_text(file), .at = at, .part = part};
    search s = {.row = &row};
    double start = seconds();
    REQUIRE(!file->failed);
    size_t n = faults_of(&row, file->len, NULL, &s);
    double took = seconds() - start;
    CHECK_MSG(s.found && n > 0, "wanted \"%s\" at %s; %zu faults:\n%.2000s", part, at, n, str_text(&s.said));
    CHECK_MSG(took < LIMIT_S, "\"%s\" took %.1f s of processor time", part, took);
    str_free(&s.said);
    str_free(file);
}

static void repeat(str *s, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) str_append(s, text);
}

static void test_depth(void)
{
    str s = {0};
    repeat(&s, "[", 65);
    check_large(&s, "1:65", "nested deeper than 64 levels");
    repeat(&s, "{a: ", 1000000);
    check_large(&s, "1:257", "nested deeper than 64 levels");
    for (int i = 0; i < 65; i++) {
        repeat(&s, " ", (size_t)i);
        str_append(&s, "a:\n");
    }
    str_append(&s, "                                                                 b\n");
    check_large(&s, "65:65", "nested deeper than 64 levels");
}

static void test_sizes(void)
{
    str s = {0};
    str_append(&s, "nodes: {}\n");
    repeat(&s, "# sixteen bytes\n", (16 << 20) / 16);
    check_large(&s, "1:1", "a workflow file may have 16 MiB");
    str_append(&s, "a: ");
    repeat(&s, "0123456789abcdef", (1 << 20) / 16);
    str_append(&s, "x\n");
    check_large(&s, "1:4", "a scalar of more than 1 MiB");
    str_append(&s, "nodes:\n");
    for (int i = 0; i <= DOCUMENT_NODES_MAX; i++) str_printf(&s, " n%d: {class_type: Blank}\n", i);
    check_large(&s, "2:2", "100001 nodes; at most 100000 are allowed");
    str_append(&s, "params:\n");
    for (int i = 0; i <= 1000; i++) str_printf(&s, " p%d: 1\n", i);
    str_append(&s, "nodes:\n" SOUND);
    check_large(&s, "2:2", "`params` must be a map of at most 1000");
    str_append(&s, "a: [");
    repeat(&s, "b, ", 2100000);
    str_append(&s, "b]\n");
    check_large(&s, "1:5999996", "too many items");
}

static void test_aliases(void)
{
    str s = {0};
    str_append(&s, "l0: &l0 [x, x, x, x, x, x, x, x, x, x]\n");
    for (int i = 1; i < 10; i++)
        str_printf(&s, "l%d: &l%d [*l%d, *l%d, *l%d, *l%d, *l%d, *l%d, *l%d, *l%d, *l%d, *l%d]\n", i, i, i - 1, i - 1,
                   i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    check_large(&s, "4:45", "aliases expand to more than 10,000 items");
    str_append(&s, "a: &a x\nl: [");
    repeat(&s, "*a, ", 10001);
    str_append(&s, "]\n");
    check_large(&s, "2:40005", "aliases expand to more than 10,000 items");
    for (int i = 0; i < 1001; i++) str_printf(&s, "k%d: &a%d x\n", i, i);
    check_large(&s, "1001:8", "more than 1,000 anchors");
    str_append(&s, "nodes:\n  a: {");
    repeat(&s, "<<: {}, ", 17);
    str_append(&s, "}\n");
    check_large(&s, "2:135", "more than 16 merge keys in one map");
}

/* 600 wires behind one anchor are many items and few enough. */
static void test_a_wide_alias_is_no_bomb(void)
{
    str s = {0};
    hostile row = {.at = "", .part = "\001"};
    search found = {.row = &row};
    str_append(&s, "x-wires: &w [");
    repeat(&s, "[a, 0], ", 600);
    str_append(&s, "[a, 0]]\nnodes:\n  j: {class_type: Join, inputs: {images: *w}}\n  k: {class_type: Save, inputs: "
                   "{images: [j, 0]}}\n" SOUND);
    row.text = str_text(&s);
    size_t n = faults_of(&row, s.len, NULL, &found);
    CHECK_MSG(n == 0, "%s", str_text(&found.said));
    str_free(&s);
    str_free(&found.said);
}

/* Two maps of 200,000 keys, one merged into the other. */
static void test_large_merge(void)
{
    str s = {0};
    str_append(&s, "nodes: {<<: {");
    for (int i = 0; i < 200000; i++) str_printf(&s, "a%d: 1, ", i);
    str_append(&s, "}, ");
    for (int i = 0; i < 200000; i++) str_printf(&s, "b%d: 1, ", i);
    str_append(&s, "}\n");
    check_large(&s, "1:8", "400000 nodes");
}

static void test_references(void)
{
    str s = {0};
    str_append(&s, "params: {p: ");
    repeat(&s, "0123456789abcdef", 4096);
    str_append(&s, "}\nnodes:\n  w: {class_type: Words, inputs: {text: \"");
    repeat(&s, "${p}", 100000);
    str_append(&s, "\"}}\n" SOUND);
    check_large(&s, "3:41", "make more than 16 MiB of text");
    str_append(&s, "nodes:\n  w: {class_type: Words, inputs: {text: \"");
    repeat(&s, "${", 500000);
    str_append(&s, "\"}}\n" SOUND);
    check_large(&s, "2:41", "a ${ without its }");
    str_append(&s, "nodes:\n  w: {class_type: Words, inputs: {text: \"$");
    repeat(&s, "0123456789abcdef", 65000);
    str_append(&s, "\"}}\n  x: {class_type: Wrods}\n" SOUND);
    check_large(&s, "3:19", "did you mean 'Words'?");
    str_append(&s, "params:\n");
    for (int i = 0; i < 1000; i++) str_printf(&s, "  parameter_number_%d: 1\n", i);
    str_append(&s, "nodes:\n  w: {class_type: Words, inputs: {text: \"");
    repeat(&s, "${parameter_nummer}", 50000);
    str_append(&s, "\"}}\n" SOUND);
    check_large(&s, "1003:41", "no parameter is called 'parameter_nummer'");
}

/* 100,000 nodes, each wired to one that is not there. */
static void test_many_faults(void)
{
    str s = {0};
    str_append(&s, "nodes:\n");
    for (int i = 0; i < 100000; i++)
        str_printf(&s, " node_number_%d: {class_type: Decode, inputs: {images: [node_nummer_%d, 0]}}\n", i, i);
    check_large(&s, "2:55", "which is not a node here");
}

/* Warnings must not crowd a fault out: 1,000 unused parameters come first here. */
static void test_faults_behind_warnings(void)
{
    str s = {0};
    str_append(&s, "params:\n");
    for (int i = 0; i < 1000; i++) str_printf(&s, "  p%d: 1\n", i);
    str_append(&s, "nodes:\n  b: {class_type: Blnak}\n" SOUND);
    check_large(&s, "1003:19", "did you mean 'Blank'?");
}

static void test_long_chain_and_cycle(void)
{
    str s = {0};
    str_append(&s, "nodes:\n d0: {class_type: Decode, inputs: {images: [d99999, 0]}}\n");
    for (int i = 1; i < 100000; i++)
        str_printf(&s, " d%d: {class_type: Decode, inputs: {images: [d%d, 0]}}\n", i, i - 1);
    check_large(&s, "2:2", "is part of a cycle: 'd0' <- 'd99999' <- 'd99998'");
}

/* ---- memory ---- */

/* Whatever allocation fails: KILN_ERR_NOMEM or the same answer, never another one. */
static void test_every_allocation_may_fail(void)
{
    static const char file[] =
        "kiln: 1\nparams: {w: 64}\nx: &x {width: \"${w}\"}\nnodes:\n  b: {class_type: Blnak, inputs: {<<: *x}}\n"
        "  j: {class_type: Join, inputs: {images: [[a, 0], [a, 0]]}}\n" SOUND;
    int64_t k = 0;
    for (int done = 0; !done && k < 2000; k++) {
        error e = {0};
        document d;
        workflow w;
        catalog_view catalog = fake_catalog();
        mem_fail_at(k, 1);
        kiln_status status = document_parse(&d, "t", file, sizeof file - 1, NULL, 0, &e);
        int parsed = status == KILN_OK;
        if (parsed) status = workflow_check(&d, &catalog, &w, &e);
        done = mem_count() <= k;
        mem_fail_at(-1, 0);
        if (status == KILN_OK)
            CHECK_MSG(d.n_fault == 2, "allocation %lld: %zu faults", (long long)k, d.n_fault);
        else
            CHECK_MSG(status == KILN_ERR_NOMEM && strstr(e.message, "out of memory"), "allocation %lld: %s: %s",
                      (long long)k, status_name(status), e.message);
        if (parsed) document_free(&d);
    }
    CHECK(k > 10 && k < 2000);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_hostile_table),
        CASE(test_hostile_settings),
        CASE(test_truncated_everywhere),
        CASE(test_sound_ones_pass),
        CASE(test_texts_arrive_as_written),
        CASE(test_depth),
        CASE(test_sizes),
        CASE(test_aliases),
        CASE(test_a_wide_alias_is_no_bomb),
        CASE(test_large_merge),
        CASE(test_references),
        CASE(test_many_faults),
        CASE(test_faults_behind_warnings),
        CASE(test_long_chain_and_cycle),
        CASE(test_every_allocation_may_fail),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
