/* sweep_events.c - what is noted of a sweep's rows while a batch of them runs: files, messages, lines of the
 * manifest. */
#include "run/job_sweep_parts.h"

#include "base/memory_alloc.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- while a batch runs: what is told ---- */

const workflow *sweep_part_of(void *self, size_t node, size_t *there)
{
    const sweep_run *r = self;
    uint32_t part = r->merged.part_of[node];
    *there = node - r->merged.first[part];
    return &r->work[part].w;
}

void sweep_on_file(void *self, size_t node, const char *path)
{
    sweep_run *r = self;
    size_t n = strlen(r->out);
    const char *name = strncmp(path, r->out, n) == 0 && path[n] == '/' ? path + n + 1 : path;
    pthread_mutex_lock(&r->lock);
    if (sweep_add_file(&r->row[r->work[r->merged.part_of[node]].row], name) != KILN_OK) no_memory(&r->trouble);
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
    if (ev->kind == RUN_NODE_SKIPPED)
        snprintf(text, sizeof text, "node '%.200s', which it shares with another row, failed", ev->because);
    row->message = mem_strdup(
        ev->kind == RUN_NODE_SKIPPED ? text : ev->failure->message); /* without memory: a failure without words */
}

/* The scheduler calls it one event at a time. */
void sweep_on_event(void *self, const run_event *ev)
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
