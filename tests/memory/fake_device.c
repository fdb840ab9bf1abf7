/* fake_device.c - see fake_device.h. */
#include "fake_device.h"

#include "backend/reference/reference.h"
#include "kiln/plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256, GUARD = 256, BLOCKS_TOP = 8192, JOBS_TOP = 1 << 16 };
static const unsigned char guard_byte = 0xA5, fresh_byte = 0xEE, freed_byte = 0xDD;

typedef enum { JOB_COPY, JOB_KERNEL, JOB_CALL, JOB_RECORD, JOB_WAIT, JOB_LAUNCH } job_kind;

struct device_event {
    uint64_t recorded, happened; /* versions */
    int alive;
};

typedef struct {
    job_kind kind;
    device_stream *stream;
    void *dst;
    const void *src;
    size_t bytes;
    const kernel *kernel;
    kernel_args args;
    void (*call)(void *);
    void *arg;
    device_event *event;
    uint64_t version;
    device_graph *graph;
} job;

struct device_stream {
    job *queue;
    size_t n, at, capacity;
    int captured;    /* by the capture that goes on */
    uint64_t joined; /* jobs of it in the capture that the origin has waited for */
};

struct device_graph {
    job *queue;
    size_t n;
};

static struct {
    memory_device base;
    fake_setting setting;
    fake_report report;
    uint64_t random;
    char *arena;
    struct {
        size_t at, bytes;
        int live;
    } block[BLOCKS_TOP];
    size_t n_block, taken;
    struct {
        char *data;
        size_t bytes;
    } host[BLOCKS_TOP];
    size_t n_host;
    device_stream *stream[16];
    size_t n_stream;
    device_stream *origin; /* of a capture */
    job captured[JOBS_TOP];
    size_t n_captured;
    int broken; /* the capture */
    kiln_status lost;
    uint64_t calls_from;
} fake;

static uint64_t draw(void)
{
    uint64_t z = (fake.random += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void fault(const char *text)
{
    if (fake.report.faults++ < 10 && !fake.setting.hasty) printf("  fake device: %s\n", text);
}

/* A lost device does nothing any more of what it was given. */
static void lose(void)
{
    fake.lost = KILN_ERR_IO;
    for (size_t s = 0; s < fake.n_stream; s++) {
        device_stream *x = fake.stream[s];
        for (; x->at < x->n; x->at++)
            if (x->queue[x->at].kind == JOB_RECORD) x->queue[x->at].event->happened = x->queue[x->at].version;
        x->at = x->n = 0;
    }
}

/* One more call: KILN_OK, or the failure that is due. */
static kiln_status called(kiln_status failure, error *e)
{
    uint64_t n = fake.report.calls++ - fake.calls_from;
    if (fake.lost != KILN_OK) return error_set(e, KILN_ERR_IO, "the device is lost");
    if (fake.setting.fail_at < 0 || n != (uint64_t)fake.setting.fail_at) return KILN_OK;
    if (fake.setting.fail_for_good) lose();
    fake.broken = 1; /* a capture that goes on is none any more */
    return error_set(e, failure, failure == KILN_ERR_NOMEM ? "the device has no memory left" : "the device failed");
}

/* ---- memory ---- */

static int by_place(const void *a, const void *b)
{
    const size_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The lowest gap that holds it, guards included. */
static int find_gap(size_t bytes, size_t *out)
{
    static size_t place[BLOCKS_TOP][2];
    size_t n = 0, at = 0;
    for (size_t i = 0; i < fake.n_block; i++)
        if (fake.block[i].live)
            place[n][0] = fake.block[i].at - GUARD,
            place[n++][1] = fake.block[i].at + (fake.block[i].bytes + ALIGN - 1) / ALIGN * ALIGN + GUARD;
    qsort(place, n, sizeof place[0], by_place);
    for (size_t i = 0; i < n; i++) {
        if (place[i][0] >= at + bytes + 2 * GUARD) break;
        if (place[i][1] > at) at = place[i][1];
    }
    *out = at + GUARD;
    return 1;
}

static kiln_status fake_alloc(memory_device *d, size_t bytes, void **out, error *e)
{
    size_t at, b = 0;
    (void)d;
    TRY(called(KILN_ERR_NOMEM, e));
    if (fake.origin) fault("memory is asked for while a graph is captured"), fake.broken = 1;
    if (fake.report.used + fake.taken + bytes > fake.setting.bytes || !find_gap(bytes, &at))
        return error_set(e, KILN_ERR_NOMEM, "the device has no memory left");
    while (b < fake.n_block && fake.block[b].live) b++;
    if (b == BLOCKS_TOP) return error_set(e, KILN_ERR_NOMEM, "too many blocks");
    if (b == fake.n_block) fake.n_block++;
    fake.block[b].at = at, fake.block[b].bytes = bytes, fake.block[b].live = 1;
    memset(fake.arena + at - GUARD, guard_byte, GUARD);
    memset(fake.arena + at, fresh_byte, bytes);
    memset(fake.arena + at + bytes, guard_byte, GUARD);
    fake.report.used += bytes;
    if (fake.report.used > fake.report.peak) fake.report.peak = fake.report.used;
    *out = fake.arena + at;
    return KILN_OK;
}

static void check_guards(size_t b)
{
    const unsigned char *p = (const unsigned char *)fake.arena + fake.block[b].at;
    for (size_t i = 1; i <= GUARD; i++)
        if (p[-(ptrdiff_t)i] != guard_byte || p[fake.block[b].bytes + i - 1] != guard_byte) {
            fault("something was written beside a block");
            return;
        }
}

static int touches(const void *p, size_t n, size_t b)
{
    const char *from = fake.arena + fake.block[b].at, *to = from + fake.block[b].bytes;
    return p && (const char *)p < to && (const char *)p + (n ? n : 1) > from;
}

static int job_touches(const job *j, size_t b)
{
    if (j->kind == JOB_COPY) return touches(j->dst, j->bytes, b) || touches(j->src, j->bytes, b);
    if (j->kind == JOB_LAUNCH) {
        for (size_t i = 0; i < j->graph->n; i++)
            if (job_touches(&j->graph->queue[i], b)) return 1;
        return 0;
    }
    if (j->kind != JOB_KERNEL) return 0;
    for (int k = 0; k < OP_MAX_IN; k++)
        if (touches(j->args.in[k], 1, b)) return 1;
    return touches(j->args.out, 1, b);
}

static void fake_release(memory_device *d, void *p)
{
    (void)d;
    if (!p) return;
    for (size_t b = 0; b < fake.n_block; b++) {
        if (!fake.block[b].live || fake.arena + fake.block[b].at != (char *)p) continue;
        for (size_t s = 0; s < fake.n_stream; s++)
            for (size_t i = fake.stream[s]->at; i < fake.stream[s]->n; i++)
                if (job_touches(&fake.stream[s]->queue[i], b)) {
                    fault("memory is given back that enqueued work uses");
                    s = fake.n_stream - 1;
                    break;
                }
        check_guards(b);
        memset(p, freed_byte, fake.block[b].bytes);
        fake.block[b].live = 0;
        fake.report.used -= fake.block[b].bytes;
        return;
    }
    fault("memory is given back that was not given");
}

static kiln_status fake_host_alloc(memory_device *d, size_t bytes, void **out, error *e)
{
    (void)d;
    TRY(called(KILN_ERR_NOMEM, e));
    char *p = fake.n_host < BLOCKS_TOP ? malloc(bytes ? bytes : 1) : NULL;
    if (!p) return error_set(e, KILN_ERR_NOMEM, "no page-locked memory");
    memset(p, fresh_byte, bytes);
    fake.host[fake.n_host].data = p, fake.host[fake.n_host++].bytes = bytes;
    *out = p;
    return KILN_OK;
}

static void fake_host_release(memory_device *d, void *p)
{
    (void)d;
    for (size_t i = 0; i < fake.n_host; i++) {
        if (fake.host[i].data != (char *)p) continue;
        for (size_t s = 0; s < fake.n_stream; s++)
            for (size_t k = fake.stream[s]->at; k < fake.stream[s]->n; k++) {
                const job *j = &fake.stream[s]->queue[k];
                if (j->kind == JOB_COPY &&
                    (((const char *)j->src >= fake.host[i].data &&
                      (const char *)j->src < fake.host[i].data + fake.host[i].bytes) ||
                     ((char *)j->dst >= fake.host[i].data && (char *)j->dst < fake.host[i].data + fake.host[i].bytes)))
                    fault("page-locked memory is given back that a copy uses"), k = fake.stream[s]->n - 1;
            }
        memset(p, freed_byte, fake.host[i].bytes);
        free(p);
        fake.host[i] = fake.host[--fake.n_host];
        return;
    }
    if (p) fault("page-locked memory is given back that was not given");
}

static int is_locked(const void *p, size_t n)
{
    for (size_t i = 0; i < fake.n_host; i++)
        if ((const char *)p >= fake.host[i].data && (const char *)p + n <= fake.host[i].data + fake.host[i].bytes)
            return 1;
    return 0;
}

/* ---- what happens ---- */

static int ready(const job *j) { return j->kind != JOB_WAIT || fake.setting.deaf || j->event->happened >= j->version; }

static void happen(const job *j);

/* A graph's own streams, in any order its events allow. */
static void run_graph(const device_graph *g)
{
    static unsigned char done[JOBS_TOP];
    memset(done, 0, g->n);
    for (size_t left = g->n; left > 0;) {
        size_t can[16], n = 0;
        device_stream *seen[16];
        for (size_t i = 0; i < g->n; i++) {
            size_t s = 0;
            if (done[i]) continue;
            while (s < n && seen[s] != g->queue[i].stream) s++;
            if (s < n) continue;
            seen[n] = g->queue[i].stream, can[n++] = i; /* the first of its stream that is left */
        }
        size_t may[16], n_may = 0;
        for (size_t i = 0; i < n; i++)
            if (ready(&g->queue[can[i]])) may[n_may++] = can[i];
        if (!n_may) {
            fault("a graph waits for what never happens");
            return;
        }
        size_t i = may[draw() % n_may];
        done[i] = 1, left--;
        happen(&g->queue[i]);
    }
}

static void happen(const job *j)
{
    error e = {0};
    switch (j->kind) {
    case JOB_COPY: memcpy(j->dst, j->src, j->bytes); break;
    case JOB_KERNEL:
        if (j->kernel->run(j->kernel, &j->args, &e) != KILN_OK) fault(e.message);
        fake.report.kernels++;
        break;
    case JOB_CALL:
        j->call(j->arg);
        fake.report.kernels++;
        break;
    case JOB_RECORD:
        if (j->event->happened < j->version) j->event->happened = j->version;
        break;
    case JOB_WAIT: break;
    case JOB_LAUNCH: run_graph(j->graph); break;
    }
}

/* One thing that may happen, of a stream drawn at random; sometimes a stream's whole backlog, so that it gets
 * far before the others. */
static int step_on(void)
{
    device_stream *may[16];
    size_t n = 0;
    for (size_t s = 0; s < fake.n_stream; s++)
        if (fake.stream[s]->at < fake.stream[s]->n && ready(&fake.stream[s]->queue[fake.stream[s]->at]))
            may[n++] = fake.stream[s];
    if (!n) return 0;
    device_stream *s = may[draw() % n];
    size_t most = draw() % 4 ? 1 : 1 + draw() % 100;
    for (size_t i = 0; i < most && s->at < s->n && ready(&s->queue[s->at]); i++) happen(&s->queue[s->at++]);
    if (s->at == s->n) s->at = s->n = 0;
    return 1;
}

static void finish(device_stream *s)
{
    while (s->at < s->n)
        if (!step_on()) {
            fault("a stream waits for what never happens");
            s->at = s->n = 0;
        }
}

/* ---- streams and events ---- */

static kiln_status enqueue(const job *j, error *e)
{
    device_stream *s = j->stream;
    if (fake.origin && s->captured) {
        if (fake.n_captured == JOBS_TOP) return error_set(e, KILN_ERR_NOMEM, "too much in one graph");
        fake.captured[fake.n_captured++] = *j;
        return KILN_OK;
    }
    if (s->n == s->capacity) {
        s->capacity = s->capacity ? 2 * s->capacity : 256;
        s->queue = realloc(s->queue, s->capacity * sizeof *s->queue);
    }
    s->queue[s->n++] = *j;
    if (draw() % 8 == 0) step_on(); /* the device is at work meanwhile */
    return KILN_OK;
}

static kiln_status fake_stream_new(memory_device *d, device_stream **out, error *e)
{
    (void)d;
    TRY(called(KILN_ERR_IO, e));
    *out = fake.stream[fake.n_stream++] = calloc(1, sizeof **out);
    return KILN_OK;
}

static void fake_stream_free(memory_device *d, device_stream *s)
{
    (void)d;
    finish(s);
    for (size_t i = 0; i < fake.n_stream; i++)
        if (fake.stream[i] == s) fake.stream[i] = fake.stream[--fake.n_stream];
    free(s->queue);
    free(s);
}

static kiln_status fake_event_new(memory_device *d, device_event **out, error *e)
{
    (void)d;
    TRY(called(KILN_ERR_IO, e));
    *out = calloc(1, sizeof **out);
    (*out)->alive = 1;
    return KILN_OK;
}

static void fake_event_free(memory_device *d, device_event *v)
{
    (void)d;
    for (size_t s = 0; s < fake.n_stream; s++)
        while (fake.stream[s]->at < fake.stream[s]->n) /* a driver keeps it until nobody needs it any more */
            if (!step_on()) break;
    free(v);
}

static kiln_status fake_record(memory_device *d, device_event *v, device_stream *s, error *e)
{
    (void)d;
    TRY(called(KILN_ERR_IO, e));
    return enqueue(&(job){.kind = JOB_RECORD, .stream = s, .event = v, .version = ++v->recorded}, e);
}

static int recorded_in_capture(const device_event *v)
{
    for (size_t i = 0; i < fake.n_captured; i++)
        if (fake.captured[i].kind == JOB_RECORD && fake.captured[i].event == v &&
            fake.captured[i].version == v->recorded)
            return 1;
    return 0;
}

static kiln_status fake_wait(memory_device *d, device_stream *s, device_event *v, error *e)
{
    (void)d;
    TRY(called(KILN_ERR_IO, e));
    if (fake.origin && recorded_in_capture(v))
        s->captured = 1; /* it joins */
    else if (fake.origin && s->captured)
        fault("a captured stream waits for an event from outside"), fake.broken = 1;
    return enqueue(&(job){.kind = JOB_WAIT, .stream = s, .event = v, .version = v->recorded}, e);
}

static kiln_status fake_sync(memory_device *d, device_stream *s, error *e)
{
    (void)d;
    if (fake.setting.at_sync) fake.setting.at_sync();
    TRY(called(KILN_ERR_IO, e));
    if (fake.origin) {
        fake.broken = 1;
        return error_set(e, KILN_ERR_IO, "a stream that is captured cannot be waited for");
    }
    finish(s);
    return KILN_OK;
}

static kiln_status fake_sync_event(memory_device *d, device_event *v, error *e)
{
    (void)d;
    TRY(called(KILN_ERR_IO, e));
    while (!fake.setting.hasty && v->happened < v->recorded)
        if (!step_on()) {
            fault("the host waits for an event that never happens");
            break;
        }
    return KILN_OK;
}

static kiln_status copy(void *dst, const void *src, size_t bytes, device_stream *s, error *e)
{
    TRY(called(KILN_ERR_IO, e));
    return enqueue(&(job){.kind = JOB_COPY, .stream = s, .dst = dst, .src = src, .bytes = bytes}, e);
}

static kiln_status fake_copy_in(memory_device *d, void *dst, const void *host, size_t bytes, device_stream *s, error *e)
{
    (void)d;
    if (!is_locked(host, bytes)) fault("a copy from memory that is not page-locked");
    if (!(fake.origin && s->captured)) fake.report.bytes_in += bytes, fake.report.copies_in++;
    return copy(dst, host, bytes, s, e);
}

static kiln_status fake_copy_out(memory_device *d, void *host, const void *src, size_t bytes, device_stream *s,
                                 error *e)
{
    (void)d;
    if (!is_locked(host, bytes)) fault("a copy to memory that is not page-locked");
    if (!(fake.origin && s->captured)) fake.report.bytes_out += bytes;
    return copy(host, src, bytes, s, e);
}

/* ---- graphs ---- */

static kiln_status fake_capture_begin(memory_device *d, device_stream *s, error *e)
{
    (void)d;
    TRY(called(KILN_ERR_IO, e));
    fake.origin = s;
    fake.n_captured = 0, fake.broken = 0;
    s->captured = 1;
    return KILN_OK;
}

/* 1: whatever another stream was given last, the origin waits for it in the end (directly: all that the offloader
 * does). */
static int all_joined(void)
{
    for (size_t s = 0; s < fake.n_stream; s++) {
        size_t last = 0, found = 0, joined = 0;
        if (!fake.stream[s]->captured || fake.stream[s] == fake.origin) continue;
        for (size_t i = 0; i < fake.n_captured; i++)
            if (fake.captured[i].stream == fake.stream[s] && fake.captured[i].kind != JOB_WAIT) last = i, found = 1;
        if (!found) continue;
        if (fake.captured[last].kind != JOB_RECORD) return 0;
        for (size_t i = last; i < fake.n_captured; i++)
            joined |= fake.captured[i].kind == JOB_WAIT && fake.captured[i].stream == fake.origin &&
                      fake.captured[i].event == fake.captured[last].event;
        if (!joined) return 0;
    }
    return 1;
}

static kiln_status fake_capture_end(memory_device *d, device_stream *s, device_graph **out, error *e)
{
    (void)d, (void)s;
    kiln_status status = called(KILN_ERR_IO, e);
    if (status == KILN_OK && !fake.broken && !all_joined()) fault("a stream of a graph is not joined"), fake.broken = 1;
    for (size_t i = 0; i < fake.n_stream; i++) fake.stream[i]->captured = 0;
    fake.origin = NULL;
    if (status != KILN_OK) return status;
    if (fake.broken) return error_set(e, KILN_ERR_IO, "what was captured is not a graph");
    *out = calloc(1, sizeof **out);
    (*out)->queue = malloc((fake.n_captured + 1) * sizeof *(*out)->queue);
    (*out)->n = fake.n_captured;
    memcpy((*out)->queue, fake.captured, fake.n_captured * sizeof *(*out)->queue);
    return KILN_OK;
}

static kiln_status fake_graph_launch(memory_device *d, device_graph *g, device_stream *s, error *e)
{
    (void)d;
    TRY(called(KILN_ERR_IO, e));
    fake.report.launches++;
    for (size_t i = 0; i < g->n; i++) { /* its events happen anew, its bytes move anew */
        job *j = &g->queue[i];
        if (j->kind == JOB_RECORD) j->version = ++j->event->recorded;
        if (j->kind == JOB_WAIT) j->version = j->event->recorded;
        if (j->kind != JOB_COPY) continue;
        if (is_locked(j->src, j->bytes))
            fake.report.bytes_in += j->bytes, fake.report.copies_in++;
        else
            fake.report.bytes_out += j->bytes;
    }
    return enqueue(&(job){.kind = JOB_LAUNCH, .stream = s, .graph = g}, e);
}

static void fake_graph_free(memory_device *d, device_graph *g)
{
    (void)d;
    for (size_t s = 0; s < fake.n_stream; s++) finish(fake.stream[s]);
    free(g->queue);
    free(g);
}

/* ---- the device ---- */

static kiln_status fake_memory(memory_device *d, size_t *free_bytes, size_t *total, error *e)
{
    (void)d;
    TRY(called(KILN_ERR_IO, e));
    size_t used = fake.report.used + fake.taken;
    *free_bytes = fake.setting.bytes > used ? fake.setting.bytes - used : 0;
    *total = fake.setting.bytes;
    return KILN_OK;
}
static void fake_close(memory_device *d) { (void)d; }
static const char *fake_name(const memory_device *d) { return (void)d, "a device that is none"; }
static device_traffic fake_traffic(const memory_device *d)
{
    (void)d;
    return (device_traffic){.in = fake.report.bytes_in, .out = fake.report.bytes_out, .copies = fake.report.copies_in};
}

#define ROWS                                                                                                           \
    .kind = KILN_CUDA, .asynchronous = 1, .alignment = ALIGN, .close = fake_close, .name = fake_name,                  \
    .memory = fake_memory, .alloc = fake_alloc, .release = fake_release, .host_alloc = fake_host_alloc,                \
    .host_release = fake_host_release, .stream_new = fake_stream_new, .stream_free = fake_stream_free,                 \
    .event_new = fake_event_new, .event_free = fake_event_free, .record = fake_record, .wait = fake_wait,              \
    .sync = fake_sync, .sync_event = fake_sync_event, .copy_in = fake_copy_in, .copy_out = fake_copy_out,              \
    .traffic = fake_traffic
static const device_table plain_table = {ROWS};
static const device_table graph_table = {ROWS, .capture_begin = fake_capture_begin, .capture_end = fake_capture_end,
                                         .graph_launch = fake_graph_launch, .graph_free = fake_graph_free};

void fake_device_open(const fake_setting *s)
{
    memset(&fake, 0, sizeof fake);
    fake.setting = *s;
    fake.random = s->seed;
    /* twice the size: guards and gaps are not the program's */
    fake.arena = aligned_alloc(ALIGN, (2 * s->bytes + (8 << 20) + ALIGN - 1) / ALIGN * ALIGN);
    fake.base.table = s->graphs ? &graph_table : &plain_table;
}

fake_report fake_device_look(void) { return fake.report; }
memory_device *fake_device_get(void) { return &fake.base; }
int fake_device_locked(const void *p, size_t bytes) { return is_locked(p, bytes); }
kiln_status fake_device_call(device_stream *s, void (*call)(void *), void *arg, error *e)
{
    TRY(called(KILN_ERR_IO, e));
    return enqueue(&(job){.kind = JOB_CALL, .stream = s, .call = call, .arg = arg}, e);
}
int fake_device_holds(const void *p, size_t bytes)
{
    for (size_t b = 0; b < fake.n_block; b++) {
        const char *data = fake.arena + fake.block[b].at;
        if (fake.block[b].live && (const char *)p >= data && (const char *)p + bytes <= data + fake.block[b].bytes)
            return 1;
    }
    return 0;
}
void fake_device_deaf(int deaf) { fake.setting.deaf = deaf; }
void fake_device_taken(size_t bytes) { fake.taken = bytes; }
void fake_device_fail_at(int64_t k, int for_good)
{
    fake.setting.fail_at = k, fake.setting.fail_for_good = for_good;
    fake.calls_from = fake.report.calls;
    fake.lost = KILN_OK;
}

fake_report fake_device_close(void)
{
    for (size_t b = 0; b < fake.n_block; b++)
        if (fake.block[b].live) fault("a block was left behind");
    if (fake.n_host) fault("page-locked memory was left behind");
    if (fake.n_stream) fault("a stream was left behind");
    for (size_t i = 0; i < fake.n_host; i++) free(fake.host[i].data);
    free(fake.arena);
    fake_report r = fake.report;
    memset(&fake, 0, sizeof fake);
    return r;
}

/* ---- the backend: plain kernels, later ---- */

typedef struct {
    kernel base;
    kernel *plain;
} fake_kernel;

static kiln_status kernel_run(const kernel *k, const kernel_args *a, error *e)
{
    TRY(called(KILN_ERR_IO, e));
    return enqueue(
        &(job){.kind = JOB_KERNEL, .stream = a->stream, .kernel = ((const fake_kernel *)k)->plain, .args = *a}, e);
}
static kiln_status kernel_pack(const kernel *k, uint32_t operand, const void *src, uint32_t dtype, void *dst, pool *p,
                               error *e)
{
    const kernel *plain = ((const fake_kernel *)k)->plain;
    return plain->pack(plain, operand, src, dtype, dst, p, e);
}
static void kernel_free(kernel *k)
{
    fake_kernel *f = (fake_kernel *)k;
    f->plain->free(f->plain);
    free(f);
}

static kiln_status fake_prepare(const op_desc *op, kernel **out, error *e)
{
    kernel *plain = NULL;
    TRY(backend_reference.prepare(op, &plain, e));
    fake_kernel *f = malloc(sizeof *f);
    f->plain = plain;
    f->base = *plain;
    f->base.run = kernel_run, f->base.pack = kernel_pack, f->base.free = kernel_free;
    *out = &f->base;
    return KILN_OK;
}
static kiln_status fake_open(unsigned index, memory_device **out, error *e)
{
    if (index) return error_set(e, KILN_ERR_UNSUPPORTED, "there is one fake device");
    *out = &fake.base;
    return KILN_OK;
}
static const char *text(void) { return "fake"; }
static uint32_t precision(void) { return KILN_F32; }
const backend fake_backend = {.name = "fake",
                              .device = KILN_CUDA,
                              .open = fake_open,
                              .features = text,
                              .numerics = text,
                              .best_precision = precision,
                              .precisions = 1u << KILN_F32 | 1u << KILN_BF16,
                              .prepare = fake_prepare};
