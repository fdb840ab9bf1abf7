/* test_mutated.c - workflows of every form with one value, key or item of them changed, taken away or exchanged for
 * another of the file, on the node types that ship. Each is read, or refused with sentences that name a place; what is
 * read and written in kiln's form has the API form that it has itself; nothing is left allocated. A sample by itself;
 * KILN_TEST_SAMPLE=N of so many of each file, KILN_TEST_SEED varies it.
 */
#include "harness.h"

#include "base/memory_alloc.h"
#include "base/memory_fault.h"
#include "base/str.h"
#include "plugin/catalog.h"
#include "run/job.h"
#include "workflow/convert.h"
#include "workflow/describe.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLE = 60, SITES = 1 << 14, LINES = 1 << 15, SHOWN = 5 };

/* A value of the file, below its map or list. */
typedef struct {
    json_t *parent;
    const char *key; /* NULL: the item `index` of a list */
    size_t index;
} site;

static struct {
    site at[SITES];
    size_t n;
} sites;
static catalog *plugins;
static char at[600];
static uint64_t state;

static size_t draw(size_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return n ? (size_t)((state >> 33) % n) : 0;
}

static void find_sites(json_t *of)
{
    const char *key;
    json_t *value;
    size_t i;
    if (json_is_object(of)) json_object_foreach(of, key, value)
        {
            if (sites.n < SITES) sites.at[sites.n++] = (site){of, key, 0};
            find_sites(value);
        }
    if (json_is_array(of)) json_array_foreach(of, i, value)
        {
            if (sites.n < SITES) sites.at[sites.n++] = (site){of, NULL, i};
            find_sites(value);
        }
}

static json_t *value_of(const site *s)
{
    return s->key ? json_object_get(s->parent, s->key) : json_array_get(s->parent, s->index);
}

static void put(const site *s, json_t *value)
{
    if (s->key)
        json_object_set_new(s->parent, s->key, value);
    else
        json_array_set_new(s->parent, s->index, value);
}

static const char *const others[] = {
    "null",
    "true",
    "-1",
    "0",
    "1.5",
    "1e300",
    "\"\"",
    "\"x\"",
    "\"16\"",
    "\"${width}\"",
    "\"${nope}\"",
    "\"random\"",
    "\"${image.stem}\"",
    "\"%empty.width%_%nope.x%_%date:yyyy%\"",
    "\"a\\nb\"",
    "\"{a|{b|c}}\"",
    "[]",
    "{}",
    "[1]",
    "[\"1\", 0]",
    "[\"empty\", 0]",
    "[[\"empty\", 0], [\"more\", 0]]",
    "[\"empty\", 7]",
    "[\"empty\", \"IMAGE\"]",
    "[\"empty\", \"nope\"]",
    "{\"__value__\": [1, 2]}",
    "{\"a\": {\"b\": []}}",
    "4294967296",
    "\"9007199254740993\"",
    "\"../x\"",
    "\"/etc/passwd\"",
    "\"a\\\\b.png\"",
    "\"x.png [output]\"",
    "\"True\"",
    "\"EmptyImage\"",
    "\"KSampler\"",
};

/* What was done, in words. */
static void mutate(char *what, size_t capacity)
{
    const site *s = &sites.at[draw(sites.n)], *o = &sites.at[draw(sites.n)];
    char key[80];
    const char *shown = s->key ? s->key : "an item";
    json_t *value = value_of(s);
    switch (draw(6)) {
    case 0:
        snprintf(what, capacity, "without %s", shown);
        if (s->key)
            json_object_del(s->parent, s->key);
        else
            json_array_remove(s->parent, s->index);
        return;
    case 1:
        snprintf(what, capacity, "%s with what %s has", shown, o->key ? o->key : "an item");
        put(s, json_deep_copy(value_of(o)));
        return;
    case 2:
        snprintf(key, sizeof key, "%.*s%s", s->key ? (int)strlen(s->key) - 1 : 0, s->key ? s->key : "", "y");
        snprintf(what, capacity, "%s twice, and as %s", shown, key);
        if (s->key)
            json_object_set(s->parent, key, value);
        else
            json_array_append(s->parent, value);
        return;
    default: break;
    }
    const char *other = others[draw(sizeof others / sizeof others[0])];
    if (json_is_array(s->parent) && strchr(other, '$')) other = "\"x\""; /* a node that nobody calls so */
    snprintf(what, capacity, "%s as %s", shown, other);
    put(s, json_loads(other, JSON_DECODE_ANY, NULL));
}

/* ---- reading ---- */

typedef struct {
    char text[LINES];
    size_t n, faults;
} lines;

static void hear(void *arg, const char *text, int is_warning)
{
    lines *l = arg;
    l->faults += !is_warning;
    l->n += (size_t)snprintf(l->text + l->n, LINES - l->n, "%s\n", text);
    if (l->n >= LINES) l->n = LINES - 1;
}

static job *open_job(int unchecked, lines *l, size_t *faults, error *e)
{
    const job_source from = {.path = at,
                             .models = "tests/golden",
                             .input = test_folder(),
                             .unchecked = unchecked,
                             .line = hear,
                             .arg = l,
                             .catalog = plugins,
                             .thorough = 1};
    *l = (lines){.n = 0};
    *e = (error){0};
    *faults = 0;
    return job_open(&from, faults, e);
}

static int write_file(const char *ending, const char *text)
{
    snprintf(at, sizeof at, "%s/changed.%s", test_folder(), ending);
    FILE *f = fopen(at, "w");
    int well = f && fputs(text, f) >= 0;
    return f && fclose(f) == 0 && well;
}

static const kiln_node *row_of(const void *self, const char *type)
{
    const node_info *n = catalog_find(self, type);
    return n ? n->node : NULL;
}

typedef char *(*writer)(const document *d, const convert_rows *rows, error *e);

/* NULL: it is refused, in words. */
static char *written(writer write, const char *what)
{
    static lines l;
    const convert_rows rows = {.self = plugins, .find = row_of};
    size_t faults;
    error e;
    job *j = open_job(1, &l, &faults, &e);
    char *text = j && !faults ? write(job_workflow(j)->doc, &rows, &e) : NULL;
    CHECK_MSG(text || l.faults || e.message[0], "%s: not written anew, without a word", what);
    if (j) job_close(j);
    return text;
}

/* Numbers as numbers, whether they were in quotes or not: a parameter takes either. */
static void only_numbers(json_t *inputs)
{
    const char *key;
    json_t *value;
    double v;
    json_object_foreach(inputs, key, value)
    {
        const char *text = json_string_value(value);
        if (text ? !str_to_double(text, strlen(text), &v) : !json_is_integer(value)) continue;
        json_object_set_new(inputs, key, json_real(text ? v : (double)json_integer_value(value))); /* frees value */
    }
}

static void without_titles(json_t *prompt)
{
    const char *key;
    json_t *node;
    json_object_foreach(prompt, key, node)
    {
        json_object_del(node, "_meta");
        only_numbers(json_object_get(node, "inputs"));
    }
}

/* Neither order nor titles, which are those of the types where nothing else is said, are a prompt's. */
static int same_prompt(const char *a, const char *b)
{
    json_t *x = json_loads(a, 0, NULL), *y = json_loads(b, 0, NULL);
    without_titles(x), without_titles(y);
    int same = x && y && json_equal(x, y);
    json_decref(x), json_decref(y);
    return same;
}

/* The API form of what it is in kiln's form is its own API form. */
static int check_written(const char *ending, const char *given, const char *what)
{
    if (!CHECK_MSG(write_file(ending, given), "no file")) return 0;
    char *yaml = written(convert_to_yaml, what), *api_form = written(convert_to_api, what), *again = NULL;
    int ok = 1;
    if (yaml && api_form) {
        ok = CHECK_MSG(write_file("yaml", yaml), "no file");
        again = written(convert_to_api, what);
        ok &= CHECK_MSG(again && same_prompt(api_form, again), "%s: in the API form:\n%s\nby way of\n%s\n%s", what,
                        api_form, yaml, again ? again : "nothing");
    }
    mem_free(yaml), mem_free(api_form), mem_free(again);
    return ok;
}

static int check_read(const char *ending, const char *given, const char *what)
{
    static lines l;
    size_t faults;
    error e;
    if (!CHECK_MSG(write_file(ending, given), "no file")) return 0;
    job *j = open_job(0, &l, &faults, &e);
    int ok = CHECK_MSG(j ? faults == l.faults : e.message[0] || l.faults, "%s: %zu faults, %zu said: %s", what, faults,
                       l.faults, l.text);
    ok &= CHECK_MSG(!faults || strstr(l.text, "error: "), "%s: %s", what, l.text);
    char *prompt = j && !faults ? describe_prompt(job_workflow(j), SOURCE_NONE) : NULL;
    if (j && !faults) ok &= CHECK_MSG(prompt && prompt[0] == '{', "%s: it is read, and has no prompt", what);
    mem_free(prompt);
    if (j) job_close(j);
    return ok;
}

static void check_mutations(const char *name, const char *ending, const char *given)
{
    const char *word = getenv("KILN_TEST_SAMPLE"), *seed = getenv("KILN_TEST_SEED");
    int n = word ? atoi(word) : SAMPLE, shown = 0;
    state = seed ? strtoull(seed, NULL, 10) : 1;
    for (int i = 0; i < n && shown < SHOWN; i++) {
        char what[300], changed[200];
        json_t *file = json_loads(given, 0, NULL);
        if (!CHECK_MSG(file != NULL, "%s is no JSON", name)) return;
        sites.n = 0;
        find_sites(file);
        mutate(changed, sizeof changed);
        snprintf(what, sizeof what, "%s, change %d: %s", name, i, changed);
        char *text = json_dumps(file, JSON_INDENT(1));
        int64_t live = mem_live();
        int ok = check_read(ending, text, what) && check_written(ending, text, what);
        if (i) ok &= CHECK_MSG(mem_live() == live, "%s: %lld blocks are left", what, (long long)(mem_live() - live));
        shown += !ok;
        free(text);
        json_decref(file);
    }
}

/* ---- files ---- */

static const char native[] =
    "{\"kiln\": 1, \"name\": \"all\", \"description\": \"d\", \"dynamic_prompts\": true, \"params\": {\"seed\": 3, "
    "\"width\": {\"default\": 16, \"help\": \"h\"}, \"image\": \"a.png\", \"text\": \"a {red|blue} cat\", \"amount\": "
    "2}, \"matrix\": {\"width\": [16, 24], \"cfg\": [1, 2]}, \"nodes\": {\"model\": {\"class_type\": "
    "\"CheckpointLoaderSimple\", \"inputs\": {\"ckpt_name\": \"tiny-sd1\"}}, \"text\": {\"class_type\": "
    "\"CLIPTextEncode\", \"inputs\": {\"clip\": [\"model\", \"CLIP\"], \"text\": \"${text} (x:1.2)\"}}, \"none\": "
    "{\"class_type\": \"CLIPTextEncode\", \"inputs\": {\"clip\": [\"model\", \"CLIP\"], \"text\": \"\"}}, \"empty\": "
    "{\"class_type\": \"EmptyLatentImage\", \"inputs\": {\"width\": \"${width}\", \"height\": 16, \"batch_size\": "
    "\"${amount}\"}}, \"draw\": {\"class_type\": \"KSampler\", \"title\": \"Drawing\", \"inputs\": {\"model\": "
    "[\"model\", \"MODEL\"], \"positive\": [\"text\", 0], \"negative\": [\"none\", 0], \"latent_image\": [\"empty\", "
    "0], \"seed\": \"${seed}\", \"steps\": 1, \"cfg\": 2, \"sampler_name\": \"euler\", \"scheduler\": \"normal\", "
    "\"denoise\": 1}}, \"decode\": {\"class_type\": \"VAEDecode\", \"inputs\": {\"samples\": [\"draw\", \"LATENT\"], "
    "\"vae\": [\"model\", \"VAE\"]}}, \"more\": {\"include\": \"part.yaml\", \"inputs\": {\"size\": \"${width}\"}, "
    "\"set\": {\"prefix\": \"z\"}}, \"save\": {\"class_type\": \"SaveImage\", \"inputs\": {\"images\": [\"decode\", "
    "0], \"filename_prefix\": \"%draw.seed%_%model.ckpt_name.stem%_%Drawing.cfg%_${image.stem}_%date:yyyy-MM%\"}}, "
    "\"other\": {\"class_type\": \"SaveImage\", \"inputs\": {\"images\": [\"more\", \"picture\"]}}, \"batch\": "
    "{\"class_type\": \"BatchImagesNode\", \"inputs\": {\"images.image0\": [\"decode\", 0], \"images.image1\": "
    "[\"more\", \"picture\"]}}, \"last\": {\"class_type\": \"SaveImage\", \"inputs\": {\"images\": [\"batch\", 0], "
    "\"filename_prefix\": \"l\"}}}}";

static const char api[] =
    "{\"1\": {\"class_type\": \"EmptyImage\", \"inputs\": {\"width\": \"16\", \"height\": 16, \"gone\": 5, "
    "\"batch_size\": 2, \"color\": 255}, \"_meta\": {\"title\": \"An image\"}}, \"2\": {\"class_type\": \"SaveImage\", "
    "\"inputs\": {\"images\": [\"3\", 0], \"filename_prefix\": \"a/%An image.width%\"}}, \"3\": {\"class_type\": "
    "\"ImageScale\", \"inputs\": {\"image\": [\"1\", 0], \"upscale_method\": \"bilinear\", \"width\": 8, \"height\": "
    "8, \"crop\": \"disabled\"}}, \"4\": {\"class_type\": \"LoadImage\", \"inputs\": {\"image\": \"a.png [input]\"}}, "
    "\"5\": {\"class_type\": \"PreviewImage\", \"inputs\": {\"images\": [\"4\", 0]}}, \"6\": {\"class_type\": "
    "\"ResizeImageMaskNode\", \"inputs\": {\"input\": [\"1\", 0], \"resize_type\": \"scale by multiplier\", "
    "\"resize_type.multiplier\": 2.0, \"scale_method\": \"area\"}}, \"7\": {\"class_type\": \"SaveImage\", \"inputs\": "
    "{\"images\": [\"6\", 0], \"filename_prefix\": \"b\"}}}";

static void put_file(const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static void test_native(void)
{
    put_file("part.yaml", "params: {prefix: {default: x, help: how it is called}, width: 16}\n"
                          "inputs: {size: [empty, width]}\noutputs: {picture: [more, 0]}\nnodes:\n"
                          "  empty: {class_type: EmptyImage, inputs: {width: '${width}', height: 16}}\n"
                          "  more: {class_type: ImageInvert, inputs: {image: [empty, IMAGE]}}\n");
    put_file("a.png", "no picture");
    check_mutations("kiln's form", "yaml", native);
}

static void test_api(void) { check_mutations("the API form", "json", api); }

static void check_file(const char *name)
{
    static char given[1 << 20];
    char path[200];
    snprintf(path, sizeof path, "tests/workflow/%s.json", name);
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(given, 1, sizeof given - 1, f) : 0;
    if (f) fclose(f);
    given[n] = 0;
    check_mutations(name, "json", given);
}

static void test_editor_files(void)
{
    static const char *const files[] = {"box",    "bypass",       "converted", "dynamic", "linkmap",
                                        "mute",   "nested_proxy", "primitive", "proxy",   "reroute",
                                        "setget", "subgraph",     "version1",  "widgets"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char name[80];
        snprintf(name, sizeof name, "editor/%s", files[i]);
        check_file(name);
    }
}

static void test_templates(void)
{
    check_file("templates/sdxl_simple_example");
    check_file("templates/sdxlturbo_example");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_native), CASE(test_api), CASE(test_editor_files), CASE(test_templates)};
    char folder[600];
    error e = {0};
    snprintf(folder, sizeof folder, "%s/plugins", test_build());
    setenv("KILN_PLUGIN_PATH", folder, 1);
    if (chdir(test_root()) != 0 || !(plugins = catalog_open(NULL, &e))) return fprintf(stderr, "%s\n", e.message), 2;
    int failed = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    catalog_close(plugins);
    return failed;
}
