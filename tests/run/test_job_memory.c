/* test_job_memory.c - workflows of every form opened, written anew, checked row by row, estimated and run, with each
 * allocation failing once (no_memory_kit.h), and read and run with each call of the system failing (system_faults.h).
 * Plugins are loaded once, before.
 */
#include "system_faults.h"
#include "plugin/catalog.h"
#include "run/job.h"
#include "workflow/convert.h"
#include "workflow/describe.h"

#include "base/file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static catalog *plugins;
static char folder[512];

/* ---- reading ---- */

typedef struct {
    yield *out;
    error *e;
} hearing;

/* A fault is the message; warnings are a part of what is given. */
static void hear(void *arg, const char *text, int is_warning)
{
    hearing *h = arg;
    if (is_warning)
        yield_text(h->out, text);
    else
        error_set(h->e, KILN_ERR_INVALID, "%s", text);
}

static const char *path; /* of the workflow */
static const set_option *set;
static size_t n_set;
static int unchecked;

static job *open_job(hearing *h)
{
    size_t faults = 0;
    const job_source from = {.path = path,
                             .set = set,
                             .n_set = n_set,
                             .models = "tests/golden",
                             .input = folder,
                             .unchecked = unchecked,
                             .line = hear,
                             .arg = h,
                             .catalog = plugins,
                             .thorough = 1};
    error why = {0};
    job *j = job_open(&from, &faults, &why);
    if (!j) error_set(h->e, why.status, "%s", why.message);
    if (j && faults) job_close(j), j = NULL;
    return j;
}

static const kiln_node *row_of(const void *self, const char *type)
{
    const node_info *n = catalog_find(self, type);
    return n ? n->node : NULL;
}

static kiln_status yield_taken(yield *out, char *text, error *e)
{
    if (!text) return error_set(e, KILN_ERR_NOMEM, "out of memory"); /* as the functions' headers say */
    yield_text(out, text);
    mem_free(text);
    return KILN_OK;
}

static kiln_status describe_job(const job *j, yield *out, error *e)
{
    const workflow *w = job_workflow(j);
    TRY(yield_taken(out, describe_prompt(w, SOURCE_NONE), e));
    TRY(yield_taken(out, describe_source(w, SOURCE_NONE), e));
    for (size_t i = 0; i < w->n; i++)
        if (w->node[i].type->flags & KILN_NODE_OUTPUT) TRY(yield_taken(out, describe_parameters(w, (int32_t)i), e));
    return KILN_OK;
}

static kiln_status read_job(yield *out, error *e)
{
    job *j = open_job(&(hearing){out, e});
    if (!j) return e->status;
    kiln_status status = describe_job(j, out, e);
    job_close(j);
    return status;
}

static kiln_status convert_job(yield *out, error *e)
{
    const convert_rows rows = {.self = plugins, .find = row_of};
    unchecked = 1;
    job *j = open_job(&(hearing){out, e});
    unchecked = 0;
    if (!j) return e->status;
    char *text = convert_to_yaml(job_workflow(j)->doc, &rows, e);
    kiln_status status = text ? yield_taken(out, text, e) : e->status;
    text = status == KILN_OK ? convert_to_api(job_workflow(j)->doc, &rows, e) : NULL;
    if (status == KILN_OK) status = text ? yield_taken(out, text, e) : e->status;
    job_close(j);
    return status;
}

static void put_workflow(const char *name, const char *text)
{
    static char at[600];
    snprintf(at, sizeof at, "%s/%s", folder, name);
    FILE *f = fopen(at, "w");
    CHECK(f && fputs(text, f) >= 0 && fclose(f) == 0);
    path = at;
}

static const char part[] = "params: {prefix: {default: x, help: how it is called}, width: 16}\n"
                           "inputs: {size: [empty, width]}\noutputs: {picture: [more, 0]}\nnodes:\n"
                           "  empty: {class_type: EmptyImage, inputs: {width: '${width}', height: 16}}\n"
                           "  more: {class_type: ImageInvert, inputs: {image: [empty, IMAGE]}}\n";
/* Anchors, merges, references, wires by name, lists, an include, prefixes with tokens, a dynamic prompt. */
static const char rich[] =
    "kiln: 1\nname: small\ndescription: pictures\ndynamic_prompts: true\n"
    ".size: &size {width: 16, height: 16}\n"
    "params: {seed: 3, prefix: y, text: 'a {red|green|{2$$big|small|old}} {cat|dog}'}\nnodes:\n"
    "  model: {class_type: CheckpointLoaderSimple, inputs: {ckpt_name: tiny-sd1}}\n"
    "  text: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: '${text} (x:1.2)'}}\n"
    "  none: {class_type: CLIPTextEncode, inputs: {clip: [model, CLIP], text: ''}}\n"
    "  empty: {class_type: EmptyLatentImage, inputs: {<<: *size, batch_size: 1}}\n"
    "  draw: {class_type: KSampler, inputs: {model: [model, MODEL], positive: [text, 0], negative: [none, 0], "
    "latent_image: "
    "[empty, 0], seed: '${seed}', steps: 1, cfg: 2, sampler_name: euler, scheduler: normal, denoise: 1}}\n"
    "  decode: {class_type: VAEDecode, inputs: {samples: [draw, LATENT], vae: [model, VAE]}}\n"
    "  save: {class_type: SaveImage, inputs: {images: [decode, 0], filename_prefix: "
    "'%draw.seed%_%model.ckpt_name.stem%_${prefix}'}}\n"
    "  a: {include: part.yaml, inputs: {size: 32}, set: {prefix: z}}\n"
    "  other: {class_type: SaveImage, inputs: {images: [a, picture], filename_prefix: b}}\n";

static void test_reading(void)
{
    static const set_option change[] = {
        {.name = "seed", .value = "7"}, {.name = "draw.cfg", .value = "3"}, {.name = "steps", .value = "2"}};
    put_workflow("part.yaml", part);
    put_workflow("rich.yaml", rich);
    set = change, n_set = 3;
    fail_everywhere("a workflow of many kinds of syntax", read_job);
    set = NULL, n_set = 0;
}

#define EDITOR(name, sound)                                                                                            \
    static void test_##name(void)                                                                                      \
    {                                                                                                                  \
        path = "tests/workflow/editor/" #name ".json";                                                                 \
        fail_everywhere(#name ", written anew", convert_job);                                                          \
        if (sound) fail_everywhere(#name ", checked", read_job);                                                       \
    }
EDITOR(bypass, 1)
EDITOR(box, 1)
EDITOR(dynamic, 1)
EDITOR(linkmap, 1)
EDITOR(nested_proxy, 1)
EDITOR(primitive, 1)
EDITOR(setget, 1)
EDITOR(subgraph, 0)
EDITOR(version1, 1)
EDITOR(widgets, 0)

/* What programs write that are not strict, with values in quotes and names of another system. */
static void test_old_habits(void)
{
    put_workflow(
        "api.json",
        "{\"1\": {\"class_type\": \"EmptyImage\", \"inputs\": {\"width\": \"16\", \"height\": \"16\", \"gone\": 5}, "
        "\"_meta\": "
        "{\"title\": \"An image\"}}, \"2\": {\"class_type\": \"SaveImage\", \"inputs\": {\"images\": [\"1\", 0], "
        "\"filename_prefix\": \"a/%An image.width%\"}}}");
    fail_everywhere("the API form", read_job);
    fail_everywhere("the API form, written anew", convert_job);
}

/* ---- rows, estimates and runs ---- */

static const char sweep[] =
    "params: {width: 16, prefix: x}\nmatrix: {width: [16, 32], empty.height: [16, 24]}\nnodes:\n"
    "  empty: {class_type: EmptyImage, inputs: {width: '${width}', height: 16, color: 255}}\n"
    "  more: {class_type: ImageInvert, inputs: {image: [empty, 0]}}\n"
    "  save: {class_type: SaveImage, inputs: {images: [more, 0], filename_prefix: '${prefix}'}}\n";

static kiln_status check_rows(yield *out, error *e)
{
    static const char *const over[] = {"prefix=a,b"};
    const job_rows rows = {.over = over, .n_over = 1};
    size_t n = 0, faulty = 0;
    job *j = open_job(&(hearing){out, e});
    if (!j) return e->status;
    kiln_status status = job_check_rows(j, &rows, &n, &faulty, e);
    yield_number(out, (int64_t)n), yield_number(out, (int64_t)faulty);
    job_close(j);
    return status == KILN_OK && faulty ? e->status : status;
}

static void test_rows(void)
{
    put_workflow("sweep.yaml", sweep);
    fail_everywhere("rows of a sweep", check_rows);
}

static job_mode mode;
static const job_rows *rows;

static kiln_status run_job(yield *out, error *e)
{
    static char said[8000];
    char to[600], cache[600];
    job_summary sum = {0};
    snprintf(to, sizeof to, "%s/out", folder);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    folder_remove(to), folder_remove(cache);
    const job_setting s = {.mode = mode,
                           .out = to,
                           .device = "cpu",
                           .precision = "f32",
                           .threads = 1,
                           .cache = cache,
                           .jobs = 1,
                           .quiet = 1};
    error why = {0};
    job *j = open_job(&(hearing){out, e});
    if (!j) return e->status;
    fflush(stdout);
    snprintf(cache, sizeof cache, "%s/said", folder);
    int kept[] = {dup(1), dup(2)},
        none = open(cache, O_RDWR | O_CREAT | O_TRUNC, 0666); /* what is printed for people */
    dup2(none, 1), dup2(none, 2);
    kiln_status status = job_run(j, &s, rows, &sum, &why);
    fflush(stdout);
    dup2(kept[0], 1), dup2(kept[1], 2);
    ssize_t n = pread(none, said, sizeof said - 1, 0);
    said[n > 0 ? n : 0] = 0;
    close(kept[0]), close(kept[1]), close(none);
    /* Rows of a sweep say it there; and so does kiln.weights/1, whose text() has no other way to. */
    int elsewhere = status == KILN_OK ? sum.failed > 0 : !strstr(why.message, "memory") && strstr(said, "memory");
    if (elsewhere) status = error_set(e, KILN_ERR_IO, "%s", said);
    if (!elsewhere && status != KILN_OK) error_set(e, status, "%s", why.message);
    yield_number(out, (int64_t)sum.done), yield_number(out, (int64_t)sum.nodes.ran);
    job_close(j);
    snprintf(cache, sizeof cache, "%s/out/x_00001_.png", folder);
    yield_number(out, file_exists(cache));
    return status;
}

static const char small[] = "nodes:\n  empty: {class_type: EmptyImage, inputs: {width: 16, height: 16, color: 255}}\n"
                            "  more: {class_type: ImageInvert, inputs: {image: [empty, 0]}}\n"
                            "  save: {class_type: SaveImage, inputs: {images: [more, 0], filename_prefix: x}}\n";

static void test_a_run(void)
{
    put_workflow("small.yaml", small);
    mode = JOB_RUN;
    fail_everywhere("a run", run_job);
    mode = JOB_DRY_RUN;
    fail_everywhere("a dry run", run_job);
    mode = JOB_EXPLAIN;
    fail_everywhere("a run explained", run_job);
}

static void test_a_sweep(void)
{
    static const char *const over[] = {"prefix=x,y"};
    static char sheet[600];
    snprintf(sheet, sizeof sheet, "%s/sheet.png", folder);
    const job_rows two = {.over = over, .n_over = 1, .sheet = sheet};
    put_workflow("small.yaml",
                 "params: {prefix: x}\nnodes:\n  empty: {class_type: EmptyImage, inputs: {width: 16, height: 16}}\n"
                 "  save: {class_type: SaveImage, inputs: {images: [empty, 0], filename_prefix: '${prefix}'}}\n");
    mode = JOB_RUN, rows = &two;
    fail_everywhere("a sweep with its sheet", run_job);
    rows = NULL;
}

static kiln_status sample_job(yield *out, error *e)
{
    path = "workflows/txt2img.yaml";
    return run_job(out, e);
}

/* A network is recorded, planned, fused, estimated and run. */
static void test_a_network(void)
{
    static const set_option change[] = {{.name = "model.ckpt_name", .value = "tiny-sd1"},
                                        {.name = "empty.width", .value = "16"},
                                        {.name = "empty.height", .value = "16"},
                                        {.name = "steps", .value = "1"}};
    set = change, n_set = 4;
    mode = JOB_EXPLAIN;
    fail_everywhere("a network explained", sample_job);
    mode = JOB_RUN;
    fail_everywhere("a network run", sample_job);
    set = NULL, n_set = 0;
}

/* ---- the system ---- */

static void test_system_calls(void)
{
    static const char *const over[] = {"prefix=x,y"};
    const job_rows two = {.over = over, .n_over = 1};
    put_workflow("part.yaml", part);
    put_workflow("rich.yaml", rich);
    fail_every_call("a workflow of many kinds of syntax", read_job, NULL);
    put_workflow("small.yaml", small);
    mode = JOB_RUN;
    fail_every_call("a run", run_job, NULL);
    put_workflow("sweep.yaml", sweep);
    rows = &two;
    fail_every_call("a sweep", run_job, NULL);
    rows = NULL;
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_system_calls), CASE(test_reading),      CASE(test_bypass),     CASE(test_box),    CASE(test_dynamic),
        CASE(test_linkmap),      CASE(test_nested_proxy), CASE(test_primitive),  CASE(test_setget), CASE(test_subgraph),
        CASE(test_version1),     CASE(test_widgets),      CASE(test_old_habits), CASE(test_rows),   CASE(test_a_run),
        CASE(test_a_sweep),      CASE(test_a_network)};
    char from[600];
    error e = {0};
    char in_memory[] = "/dev/shm/kiln-test-XXXXXX"; /* thousands of runs would wait for a disk */
    int made = mkdtemp(in_memory) != NULL;
    snprintf(folder, sizeof folder, "%s", made ? in_memory : test_folder());
    snprintf(from, sizeof from, "%s/plugins", test_build());
    if (chdir(test_root()) != 0 || !(plugins = catalog_open(from, &e))) return fprintf(stderr, "%s\n", e.message), 2;
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    catalog_close(plugins);
    if (made) folder_remove(folder);
    return status;
}
