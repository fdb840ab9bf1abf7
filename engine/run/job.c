/* job.c - see job.h. */
#include "run/job.h"

#include "backend/choose.h"
#include "base/descriptors.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "base/str.h"
#include "plugin/abilities.h"
#include "run/job_parts.h"
#include "run/stored_types.h"
#include "tensor/dtype.h"
#include "workflow/describe.h"
#include "workflow/key.h"
#include "workflow/png_text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WORKFLOW_BYTES_MAX = 16 << 20, TRIES_FOR_ROOM = 8, WAIT_FOR_ROOM_S = 2, DESCRIPTORS_OF_A_RUN = 12 };

/* ---- the catalog as the checker sees it ---- */

static const kiln_node *view_find(void *self, const char *type, digest *identity)
{
    const node_info *n = catalog_find(((job *)self)->catalog, type);
    if (n) *identity = n->plugin->identity;
    return n ? n->node : NULL;
}

static const char *view_type(void *self, size_t i)
{
    const node_info *n = catalog_node(((job *)self)->catalog, i);
    return n ? n->node->type : NULL;
}

static const char *view_name(void *self, const char *from, size_t i) { return (void)self, registry_name(from, i); }

static const char *view_file(void *self, arena *a, const char *from, const char *name, error *e)
{
    return file_roots_resolve(&((job *)self)->roots, a, from, name, e);
}

static void print_line(void *arg, const char *text) { print_text(arg, "%s\n", text); }

/* What the nodes themselves find wrong with their parameters. */
static void check_nodes(document *doc, const workflow *w, const node_info **info)
{
    for (size_t i = 0; i < w->n; i++) {
        graph_node *g = &w->node[i];
        error why = {0};
        if (!g->type || !g->type->check) continue;
        if (ctx_check(NULL, g->doc->name, info[i]->plugin->id, g->type, g->params, &why) != KILN_OK)
            document_fault(doc, g->doc->at, NULL, "%s", why.message);
    }
}

static kiln_status read_source(job *j, const char *path, error *e)
{
    size_t n = strlen(path);
    if (n < 4 || strcasecmp(path + n - 4, ".png") != 0)
        return file_read(path, WORKFLOW_BYTES_MAX, &j->text, &j->text_size, e);
    TRY(png_text_find(path, "kiln", &j->text, e)); /* with parameters */
    if (!j->text) TRY(png_text_read(path, "prompt", &j->text, e));
    j->text_size = strlen(j->text);
    return KILN_OK;
}

kiln_status job_read(job *j, const set_option *set, size_t n_set, document *doc, workflow *w, const node_info ***info,
                     error *e)
{
    TRY(document_parse(doc, j->path, j->text, j->text_size, set, n_set, e));
    catalog_view view = {.self = j,
                         .find = view_find,
                         .n_type = catalog_nodes(j->catalog),
                         .type_at = view_type,
                         .name_at = view_name,
                         .file = view_file};
    TRY(workflow_check(doc, &view, w, e));
    *info = arena_alloc(&doc->memory, (w->n + 1) * sizeof **info);
    if (!*info) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < w->n; i++)
        if (w->node[i].type) (*info)[i] = catalog_find(j->catalog, w->node[i].doc->type);
    if (doc->n_fault == 0) check_nodes(doc, w, *info);
    document_sort_faults(doc);
    return KILN_OK;
}

/* What was asked for with --plugins or is installed, and is not there for the workflow. */
static void say_refused(const catalog *c)
{
    for (size_t i = 0; i < catalog_plugins(c); i++) {
        const plugin_info *p = catalog_plugin(c, i);
        if (!p->table && !p->shadowed) log_warn("%s was not loaded: %s", p->path, p->why);
    }
}

static kiln_status open_all(job *j, const job_source *s, error *e)
{
    if (!(j->catalog = catalog_open(s->plugins, e))) return e->status;
    say_refused(j->catalog);
    if (!(j->path = arena_strdup(&j->memory, s->path))) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    TRY(file_roots_find(&j->roots, &j->memory, s->path, s->models, s->input, e));
    TRY(read_source(j, s->path, e));
    return job_read(j, s->set, s->n_set, &j->doc, &j->workflow, &j->info, e);
}

job *job_open(const job_source *from, size_t *faults, error *e)
{
    job *j = mem_calloc(1, sizeof *j);
    if (!j) return error_set(e, KILN_ERR_NOMEM, "out of memory"), NULL;
    pthread_mutex_init(&j->lock, NULL);
    if (open_all(j, from, e) != KILN_OK) {
        job_close(j);
        return NULL;
    }
    int by_row = from->over || (from->rows && j->doc.matrix);
    (by_row ? document_print_warnings : document_print_faults)(&j->doc, print_line, stderr);
    *faults = by_row ? 0 : j->doc.n_fault;
    return j;
}

void job_close(job *j)
{
    if (!j) return;
    document_free(&j->doc);
    catalog_close(j->catalog);
    arena_free(&j->memory);
    mem_free(j->text);
    pthread_mutex_destroy(&j->lock);
    mem_free(j);
}

const workflow *job_workflow(const job *j) { return &j->workflow; }
const yaml_node *job_matrix(const job *j) { return j->doc.matrix; }

/* ---- calls ---- */

int env_cancelled(void *arg) { return (void)arg, atomic_load(&interrupted) > 0; }
static void env_progress(void *arg, size_t node, uint64_t done, uint64_t total, const char *what)
{
    report_progress(((job *)arg)->report, node, done, total, what);
}

static void env_file(void *arg, size_t node, const char *path)
{
    job *j = arg;
    if (j->on_file) j->on_file(j->sweep, node, path);
    report_file(j->report, node, path);
}

static const struct {
    const char *name;
    char *(*make)(const workflow *w, int32_t node);
} text_kind[] = {{"prompt", describe_prompt}, {"parameters", describe_parameters}, {"kiln", describe_source}};
enum { N_TEXTS = sizeof text_kind / sizeof text_kind[0] };

static const char *env_text(void *arg, size_t node, const char *name)
{
    job *j = arg;
    size_t kind = 0;
    while (kind < N_TEXTS && strcmp(name, text_kind[kind].name) != 0) kind++;
    if (kind == N_TEXTS) return NULL;
    size_t at = node;
    const workflow *w = j->part_of ? j->part_of(j->sweep, node, &at) : &j->workflow;
    pthread_mutex_lock(&j->lock);
    char **text = &j->texts[node * N_TEXTS + kind];
    if (!*text) *text = text_kind[kind].make(w, (int32_t)at);
    pthread_mutex_unlock(&j->lock);
    return *text;
}

static kiln_status make_instance(job *j, size_t i, error *e)
{
    const graph_node *g = &j->workflow.node[i];
    if (!g->type->create || j->instance[i]) return KILN_OK;
    kiln_status status = g->type->create(&engine_host, &j->instance[i]);
    return status == KILN_OK ? KILN_OK
                             : error_set(e, status, "node '%s' (%s) could not be made: %s", g->doc->name, g->type->type,
                                         status_text(status));
}

/* What the store holds of the nodes' states (include/kiln/store.h). */
static kiln_value *env_state_load(void *arg, size_t node)
{
    return result_cache_state_load(((job *)arg)->result_cache, node);
}
static int env_state_due(void *arg, size_t node)
{
    return result_cache_state_due(((job *)arg)->result_cache, node, atomic_load(&interrupted) > 0);
}
static kiln_status env_state_save(void *arg, size_t node, const kiln_value *state, error *e)
{
    TRY(job_files_unchanged(arg, node, e));
    return result_cache_state_save(((job *)arg)->result_cache, node, state, e);
}

static kiln_status call_once(job *j, size_t i, const void *params, kiln_value *const *in, kiln_value **out, error *e)
{
    const graph_node *g = &j->workflow.node[i];
    return ctx_call(&j->env, i, g->doc->name, j->info[i]->plugin->id, g->type, j->instance[i], params, in, out, e);
}

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Waits for nodes that run beside this one to let go of tensors; 1: some have. */
static int others_let_go(const job *j, size_t held)
{
    const budget *b = residency_budget(runtime_residency(j->runtime));
    double until = seconds_now() + (held ? WAIT_FOR_ROOM_S : 0);
    for (;;) {
        if (budget_held(b, MEMORY_VALUES) < held) return 1;
        if (seconds_now() >= until || env_cancelled(NULL)) return 0;
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
}

/* KILN_ERR_NOMEM means: evict and call once more; and, while nodes beside this one hold tensors on the same budget, as
 * soon as they let go of some: alone the node has room, as was found before the run. */
kiln_status job_call_node(job *j, size_t i, const void *params, kiln_value *const *in, kiln_value **out, error *e)
{
    error first = {0};
    TRY(make_instance(j, i, e));
    kiln_status status = call_once(j, i, params, in, out, &first);
    for (int tries = 0;
         status == KILN_ERR_NOMEM && tries < TRIES_FOR_ROOM && residency_limited(runtime_residency(j->runtime));
         tries++) {
        size_t held = budget_held(residency_budget(runtime_residency(j->runtime)), MEMORY_VALUES);
        if (tries && !others_let_go(j, held)) break;
        residency_give_up(runtime_residency(j->runtime), SIZE_MAX);
        first = (error){0};
        status = call_once(j, i, params, in, out, &first);
    }
    return status == KILN_OK ? status : error_set(e, status, "%s", first.message);
}

typedef struct {
    job *job;
    size_t node;
    const void *params;
    kiln_value *const *in;
} pending_call;

/* Device nodes run one at a time, so that what the runtime did meanwhile was this node's. */
static kiln_status compute_node(void *arg, kiln_value **out, error *e)
{
    const pending_call *c = arg;
    const kiln_node *t = c->job->workflow.node[c->node].type;
    int alone = (t->flags & KILN_NODE_DEVICE) != 0;
    uint64_t flops = runtime_usage_get(c->job->runtime).flops;
    device_traffic moved = alone ? job_link(c->job) : (device_traffic){0};
    double start = seconds_now();
    TRY(job_files_begin(c->job, c->node, c->in, e));
    kiln_status status = job_call_node(c->job, c->node, c->params, c->in, out, e);
    status = job_files_end(c->job, c->node, status, out, e);
    if (alone) job_tell_link(c->job, c->node, moved);
    if (status == KILN_OK && alone)
        result_cache_learn(c->job->result_cache, t->type, (double)(runtime_usage_get(c->job->runtime).flops - flops),
                           seconds_now() - start);
    return status;
}

kiln_status job_call(void *self, size_t i, const void *params, kiln_value *const *in, kiln_value **out, error *e)
{
    job *j = self;
    int fetched;
    pending_call c = {.job = j, .node = i, .params = params, .in = in};
    kiln_status status = result_cache_compute(j->result_cache, i, compute_node, &c, out, &fetched, e);
    if (fetched) report_note(j->report, i, "made by another process");
    return status;
}

int job_known(void *self, size_t i) { return result_cache_known(((job *)self)->result_cache, i); }
int job_taken(void *self, size_t i) { return result_cache_taken(((job *)self)->result_cache, i); }
kiln_status job_fetch(void *self, size_t i, kiln_value **out, error *e)
{
    return result_cache_fetch(((job *)self)->result_cache, i, out, e);
}
static void waiting(void *arg, size_t i)
{
    report_note(((job *)arg)->report, i, "waits for another process that is computing it");
}

static void on_event(void *self, const run_event *event) { report_event(((job *)self)->report, event); }

/* ---- running ---- */

static kiln_status writable(const char *path, error *e)
{
    TRY(folder_make(path, e));
    if (access(path, W_OK | X_OK) == 0) return KILN_OK;
    return error_set(e, KILN_ERR_IO, "%s: cannot be written to; give another folder with --out", path);
}

static kiln_status choose_precision(const char *text, const backend *b, uint32_t *out, error *e)
{
    *out = !text || strcmp(text, "auto") == 0 ? 0 : dtype_from_name(text);
    if (!text || strcmp(text, "auto") == 0) return KILN_OK;
    if (*out != KILN_F32 && *out != KILN_BF16 && *out != KILN_F16)
        return error_set(e, KILN_ERR_INVALID, "--precision %s: it is f32, bf16, f16 or auto", text);
    if (b->precisions >> *out & 1) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID,
                     "--precision %s: this run is on '%s', which computes in f32 or bf16; take --precision bf16 or "
                     "f32, or a CUDA device (--device cuda)",
                     text, b->name);
}

static kiln_status make_runtime(job *j, const job_setting *s, error *e)
{
    runtime_setting rs = {.threads = s->threads,
                          .explain = s->explain,
                          .check_finite = s->validate,
                          .trace = s->trace ? report_op : NULL,
                          .trace_arg = j->report};
    TRY(backend_choose(s->device, &rs.backend, &rs.device_index, e));
    TRY(choose_precision(s->precision, rs.backend, &rs.precision, e));
    TRY(job_memory_setting(s, &rs, e));
    j->runtime = runtime_new(&rs, e);
    if (!j->runtime) return e->status;
    job_memory_begin(j);
    return KILN_OK;
}

/* Explaining looks at no result and keeps none. */
static kiln_status open_result_cache(job *j, const job_setting *s, error *e)
{
    result_cache_setting k = {.folder = s->cache,
                              .limit = s->cache_limit,
                              .state_seconds = s->state_seconds,
                              .off = s->no_cache || (s->explain && !s->dry_run),
                              .types = stored_types(),
                              .cancelled = env_cancelled,
                              .waiting = waiting,
                              .arg = j};
    return result_cache_open(&k, &j->result_cache, e);
}

static void say_few_descriptors(const job *j)
{
    if (descriptors_left(DESCRIPTORS_OF_A_RUN)) return;
    log_warn("fewer than %d more files can be opened (the limit is %lu at once); if that is too few, allow more with: "
             "ulimit -n %zu",
             DESCRIPTORS_OF_A_RUN, descriptors_limit(), catalog_plugins(j->catalog) + DESCRIPTORS_ENOUGH);
}

kiln_status job_machine(job *j, const job_setting *s, error *e)
{
    say_few_descriptors(j);
    if (!s->explain) TRY(writable(s->out ? s->out : "out", e));
    j->report = report_open(&(report_setting){.workflow = &j->workflow,
                                              .events = s->explain ? NULL : s->events,
                                              .trace = s->explain ? NULL : s->trace,
                                              .quiet = s->quiet || s->explain,
                                              .verbose = s->verbose},
                            e);
    if (!j->report) return e->status;
    TRY(make_runtime(j, s, e));
    TRY(open_result_cache(j, s, e));
    key_setting keys = job_keys(j);
    char machine[256];
    snprintf(machine, sizeof machine, "%s %s %s", keys.device, keys.precision, keys.numerics);
    result_cache_rates_for(j->result_cache, machine);
    return KILN_OK;
}

static const plugin_info *plugin_of(const job *j, const char *id)
{
    for (size_t i = 0; id && i < catalog_plugins(j->catalog); i++) {
        const plugin_info *p = catalog_plugin(j->catalog, i);
        if (p->table && p->id && strcmp(p->id, id) == 0) return p;
    }
    return NULL;
}

static int origin(void *arg, const char *from, const char *name, digest *out)
{
    const plugin_info *p = plugin_of(arg, registry_owner_of(from, name));
    if (p) *out = p->identity;
    return p != NULL;
}

/* Sums of both halves, so that neither the order on the search path nor the order of rows decides. */
static digest families_digest(const job *j)
{
    digest sum = {0};
    for (size_t i = 0; registry_family_owner(i); i++) {
        const plugin_info *p = plugin_of(j, registry_family_owner(i));
        if (p) sum.lo += p->identity.lo, sum.hi += p->identity.hi;
    }
    return sum;
}

key_setting job_keys(const job *j)
{
    return (key_setting){.origin = origin,
                         .unreadable = job_unreadable,
                         .beside = job_files_beside,
                         .arg = (void *)(uintptr_t)j,
                         .families = families_digest(j),
                         .device = runtime_backend(j->runtime)->name,
                         .precision = dtype_name(runtime_precision(j->runtime)),
                         .numerics = runtime_backend(j->runtime)->numerics(),
                         .engine = KILN_VERSION};
}

kiln_status job_take_up(job *j, error *e)
{
    size_t n = j->workflow.n + 1;
    j->instance = mem_calloc(n, sizeof *j->instance);
    j->texts = mem_calloc(n, N_TEXTS * sizeof *j->texts);
    j->files = mem_calloc(n, sizeof *j->files);
    if (!j->instance || !j->texts || !j->files) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    return result_cache_watch(j->result_cache, &j->workflow, e);
}

static kiln_status prepare(job *j, const job_setting *s, error *e)
{
    TRY(job_machine(j, s, e));
    key_setting keys = job_keys(j);
    TRY(workflow_keys(&j->workflow, &keys, e));
    return job_take_up(j, e);
}

void job_let_go(job *j)
{
    for (size_t i = 0; i < j->workflow.n; i++) {
        const graph_node *g = &j->workflow.node[i];
        if (j->instance && j->instance[i] && g->type->destroy) g->type->destroy(j->instance[i]);
        for (size_t k = 0; j->texts && k < N_TEXTS; k++) mem_free(j->texts[i * N_TEXTS + k]);
    }
    mem_free(j->instance), mem_free(j->texts), mem_free(j->files);
    j->instance = NULL, j->texts = NULL, j->files = NULL;
}

void job_finish(job *j)
{
    job_let_go(j);
    result_cache_close(j->result_cache);
    j->result_cache = NULL;
    job_memory_end();
    runtime_free(j->runtime);
    j->runtime = NULL;
}

call_environment job_environment(job *j, const job_setting *s, output_folder *output)
{
    return (call_environment){.runtime = j->runtime,
                              .pool = runtime_pool(j->runtime),
                              .output = output,
                              .cancelled = env_cancelled,
                              .progress = env_progress,
                              .file = env_file,
                              .text = env_text,
                              .state_load = env_state_load,
                              .state_due = env_state_due,
                              .state_save = env_state_save,
                              .opened = job_files_opened,
                              .unchanged = job_files_unchanged,
                              .arg = j,
                              .validate = s->validate};
}

kiln_status job_run(job *j, const job_setting *s, run_summary *summary, error *e)
{
    output_folder output = {.path = s->out ? s->out : "out"};
    *summary = (run_summary){0};
    kiln_status status = prepare(j, s, e);
    if (status == KILN_OK) {
        job_watch_signals();
        j->env = job_environment(j, s, &output);
        status = job_estimate_memory(j, e);
    }
    if (status == KILN_OK) {
        status = run_schedule(&j->workflow,
                              &(run_hooks){.self = j,
                                           .call = job_call,
                                           .event = on_event,
                                           .known = job_known,
                                           .fetch = job_fetch,
                                           .taken = job_taken},
                              &(run_setting){.workers = s->jobs, .fail_fast = s->fail_fast, .cancel = &interrupted},
                              summary, e);
        job_say_memory(j, s);
    }
    kiln_status closed = report_close(j->report, summary, status == KILN_OK ? "ok" : status_name(status), e);
    j->report = NULL;
    job_finish(j);
    return status != KILN_OK ? status : closed;
}

/* ---- explaining ---- */

/* Nodes that write are not called: explaining leaves nothing behind. */
static kiln_status explain_node(void *self, size_t i, const void *params, kiln_value *const *in, kiln_value **out,
                                error *e)
{
    job *j = self;
    const graph_node *g = &j->workflow.node[i];
    char key[33], weights[16] = "-", activations[16] = "-", flops[32] = "-";
    runtime_usage_reset(j->runtime);
    if (g->type->flags & KILN_NODE_OUTPUT)
        for (uint32_t k = 0; k < g->type->n_out; k++) out[k] = value_map(); /* nobody reads it: outputs run last */
    else
        TRY(job_call_node(self, i, params, in, out, e));
    runtime_usage u = runtime_usage_get(j->runtime);
    if (u.runs) {
        str_bytes(weights, u.weight_bytes);
        str_bytes(activations, u.arena_peak + u.scratch_peak);
        snprintf(flops, sizeof flops, "%.3g", (double)u.flops * 1e-9);
    }
    print_text(stdout, "%-16.16s %-24.24s %.16s  %10s %12s %12s\n", g->doc->name, g->type->type,
               digest_hex(g->key, key), weights, activations, flops);
    return KILN_OK;
}

kiln_status job_explain_all(job *j, const job_setting *setting, int dry, const run_hooks *hooks, error *e)
{
    job_setting s = *setting;
    run_summary summary;
    s.explain = 1, s.dry_run = dry;
    kiln_status status = prepare(j, &s, e);
    if (status == KILN_OK) {
        j->env = (call_environment){.runtime = j->runtime,
                                    .pool = runtime_pool(j->runtime),
                                    .cancelled = env_cancelled,
                                    .progress = env_progress,
                                    .text = env_text,
                                    .arg = j};
        error why = {0};
        status = run_schedule(&j->workflow, hooks, &(run_setting){.workers = 1, .fail_fast = 1, .cancel = &interrupted},
                              &summary, &why);
        if (status == KILN_ERR_NOMEM && residency_limited(runtime_residency(j->runtime))) TRY(job_least_memory(j, e));
        if (status != KILN_OK) error_set(e, status, "%s", why.message);
    }
    return status;
}

void job_close_quietly(job *j)
{
    report_close(j->report, NULL, NULL, NULL);
    j->report = NULL;
    job_finish(j);
}

kiln_status job_explain(job *j, const job_setting *setting, error *e)
{
    print_text(stdout, "%-16s %-24s %-16s  %10s %12s %12s\n", "node", "type", "key", "weights", "activations", "GFLOP");
    kiln_status status = job_explain_all(j, setting, 0, &(run_hooks){.self = j, .call = explain_node}, e);
    if (status == KILN_OK) job_explain_memory(j);
    job_close_quietly(j);
    return status;
}
