/* library.c - kiln/engine.h over the jobs of engine/run: options become settings, faults and events become texts.
 *
 * Plugins are loaded once a process and stay, so the first workflow's catalog serves those after it.
 */
#include "kiln/engine.h"

#include "base/array.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "base/terminal.h"
#include "run/interrupt.h"
#include "run/job.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct kiln_workflow {
    kiln_workflow_options from;
    job *job;
    set_option *set;
    size_t n_error; /* of the first reading */
    int is_sweep, checked;
    size_t n_row;
    char **fault;
    size_t n_fault, fault_capacity;
};

static atomic_flag one_open = ATOMIC_FLAG_INIT;
static catalog *loaded; /* of the first workflow; the process's */
static char *loaded_from;

const char *kiln_version(void) { return KILN_VERSION; }
void kiln_cancel(void) { interrupt_request(); }

/* ---- structs of other sizes ---- */

/* Copies as much of the struct as the program knows of; the rest is 0. */
static kiln_status take(void *to, size_t size, const void *from, const char *what, error *e)
{
    uint32_t given = 0;
    if (from) memcpy(&given, from, sizeof given);
    if (given < sizeof given || given > 1u << 16)
        return error_set(e, KILN_ERR_BUG, "%s: its member `size` has to be sizeof the struct; it is %u", what, given);
    memset(to, 0, size);
    memcpy(to, from, given < size ? given : size);
    return KILN_OK;
}

static kiln_status say(kiln_message *why, const error *e)
{
    size_t capacity = why && why->size > offsetof(kiln_message, text) ? why->size - offsetof(kiln_message, text) : 0;
    if (!capacity) return e->status;
    if (capacity > sizeof why->text) capacity = sizeof why->text;
    why->status = e->status;
    snprintf(why->text, capacity, "%s", e->status == KILN_OK ? "" : e->message);
    return e->status;
}

/* ---- what is printed, and what is handed over ---- */

static void to_program(void *arg, int level, const char *line)
{
    const kiln_workflow *w = arg;
    if (w->from.on_log) w->from.on_log(w->from.arg, level, line);
}

static void speak(kiln_workflow *w)
{
    int console = w->from.console != 0;
    print_silence(!console, !console);
    if (!console || w->from.on_log) log_sink_set(to_program, w);
}

static void fall_silent(void)
{
    print_silence(0, 0);
    log_sink_set(NULL, NULL);
}

static void add_line(void *arg, const char *text, int is_warning)
{
    kiln_workflow *w = arg;
    terminal_print_fault(text, is_warning); /* nothing without a console */
    if (is_warning) {
        to_program(w, KILN_LOG_WARN, text);
        return;
    }
    char *copy = mem_strdup(text);
    if (copy && array_reserve(&w->fault, &w->fault_capacity, w->n_fault + 1, sizeof *w->fault))
        w->fault[w->n_fault++] = copy;
    else
        mem_free(copy);
}

static void drop_faults(kiln_workflow *w)
{
    for (size_t i = 0; i < w->n_fault; i++) mem_free(w->fault[i]);
    w->n_fault = 0;
}

/* ---- opening ---- */

static kiln_status same_plugins(const kiln_workflow *w, error *e)
{
    const char *wanted = w->from.plugins ? w->from.plugins : "";
    if (!loaded || strcmp(loaded_from, wanted) == 0) return KILN_OK;
    return error_set(e, KILN_ERR_UNSUPPORTED,
                     "the plugins of '%s' were loaded in this process and stay until it ends; other ones (%s) need "
                     "another process",
                     loaded_from, wanted);
}

enum { SETTING_1_0 = offsetof(kiln_setting, value) + sizeof(const char *) }; /* a program cannot be older */

static kiln_status open_job(kiln_workflow *w, error *e)
{
    const kiln_workflow_options *o = &w->from;
    if (!o->path) return error_set(e, KILN_ERR_INVALID, "which workflow? `path` is NULL");
    TRY(same_plugins(w, e));
    if (o->n_set && (!o->set || o->set_stride < SETTING_1_0 || o->set_stride % sizeof(void *)))
        return error_set(e, KILN_ERR_BUG, "%u settings, and set_stride is %u: say sizeof(kiln_setting)", o->n_set,
                         o->set_stride);
    w->set = mem_calloc(o->n_set + 1, sizeof *w->set);
    if (!w->set) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < o->n_set; i++) {
        const kiln_setting *s = (const void *)((const char *)o->set + i * o->set_stride);
        w->set[i] = (set_option){.name = s->name, .value = s->value, .here = 1};
    }
    job_source from = {.path = o->path,
                       .set = w->set,
                       .n_set = o->n_set,
                       .plugins = o->plugins,
                       .models = o->models,
                       .input = o->input,
                       .over = o->n_over || o->over_file,
                       .rows = 1,
                       .thorough = KILN_HAS(kiln_workflow_options, o, thorough) && o->thorough,
                       .line = add_line,
                       .arg = w,
                       .catalog = loaded};
    if (!(w->job = job_open(&from, &w->n_error, e))) return e->status;
    w->is_sweep = from.over || job_matrix(w->job) != NULL;
    if (loaded) return KILN_OK;
    if (!(loaded_from = mem_strdup(o->plugins ? o->plugins : ""))) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    loaded = job_take_catalog(w->job);
    return KILN_OK;
}

static void free_workflow(kiln_workflow *w)
{
    job_close(w->job);
    drop_faults(w);
    mem_free(w->fault);
    mem_free(w->set);
    mem_free(w);
}

kiln_workflow *kiln_workflow_open(const kiln_workflow_options *options, kiln_message *why)
{
    error e = {0};
    kiln_workflow *w = mem_calloc(1, sizeof *w);
    if (!w) return error_set(&e, KILN_ERR_NOMEM, "out of memory"), say(why, &e), NULL;
    if (take(&w->from, sizeof w->from, options, "kiln_workflow_options", &e) != KILN_OK)
        return mem_free(w), say(why, &e), NULL;
    if (atomic_flag_test_and_set(&one_open)) {
        error_set(&e, KILN_ERR_UNSUPPORTED, "one workflow at a time in a process; close the other one first");
        return mem_free(w), say(why, &e), NULL;
    }
    interrupt_reset();
    speak(w);
    kiln_status status = open_job(w, &e);
    fall_silent();
    if (say(why, &e) == KILN_OK && status == KILN_OK) return w;
    free_workflow(w);
    atomic_flag_clear(&one_open);
    return NULL;
}

void kiln_workflow_close(kiln_workflow *w)
{
    if (!w) return;
    free_workflow(w);
    atomic_flag_clear(&one_open);
}

/* ---- faults ---- */

static job_rows rows_of(const kiln_workflow *w)
{
    return (job_rows){.over = w->from.over, .n_over = w->from.n_over, .over_file = w->from.over_file};
}

/* A sweep's rows are read when somebody asks. That they have faults is no failure of the asking. */
static void check_rows(kiln_workflow *w)
{
    error e = {0};
    size_t faulty = 0;
    job_rows rows = rows_of(w);
    if (!w->is_sweep || w->checked) return;
    w->checked = 1;
    drop_faults(w);
    speak(w);
    if (job_check_rows(w->job, &rows, &w->n_row, &faulty, &e) != KILN_OK && !faulty) add_line(w, e.message, 0);
    fall_silent();
}

size_t kiln_workflow_fault_count(kiln_workflow *w)
{
    check_rows(w);
    return w->n_fault;
}

const char *kiln_workflow_fault(const kiln_workflow *w, size_t i) { return i < w->n_fault ? w->fault[i] : NULL; }
size_t kiln_workflow_node_count(const kiln_workflow *w) { return job_workflow(w->job)->n; }

int kiln_workflow_is_sweep(const kiln_workflow *w) { return w->is_sweep; }

size_t kiln_workflow_row_count(kiln_workflow *w)
{
    check_rows(w);
    return w->n_row;
}

/* ---- running ---- */

/* An output node that has a prefix for names of files. */
static int names_files(const graph_node *g)
{
    int has = 0;
    for (uint32_t i = 0; i < g->type->n_param; i++) has |= strcmp(node_param(g->type, i)->name, "filename_prefix") == 0;
    return g->needed && (g->type->flags & KILN_NODE_OUTPUT) && has;
}

/* Of the results of several nodes none is the one that a name is for. */
static kiln_status one_node_writes(const workflow *w, const char *file, error *e)
{
    const char *first = NULL;
    for (size_t i = 0; i < w->n; i++) {
        if (!names_files(&w->node[i])) continue;
        if (first)
            return error_set(e, KILN_ERR_INVALID,
                             "-o %s: several nodes write results ('%.80s' and '%.80s'), and this is one file; name a "
                             "folder with --out",
                             file, first, w->node[i].doc->name);
        first = w->node[i].doc->name;
    }
    return KILN_OK;
}

static kiln_status check_options(const kiln_workflow *w, const kiln_run_options *o, error *e)
{
    if (o->mode > KILN_RUN_DRY) return error_set(e, KILN_ERR_INVALID, "there is no kiln_run_mode %u", o->mode);
    if (!w->is_sweep && w->n_error)
        return error_set(e, KILN_ERR_INVALID, "the workflow has %zu faults, the first: %s", w->n_error,
                         w->n_fault ? w->fault[0] : "?");
    if (!w->is_sweep && o->file && o->mode == KILN_RUN_EXECUTE) TRY(one_node_writes(job_workflow(w->job), o->file, e));
    if (!w->is_sweep && (o->sheet || o->manifest || o->again))
        return error_set(e, KILN_ERR_INVALID,
                         "a sheet, a manifest and `again` belong to a sweep; this is a single run");
    if (w->is_sweep && o->mode == KILN_RUN_EXPLAIN)
        return error_set(e, KILN_ERR_INVALID, "explain looks at one row and this is a sweep; a dry run shows its rows");
    return KILN_OK;
}

static job_setting setting_of(const kiln_run_options *o)
{
    return (job_setting){.mode = o->mode == KILN_RUN_DRY       ? JOB_DRY_RUN
                                 : o->mode == KILN_RUN_EXPLAIN ? JOB_EXPLAIN
                                                               : JOB_RUN,
                         .out = o->out,
                         .file = o->file,
                         .skip_existing = o->skip_existing != 0,
                         .json = o->json != 0,
                         .preview_every = o->preview_every,
                         .device = o->device,
                         .precision = o->precision,
                         .threads = o->threads,
                         .jobs = o->jobs,
                         .memory = o->memory,
                         .cache = o->cache,
                         .cache_limit = o->cache_limit,
                         .state_seconds = o->state_seconds,
                         .no_cache = o->no_cache != 0,
                         .fail_fast = o->fail_fast != 0,
                         .validate = o->validate != 0,
                         .events = o->events,
                         .trace = o->trace,
                         .quiet = o->quiet || !o->console,
                         .verbose = o->verbose && o->console,
                         .signals = o->signals != 0,
                         .on_event = o->on_event,
                         .arg = o->arg};
}

static void give_summary(kiln_run_summary *to, const job_summary *s, int is_sweep)
{
    const run_summary *n = &s->nodes;
    kiln_run_summary all = {.cancelled = s->cancelled || n->cancelled,
                            .nodes = n->total,
                            .ran = n->ran,
                            .cached = n->fetched,
                            .shared = n->shared,
                            .failed = n->failed,
                            .skipped = n->skipped,
                            .outputs = n->outputs_done};
    if (is_sweep)
        all.rows = s->rows, all.rows_done = s->done, all.rows_before = s->before, all.rows_failed = s->failed,
        all.rows_left = s->left, all.rows_faulty = s->faulty;
    if (!to || to->size < sizeof all.size) return;
    all.size = to->size;
    memcpy(to, &all, to->size < sizeof all ? to->size : sizeof all);
}

static kiln_status run(kiln_workflow *w, const kiln_run_options *o, job_summary *summary, error *e)
{
    TRY(check_options(w, o, e));
    job_setting setting = setting_of(o);
    job_rows rows = rows_of(w);
    rows.manifest = o->manifest, rows.sheet = o->sheet, rows.again = o->again != 0;
    int level = log_level();
    if (o->console && o->quiet) log_level_set(KILN_LOG_ERROR);
    if (o->console && o->verbose) log_level_set(KILN_LOG_INFO);
    interrupt_reset();
    speak(w);
    print_silence(!o->console && o->mode == KILN_RUN_EXECUTE, !o->console);
    drop_faults(w); /* a sweep's come again */
    kiln_status status = job_run(w->job, &setting, w->is_sweep ? &rows : NULL, summary, e);
    fall_silent();
    interrupt_unwatch();
    log_level_set(level);
    if (status == KILN_OK && summary->cancelled) status = error_set(e, KILN_CANCELLED, "cancelled");
    return status;
}

kiln_status kiln_workflow_run(kiln_workflow *w, const kiln_run_options *options, kiln_run_summary *summary,
                              kiln_message *why)
{
    error e = {0};
    kiln_run_options how;
    job_summary done = {0};
    assert(w);
    kiln_status status = take(&how, sizeof how, options, "kiln_run_options", &e);
    if (status == KILN_OK) status = run(w, &how, &done, &e);
    give_summary(summary, &done, w->is_sweep);
    if (status == KILN_OK) e = (error){0};
    say(why, &e);
    return status;
}
