/* job_sweep.c - see job_sweep.h. Two passes: all rows are read, checked and given their keys (and let go again); then those that the
 * manifest does not know are run in batches, so that memory does not grow with the number of rows.
 */
#include "run/job_sweep.h"

#include "base/file.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "run/job_parts.h"
#include "run/manifest.h"
#include "run/merge.h"
#include "run/sheet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH_ROWS = 64, PREFIX_KEYS = 12, KEPT_NODES = 4, FAULTS_SHOWN = 100, FAILED_SHOWN = 20, LABEL_ROOM = 400 };

typedef enum { ROW_LEFT, ROW_BEFORE, ROW_DONE, ROW_FAILED } row_state;

typedef struct {
    digest key;                   /* of what the row makes: keys of its outputs, and its settings */
    uint32_t prefix[PREFIX_KEYS]; /* of each expensive node: the first row that has it too        */
    row_state state;
    size_t outputs_left;
    int failed, cancelled;
    double seconds;
    char *message;
    char **file; /* relative to the output folder */
    size_t n_file;
} row_record;

/* A row while it is worked on. */
typedef struct {
    size_t row;
    document doc;
    workflow w;
    const node_info **info;
    char label[LABEL_ROOM];
} row_work;

/* Outputs of a loader, for the batches to come. */
typedef struct {
    digest key;
    kiln_value **out;
    uint32_t n;
    uint64_t used;
} kept_node;

typedef struct {
    job *j;
    const sweep_setting *what;
    const job_setting *setting;
    const char *out;
    sweep plan;
    set_option *set; /* the row's, behind those of the command line */
    row_record *row;
    uint32_t *todo;
    size_t n_todo;
    manifest *manifest;
    sweep_summary *sum;
    run_summary nodes;
    /* the batch */
    row_work *work;
    size_t n_work;
    merged merged;
    size_t number[BATCH_ROWS];
    const char *label[BATCH_ROWS];
    kept_node kept[KEPT_NODES];
    uint64_t clock;
    int keep;
    int rehearsed; /* what the rows want of memory is known */
    pthread_mutex_t lock; /* files and kept nodes */
    error trouble;        /* of the manifest */
} sweep_run;

static kiln_status no_memory(error *e) { return error_set(e, KILN_ERR_NOMEM, "out of memory"); }

/* ---- rows ------------------------------------------------------------------------------------------------------ */

static kiln_status read_row(sweep_run *r, size_t row, row_work *w, error *e)
{
    const job_source *s = r->what->source;
    size_t n = s->n_set + sweep_settings(&r->plan, row, r->set + s->n_set);
    *w = (row_work){.row = row};
    sweep_label(&r->plan, row, w->label, sizeof w->label);
    return job_read(r->j, r->set, n, &w->doc, &w->w, &w->info, e);
}

static int is_output(const graph_node *g) { return g->needed && (g->type->flags & KILN_NODE_OUTPUT); }

static int reads_a_file(const graph_node *g)
{
    for (uint32_t p = 0; p < g->type->n_param; p++)
        if (node_param(g->type, p)->type == KILN_P_FILE) return 1;
    return 0;
}

/* What a second identical run would make again: outputs' keys, and the settings, since some of them (a file's prefix) are in no key. */
static digest row_key(const sweep_run *r, const row_work *w, hasher *h)
{
    size_t n = r->what->source->n_set + sweep_settings(&r->plan, w->row, r->set + r->what->source->n_set);
    hasher_reset(h);
    hash_text(h, "kiln-row/1");
    for (size_t i = 0; i < w->w.n; i++)
        if (is_output(&w->w.node[i])) hash_text(h, w->w.node[i].doc->name), hash_digest(h, w->w.node[i].key);
    for (size_t i = 0; i < n; i++) hash_text(h, r->set[i].name), hash_text(h, r->set[i].value);
    return hasher_digest(h);
}

typedef struct {
    digest key;
    uint32_t row, slot;
} prefix_key;

/* The keys of what is worth sharing: loaders first, then what computes, in the workflow's order. */
static void list_prefix(const row_work *w, prefix_key *all, size_t *n)
{
    uint32_t slot = 0;
    for (int device = 0; device < 2; device++)
        for (size_t i = 0; i < w->w.n && slot < PREFIX_KEYS; i++) {
            const graph_node *g = &w->w.node[w->w.order[i]];
            if (!g->needed || !g->lasting || is_output(g)) continue;
            if (device ? (g->type->flags & KILN_NODE_DEVICE) != 0 && !reads_a_file(g) : reads_a_file(g)) all[(*n)++] = (prefix_key){.key = g->key, .row = (uint32_t)w->row, .slot = slot++};
        }
}

/* ---- faults --------------------------------------------------------------------------------------------------------- */

typedef struct {
    digest seen[FAULTS_SHOWN];
    size_t n, more;
} faults_shown;

/* Each different fault once, with the first row that has it. */
static void show_faults(const row_work *w, faults_shown *shown)
{
    for (const fault *f = w->doc.faults; f; f = f->next) {
        char text[1400], at[300] = "";
        if (f->warning) continue;
        if (f->at.line) snprintf(at, sizeof at, "%.250s:%u:%u: ", document_file(&w->doc, f->at), f->at.line, f->at.column);
        snprintf(text, sizeof text, "%serror: %s", at, f->text);
        digest d = digest_of(text, strlen(text));
        size_t k = 0;
        while (k < shown->n && !digest_equal(shown->seen[k], d)) k++;
        if (k < shown->n) continue;
        if (shown->n == FAULTS_SHOWN) {
            shown->more++;
            continue;
        }
        shown->seen[shown->n++] = d;
        fprintf(stderr, "%s [row %zu: %s]\n", text, w->row + 1, w->label);
    }
}

/* ---- the first pass ------------------------------------------------------------------------------------------------------ */

static int by_key(const void *a, const void *b)
{
    const prefix_key *x = a, *y = b;
    if (x->key.hi != y->key.hi) return x->key.hi < y->key.hi ? -1 : 1;
    if (x->key.lo != y->key.lo) return x->key.lo < y->key.lo ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static void rank_prefixes(sweep_run *r, prefix_key *all, size_t n)
{
    for (size_t i = 0; i < r->plan.n_row; i++)
        for (size_t k = 0; k < PREFIX_KEYS; k++) r->row[i].prefix[k] = (uint32_t)i;
    if (n) qsort(all, n, sizeof *all, by_key);
    for (size_t i = 0, first = 0; i < n; i++) {
        if (!digest_equal(all[i].key, all[first].key)) first = i;
        r->row[all[i].row].prefix[all[i].slot] = all[first].row;
    }
}

static kiln_status scan_row(sweep_run *r, size_t row, const key_setting *keys, hasher *h, prefix_key *all, size_t *n, faults_shown *shown, error *e)
{
    row_work w;
    kiln_status status = read_row(r, row, &w, e);
    if (status == KILN_OK && w.doc.n_fault) {
        show_faults(&w, shown);
        r->sum->faulty++;
    } else if (status == KILN_OK && (status = workflow_keys(&w.w, keys, e)) == KILN_OK) {
        list_prefix(&w, all, n);
        r->row[row].key = row_key(r, &w, h);
    }
    document_free(&w.doc);
    return status;
}

static kiln_status scan_rows(sweep_run *r, error *e)
{
    size_t n = 0;
    faults_shown shown = {.n = 0};
    key_setting keys = job_keys(r->j);
    hasher *h = hasher_new();
    prefix_key *all = mem_calloc(r->plan.n_row, PREFIX_KEYS * sizeof *all);
    kiln_status status = h && all ? KILN_OK : no_memory(e);
    for (size_t i = 0; i < r->plan.n_row && status == KILN_OK; i++) {
        status = env_cancelled(NULL) ? error_set(e, KILN_CANCELLED, "cancelled") : scan_row(r, i, &keys, h, all, &n, &shown, e);
    }
    if (shown.more) fprintf(stderr, "and %zu more errors\n", shown.more);
    if (status == KILN_OK) rank_prefixes(r, all, n);
    if (status == KILN_OK && r->sum->faulty) status = error_set(e, KILN_ERR_INVALID, "%zu of %zu rows have faults; nothing was run", r->sum->faulty, r->plan.n_row);
    hasher_free(h);
    mem_free(all);
    return status;
}

/* ---- what is left to do ---------------------------------------------------------------------------------------------------- */

static _Thread_local const row_record *sorting;

static int by_prefix(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    for (size_t k = 0; k < PREFIX_KEYS; k++)
        if (sorting[x].prefix[k] != sorting[y].prefix[k]) return sorting[x].prefix[k] < sorting[y].prefix[k] ? -1 : 1;
    return (x > y) - (x < y);
}

static kiln_status add_file(row_record *row, const char *name)
{
    char **grown = mem_realloc(row->file, (row->n_file + 1) * sizeof *grown);
    if (!grown) return KILN_ERR_NOMEM;
    row->file = grown;
    return (grown[row->n_file] = mem_strdup(name)) ? row->n_file++, KILN_OK : KILN_ERR_NOMEM;
}

static kiln_status choose_rows(sweep_run *r, error *e)
{
    for (size_t i = 0; i < r->plan.n_row; i++) {
        size_t n = 0;
        const char *const *file = r->what->again ? NULL : manifest_find(r->manifest, r->row[i].key, r->out, &n);
        if (!file) {
            r->todo[r->n_todo++] = (uint32_t)i;
            continue;
        }
        for (size_t k = 0; k < n; k++)
            if (add_file(&r->row[i], file[k]) != KILN_OK) return no_memory(e);
        r->row[i].state = ROW_BEFORE;
        r->sum->before++;
    }
    sorting = r->row;
    if (r->n_todo) qsort(r->todo, r->n_todo, sizeof *r->todo, by_prefix);
    return KILN_OK;
}

/* ---- while a batch runs: what is told ------------------------------------------------------------------------------------------ */

static const workflow *part_of(void *self, size_t node, size_t *there)
{
    const sweep_run *r = self;
    uint32_t part = r->merged.part_of[node];
    *there = node - r->merged.first[part];
    return &r->work[part].w;
}

static void told_file(void *self, size_t node, const char *path)
{
    sweep_run *r = self;
    size_t n = strlen(r->out);
    const char *name = strncmp(path, r->out, n) == 0 && path[n] == '/' ? path + n + 1 : path;
    pthread_mutex_lock(&r->lock);
    if (add_file(&r->row[r->work[r->merged.part_of[node]].row], name) != KILN_OK) no_memory(&r->trouble);
    pthread_mutex_unlock(&r->lock);
}

static void put_text(str *s, const char *key, const char *text)
{
    str_printf(s, ", \"%s\": ", key);
    str_json(s, text, strlen(text), 1);
}

static void put_settings(const sweep_run *r, const row_work *w, str *s)
{
    set_option set[SWEEP_NAMES_MAX];
    size_t n = sweep_settings(&r->plan, w->row, set);
    str_append(s, ", \"settings\": {");
    for (size_t i = 0; i < n; i++) {
        str_append(s, i ? ", " : "");
        str_json(s, set[i].name, strlen(set[i].name), 1);
        str_append(s, ": ");
        str_json(s, set[i].value, strlen(set[i].value), 1);
    }
    str_char(s, '}');
}

static void put_seeds(const row_work *w, str *s)
{
    size_t n = 0;
    str_append(s, ", \"seeds\": {");
    for (size_t i = 0; i < w->w.n; i++) {
        const graph_node *g = &w->w.node[i];
        for (uint32_t p = 0; g->needed && p < g->type->n_param; p++) {
            uint64_t seed;
            if (node_param(g->type, p)->type != KILN_P_SEED || g->param_in[p].node != SOURCE_NONE) continue;
            memcpy(&seed, (const char *)g->params + node_param(g->type, p)->offset, sizeof seed);
            str_append(s, n++ ? ", " : "");
            str_json(s, g->doc->name, strlen(g->doc->name), 1);
            str_printf(s, ": %llu", (unsigned long long)seed);
        }
    }
    str_char(s, '}');
}

static void put_keys(const row_work *w, str *s)
{
    size_t n = 0;
    char key[33];
    str_append(s, ", \"keys\": {");
    for (size_t i = 0; i < w->w.n; i++) {
        const graph_node *g = &w->w.node[i];
        if (!is_output(g)) continue;
        str_append(s, n++ ? ", " : "");
        str_json(s, g->doc->name, strlen(g->doc->name), 1);
        str_printf(s, ": \"%s\"", digest_hex(g->key, key));
    }
    str_char(s, '}');
}

static void write_row(sweep_run *r, const row_work *w, const row_record *row)
{
    str s = {0};
    char key[33], when[40] = "";
    time_t t = time(NULL);
    struct tm parts;
    if (gmtime_r(&t, &parts)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
    str_printf(&s, "{\"row\": %zu", w->row + 1);
    put_settings(r, w, &s);
    put_text(&s, "status", row->failed ? "failed" : "done");
    str_append(&s, ", \"files\": [");
    for (size_t i = 0; i < row->n_file; i++) {
        str_append(&s, i ? ", " : "");
        str_json(&s, row->file[i], strlen(row->file[i]), 1);
    }
    str_char(&s, ']');
    put_seeds(w, &s);
    put_keys(w, &s);
    put_text(&s, "key", digest_hex(row->key, key));
    str_printf(&s, ", \"seconds\": %.3f", row->seconds);
    put_text(&s, "time", when);
    if (row->message) put_text(&s, "error", row->message);
    str_char(&s, '}');
    if (r->trouble.status == KILN_OK) manifest_add(r->manifest, &s, &r->trouble);
    str_free(&s);
}

static void row_finished(sweep_run *r, uint32_t part)
{
    const row_work *w = &r->work[part];
    row_record *row = &r->row[w->row];
    pthread_mutex_lock(&r->lock);
    write_row(r, w, row);
    pthread_mutex_unlock(&r->lock);
    row->state = row->failed ? ROW_FAILED : ROW_DONE;
    *(row->failed ? &r->sum->failed : &r->sum->done) += 1;
    report_row(r->j->report, part, row->failed ? "failed" : "done", row->message, row->seconds);
}

static void row_message(row_record *row, const run_event *ev)
{
    char text[300];
    if (row->message) return;
    if (ev->kind == RUN_NODE_SKIPPED) snprintf(text, sizeof text, "node '%.200s', which it shares with another row, failed", ev->because);
    row->message = mem_strdup(ev->kind == RUN_NODE_SKIPPED ? text : ev->failure->message); /* without memory: a failure without words */
}

/* The scheduler calls it one event at a time. */
static void on_event(void *self, const run_event *ev)
{
    sweep_run *r = self;
    uint32_t part = r->merged.part_of[ev->node];
    row_record *row = &r->row[r->work[part].row];
    int failed = ev->kind == RUN_NODE_FAILED || ev->kind == RUN_NODE_SKIPPED;
    report_event(r->j->report, ev);
    if (ev->kind == RUN_NODE_START) return;
    row->seconds += ev->seconds;
    if (ev->kind == RUN_NODE_FAILED && ev->failure->status == KILN_CANCELLED) row->cancelled = 1;
    if (env_cancelled(NULL) && failed) row->cancelled = 1; /* a row that was interrupted has not failed */
    if (failed) row_message(row, ev);
    if (!is_output(&r->merged.all.node[ev->node])) return;
    row->failed |= failed;
    if (--row->outputs_left == 0 && !row->cancelled) row_finished(r, part);
}

/* ---- while a batch runs: nodes ------------------------------------------------------------------------------------------------------ */

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

static int take_kept(sweep_run *r, const graph_node *g, kiln_value **out)
{
    int found = 0;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < KEPT_NODES && !found; i++) {
        kept_node *k = &r->kept[i];
        if (!k->out || !digest_equal(k->key, g->key)) continue;
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
    int may_keep = r->keep && g->lasting && !is_output(g);
    if (may_keep && take_kept(r, g, out)) return report_note(r->j->report, i, "kept from earlier rows"), KILN_OK;
    TRY(job_call(r->j, i, params, in, out, e));
    if (may_keep && gives_objects(out, g->type->n_out)) keep_node(r, g, out);
    return KILN_OK;
}

static int known(void *self, size_t i) { return job_known(((sweep_run *)self)->j, i); }
static int taken(void *self, size_t i) { return job_taken(((sweep_run *)self)->j, i); }
static kiln_status fetch(void *self, size_t i, kiln_value **out, error *e) { return job_fetch(((sweep_run *)self)->j, i, out, e); }

/* ---- batches ------------------------------------------------------------------------------------------------------------------------ */

static void batch_close(sweep_run *r)
{
    job_let_go(r->j);
    r->j->workflow = (workflow){0};
    for (size_t i = 0; i < r->n_work; i++) document_free(&r->work[i].doc);
    r->n_work = 0;
    merged_free(&r->merged);
}

static kiln_status read_batch(sweep_run *r, const uint32_t *todo, size_t n, error *e)
{
    key_setting keys = job_keys(r->j);
    for (size_t i = 0; i < n; i++) {
        row_work *w = &r->work[i];
        kiln_status status = read_row(r, todo[i], w, e);
        r->n_work++;
        TRY(status);
        if (w->doc.n_fault) return error_set(e, KILN_ERR_INVALID, "row %zu (%s): what it reads has changed since it was checked: %s", w->row + 1, w->label, w->doc.faults ? w->doc.faults->text : "");
        TRY(workflow_keys(&w->w, &keys, e));
        r->number[i] = w->row + 1;
        r->label[i] = w->label;
        for (size_t k = 0; k < w->w.n; k++) r->row[w->row].outputs_left += is_output(&w->w.node[k]);
    }
    return KILN_OK;
}

static kiln_status merge_batch(sweep_run *r, error *e)
{
    merge_part part[BATCH_ROWS];
    job *j = r->j;
    for (size_t i = 0; i < r->n_work; i++) part[i] = (merge_part){.w = &r->work[i].w, .number = r->work[i].row + 1};
    TRY(workflow_merge(&r->merged, part, r->n_work, e));
    const node_info **info = arena_alloc(&r->merged.memory, (r->merged.all.n + 1) * sizeof *info);
    if (!info) return no_memory(e);
    for (size_t i = 0; i < r->n_work; i++) memcpy(info + r->merged.first[i], r->work[i].info, r->work[i].w.n * sizeof *info);
    j->workflow = r->merged.all;
    j->info = info;
    report_rows rows = {.part_of = r->merged.part_of, .number = r->number, .label = r->label, .total = r->plan.n_row};
    TRY(report_rows_set(j->report, &j->workflow, &rows, r->sum->before + r->sum->done + r->sum->failed, e));
    return job_take_up(j, e);
}

static void add_nodes(run_summary *to, const run_summary *s)
{
    to->ran += s->ran, to->fetched += s->fetched, to->shared += s->shared, to->failed += s->failed, to->skipped += s->skipped;
    to->total += s->total, to->outputs_done += s->outputs_done, to->cancelled |= s->cancelled;
}

/* KILN_OK when the rows ran, whatever became of them. */
static kiln_status run_batch(sweep_run *r, const uint32_t *todo, size_t n, error *e)
{
    run_summary nodes = {0};
    error first = {0}; /* the rows have told it */
    kiln_status status = read_batch(r, todo, n, e);
    if (status == KILN_OK) status = merge_batch(r, e);
    if (status == KILN_OK && !r->rehearsed) status = job_rehearse(r->j, e); /* the batches are alike */
    r->rehearsed = 1;
    if (status == KILN_OK) {
        kiln_status ran = run_schedule(&r->j->workflow, &(run_hooks){.self = r, .call = call, .event = on_event, .known = known, .fetch = fetch, .taken = taken},
                                       &(run_setting){.workers = r->setting->jobs, .fail_fast = r->setting->fail_fast, .cancel = &interrupted}, &nodes, &first);
        if (ran != KILN_OK && !nodes.failed && !nodes.cancelled) status = error_set(e, ran, "%s", first.message);
        add_nodes(&r->nodes, &nodes);
    }
    if (status == KILN_OK && r->trouble.status != KILN_OK) status = error_set(e, r->trouble.status, "%s", r->trouble.message);
    return status;
}

static kiln_status run_all(sweep_run *r, error *e)
{
    kiln_status status = KILN_OK;
    r->keep = r->n_todo > BATCH_ROWS;
    for (size_t i = 0; i < r->n_todo && status == KILN_OK; i += BATCH_ROWS) {
        size_t n = r->n_todo - i < BATCH_ROWS ? r->n_todo - i : BATCH_ROWS;
        status = run_batch(r, r->todo + i, n, e);
        batch_close(r);
        if (r->nodes.cancelled || env_cancelled(NULL)) r->sum->cancelled = 1;
        if (r->sum->cancelled || (r->setting->fail_fast && r->sum->failed)) break;
    }
    return status;
}

/* ---- the whole -------------------------------------------------------------------------------------------------------------------------- */

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
        for (size_t k = 0; k < row->n_file && (row->state == ROW_DONE || row->state == ROW_BEFORE) && !cell[i].path; k++)
            if (is_png(row->file[k])) cell[i] = (sheet_cell){.state = SHEET_PICTURE, .path = arena_printf(&memory, "%s/%s", r->out, row->file[k])};
    }
    if (status == KILN_OK) status = sheet_write(&r->plan, cell, r->what->sheet, e);
    arena_free(&memory);
    if (status == KILN_OK) printf("%s\n", r->what->sheet), fflush(stdout);
    return status;
}

static void say_failed(const sweep_run *r)
{
    char label[LABEL_ROOM];
    size_t shown = 0;
    for (size_t i = 0; i < r->plan.n_row && shown < FAILED_SHOWN; i++) {
        if (r->row[i].state != ROW_FAILED) continue;
        sweep_label(&r->plan, i, label, sizeof label);
        fprintf(stderr, "kiln: row %zu (%s) failed: %s\n", i + 1, label, r->row[i].message ? r->row[i].message : "out of memory");
        shown++;
    }
    if (r->sum->failed > shown) fprintf(stderr, "kiln: and %zu more\n", r->sum->failed - shown);
}

static void say_summary(const sweep_run *r)
{
    const sweep_summary *s = r->sum;
    if (!r->setting->quiet) {
        fprintf(stderr, "sweep: %zu rows: %zu done", s->rows, s->done);
        if (s->before) fprintf(stderr, ", %zu done before (--again runs them too)", s->before);
        if (s->failed) fprintf(stderr, ", %zu failed", s->failed);
        if (s->left) fprintf(stderr, ", %zu left", s->left);
        fprintf(stderr, "; %zu nodes ran, %zu were shared, %zu came from the cache\n", r->nodes.ran, r->nodes.shared, r->nodes.fetched);
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

static kiln_status sweep_begin(sweep_run *r, error *e)
{
    const sweep_setting *w = r->what;
    TRY(sweep_make(&r->plan, &(sweep_source){.over = w->over, .n_over = w->n_over, .over_file = w->over_file, .matrix = job_matrix(r->j), .path = w->source->path}, e));
    r->set = mem_calloc(w->source->n_set + SWEEP_NAMES_MAX, sizeof *r->set);
    r->row = mem_calloc(r->plan.n_row, sizeof *r->row);
    r->todo = mem_calloc(r->plan.n_row, sizeof *r->todo);
    r->work = mem_calloc(BATCH_ROWS, sizeof *r->work);
    if (!r->set || !r->row || !r->todo || !r->work) return no_memory(e);
    for (size_t i = 0; i < w->source->n_set; i++) r->set[i] = w->source->set[i];
    r->sum->rows = r->plan.n_row;
    return job_machine(r->j, r->setting, e);
}

static kiln_status sweep_do(sweep_run *r, error *e)
{
    output_folder output = {.path = r->out};
    TRY(sweep_begin(r, e));
    job_watch_signals();
    TRY(scan_rows(r, e));
    TRY(open_manifest(r, e));
    TRY(choose_rows(r, e));
    r->j->env = job_environment(r->j, r->setting, &output);
    r->j->sweep = r, r->j->part_of = part_of, r->j->told_file = told_file;
    kiln_status status = run_all(r, e);
    r->sum->left = r->sum->rows - r->sum->done - r->sum->before - r->sum->failed;
    return status;
}

static void sweep_end(sweep_run *r)
{
    for (size_t i = 0; i < KEPT_NODES; i++) kept_free(&r->kept[i]);
    job_finish(r->j);
    r->j->sweep = NULL, r->j->part_of = NULL, r->j->told_file = NULL;
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
    sweep_run r = {.j = j, .what = what, .setting = setting, .out = setting->out ? setting->out : "out", .sum = summary};
    workflow base = j->workflow;
    const node_info **info = j->info;
    error late = {0};
    *summary = (sweep_summary){0};
    pthread_mutex_init(&r.lock, NULL);
    kiln_status status = sweep_do(&r, e);
    if (j->runtime && r.nodes.total) job_say_memory(j, setting);
    j->workflow = base; /* the report still asks it for names; the batch is gone */
    kiln_status closed = report_close(j->report, &r.nodes, status != KILN_OK ? status_name(status) : summary->failed ? "partly" : "ok", &late);
    j->report = NULL;
    if (manifest_close(r.manifest, &late) != KILN_OK) closed = late.status;
    if (status == KILN_OK && what->sheet && !summary->cancelled) closed = write_sheet(&r, &late) != KILN_OK ? late.status : closed;
    if (r.manifest) say_summary(&r);
    j->workflow = (workflow){0};
    sweep_end(&r);
    j->workflow = base;
    j->info = info;
    return status != KILN_OK ? status : closed != KILN_OK ? error_set(e, closed, "%s", late.message) : KILN_OK;
}

kiln_status job_check_rows(job *j, const job_source *from, size_t *rows, size_t *faulty, error *e)
{
    sweep_summary summary = {0};
    sweep_setting what = {.source = from};
    sweep_run r = {.j = j, .what = &what, .sum = &summary};
    faults_shown shown = {.n = 0};
    kiln_status status = sweep_make(&r.plan, &(sweep_source){.matrix = job_matrix(j), .path = from->path}, e);
    if (status == KILN_OK && !(r.set = mem_calloc(from->n_set + SWEEP_NAMES_MAX, sizeof *r.set))) status = no_memory(e);
    for (size_t i = 0; status == KILN_OK && i < from->n_set; i++) r.set[i] = from->set[i];
    for (size_t i = 0; status == KILN_OK && i < r.plan.n_row; i++) {
        row_work w;
        status = read_row(&r, i, &w, e);
        if (status == KILN_OK && w.doc.n_fault) show_faults(&w, &shown), ++*faulty;
        document_free(&w.doc);
    }
    if (shown.more) fprintf(stderr, "and %zu more errors\n", shown.more);
    *rows = r.plan.n_row;
    sweep_free(&r.plan);
    mem_free(r.set);
    return status;
}
