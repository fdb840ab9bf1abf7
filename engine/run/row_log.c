/* row_log.c - see row_log.h. */
#include "run/row_log.h"

#include "base/memory_alloc.h"
#include "base/str.h"
#include "param/param_text.h"
#include "run/interrupt.h"
#include "run/resume.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void row_log_file(row_log *l, size_t node, const char *path)
{
    size_t n = strlen(l->out);
    const char *name = strncmp(path, l->out, n) == 0 && path[n] == '/' ? path + n + 1 : path;
    row_record *record = &l->rows->record[batch_row_of(l->batch, node)->row];
    pthread_mutex_lock(&l->lock);
    if (row_add_file(record, name) != KILN_OK) error_set(&l->trouble, KILN_ERR_NOMEM, "out of memory");
    pthread_mutex_unlock(&l->lock);
}

/* ---- lines of the manifest ---- */

static void put_text(str *s, const char *key, const char *text)
{
    str_printf(s, ", \"%s\": ", key);
    str_json(s, text, strlen(text), 1);
}

static void put_settings(const row_log *l, const open_row *row, str *s)
{
    set_option set[SWEEP_NAMES_MAX];
    size_t n = sweep_settings(&l->rows->plan, row->row, set);
    str_append(s, ", \"settings\": {");
    for (size_t i = 0; i < n; i++) {
        str_append(s, i ? ", " : "");
        str_json(s, set[i].name, strlen(set[i].name), 1);
        str_append(s, ": ");
        str_json(s, set[i].value, strlen(set[i].value), 1);
    }
    str_char(s, '}');
}

static void put_seeds(const workflow *w, str *s)
{
    size_t n = 0;
    str_append(s, ", \"seeds\": {");
    for (size_t i = 0; i < w->n; i++) {
        const graph_node *g = &w->node[i];
        for (uint32_t p = 0; g->needed && p < g->type->n_param; p++) {
            const kiln_param *param = node_param(g->type, p);
            if (param->type != KILN_P_SEED || g->param_in[p].node != SOURCE_NONE) continue;
            param_value seed = param_get(param, g->params);
            str_append(s, n++ ? ", " : "");
            str_json(s, g->doc->name, strlen(g->doc->name), 1);
            str_append(s, ": ");
            param_value_json(&seed, s);
        }
    }
    str_char(s, '}');
}

static void put_keys(const workflow *w, str *s)
{
    size_t n = 0;
    char key[33];
    str_append(s, ", \"keys\": {");
    for (size_t i = 0; i < w->n; i++) {
        const graph_node *g = &w->node[i];
        if (!is_output(g)) continue;
        str_append(s, n++ ? ", " : "");
        str_json(s, g->doc->name, strlen(g->doc->name), 1);
        str_printf(s, ": \"%s\"", digest_hex(g->key, key));
    }
    str_char(s, '}');
}

static kiln_status write_row(row_log *l, const open_row *row, const row_record *record, error *e)
{
    str s = {0};
    char key[33], when[40] = "";
    time_t t = time(NULL);
    struct tm parts;
    if (gmtime_r(&t, &parts)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &parts);
    str_printf(&s, "{\"row\": %zu", row->row + 1);
    put_settings(l, row, &s);
    put_text(&s, "status", row->failed ? "failed" : "done");
    str_append(&s, ", \"files\": [");
    for (size_t i = 0; i < record->n_file; i++) {
        str_append(&s, i ? ", " : "");
        str_json(&s, record->file[i], strlen(record->file[i]), 1);
    }
    str_char(&s, ']');
    put_seeds(&row->read->w, &s);
    put_keys(&row->read->w, &s);
    put_text(&s, "key", digest_hex(record->key, key));
    str_printf(&s, ", \"seconds\": %.3f", record->seconds);
    put_text(&s, "time", when);
    if (record->message) put_text(&s, "error", record->message);
    str_char(&s, '}');
    resume_row_line(row->row, manifest_bytes(l->manifest), s.len + 1, row->failed);
    kiln_status status = manifest_add(l->manifest, &s, e);
    str_free(&s);
    return status;
}

/* ---- what becomes of rows ---- */

static void row_finished(row_log *l, uint32_t part)
{
    open_row *row = &l->batch->row[part];
    row_record *record = &l->rows->record[row->row];
    assert(record->state == ROW_LEFT);
    pthread_mutex_lock(&l->lock);
    if (l->manifest && l->trouble.status == KILN_OK) write_row(l, row, record, &l->trouble);
    pthread_mutex_unlock(&l->lock);
    if (l->rows->is_sweep) resume_row_end(row->row, record, row->failed);
    record->state = row->failed ? ROW_FAILED : ROW_DONE;
    *(row->failed ? &l->rows->sum->failed : &l->rows->sum->done) += 1;
    if (l->rows->is_sweep)
        report_row(l->report, part,
                   &(row_end){.status = row->failed ? "failed" : "done",
                              .message = record->message,
                              .file = record->file,
                              .n_file = record->n_file,
                              .seconds = record->seconds});
}

/* Without memory for it: a failure without words. */
static void note_message(row_record *record, const run_event *ev)
{
    char text[300];
    if (record->message) return;
    if (ev->kind == RUN_NODE_SKIPPED)
        snprintf(text, sizeof text, "node '%.200s', which it shares with another row, failed", ev->because);
    record->said = ev->kind == RUN_NODE_FAILED;
    record->message = mem_strdup(ev->kind == RUN_NODE_SKIPPED ? text : ev->failure->message);
}

void row_log_event(row_log *l, const run_event *ev)
{
    uint32_t part = l->batch->merged.part_of[ev->node];
    open_row *row = &l->batch->row[part];
    row_record *record = &l->rows->record[row->row];
    int failed = ev->kind == RUN_NODE_FAILED || ev->kind == RUN_NODE_SKIPPED;
    if (ev->kind == RUN_NODE_START || ev->item) return;
    record->seconds += ev->seconds;
    if (ev->kind == RUN_NODE_FAILED && ev->failure->status == KILN_CANCELLED) row->cancelled = 1;
    if (interrupt_asked(NULL) && failed) row->cancelled = 1; /* a row that was interrupted has not failed */
    if (failed) note_message(record, ev);
    if (!is_output(batch_node(l->batch, ev->node))) return;
    row->failed |= failed;
    assert(row->outputs_left > 0);
    if (--row->outputs_left == 0 && !row->cancelled) row_finished(l, part);
}
