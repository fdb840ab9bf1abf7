/* rows.c - see rows.h. Every row of a sweep is read twice: all are checked and given keys before anything runs, and let
 * go again; those of a batch are read once more when it is their turn, so that memory does not grow with the rows.
 */
#include "run/rows.h"

#include "base/array.h"
#include "base/memory_alloc.h"
#include "run/interrupt.h"
#include "run/existing.h"
#include "run/resume.h"
#include "run/row_faults.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static kiln_status no_memory(error *e) { return error_set(e, KILN_ERR_NOMEM, "out of memory"); }

/* ---- which there are ---- */

static kiln_status plan_rows(row_set *r, const job_rows *s, error *e)
{
    const job *j = r->job;
    if (!r->is_sweep) return r->plan.n_row = 1, KILN_OK;
    return sweep_make(&r->plan,
                      &(sweep_source){.over = s->over,
                                      .n_over = s->n_over,
                                      .over_file = s->over_file,
                                      .matrix = job_matrix(j),
                                      .path = j->path,
                                      .set = j->set,
                                      .n_set = j->n_set},
                      e);
}

kiln_status rows_make(row_set *r, job *j, const job_rows *setting, job_summary *sum, error *e)
{
    *r = (row_set){.job = j, .is_sweep = setting != NULL, .sum = sum};
    TRY(plan_rows(r, setting, e));
    r->set = mem_calloc(j->n_set + SWEEP_NAMES_MAX, sizeof *r->set);
    r->record = mem_calloc(r->plan.n_row, sizeof *r->record);
    r->todo = mem_calloc(r->plan.n_row, sizeof *r->todo);
    if (!r->set || !r->record || !r->todo) return no_memory(e);
    for (size_t i = 0; i < j->n_set; i++) r->set[i] = j->set[i];
    sum->rows = r->plan.n_row;
    return KILN_OK;
}

void rows_free(row_set *r)
{
    folder_names_free(r->seen);
    for (size_t i = 0; r->record && i < r->plan.n_row; i++) {
        for (size_t k = 0; k < r->record[i].n_file; k++) mem_free(r->record[i].file[k]);
        mem_free(r->record[i].file);
        mem_free(r->record[i].message);
    }
    mem_free(r->set), mem_free(r->record), mem_free(r->todo);
    sweep_free(&r->plan);
    *r = (row_set){0};
}

kiln_status row_add_file(row_record *row, const char *name)
{
    if (!array_reserve(&row->file, &row->file_capacity, row->n_file + 1, sizeof *row->file)) return KILN_ERR_NOMEM;
    char *copy = mem_strdup(name);
    if (!copy) return KILN_ERR_NOMEM;
    row->file[row->n_file++] = copy;
    return KILN_OK;
}

/* ---- reading one ---- */

/* The command line's settings and the row's behind them; how many. */
static size_t settings_of(row_set *r, size_t row)
{
    return r->job->n_set + sweep_settings(&r->plan, row, r->set + r->job->n_set);
}

kiln_status rows_read(row_set *r, size_t row, open_row *out, error *e)
{
    assert(row < r->plan.n_row);
    *out = (open_row){.row = row};
    out->read = r->is_sweep ? &out->own : &r->job->first;
    if (!r->is_sweep) return KILN_OK;
    sweep_label(&r->plan, row, out->label, sizeof out->label);
    return job_read(r->job, r->set, settings_of(r, row), &out->own, e);
}

void rows_unread(open_row *row)
{
    if (row->read == &row->own) reading_free(&row->own);
    row->read = NULL;
}

/* ---- keys, and what rows have in common ---- */

static int reads_a_file(const graph_node *g)
{
    for (uint32_t p = 0; p < g->type->n_param; p++)
        if (node_param(g->type, p)->type == KILN_P_FILE) return 1;
    return 0;
}

/* What a second identical run would make again: outputs' keys, and the settings, since some of them (a file's prefix)
 * are in no key. */
static digest row_key(row_set *r, const open_row *row, hasher *h)
{
    const workflow *w = &row->read->w;
    size_t n = settings_of(r, row->row);
    hasher_reset(h);
    hash_text(h, "kiln-row/1");
    for (size_t i = 0; i < w->n; i++)
        if (is_output(&w->node[i])) hash_text(h, w->node[i].doc->name), hash_digest(h, w->node[i].key);
    for (size_t i = 0; i < n; i++) hash_text(h, r->set[i].name), hash_text(h, r->set[i].value);
    return hasher_digest(h);
}

typedef struct {
    digest key;
    uint32_t row, slot;
} prefix_key;

/* The keys of what is worth sharing: loaders first, then what computes, in the workflow's order. */
static void list_prefix(const open_row *row, prefix_key *all, size_t *n)
{
    const workflow *w = &row->read->w;
    uint32_t slot = 0;
    for (int device = 0; device < 2; device++)
        for (size_t i = 0; i < w->n && slot < PREFIX_KEYS; i++) {
            const graph_node *g = &w->node[w->order[i]];
            if (!g->needed || !g->cacheable || is_output(g)) continue;
            if (device ? (g->type->flags & KILN_NODE_DEVICE) != 0 && !reads_a_file(g) : reads_a_file(g)) {
                all[(*n)++] = (prefix_key){.key = g->key, .row = (uint32_t)row->row, .slot = slot};
                slot++;
            }
        }
}

static int by_key(const void *a, const void *b)
{
    const prefix_key *x = a, *y = b;
    if (x->key.hi != y->key.hi) return x->key.hi < y->key.hi ? -1 : 1;
    if (x->key.lo != y->key.lo) return x->key.lo < y->key.lo ? -1 : 1;
    return (x->row > y->row) - (x->row < y->row);
}

static void rank_prefixes(row_set *r, prefix_key *all, size_t n)
{
    for (size_t i = 0; i < r->plan.n_row; i++)
        for (size_t k = 0; k < PREFIX_KEYS; k++) r->record[i].prefix[k] = (uint32_t)i;
    if (n) qsort(all, n, sizeof *all, by_key);
    for (size_t i = 0, first = 0; i < n; i++) {
        if (!digest_equal(all[i].key, all[first].key)) first = i;
        r->record[all[i].row].prefix[all[i].slot] = all[first].row;
    }
}

/* ---- checking all ---- */

typedef struct {
    row_faults shown;
    const key_setting *keys; /* NULL: faults alone */
    hasher *hash;
    prefix_key *prefix;
    size_t n_prefix;
} row_scan;

static kiln_status scan_row(row_set *r, row_scan *s, size_t i, error *e)
{
    open_row row;
    kiln_status status = rows_read(r, i, &row, e);
    if (status == KILN_OK) row_faults_show(&s->shown, &row);
    if (status == KILN_OK && row.read->doc.n_fault) {
        r->sum->faulty++;
    } else if (status == KILN_OK && s->keys && (status = workflow_keys(&row.read->w, s->keys, e)) == KILN_OK) {
        list_prefix(&row, s->prefix, &s->n_prefix);
        r->record[i].key = row_key(r, &row, s->hash);
        if (r->skip_in)
            status =
                existing_find(&row, r->skip_in, &r->seen, &r->record[i], &r->record[i].exists, &r->record[i].names, e);
    }
    rows_unread(&row);
    return status;
}

static int by_names(const void *a, const void *b)
{
    const digest *x = a, *y = b;
    if (x->hi != y->hi) return x->hi < y->hi ? -1 : 1;
    return (x->lo > y->lo) - (x->lo < y->lo);
}

/* Rows that write to the same names cannot be told apart by them. */
static kiln_status names_differ(const row_set *r, error *e)
{
    digest *all = mem_calloc(r->plan.n_row, sizeof *all);
    size_t n = 0, twice = 0;
    if (!all) return no_memory(e);
    for (size_t i = 0; i < r->plan.n_row; i++)
        if (r->record[i].names.hi | r->record[i].names.lo) all[n++] = r->record[i].names;
    if (n) qsort(all, n, sizeof *all, by_names);
    for (size_t i = 1; i < n; i++) twice += digest_equal(all[i], all[i - 1]);
    mem_free(all);
    if (!twice) return KILN_OK;
    return error_set(
        e, KILN_ERR_INVALID,
        "--skip-existing: several rows write files of the same name; put what varies into filename_prefix, "
        "as %%NODE.INPUT%% or ${image.stem}");
}

kiln_status rows_check(row_set *r, const key_setting *keys, error *e)
{
    row_scan s = {.shown = {.job = r->job, .file = &r->job->first.doc}, .keys = keys};
    kiln_status status = KILN_OK;
    if (keys) {
        s.hash = hasher_new();
        s.prefix = mem_calloc(r->plan.n_row, PREFIX_KEYS * sizeof *s.prefix);
        if (!s.hash || !s.prefix) status = no_memory(e);
    }
    for (size_t i = 0; i < r->plan.n_row && status == KILN_OK; i++)
        status = interrupt_asked(NULL) ? error_set(e, KILN_CANCELLED, "cancelled") : scan_row(r, &s, i, e);
    row_faults_end(&s.shown);
    r->job->rows_warned = 1;
    if (status == KILN_OK && keys) rank_prefixes(r, s.prefix, s.n_prefix);
    if (status == KILN_OK && r->skip_in) status = names_differ(r, e);
    hasher_free(s.hash);
    mem_free(s.prefix);
    if (status != KILN_OK || !r->sum->faulty) return status;
    return error_set(e, KILN_ERR_INVALID, "%zu of %zu rows have faults; nothing was run", r->sum->faulty,
                     r->plan.n_row);
}

/* ---- what is left to do ---- */

static _Thread_local const row_record *sorting;

static int by_prefix(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    for (size_t k = 0; k < PREFIX_KEYS; k++)
        if (sorting[x].prefix[k] != sorting[y].prefix[k]) return sorting[x].prefix[k] < sorting[y].prefix[k] ? -1 : 1;
    return (x > y) - (x < y);
}

static kiln_status find_single(row_set *r, error *e)
{
    open_row row;
    kiln_status status = rows_read(r, 0, &row, e);
    if (status == KILN_OK)
        status = existing_find(&row, r->skip_in, &r->seen, &r->record[0], &r->record[0].exists, &r->record[0].names, e);
    rows_unread(&row);
    return status;
}

kiln_status rows_choose(row_set *r, const manifest *m, const char *out, error *e)
{
    if (r->skip_in && !r->is_sweep) TRY(find_single(r, e));
    TRY(resume_rows(r, m, out, e));
    for (size_t i = 0; i < r->plan.n_row; i++) {
        size_t n = 0;
        if (r->record[i].state != ROW_LEFT) continue;
        if (r->record[i].exists) {
            r->record[i].state = ROW_BEFORE;
            r->sum->before++;
            continue;
        }
        while (r->record[i].n_file) mem_free(r->record[i].file[--r->record[i].n_file]);
        const char *const *file = m ? manifest_find(m, r->record[i].key, out, &n) : NULL;
        if (!file) {
            r->todo[r->n_todo++] = (uint32_t)i;
            continue;
        }
        for (size_t k = 0; k < n; k++)
            if (row_add_file(&r->record[i], file[k]) != KILN_OK) return no_memory(e);
        r->record[i].state = ROW_BEFORE;
        r->sum->before++;
    }
    sorting = r->record;
    if (r->n_todo) qsort(r->todo, r->n_todo, sizeof *r->todo, by_prefix);
    return KILN_OK;
}
