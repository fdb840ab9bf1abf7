/* test_scheduler.c - the order of a run, with nodes that do nothing but what a case asks: what overlaps, what must not,
 * what is shared, what a failure or a cancel leaves, and that every value is let go. Types come from fake_nodes.h.
 *
 * Timing: a case that must see two nodes at once lets them meet (each waits for the other, 5 s at most); one that must
 * not see them at once counts who is inside.
 */
#include "fake_nodes.h"
#include "harness.h"

#include "base/memory_alloc.h"
#include "base/str.h"
#include "run/scheduler.h"
#include "workflow/key.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NODES_MAX = 64 };

typedef struct {
    workflow w;
    document d;
    pthread_mutex_t lock;
    pthread_cond_t met;
    atomic_int cancel;
    int meeting, meet;             /* this many Any nodes wait for each other      */
    int inside, inside_most;       /* device nodes                                 */
    int calls[NODES_MAX], order_n; /* by node                                      */
    size_t order[NODES_MAX];       /* nodes as they ran                            */
    int started, ended[5];         /* events, by kind                              */
    int events_inside;             /* events must come one at a time               */
    const char *fails, *cancels, *silent_failure; /* node names                    */
    const char *because;
    char failure[300];
    int alive;                     /* objects not yet released                     */
    int seen_steps;
    size_t list_length;
} scene;

static scene *now_playing;

static void released(void *p)
{
    (void)p;
    pthread_mutex_lock(&now_playing->lock);
    now_playing->alive--;
    pthread_mutex_unlock(&now_playing->lock);
}

static void pause_ms(long ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL); }

/* Waits until as many as asked for are here; 0 when they do not come. */
static int meet(scene *s)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 5;
    int in_time = 1;
    s->meeting++;
    pthread_cond_broadcast(&s->met);
    while (s->meeting < s->meet && in_time) in_time = pthread_cond_timedwait(&s->met, &s->lock, &until) == 0;
    return in_time;
}

static int is(const char *a, const char *b) { return a && strcmp(a, b) == 0; }

static kiln_status call(void *self, size_t i, const void *params, kiln_value *const *in, kiln_value **out, error *e)
{
    scene *s = self;
    const graph_node *g = &s->w.node[i];
    const char *name = g->doc->name, *type = g->type->type;
    kiln_status status = KILN_OK;
    pthread_mutex_lock(&s->lock);
    s->calls[i]++;
    s->order[s->order_n++] = i;
    if (is(type, "Any") && s->meet && !meet(s)) status = error_set(e, KILN_ERR_BUG, "'%s' waited alone", name);
    if (is(type, "Sample")) {
        s->seen_steps = (int)((const fake_sample *)params)->steps;
        if (++s->inside > s->inside_most) s->inside_most = s->inside;
        pthread_mutex_unlock(&s->lock);
        pause_ms(5);
        pthread_mutex_lock(&s->lock);
        s->inside--;
    }
    if (is(type, "Join")) s->list_length = value_api.count(in[0]);
    for (uint32_t k = 0; k < g->type->n_in; k++)
        if (g->in[k].n && (!in[k] || !value_published(in[k]))) status = error_set(e, KILN_ERR_BUG, "'%s': input %u is absent or not published", name, k);
    if (is(s->fails, name)) status = error_set(e, KILN_ERR_INVALID, "'%s' was told to fail", name);
    if (is(s->silent_failure, name)) status = KILN_ERR_INVALID;
    if (is(s->cancels, name)) atomic_store(&s->cancel, 1);
    for (uint32_t k = 0; k < g->type->n_out && status == KILN_OK; k++) {
        if (is(type, "Number"))
            out[k] = value_int(((const fake_number *)params)->value);
        else
            s->alive += (out[k] = value_object(node_out(g->type, k)->type, s, released, name)) != NULL;
        if (!out[k]) status = KILN_ERR_NOMEM;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

static void on_event(void *self, const run_event *ev)
{
    scene *s = self;
    CHECK_EQ(++s->events_inside, 1);
    s->ended[ev->kind]++;
    if (ev->kind == RUN_NODE_SKIPPED) s->because = ev->because;
    if (ev->kind == RUN_NODE_FAILED) snprintf(s->failure, sizeof s->failure, "%.299s", ev->failure->message);
    CHECK(ev->done <= ev->total);
    s->events_inside--;
}

#define START "nodes:\n  l: {class_type: Load, inputs: {file: a.safetensors}}\n  t: {class_type: Text, inputs: {clip: [l, 1], text: x}}\n"

static int load(scene *s, const char *text)
{
    static const key_setting on = {"cpu", "f32"};
    error e = {0};
    *s = (scene){.fails = s->fails, .cancels = s->cancels, .silent_failure = s->silent_failure, .meet = s->meet};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->met, NULL);
    now_playing = s;
    fake_file = "/dev/null"; /* content counts, and there is none */
    char path[300];
    snprintf(path, sizeof path, "%s/a", test_folder());
    FILE *f = fopen(path, "w");
    if (f) fclose(f);
    fake_file = path;
    int ok = document_parse(&s->d, "w", text, strlen(text), NULL, 0, &e) == KILN_OK && workflow_check(&s->d, &fake_catalog, &s->w, &e) == KILN_OK &&
             s->d.n_fault == 0 && workflow_keys(&s->w, &on, &e) == KILN_OK;
    return CHECK_MSG(ok, "%s %s", e.message, s->d.faults ? s->d.faults->text : "");
}

static kiln_status play(scene *s, const run_setting *how, run_summary *sum, error *e)
{
    run_hooks hooks = {.self = s, .call = call, .event = on_event};
    run_setting setting = how ? *how : (run_setting){0};
    setting.cancel = &s->cancel;
    kiln_status status = run_schedule(&s->w, &hooks, &setting, sum, e);
    CHECK_MSG(s->alive == 0, "%d values are still alive", s->alive);
    CHECK_EQ(s->ended[RUN_NODE_START], s->ended[RUN_NODE_DONE] + s->ended[RUN_NODE_FAILED]);
    return status;
}

static void unload(scene *s)
{
    document_free(&s->d);
    pthread_cond_destroy(&s->met);
    pthread_mutex_destroy(&s->lock);
}

static int calls_of(const scene *s, const char *name)
{
    for (size_t i = 0; i < s->w.n; i++)
        if (is(s->w.node[i].doc->name, name)) return s->calls[i];
    return -1;
}

static void test_demand_and_order(void)
{
    scene s = {0};
    run_summary sum;
    error e = {0};
    REQUIRE(load(&s, START "  a: {class_type: Sample, inputs: {model: [l, 0], positive: [t, 0]}}\n"
                           "  idle: {class_type: Sample, inputs: {model: [l, 0], positive: [t, 0], seed: 9}}\n"
                           "  z: {class_type: Save, inputs: {latent: [a, 0]}}\n"));
    CHECK_MSG(play(&s, NULL, &sum, &e) == KILN_OK, "%s", e.message);
    CHECK_EQ(sum.ran, 4);
    CHECK_EQ(sum.total, 4);
    CHECK_EQ(sum.failed + sum.skipped + sum.shared, 0);
    CHECK_EQ(calls_of(&s, "idle"), 0);
    for (int i = 0; i < 4; i++) CHECK_EQ(s.order[i], i == 3 ? 4 : i); /* one chain has one order */
    CHECK_EQ(s.ended[RUN_NODE_DONE], 4);
    unload(&s);
}

static void test_independent_nodes_overlap(void)
{
    scene s = {.meet = 3};
    run_summary sum;
    error e = {0};
    REQUIRE(load(&s, "nodes:\n  a: {class_type: Any}\n  b: {class_type: Any}\n  c: {class_type: Any}\n  x: {class_type: Save, inputs: {latent: [a, 0]}}\n"
                     "  y: {class_type: Save, inputs: {latent: [b, 0]}}\n  z: {class_type: Save, inputs: {latent: [c, 0]}}\n"));
    CHECK_MSG(play(&s, &(run_setting){.workers = 3}, &sum, &e) == KILN_OK, "%s", e.message);
    CHECK_EQ(sum.ran, 6);
    unload(&s);
}

static void test_one_device_node_at_a_time(void)
{
    scene s = {0};
    run_summary sum;
    error e = {0};
    str text = {0};
    str_append(&text, START);
    for (int i = 0; i < 6; i++)
        str_printf(&text, "  s%d: {class_type: Sample, inputs: {model: [l, 0], positive: [t, 0], seed: %d}}\n  z%d: {class_type: Save, inputs: {latent: [s%d, 0]}}\n",
                   i, i, i, i);
    if (load(&s, str_text(&text))) {
        CHECK_MSG(play(&s, &(run_setting){.workers = 8}, &sum, &e) == KILN_OK, "%s", e.message);
        CHECK_EQ(s.inside_most, 1);
        CHECK_EQ(sum.ran, 14);
        unload(&s);
    }
    str_free(&text);
}

static void test_device_does_not_hold_up_others(void)
{
    scene s = {.meet = 2};
    run_summary sum;
    error e = {0};
    REQUIRE(load(&s, START "  s0: {class_type: Sample, inputs: {model: [l, 0], positive: [t, 0], seed: 0}}\n  z0: {class_type: Save, inputs: {latent: [s0, 0]}}\n"
                           "  s1: {class_type: Sample, inputs: {model: [l, 0], positive: [t, 0], seed: 1}}\n  z1: {class_type: Save, inputs: {latent: [s1, 0]}}\n"
                           "  a: {class_type: Any}\n  b: {class_type: Any}\n  x: {class_type: Save, inputs: {latent: [a, 0]}}\n  y: {class_type: Save, inputs: {latent: [b, 0]}}\n"));
    CHECK_MSG(play(&s, &(run_setting){.workers = 3}, &sum, &e) == KILN_OK, "%s", e.message);
    CHECK_EQ(sum.ran, 10);
    unload(&s);
}

static const char twins[] = START "  a: {class_type: Sample, inputs: {model: [l, 0], positive: [t, 0], seed: 4}}\n"
                                  "  b: {class_type: Sample, inputs: {model: [l2, 0], positive: [t2, 0], seed: 4}}\n"
                                  "  l2: {class_type: Load, inputs: {file: a.safetensors}}\n  t2: {class_type: Text, inputs: {clip: [l2, 1], text: x}}\n"
                                  "  y: {class_type: Save, inputs: {latent: [a, 0]}}\n  z: {class_type: Save, inputs: {latent: [b, 0]}}\n"
                                  "  p: {class_type: Any}\n  q: {class_type: Any}\n  v: {class_type: Save, inputs: {latent: [p, 0]}}\n  w: {class_type: Save, inputs: {latent: [q, 0]}}\n";

/* Three pairs of equal keys run once each; the two Any (not PURE) and all Save (OUTPUT) run each for itself. */
static void test_equal_keys_run_once(void)
{
    scene s = {0};
    run_summary sum;
    error e = {0};
    REQUIRE(load(&s, twins));
    CHECK_MSG(play(&s, NULL, &sum, &e) == KILN_OK, "%s", e.message);
    CHECK_EQ(sum.shared, 3);
    CHECK_EQ(sum.ran, 9);
    CHECK_EQ(sum.total, 12);
    CHECK_EQ(calls_of(&s, "a") + calls_of(&s, "b"), 1);
    CHECK_EQ(calls_of(&s, "p"), 1);
    CHECK_EQ(calls_of(&s, "q"), 1);
    CHECK_EQ(calls_of(&s, "y") + calls_of(&s, "z"), 2);
    CHECK_EQ(s.ended[RUN_NODE_SHARED], 3);
    unload(&s);
}

static void test_failing_twin_fails_both(void)
{
    for (int which = 0; which < 2; which++) {
        scene s = {.fails = which ? "l" : "a"};
        run_summary sum;
        error e = {0};
        REQUIRE(load(&s, twins));
        CHECK_EQ(play(&s, NULL, &sum, &e), KILN_ERR_INVALID);
        CHECK_EQ(sum.failed, 1);
        CHECK_EQ(calls_of(&s, "y") + calls_of(&s, "z"), 0);
        CHECK_EQ(calls_of(&s, "v") + calls_of(&s, "w"), 2);
        CHECK_EQ(sum.ran + sum.shared + sum.failed + sum.skipped, sum.total);
        unload(&s);
    }
}

static const char branches[] = START "  a: {class_type: Sample, inputs: {model: [l, 0], positive: [t, 0], seed: 1}}\n  ja: {class_type: Join, inputs: {parts: [a, 0]}}\n"
                                     "  y: {class_type: Save, inputs: {latent: [ja, 0]}}\n  b: {class_type: Sample, inputs: {model: [l, 0], positive: [t, 0], seed: 2}}\n"
                                     "  z: {class_type: Save, inputs: {latent: [b, 0]}}\n";

static void test_failure_spares_siblings(void)
{
    scene s = {.fails = "a"};
    run_summary sum;
    error e = {0};
    REQUIRE(load(&s, branches));
    CHECK_EQ(play(&s, NULL, &sum, &e), KILN_ERR_INVALID);
    CHECK_STR(e.message, "'a' was told to fail");
    CHECK_STR(s.failure, "'a' was told to fail");
    CHECK_EQ(sum.failed, 1);
    CHECK_EQ(sum.skipped, 2);
    CHECK_EQ(sum.ran, 4);
    CHECK_STR(s.because, "a");
    CHECK_EQ(calls_of(&s, "z"), 1);
    unload(&s);
}

static void test_fail_fast(void)
{
    scene s = {.fails = "l"};
    run_summary sum;
    error e = {0};
    REQUIRE(load(&s, START "  a: {class_type: Sample, inputs: {model: [l, 0], positive: [t, 0]}}\n  y: {class_type: Save, inputs: {latent: [a, 0]}}\n"
                           "  n: {class_type: Any}\n  z: {class_type: Save, inputs: {latent: [n, 0]}}\n"));
    CHECK_EQ(play(&s, &(run_setting){.workers = 1, .fail_fast = 1}, &sum, &e), KILN_ERR_INVALID);
    CHECK_EQ(sum.ran, 0);
    CHECK_EQ(sum.skipped, 3);
    unload(&s);
}

static void test_failure_without_words(void)
{
    scene s = {.silent_failure = "t"};
    run_summary sum;
    error e = {0};
    REQUIRE(load(&s, branches));
    CHECK_EQ(play(&s, NULL, &sum, &e), KILN_ERR_INVALID);
    CHECK_STR(e.message, "node 't' (Text) failed: invalid input");
    unload(&s);
}

static void test_cancel(void)
{
    scene s = {.cancels = "t"};
    run_summary sum;
    error e = {0};
    REQUIRE(load(&s, branches));
    CHECK_EQ(play(&s, NULL, &sum, &e), KILN_CANCELLED);
    CHECK_EQ(sum.cancelled, 1);
    CHECK_EQ(sum.ran, 2); /* the one that was running ends, nothing else begins */
    unload(&s);
    s = (scene){0};
    REQUIRE(load(&s, branches));
    atomic_store(&s.cancel, 1);
    e = (error){0};
    CHECK_EQ(play(&s, NULL, &sum, &e), KILN_CANCELLED);
    CHECK_EQ(sum.ran, 0);
    unload(&s);
}

static void test_wired_parameter(void)
{
    static const struct {
        const char *value;
        int ok;
    } rows[] = {{"7", 1}, {"10000", 1}, {"0", 0}, {"10001", 0}, {"-3", 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        scene s = {0};
        run_summary sum;
        error e = {0};
        char text[1024];
        snprintf(text, sizeof text, START "  n: {class_type: Number, inputs: {value: %s}}\n  a: {class_type: Sample, inputs: {model: [l, 0], positive: [t, 0], steps: [n, 0]}}\n"
                                          "  z: {class_type: Save, inputs: {latent: [a, 0]}}\n", rows[i].value);
        REQUIRE(load(&s, text));
        kiln_status status = play(&s, NULL, &sum, &e);
        CHECK_EQ(status, rows[i].ok ? KILN_OK : KILN_ERR_INVALID);
        if (rows[i].ok) CHECK_EQ(s.seen_steps, atoi(rows[i].value));
        else CHECK_MSG(strstr(e.message, "node 'a' (Sample): wired input 'steps': ") && strstr(e.message, "from 1 to 10000"), "%s", e.message);
        unload(&s);
    }
}

static void test_list_port(void)
{
    scene s = {0};
    run_summary sum;
    error e = {0};
    REQUIRE(load(&s, START "  a: {class_type: Sample, inputs: {model: [l, 0], positive: [t, 0]}}\n  j: {class_type: Join, inputs: {parts: [[a, 0], [a, 0], [b, 0]]}}\n"
                           "  b: {class_type: Sample, inputs: {model: [l, 0], positive: [t, 0], seed: 2}}\n  z: {class_type: Save, inputs: {latent: [j, 0]}}\n"));
    CHECK_MSG(play(&s, NULL, &sum, &e) == KILN_OK, "%s", e.message);
    CHECK_EQ(s.list_length, 3);
    unload(&s);
}

static void test_no_memory(void)
{
    int done = 0;
    for (int64_t k = 0; k < 500 && !done; k++) {
        scene s = {0};
        run_summary sum;
        error e = {0};
        REQUIRE(load(&s, START "  n: {class_type: Number, inputs: {value: 5}}\n  a: {class_type: Sample, inputs: {model: [l, 0], positive: [t, 0], steps: [n, 0]}}\n"
                               "  j: {class_type: Join, inputs: {parts: [a, 0]}}\n  z: {class_type: Save, inputs: {latent: [j, 0]}}\n"));
        mem_fail_at(k, 0);
        run_hooks hooks = {.self = &s, .call = call};
        kiln_status status = run_schedule(&s.w, &hooks, &(run_setting){.workers = 1}, &sum, &e);
        done = mem_count() <= k;
        mem_fail_at(-1, 0);
        CHECK_MSG(status != KILN_OK || done || sum.ran == 6, "allocation %lld: %s", (long long)k, status_name(status));
        if (status != KILN_OK) CHECK_MSG(e.message[0], "allocation %lld: no message", (long long)k);
        unload(&s);
    }
    CHECK(done);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_demand_and_order), CASE(test_independent_nodes_overlap), CASE(test_one_device_node_at_a_time),
                                      CASE(test_device_does_not_hold_up_others), CASE(test_equal_keys_run_once), CASE(test_failing_twin_fails_both),
                                      CASE(test_failure_spares_siblings), CASE(test_fail_fast), CASE(test_failure_without_words), CASE(test_cancel),
                                      CASE(test_wired_parameter), CASE(test_list_port), CASE(test_no_memory)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
