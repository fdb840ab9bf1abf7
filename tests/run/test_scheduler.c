/* test_scheduler.c - the run of a checked workflow, with nodes whose work is a script of this file: what is run and
 * what is not, what overlaps, what is shared, what a failure or a cancel leaves undone, and when values are let go.
 *
 * Nodes that must be seen at work together wait for one another (with a time limit), so that nothing depends on speed.
 */
#include "base/memory_alloc.h"
#include "base/str.h"
#include "harness.h"
#include "run/scheduler.h"
#include "workflow/fake_catalog.h"
#include "workflow/key.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

enum { NODES_MAX = 400, WAIT_S = 20 };

typedef struct {
    const workflow *w;
    pthread_mutex_t lock;
    pthread_cond_t met;
    int calls[NODES_MAX], fetches[NODES_MAX], events[NODES_MAX][RUN_NODE_UNKNOWN + 1];
    const char *because[NODES_MAX];
    int inside, most_inside, device, most_device, met_n, live, most_live;
    int meet;   /* how many "meet..." nodes wait for one another */
    int missed; /* a meeting that did not come about             */
    int skips;  /* RUN_NODE_SKIPPED so far */
    size_t last_done;
    atomic_int *cancel; /* "cancel..." nodes set it */
    int64_t width;      /* what the last Blank was given */
    uint64_t seed;
    char joined[200]; /* names of what the last Join was given, in order */
    int wrong;        /* an input of the wrong source */
} script;

typedef struct {
    script *of;
    const char *name;
} made;

static void made_release(void *ptr)
{
    made *m = ptr;
    pthread_mutex_lock(&m->of->lock);
    m->of->live--;
    pthread_mutex_unlock(&m->of->lock);
    free(m);
}

static kiln_value *make(script *s, const char *name)
{
    made *m = malloc(sizeof *m);
    if (!m) return NULL;
    *m = (made){s, name};
    pthread_mutex_lock(&s->lock);
    if (++s->live > s->most_live) s->most_live = s->live;
    pthread_mutex_unlock(&s->lock);
    kiln_value *v = value_object("MADE", m, made_release, NULL);
    if (!v) made_release(m);
    return v;
}

static const char *name_in(const kiln_value *v)
{
    const made *m = value_api.object(v, "MADE");
    return m ? m->name : "?";
}

static int begins(const char *name, const char *with) { return strncmp(name, with, strlen(with)) == 0; }

static void meet(script *s)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    s->met_n++;
    pthread_cond_broadcast(&s->met);
    while (s->met_n < s->meet && !s->missed)
        if (pthread_cond_timedwait(&s->met, &s->lock, &until) != 0) s->missed = 1;
}

/* Meets a node that fails, then waits until its users were skipped. */
static void await_skip(script *s)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += WAIT_S;
    pthread_mutex_lock(&s->lock);
    meet(s);
    while (!s->skips && !s->missed)
        if (pthread_cond_timedwait(&s->met, &s->lock, &until) != 0) s->missed = 1;
    pthread_mutex_unlock(&s->lock);
}

static void note_skip(script *s)
{
    pthread_mutex_lock(&s->lock);
    s->skips++;
    pthread_cond_broadcast(&s->met);
    pthread_mutex_unlock(&s->lock);
}

/* What came in is what the wiring says, or something of the same key. */
static void check_inputs(script *s, const graph_node *g, kiln_value *const *in)
{
    for (uint32_t p = 0; p < g->type->n_in; p++) {
        size_t n = g->in[p].n;
        s->wrong += (n > 0) != (in[p] != NULL);
        if (!in[p]) continue;
        int list = (node_in(g->type, p)->flags & KILN_PORT_LIST) != 0;
        if (list) s->joined[0] = '\0';
        for (size_t k = 0; k < n; k++) {
            const char *name = name_in(list ? value_api.list_at(in[p], k) : in[p]);
            const graph_node *wired = &s->w->node[g->in[p].from[k].node];
            int same = strcmp(name, wired->doc->name) == 0;
            for (size_t i = 0; i < s->w->n && !same; i++)
                same = strcmp(s->w->node[i].doc->name, name) == 0 && digest_equal(s->w->node[i].key, wired->key);
            s->wrong += !same;
            if (list) snprintf(s->joined + strlen(s->joined), sizeof s->joined - strlen(s->joined), "%s ", name);
        }
        if (list) s->wrong += value_api.count(in[p]) != n;
    }
}

static void enter(script *s, size_t i, const void *params, kiln_value *const *in)
{
    const graph_node *g = &s->w->node[i];
    pthread_mutex_lock(&s->lock);
    s->calls[i]++;
    if (++s->inside > s->most_inside) s->most_inside = s->inside;
    if ((g->type->flags & KILN_NODE_DEVICE) && ++s->device > s->most_device) s->most_device = s->device;
    check_inputs(s, g, in);
    if (strcmp(g->type->type, "Blank") == 0) s->width = ((const fake_blank_params *)params)->width;
    if (strcmp(g->type->type, "Sample") == 0) s->seed = ((const fake_sample_params *)params)->seed;
    if (begins(g->doc->name, "meet") || begins(g->doc->name, "fail_meets")) meet(s);
    if (begins(g->doc->name, "cancel")) atomic_store(s->cancel, 1);
    pthread_mutex_unlock(&s->lock);
}

static void leave(script *s, size_t i)
{
    pthread_mutex_lock(&s->lock);
    s->inside--;
    if (s->w->node[i].type->flags & KILN_NODE_DEVICE) s->device--;
    pthread_mutex_unlock(&s->lock);
}

static kiln_status call(void *self, size_t i, const void *params, kiln_value *const *in, kiln_value **out, error *e)
{
    script *s = self;
    const graph_node *g = &s->w->node[i];
    kiln_status status = KILN_OK;
    enter(s, i, params, in);
    if (g->type->flags & KILN_NODE_DEVICE)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* time for another to come in, were it let */
    if (begins(g->doc->name, "fail")) status = error_set(e, KILN_ERR_IO, "%s cannot", g->doc->name);
    if (begins(g->doc->name, "mute_fail")) status = KILN_ERR_DEVICE;
    if (begins(g->doc->name, "stopped")) status = KILN_CANCELLED;
    for (uint32_t k = 0; k < g->type->n_out && status == KILN_OK; k++) {
        if (strcmp(g->type->type, "Number") == 0 || strcmp(g->type->type, "Random") == 0)
            out[k] = value_int(((const fake_number_params *)params)->amount);
        else
            out[k] = make(s, g->doc->name);
        if (!out[k]) status = error_set(e, KILN_ERR_NOMEM, "out of memory");
    }
    if (begins(g->doc->name, "late")) { /* has its values, and does not end */
        await_skip(s);
        s->wrong += !out[0]; /* nobody takes it from a node that still runs */
    }
    leave(s, i);
    return status;
}

static void on_event(void *self, const run_event *event)
{
    script *s = self; /* one at a time, the scheduler promises: no lock of ours, so that a race would show */
    s->events[event->node][event->kind]++;
    if (event->kind == RUN_NODE_SKIPPED) s->because[event->node] = event->because, note_skip(s);
    if (event->done < s->last_done || event->done > event->total) s->wrong++;
    s->last_done = event->done;
}

typedef struct {
    document doc;
    workflow w;
    script s;
    run_summary sum;
    atomic_int cancel;
    error e;
    kiln_status status;
} bench;

static int prepare(bench *b, const char *text)
{
    static const key_setting on = {.device = "cpu", .precision = "f32"};
    catalog_view catalog = fake_catalog();
    char path[512];
    memset(b, 0, sizeof *b);
    fake_files_folder = test_folder();
    snprintf(path, sizeof path, "%s/c", fake_files_folder);
    if (!CHECK_MSG(file_exists(path) || file_write_whole(path, "c", 1, &b->e) == KILN_OK, "%s", b->e.message)) return 0;
    pthread_mutex_init(&b->s.lock, NULL);
    pthread_cond_init(&b->s.met, NULL);
    b->s.w = &b->w;
    b->s.cancel = &b->cancel;
    b->s.meet = 2;
    if (!CHECK_MSG(document_parse(&b->doc, "t", text, strlen(text), NULL, 0, &b->e) == KILN_OK, "%s", b->e.message))
        return 0;
    int fine = workflow_check(&b->doc, &catalog, &b->w, &b->e) == KILN_OK && b->doc.n_fault == 0 &&
               b->w.n <= NODES_MAX && workflow_keys(&b->w, &on, &b->e) == KILN_OK;
    return CHECK_MSG(fine, "%s%s", b->e.message, b->doc.faults ? b->doc.faults->text : "");
}

static void go(bench *b, unsigned workers, int fail_fast)
{
    b->status =
        run_schedule(&b->w, &(run_hooks){.self = &b->s, .call = call, .event = on_event},
                     &(run_setting){.workers = workers, .fail_fast = fail_fast, .cancel = &b->cancel}, &b->sum, &b->e);
}

/* What holds after every run. */
static void finish(bench *b)
{
    CHECK_EQ(b->s.live, 0); /* every value was let go */
    CHECK_EQ(b->s.wrong, 0);
    CHECK_EQ(b->s.missed, 0);
    CHECK(b->s.most_device <= 1);
    CHECK(b->sum.ran + b->sum.fetched + b->sum.shared + b->sum.failed + b->sum.skipped <= b->sum.total);
    document_free(&b->doc);
    pthread_cond_destroy(&b->s.met);
    pthread_mutex_destroy(&b->s.lock);
}

static size_t at(const bench *b, const char *name)
{
    for (size_t i = 0; i < b->w.n; i++)
        if (strcmp(b->w.node[i].doc->name, name) == 0) return i;
    CHECK_MSG(0, "no node '%s'", name);
    return 0;
}

#define CALLS(name) b.s.calls[at(&b, (name))]
#define EVENTS(name, kind) b.s.events[at(&b, (name))][kind]

/* ---- demand ---- */

static void test_only_what_is_asked_for(void)
{
    bench b;
    REQUIRE(prepare(&b, "nodes:\n  s: {class_type: Save, inputs: {images: [d, 0]}}\n  d: {class_type: Decode, inputs: "
                        "{images: [a, 0]}}\n"
                        "  a: {class_type: Blank}\n  u: {class_type: Decode, inputs: {images: [v, 0]}}\n  v: "
                        "{class_type: Blank, inputs: {width: 64}}\n"));
    go(&b, 0, 0);
    CHECK_EQ(b.status, KILN_OK);
    CHECK_EQ(b.sum.total, 3);
    CHECK_EQ(b.sum.ran, 3);
    CHECK_EQ(b.sum.outputs_done, 1);
    CHECK_EQ(b.sum.cancelled, 0);
    CHECK_EQ(CALLS("a"), 1);
    CHECK_EQ(CALLS("d"), 1);
    CHECK_EQ(CALLS("s"), 1);
    CHECK_EQ(CALLS("u"), 0);
    CHECK_EQ(CALLS("v"), 0);
    CHECK_EQ(EVENTS("s", RUN_NODE_START), 1);
    CHECK_EQ(EVENTS("s", RUN_NODE_DONE), 1);
    CHECK_EQ(EVENTS("u", RUN_NODE_START), 0);
    finish(&b);
}

static void test_lists_keep_their_order(void)
{
    bench b;
    REQUIRE(prepare(
        &b, "nodes:\n  a: {class_type: Blank, inputs: {width: 64}}\n  b: {class_type: Blank, inputs: {width: 32}}\n"
            "  j: {class_type: Join, inputs: {images: [[b, 0], [a, 0], [b, 0]]}}\n  s: {class_type: Save, inputs: "
            "{images: [j, 0]}}\n"));
    go(&b, 0, 0);
    CHECK_EQ(b.status, KILN_OK);
    CHECK_STR(b.s.joined, "b a b ");
    finish(&b);
}

/* ---- values at hand ---- */

/* Nodes whose name begins with "known" can be fetched; those with "known_gone" are not there after all. */
static int is_known(void *self, size_t i) { return begins(((script *)self)->w->node[i].doc->name, "known"); }

static kiln_status fetch(void *self, size_t i, kiln_value **out, error *e)
{
    script *s = self;
    const graph_node *g = &s->w->node[i];
    pthread_mutex_lock(&s->lock);
    s->fetches[i]++;
    pthread_mutex_unlock(&s->lock);
    if (begins(g->doc->name, "known_gone")) return error_set(e, KILN_ERR_IO, "gone");
    for (uint32_t k = 0; k < g->type->n_out; k++)
        if (!(out[k] = make(s, g->doc->name))) return KILN_ERR_NOMEM;
    return KILN_OK;
}

static void go_knowing(bench *b, unsigned workers)
{
    b->status = run_schedule(
        &b->w, &(run_hooks){.self = &b->s, .call = call, .event = on_event, .known = is_known, .fetch = fetch},
        &(run_setting){.workers = workers, .cancel = &b->cancel}, &b->sum, &b->e);
}

#define FETCHES(name) b.s.fetches[at(&b, (name))]

static void test_what_is_known_is_not_run_nor_what_only_it_needs(void)
{
    bench b;
    REQUIRE(prepare(&b, "nodes:\n  a: {class_type: Blank}\n  known: {class_type: Decode, inputs: {images: [a, 0]}}\n  "
                        "s: {class_type: Save, inputs: {images: [known, 0]}}\n"));
    go_knowing(&b, 0);
    CHECK_EQ(b.status, KILN_OK);
    CHECK(CALLS("a") == 0 && CALLS("known") == 0 && FETCHES("known") == 1 && CALLS("s") == 1);
    CHECK(b.sum.total == 2 && b.sum.ran == 1 && b.sum.fetched == 1);
    CHECK_EQ(EVENTS("known", RUN_NODE_FETCHED), 1);
    finish(&b);
}

/* ---- nodes that cannot be called ---- */

static int is_callable(void *self, size_t i) { return !begins(((script *)self)->w->node[i].doc->name, "opaque"); }

static void test_what_cannot_be_called_is_unknown_and_so_is_what_hangs_on_it(void)
{
    bench b;
    REQUIRE(prepare(&b, "nodes:\n  a: {class_type: Blank}\n  opaque: {class_type: Decode, inputs: {images: [a, 0]}}\n"
                        "  j: {class_type: Join, inputs: {images: [[a, 0], [opaque, 0]]}}\n"
                        "  known: {class_type: Decode, inputs: {images: [j, 0]}}\n"
                        "  s: {class_type: Save, inputs: {images: [j, 0]}}\n"
                        "  t: {class_type: Save, inputs: {images: [known, 0]}}\n"));
    run_hooks hooks = {
        .self = &b.s, .call = call, .event = on_event, .known = is_known, .fetch = fetch, .can_be_called = is_callable};
    b.status = run_schedule(&b.w, &hooks, &(run_setting){.workers = 1, .cancel = &b.cancel}, &b.sum, &b.e);
    CHECK_EQ(b.status, KILN_OK);
    CHECK(CALLS("a") == 1 && CALLS("opaque") == 0 && CALLS("j") == 0 && CALLS("s") == 0);
    CHECK(FETCHES("known") == 1 && CALLS("t") == 1); /* what is at hand is not unknown, whatever made it */
    CHECK(EVENTS("opaque", RUN_NODE_UNKNOWN) == 1 && EVENTS("j", RUN_NODE_UNKNOWN) == 1 &&
          EVENTS("s", RUN_NODE_UNKNOWN) == 1 && EVENTS("t", RUN_NODE_DONE) == 1);
    CHECK(b.sum.total == 6 && b.sum.ran == 2 && b.sum.fetched == 1 && b.sum.unknown == 3 && b.s.live == 0);
    finish(&b);
}

static void test_what_another_needs_runs_although_its_user_is_known(void)
{
    bench b;
    REQUIRE(prepare(&b, "nodes:\n  a: {class_type: Blank}\n  known: {class_type: Decode, inputs: {images: [a, 0]}}\n"
                        "  j: {class_type: Join, inputs: {images: [[known, 0], [a, 0]]}}\n  s: {class_type: Save, "
                        "inputs: {images: [j, 0]}}\n"));
    go_knowing(&b, 0);
    CHECK_EQ(b.status, KILN_OK);
    CHECK(CALLS("a") == 1 && CALLS("known") == 0 && FETCHES("known") == 1);
    CHECK_STR(b.s.joined, "known a ");
    finish(&b);
}

static void test_what_is_gone_is_computed_in_another_round(void)
{
    bench b;
    REQUIRE(prepare(
        &b, "nodes:\n  a: {class_type: Blank}\n  known_gone: {class_type: Decode, inputs: {images: [a, 0]}}\n  s: "
            "{class_type: Save, inputs: {images: [known_gone, 0]}}\n"
            "  b: {class_type: Blank, inputs: {width: 64}}\n  t: {class_type: Save, inputs: {images: [b, 0]}}\n"));
    go_knowing(&b, 1);
    CHECK_EQ(b.status, KILN_OK);
    CHECK(FETCHES("known_gone") == 1 && CALLS("known_gone") == 1 && CALLS("a") == 1);
    CHECK(CALLS("s") == 1 && CALLS("t") == 1 && CALLS("b") == 1); /* what was finished is not done again */
    CHECK(b.sum.outputs_done == 2 && b.sum.failed == 0 && b.sum.skipped == 0);
    finish(&b);
}

static void test_equal_keys_are_fetched_once(void)
{
    bench b;
    REQUIRE(prepare(&b, "nodes:\n  known1: {class_type: Blank}\n  known2: {class_type: Blank}\n"
                        "  s: {class_type: Save, inputs: {images: [known1, 0]}}\n  t: {class_type: Save, inputs: "
                        "{images: [known2, 0]}}\n"));
    go_knowing(&b, 0);
    CHECK_EQ(b.status, KILN_OK);
    CHECK_EQ(FETCHES("known1") + FETCHES("known2"), 1);
    CHECK(b.sum.fetched == 1 && b.sum.shared == 1 && b.sum.ran == 2);
    finish(&b);
}

/* What comes first in the workflow is finished before what comes later is begun. */
static void test_early_nodes_come_first(void)
{
    bench b;
    str text = {0};
    str_append(&text, "nodes:\n");
    for (int i = 0; i < 20; i++)
        str_printf(&text,
                   "  a%d: {class_type: Blank, inputs: {width: %d}}\n  d%d: {class_type: Decode, inputs: {images: "
                   "[a%d, 0]}}\n  s%d: {class_type: Save, inputs: {images: [d%d, 0]}}\n",
                   i, 16 * (i + 1), i, i, i, i);
    REQUIRE(prepare(&b, str_text(&text)));
    go(&b, 1, 0);
    CHECK_EQ(b.status, KILN_OK);
    CHECK_MSG(b.s.most_live <= 3, "%d values at once", b.s.most_live);
    finish(&b);
    str_free(&text);
}

/* ---- wired parameters ---- */

static void test_wired_parameters(void)
{
    bench b;
    REQUIRE(prepare(&b, "nodes:\n  n: {class_type: Number, inputs: {amount: 96}}\n  a: {class_type: Blank, inputs: "
                        "{width: [n, 0]}}\n  s: {class_type: Save, inputs: {images: [a, 0]}}\n"));
    go(&b, 0, 0);
    CHECK_EQ(b.status, KILN_OK);
    CHECK_EQ(b.s.width, 96);
    finish(&b);
}

static void test_wired_parameters_keep_their_range(void)
{
    bench b;
    REQUIRE(prepare(&b, "nodes:\n  n: {class_type: Number, inputs: {amount: 7}}\n  a: {class_type: Blank, inputs: "
                        "{width: [n, 0]}}\n  s: {class_type: Save, inputs: {images: [a, 0]}}\n"));
    go(&b, 0, 0);
    CHECK_EQ(b.status, KILN_ERR_INVALID);
    CHECK_MSG(strstr(b.e.message, "node 'a' (Blank): wired input 'width': '7' is not a whole number from 16 to 16384"),
              "%s", b.e.message);
    CHECK_EQ(CALLS("a"), 0);
    CHECK_EQ(b.sum.failed, 1);
    CHECK_EQ(b.sum.skipped, 1);
    finish(&b);
}

static void test_a_wired_seed_has_64_bits(void)
{
    bench b;
    REQUIRE(prepare(&b, "nodes:\n  n: {class_type: Number, inputs: {amount: -1}}\n  m: {class_type: Load, inputs: "
                        "{ckpt: c}}\n  t: {class_type: Text, inputs: {clip: [m, 1]}}\n"
                        "  x: {class_type: Sample, inputs: {model: [m, 0], positive: [t, 0], seed: [n, 0]}}\n  s: "
                        "{class_type: Save, inputs: {images: [x, 0]}}\n"));
    go(&b, 0, 0);
    CHECK_EQ(b.status, KILN_OK);
    CHECK(b.s.seed == UINT64_MAX);
    finish(&b);
}

/* ---- overlap ---- */

static void test_independent_nodes_overlap(void)
{
    bench b;
    REQUIRE(prepare(&b, "nodes:\n  meet1: {class_type: Blank, inputs: {width: 64}}\n  meet2: {class_type: Blank, "
                        "inputs: {width: 32}}\n  meet3: {class_type: Blank, inputs: {width: 48}}\n"
                        "  j: {class_type: Join, inputs: {images: [[meet1, 0], [meet2, 0], [meet3, 0]]}}\n  s: "
                        "{class_type: Save, inputs: {images: [j, 0]}}\n"));
    b.s.meet = 3;
    go(&b, 0, 0); /* the default is three workers */
    CHECK_EQ(b.status, KILN_OK);
    CHECK_EQ(b.s.most_inside, 3);
    finish(&b);
}

#define MODEL "  m: {class_type: Load, inputs: {ckpt: c}}\n  t: {class_type: Text, inputs: {clip: [m, 1]}}\n"

/* A file is read while the device works. */
static void test_the_device_does_not_hold_up_the_rest(void)
{
    bench b;
    REQUIRE(prepare(
        &b, "nodes:\n" MODEL
            "  meet_x: {class_type: Sample, inputs: {model: [m, 0], positive: [t, 0]}}\n  meet_b: {class_type: Blank}\n"
            "  j: {class_type: Join, inputs: {images: [[meet_x, 0], [meet_b, 0]]}}\n  s: {class_type: Save, inputs: "
            "{images: [j, 0]}}\n"));
    go(&b, 2, 0);
    CHECK_EQ(b.status, KILN_OK);
    CHECK_EQ(b.s.most_device, 1);
    finish(&b);
}

static void test_one_device_node_at_a_time(void)
{
    bench b;
    str text = {0};
    str_append(&text, "nodes:\n" MODEL);
    for (int i = 0; i < 40; i++)
        str_printf(&text,
                   "  x%d: {class_type: Sample, inputs: {model: [m, 0], positive: [t, 0], seed: %d}}\n  s%d: "
                   "{class_type: Save, inputs: {images: [x%d, 0]}}\n",
                   i, i, i, i);
    REQUIRE(prepare(&b, str_text(&text)));
    go(&b, 8, 0);
    CHECK_EQ(b.status, KILN_OK);
    CHECK_EQ(b.sum.ran, 82);
    CHECK_EQ(b.s.most_device, 1);
    finish(&b);
    str_free(&text);
}

static void test_one_worker_is_enough(void)
{
    bench b;
    REQUIRE(prepare(&b, "nodes:\n" MODEL "  x: {class_type: Sample, inputs: {model: [m, 0], positive: [t, 0]}}\n  y: "
                        "{class_type: Sample, inputs: {model: [m, 0], positive: [t, 0], seed: 1}}\n"
                        "  j: {class_type: Join, inputs: {images: [[x, 0], [y, 0]]}}\n  s: {class_type: Save, inputs: "
                        "{images: [j, 0]}}\n"));
    go(&b, 1, 0);
    CHECK_EQ(b.status, KILN_OK);
    CHECK_EQ(b.s.most_inside, 1);
    finish(&b);
}

/* ---- sharing ---- */

static void test_equal_keys_run_once(void)
{
    bench b;
    REQUIRE(prepare(&b, "nodes:\n  a: {class_type: Blank}\n  b: {class_type: Blank, inputs: {width: 512}}\n  c: "
                        "{class_type: Decode, inputs: {images: [a, 0]}}\n"
                        "  d: {class_type: Decode, inputs: {images: [b, 0]}}\n  s: {class_type: Save, inputs: {images: "
                        "[c, 0]}}\n  z: {class_type: Save, inputs: {images: [d, 0]}}\n"));
    go(&b, 0, 0);
    CHECK_EQ(b.status, KILN_OK);
    CHECK_EQ(CALLS("a") + CALLS("b"), 1);
    CHECK_EQ(CALLS("c") + CALLS("d"), 1);
    CHECK_EQ(CALLS("s"), 1);
    CHECK_EQ(CALLS("z"), 1); /* has an effect: both are wanted */
    CHECK_EQ(b.sum.ran, 4);
    CHECK_EQ(b.sum.shared, 2);
    CHECK_EQ(b.sum.outputs_done, 2);
    CHECK_EQ(EVENTS("a", RUN_NODE_SHARED) + EVENTS("b", RUN_NODE_SHARED), 1);
    finish(&b);
}

static void test_impure_nodes_run_each(void)
{
    bench b;
    REQUIRE(prepare(&b, "nodes:\n  r: {class_type: Random, inputs: {amount: 64}}\n  q: {class_type: Random, inputs: "
                        "{amount: 64}}\n  a: {class_type: Blank, inputs: {width: [r, 0]}}\n"
                        "  b: {class_type: Blank, inputs: {width: [q, 0]}}\n  j: {class_type: Join, inputs: {images: "
                        "[[a, 0], [b, 0]]}}\n  s: {class_type: Save, inputs: {images: [j, 0]}}\n"));
    go(&b, 0, 0);
    CHECK_EQ(b.status, KILN_OK);
    CHECK_EQ(CALLS("r"), 1);
    CHECK_EQ(CALLS("q"), 1);
    CHECK_EQ(CALLS("a"), 1);
    CHECK_EQ(CALLS("b"), 1);
    CHECK_EQ(b.sum.shared, 0);
    finish(&b);
}

static void test_the_duplicate_of_a_failed_node_is_skipped(void)
{
    bench b;
    REQUIRE(prepare(&b, "nodes:\n  fail: {class_type: Blank}\n  twin: {class_type: Blank}\n  s: {class_type: Save, "
                        "inputs: {images: [fail, 0]}}\n  z: {class_type: Save, inputs: {images: [twin, 0]}}\n"));
    go(&b, 0, 0);
    CHECK_EQ(b.status, KILN_ERR_IO);
    CHECK_EQ(b.sum.failed, 1);
    CHECK_EQ(b.sum.skipped, 3);
    CHECK_EQ(CALLS("twin"), 0);
    finish(&b);
}

/* ---- failure ---- */

static const char two_branches[] =
    "nodes:\n  fail: {class_type: Blank}\n  d: {class_type: Decode, inputs: {images: [fail, 0]}}\n  s: {class_type: "
    "Save, inputs: {images: [d, 0]}}\n"
    "  a: {class_type: Blank, inputs: {width: 64}}\n  e: {class_type: Decode, inputs: {images: [a, 0]}}\n  z: "
    "{class_type: Save, inputs: {images: [e, 0]}}\n"
    "  j: {class_type: Join, inputs: {images: [[e, 0], [d, 0]]}}\n  y: {class_type: Save, inputs: {images: [j, 0]}}\n";

static void test_a_failing_branch_leaves_the_others(void)
{
    for (unsigned workers = 1; workers <= 4; workers++) {
        bench b;
        REQUIRE(prepare(&b, two_branches));
        go(&b, workers, 0);
        CHECK_EQ(b.status, KILN_ERR_IO);
        CHECK_STR(b.e.message, "fail cannot");
        CHECK_EQ(b.sum.failed, 1);
        CHECK_EQ(b.sum.skipped, 4);
        CHECK_EQ(b.sum.ran, 3);
        CHECK_EQ(b.sum.outputs_done, 1);
        CHECK_EQ(CALLS("z"), 1);
        CHECK_EQ(CALLS("d") + CALLS("s") + CALLS("j") + CALLS("y"), 0);
        CHECK_EQ(EVENTS("fail", RUN_NODE_FAILED), 1);
        CHECK_EQ(EVENTS("y", RUN_NODE_SKIPPED), 1);
        CHECK_STR(b.s.because[at(&b, "y")], "fail");
        finish(&b);
    }
}

static void test_fail_fast_starts_nothing_more(void)
{
    bench b;
    REQUIRE(prepare(&b, two_branches));
    go(&b, 1, 1);
    CHECK_EQ(b.status, KILN_ERR_IO);
    CHECK_EQ(b.sum.failed, 1);
    CHECK_EQ(CALLS("e") + CALLS("z"), 0); /* one worker: 'fail' comes first in the file */
    CHECK_EQ(b.sum.outputs_done, 0);
    finish(&b);
}

static void test_a_failure_without_words_gets_some(void)
{
    bench b;
    REQUIRE(prepare(
        &b, "nodes:\n  mute_fail: {class_type: Blank}\n  s: {class_type: Save, inputs: {images: [mute_fail, 0]}}\n"));
    go(&b, 0, 0);
    CHECK_EQ(b.status, KILN_ERR_DEVICE);
    CHECK_MSG(strstr(b.e.message, "node 'mute_fail' (Blank) failed"), "%s", b.e.message);
    finish(&b);
}

/* ---- cancel ---- */

static void test_cancel_starts_nothing_more(void)
{
    for (unsigned workers = 1; workers <= 4; workers++) {
        bench b;
        REQUIRE(prepare(&b, "nodes:\n  cancel: {class_type: Blank}\n  d: {class_type: Decode, inputs: {images: "
                            "[cancel, 0]}}\n  s: {class_type: Save, inputs: {images: [d, 0]}}\n"));
        go(&b, workers, 0);
        CHECK_EQ(b.status, KILN_CANCELLED);
        CHECK_EQ(b.sum.cancelled, 1);
        CHECK_EQ(b.sum.ran, 1); /* what had begun was finished */
        CHECK_EQ(CALLS("d") + CALLS("s"), 0);
        finish(&b);
    }
}

static void test_cancelled_before_it_began(void)
{
    bench b;
    REQUIRE(prepare(&b, two_branches));
    atomic_store(&b.cancel, 1);
    go(&b, 0, 0);
    CHECK_EQ(b.status, KILN_CANCELLED);
    CHECK_EQ(b.sum.ran, 0);
    finish(&b);
}

static void test_a_node_that_was_stopped_stops_the_run(void)
{
    bench b;
    REQUIRE(prepare(&b, "nodes:\n  stopped: {class_type: Blank}\n  d: {class_type: Decode, inputs: {images: [stopped, "
                        "0]}}\n  s: {class_type: Save, inputs: {images: [d, 0]}}\n"));
    go(&b, 0, 0);
    CHECK_EQ(b.status, KILN_CANCELLED);
    CHECK_EQ(b.sum.cancelled, 1);
    CHECK_EQ(CALLS("d"), 0);
    finish(&b);
}

static void test_cancel_after_the_last_node_is_too_late(void)
{
    bench b;
    REQUIRE(prepare(&b, "nodes:\n  a: {class_type: Blank}\n  cancel: {class_type: Save, inputs: {images: [a, 0]}}\n"));
    go(&b, 0, 0);
    CHECK_EQ(b.status, KILN_OK);
    CHECK_EQ(b.sum.cancelled, 0);
    CHECK_EQ(b.sum.ran, 2);
    finish(&b);
}

/* ---- values ---- */

static void test_values_are_let_go_after_their_last_use(void)
{
    bench b;
    str text = {0};
    str_append(&text, "nodes:\n  n0: {class_type: Blank}\n");
    for (int i = 1; i < 100; i++)
        str_printf(&text, "  n%d: {class_type: Decode, inputs: {images: [n%d, 0]}}\n", i, i - 1);
    str_append(&text, "  s: {class_type: Save, inputs: {images: [n99, 0]}}\n");
    REQUIRE(prepare(&b, str_text(&text)));
    go(&b, 4, 0);
    CHECK_EQ(b.status, KILN_OK);
    CHECK_EQ(b.s.most_live, 2); /* a node's input and its output */
    finish(&b);
    str_free(&text);
}

/* Who would have taken its values is skipped while it runs: it keeps them until its call has ended. */
static void test_what_runs_keeps_its_values_when_its_users_are_skipped(void)
{
    bench b;
    REQUIRE(prepare(&b, "nodes:\n  late: {class_type: Blank, inputs: {width: 64}}\n  fail_meets: {class_type: Blank, "
                        "inputs: {width: 32}}\n"
                        "  j: {class_type: Join, inputs: {images: [[late, 0], [fail_meets, 0]]}}\n  s: "
                        "{class_type: Save, inputs: {images: [j, 0]}}\n"));
    go(&b, 2, 0);
    CHECK_EQ(b.status, KILN_ERR_IO);
    CHECK_EQ(b.sum.ran, 1);
    CHECK_EQ(b.sum.skipped, 2);
    CHECK_EQ(EVENTS("late", RUN_NODE_DONE), 1);
    finish(&b);
}

/* ---- many at random ---- */

static uint64_t next_random(uint64_t *state)
{
    return (*state = *state * 6364136223846793005u + 1442695040888963407u) >> 33;
}

/* A graph of Blanks, Decodes, Joins and Samples; one in `fail_of` nodes fails (0: none). */
static void random_graph(str *text, uint64_t seed, int n, int fail_of)
{
    uint64_t r = seed;
    str_append(text, "nodes:\n" MODEL);
    for (int i = 0; i < n; i++) {
        const char *name = fail_of && next_random(&r) % (uint64_t)fail_of == 0 ? "fail" : "n";
        int from = i ? (int)(next_random(&r) % (uint64_t)i) : 0, other = i ? (int)(next_random(&r) % (uint64_t)i) : 0;
        uint64_t kind = i ? next_random(&r) % 5 : 0;
        str_printf(text, "  a%d: {class_type: Any, inputs: {any: [%s%d, 0]}}\n", i, name,
                   i); /* an alias, so that names are known */
        if (kind == 0)
            str_printf(text, "  %s%d: {class_type: Blank, inputs: {width: %d}}\n", name, i,
                       16 + (int)(next_random(&r) % 8));
        if (kind == 1)
            str_printf(text, "  %s%d: {class_type: Sample, inputs: {model: [m, 0], positive: [t, 0], seed: %d}}\n",
                       name, i, (int)(next_random(&r) % 8));
        if (kind == 2) str_printf(text, "  %s%d: {class_type: Decode, inputs: {images: [a%d, 0]}}\n", name, i, from);
        if (kind >= 3)
            str_printf(text, "  %s%d: {class_type: Join, inputs: {images: [[a%d, 0], [a%d, 0]]}}\n", name, i, from,
                       other);
        if (next_random(&r) % 6 == 0) str_printf(text, "  s%d: {class_type: Save, inputs: {images: [a%d, 0]}}\n", i, i);
    }
    str_printf(text, "  last: {class_type: Save, inputs: {images: [a%d, 0]}}\n", n - 1);
}

/* Each node ended in exactly one way, and was skipped only behind one that failed. */
static void check_ends(const bench *b)
{
    size_t ends[RUN_NODE_UNKNOWN + 1] = {0};
    for (size_t i = 0; i < b->w.n; i++) {
        int sum = 0;
        for (int k = RUN_NODE_DONE; k <= RUN_NODE_SKIPPED; k++)
            sum += b->s.events[i][k], ends[k] += (size_t)b->s.events[i][k];
        if (sum != b->w.node[i].needed) CHECK_MSG(0, "node '%s' ended %d times", b->w.node[i].doc->name, sum);
        if (b->s.calls[i] > 1) CHECK_MSG(0, "node '%s' ran %d times", b->w.node[i].doc->name, b->s.calls[i]);
    }
    CHECK_EQ(ends[RUN_NODE_DONE], b->sum.ran);
    CHECK_EQ(ends[RUN_NODE_SHARED], b->sum.shared);
    CHECK_EQ(ends[RUN_NODE_FAILED], b->sum.failed);
    CHECK_EQ(ends[RUN_NODE_SKIPPED], b->sum.skipped);
    CHECK_EQ(b->sum.ran + b->sum.fetched + b->sum.shared + b->sum.failed + b->sum.skipped, b->sum.total);
}

static void test_random_graphs(void)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        bench b;
        str text = {0};
        int fail_of = seed % 2 ? 0 : 12;
        random_graph(&text, seed, 100, fail_of);
        REQUIRE(prepare(&b, str_text(&text)));
        go(&b, (unsigned)(seed % 9), 0);
        CHECK((b.status == KILN_OK) == (b.sum.failed == 0));
        if (!fail_of) CHECK_EQ(b.sum.ran + b.sum.shared, b.sum.total);
        check_ends(&b);
        finish(&b);
        str_free(&text);
    }
}

/* ---- memory ---- */

static void test_every_allocation_may_fail(void)
{
    int64_t k = 0;
    for (int done = 0; !done && k < 2000; k++) {
        bench b;
        REQUIRE(prepare(&b, "nodes:\n  n: {class_type: Number, inputs: {amount: 64}}\n  a: {class_type: Blank, inputs: "
                            "{width: [n, 0]}}\n  b: {class_type: Blank}\n"
                            "  c: {class_type: Blank}\n  j: {class_type: Join, inputs: {images: [[a, 0], [b, 0], [c, "
                            "0]]}}\n  s: {class_type: Save, inputs: {images: [j, 0]}}\n"));
        mem_fail_at(k, 0);
        go(&b, 2, 0);
        done = mem_count() <= k;
        mem_fail_at(-1, 0);
        CHECK_MSG(b.status == KILN_OK || b.status == KILN_ERR_NOMEM, "allocation %lld: %s", (long long)k, b.e.message);
        CHECK(b.status == KILN_OK || b.e.message[0]);
        if (b.status == KILN_OK) CHECK_EQ(b.sum.ran + b.sum.shared, b.sum.total);
        finish(&b);
    }
    CHECK(k > 5 && k < 2000);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_only_what_is_asked_for),
        CASE(test_lists_keep_their_order),
        CASE(test_what_cannot_be_called_is_unknown_and_so_is_what_hangs_on_it),
        CASE(test_what_is_known_is_not_run_nor_what_only_it_needs),
        CASE(test_what_another_needs_runs_although_its_user_is_known),
        CASE(test_what_is_gone_is_computed_in_another_round),
        CASE(test_equal_keys_are_fetched_once),
        CASE(test_early_nodes_come_first),
        CASE(test_wired_parameters),
        CASE(test_wired_parameters_keep_their_range),
        CASE(test_a_wired_seed_has_64_bits),
        CASE(test_independent_nodes_overlap),
        CASE(test_the_device_does_not_hold_up_the_rest),
        CASE(test_one_device_node_at_a_time),
        CASE(test_one_worker_is_enough),
        CASE(test_equal_keys_run_once),
        CASE(test_impure_nodes_run_each),
        CASE(test_the_duplicate_of_a_failed_node_is_skipped),
        CASE(test_a_failing_branch_leaves_the_others),
        CASE(test_fail_fast_starts_nothing_more),
        CASE(test_a_failure_without_words_gets_some),
        CASE(test_cancel_starts_nothing_more),
        CASE(test_cancelled_before_it_began),
        CASE(test_a_node_that_was_stopped_stops_the_run),
        CASE(test_cancel_after_the_last_node_is_too_late),
        CASE(test_values_are_let_go_after_their_last_use),
        CASE(test_what_runs_keeps_its_values_when_its_users_are_skipped),
        CASE(test_random_graphs),
        CASE(test_every_allocation_may_fail),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
