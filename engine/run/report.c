/* report.c - see report.h. */
#include "run/report.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "base/str.h"
#include "base/terminal.h"
#include "plugin/supervised.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BAR_CELLS = 20, SKIPPED_SHOWN = 8, FORMAT_SIZE = 400 /* of a line before its names are in it */ };
#define LINE_EVERY 3.0 /* seconds between plain progress lines of one node */
#define DRAW_EVERY 0.08
enum { TRACE_HEAD = sizeof "{\"traceEvents\": [\n" - 1 };

struct report {
    const workflow *w;
    pthread_mutex_t lock;
    FILE *events, *trace;
    void (*on_event)(void *arg, const char *json);
    void *event_arg;
    const char *events_path, *trace_path;
    int events_lost, trace_lost; /* errno of the first write that failed */
    int bar, quiet, verbose, bar_drawn, trace_items;
    double start, last_draw;
    double *node_start, *node_line; /* by node */
    size_t done, total, n_skipped;
    int stopped;      /* a node was asked to stop, and did */
    str skipped;      /* names of the first few */
    report_rows rows; /* total 0: no sweep */
    size_t rows_done, rows_before;
};

static const char *name_of(const report *r, size_t i) { return r->w->node[i].doc->name; }
static const char *type_of(const report *r, size_t i) { return r->w->node[i].type->type; }

/* ---- JSON lines ---- */

static void json_text(str *s, const char *key, const char *value)
{
    str_printf(s, ", \"%s\": ", key);
    str_json(s, value, strlen(value), 1);
}

static void json_number(str *s, const char *key, double value)
{
    str_printf(s, ", \"%s\": ", key);
    str_double(s, value);
}

static int was_said(const supervised_said *said, unsigned what)
{
    return said && (atomic_load(&said->what) & what) == what;
}

static void mark_said(supervised_said *said, unsigned what)
{
    if (said) atomic_fetch_or(&said->what, what);
}

/* Where the next line of the events' file begins; 0: it is no file whose length tells. A line's end is never at 0. */
static uint64_t next_line(const report *r)
{
    struct stat file;
    if (fstat(fileno(r->events), &file) != 0 || !S_ISREG(file.st_mode)) return 0;
    off_t at = r->events == stdout ? lseek(STDOUT_FILENO, 0, SEEK_CUR) : file.st_size;
    return at > 0 ? (uint64_t)at : 0;
}

static int is_listened_to(const report *r) { return r->events || r->on_event; }

/* said NULL: it may be said more than once. */
static void emit(report *r, const char *kind, str *rest, supervised_said *said)
{
    if (was_said(said, SAID_EVENT)) {
        str_free(rest);
        return;
    }
    if (is_listened_to(r)) {
        str line = {0};
        str_printf(&line, "{\"event\": \"%s\"", kind);
        json_number(&line, "time", (double)(long long)((clock_seconds() - r->start) * 1e6) / 1e6);
        str_append(&line, str_text(rest));
        str_append(&line, "}");
        if (r->on_event) r->on_event(r->event_arg, str_text(&line));
        str_append(&line, "\n");
        if (r->events && said) {
            uint64_t begin = next_line(r);
            atomic_store(&said->begin, begin);
            atomic_store(&said->end, begin + strlen(str_text(&line)));
        }
        if (r->events && (print_raw(r->events, str_text(&line)) != 0 || print_flush(r->events) != 0) && !r->events_lost)
            r->events_lost = errno;
        str_free(&line);
    }
    mark_said(said, SAID_EVENT);
    str_free(rest);
}

/* The process before was killed over one line at most: whole, it counts as said; of a part nothing stays. */
static void settle_events(report *r)
{
    uint64_t now = next_line(r);
    for (const supervised_note *n = supervised_next(NULL); n; n = supervised_next(n)) {
        supervised_said *said = (supervised_said *)(uintptr_t)&n->said; /* the notes are ours to write */
        uint64_t begin = atomic_load(&said->begin), end = atomic_load(&said->end);
        if (!begin || was_said(said, SAID_EVENT)) continue;
        if (now >= end)
            mark_said(said, SAID_EVENT);
        else if (now > begin && r->events != stdout && ftruncate(fileno(r->events), (off_t)begin) != 0)
            r->events_lost = errno;
        atomic_store(&said->begin, 0); /* others' lines go there now */
    }
}

static void node_fields(const report *r, str *s, size_t i)
{
    json_text(s, "node", name_of(r, i));
    json_text(s, "type", type_of(r, i));
    if (r->rows.total) str_printf(s, ", \"row\": %zu", r->rows.number[r->rows.part_of[i]]);
}

static void trace_item(report *r, const char *name, const char *category, double start, double seconds, int lane,
                       const char *detail)
{
    if (!r->trace) return;
    str s = {0};
    str_append(&s, r->trace_items++ ? ",\n{\"ph\": \"X\", \"pid\": 1" : "{\"ph\": \"X\", \"pid\": 1");
    str_printf(&s, ", \"tid\": %d", lane);
    json_text(&s, "name", name);
    json_text(&s, "cat", category);
    str_printf(&s, ", \"ts\": %.3f, \"dur\": %.3f", (start - r->start) * 1e6, seconds * 1e6);
    if (detail) {
        str_append(&s, ", \"args\": {\"detail\": ");
        str_json(&s, detail, strlen(detail), 1);
        str_char(&s, '}');
    }
    str_char(&s, '}');
    int lost = print_raw(r->trace, str_text(&s)) != 0 || (supervision && print_flush(r->trace) != 0);
    if (lost && !r->trace_lost) r->trace_lost = errno;
    str_free(&s);
}

/* ---- the terminal ---- */

static void clear_bar(report *r)
{
    if (r->bar_drawn) print_raw(stderr, "\r\033[K");
    r->bar_drawn = 0;
}

static size_t columns(void)
{
    struct winsize size;
    const char *wanted = getenv("COLUMNS");
    uint64_t n = 0;
    if (wanted && str_to_u64(wanted, strlen(wanted), &n) && n >= 10 && n < 10000) return (size_t)n;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 10 ? size.ws_col : 80;
}

/* "about 3 min left" of a sweep, from the rows finished so far. */
static void rows_left(const report *r, char text[48])
{
    size_t here = r->rows_done - r->rows_before, left = r->rows.total - r->rows_done;
    double seconds = here ? (clock_seconds() - r->start) / (double)here * (double)left : 0;
    text[0] = '\0';
    if (!here || !left) return;
    if (seconds < 120)
        snprintf(text, 48, ", %.0f s left", seconds);
    else if (seconds < 7200)
        snprintf(text, 48, ", %.0f min left", seconds / 60);
    else
        snprintf(text, 48, ", %.1f h left", seconds / 3600);
}

/* "2.1 it/s, 8 s left" from what this node has done so far; "" while that is nothing. */
static void pace(double spent, uint64_t done, uint64_t total, char text[64])
{
    double each = done ? spent / (double)done : 0, left = each * (double)(total - done);
    text[0] = '\0';
    if (!total || !done || done > total || !(each > 0)) return;
    int n = each < 1 ? snprintf(text, 64, "%.1f it/s", 1 / each) : snprintf(text, 64, "%.1f s/it", each);
    if (done == total) return;
    if (left < 120)
        snprintf(text + n, 64 - (size_t)n, ", %.0f s left", left);
    else
        snprintf(text + n, 64 - (size_t)n, ", %.0f min left", left / 60);
}

/* The longest form that fits: what says least goes first. */
static void node_line(const report *r, size_t node, uint64_t done, uint64_t total, const char *what, size_t width,
                      char *line, size_t capacity)
{
    char cells[BAR_CELLS + 1], rest[64], of[48];
    size_t filled = total ? (size_t)(done * BAR_CELLS / total) : 0;
    for (size_t i = 0; i < BAR_CELLS; i++) cells[i] = i < filled ? '#' : '.';
    cells[BAR_CELLS] = '\0';
    pace(clock_seconds() - r->node_start[node], done, total, rest);
    const char *comma = rest[0] ? ", " : "";
    snprintf(of, sizeof of, "%llu/%llu", (unsigned long long)done, (unsigned long long)total);
    for (int form = 0; form < 4; form++) {
        int n = form == 0   ? snprintf(line, capacity, "[%zu/%zu] %s (%s) %s %s %s%s%s", r->done + 1, r->total,
                                       name_of(r, node), type_of(r, node), cells, what, of, comma, rest)
                : form == 1 ? snprintf(line, capacity, "[%zu/%zu] %s %s %s%s%s", r->done + 1, r->total,
                                       name_of(r, node), cells, of, comma, rest)
                : form == 2 ? snprintf(line, capacity, "%s %s%s%s", name_of(r, node), of, comma, rest)
                            : snprintf(line, capacity, "%s%s%s", of, comma, rest);
        if (n >= 0 && (size_t)n <= width) return;
    }
}

/* The longest form that fits, as of node_line; the time left is the sweep's. */
static void row_line(const report *r, size_t node, uint64_t done, uint64_t total, const char *what, size_t width,
                     char *line, size_t capacity)
{
    char cells[BAR_CELLS + 1], left[48], rate[64], of[48], rows[64];
    size_t filled = r->rows_done * BAR_CELLS / r->rows.total, part = r->rows.part_of[node], row = r->rows.number[part];
    for (size_t i = 0; i < BAR_CELLS; i++) cells[i] = i < filled ? '#' : '.';
    cells[BAR_CELLS] = '\0';
    rows_left(r, left);
    pace(clock_seconds() - r->node_start[node], done, total, rate);
    rate[strcspn(rate, ",")] = '\0';
    const char *comma = rate[0] ? ", " : "";
    snprintf(rows, sizeof rows, "%zu/%zu rows", r->rows_done, r->rows.total);
    snprintf(of, sizeof of, "%llu/%llu", (unsigned long long)done, (unsigned long long)total);
    for (int form = 0; form < 5; form++) {
        int n = form == 0   ? snprintf(line, capacity, "%s %s%s; row %zu (%.120s): %.60s %s %s%s%s", cells, rows, left,
                                       row, r->rows.label[part], name_of(r, node), what, of, comma, rate)
                : form == 1 ? snprintf(line, capacity, "%s%s; row %zu: %.60s %s%s%s", rows, left, row, name_of(r, node),
                                       of, comma, rate)
                : form == 2 ? snprintf(line, capacity, "%s%s; %s%s%s", rows, left, of, comma, rate)
                : form == 3 ? snprintf(line, capacity, "%s%s", rows, left)
                            : snprintf(line, capacity, "%s", rows);
        if (n >= 0 && (size_t)n <= width) return;
    }
}

static void draw_bar(report *r, size_t node, uint64_t done, uint64_t total, const char *what)
{
    char line[512], shown[512];
    size_t width = columns() - 1;
    if (r->rows.total)
        row_line(r, node, done, total, what, width, line, sizeof line);
    else
        node_line(r, node, done, total, what, width, line, sizeof line);
    text_escape(shown, width < sizeof shown ? width + 1 : sizeof shown, line, strlen(line));
    print_text(stderr, "\r\033[K%s", shown);
    print_flush(stderr);
    r->bar_drawn = 1;
}

__attribute__((format(printf, 2, 3))) static void say(report *r, const char *fmt, ...)
{
    va_list args;
    char line[FORMAT_SIZE];
    clear_bar(r);
    snprintf(line, sizeof line, "%s\n", fmt); /* one write: others write to the same terminal */
    va_start(args, fmt);
    print_textv(stderr, line, args);
    va_end(args);
}

static void note_skipped(report *r, const char *name)
{
    if (r->n_skipped++ < SKIPPED_SHOWN) str_printf(&r->skipped, "%s'%.60s'", r->skipped.len ? ", " : "", name);
}

static void say_skipped(report *r)
{
    size_t more = r->n_skipped > SKIPPED_SHOWN ? r->n_skipped - SKIPPED_SHOWN : 0;
    if (r->n_skipped && more)
        say(r, "kiln: skipped, because what they need failed: %s and %zu more", str_text(&r->skipped), more);
    else if (r->n_skipped)
        say(r, "kiln: skipped, because what %s failed: %s", r->n_skipped > 1 ? "they need" : "it needs",
            str_text(&r->skipped));
    str_free(&r->skipped);
    r->n_skipped = 0;
}

/* ---- public ---- */

/* A run that begins again after a crash goes on in its files. */
static FILE *open_file(const char *path, error *e)
{
    if (strcmp(path, "-") == 0) return stdout;
    FILE *f = fopen(path, supervised_again() ? "a" : "w");
    if (!f) error_set(e, KILN_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
    return f;
}

report *report_open(const report_setting *s, error *e)
{
    report *r = mem_calloc(1, sizeof *r);
    if (!r) return error_set(e, KILN_ERR_NOMEM, "out of memory"), NULL;
    *r = (report){.w = s->workflow,
                  .quiet = s->quiet,
                  .verbose = s->verbose,
                  .on_event = s->on_event,
                  .event_arg = s->arg,
                  .events_path = s->events,
                  .trace_path = s->trace,
                  .bar = !s->quiet && terminal_moves(),
                  .start = supervision ? supervision->began : clock_seconds()};
    pthread_mutex_init(&r->lock, NULL);
    r->node_start = mem_calloc(s->workflow->n + 1, sizeof *r->node_start);
    r->node_line = mem_calloc(s->workflow->n + 1, sizeof *r->node_line);
    int ok = r->node_start && r->node_line;
    if (!ok) error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (ok && s->events) ok = (r->events = open_file(s->events, e)) != NULL;
    if (ok && s->trace) ok = (r->trace = open_file(s->trace, e)) != NULL;
    if (!ok) {
        report_close(r, NULL, NULL, NULL);
        return NULL;
    }
    if (supervised_again() && r->events) settle_events(r);
    if (supervised_again()) return r->trace_items = r->trace && ftell(r->trace) > TRACE_HEAD, r;
    if (r->trace) print_raw(r->trace, "{\"traceEvents\": [\n"), print_flush(r->trace);
    str fields = {0};
    json_text(&fields, "workflow", s->workflow->doc->path);
    emit(r, "run_start", &fields, NULL);
    return r;
}

kiln_status report_rows_set(report *r, const workflow *w, const report_rows *rows, size_t done, error *e)
{
    double *start = mem_calloc(w->n + 1, sizeof *start), *line = mem_calloc(w->n + 1, sizeof *line);
    if (!start || !line) {
        mem_free(start), mem_free(line);
        return error_set(e, KILN_ERR_NOMEM, "out of memory");
    }
    pthread_mutex_lock(&r->lock);
    mem_free(r->node_start), mem_free(r->node_line);
    r->node_start = start, r->node_line = line;
    r->w = w;
    if (!r->rows.total) r->rows_before = done;
    r->rows = *rows;
    r->rows_done = done;
    pthread_mutex_unlock(&r->lock);
    return KILN_OK;
}

void report_row(report *r, size_t part, const row_end *end)
{
    str fields = {0};
    pthread_mutex_lock(&r->lock);
    r->rows_done++;
    str_printf(&fields, ", \"row\": %zu", r->rows.number[part]);
    json_text(&fields, "label", r->rows.label[part]);
    json_text(&fields, "status", end->status);
    json_number(&fields, "seconds", (double)(long long)(end->seconds * 1e6) / 1e6);
    str_append(&fields, ", \"files\": [");
    for (size_t i = 0; i < end->n_file; i++) {
        str_append(&fields, i ? ", " : "");
        str_json(&fields, end->file[i], strlen(end->file[i]), 1);
    }
    str_char(&fields, ']');
    if (end->message) json_text(&fields, "message", end->message);
    emit(r, "row_done", &fields, NULL);
    if (!r->quiet && (!r->bar || r->verbose)) {
        char left[48];
        rows_left(r, left);
        say(r, "[%zu/%zu] row %zu (%s) %s, %.2f s%s", r->rows_done, r->rows.total, r->rows.number[part],
            r->rows.label[part], end->status, end->seconds, left);
    }
    pthread_mutex_unlock(&r->lock);
}

/* Whoever reads events through a pipe may have enough of them: that is no failure of the run. */
static kiln_status close_file(FILE *f, const char *path, int lost, error *e)
{
    if (!f) return KILN_OK;
    if (print_flush(f) != 0 && !lost) lost = errno;
    if (f != stdout && fclose(f) != 0 && !lost) lost = errno;
    return lost == 0 || lost == EPIPE ? KILN_OK
                                      : error_set(e, KILN_ERR_IO, "%s: cannot write: %s",
                                                  strcmp(path, "-") == 0 ? "standard output" : path, strerror(lost));
}

kiln_status report_close(report *r, const run_summary *summary, const char *status, error *e)
{
    if (!r) return KILN_OK;
    pthread_mutex_lock(&r->lock);
    clear_bar(r);
    say_skipped(r);
    if (summary) {
        str fields = {0};
        json_text(&fields, "status", status);
        str_printf(&fields, ", \"ran\": %zu, \"fetched\": %zu, \"shared\": %zu, \"failed\": %zu, \"skipped\": %zu",
                   summary->ran, summary->fetched, summary->shared, summary->failed, summary->skipped);
        emit(r, "run_done", &fields, NULL);
    }
    if (r->trace) print_raw(r->trace, "\n]}\n");
    kiln_status events = close_file(r->events, r->events_path, r->events_lost, e),
                trace = close_file(r->trace, r->trace_path, r->trace_lost, e);
    pthread_mutex_unlock(&r->lock);
    pthread_mutex_destroy(&r->lock);
    mem_free(r->node_start);
    mem_free(r->node_line);
    mem_free(r);
    return events != KILN_OK ? events : trace;
}

/* Nothing where nobody would read it: a run of many cheap nodes would spend a sixth of its time here. */
static void event_fields(const report *r, const run_event *ev, str *fields)
{
    char key[33];
    if (!is_listened_to(r)) return;
    node_fields(r, fields, ev->node);
    if (ev->kind == RUN_NODE_DONE || ev->kind == RUN_NODE_FETCHED || ev->kind == RUN_NODE_FAILED)
        json_number(fields, "seconds", (double)(long long)(ev->seconds * 1e6) / 1e6);
    if (ev->kind == RUN_NODE_DONE || ev->kind == RUN_NODE_FETCHED || ev->kind == RUN_NODE_SHARED) {
        json_text(fields, "key", digest_hex(r->w->node[ev->node].key, key));
        str_printf(fields, ", \"cached\": %s", ev->kind == RUN_NODE_DONE ? "false" : "true");
        json_text(fields, "from",
                  ev->kind == RUN_NODE_DONE      ? "computed"
                  : ev->kind == RUN_NODE_FETCHED ? "cache"
                                                 : "shared");
    }
    if (ev->kind == RUN_NODE_FAILED) json_text(fields, "message", ev->failure->message);
    if (ev->kind == RUN_NODE_SKIPPED) json_text(fields, "because", ev->because);
}

/* One call of a mapped node. */
static void report_item(report *r, const run_event *ev)
{
    str fields = {0};
    char key[33];
    int fetched = ev->kind == RUN_ITEM_FETCHED;
    pthread_mutex_lock(&r->lock);
    node_fields(r, &fields, ev->node);
    str_printf(&fields, ", \"item\": %zu, \"items\": %zu", ev->item->index + 1, ev->item->n);
    json_number(&fields, "seconds", (double)(long long)(ev->seconds * 1e6) / 1e6);
    json_text(&fields, "key", digest_hex(ev->item->key, key));
    str_printf(&fields, ", \"cached\": %s", fetched ? "true" : "false");
    emit(r, "item_done", &fields, ev->said);
    if (r->verbose && !r->quiet)
        say(r, "%s (%s): item %zu of %zu %s", name_of(r, ev->node), type_of(r, ev->node), ev->item->index + 1,
            ev->item->n, fetched ? "from the cache" : "computed");
    mark_said(ev->said, SAID_LINE);
    pthread_mutex_unlock(&r->lock);
}

void report_event(report *r, const run_event *ev)
{
    if (ev->item) {
        if (!was_said(ev->said, SAID_ALL)) report_item(r, ev);
        return;
    }
    static const char *const name[] = {"node_start", "node_done",   "node_done",
                                       "node_done",  "node_failed", "node_skipped"};
    str fields = {0};
    assert(ev->kind < sizeof name / sizeof name[0]); /* estimates report nothing */
    pthread_mutex_lock(&r->lock);
    r->done = ev->done;
    r->total = ev->total;
    if (ev->kind == RUN_NODE_START) r->node_start[ev->node] = r->node_line[ev->node] = clock_seconds();
    event_fields(r, ev, &fields);
    emit(r, name[ev->kind], &fields, ev->said);
    if (was_said(ev->said, SAID_LINE)) {
        pthread_mutex_unlock(&r->lock);
        return;
    }
    const char *n = name_of(r, ev->node), *t = type_of(r, ev->node);
    char row[256] = "";
    if (r->rows.total)
        snprintf(row, sizeof row, "row %zu (%.200s): ", r->rows.number[r->rows.part_of[ev->node]],
                 r->rows.label[r->rows.part_of[ev->node]]);
    int lines = !r->quiet && (r->verbose || (!r->rows.total && !r->bar)); /* a sweep has a line a row */
    if (ev->kind == RUN_NODE_DONE) trace_item(r, n, "node", ev->start, ev->seconds, 1, t);
    if (ev->kind == RUN_NODE_FAILED && ev->failure->status != KILN_CANCELLED)
        say(r, "kiln: error: %s%s", row, ev->failure->message);
    r->stopped |= ev->kind == RUN_NODE_FAILED && ev->failure->status == KILN_CANCELLED;
    if (ev->kind == RUN_NODE_SKIPPED && !r->rows.total && !r->verbose && !r->stopped) note_skipped(r, n);
    if (ev->kind == RUN_NODE_SKIPPED && r->verbose)
        say(r, "kiln: %snode '%s' (%s) is skipped, because '%s' %s", row, n, t, ev->because,
            r->stopped ? "was stopped" : "failed");
    if (ev->kind == RUN_NODE_DONE && (lines || (!r->quiet && !r->rows.total && ev->seconds > 0.5)))
        say(r, "[%zu/%zu] %s%s (%s) %.2f s", ev->done, ev->total, row, n, t, ev->seconds);
    if (ev->kind == RUN_NODE_FETCHED && lines)
        say(r, "[%zu/%zu] %s%s (%s) from the cache", ev->done, ev->total, row, n, t);
    if (!r->quiet && ev->kind == RUN_NODE_SHARED && r->verbose)
        say(r, "[%zu/%zu] %s%s (%s) same as another node", ev->done, ev->total, row, n, t);
    mark_said(ev->said, SAID_LINE);
    pthread_mutex_unlock(&r->lock);
}

void report_progress(report *r, size_t node, uint64_t done, uint64_t total, const char *what)
{
    pthread_mutex_lock(&r->lock);
    double t = clock_seconds();
    int changed = total == 0 || done == total || t - r->last_draw > DRAW_EVERY;
    if ((r->events || r->on_event) && changed) {
        str fields = {0};
        node_fields(r, &fields, node);
        json_text(&fields, "what", what);
        str_printf(&fields, ", \"done\": %llu, \"total\": %llu", (unsigned long long)done, (unsigned long long)total);
        emit(r, "progress", &fields, NULL);
    }
    if (r->bar && changed) draw_bar(r, node, done, total, what);
    if (changed) r->last_draw = t;
    if (!r->bar && !r->quiet && total && t - r->node_line[node] > LINE_EVERY) {
        r->node_line[node] = t;
        if (r->rows.total)
            say(r, "row %zu (%s), %s: %s %llu/%llu", r->rows.number[r->rows.part_of[node]],
                r->rows.label[r->rows.part_of[node]], name_of(r, node), what, (unsigned long long)done,
                (unsigned long long)total);
        else
            say(r, "%s (%s): %s %llu/%llu", name_of(r, node), type_of(r, node), what, (unsigned long long)done,
                (unsigned long long)total);
    }
    pthread_mutex_unlock(&r->lock);
}

enum { LINES_SHOWN = 100 };

/* What an output node says is a result, like the files of others. */
static void show_text(report *r, size_t node, const char *text)
{
    char row[256] = "";
    size_t lines = 0, whole = strcspn(text, "\n");
    if (r->rows.total)
        snprintf(row, sizeof row, "row %zu (%s), ", r->rows.number[r->rows.part_of[node]],
                 r->rows.label[r->rows.part_of[node]]);
    if (!text[whole]) {
        say(r, "%s%s (%s): %s", row, name_of(r, node), type_of(r, node), text);
        return;
    }
    say(r, "%s%s (%s):", row, name_of(r, node), type_of(r, node));
    for (; *text && lines < LINES_SHOWN; lines++, whole = strcspn(text, "\n")) {
        say(r, "    %.*s", (int)(whole < INT_MAX ? whole : INT_MAX), text);
        text += whole + (text[whole] != '\0');
    }
    if (*text) say(r, "    ... and more; SaveText writes all of it");
}

void report_draft(report *r, size_t node, const char *text)
{
    str fields = {0};
    pthread_mutex_lock(&r->lock);
    node_fields(r, &fields, node);
    json_text(&fields, "text", text);
    emit(r, "draft", &fields, NULL);
    if (!r->quiet && r->w->node[node].type->flags & KILN_NODE_OUTPUT) show_text(r, node, text);
    pthread_mutex_unlock(&r->lock);
}

void report_preview(report *r, size_t node, const uint8_t *rgb, uint32_t width, uint32_t height)
{
    str fields = {0};
    pthread_mutex_lock(&r->lock);
    node_fields(r, &fields, node);
    str_printf(&fields, ", \"width\": %u, \"height\": %u, \"rgb\": \"", width, height);
    str_base64(&fields, rgb, (size_t)width * height * 3);
    str_append(&fields, "\"");
    emit(r, "preview", &fields, NULL);
    pthread_mutex_unlock(&r->lock);
}

void report_note(report *r, size_t node, const char *text)
{
    str fields = {0};
    pthread_mutex_lock(&r->lock);
    node_fields(r, &fields, node);
    json_text(&fields, "text", text);
    emit(r, "note", &fields, NULL);
    if (r->verbose) say(r, "%s (%s): %s", name_of(r, node), type_of(r, node), text);
    pthread_mutex_unlock(&r->lock);
}

void report_link(report *r, size_t node, const device_traffic *moved)
{
    str fields = {0};
    char in[16], out[16];
    pthread_mutex_lock(&r->lock);
    node_fields(r, &fields, node);
    str_printf(&fields, ", \"in\": %llu, \"out\": %llu, \"copies\": %llu", (unsigned long long)moved->in,
               (unsigned long long)moved->out, (unsigned long long)moved->copies);
    emit(r, "link", &fields, NULL);
    if (r->verbose)
        say(r, "%s (%s): link: %s in, %s out, %llu copies", name_of(r, node), type_of(r, node),
            str_bytes(in, moved->in), str_bytes(out, moved->out), (unsigned long long)moved->copies);
    pthread_mutex_unlock(&r->lock);
}

void report_file(report *r, size_t node, const char *path, supervised_said *said)
{
    str fields = {0};
    pthread_mutex_lock(&r->lock);
    node_fields(r, &fields, node);
    json_text(&fields, "path", path);
    emit(r, "file", &fields, said);
    clear_bar(r);
    if (!was_said(said, SAID_LINE)) {
        if (r->events != stdout) print_text(stdout, "%s\n", path); /* results, so also when quiet */
        print_flush(stdout);
        mark_said(said, SAID_LINE);
    }
    pthread_mutex_unlock(&r->lock);
}

void report_op(void *arg, const op_trace *did)
{
    report *r = arg;
    if (!r->trace) return;
    pthread_mutex_lock(&r->lock);
    char detail[512];
    snprintf(detail, sizeof detail, "%s/%s %s %.3f GFLOP", did->program, did->scope, did->kernel,
             (double)did->flops * 1e-9);
    trace_item(r, did->op, "op", did->start, did->seconds, 2, detail);
    pthread_mutex_unlock(&r->lock);
}
