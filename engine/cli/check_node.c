/* check_node.c - one node under the contract, with everything that can be made to go wrong going wrong.
 *
 * Each way of filling the parameters is run twice with memory poisoned differently: what a PURE node makes must be the
 * same. Tensors lie against unreadable pages and inputs are read-only, so a write outside is a fault, which the handler
 * names. Then the node is cancelled at each of its ticks, and each allocation fails once. Not tried: nodes that need a
 * model or a file that is not given.
 */
#include "cli/check_elsewhere.h"

#include "backend/runtime.h"
#include "base/clock.h"
#include "base/memory_alloc.h"
#include "base/memory_guard.h"
#include "base/str.h"
#include "cli/sample_values.h"
#include "param/param_text.h"
#include "param/subgraph.h"
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "plugin/output.h"
#include "plugin/process_state.h"
#include "plugin/value_types.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { LATE_MS = 20, TICKS_TRIED = 16, IN_MAX = 256, OUR_REFERENCES = 9 };
enum { RANDOM = 1 << 20 }; /* ways from here on are parameters drawn by a seed */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { SLOW_MS = 1000 };
#else
enum { SLOW_MS = 100 };
#endif
enum {
    RANDOM_MS = 300,
    WAIT_TIMES = 10
}; /* of processor time, unless sets are asked for; by the clock so often that */

typedef struct {
    const kiln_node *type;
    const check_context *of;
    kiln_param_table table;
    made_values *made;
    runtime *rt;
    int one_thread; /* rt has no threads of its own, so that what is left is the node's */
    check_counts counts;
} bench;

/* One call and what is to happen to it. */
typedef struct {
    kiln_ctx ctx;
    call_environment env;
    output_folder output;
    int64_t cancel_at, ticks, ticks_after; /* cancel_at < 0: never */
    int64_t last_tick_ms, longest_ms;
    double last_tick, waited, longest; /* by the clock, less what it waited for a processor; seconds */
    unsigned char poison;
} trial;

/* The last calls, for who uses a kiln_ctx after its call has ended. */
enum { KEPT = 64 };
static trial kept[KEPT];
static size_t n_kept;
static int used_late;

typedef struct {
    kiln_status status;
    error failure;
    digest made; /* of all outputs, when status is KILN_OK */
    int64_t ticks, ticks_after, longest_ms, allocations;
    double longest;
    int missing, wrong_type, not_finite, not_kept, wrote_input, moved_floats, leaked, dropped;
    char detail[300], habit[400]; /* habit: what it left changed in the process; "": nothing */
} outcome;

__attribute__((format(printf, 4, 5))) static int verdict(bench *b, int ok, const char *test, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    check_foundv(&b->counts, ok, test, fmt, args);
    va_end(args);
    return ok;
}

/* ---- the host a tried node sees ---- */

/* Processor time, so that a busy machine blames nobody. */
static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int is_cancelled(void *arg)
{
    const trial *t = arg;
    return t->cancel_at >= 0 && t->ticks > t->cancel_at;
}

/* Seconds that this thread was ready to run and did not; negative: this kernel does not say. */
static double waited(void)
{
    static int fd = -1, tried;
    char text[100];
    if (!tried) tried = 1, fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? pread(fd, text, sizeof text - 1, 0) : -1;
    if (n <= 0) return -1;
    text[n] = '\0';
    const char *second = strchr(text, ' ');
    return second ? strtod(second, NULL) * 1e-9 : -1;
}

static int is_late(kiln_ctx *c)
{
    if (!atomic_load(&c->ended)) return 0;
    atomic_store(&c->ended, 2);
    return 1;
}

/* The longest way from one call of progress() to the next by the clock: who sleeps cannot be cancelled, either. */
static void measure(trial *t)
{
    double now = clock_seconds(), all = now - t->last_tick, wait = all > SLOW_MS / 2000.0 ? waited() : -1;
    double own = wait < 0 || t->waited < 0 ? 0 : all - (wait - t->waited);
    if (own > t->longest) t->longest = own;
    t->last_tick = now;
    if (wait >= 0) t->waited = wait;
}

static kiln_status tick(kiln_ctx *c, uint64_t done, uint64_t total, const char *what)
{
    (void)done, (void)total, (void)what;
    if (is_late(c)) return KILN_CANCELLED;
    trial *t = c->env->arg;
    int64_t now = now_ms();
    measure(t);
    if (now - t->last_tick_ms > t->longest_ms) t->longest_ms = now - t->last_tick_ms;
    t->last_tick_ms = now;
    if (is_cancelled(t)) t->ticks_after++;
    t->ticks++;
    return is_cancelled(t) ? KILN_CANCELLED : KILN_OK;
}

/* Each piece of scratch is a block of its own, so that its ends are guarded. */
typedef struct piece {
    struct piece *next;
    void *data;
} piece;
static piece *pieces;

static void *scratch(kiln_ctx *c, size_t bytes, uint32_t device)
{
    if (is_late(c)) return NULL;
    piece *p = device == KILN_CPU ? malloc(sizeof *p) : NULL;
    void *data = p ? mem_aligned(64, bytes) : NULL;
    if (!data) {
        free(p);
        error_set(ctx_error(c), KILN_ERR_NOMEM, "out of memory: %zu bytes of working memory", bytes);
        return NULL;
    }
    *p = (piece){.next = pieces, .data = data};
    pieces = p;
    return data;
}

static void scratch_free(void)
{
    while (pieces) {
        piece *next = pieces->next;
        mem_free(pieces->data);
        free(pieces);
        pieces = next;
    }
}

/* Guarding and poisoning a large tensor takes time that is ours, not the node's. */
static kiln_value *tensor_new(kiln_ctx *c, uint32_t dtype, uint32_t device, uint32_t rank, const int64_t *dim)
{
    if (is_late(c)) return NULL;
    trial *t = c->env->arg;
    int64_t start = now_ms();
    double began = clock_seconds();
    kiln_value *v = engine_host.tensor_new(c, dtype, device, rank, dim);
    t->last_tick_ms += now_ms() - start;
    t->last_tick += clock_seconds() - began;
    return v;
}

static kiln_host tried_host(void)
{
    kiln_host h = engine_host;
    h.progress = tick;
    h.tensor_new = tensor_new;
    h.scratch = scratch;
    return h;
}

/* ---- a fault and its name ---- */

static const char *doing = "while it was prepared";

static void on_fault(int signal_number, siginfo_t *info, void *context)
{
    static const char *const what[] = {
        [GUARD_NOTHING] = "used memory that is not its own",
        [GUARD_BEFORE] = "used memory before the beginning of a tensor or scratch block",
        [GUARD_AFTER] = "used memory past the end of a tensor or scratch block",
        [GUARD_READ_ONLY] = "wrote to one of its inputs, which are read-only",
    };
    check_counts lost = {0};
    (void)context;
    check_found(&lost, 0, "memory", "%s (SIG%s) %s", what[mem_guard_place(info->si_addr)], sigabbrev_np(signal_number),
                doing);
    _exit(1);
}

static void watch_faults(void)
{
    static unsigned char stack[65536];
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    struct sigaction a = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND};
    sigaction(SIGSEGV, &a, NULL);
    sigaction(SIGBUS, &a, NULL);
}

/* ---- one call ---- */

typedef struct {
    kiln_value *in[IN_MAX];
    digest before[IN_MAX];
    uint32_t refs[IN_MAX]; /* before the call */
    size_t alive;
} prepared;

static void lock_tensor(void *arg, const void *data) { mem_guard_protect(data, *(int *)arg); }

static int prepare(const bench *b, prepared *p)
{
    memset(p, 0, sizeof *p);
    p->alive = mem_guard_alive();
    for (uint32_t i = 0; i < b->type->n_in; i++) {
        const kiln_port *port = &b->type->in[i];
        p->in[i] = sample_known(port) ? sample_value(port) : made_value(b->made, port);
        if (!p->in[i] && port->flags & KILN_PORT_OPTIONAL) continue; /* check_node_needs() has said so of others */
        if (!p->in[i] || value_digest(p->in[i], &p->before[i], NULL) != KILN_OK) return 0;
        for (int k = 1; k < OUR_REFERENCES; k++)
            value_ref(p->in[i]); /* what a node wrongly lets go is not freed under us */
        sample_tensors(p->in[i], lock_tensor, &(int){0});
    }
    for (uint32_t i = 0; i < b->type->n_in; i++) /* behind the last: two inputs may be one value */
        if (p->in[i]) p->refs[i] = value_refs(p->in[i]);
    return 1;
}

static void look_at_inputs(const bench *b, prepared *p, outcome *o)
{
    digest after;
    for (uint32_t i = 0; i < b->type->n_in; i++) {
        if (!p->in[i]) continue;
        if (value_digest(p->in[i], &after, NULL) != KILN_OK || !digest_equal(after, p->before[i])) o->wrote_input = 1;
        const uint32_t refs = value_refs(p->in[i]), were = p->refs[i];
        if (refs != were) {
            o->leaked |= refs > were, o->dropped |= refs < were;
            snprintf(o->detail, sizeof o->detail, "input '%s' ends with %d references too %s", b->type->in[i].name,
                     abs((int)refs - (int)were), refs > were ? "many" : "few");
        }
    }
    for (uint32_t i = 0; i < b->type->n_in; i++)
        for (uint32_t k = 0, n = p->in[i] ? value_refs(p->in[i]) : 0; k < n && k < OUR_REFERENCES; k++)
            value_unref(p->in[i]);
    if (!o->leaked && mem_guard_alive() > p->alive) {
        o->leaked = 1;
        snprintf(o->detail, sizeof o->detail, "%zu tensors it made were neither handed over nor let go",
                 mem_guard_alive() - p->alive);
    }
}

/* An object whose type has a stored form: into plain data and back, and again. */
static void look_at_stored(const kiln_value *v, const char *name, outcome *o)
{
    const kiln_stored_type *t = value_kind(v) == KILN_V_OBJECT ? stored_type_find(value_api.object_type(v)) : NULL;
    error why = {0};
    digest one, two;
    if (!t) return;
    kiln_value *plain = stored_type_to_plain(t, v, &why), *again = NULL, *object = NULL;
    if (!plain) return; /* this one is not kept, which it may say */
    value_publish(plain);
    if ((object = stored_type_from_plain(t, plain, &why))) again = stored_type_to_plain(t, object, &why);
    if (!again || value_digest(plain, &one, &why) != KILN_OK || value_digest(again, &two, &why) != KILN_OK) {
        o->not_kept = 1;
        snprintf(o->detail, sizeof o->detail, "output '%s' becomes plain data and does not come back: %.200s", name,
                 why.message[0] ? why.message : "without a message");
    } else if (!digest_equal(one, two)) {
        o->not_kept = 1;
        snprintf(o->detail, sizeof o->detail, "output '%s' comes back from its plain data as something else", name);
    }
    value_unref(again), value_unref(object), value_unref(plain);
}

static void look_at_outputs(const bench *b, kiln_value **out, outcome *o)
{
    hasher *h = hasher_new();
    for (uint32_t i = 0; h && i < b->type->n_out; i++) {
        error why = {0};
        digest d;
        const char *name = b->type->out[i].name;
        if (!out[i]) {
            o->missing = 1;
            snprintf(o->detail, sizeof o->detail, "output '%s'", name);
        } else if (value_fits_port(out[i], &b->type->out[i], &why) != KILN_OK) {
            o->wrong_type = 1;
            snprintf(o->detail, sizeof o->detail, "output '%s': %.200s", name, why.message);
        } else if (value_digest(out[i], &d, &why) == KILN_OK) {
            hash_digest(h, d);
        }
        if (out[i] && value_has_nonfinite(out[i])) o->not_finite = 1;
        if (out[i]) look_at_stored(out[i], name, o);
    }
    if (h) o->made = hasher_digest(h);
    hasher_free(h);
}

/* The parameters of a way, and what the user set. */
static int fill(const bench *b, size_t way, arena *memory, void *params)
{
    int done = way < RANDOM ? sample_params(&b->table, way, memory, params)
                            : sample_random_params(&b->table, way - RANDOM, memory, params);
    return done && made_settings(b->of->setting, b->of->n_setting, &b->table, memory, params);
}

static void note_habit(void *arg, const char *what)
{
    outcome *o = arg;
    if (!o->habit[0]) snprintf(o->habit, sizeof o->habit, "%s", what);
}

/* Room for a call whose kiln_ctx stays when it is over. */
static trial *next_trial(void)
{
    trial *t = &kept[n_kept++ % KEPT];
    if (atomic_load(&t->ctx.ended) == 2) used_late = 1;
    *t = (trial){0};
    return t;
}

static void keep_trial(trial *t)
{
    t->ctx.env = NULL;
    atomic_store(&t->ctx.ended, 1);
}

/* A call that does not come back ends this process; the whole node has its own limit. */
static void limit_call(const bench *b, int on)
{
    double left = b->of->deadline - clock_seconds();
    unsigned whole = left > 1 ? (unsigned)left : 1;
    if (b->of->deadline > 0) alarm(on && b->of->call_seconds < whole ? b->of->call_seconds : whole);
}

/* fail_at: which allocation inside the node fails, < 0 for none. */
static outcome call_once(bench *b, size_t way, unsigned char poison, int64_t cancel_at, int64_t fail_at)
{
    outcome o = {0};
    prepared p;
    arena memory = {0};
    kiln_host host = tried_host();
    kiln_value *out[IN_MAX] = {0};
    void *instance = NULL, *params = calloc(1, b->type->params_size + 1);
    trial *t = next_trial();
    t->cancel_at = cancel_at, t->poison = poison, t->output.path = b->of->folder;
    t->env = (call_environment){
        .runtime = b->rt, .pool = runtime_pool(b->rt), .output = &t->output, .cancelled = is_cancelled, .arg = t};
    t->ctx = (kiln_ctx){.env = &t->env, .node_name = "tried", .node_type = b->type->type, .plugin = "tried"};
    snprintf(t->ctx.who, sizeof t->ctx.who, "node 'tried' (%.128s)", b->type->type);
    int ready = params && fill(b, way, &memory, params);
    mem_guard(1, poison);
    kiln_call c = {
        .size = sizeof c, .device = KILN_CPU, .host = &host, .ctx = &t->ctx, .params = params, .in = p.in, .out = out};
    o.status = ready && prepare(b, &p) ? KILN_OK : KILN_ERR_NOMEM;
    if (o.status == KILN_OK && b->type->create) o.status = b->type->create(&engine_host, &instance);
    if (o.status == KILN_OK && b->type->check)
        o.status = b->type->check(&(kiln_call){.size = sizeof c,
                                               .device = KILN_CPU,
                                               .host = &host,
                                               .ctx = &t->ctx,
                                               .params = params,
                                               .instance = instance});
    if (o.status == KILN_OK) {
        process_state state = {0};
        limit_call(b, 1);
        if (way < RANDOM) process_state_take(&state, b->of->plugin->id, b->one_thread);
        uint64_t floats = float_state();
        c.instance = instance;
        t->last_tick_ms = now_ms();
        t->last_tick = clock_seconds(), t->waited = waited();
        mem_fail_at(fail_at, 0);
        o.status = b->type->run(&c);
        o.allocations = mem_count();
        mem_fail_at(-1, 0);
        tick(&t->ctx, 0, 0, NULL);
        t->ticks--, t->ticks_after -= is_cancelled(t);
        o.moved_floats = float_state() != floats;
        float_state_set(floats);
        process_state_find(&state, b->of->plugin->id, note_habit, &o);
        limit_call(b, 0);
        if (o.status == KILN_OK) look_at_outputs(b, out, &o);
        for (uint32_t i = 0; i < b->type->n_out; i++) value_unref(out[i]);
        files_discard(&t->ctx);
        scratch_free();
        arena_free(&t->ctx.scratch);
        look_at_inputs(b, &p, &o);
    }
    if (instance && b->type->destroy) b->type->destroy(instance);
    o.status = ctx_first_failure(&t->ctx, o.status);
    o.failure = t->ctx.failure, o.ticks = t->ticks, o.ticks_after = t->ticks_after, o.longest_ms = t->longest_ms,
    o.longest = t->longest;
    keep_trial(t);
    arena_free(&memory);
    free(params);
    mem_guard(0, 0);
    return o;
}

/* ---- the tests ---- */

static void judge_call(bench *b, const outcome *o, const char *when)
{
    verdict(b, o->status == KILN_OK || o->failure.message[0], "message", "failed with %s but without a message %s",
            status_name(o->status), when);
    verdict(b, o->status != KILN_ERR_BUG, "bug", "returned KILN_ERR_BUG %s: %s", when, o->failure.message);
    verdict(b, o->status != KILN_CANCELLED, "cancel", "returned KILN_CANCELLED %s, though nobody asked", when);
    verdict(b, !o->missing, "output", "said it succeeded but did not set %s %s", o->detail, when);
    verdict(b, !o->wrong_type, "output", "%s %s", o->detail, when);
    verdict(b, !o->not_finite, "finite", "made a NaN or infinity from finite inputs %s", when);
    verdict(b, !o->not_kept, "round-trip", "%s %s", o->detail, when);
    verdict(b, !o->wrote_input, "read-only", "changed one of its inputs %s", when);
    verdict(b, !o->moved_floats, "float-mode", "changed the floating-point mode %s", when);
    verdict(b, !o->habit[0], "process", "%s it %s", when, o->habit);
    verdict(b, !o->leaked, "references", "kept a reference %s: %s", when, o->detail);
    verdict(b, !o->dropped, "references", "dropped a reference that is not its own %s: %s", when, o->detail);
    verdict(b, o->longest_ms <= SLOW_MS || o->status != KILN_OK, "progress",
            "computed %lld ms without calling progress() %s; at most %d", (long long)o->longest_ms, when, SLOW_MS);
    verdict(b, mem_guard_damaged() == 0, "memory", "wrote just outside a tensor or scratch block %s", when);
}

static void try_way(bench *b, size_t way)
{
    static char when[200];
    char name[160];
    snprintf(when, sizeof when, "%s", sample_way_name(&b->table, way, name));
    doing = when;
    outcome one = call_once(b, way, 0x11, -1, -1);
    judge_call(b, &one, when);
    outcome two = call_once(b, way, 0xEE, -1, -1);
    mem_guard_damaged();
    verdict(b, one.status == two.status, "same", "ended with %s once and with %s the next time %s",
            status_name(one.status), status_name(two.status), when);
    double longest =
        one.longest < two.longest ? one.longest : two.longest; /* what is the machine's is not there twice */
    verdict(b, longest * 1000 <= SLOW_MS || one.status != KILN_OK || one.longest_ms > SLOW_MS, "progress",
            "waited %.0f ms without calling progress() %s; at most %d", longest * 1000, when, SLOW_MS);
    if (b->type->flags & KILN_NODE_PURE && one.status == KILN_OK && two.status == KILN_OK)
        verdict(b, digest_equal(one.made, two.made), "pure",
                "is declared PURE but made other bytes the second time %s (or left a part unwritten)", when);
}

/* How many of the sets that were asked for were tried. Most of a set's time is not the node's: its inputs are made anew
 * each time, guarded and digested twice. */
static void tell_sets(bench *b, uint64_t tried, int64_t ms)
{
    const unsigned long long asked = b->of->sets, did = tried;
    if (tried == asked)
        check_holds(&b->counts, "sets", "%llu parameter sets asked, all tried in %.1f s", asked, (double)ms / 1000);
    else
        check_left(&b->counts, b->type->type,
                   "%llu of %llu parameter sets: %llu were tried in %.1f s of processor time; --sets-seconds allows "
                   "more than %u",
                   asked - did, asked, did, (double)ms / 1000, b->of->sets_seconds);
}

/* Parameters anywhere in their ranges. */
static void try_random(bench *b)
{
    const int64_t began = now_ms(), most = b->of->sets ? b->of->sets_seconds * 1000 : RANDOM_MS;
    /* a node that waits takes no processor time */
    const double until = clock_seconds() + (double)most / 1000 * WAIT_TIMES;
    uint64_t i = 0;
    for (; b->table.n_param && (!b->of->sets || i < b->of->sets) && now_ms() - began < most && clock_seconds() < until;
         i++) {
        static char when[600];
        arena memory = {0};
        str said = {0};
        void *params = arena_alloc(&memory, b->table.params_size + 1);
        if (!params || !fill(b, RANDOM + i, &memory, params)) {
            arena_free(&memory);
            continue;
        }
        str_append(&said, "with");
        for (uint32_t k = 0; k < b->table.n_param; k++) {
            const kiln_param *p = param_row(&b->table, k);
            param_value v = param_get(p, params);
            str_printf(&said, " %s=", p->name);
            param_value_text(&v, &said);
        }
        snprintf(when, sizeof when, "%.599s", said.failed ? "with parameters drawn at random" : str_text(&said));
        str_free(&said);
        arena_free(&memory);
        doing = when;
        outcome o = call_once(b, RANDOM + i, (unsigned char)(i | 1), -1, -1);
        judge_call(b, &o, when);
    }
    if (b->of->sets && b->table.n_param) tell_sets(b, i, now_ms() - began);
}

/* Other numbers of threads make the same bytes. */
static void try_threads(bench *b, const outcome *alone)
{
    error e = {0};
    runtime *one = b->rt,
            *more = runtime_new(
                &(runtime_setting){.backend = backend_find("reference"), .threads = 3, .precision = KILN_F32}, &e);
    doing = "with three threads";
    if (!more) return;
    b->rt = more, b->one_thread = 0;
    outcome o = call_once(b, 0, 0x55, -1, -1);
    b->rt = one, b->one_thread = 1;
    runtime_free(more);
    verdict(b, o.status == alone->status, "threads", "ended with %s with one thread, and with %s with three",
            status_name(alone->status), status_name(o.status));
    if (b->type->flags & KILN_NODE_PURE && o.status == KILN_OK && alone->status == KILN_OK)
        verdict(b, digest_equal(o.made, alone->made), "threads",
                "is declared PURE but made other bytes with three threads than with one");
}

/* Another process has other addresses, another id, and memory that nobody has used; then other surroundings, too. */
static void try_elsewhere(bench *b, const outcome *here)
{
    digest made;
    if (!(b->type->flags & KILN_NODE_PURE) || here->status != KILN_OK) return;
    int there = elsewhere_made(b->of->elsewhere, b->type->type, &made);
    if (there > 0 && !verdict(b, digest_equal(made, here->made), "pure",
                              "is declared PURE but made other bytes in another process at the defaults: what it makes "
                              "depends on an address, a process id, the time, or on what its first call left"))
        return;
    const check_elsewhere *changed = b->of->changed;
    const char *names = changed ? changed->names : "", * or = names[0] ? ", or on a variable (" : "";
    there = elsewhere_made(changed, b->type->type, &made);
    verdict(b, there >= 0, "pure",
            "is declared PURE but failed with another environment: it wants the working folder, HOME, LANG, TZ, the "
            "umask%s%s%s",
            or, names, names[0] ? ")" : "");
    verdict(b, there <= 0 || digest_equal(made, here->made), "pure",
            "is declared PURE but made other bytes with another environment: what it makes depends on the working "
            "folder, HOME, USER, LANG, TZ, TMPDIR, the umask, the clock%s%s%s",
            or, names, names[0] ? ")" : "");
}

static void try_cancel(bench *b, const outcome *whole)
{
    for (int64_t k = 0; k < whole->ticks && k < TICKS_TRIED; k++) {
        static char when[80];
        snprintf(when, sizeof when, "when it was cancelled at call %lld of progress()", (long long)k + 1);
        doing = when;
        outcome o = call_once(b, 0, 0x33, k, -1);
        verdict(b, o.status == KILN_CANCELLED, "cancel", "returned %s instead of KILN_CANCELLED %s",
                status_name(o.status), when);
        verdict(b, o.ticks_after == 0, "cancel", "went on %s", when);
        verdict(b, !o.leaked && !o.dropped, "references", "lost count %s: %s", when, o.detail);
    }
}

static void try_no_memory(bench *b, const outcome *whole)
{
    for (int64_t k = 0; k < whole->allocations; k++) {
        static char when[80];
        snprintf(when, sizeof when, "when allocation %lld of %lld failed", (long long)k + 1,
                 (long long)whole->allocations);
        doing = when;
        outcome o = call_once(b, 0, 0x44, -1, k);
        int unharmed = o.status == KILN_OK && digest_equal(o.made, whole->made);
        verdict(b, o.status == KILN_ERR_NOMEM || unharmed, "no-memory", "returned %s instead of KILN_ERR_NOMEM %s",
                status_name(o.status), when);
        verdict(b, !o.leaked && !o.dropped, "references", "lost count %s: %s", when, o.detail);
    }
}

/* Threads that are left behind have had the time of the later calls; the last call's have a moment. */
static void try_late(bench *b)
{
    nanosleep(&(struct timespec){.tv_nsec = LATE_MS * 1000000L}, NULL);
    for (size_t i = 0; i < KEPT; i++) used_late |= atomic_load(&kept[i].ctx.ended) == 2;
    verdict(
        b, !used_late, "late",
        "used its kiln_ctx after the call had ended (a thread it left behind?); a kiln_ctx is valid only until run() "
        "returns");
}

/* expand() at every way of the parameters, once with all inputs wired and once with none. */
static void try_expand(bench *b)
{
    char name[160];
    for (size_t way = 0; way < 2 * sample_ways(&b->table); way++) {
        arena memory = {0};
        error said = {0}, why = {0};
        kiln_graph made;
        void *params = arena_alloc(&memory, b->type->params_size + 1);
        uint32_t *wires = arena_alloc(&memory, (b->type->n_in + 1u) * sizeof *wires);
        int ready = params && wires && fill(b, way / 2, &memory, params);
        for (uint32_t i = 0; ready && i < b->type->n_in; i++)
            wires[i] = !(b->type->in[i].flags & KILN_PORT_OPTIONAL) || way % 2;
        if (!ready || subgraph_init(&made, b->type, wires, &memory, &said) != KILN_OK) {
            arena_free(&memory);
            continue;
        }
        kiln_status status = ctx_expand("tried", "tried", b->type, params, &made, &why);
        const char *when = sample_way_name(&b->table, way / 2, name);
        verdict(b, status == KILN_OK || status == KILN_ERR_INVALID, "expand", "%s %s", why.message, when);
        for (uint32_t i = 0; status == KILN_OK && i < b->type->n_out; i++)
            verdict(b, made.output[i].output != NULL, "expand", "does not say what output '%s' is %s",
                    b->type->out[i].name, when);
        arena_free(&memory);
    }
}

/* wants() before anything is there: it names lazy inputs alone. */
static void try_wants(bench *b)
{
    for (size_t way = 0; b->type->wants && way < sample_ways(&b->table); way++) {
        arena memory = {0};
        error why = {0};
        uint64_t wanted;
        char name[160];
        void *params = arena_alloc(&memory, b->type->params_size + 1);
        if (params && fill(b, way, &memory, params)) {
            kiln_status status = ctx_wants(NULL, "tried", "tried", b->type, params, NULL, &wanted, &why);
            verdict(b, status == KILN_OK || status == KILN_ERR_INVALID, "wants", "%s %s", why.message,
                    sample_way_name(&b->table, way, name));
        }
        arena_free(&memory);
    }
}

const char *check_node_needs(const check_context *of, const kiln_node *n, char why[256])
{
    if (n->expand) return NULL;
    for (uint32_t i = 0; i < n->n_in; i++)
        if (!sample_known(&n->in[i]) && !(n->in[i].flags & KILN_PORT_OPTIONAL) && !made_can(of, n->in[i].type)) {
            snprintf(why, 256, "its input '%s' takes a %s, which only a workflow can bring", n->in[i].name,
                     n->in[i].type);
            return why;
        }
    for (uint32_t i = 0; i < n->n_param; i++)
        if (n->param[i].type == KILN_P_FILE && !made_is_set(of, n->param[i].name)) {
            snprintf(why, 256, "its parameter '%s' names a file; --set %s=FILE gives one", n->param[i].name,
                     n->param[i].name);
            return why;
        }
    return NULL;
}

static runtime *one_thread(error *e)
{
    return runtime_new(&(runtime_setting){.backend = backend_find("reference"), .threads = 1, .precision = KILN_F32},
                       e);
}

/* NULL, or the first input that has to be there and that no node of the plugin has made. */
static const kiln_port *make_inputs(bench *b)
{
    const kiln_port *missing = NULL;
    for (uint32_t i = 0; i < b->type->n_in; i++) {
        const kiln_port *port = &b->type->in[i];
        if (sample_known(port)) continue;
        made_make(b->made, b->rt, port->type);
        kiln_value *v = made_value(b->made, port);
        if (!v && !(port->flags & KILN_PORT_OPTIONAL) && !missing) missing = port;
        value_unref(v);
    }
    return missing;
}

int check_node_made(const check_context *of, const node_info *n, digest *made)
{
    error e = {0};
    made_values values = {.of = of};
    bench b = {.type = n->node, .of = of, .table = sample_table(n->node), .made = &values, .rt = one_thread(&e)};
    if (!b.rt) return 0;
    make_inputs(&b);
    outcome o = call_once(&b, 0, 0x22, -1, -1);
    made_free(&values);
    runtime_free(b.rt);
    *made = o.made;
    return o.status == KILN_OK;
}

check_counts check_node(const check_context *of, const node_info *n)
{
    error e = {0};
    made_values made = {.of = of};
    bench b = {.type = n->node, .of = of, .table = sample_table(n->node), .made = &made};
    b.rt = one_thread(&e);
    verdict(&b, b.rt != NULL, "runtime", "%s", e.message);
    if (!b.rt) return b.counts;
    check_rows_filled(
        &b.counts,
        &(kiln_param_table){.param = b.type->param, .n_param = b.type->n_param, .params_size = b.type->params_size});
    watch_faults();
    if (b.type->expand) {
        try_expand(&b);
        runtime_free(b.rt);
        return b.counts;
    }
    const kiln_port *missing = make_inputs(&b);
    if (missing) {
        check_left(&b.counts, n->node->type, "its input '%s' takes a %s, and what should make one failed: %s",
                   missing->name, missing->type, made.why.message);
        made_free(&made);
        runtime_free(b.rt);
        return b.counts;
    }
    try_wants(&b);
    outcome warm = call_once(&b, 0, 0x22, -1, -1); /* what it makes once and keeps is made now */
    mem_guard_damaged();
    verdict(&b, !warm.habit[0], "process", "in its first call it %s", warm.habit);
    b.one_thread = 1;
    for (size_t way = 0; way < sample_ways(&b.table); way++) try_way(&b, way);
    if (warm.status == KILN_OK) {
        outcome whole = call_once(&b, 0, 0x22, -1, -1);
        try_threads(&b, &whole);
        try_elsewhere(&b, &whole);
        try_cancel(&b, &whole);
        try_no_memory(&b, &whole);
    }
    try_random(&b);
    try_late(&b);
    made_free(&made);
    runtime_free(b.rt);
    return b.counts;
}
