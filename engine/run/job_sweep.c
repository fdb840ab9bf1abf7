/* job_sweep.c - see job_sweep.h. Two passes: all rows are read, checked and given their keys (and let go again); then
 * those that the manifest does not know are run in batches, so that memory does not grow with the number of rows.
 */
#include "run/job_sweep_parts.h"

#include "base/file.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "base/str.h"
#include "run/sheet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- while a batch runs: nodes ---- */

static int gives_objects(kiln_value *const *out, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        if (out[k] && value_kind(out[k]) == KILN_V_OBJECT) return 1;
    return 0;
}

static void kept_free(kept_node *k)
{
    for (uint32_t i = 0; k->out && i < k->n; i++) value_unref(k->out[i]);
    mem_free(k->out);
    *k = (kept_node){0};
}

/* An object goes on reading its files. Of changed ones the node makes it anew. */
static int still_good(const kept_node *k)
{
    file_list *files = file_list_new();
    error why = {0};
    kiln_status status = files ? KILN_OK : KILN_ERR_NOMEM;
    for (uint32_t o = 0; o < k->n && status == KILN_OK; o++) status = value_add_files(k->out[o], files, &why);
    if (status == KILN_OK) status = file_list_unchanged(files, &why);
    file_list_unref(files);
    return status == KILN_OK;
}

static int take_kept(sweep_run *r, const graph_node *g, kiln_value **out)
{
    int found = 0;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < KEPT_NODES && !found; i++) {
        kept_node *k = &r->kept[i];
        if (!k->out || !digest_equal(k->key, g->key) || !still_good(k)) continue;
        for (uint32_t o = 0; o < k->n; o++) out[o] = k->out[o] ? value_ref(k->out[o]) : NULL;
        k->used = ++r->clock;
        found = 1;
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

static void keep_node(sweep_run *r, const graph_node *g, kiln_value *const *out)
{
    uint32_t n = g->type->n_out;
    kept_node fresh = {.key = g->key, .n = n, .out = mem_calloc(n + 1u, sizeof *fresh.out)}, old;
    if (!fresh.out) return;
    for (uint32_t o = 0; o < n; o++) {
        if (!out[o]) continue;
        value_publish(out[o]);
        fresh.out[o] = value_ref(out[o]);
    }
    pthread_mutex_lock(&r->lock);
    size_t slot = 0;
    for (size_t i = 1; i < KEPT_NODES; i++)
        if (r->kept[i].used < r->kept[slot].used) slot = i;
    old = r->kept[slot];
    fresh.used = ++r->clock;
    r->kept[slot] = fresh;
    pthread_mutex_unlock(&r->lock);
    kept_free(&old); /* a model may be let go here: not under the lock */
}

static kiln_status call(void *self, size_t i, const void *params, kiln_value *const *in, kiln_value **out, error *e)
{
    sweep_run *r = self;
    const graph_node *g = &r->merged.all.node[i];
    int may_keep = r->keep && g->cacheable && !is_output(g);
    if (may_keep && take_kept(r, g, out)) return report_note(r->j->report, i, "kept from earlier rows"), KILN_OK;
    TRY(job_call(r->j, i, params, in, out, e));
    if (may_keep && gives_objects(out, g->type->n_out)) keep_node(r, g, out);
    return KILN_OK;
}

static int known(void *self, size_t i) { return job_known(((sweep_run *)self)->j, i); }
static int taken(void *self, size_t i) { return job_taken(((sweep_run *)self)->j, i); }
static kiln_status fetch(void *self, size_t i, kiln_value **out, error *e)
{
    return job_fetch(((sweep_run *)self)->j, i, out, e);
}

/* ---- batches ---- */

void sweep_batch_close(sweep_run *r)
{
    job_let_go(r->j);
    r->j->workflow = (workflow){0};
    for (size_t i = 0; i < r->n_work; i++) document_free(&r->work[i].doc);
    r->n_work = 0;
    merged_free(&r->merged);
}

kiln_status sweep_read_batch(sweep_run *r, const uint32_t *todo, size_t n, error *e)
{
    key_setting keys = job_keys(r->j);
    for (size_t i = 0; i < n; i++) {
        row_work *w = &r->work[i];
        kiln_status status = sweep_read_row(r, todo[i], w, e);
        r->n_work++;
        TRY(status);
        if (w->doc.n_fault)
            return error_set(e, KILN_ERR_INVALID, "row %zu (%s): what it reads has changed since it was checked: %s",
                             w->row + 1, w->label, w->doc.faults ? w->doc.faults->text : "");
        TRY(workflow_keys(&w->w, &keys, e));
        r->number[i] = w->row + 1;
        r->label[i] = w->label;
        for (size_t k = 0; k < w->w.n; k++) r->row[w->row].outputs_left += is_output(&w->w.node[k]);
    }
    return KILN_OK;
}

kiln_status sweep_merge_batch(sweep_run *r, error *e)
{
    merge_part part[BATCH_ROWS];
    job *j = r->j;
    for (size_t i = 0; i < r->n_work; i++) part[i] = (merge_part){.w = &r->work[i].w, .number = r->work[i].row + 1};
    TRY(workflow_merge(&r->merged, part, r->n_work, e));
    const node_info **info = arena_alloc(&r->merged.memory, (r->merged.all.n + 1) * sizeof *info);
    if (!info) return no_memory(e);
    for (size_t i = 0; i < r->n_work; i++)
        memcpy(info + r->merged.first[i], r->work[i].info, r->work[i].w.n * sizeof *info);
    j->workflow = r->merged.all;
    j->info = info;
    report_rows rows = {.part_of = r->merged.part_of, .number = r->number, .label = r->label, .total = r->plan.n_row};
    TRY(report_rows_set(j->report, &j->workflow, &rows, r->sum->before + r->sum->done + r->sum->failed, e));
    return job_take_up(j, e);
}

static void add_nodes(run_summary *to, const run_summary *s)
{
    to->ran += s->ran, to->fetched += s->fetched, to->shared += s->shared, to->failed += s->failed,
        to->skipped += s->skipped;
    to->total += s->total, to->outputs_done += s->outputs_done, to->cancelled |= s->cancelled;
}

/* KILN_OK when the rows ran, whatever became of them. */
static kiln_status run_batch(sweep_run *r, const uint32_t *todo, size_t n, error *e)
{
    run_summary nodes = {0};
    error first = {0}; /* the rows have told it */
    kiln_status status = sweep_read_batch(r, todo, n, e);
    if (status == KILN_OK) status = sweep_merge_batch(r, e);
    if (status == KILN_OK && !r->estimated) status = job_estimate_memory(r->j, e); /* the batches are alike */
    r->estimated = 1;
    if (status == KILN_OK) {
        kiln_status ran = run_schedule(
            &r->j->workflow,
            &(run_hooks){
                .self = r, .call = call, .event = sweep_on_event, .known = known, .fetch = fetch, .taken = taken},
            &(run_setting){.workers = r->setting->jobs, .fail_fast = r->setting->fail_fast, .cancel = &interrupted},
            &nodes, &first);
        if (ran != KILN_OK && !nodes.failed && !nodes.cancelled) status = error_set(e, ran, "%s", first.message);
        add_nodes(&r->nodes, &nodes);
    }
    if (status == KILN_OK && r->trouble.status != KILN_OK)
        status = error_set(e, r->trouble.status, "%s", r->trouble.message);
    return status;
}

static kiln_status run_all(sweep_run *r, error *e)
{
    kiln_status status = KILN_OK;
    r->keep = r->n_todo > BATCH_ROWS;
    for (size_t i = 0; i < r->n_todo && status == KILN_OK; i += BATCH_ROWS) {
        size_t n = r->n_todo - i < BATCH_ROWS ? r->n_todo - i : BATCH_ROWS;
        status = run_batch(r, r->todo + i, n, e);
        sweep_batch_close(r);
        if (r->nodes.cancelled || env_cancelled(NULL)) r->sum->cancelled = 1;
        if (r->sum->cancelled || (r->setting->fail_fast && r->sum->failed)) break;
    }
    return status;
}

/* ---- the whole ---- */

static int is_png(const char *name)
{
    size_t n = strlen(name);
    return n > 4 && strcasecmp(name + n - 4, ".png") == 0;
}

static kiln_status write_sheet(sweep_run *r, error *e)
{
    arena memory = {0};
    sheet_cell *cell = arena_alloc(&memory, r->plan.n_row * sizeof *cell);
    kiln_status status = cell ? KILN_OK : no_memory(e);
    for (size_t i = 0; i < r->plan.n_row && status == KILN_OK; i++) {
        const row_record *row = &r->row[i];
        if (row->state == ROW_FAILED) cell[i].state = SHEET_FAILED;
        for (size_t k = 0; k < row->n_file && (row->state == ROW_DONE || row->state == ROW_BEFORE) && !cell[i].path;
             k++)
            if (is_png(row->file[k]))
                cell[i] =
                    (sheet_cell){.state = SHEET_PICTURE, .path = arena_printf(&memory, "%s/%s", r->out, row->file[k])};
    }
    if (status == KILN_OK) status = sheet_write(&r->plan, cell, r->what->sheet, e);
    arena_free(&memory);
    if (status == KILN_OK) print_text(stdout, "%s\n", r->what->sheet), print_flush(stdout);
    return status;
}

static void say_failed(const sweep_run *r)
{
    char label[LABEL_ROOM];
    size_t shown = 0;
    for (size_t i = 0; i < r->plan.n_row && shown < FAILED_SHOWN; i++) {
        if (r->row[i].state != ROW_FAILED) continue;
        sweep_label(&r->plan, i, label, sizeof label);
        print_text(stderr, "kiln: row %zu (%s) failed: %s\n", i + 1, label,
                   r->row[i].message ? r->row[i].message : "out of memory");
        shown++;
    }
    if (r->sum->failed > shown) print_text(stderr, "kiln: and %zu more\n", r->sum->failed - shown);
}

static void say_summary(const sweep_run *r)
{
    const sweep_summary *s = r->sum;
    if (!r->setting->quiet) {
        print_text(stderr, "sweep: %zu rows: %zu done", s->rows, s->done);
        if (s->before) print_text(stderr, ", %zu done before (--again runs them too)", s->before);
        if (s->failed) print_text(stderr, ", %zu failed", s->failed);
        if (s->left) print_text(stderr, ", %zu left", s->left);
        print_text(stderr, "; %zu nodes ran, %zu were shared, %zu came from the cache\n", r->nodes.ran, r->nodes.shared,
                   r->nodes.fetched);
    }
    say_failed(r);
}

static kiln_status open_manifest(sweep_run *r, error *e)
{
    char *path = r->what->manifest ? mem_strdup(r->what->manifest) : path_join(r->out, "manifest.jsonl");
    if (!path) return no_memory(e);
    r->manifest = manifest_open(path, e);
    mem_free(path);
    return r->manifest ? KILN_OK : e->status;
}

/* A dry run makes no file. */
static int has_manifest(const sweep_run *r)
{
    char *path = r->what->manifest ? mem_strdup(r->what->manifest) : path_join(r->out, "manifest.jsonl");
    int there = path && file_exists(path);
    mem_free(path);
    return there;
}

/* The file's values alone are wrong, and rows replace them: the first row's workflow stands for the whole from here on.
 */
static kiln_status take_first_row(sweep_run *r, error *e)
{
    job *j = r->j;
    row_work first;
    TRY(sweep_check_rows(r, e));
    kiln_status status = sweep_read_row(r, 0, &first, e);
    if (status == KILN_OK && first.doc.n_fault)
        status = error_set(e, KILN_ERR_INVALID, "what the first row reads has changed since it was checked");
    if (status != KILN_OK) return document_free(&first.doc), status;
    document_free(&j->doc);
    j->doc = first.doc, j->workflow = first.w, j->info = first.info;
    j->workflow.doc = &j->doc;
    return KILN_OK;
}

static kiln_status sweep_begin(sweep_run *r, error *e)
{
    const sweep_setting *w = r->what;
    TRY(sweep_make(&r->plan,
                   &(sweep_source){.over = w->over,
                                   .n_over = w->n_over,
                                   .over_file = w->over_file,
                                   .matrix = job_matrix(r->j),
                                   .path = w->source->path,
                                   .set = w->source->set,
                                   .n_set = w->source->n_set},
                   e));
    r->set = mem_calloc(w->source->n_set + SWEEP_NAMES_MAX, sizeof *r->set);
    r->row = mem_calloc(r->plan.n_row, sizeof *r->row);
    r->todo = mem_calloc(r->plan.n_row, sizeof *r->todo);
    r->work = mem_calloc(BATCH_ROWS, sizeof *r->work);
    if (!r->set || !r->row || !r->todo || !r->work) return no_memory(e);
    for (size_t i = 0; i < w->source->n_set; i++) r->set[i] = w->source->set[i];
    r->sum->rows = r->plan.n_row;
    if (r->j->doc.n_fault) TRY(take_first_row(r, e));
    r->base = r->j->workflow, r->base_info = r->j->info;
    return job_machine(r->j, r->setting, e);
}

static kiln_status sweep_do(sweep_run *r, error *e)
{
    output_folder output = {.path = r->out};
    TRY(sweep_begin(r, e));
    job_watch_signals();
    TRY(sweep_scan_rows(r, e));
    if (!r->setting->dry_run || has_manifest(r)) TRY(open_manifest(r, e));
    TRY(sweep_choose_rows(r, e));
    if (r->setting->dry_run) {
        r->j->env = job_environment(r->j, r->setting, NULL);
        r->j->sweep = r, r->j->part_of = sweep_part_of;
        return sweep_dry_run(r, e);
    }
    r->j->env = job_environment(r->j, r->setting, &output);
    r->j->sweep = r, r->j->part_of = sweep_part_of, r->j->on_file = sweep_on_file;
    kiln_status status = run_all(r, e);
    r->sum->left = r->sum->rows - r->sum->done - r->sum->before - r->sum->failed;
    return status;
}

static void sweep_end(sweep_run *r)
{
    for (size_t i = 0; i < KEPT_NODES; i++) kept_free(&r->kept[i]);
    job_finish(r->j);
    r->j->sweep = NULL, r->j->part_of = NULL, r->j->on_file = NULL;
    for (size_t i = 0; r->row && i < r->plan.n_row; i++) {
        for (size_t k = 0; k < r->row[i].n_file; k++) mem_free(r->row[i].file[k]);
        mem_free(r->row[i].file);
        mem_free(r->row[i].message);
    }
    mem_free(r->set), mem_free(r->row), mem_free(r->todo), mem_free(r->work);
    sweep_free(&r->plan);
    pthread_mutex_destroy(&r->lock);
}

kiln_status job_sweep(job *j, const sweep_setting *what, const job_setting *setting, sweep_summary *summary, error *e)
{
    sweep_run r = {.j = j,
                   .what = what,
                   .setting = setting,
                   .out = setting->out ? setting->out : "out",
                   .sum = summary,
                   .base = j->workflow,
                   .base_info = j->info};
    error late = {0};
    *summary = (sweep_summary){0};
    pthread_mutex_init(&r.lock, NULL);
    kiln_status status = sweep_do(&r, e);
    if (j->runtime && r.nodes.total && !setting->dry_run) job_say_memory(j, setting);
    j->workflow = r.base; /* the report still asks it for names; the batch is gone */
    kiln_status closed = report_close(j->report, &r.nodes,
                                      status != KILN_OK ? status_name(status)
                                      : summary->failed ? "partly"
                                                        : "ok",
                                      &late);
    j->report = NULL;
    if (manifest_close(r.manifest, &late) != KILN_OK) closed = late.status;
    if (status == KILN_OK && what->sheet && !setting->dry_run && !summary->cancelled)
        closed = write_sheet(&r, &late) != KILN_OK ? late.status : closed;
    if (r.manifest && !setting->dry_run) say_summary(&r);
    j->workflow = (workflow){0};
    sweep_end(&r);
    j->workflow = r.base;
    j->info = r.base_info;
    return status != KILN_OK ? status : closed != KILN_OK ? error_set(e, closed, "%s", late.message) : KILN_OK;
}

kiln_status job_check_rows(job *j, const job_source *from, size_t *rows, size_t *faulty, error *e)
{
    sweep_summary summary = {0};
    sweep_setting what = {.source = from};
    sweep_run r = {.j = j, .what = &what, .sum = &summary};
    kiln_status status = sweep_make(
        &r.plan, &(sweep_source){.matrix = job_matrix(j), .path = from->path, .set = from->set, .n_set = from->n_set},
        e);
    if (status == KILN_OK && !(r.set = mem_calloc(from->n_set + SWEEP_NAMES_MAX, sizeof *r.set))) status = no_memory(e);
    for (size_t i = 0; status == KILN_OK && i < from->n_set; i++) r.set[i] = from->set[i];
    if (status == KILN_OK) status = sweep_check_rows(&r, e);
    *faulty = summary.faulty;
    *rows = r.plan.n_row;
    sweep_free(&r.plan);
    mem_free(r.set);
    return status;
}
