/* test_lazy.c - lazy inputs that are asked for while the workflow runs: what nobody wants is not computed, nor what
 * only it needs; what is wanted is there; failures, equal keys, values at hand. Then many random graphs, against a
 * plain recursion that says what has to run.
 *
 * What a switch wants is in its node's name: "s0..." wants input `off`, "s1..." `yes`, "s2..." asks for `off` first and
 * then for `yes`, "s3..." for `other` alone.
 */
#include "base/memory_alloc.h"
#include "base/str.h"
#include "run/scheduler.h"
#include "workflow/open_kit.h"

#include <pthread.h>
#include <stdlib.h>

enum { NODES_MAX = 300 };

typedef struct {
    const workflow *w;
    pthread_mutex_t lock;
    int calls[NODES_MAX], skipped[NODES_MAX], asked[NODES_MAX];
    int live, wrong;
    const char *known, *gone; /* prefixes of names of nodes that can be fetched, and that then cannot */
} script;

static void released(void *ptr)
{
    script *s = ptr;
    pthread_mutex_lock(&s->lock);
    s->live--;
    pthread_mutex_unlock(&s->lock);
}

static kiln_value *make(script *s)
{
    pthread_mutex_lock(&s->lock);
    s->live++;
    pthread_mutex_unlock(&s->lock);
    return value_object("MADE", s, released, NULL);
}

static int begins(const char *name, const char *with) { return with && strncmp(name, with, strlen(with)) == 0; }

/* The inputs that a switch of that name has asked for in the end. */
static uint64_t wants_all(const char *name)
{
    static const uint64_t bits[] = {1, 2, 3, 4};
    return name[0] == 's' && name[1] >= '0' && name[1] <= '3' ? bits[name[1] - '0'] : 1;
}

static kiln_status call(void *self, size_t i, const void *params, kiln_value *const *in, kiln_value **out, error *e)
{
    script *s = self;
    const graph_node *g = &s->w->node[i];
    (void)params;
    pthread_mutex_lock(&s->lock);
    s->calls[i]++;
    for (uint32_t p = 0; p < g->type->n_in; p++) {
        int lazy = (node_in(g->type, p)->flags & KILN_PORT_LAZY) != 0;
        int wired = g->in[p].n > 0, wanted = !lazy || (wants_all(g->doc->name) >> p & 1);
        s->wrong += (in[p] != NULL) != (wired && wanted);
    }
    pthread_mutex_unlock(&s->lock);
    if (begins(g->doc->name, "fail")) return error_set(e, KILN_ERR_IO, "node '%s' cannot", g->doc->name);
    for (uint32_t k = 0; k < g->type->n_out; k++)
        if (!(out[k] = make(s))) return KILN_ERR_NOMEM;
    return KILN_OK;
}

static kiln_status wants(void *self, size_t i, const void *params, kiln_value *const *in, uint64_t *inputs, error *e)
{
    script *s = self;
    const char *name = s->w->node[i].doc->name;
    (void)params;
    s->asked[i]++; /* under the scheduler's lock */
    if (begins(name, "sbad")) return error_set(e, KILN_ERR_BUG, "node '%s' cannot say", name);
    *inputs = wants_all(name); /* of "s3...": `other`, which may not be wired */
    if (name[1] == '2') *inputs = in[0] ? 3 : 1 | KILN_WANTS_AGAIN;
    return KILN_OK;
}

static int is_known(void *self, size_t i)
{
    const script *s = self;
    return begins(s->w->node[i].doc->name, s->known) || begins(s->w->node[i].doc->name, s->gone);
}

static kiln_status fetch(void *self, size_t i, kiln_value **out, error *e)
{
    script *s = self;
    if (begins(s->w->node[i].doc->name, s->gone)) return error_set(e, KILN_ERR_IO, "gone");
    return (out[0] = make(s)) ? KILN_OK : KILN_ERR_NOMEM;
}

static void on_event(void *self, const run_event *ev)
{
    script *s = self;
    if (ev->kind == RUN_NODE_SKIPPED) s->skipped[ev->node]++;
    if (ev->done > ev->total) s->wrong++;
}

typedef struct {
    script s;
    opened *o;
    run_summary sum;
    error e;
    kiln_status status;
} bench;

static int start(bench *b, const char *text)
{
    catalog_view c = fake_catalog();
    c.wants = NULL; /* nothing is decided before the run */
    memset(b, 0, sizeof *b);
    b->o = open_with(text, &c);
    b->s.w = &b->o->w;
    pthread_mutex_init(&b->s.lock, NULL);
    return CHECK_MSG(b->o->d.n_fault == 0, "%s", b->o->faults);
}

static void go(bench *b, unsigned workers)
{
    run_hooks hooks = {
        .self = &b->s, .call = call, .event = on_event, .wants = wants, .known = is_known, .fetch = fetch};
    b->status = run_schedule(&b->o->w, &hooks, &(run_setting){.workers = workers}, &b->sum, &b->e);
}

static void finish(bench *b)
{
    CHECK_EQ(b->s.live, 0);
    CHECK_EQ(b->s.wrong, 0);
    CHECK_EQ(b->sum.ran + b->sum.fetched + b->sum.shared + b->sum.failed + b->sum.skipped, b->sum.total);
    document_free(&b->o->d);
    pthread_mutex_destroy(&b->s.lock);
}

static size_t at(const bench *b, const char *name)
{
    for (size_t i = 0; i < b->o->w.n; i++)
        if (strcmp(b->o->w.node[i].doc->name, name) == 0) return i;
    CHECK_MSG(0, "no node '%s'", name);
    return 0;
}
#define CALLS(name) b.s.calls[at(&b, (name))]

#define SAVE(from) "  o: {class_type: Save, inputs: {images: [" from ", 0]}}\n"
#define BLANK(name, width) "  " name ": {class_type: Blank, inputs: {width: " width "}}\n"
#define DECODE(name, from) "  " name ": {class_type: Decode, inputs: {images: [" from ", 0]}}\n"
#define SWITCH(name, off, yes) "  " name ": {class_type: Switch, inputs: {off: [" off ", 0], yes: [" yes ", 0]}}\n"

static void test_the_unwanted_branch_is_not_run(void)
{
    bench b;
    REQUIRE(start(&b, "nodes:\n" BLANK("a", "16") BLANK("b", "32") BLANK("c", "48") DECODE("d", "a") DECODE("f", "b")
                          DECODE("g", "f") "  j: {class_type: Join, inputs: {images: [[g, 0], [c, 0]]}}\n" SWITCH(
                              "s0", "d", "j") SAVE("s0")));
    go(&b, 3);
    CHECK_MSG(b.status == KILN_OK, "%s", b.e.message);
    CHECK(CALLS("a") == 1 && CALLS("d") == 1 && CALLS("s0") == 1 && CALLS("o") == 1);
    CHECK(CALLS("b") == 0 && CALLS("c") == 0 && CALLS("f") == 0 && CALLS("g") == 0 && CALLS("j") == 0);
    CHECK(b.sum.total == 4 && b.sum.ran == 4);
    finish(&b);
}

static void test_what_others_need_too_runs(void)
{
    bench b;
    REQUIRE(start(&b, "nodes:\n" BLANK("a", "16") BLANK("b", "32") DECODE("d", "b") SWITCH("s0", "a", "d")
                          SAVE("s0") "  p: {class_type: Save, inputs: {images: [b, 0]}}\n"));
    go(&b, 3);
    CHECK(b.status == KILN_OK && CALLS("b") == 1 && CALLS("d") == 0 && CALLS("p") == 1);
    finish(&b);
}

static void test_it_asks_again_when_that_is_there(void)
{
    bench b;
    REQUIRE(start(&b, "nodes:\n" BLANK("a", "16") BLANK("b", "32") DECODE("d", "a") DECODE("f", "b")
                          SWITCH("s2", "d", "f") SAVE("s2")));
    go(&b, 3);
    CHECK(b.status == KILN_OK && CALLS("d") == 1 && CALLS("f") == 1 && CALLS("s2") == 1);
    CHECK_EQ(b.s.asked[at(&b, "s2")], 3);
    finish(&b);
}

static void test_nothing_may_be_wanted(void)
{
    bench b;
    REQUIRE(start(&b, "nodes:\n" BLANK("a", "16") BLANK("b", "32") SWITCH("s3", "a", "b") SAVE("s3")));
    go(&b, 1);
    CHECK(b.status == KILN_OK && CALLS("a") == 0 && CALLS("b") == 0 && CALLS("s3") == 1 && b.sum.total == 2);
    finish(&b);
}

static void test_switches_behind_switches(void)
{
    bench b;
    REQUIRE(start(&b, "nodes:\n" BLANK("a", "16") BLANK("b", "32") BLANK("c", "48") SWITCH("s1x", "a", "b")
                          SWITCH("s0y", "s1x", "c") SWITCH("s0z", "c", "s1x")
                              SAVE("s0y") "  p: {class_type: Save, inputs: {images: [s0z, 0]}}\n"));
    go(&b, 3);
    CHECK(b.status == KILN_OK && CALLS("a") == 0 && CALLS("b") == 1 && CALLS("c") == 1 && CALLS("s1x") == 1);
    finish(&b);
}

/* ---- failures ---- */

static void test_a_failure_in_the_unwanted_branch_harms_nobody(void)
{
    bench b;
    REQUIRE(start(&b, "nodes:\n" BLANK("fail", "32") "  p: {class_type: Save, inputs: {images: [fail, 0]}}\n" BLANK(
                          "a", "16") DECODE("d", "fail") SWITCH("s0", "a", "d") SAVE("s0")));
    go(&b, 1);
    CHECK(b.status == KILN_ERR_IO && CALLS("s0") == 1 && CALLS("o") == 1 && CALLS("p") == 0 && CALLS("d") == 0);
    finish(&b);
    /* and the same where the switch still waits for another input when that fails */
    REQUIRE(start(
        &b, "nodes:\n" BLANK("fail", "32") "  p: {class_type: Save, inputs: {images: [fail, 0]}}\n" BLANK("a", "16")
                DECODE("d", "fail") BLANK(
                    "x",
                    "48") "  s0: {class_type: Switch, inputs: {off: [a, 0], yes: [d, 0], also: [x, 0]}}\n" SAVE("s0")));
    go(&b, 1);
    CHECK(b.status == KILN_ERR_IO && CALLS("x") == 1 && CALLS("s0") == 1 && CALLS("o") == 1);
    finish(&b);
}

static void test_a_failure_in_the_wanted_branch_skips(void)
{
    bench b;
    REQUIRE(start(&b, "nodes:\n" BLANK("a", "16") BLANK("fail", "32") DECODE("d", "fail") SWITCH("s1", "a", "d")
                          SAVE("s1")));
    go(&b, 3);
    CHECK(b.status == KILN_ERR_IO && CALLS("s1") == 0 && CALLS("o") == 0 && CALLS("a") == 0);
    CHECK(b.s.skipped[at(&b, "d")] == 1 && b.s.skipped[at(&b, "s1")] == 1 && b.s.skipped[at(&b, "o")] == 1);
    finish(&b);
}

static void test_a_branch_that_has_failed_before_is_asked_for(void)
{
    bench b;
    REQUIRE(start(&b, "nodes:\n" BLANK("fail", "32") "  p: {class_type: Save, inputs: {images: [fail, 0]}}\n" BLANK(
                          "a", "16") SWITCH("s1", "a", "fail") SAVE("s1")));
    go(&b, 1);
    CHECK(b.status == KILN_ERR_IO && CALLS("s1") == 0 && b.s.skipped[at(&b, "s1")] == 1 && CALLS("a") == 0);
    finish(&b);
}

static void test_a_switch_that_cannot_say_fails(void)
{
    bench b;
    REQUIRE(start(&b, "nodes:\n" BLANK("a", "16") BLANK("b", "32") SWITCH("sbad", "a", "b") SAVE("sbad")));
    go(&b, 1);
    CHECK(b.status == KILN_ERR_BUG && CALLS("a") == 0 && CALLS("b") == 0 && b.s.skipped[at(&b, "o")] == 1);
    CHECK_STR(b.e.message, "node 'sbad' cannot say");
    finish(&b);
}

/* ---- equal keys, values at hand ---- */

static void test_equal_keys_in_both_branches(void)
{
    bench b;
    REQUIRE(start(&b, "nodes:\n" BLANK("a", "16") BLANK("b", "16") DECODE("d", "a") DECODE("f", "b")
                          SWITCH("s1", "d", "f") SAVE("s1")));
    go(&b, 3); /* f takes what d made, so d runs although nobody asks for it */
    CHECK(b.status == KILN_OK && CALLS("d") == 1 && CALLS("f") == 0 && CALLS("s1") == 1);
    finish(&b);
}

static void test_known_and_gone(void)
{
    bench b;
    REQUIRE(start(&b, "nodes:\n" BLANK("a", "16") DECODE("have", "a") BLANK("b", "32") DECODE("lost", "b")
                          SWITCH("s1", "have", "lost") SAVE("s1")));
    b.s.known = "have", b.s.gone = "lost";
    go(&b, 3);
    CHECK(b.status == KILN_OK && CALLS("a") == 0 && CALLS("have") == 0);
    CHECK(CALLS("lost") == 1 && CALLS("b") == 1 && CALLS("s1") == 1 && CALLS("o") == 1);
    finish(&b);
}

/* ---- many graphs ---- */

static uint64_t state = 1;
static unsigned pick(unsigned n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % n;
}

/* Those that want otherwise are written otherwise: equal keys want the same. */
static void random_switch(str *s, unsigned i)
{
    unsigned kind = pick(4);
    str_printf(s, "  s%uw%u: {class_type: Switch, inputs: {on: %s, off: [n%u, 0], yes: [n%u, 0]", kind, i,
               kind % 2 ? "true" : "false", pick(i), pick(i));
    if (kind >= 2) str_printf(s, ", other: [n%u, 0]", pick(i));
    if (pick(3) == 0) str_printf(s, ", also: [n%u, 0]", pick(i));
    str_append(s, "}}\n");
}

/* Node i takes what nodes before it give. */
static void random_graph(str *s, unsigned n)
{
    str_append(s, "nodes:\n");
    for (unsigned i = 0; i < n; i++) {
        const char *from = i < 3 || pick(5) == 0 ? NULL : "";
        if (!from)
            str_printf(s, "  s0b%u: {class_type: Blank, inputs: {width: %u}}\n", i, 16 + pick(12));
        else if (pick(2))
            random_switch(s, i);
        else
            str_printf(s, "  s0j%u: {class_type: Join, inputs: {images: [[n%u, 0], [n%u, 0]]}}\n", i, pick(i), pick(i));
    }
}

/* "n7" in the text is node 7 by whatever name. */
static char *with_names(const char *text, unsigned n)
{
    str s = {0};
    char name[NODES_MAX][16] = {{0}};
    unsigned k = 0;
    for (const char *line = text; (line = strchr(line, '\n')) && line[1] && k < n; k++)
        sscanf(++line, "  %15[^:]", name[k]);
    for (const char *p = text; *p; p++) {
        char *end = NULL;
        unsigned long i = p[0] == '[' && p[1] == 'n' ? strtoul(p + 2, &end, 10) : 0;
        if (end && *end == ',')
            str_printf(&s, "[%s", name[i]), p = end - 1;
        else
            str_char(&s, *p);
    }
    str_printf(&s, "  o: {class_type: Save, inputs: {images: [%s, 0]}}\n", name[n - 1]);
    str_printf(&s, "  p: {class_type: Save, inputs: {images: [%s, 0]}}\n", name[n / 2]);
    return str_take(&s);
}

static void must_run(const workflow *w, int32_t i, unsigned char *wanted)
{
    const graph_node *g = &w->node[i];
    if (wanted[i]) return;
    wanted[i] = 1;
    for (uint32_t p = 0; p < g->type->n_in; p++)
        for (uint32_t k = 0; k < g->in[p].n; k++)
            if (!(node_in(g->type, p)->flags & KILN_PORT_LAZY) || (wants_all(g->doc->name) >> p & 1))
                must_run(w, g->in[p].from[k].node, wanted);
}

/* A node ran, or one of equal key did, exactly when it had to; equal keys may pull in one more. */
static void check_random(bench *b)
{
    const workflow *w = &b->o->w;
    unsigned char wanted[NODES_MAX] = {0};
    for (size_t i = 0; i < w->n; i++)
        if (w->node[i].type->flags & KILN_NODE_OUTPUT) must_run(w, (int32_t)i, wanted);
    for (size_t i = 0; i < w->n; i++) {
        int calls = 0, asked = 0;
        for (size_t k = 0; k < w->n; k++)
            if (k == i || digest_equal(w->node[k].key, w->node[i].key)) calls += b->s.calls[k], asked |= wanted[k];
        CHECK_MSG(calls == asked, "node %zu '%s': %d calls, wanted %d", i, w->node[i].doc->name, calls, asked);
    }
}

static void test_random_graphs(void)
{
    for (unsigned round = 0; round < 300; round++) {
        bench b;
        str raw = {0};
        unsigned n = 5 + pick(40);
        random_graph(&raw, n);
        char *text = with_names(str_text(&raw), n);
        if (start(&b, text)) {
            go(&b, 1 + round % 4);
            CHECK_MSG(b.status == KILN_OK, "%s", b.e.message);
            check_random(&b);
            finish(&b);
        }
        mem_free(text);
        str_free(&raw);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_the_unwanted_branch_is_not_run),
        CASE(test_what_others_need_too_runs),
        CASE(test_it_asks_again_when_that_is_there),
        CASE(test_nothing_may_be_wanted),
        CASE(test_switches_behind_switches),
        CASE(test_a_failure_in_the_unwanted_branch_harms_nobody),
        CASE(test_a_failure_in_the_wanted_branch_skips),
        CASE(test_a_branch_that_has_failed_before_is_asked_for),
        CASE(test_a_switch_that_cannot_say_fails),
        CASE(test_equal_keys_in_both_branches),
        CASE(test_known_and_gone),
        CASE(test_random_graphs),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
