/* scheduler.c - see scheduler.h. One lock guards all state; nodes run outside it. */
#include "run/scheduler.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/memory_alloc.h"
#include "run/item_calls.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS_DEFAULT = 3, WORKERS_MAX = 64, NO_NODE = -1 };
typedef enum {
    WAITING,
    READY,
    RUNNING,
    DONE,
    FAILED,
    SKIPPED,
    LOST,    /* for this round: a value was gone                        */
    UNNEEDED /* only lazy inputs led to it, and none of them wanted it */
} node_state;

enum { NOT_LAZY = -1 };
typedef struct {
    uint32_t node;
    int32_t lazy; /* the user's lazy input that the wire leads to, or NOT_LAZY */
} user;

typedef struct {
    node_state state;
    uint32_t waits_for;             /* sources not done yet            */
    uint32_t uses_left;             /* wires that still read our values */
    int32_t duplicate_of;           /* index of the node with the same key that runs for both, or -1 */
    uint32_t place;                 /* in the workflow's order */
    uint8_t wanted, known, unknown; /* known: can be fetched; unknown: is not called, and has no values */
    uint8_t asked;                  /* 0: so far only lazy inputs lead to it, and none has asked for it: it waits */
    uint64_t asked_for;             /* bits of the node's own lazy inputs that it has asked for */
    kiln_value **out;
    user *users; /* nodes that wait for us, one entry a wire */
    uint32_t n_users;
} slot;

enum { SETTLED = 1 /* done, failed or skipped for good */, GONE = 2 /* was known, and was not there */ };

/* Places in the workflow's order, the smallest on top. */
typedef struct {
    uint32_t *place;
    size_t n;
} heap;

typedef struct {
    const workflow *w;
    const run_hooks *hooks;
    const run_setting *setting;
    run_summary *summary;
    error *e;
    slot *slot;
    heap ready, ready_device; /* nodes that may start; those that need the device and do run there */
    uint8_t *settled;         /* by node, over all rounds: SETTLED, GONE                              */
    uint32_t *stack, *doomed; /* [n]: nodes to ask for, nodes that nobody can ask for any more */
    size_t n_doomed;
    size_t unfinished, running, lost;
    int device_busy, stop, lists; /* lists: there are some, so values say where they came from */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    arena memory;
} scheduler;

static size_t run_finished(const run_summary *r)
{
    return r->ran + r->fetched + r->shared + r->failed + r->skipped + r->unknown;
}

static void notify(scheduler *s, run_event ev)
{
    assert(mutex_held(&s->lock));
    ev.total = s->summary->total;
    ev.done = run_finished(s->summary);
    if (s->hooks->event) s->hooks->event(s->hooks->self, &ev);
}

/* ---- nodes that may start ---- */

static void heap_push(heap *h, uint32_t value)
{
    size_t at = h->n++;
    for (; at > 0 && h->place[(at - 1) / 2] > value; at = (at - 1) / 2) h->place[at] = h->place[(at - 1) / 2];
    h->place[at] = value;
}

static uint32_t heap_pop(heap *h)
{
    uint32_t top = h->place[0], last = h->place[--h->n];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < h->n; at = child) {
        if (child + 1 < h->n && h->place[child + 1] < h->place[child]) child++;
        if (h->place[child] >= last) break;
        h->place[at] = h->place[child];
    }
    h->place[at] = last;
    return top;
}

static int runs_on_device(const scheduler *s, uint32_t i)
{
    return (s->w->node[i].type->flags & KILN_NODE_DEVICE) != 0 && s->slot[i].duplicate_of == NO_NODE &&
           !s->slot[i].known;
}

/* ---- the graph's wires, one after the other ---- */

static int is_lazy(const scheduler *s, const kiln_node *t, uint32_t port)
{
    return s->hooks->wants && t->wants && (node_in(t, port)->flags & KILN_PORT_LAZY) != 0;
}

/* Calls fn for each source of node i that will run, parameters' wires included. */
typedef void source_fn(scheduler *, uint32_t to, source, int32_t lazy);
static void each_source(scheduler *s, uint32_t i, source_fn *fn)
{
    const graph_node *g = &s->w->node[i];
    for (uint32_t p = 0; p < g->type->n_in; p++)
        for (uint32_t k = 0; k < g->in[p].n; k++)
            fn(s, i, g->in[p].from[k], is_lazy(s, g->type, p) ? (int32_t)p : NOT_LAZY);
    for (uint32_t p = 0; p < g->type->n_param; p++)
        if (g->param_in[p].node != SOURCE_NONE) fn(s, i, g->param_in[p], NOT_LAZY);
}

/* The same for what node i waits for: nothing when it is fetched or takes another node's values. */
static void each_awaited(scheduler *s, uint32_t i, source_fn *fn)
{
    if (s->slot[i].wanted && !s->slot[i].known && s->slot[i].duplicate_of == NO_NODE) each_source(s, i, fn);
}

/* A lazy input keeps its source's values, and waits for them only once it has asked. */
static void count_user(scheduler *s, uint32_t to, source from, int32_t lazy)
{
    s->slot[from.node].n_users++;
    s->slot[from.node].uses_left++;
    if (lazy == NOT_LAZY) s->slot[to].waits_for++;
}

static void note_user(scheduler *s, uint32_t to, source from, int32_t lazy)
{
    s->slot[from.node].users[s->slot[from.node].n_users++] = (user){to, lazy};
}

static void drop_values(scheduler *s, uint32_t i)
{
    if (!s->slot[i].out) return;
    for (uint32_t k = 0; k < s->w->node[i].type->n_out; k++) {
        value_unref(s->slot[i].out[k]);
        s->slot[i].out[k] = NULL;
    }
}

static void release(scheduler *s, uint32_t i)
{
    slot *x = &s->slot[i];
    assert(x->uses_left > 0);
    if (--x->uses_left > 0) return;
    if (x->state != RUNNING) drop_values(s, i); /* a call that runs still writes them, and lets go of them in the end */
    if (x->state == WAITING && !x->asked) s->doomed[s->n_doomed++] = i;
}

static void release_source(scheduler *s, uint32_t to, source from, int32_t lazy)
{
    (void)to, (void)lazy;
    release(s, (uint32_t)from.node);
}

/* Nodes that nobody can ask for any more: their sources lose a user each. */
static void settle_doomed(scheduler *s)
{
    while (s->n_doomed) {
        uint32_t i = s->doomed[--s->n_doomed];
        s->slot[i].state = UNNEEDED;
        s->unfinished--;
        s->summary->total--;
        each_awaited(s, i, release_source);
        if (s->slot[i].duplicate_of != NO_NODE) release(s, (uint32_t)s->slot[i].duplicate_of);
    }
}

/* ---- finishing a node ---- */

static void make_ready(scheduler *s, uint32_t i)
{
    assert(s->slot[i].state == WAITING && s->slot[i].waits_for == 0 && s->slot[i].asked);
    s->slot[i].state = READY;
    heap_push(runs_on_device(s, i) ? &s->ready_device : &s->ready, s->slot[i].place);
}

static void skip_node(scheduler *s, uint32_t i, uint32_t cause, node_state as)
{
    s->slot[i].state = as;
    s->unfinished--;
    each_awaited(s, i, release_source);
    if (as != SKIPPED) return;
    s->summary->skipped++;
    s->settled[i] |= SETTLED;
    notify(s, (run_event){.kind = RUN_NODE_SKIPPED, .node = i, .because = s->w->node[cause].doc->name});
}

/* 1: the user waits for the node, or will in any case. */
static int depends(const scheduler *s, user u)
{
    return u.lazy == NOT_LAZY || (s->slot[u.node].asked_for >> u.lazy & 1);
}

/* Everything that hangs on node `cause` becomes `as` (SKIPPED, or LOST until the next round), without recursion. */
static void skip_users(scheduler *s, uint32_t cause, node_state as)
{
    uint32_t *stack = mem_alloc((s->w->n + 1) * sizeof *stack);
    size_t n = 0;
    if (!stack) {
        error_set(s->e, KILN_ERR_NOMEM, "out of memory for the run");
        s->stop = 1;
        return;
    }
    stack[n++] = cause;
    while (n > 0) {
        uint32_t from = stack[--n];
        for (uint32_t k = 0; k < s->slot[from].n_users; k++) {
            user u = s->slot[from].users[k];
            if (s->slot[u.node].state != WAITING || !depends(s, u)) continue;
            skip_node(s, u.node, cause, as);
            stack[n++] = u.node;
        }
    }
    mem_free(stack);
    settle_doomed(s);
}

static void wake_users(scheduler *s, uint32_t i)
{
    for (uint32_t k = 0; k < s->slot[i].n_users; k++) {
        user u = s->slot[i].users[k];
        slot *x = &s->slot[u.node];
        if (!depends(s, u)) continue;
        assert(x->waits_for > 0);
        if (--x->waits_for == 0 && x->state == WAITING && x->asked) make_ready(s, u.node);
    }
}

static void node_done(scheduler *s, uint32_t i, run_event_kind kind, double start, double seconds)
{
    assert(s->slot[i].state == RUNNING || s->slot[i].state == READY);
    s->slot[i].state = DONE;
    s->settled[i] |= SETTLED;
    s->unfinished--;
    each_awaited(s, i, release_source);
    *(kind == RUN_NODE_SHARED    ? &s->summary->shared
      : kind == RUN_NODE_UNKNOWN ? &s->summary->unknown
      : kind == RUN_NODE_FETCHED ? &s->summary->fetched
                                 : &s->summary->ran) += 1;
    if (s->w->node[i].type->flags & KILN_NODE_OUTPUT) s->summary->outputs_done++;
    notify(s, (run_event){.kind = kind, .node = i, .start = start, .seconds = seconds});
    wake_users(s, i);
    if (s->slot[i].uses_left == 0) drop_values(s, i);
    settle_doomed(s);
}

static void node_failed(scheduler *s, uint32_t i, const error *failure, double seconds)
{
    s->slot[i].state = FAILED;
    s->settled[i] |= SETTLED;
    s->unfinished--;
    s->summary->failed++;
    each_awaited(s, i, release_source);
    if (s->e->status == KILN_OK) *s->e = *failure;
    if (failure->status == KILN_CANCELLED) s->summary->cancelled = 1;
    notify(s, (run_event){.kind = RUN_NODE_FAILED, .node = i, .seconds = seconds, .failure = failure});
    skip_users(s, i, SKIPPED);
    if (s->setting->fail_fast || failure->status == KILN_CANCELLED) s->stop = 1;
}

/* Known values that were gone: the node is not taken for known again. */
static void node_lost(scheduler *s, uint32_t i)
{
    s->slot[i].state = LOST;
    s->settled[i] |= GONE;
    s->unfinished--;
    s->lost++;
    skip_users(s, i, LOST);
}

/* ---- running a node ---- */

static kiln_value *value_of(const void *of, source from)
{
    return ((const scheduler *)of)->slot[from.node].out[from.output];
}

static arg_values values_of(const scheduler *s, uint32_t i)
{
    const kiln_node *t = s->w->node[i].type;
    arg_values v = {.w = s->w, .value = value_of, .of = s};
    for (uint32_t p = 0; p < t->n_in && p < 63; p++)
        if (is_lazy(s, t, p)) v.absent |= UINT64_C(1) << p;
    v.absent &= ~s->slot[i].asked_for;
    return v;
}

static int stopping(const scheduler *s) { return s->stop || (s->setting->cancel && atomic_load(s->setting->cancel)); }

/* Who has finished a node takes the next one itself: others are woken when there is more than one, or nothing more to
 * wait for. */
static void wake_others(scheduler *s)
{
    if (s->ready.n + s->ready_device.n > 1 || s->unfinished == 0 || stopping(s)) pthread_cond_broadcast(&s->changed);
}

static void publish_values(scheduler *s, uint32_t i)
{
    const graph_node *g = &s->w->node[i];
    for (uint32_t k = 0; k < g->type->n_out; k++)
        if (s->slot[i].out[k]) value_publish(s->slot[i].out[k]);
    if (s->lists && !g->mapped) outputs_set_origin(g->type, g->key, s->slot[i].out);
}

/* Called and left with the lock held. */
static void fetch_node(scheduler *s, uint32_t i)
{
    error gone = {0};
    s->slot[i].state = RUNNING;
    s->running++;
    pthread_mutex_unlock(&s->lock);
    double start = clock_seconds();
    kiln_status status = s->hooks->fetch(s->hooks->self, i, s->slot[i].out, &gone);
    double seconds = clock_seconds() - start;
    pthread_mutex_lock(&s->lock);
    s->running--;
    if (status == KILN_OK) {
        publish_values(s, i);
        node_done(s, i, RUN_NODE_FETCHED, start, seconds);
    } else {
        drop_values(s, i);
        node_lost(s, i);
    }
    wake_others(s);
}

/* One call of a mapped node is done. 0: the run stops. */
static int item_did(void *of, const run_event *ev)
{
    scheduler *s = of;
    pthread_mutex_lock(&s->lock);
    notify(s, *ev);
    int on = !s->stop;
    pthread_mutex_unlock(&s->lock);
    return on;
}

/* Called and left with the lock held. */
static void run_node(scheduler *s, uint32_t i)
{
    const graph_node *g = &s->w->node[i];
    error failure = {0};
    int device = (g->type->flags & KILN_NODE_DEVICE) != 0, taken = 0;
    item_calls calls = {.hooks = s->hooks,
                        .values = values_of(s, i),
                        .node = i,
                        .cancel = s->setting->cancel,
                        .did = item_did,
                        .of = s};
    s->slot[i].state = RUNNING;
    s->running++;
    if (device) s->device_busy = 1;
    notify(s, (run_event){.kind = RUN_NODE_START, .node = i});
    pthread_mutex_unlock(&s->lock);
    double start = clock_seconds();
    kiln_status status = g->mapped ? call_items(&calls, s->slot[i].out, &taken, &failure)
                                   : call_node(&calls, 0, s->slot[i].out, &failure);
    double seconds = clock_seconds() - start;
    pthread_mutex_lock(&s->lock);
    if (device) s->device_busy = 0;
    s->running--;
    if (status == KILN_OK) {
        publish_values(s, i);
        if (!g->mapped) taken = s->hooks->taken && s->hooks->taken(s->hooks->self, i);
        node_done(s, i, taken ? RUN_NODE_FETCHED : RUN_NODE_DONE, start, seconds);
    } else if (g->mapped && s->stop && status == KILN_CANCELLED && failure.status == KILN_OK) {
        drop_values(s, i); /* between two items: it is neither done nor failed */
        s->slot[i].state = WAITING;
    } else {
        if (failure.status == KILN_OK)
            error_set(&failure, status, "node '%s' (%s) failed: %s", g->doc->name, g->type->type, status_text(status));
        drop_values(s, i);
        node_failed(s, i, &failure, seconds);
    }
    wake_others(s);
}

/* ---- lazy inputs ---- */

/* Node i runs, and so does what it waits for. */
static void ask(scheduler *s, uint32_t i)
{
    size_t n = 0;
    if (s->slot[i].asked) return;
    s->slot[i].asked = 1;
    for (s->stack[n++] = i; n > 0;) {
        uint32_t at = s->stack[--n];
        const graph_node *g = &s->w->node[at];
        slot *x = &s->slot[at];
        if (x->state == WAITING && x->waits_for == 0) make_ready(s, at);
        if (x->duplicate_of != NO_NODE && !s->slot[x->duplicate_of].asked)
            s->slot[x->duplicate_of].asked = 1, s->stack[n++] = (uint32_t)x->duplicate_of;
        if (x->duplicate_of != NO_NODE || x->known) continue;
        for (uint32_t p = 0; p < g->type->n_in + g->type->n_param; p++) {
            int port = p < g->type->n_in;
            const source *from = port ? g->in[p].from : &g->param_in[p - g->type->n_in];
            uint32_t many = port ? is_lazy(s, g->type, p) ? 0 : g->in[p].n : from->node != SOURCE_NONE;
            for (uint32_t k = 0; k < many; k++)
                if (!s->slot[from[k].node].asked)
                    s->slot[from[k].node].asked = 1, s->stack[n++] = (uint32_t)from[k].node;
        }
    }
}

/* What the node asks for with the inputs it has; KILN_WANTS_AGAIN means nothing here, since it is asked again anyhow.
 */
static kiln_status ask_node(scheduler *s, uint32_t i, uint64_t *wanted, error *e)
{
    arg_values v = values_of(s, i);
    kiln_status status = KILN_OK;
    *wanted = 0;
    for (size_t k = 0, n = args_calls(&v, i); k < n && status == KILN_OK; k++) {
        node_args a;
        uint64_t bits = 0;
        status = args_make(&v, i, k, &a, e);
        if (status == KILN_OK) status = s->hooks->wants(s->hooks->self, i, a.params, a.in, &bits, e);
        args_free(&a);
        *wanted |= bits & ~KILN_WANTS_AGAIN;
    }
    return status;
}

/* Lets the node wait for a lazy input. A source that has failed takes the node down with it: *as, *cause. */
static void await_input(scheduler *s, uint32_t i, const port_sources *p, node_state *as, uint32_t *cause)
{
    for (uint32_t k = 0; k < p->n; k++) {
        uint32_t from = (uint32_t)p->from[k].node;
        node_state state = s->slot[from].state;
        if (state == DONE) continue;
        if (state == FAILED || state == SKIPPED || state == LOST) {
            *as = state == LOST ? LOST : SKIPPED, *cause = from;
            continue;
        }
        s->slot[i].waits_for++;
        ask(s, from);
    }
}

/* 1: node i has asked for more, and waits or is done with; 0: it can run. Called under the lock, since what it asks for
 * may have been done meanwhile otherwise; wants() is cheap. */
static int asks_for_more(scheduler *s, uint32_t i)
{
    const graph_node *g = &s->w->node[i];
    error failure = {0};
    uint64_t wanted = 0;
    node_state as = WAITING;
    uint32_t cause = i;
    if (!s->hooks->wants || !g->type->wants) return 0;
    if (ask_node(s, i, &wanted, &failure) != KILN_OK) {
        node_failed(s, i, &failure, 0);
        wake_others(s);
        return 1;
    }
    uint64_t more = wanted & ~s->slot[i].asked_for;
    for (uint32_t p = 0; p < g->type->n_in && p < 63; p++)
        if (g->in[p].n == 0) more &= ~(UINT64_C(1) << p); /* an optional input that is not wired */
    if (!more) return 0;
    s->slot[i].state = WAITING;
    s->slot[i].asked_for |= more;
    for (uint32_t p = 0; p < g->type->n_in && p < 63; p++)
        if (more >> p & 1) await_input(s, i, &g->in[p], &as, &cause);
    if (as != WAITING) {
        skip_node(s, i, cause, as);
        skip_users(s, i, as);
    } else if (s->slot[i].waits_for == 0) {
        make_ready(s, i);
    }
    pthread_cond_broadcast(&s->changed);
    return 1;
}

/* A node of the same key has run: its values are this one's too. */
static void take_shared(scheduler *s, uint32_t i)
{
    slot *duplicate = &s->slot[s->slot[i].duplicate_of];
    assert(duplicate->state == DONE && duplicate->uses_left > 0);
    for (uint32_t k = 0; k < s->w->node[i].type->n_out; k++)
        s->slot[i].out[k] = duplicate->out[k] ? value_ref(duplicate->out[k]) : NULL;
    s->slot[i].unknown = duplicate->unknown;
    node_done(s, i, s->slot[i].unknown ? RUN_NODE_UNKNOWN : RUN_NODE_SHARED, 0, 0);
    release(s, (uint32_t)s->slot[i].duplicate_of);
    wake_others(s);
}

/* ---- nodes that are not called ---- */

static void inherit_unknown(scheduler *s, uint32_t to, source from, int32_t lazy)
{
    (void)lazy;
    if (s->slot[from.node].unknown) s->slot[to].unknown = 1;
}

static int is_unknown(scheduler *s, uint32_t i)
{
    if (!s->hooks->can_be_called) return 0;
    s->slot[i].unknown = !s->hooks->can_be_called(s->hooks->self, i);
    each_source(s, i, inherit_unknown);
    return s->slot[i].unknown;
}

static void pass_unknown(scheduler *s, uint32_t i)
{
    node_done(s, i, RUN_NODE_UNKNOWN, 0, 0);
    wake_others(s);
}

/* Takes the first node in the workflow's order that may start now; -1 when there is none. */
static int64_t pick(scheduler *s)
{
    int device = s->ready_device.n > 0 && !s->device_busy;
    if (!device && s->ready.n == 0) return NO_NODE;
    if (device && s->ready.n > 0) device = s->ready_device.place[0] < s->ready.place[0];
    return s->w->order[heap_pop(device ? &s->ready_device : &s->ready)];
}

static int finished(const scheduler *s) { return s->unfinished == 0 || (stopping(s) && s->running == 0); }

static void *worker(void *arg)
{
    scheduler *s = arg;
    pthread_mutex_lock(&s->lock);
    while (!finished(s)) {
        int64_t i = stopping(s) ? NO_NODE : pick(s);
        if (i == NO_NODE) {
            pthread_cond_wait(&s->changed, &s->lock);
        } else if (s->slot[i].duplicate_of != NO_NODE) {
            take_shared(s, (uint32_t)i);
        } else if (s->slot[i].known) {
            fetch_node(s, (uint32_t)i);
        } else if (is_unknown(s, (uint32_t)i)) {
            pass_unknown(s, (uint32_t)i);
        } else if (!asks_for_more(s, (uint32_t)i)) {
            run_node(s, (uint32_t)i);
        }
    }
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- setting up ---- */

typedef struct {
    digest key;
    uint32_t part;        /* 0: the key says everything, so it may be another part's */
    uint32_t place, node; /* place in order: the first of equal keys runs            */
} keyed;

static int same_result(const keyed *x, const keyed *y) { return digest_equal(x->key, y->key) && x->part == y->part; }

static int by_key(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->key.hi != y->key.hi) return x->key.hi < y->key.hi ? -1 : 1;
    if (x->key.lo != y->key.lo) return x->key.lo < y->key.lo ? -1 : 1;
    if (x->part != y->part) return x->part < y->part ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

static uint32_t part_of(const scheduler *s, uint32_t i)
{
    return s->setting->part_of && !s->w->node[i].cacheable ? s->setting->part_of[i] + 1 : 0;
}

/* Nodes of one key: all but the first wait for it and take its values. */
static kiln_status find_duplicates(scheduler *s)
{
    size_t n = 0;
    keyed *all = mem_alloc((s->w->n + 1) * sizeof *all);
    if (!all) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < s->w->n; i++) {
        const graph_node *g = &s->w->node[s->w->order[i]];
        uint32_t flags = s->slot[s->w->order[i]].wanted ? g->type->flags : 0;
        if ((flags & KILN_NODE_PURE) && !(flags & KILN_NODE_OUTPUT))
            all[n++] = (keyed){
                .key = g->key, .part = part_of(s, s->w->order[i]), .place = (uint32_t)i, .node = s->w->order[i]};
    }
    qsort(all, n, sizeof *all, by_key);
    for (size_t i = 1, first = 0; i < n; i++) {
        if (!same_result(&all[i], &all[first])) {
            first = i;
            continue;
        }
        s->slot[all[i].node].duplicate_of = (int32_t)all[first].node;
        s->slot[all[i].node].waits_for++;
        s->slot[all[first].node].uses_left++;
        s->slot[all[first].node].n_users++;
    }
    mem_free(all);
    return KILN_OK;
}

static void want(scheduler *s, uint32_t to, source from, int32_t lazy)
{
    s->slot[from.node].wanted = 1;
    if (lazy == NOT_LAZY && s->slot[to].asked) s->slot[from.node].asked = 1;
}

static void note_used(scheduler *s, uint32_t to, source from, int32_t lazy)
{
    (void)to, (void)lazy;
    s->slot[from.node].n_users = 1;
}

/* From the ends backwards: what is wanted and not at hand wants its sources. Ends are nodes that write, and nodes
 * nobody uses. */
static void demand(scheduler *s)
{
    const workflow *w = s->w;
    for (uint32_t i = 0; i < w->n; i++)
        if (w->node[i].needed) each_source(s, i, note_used);
    for (size_t p = w->n; p-- > 0;) {
        uint32_t i = w->order[p];
        const graph_node *g = &w->node[i];
        slot *x = &s->slot[i];
        x->place = (uint32_t)p;
        if (!g->needed) continue;
        if ((g->type->flags & KILN_NODE_OUTPUT) || !x->n_users) x->wanted = x->asked = !(s->settled[i] & SETTLED);
        if (!x->wanted) continue;
        x->known = !(s->settled[i] & GONE) && s->hooks->known && s->hooks->known(s->hooks->self, i) != 0;
        if (!x->known) each_source(s, i, want);
    }
    for (uint32_t i = 0; i < w->n; i++) s->slot[i].n_users = 0;
}

static kiln_status make_slots(scheduler *s)
{
    size_t n = s->w->n;
    s->slot = arena_alloc(&s->memory, (n + 1) * sizeof *s->slot);
    s->ready.place = arena_alloc(&s->memory, (n + 1) * sizeof(uint32_t));
    s->ready_device.place = arena_alloc(&s->memory, (n + 1) * sizeof(uint32_t));
    s->stack = arena_alloc(&s->memory, (n + 1) * sizeof *s->stack);
    s->doomed = arena_alloc(&s->memory, (n + 1) * sizeof *s->doomed);
    if (!s->slot || !s->ready.place || !s->ready_device.place || !s->stack || !s->doomed) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) s->slot[i].duplicate_of = NO_NODE;
    demand(s);
    return find_duplicates(s);
}

static kiln_status setup(scheduler *s)
{
    size_t n = s->w->n;
    TRY(make_slots(s));
    for (uint32_t i = 0; i < n; i++) each_awaited(s, i, count_user);
    for (size_t i = 0; i < n; i++) {
        if (!s->slot[i].wanted) continue;
        s->slot[i].out = arena_alloc(&s->memory, (s->w->node[i].type->n_out + 1) * sizeof(kiln_value *));
        s->slot[i].users = arena_alloc(&s->memory, (s->slot[i].n_users + 1) * sizeof(user));
        if (!s->slot[i].out || !s->slot[i].users) return KILN_ERR_NOMEM;
        s->slot[i].n_users = 0;
        s->unfinished++;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!s->slot[i].wanted) continue;
        each_awaited(s, i, note_user);
        int32_t duplicate = s->slot[i].duplicate_of;
        if (duplicate != NO_NODE) s->slot[duplicate].users[s->slot[duplicate].n_users++] = (user){i, NOT_LAZY};
    }
    s->summary->total = run_finished(s->summary) + s->unfinished;
    for (size_t i = 0; i < n; i++)
        if (s->slot[i].wanted && s->slot[i].asked && s->slot[i].duplicate_of != NO_NODE)
            ask(s, (uint32_t)s->slot[i].duplicate_of);
    for (size_t i = 0; i < n; i++) /* what only a node wanted that takes another's values */
        if (s->slot[i].wanted && !s->slot[i].asked && s->slot[i].uses_left == 0) s->doomed[s->n_doomed++] = (uint32_t)i;
    settle_doomed(s);
    for (size_t i = 0; i < n; i++)
        if (s->slot[i].state == WAITING && s->slot[i].asked && s->slot[i].waits_for == 0) make_ready(s, (uint32_t)i);
    return KILN_OK;
}

static void run_workers(scheduler *s)
{
    pthread_t thread[WORKERS_MAX];
    unsigned wanted = s->setting->workers ? s->setting->workers : WORKERS_DEFAULT, started = 0;
    if (wanted > WORKERS_MAX) wanted = WORKERS_MAX;
    while (started + 1 < wanted && pthread_create(&thread[started], NULL, worker, s) == 0) started++;
    worker(s);
    for (unsigned i = 0; i < started; i++) pthread_join(thread[i], NULL);
}

/* One round: KILN_OK when everything wanted was settled or lost. */
static kiln_status run_round(scheduler *s)
{
    kiln_status status = setup(s);
    if (status == KILN_OK)
        run_workers(s);
    else
        error_set(s->e, status, "out of memory for the run");
    for (uint32_t i = 0; s->slot && i < s->w->n; i++)
        if (s->slot[i].wanted) drop_values(s, i);
    s->slot = NULL;
    s->ready = s->ready_device = (heap){0};
    arena_free(&s->memory);
    return status;
}

kiln_status run_schedule(const workflow *w, const run_hooks *hooks, const run_setting *setting, run_summary *summary,
                         error *e)
{
    error none = {0};
    scheduler s = {.w = w, .hooks = hooks, .setting = setting, .summary = summary, .e = e ? e : &none};
    *summary = (run_summary){0};
    s.settled = mem_calloc(w->n + 1, 1);
    if (!s.settled) return error_set(s.e, KILN_ERR_NOMEM, "out of memory for the run");
    for (size_t i = 0; i < w->n; i++)
        for (uint32_t k = 0; w->node[i].needed && k < w->node[i].type->n_out; k++)
            s.lists |= makes_list(&w->node[i], k);
    pthread_mutex_init(&s.lock, NULL);
    pthread_cond_init(&s.changed, NULL);
    do {
        s.unfinished = s.lost = 0;
        if (run_round(&s) != KILN_OK) break;
    } while (s.lost > 0 && !s.stop && !(setting->cancel && atomic_load(setting->cancel)));
    pthread_cond_destroy(&s.changed);
    pthread_mutex_destroy(&s.lock);
    mem_free(s.settled);
    if ((s.unfinished > 0 || s.lost > 0) && setting->cancel && atomic_load(setting->cancel)) {
        summary->cancelled = 1;
        return s.e->status == KILN_OK || s.e->status == KILN_CANCELLED ? error_set(s.e, KILN_CANCELLED, "cancelled")
                                                                       : s.e->status;
    }
    if (s.e->status == KILN_OK && (s.unfinished > 0 || s.lost > 0))
        return error_set(s.e, KILN_ERR_BUG, "%zu nodes were not run", s.unfinished + s.lost);
    return s.e->status;
}
