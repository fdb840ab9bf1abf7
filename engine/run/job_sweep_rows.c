/* job_sweep_rows.c - a sweep's rows: read, checked, given their keys, and which of them are left to do; see
 * job_sweep_parts.h. */
#include "run/job_sweep_parts.h"

#include "base/memory_alloc.h"
#include "base/print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows ---- */

kiln_status sweep_read_row(sweep_run *r, size_t row, row_work *w, error *e)
{
    const job_source *s = r->what->source;
    size_t n = s->n_set + sweep_settings(&r->plan, row, r->set + s->n_set);
    *w = (row_work){.row = row};
    sweep_label(&r->plan, row, w->label, sizeof w->label);
    return job_read(r->j, r->set, n, &w->doc, &w->w, &w->info, e);
}

static int reads_a_file(const graph_node *g)
{
    for (uint32_t p = 0; p < g->type->n_param; p++)
        if (node_param(g->type, p)->type == KILN_P_FILE) return 1;
    return 0;
}

/* What a second identical run would make again: outputs' keys, and the settings, since some of them (a file's prefix)
 * are in no key. */
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
            if (!g->needed || !g->cacheable || is_output(g)) continue;
            if (device ? (g->type->flags & KILN_NODE_DEVICE) != 0 && !reads_a_file(g) : reads_a_file(g)) {
                all[(*n)++] = (prefix_key){.key = g->key, .row = (uint32_t)w->row, .slot = slot};
                slot++;
            }
        }
}

/* ---- faults ---- */

static int is_the_files(const document *file, const fault *f)
{
    for (const fault *own = file ? file->faults : NULL; own; own = own->next)
        if (own->warning == f->warning && own->at.file == f->at.file && own->at.line == f->at.line &&
            own->at.column == f->at.column && strcmp(own->text, f->text) == 0)
            return 1;
    return 0;
}

void sweep_show_faults(const row_work *w, faults_shown *shown)
{
    for (const fault *f = w->doc.faults; f; f = f->next) {
        char text[1400], at[300] = "";
        int any_row = is_the_files(shown->file, f);
        if (f->warning && any_row) continue;
        if (f->at.line)
            snprintf(at, sizeof at, "%.250s:%u:%u: ", document_file(&w->doc, f->at), f->at.line, f->at.column);
        snprintf(text, sizeof text, "%s%s: %s", at, f->warning ? "warning" : "error", f->text);
        digest d = digest_of(text, strlen(text));
        size_t k = 0;
        while (k < shown->n && !digest_equal(shown->seen[k], d)) k++;
        if (k < shown->n) continue;
        if (shown->n == FAULTS_SHOWN) {
            shown->more++;
            continue;
        }
        shown->seen[shown->n++] = d;
        if (any_row)
            print_text(stderr, "%s\n", text);
        else
            print_text(stderr, "%s [row %zu: %s]\n", text, w->row + 1, w->label);
    }
}

static kiln_status faulty(const sweep_run *r, error *e)
{
    return r->sum->faulty ? error_set(e, KILN_ERR_INVALID, "%zu of %zu rows have faults; nothing was run",
                                      r->sum->faulty, r->plan.n_row)
                          : KILN_OK;
}

static void show_more(const faults_shown *shown)
{
    if (shown->more) print_text(stderr, "and %zu more errors and warnings\n", shown->more);
}

kiln_status sweep_check_rows(sweep_run *r, error *e)
{
    faults_shown shown = {.file = &r->j->doc};
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < r->plan.n_row && status == KILN_OK; i++) {
        row_work w;
        status = env_cancelled(NULL) ? error_set(e, KILN_CANCELLED, "cancelled") : sweep_read_row(r, i, &w, e);
        if (status != KILN_OK) break;
        sweep_show_faults(&w, &shown);
        r->sum->faulty += w.doc.n_fault > 0;
        document_free(&w.doc);
    }
    show_more(&shown);
    return status == KILN_OK ? faulty(r, e) : status;
}

/* ---- the first pass ---- */

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

static kiln_status scan_row(sweep_run *r, size_t row, const key_setting *keys, hasher *h, prefix_key *all, size_t *n,
                            faults_shown *shown, error *e)
{
    row_work w;
    kiln_status status = sweep_read_row(r, row, &w, e);
    if (status == KILN_OK) sweep_show_faults(&w, shown);
    if (status == KILN_OK && w.doc.n_fault) {
        r->sum->faulty++;
    } else if (status == KILN_OK && (status = workflow_keys(&w.w, keys, e)) == KILN_OK) {
        list_prefix(&w, all, n);
        r->row[row].key = row_key(r, &w, h);
    }
    document_free(&w.doc);
    return status;
}

kiln_status sweep_scan_rows(sweep_run *r, error *e)
{
    size_t n = 0;
    faults_shown shown = {.file = &r->j->doc};
    key_setting keys = job_keys(r->j);
    hasher *h = hasher_new();
    prefix_key *all = mem_calloc(r->plan.n_row, PREFIX_KEYS * sizeof *all);
    kiln_status status = h && all ? KILN_OK : no_memory(e);
    for (size_t i = 0; i < r->plan.n_row && status == KILN_OK; i++) {
        status = env_cancelled(NULL) ? error_set(e, KILN_CANCELLED, "cancelled")
                                     : scan_row(r, i, &keys, h, all, &n, &shown, e);
    }
    show_more(&shown);
    if (status == KILN_OK) rank_prefixes(r, all, n);
    if (status == KILN_OK) status = faulty(r, e);
    hasher_free(h);
    mem_free(all);
    return status;
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

kiln_status sweep_add_file(row_record *row, const char *name)
{
    char **grown = mem_realloc(row->file, (row->n_file + 1) * sizeof *grown);
    if (!grown) return KILN_ERR_NOMEM;
    row->file = grown;
    return (grown[row->n_file] = mem_strdup(name)) ? row->n_file++, KILN_OK : KILN_ERR_NOMEM;
}

kiln_status sweep_choose_rows(sweep_run *r, error *e)
{
    for (size_t i = 0; i < r->plan.n_row; i++) {
        size_t n = 0;
        const char *const *file =
            r->what->again || !r->manifest ? NULL : manifest_find(r->manifest, r->row[i].key, r->out, &n);
        if (!file) {
            r->todo[r->n_todo++] = (uint32_t)i;
            continue;
        }
        for (size_t k = 0; k < n; k++)
            if (sweep_add_file(&r->row[i], file[k]) != KILN_OK) return no_memory(e);
        r->row[i].state = ROW_BEFORE;
        r->sum->before++;
    }
    sorting = r->row;
    if (r->n_todo) qsort(r->todo, r->n_todo, sizeof *r->todo, by_prefix);
    return KILN_OK;
}
