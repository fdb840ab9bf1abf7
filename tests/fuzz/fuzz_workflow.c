/* fuzz_workflow.c - any bytes as a workflow file: read, checked, keyed, described, read again, run.
 *
 * Built by scripts/fuzz with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer. What must hold besides not
 * crashing: a fault has a place in the file; what is sound gets a key for each needed node; the text that goes into a
 * picture is sound too and has the same keys, in both forms, and kiln's own says itself again; a run ends each needed
 * node in exactly one way.
 */
#include "base/memory_alloc.h"
#include "run/scheduler.h"
#include "workflow/describe.h"
#include "workflow/fake_catalog.h"
#include "workflow/key.h"

#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char file_path[] = "/tmp/kiln-fuzz-XXXXXX";

static void file_remove(void) { unlink(file_path); }

/* One small file stands for every name: paths are not what is tried here. */
static const char *any_file(void *self, arena *a, const char *from, const char *name, error *e)
{
    (void)self, (void)a, (void)from, (void)name, (void)e;
    static int made;
    if (!made) {
        int fd = mkstemp(file_path);
        if (fd < 0 || write(fd, "x", 1) != 1) abort();
        close(fd);
        atexit(file_remove);
        made = 1;
    }
    return file_path;
}

static void must(int holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "does not hold: %s\n", what);
    abort();
}

typedef struct {
    document doc;
    workflow w;
    int sound;
} reading;

/* 0: could not be read at all (r is then empty). */
static int read_all(reading *r, const char *data, size_t size)
{
    static const key_setting on = {.device = "cpu", .precision = "f32"};
    error e = {0};
    catalog_view catalog = fake_catalog();
    catalog.file = any_file;
    const document_source from = {.name = "f", .data = data, .size = size, .catalog = &catalog};
    if (document_read(&r->doc, &from, &e) != KILN_OK) {
        must(strncmp(e.message, "f:", 2) == 0, "a message names its place");
        return 0;
    }
    must(workflow_check(&r->doc, &catalog, &r->w, &e) == KILN_OK, "checking needs only memory");
    for (const fault *f = r->doc.faults; f; f = f->next)
        must(f->at.line > 0 && f->at.column > 0, "a fault has a place");
    must((r->doc.n_fault > 0) <= (r->doc.faults != NULL), "a fault is listed");
    r->sound = r->doc.n_fault == 0;
    if (r->sound) must(workflow_keys(&r->w, &on, &e) == KILN_OK, "a sound workflow has keys");
    return 1;
}

static const graph_node *node_named(const workflow *w, const char *name)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->node[i].doc->name, name) == 0) return &w->node[i];
    return NULL;
}

static void check_text(const workflow *w, char *text)
{
    reading again = {0};
    must(text != NULL, "a sound workflow can be described");
    must(read_all(&again, text, strlen(text)) && again.sound, "what goes into a picture is sound");
    for (size_t i = 0; i < w->n && i < 100; i++) {
        if (!w->node[i].needed) continue;
        const graph_node *other = node_named(&again.w, w->node[i].doc->name);
        must(other && digest_equal(other->key, w->node[i].key), "and has the same keys");
    }
    char *twice = describe_source(&again.w, SOURCE_NONE);
    must(twice && (!*twice || strcmp(twice, text) == 0), "what was described says itself again");
    mem_free(twice);
    mem_free(text);
    document_free(&again.doc);
}

static void check_description(const workflow *w)
{
    check_text(w, describe_prompt(w, SOURCE_NONE));
    char *text = describe_source(w, SOURCE_NONE);
    if (!text || *text)
        check_text(w, text);
    else
        mem_free(text); /* there are no parameters */
    for (int32_t i = 0; i < (int32_t)w->n && i < 10; i++)
        if (w->node[i].needed) mem_free(describe_parameters(w, i));
}

static kiln_status call(void *self, size_t i, const void *params, kiln_value *const *in, kiln_value **out, error *e)
{
    const kiln_node *t = ((const workflow *)self)->node[i].type;
    (void)e;
    for (uint32_t p = 0; t->wants && p < 2; p++)
        must((in[p] != NULL) == (((const fake_switch_params *)params)->on == (int)p), "a switch has what it wants");
    for (uint32_t k = 0; k < t->n_out; k++) {
        const char *type = node_out(t, k)->type;
        if (type[0] == '*' && type[1]) {
            kiln_value *first = in[0] ? in[0] : in[1]; /* a List gives its list on */
            out[k] = first ? value_ref(first) : NULL;
            continue;
        }
        out[k] = node_out(t, k)->flags & KILN_PORT_LIST ? value_list()
                 : strcmp(type, "INT") == 0             ? value_int(((const fake_number_params *)params)->amount)
                 : strcmp(type, "STRING") == 0          ? value_string("x", 1)
                                                        : value_map();
        if (!out[k]) return KILN_ERR_NOMEM;
        for (int64_t n = 0; node_out(t, k)->flags & KILN_PORT_LIST && n < 3; n++) {
            kiln_value *one = n < ((const fake_number_params *)params)->amount ? value_map() : NULL;
            if (one) value_api.list_push(out[k], one);
            value_unref(one);
        }
    }
    return KILN_OK;
}

static kiln_status wants(void *self, size_t i, const void *params, kiln_value *const *in, uint64_t *inputs, error *e)
{
    const kiln_node *t = ((const workflow *)self)->node[i].type;
    (void)e;
    return t->wants(&(kiln_call){.size = sizeof(kiln_call), .params = params, .in = in}, inputs);
}

static void check_run(workflow *w)
{
    run_summary sum;
    error e = {0};
    run_schedule(w, &(run_hooks){.self = w, .call = call, .wants = wants}, &(run_setting){.workers = 1}, &sum, &e);
    must(sum.ran + sum.shared + sum.failed + sum.skipped == sum.total, "each needed node ends in one way");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    reading r = {0};
    if (!read_all(&r, (const char *)data, size)) return 0;
    if (r.sound && r.w.n < 1000) {
        check_description(&r.w);
        check_run(&r.w);
    }
    document_free(&r.doc);
    return 0;
}
