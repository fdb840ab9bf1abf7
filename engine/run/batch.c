/* batch.c - see batch.h. */
#include "run/batch.h"

#include "base/memory_alloc.h"
#include "plugin/ctx.h"
#include "plugin/supervised.h"
#include "workflow/describe.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts and instances ---- */

static const struct {
    const char *name;
    char *(*make)(const workflow *w, int32_t node);
} text_kind[] = {{"prompt", describe_prompt}, {"parameters", describe_parameters}, {"kiln", describe_source}};
enum { N_TEXTS = sizeof text_kind / sizeof text_kind[0] };

const char *batch_text(batch *b, size_t node, const char *name)
{
    size_t kind = 0;
    while (kind < N_TEXTS && strcmp(name, text_kind[kind].name) != 0) kind++;
    if (kind == N_TEXTS) return NULL;
    assert(node < b->merged.all.n);
    size_t own = node - b->merged.first[b->merged.part_of[node]]; /* its index in the row's own workflow */
    pthread_mutex_lock(&b->lock);
    char **text = &b->text[node * N_TEXTS + kind];
    if (!*text) *text = text_kind[kind].make(&batch_row_of(b, node)->read->w, (int32_t)own);
    pthread_mutex_unlock(&b->lock);
    return *text;
}

/* create() and destroy() have no kiln_ctx, so what they do is told to the process that watches here. */
static const char *refusal(const batch *b, size_t node, const char *function)
{
    const graph_node *g = batch_node(b, node);
    return supervised_refusal(g->doc->name, g->type->type, b->info[node]->plugin->id, function);
}

static int enter(const batch *b, size_t node, const char *function)
{
    const graph_node *g = batch_node(b, node);
    return supervised_enter(g->doc->name, g->type->type, b->info[node]->plugin->id, function);
}

static kiln_status create(batch *b, size_t node, kiln_status *status, error *e)
{
    const graph_node *g = batch_node(b, node);
    const char *why = refusal(b, node, "create");
    if (why)
        return error_set(e, KILN_ERR_BUG, "node '%s' (%s): plugin %s: %s", g->doc->name, g->type->type,
                         b->info[node]->plugin->id, why);
    int call = enter(b, node, "create");
    *status = g->type->create(&engine_host, &b->instance[node]);
    supervised_leave(call);
    return KILN_OK;
}

static void destroy(const batch *b, size_t node)
{
    if (refusal(b, node, "destroy")) return;
    int call = enter(b, node, "destroy");
    batch_node(b, node)->type->destroy(b->instance[node]);
    supervised_leave(call);
}

kiln_status batch_instance(batch *b, size_t node, void **out, error *e)
{
    const graph_node *g = batch_node(b, node);
    kiln_status status = KILN_OK;
    if (g->type->create && !b->instance[node]) TRY(create(b, node, &status, e));
    *out = b->instance[node];
    return status == KILN_OK ? KILN_OK
                             : error_set(e, status, "node '%s' (%s) could not be made: %s", g->doc->name, g->type->type,
                                         status_text(status));
}

/* ---- opening and closing ---- */

static kiln_status read_rows(batch *b, row_set *r, const uint32_t *todo, size_t n, machine *m, error *e)
{
    key_setting keys = machine_keys(m);
    assert(n <= BATCH_ROWS);
    for (size_t i = 0; i < n; i++) {
        open_row *row = &b->row[b->n_row++];
        TRY(rows_read(r, todo[i], row, e));
        const document *doc = &row->read->doc;
        if (doc->n_fault)
            return error_set(e, KILN_ERR_INVALID, "row %zu (%s): what it reads has changed since it was checked: %s",
                             row->row + 1, row->label, doc->faults ? doc->faults->text : "");
        TRY(workflow_keys(&row->read->w, &keys, e));
        b->number[i] = row->row + 1;
        b->label[i] = row->label;
        row->outputs_left = 0;
        for (size_t k = 0; k < row->read->w.n; k++) row->outputs_left += is_output(&row->read->w.node[k]);
    }
    return KILN_OK;
}

typedef struct {
    digest key;
    graph_node *node;
} keyed_node;

static int by_digest(const void *a, const void *b)
{
    const keyed_node *x = a, *y = b;
    if (x->key.hi != y->key.hi) return x->key.hi < y->key.hi ? -1 : 1;
    return (x->key.lo > y->key.lo) - (x->key.lo < y->key.lo);
}

/* Nodes of one key are called once for all of them: what anybody takes of one is taken of each. */
static kiln_status join_used(workflow *w, error *e)
{
    keyed_node *all = mem_calloc(w->n + 1, sizeof *all);
    if (!all) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < w->n; i++) all[i] = (keyed_node){w->node[i].key, &w->node[i]};
    if (w->n) qsort(all, w->n, sizeof *all, by_digest);
    for (size_t first = 0, end; first < w->n; first = end) {
        uint64_t used = 0;
        for (end = first; end < w->n && digest_equal(all[end].key, all[first].key); end++) used |= all[end].node->used;
        for (size_t i = first; i < end; i++) all[i].node->used = used;
    }
    mem_free(all);
    return KILN_OK;
}

static kiln_status merge_rows(batch *b, error *e)
{
    const workflow *part[BATCH_ROWS];
    for (size_t i = 0; i < b->n_row; i++) part[i] = &b->row[i].read->w;
    TRY(workflow_merge(&b->merged, part, b->n_row, e));
    TRY(join_used(&b->merged.all, e));
    size_t n = b->merged.all.n + 1;
    b->info = arena_alloc(&b->merged.memory, n * sizeof *b->info);
    b->instance = mem_calloc(n, sizeof *b->instance);
    b->text = mem_calloc(n, N_TEXTS * sizeof *b->text);
    b->files = mem_calloc(n, sizeof *b->files);
    b->n_file = arena_alloc(&b->merged.memory, n * sizeof *b->n_file);
    if (!b->info || !b->instance || !b->text || !b->files || !b->n_file)
        return error_set(e, KILN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < b->n_row; i++)
        memcpy(b->info + b->merged.first[i], b->row[i].read->info, part[i]->n * sizeof *b->info);
    return KILN_OK;
}

kiln_status batch_open(batch *b, row_set *r, const uint32_t *todo, size_t n, machine *m, error *e)
{
    pthread_mutex_init(&b->lock, NULL);
    b->n_row = 0;
    TRY(read_rows(b, r, todo, n, m, e));
    TRY(merge_rows(b, e));
    report_rows shown = {
        .part_of = b->merged.part_of, .number = b->number, .label = b->label, .total = r->is_sweep ? r->plan.n_row : 0};
    TRY(report_rows_set(m->report, &b->merged.all, &shown, r->sum->before + r->sum->done + r->sum->failed, e));
    return result_cache_watch(m->result_cache, &b->merged.all, e);
}

void batch_close(batch *b)
{
    for (size_t i = 0; i < b->merged.all.n; i++) {
        const kiln_node *type = batch_node(b, i)->type;
        assert(!b->files || !b->files[i]);
        if (b->instance && b->instance[i] && type->destroy) destroy(b, i);
        for (size_t k = 0; b->text && k < N_TEXTS; k++) mem_free(b->text[i * N_TEXTS + k]);
    }
    mem_free(b->instance), mem_free(b->text), mem_free(b->files);
    b->instance = NULL, b->text = NULL, b->files = NULL, b->info = NULL, b->n_file = NULL;
    merged_free(&b->merged);
    for (size_t i = 0; i < b->n_row; i++) rows_unread(&b->row[i]);
    b->n_row = 0;
    pthread_mutex_destroy(&b->lock);
}
