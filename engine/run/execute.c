/* execute.c - see execute.h. The hooks have the execution as self, and so have the functions of the environment. */
#include "run/execute.h"

#include "base/clock.h"
#include "base/log.h"
#include "plugin/abilities.h"
#include "plugin/output.h"
#include "plugin/supervised.h"
#include "run/interrupt.h"
#include "run/node_call.h"
#include "run/node_files.h"
#include "run/resume.h"

#include <string.h>

/* ---- what calls get ---- */

/* What goes on in a node whose end was reported before a crash is not told again. */
static int is_told(const execution *x, size_t node) { return !resume_has_ended(x->batch, node); }

static void env_progress(void *self, size_t node, uint64_t done, uint64_t total, const char *what)
{
    const execution *x = self;
    if (is_told(x, node)) report_progress(x->machine->report, node, done, total, what);
}

static void env_draft(void *self, size_t node, const char *text)
{
    const execution *x = self;
    if (is_told(x, node)) report_draft(x->machine->report, node, text);
}

static void env_preview(void *self, size_t node, const uint8_t *rgb, uint32_t width, uint32_t height)
{
    const execution *x = self;
    if (is_told(x, node)) report_preview(x->machine->report, node, rgb, width, height);
}

static void env_naming(void *self, size_t node, const char *folder, const struct stat *file)
{
    resume_naming(((execution *)self)->batch, node, folder, file);
}

static void env_file(void *self, size_t node, const char *path)
{
    execution *x = self;
    supervised_said *said = resume_named(x->batch, node, path);
    row_log_file(x->log, node, path);
    report_file(x->machine->report, node, path, said);
}

static const char *env_written(void *self, size_t node)
{
    execution *x = self;
    supervised_said *said = NULL;
    const char *path = resume_next_file(x->batch, node, &said);
    if (path && said) row_log_file(x->log, node, path), report_file(x->machine->report, node, path, said);
    if (path && !said) env_file(self, node, path);
    return path;
}

static const char *env_text(void *self, size_t node, const char *name)
{
    return batch_text(((execution *)self)->batch, node, name);
}

static kiln_value *env_state_load(void *self, size_t node)
{
    return result_cache_state_load(((execution *)self)->machine->result_cache, node);
}

static int env_state_due(void *self, size_t node)
{
    return result_cache_state_due(((execution *)self)->machine->result_cache, node, interrupt_asked(NULL));
}

static kiln_status env_state_save(void *self, size_t node, const kiln_value *state, error *e)
{
    const execution *x = self;
    TRY(node_files_unchanged(x->batch, node, e));
    return result_cache_state_save(x->machine->result_cache, node, state, e);
}

static kiln_status env_opened(void *self, size_t node, const char *path, const file_identity *was, error *e)
{
    return node_files_opened(((execution *)self)->batch, node, path, was, e);
}

static void env_not_kept(void *self, size_t node)
{
    result_cache_not_kept(((execution *)self)->machine->result_cache, node);
}

static const char *env_find_file(void *self, size_t node, arena *a, const char *folder, const char *name, error *e)
{
    const execution *x = self;
    if (!batch_names_file(x->batch, node, folder, name)) env_not_kept(self, node);
    return file_roots_resolve(x->machine->roots, a, folder, name, e);
}

static kiln_status env_unchanged(void *self, size_t node, error *e)
{
    return node_files_unchanged(((execution *)self)->batch, node, e);
}

static uint64_t env_wanted(void *self, size_t node) { return batch_node(((execution *)self)->batch, node)->used; }

/* One node at a time: to see which one ends the process, or leaves threads. */
static int runs_alone(const execution *x) { return (supervision && supervision->alone) || x->setting->validate; }

static call_environment environment(execution *x, output_folder *output)
{
    return (call_environment){.runtime = x->machine->runtime,
                              .pool = runtime_pool(x->machine->runtime),
                              .output = output,
                              .spill = result_cache_folder(x->machine->result_cache),
                              .cancelled = interrupt_asked,
                              .progress = env_progress,
                              .draft = env_draft,
                              .preview = env_preview,
                              .preview_every = x->setting->preview_every,
                              .file = env_file,
                              .naming = env_naming,
                              .written = env_written,
                              .text = env_text,
                              .state_load = env_state_load,
                              .state_due = env_state_due,
                              .state_save = env_state_save,
                              .opened = env_opened,
                              .not_kept = env_not_kept,
                              .find_file = env_find_file,
                              .unchanged = env_unchanged,
                              .wanted = env_wanted,
                              .arg = x,
                              .alone = runs_alone(x),
                              .validate = x->setting->validate};
}

/* ---- plugins that are not in this process ---- */

/* The plugin whose sampler or schedule parameter k names and that is not here; NULL: there is none. */
static const char *absent_owner(const graph_node *g, uint32_t k, int *held)
{
    const kiln_param *p = node_param(g->type, k);
    const char *name = NULL, *owner;
    if (p->type != KILN_P_NAME || !p->from || !g->params) return NULL;
    memcpy(&name, (const char *)g->params + p->offset, sizeof name);
    owner = name ? registry_owner_of(p->from, name) : NULL;
    return owner && supervised_is_absent(owner, held) ? owner : NULL;
}

/* A model's file may be of a family that a plugin has brought; and what a wire says is not known yet. */
static int may_need_held(const graph_node *g, uint32_t k)
{
    const kiln_param *p = node_param(g->type, k);
    int held = 0;
    if (p->type == KILN_P_FILE) return p->from && strcmp(p->from, "input") != 0 && supervised_others_held();
    if (p->type == KILN_P_NAME && g->param_in && g->param_in[k].node != SOURCE_NONE) return 1;
    return absent_owner(g, k, &held) && held;
}

/* Hook of a process that holds plugins back: what needs one of them waits for a later process. */
static int can_be_called(void *self, size_t i)
{
    const execution *x = self;
    const graph_node *g = batch_node(x->batch, i);
    int held = 0;
    if (supervised_is_absent(x->batch->info[i]->plugin->id, &held) && held) return 0;
    for (uint32_t k = 0; k < g->type->n_param; k++)
        if (may_need_held(g, k)) return 0;
    return 1;
}

/* A node of kiln's own that needs the sampler of a plugin that is left out. */
static kiln_status needs_absent(const graph_node *g, error *e)
{
    for (uint32_t k = 0; supervision && k < g->type->n_param; k++) {
        const char *owner = absent_owner(g, k, NULL);
        if (owner)
            return error_set(e, KILN_ERR_BUG, "node '%s' (%s): its %s is plugin %s's, which %s", g->doc->name,
                             g->type->type, node_param(g->type, k)->name, owner, supervised_is_absent(owner, NULL));
    }
    return KILN_OK;
}

/* ---- computing ---- */

typedef struct {
    execution *x;
    size_t node;
    const void *params;
    kiln_value *const *in;
} pending_call;

static device_traffic traffic_since(const machine *m, device_traffic before)
{
    device_traffic all = machine_traffic(m);
    return (device_traffic){
        .in = all.in - before.in, .out = all.out - before.out, .copies = all.copies - before.copies};
}

/* The node's own check, of parameters that were not all known before. */
static kiln_status check_known(const pending_call *c, error *e)
{
    const graph_node *g = batch_node(c->x->batch, c->node);
    const ctx_checking how = {.params = c->params, .wanted = g->used, .thorough = 1, .env = &c->x->env};
    if (!g->open || !g->type->check) return KILN_OK;
    return ctx_check(g->doc->name, c->x->batch->info[c->node]->plugin->id, g->type, &how, e);
}

/* Device nodes run one at a time, so that what the runtime did meanwhile was this node's. */
static kiln_status compute(void *arg, kiln_value **out, error *e)
{
    const pending_call *c = arg;
    execution *x = c->x;
    machine *m = x->machine;
    const kiln_node *type = batch_node(x->batch, c->node)->type;
    int alone = (type->flags & KILN_NODE_DEVICE) != 0;
    uint64_t flops = runtime_usage_get(m->runtime).flops;
    device_traffic before = alone ? machine_traffic(m) : (device_traffic){0};
    double start = clock_seconds();
    TRY(check_known(c, e));
    TRY(node_files_begin(x->batch, c->node, c->in, e));
    kiln_status status = node_call(x->batch, &x->env, c->node, c->params, c->in, out, e);
    status = node_files_end(x->batch, c->node, status, out, e);
    if (!alone) return status;
    device_traffic moved = traffic_since(m, before);
    if (moved.copies) report_link(m->report, c->node, &moved);
    if (status == KILN_OK)
        result_cache_learn(m->result_cache, type->type, (double)(runtime_usage_get(m->runtime).flops - flops),
                           clock_seconds() - start);
    return status;
}

static kiln_status call(void *self, size_t i, const void *params, kiln_value *const *in, kiln_value **out, error *e)
{
    execution *x = self;
    report *to = x->machine->report;
    const graph_node *g = batch_node(x->batch, i);
    TRY(resume_failure(x->batch, i, e));
    TRY(needs_absent(g, e));
    int may_keep = x->loaders && g->cacheable && !is_output(g) && !g->mapped, fetched;
    if (may_keep && loader_cache_take(x->loaders, g, out)) return report_note(to, i, "kept from earlier rows"), KILN_OK;
    pending_call c = {.x = x, .node = i, .params = params, .in = in};
    kiln_status status = result_cache_compute(x->machine->result_cache, i, compute, &c, out, &fetched, e);
    if (fetched && !g->mapped) report_note(to, i, "made by another process");
    if (status == KILN_OK && may_keep) loader_cache_keep(x->loaders, g, out);
    return status;
}

static void item(void *self, size_t i, const run_item *which)
{
    result_cache_item(((execution *)self)->machine->result_cache, i, which->key);
}

static void items(void *self, size_t i, size_t n, const digest *key)
{
    const execution *x = self;
    const graph_node *g = batch_node(x->batch, i);
    result_cache_items(x->machine->result_cache, i, n, key);
    if (n == 0 && is_output(g))
        log_warn("node '%s' (%s): the list that it takes is empty, so it does nothing", g->doc->name, g->type->type);
}

static kiln_status wants(void *self, size_t i, const void *params, kiln_value *const *in, uint64_t *inputs, error *e)
{
    execution *x = self;
    const graph_node *g = batch_node(x->batch, i);
    return ctx_wants(&x->env, g->doc->name, x->batch->info[i]->plugin->id, g->type, params, in, inputs, e);
}

static void on_event(void *self, const run_event *ev)
{
    execution *x = self;
    if (ev->kind == RUN_NODE_UNKNOWN) return; /* a later process runs it */
    run_event shown = resume_event(x->batch, ev);
    report_event(x->machine->report, &shown);
    row_log_event(x->log, ev);
}

/* ---- the store ---- */

static int known(void *self, size_t i)
{
    const execution *x = self;
    return result_cache_known(x->machine->result_cache, i) || resume_has_written(x->batch, i);
}

static int taken(void *self, size_t i) { return result_cache_taken(((execution *)self)->machine->result_cache, i); }
static kiln_status fetch(void *self, size_t i, kiln_value **out, error *e)
{
    const execution *x = self;
    if (!resume_has_written(x->batch, i)) return result_cache_fetch(x->machine->result_cache, i, out, e);
    resume_take_files(x->log, i);
    return KILN_OK;
}

kiln_status execute_check_name(execution *x, error *e)
{
    output_folder output = {.path = x->log->out, .file = x->setting->file};
    x->env = environment(x, &output);
    for (size_t i = 0; x->setting->file && i < x->batch->merged.all.n; i++) {
        const graph_node *g = batch_node(x->batch, i);
        const ctx_checking how = {.params = g->known, .wanted = g->used, .env = &x->env};
        if (is_output(g) && !g->open) TRY(ctx_check(g->doc->name, x->batch->info[i]->plugin->id, g->type, &how, e));
    }
    return KILN_OK;
}

kiln_status execute_batch(execution *x, run_summary *summary, error *e)
{
    output_folder output = {.path = x->log->out, .file = x->setting->file};
    x->env = environment(x, &output);
    run_hooks hooks = {.self = x,
                       .call = call,
                       .event = on_event,
                       .known = known,
                       .fetch = fetch,
                       .taken = taken,
                       .item = item,
                       .items = items,
                       .wants = wants,
                       .can_be_called = supervised_holds() ? can_be_called : NULL};
    run_setting setting = {.workers = runs_alone(x) || x->machine->tight ? 1 : x->setting->jobs,
                           .fail_fast = x->setting->fail_fast,
                           .cancel = &interrupted,
                           .part_of = x->batch->merged.part_of};
    return run_schedule(&x->batch->merged.all, &hooks, &setting, summary, e);
}
