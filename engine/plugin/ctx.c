/* ctx.c - running one node under the contract; see ctx.h. */
#include "plugin/ctx.h"

#include "backend/runtime.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/memory_guard.h"
#include "param/param_rows.h"
#include "param/subgraph.h"
#include "plugin/abilities.h"
#include "plugin/borrowed.h"
#include "plugin/call_again.h"
#include "plugin/crash_report.h"
#include "plugin/process_state.h"
#include "plugin/spill.h"
#include "plugin/supervised.h"
#include "plugin/value_types.h"
#include "tensor/value.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

/* ---- calls that have ended ---- */

enum { CONTEXTS = 256 };

/* Contexts stay readable for a while after their calls, so that one that is used too late is found out. */
static struct {
    atomic_int taken;
    kiln_ctx ctx;
} contexts[CONTEXTS];
static atomic_uint next_context;

/* NULL: more calls than that run at once; then the caller uses its own. */
static kiln_ctx *take_context(void)
{
    for (int i = 0; i < CONTEXTS; i++) {
        unsigned at = atomic_fetch_add(&next_context, 1) % CONTEXTS;
        int none = 0;
        if (atomic_compare_exchange_strong(&contexts[at].taken, &none, 1)) return &contexts[at].ctx;
    }
    return NULL;
}

static void end_context(kiln_ctx *c)
{
    for (int i = 0; i < CONTEXTS; i++) {
        if (&contexts[i].ctx != c) continue;
        snprintf(c->who, sizeof c->who, "node '%.80s' (%.80s) of plugin %.80s", c->node_name, c->node_type, c->plugin);
        c->env = NULL;
        c->call = 0;
        atomic_store(&c->ended, 1);
        atomic_store(&contexts[i].taken, 0);
        return;
    }
}

int ctx_is_late(kiln_ctx *c)
{
    int ended = 1;
    if (!c || !atomic_load(&c->ended)) return 0;
    if (atomic_compare_exchange_strong(&c->ended, &ended, 2))
        log_error("%s used its kiln_ctx after the call had ended (a thread it left behind?); a kiln_ctx is valid only "
                  "until run() returns",
                  c->who);
    return 1;
}

error *ctx_error(kiln_ctx *c)
{
    ctx_is_late(c);
    if (c) supervised_sign(c->call);
    return c ? &c->failure : NULL;
}

const call_environment *ctx_env(const kiln_ctx *c)
{
    static const call_environment nothing;
    return c && c->env ? c->env : &nothing;
}

struct runtime *ctx_runtime(kiln_ctx *c)
{
    if (ctx_is_late(c)) return NULL;
    if (c) supervised_sign(c->call);
    return ctx_env(c)->runtime;
}

int ctx_estimating(const kiln_ctx *c) { return ctx_env(c)->estimate; }
int ctx_headers(const kiln_ctx *c) { return ctx_env(c)->headers; }
int ctx_cancelled(kiln_ctx *c)
{
    if (ctx_is_late(c)) return 1;
    if (c) supervised_sign(c->call);
    int stop = ctx_env(c)->cancelled && c->env->cancelled(c->env->arg);
    if (stop) c->asked_to_stop = 1;
    return stop;
}

/* ---- floating-point state ---- */

#ifdef __SSE__
enum { STICKY = 0x3f };
uint64_t float_state(void) { return _mm_getcsr() & ~(unsigned)STICKY; }
void float_state_set(uint64_t state) { _mm_setcsr((unsigned)state); }
#elif defined(__aarch64__)
uint64_t float_state(void)
{
    uint64_t v;
    __asm__ volatile("mrs %0, fpcr" : "=r"(v));
    return v;
}
void float_state_set(uint64_t state) { __asm__ volatile("msr fpcr, %0" : : "r"(state)); }
#else
uint64_t float_state(void) { return 0; }
void float_state_set(uint64_t state) { (void)state; }
#endif

/* ---- the host's functions ---- */

static void host_log(int level, const char *msg) { log_at(level, "%s", msg ? msg : ""); }

static const struct {
    const char *id;
    const void *table;
} abilities[] = {
    {KILN_OPS_ABILITY, &ops_api},         {KILN_WEIGHTS_ABILITY, &weights_api}, {KILN_MODEL_ABILITY, &model_api},
    {KILN_SAMPLER_ABILITY, &sampler_api}, {KILN_FILES_ABILITY, &files_api},     {KILN_STORE_ABILITY, &store_api},
    {KILN_PARAMS_ABILITY, &params_api},   {KILN_TYPES_ABILITY, &types_api},     {KILN_GRAPH_ABILITY, &graph_api},
};

const void *ability_of_engine(const char *id)
{
    if (id && strcmp(id, KILN_VALUE_ABILITY) == 0) return value_ability();
    for (size_t i = 0; id && i < sizeof abilities / sizeof abilities[0]; i++)
        if (strcmp(abilities[i].id, id) == 0) return abilities[i].table;
    return NULL;
}

static const void *host_ability(const char *id)
{
    const void *found = ability_of_engine(id);
    return found ? found : ability_provided(id);
}

__attribute__((format(printf, 3, 4))) static kiln_status host_fail(kiln_ctx *c, kiln_status status, const char *fmt,
                                                                   ...)
{
    va_list args;
    va_start(args, fmt);
    error_setv(ctx_error(c), status, fmt, args);
    va_end(args);
    return status;
}

static const kiln_param *row_named(const kiln_node *t, const char *name)
{
    const kiln_param_table rows = {.param = t->param, .n_param = t->n_param, .param_stride = t->param_stride};
    return param_row_named(&rows, name);
}

static kiln_status host_at_param(kiln_ctx *c, kiln_status status, const char *name)
{
    error *e = status == KILN_OK ? NULL : ctx_error(c);
    const kiln_param *row = e && c->type && name ? row_named(c->type, name) : NULL;
    if (!e || e->param) return status;
    if (!row && c->type) {
        *e = (error){0};
        return error_set(e, KILN_ERR_BUG, "at_param() names the parameter '%.100s', which the node does not have",
                         name ? name : "");
    }
    error_set(e, status, "it was refused without saying why (%s)", status_text(status));
    if (row && !strstr(e->message, row->name)) error_prefix(e, "input '%s'", row->name);
    if (row) e->param = row->name;
    return status;
}

static void host_about(kiln_ctx *c, const char *what)
{
    error *e = ctx_error(c);
    if (e && e->message[0] && !strstr(e->message, what)) error_prefix(e, "%s", what);
}

static kiln_status host_progress(kiln_ctx *c, uint64_t done, uint64_t total, const char *what)
{
    if (ctx_is_late(c)) return KILN_CANCELLED;
    if (ctx_cancelled(c)) return KILN_CANCELLED;
    if (ctx_env(c)->progress) c->env->progress(c->env->arg, c->node, done, total, what ? what : "");
    return KILN_OK;
}

static void host_draft(kiln_ctx *c, const char *text)
{
    if (text && ctx_env(c)->draft) c->env->draft(c->env->arg, c->node, text);
}

static uint32_t host_preview_every(kiln_ctx *c)
{
    return ctx_env(c)->preview && !c->env->estimate ? c->env->preview_every : 0;
}

static void host_preview(kiln_ctx *c, const uint8_t *rgb, uint32_t width, uint32_t height)
{
    if (rgb && width && height && host_preview_every(c)) c->env->preview(c->env->arg, c->node, rgb, width, height);
}

/* Device memory of a call; the list lies in its scratch. */
typedef struct device_scratch {
    struct device_scratch *next;
    void *data;
    size_t bytes;
} device_scratch;

static void *new_device_scratch(kiln_ctx *c, size_t bytes)
{
    assert(ctx_runtime(c));
    device_scratch *d = arena_alloc(&c->scratch, sizeof *d);
    if (!d) return error_set(&c->failure, KILN_ERR_NOMEM, "out of memory"), NULL;
    *d = (device_scratch){.next = c->device_scratch, .bytes = bytes};
    kiln_status status = ctx_estimating(c) ? runtime_vector_count(ctx_runtime(c), bytes, &d->data, &c->failure)
                                           : runtime_vector_new(ctx_runtime(c), bytes, &d->data, &c->failure);
    if (status != KILN_OK) return NULL;
    c->device_scratch = d;
    return d->data;
}

static void free_scratch(kiln_ctx *c)
{
    for (device_scratch *d = c->device_scratch; d; d = d->next) {
        if (ctx_estimating(c))
            runtime_vector_uncount(ctx_runtime(c), d->bytes);
        else
            runtime_vector_free(ctx_runtime(c), d->bytes, d->data);
    }
    c->device_scratch = NULL;
    arena_free(&c->scratch);
}

static void *host_scratch(kiln_ctx *c, size_t bytes, uint32_t device)
{
    if (ctx_is_late(c)) return NULL;
    if (device != KILN_CPU && ctx_runtime(c) && device == runtime_vector_device(ctx_runtime(c)))
        return new_device_scratch(c, bytes);
    if (device != KILN_CPU)
        return error_set(&c->failure, KILN_ERR_UNSUPPORTED,
                         "working memory on device %u: ask kiln_ops.device() which there is", device),
               NULL;
    void *p = arena_alloc(&c->scratch, bytes);
    if (!p) error_set(&c->failure, KILN_ERR_NOMEM, "out of memory: %zu bytes of working memory", bytes);
    return p;
}

typedef struct call_ending {
    struct call_ending *next;
    void (*fn)(void *arg);
    void *arg;
} call_ending;

static kiln_status host_at_end(kiln_ctx *c, void (*fn)(void *arg), void *arg)
{
    call_ending *end = arena_alloc(&c->scratch, sizeof *end);
    if (!end) return error_set(&c->failure, KILN_ERR_NOMEM, "out of memory");
    *end = (call_ending){.next = c->endings, .fn = fn, .arg = arg};
    c->endings = end;
    return KILN_OK;
}

static void run_endings(kiln_ctx *c)
{
    if (!c->endings) return;
    const kiln_ctx *outer = crash_report_enter(c);
    for (call_ending *end = c->endings; end; end = end->next) end->fn(end->arg);
    crash_report_leave(c, outer);
    c->endings = NULL;
}

static kiln_value *host_tensor_new(kiln_ctx *c, uint32_t dtype, uint32_t device, uint32_t rank, const int64_t *dim)
{
    if (ctx_estimating(c) && device == KILN_CPU) return value_shape_new(dtype, rank, dim, ctx_error(c));
    return value_tensor_new(dtype, device, rank, dim, ctx_error(c));
}

static kiln_status host_view(kiln_ctx *c, const kiln_value *v, kiln_tensor *out)
{
    TRY(value_view(v, out, ctx_error(c)));
    if (ctx_estimating(c)) out->data = NULL; /* also of a tensor that has some: no node may rely on it */
    return KILN_OK;
}

typedef struct {
    const borrowed *of;
    void (*fn)(void *, size_t);
    void *arg;
} pool_task;

/* By pthread_exit(): the thread is kiln's, and other nodes wait for it. */
static void end_of_thread(void *arg) { (void)arg, crash_report_give_up("ended its thread with pthread_exit()"); }

static void run_task(void *arg, size_t i)
{
    const pool_task *t = arg;
    crash_report_thread();
    pthread_cleanup_push(end_of_thread, NULL);
    const borrowed *before = borrowed_enter(t->of);
    t->fn(t->arg, i);
    borrowed_enter(before);
    pthread_cleanup_pop(0);
}

static void host_parallel_for(kiln_ctx *c, size_t n, void (*fn)(void *, size_t), void *arg)
{
    pool_task task = {.of = borrowed_here(), .fn = fn, .arg = arg};
    pool_for(ctx_env(c)->pool, n, run_task, &task);
}

static void host_not_kept(kiln_ctx *c)
{
    if (ctx_env(c)->not_kept) c->env->not_kept(c->env->arg, c->node);
}

static const char *host_find_file(kiln_ctx *c, const char *folder, const char *name)
{
    if (!c) return NULL;
    if (ctx_env(c)->find_file) return c->env->find_file(c->env->arg, c->node, &c->scratch, folder, name, &c->failure);
    error_set(&c->failure, KILN_ERR_UNSUPPORTED, "no file '%.200s' for %.60s: files cannot be looked for here", name,
              folder);
    return NULL;
}

static const char *host_node(kiln_ctx *c)
{
    const char *text = c ? arena_printf(&c->scratch, "node '%s' (%s)", c->node_name, c->node_type) : NULL;
    return text ? text : "a node";
}

const kiln_host engine_host = {
    .size = sizeof(kiln_host),
    .abi_major = KILN_ABI_MAJOR,
    .abi_minor = KILN_ABI_NEWEST,
    .name = "kiln",
    .version = KILN_VERSION,
    .log = host_log,
    .ability = host_ability,
    .fail = host_fail,
    .progress = host_progress,
    .scratch = host_scratch,
    .tensor_new = host_tensor_new,
    .view = host_view,
    .ref = borrowed_ref,
    .unref = borrowed_unref,
    .parallel_for = host_parallel_for,
    .data_folder = registry_data,
    .provide = ability_provide,
    .not_kept = host_not_kept,
    .node = host_node,
    .find_file = host_find_file,
    .spill = spill_new,
    .at_end = host_at_end,
    .about = host_about,
    .at_param = host_at_param,
    .draft = host_draft,
    .preview_every = host_preview_every,
    .preview = host_preview,
};

/* ---- the call ---- */

static const kiln_port *port_at(const kiln_port *first, uint32_t stride, uint32_t i)
{
    return (const void *)((const char *)first + (size_t)i * stride);
}

static int is_wanted(uint64_t wanted, uint32_t output) { return output >= 64 || (wanted >> output & 1); }

static kiln_status check_outputs(kiln_ctx *c, const kiln_node *t, uint64_t wanted, kiln_value **out)
{
    for (uint32_t i = 0; i < t->n_out; i++) {
        const kiln_port *p = port_at(t->out, t->out_stride, i);
        error why = {0};
        if (!out[i] && !is_wanted(wanted, i)) continue;
        if (!out[i])
            return error_set(&c->failure, KILN_ERR_BUG, "said it succeeded but did not set output '%s'", p->name);
        if (value_fits_port(out[i], p, &why) != KILN_OK)
            return error_set(&c->failure, KILN_ERR_BUG, "output '%s': %s", p->name, why.message);
        if (ctx_env(c)->validate && value_has_nonfinite(out[i]))
            return error_set(&c->failure, KILN_ERR_INVALID, "output '%s' holds a number that is not finite", p->name);
    }
    return KILN_OK;
}

static kiln_status check_inputs(kiln_ctx *c, const kiln_node *t, kiln_value *const *in)
{
    for (uint32_t i = 0; i < t->n_in; i++) {
        const kiln_port *p = port_at(t->in, t->in_stride, i);
        error why = {0};
        if (in[i] && value_fits_port(in[i], p, &why) != KILN_OK)
            return error_set(&c->failure, KILN_ERR_INVALID, "input '%s': %s", p->name, why.message);
    }
    return KILN_OK;
}

/* Digests of the inputs, so that a node that writes to one is found out. */
static kiln_status input_digests(const kiln_ctx *c, const kiln_node *t, kiln_value *const *in, digest *d, error *e)
{
    for (uint32_t i = 0; ctx_env(c)->validate && i < t->n_in; i++)
        if (in[i]) TRY(value_digest(in[i], &d[i], e));
    return KILN_OK;
}

static kiln_status compare_inputs(kiln_ctx *c, const kiln_node *t, kiln_value *const *in, const digest *before)
{
    digest after;
    for (uint32_t i = 0; ctx_env(c)->validate && i < t->n_in; i++) {
        if (!in[i]) continue;
        TRY(value_digest(in[i], &after, &c->failure));
        if (!digest_equal(before[i], after))
            return error_set(&c->failure, KILN_ERR_BUG, "wrote to its input '%s', which is not its own",
                             port_at(t->in, t->in_stride, i)->name);
    }
    return KILN_OK;
}

static kiln_status guarded(kiln_ctx *c, const kiln_node *t, kiln_status (*fn)(const kiln_call *), const kiln_call *call)
{
    process_state state;
    process_state_take(&state, c->plugin, ctx_env(c)->validate && c->env->alone);
    uint64_t before = float_state();
    const kiln_ctx *outer = crash_report_enter(c);
    pid_t own = getpid();
    kiln_status status;
    pthread_cleanup_push(end_of_thread, NULL);
    status = fn(call);
    pthread_cleanup_pop(0);
    if (getpid() != own) { /* a copy of the process that it has made */
        static const char says[] = "kiln: a plugin has forked and both processes came back; the copy ends\n";
        _exit(write(STDERR_FILENO, says, sizeof says - 1) < 0 ? 2 : 1);
    }
    process_state_compare(&state, c->node_name, t->type, c->plugin);
    crash_report_leave(c, outer);
    if (float_state() != before) {
        float_state_set(before);
        log_warn("node '%s' (%s) of %s changed the floating-point mode; it was put back", c->node_name, t->type,
                 c->plugin);
    }
    return status;
}

static const char *ctx_function(const call_environment *env) { return env && env->estimate ? "estimate" : "run"; }

/* The call ended a process of this run before. */
static kiln_status refused(kiln_ctx *c)
{
    const char *why = supervised_refusal(c->node_name, c->node_type, c->plugin, c->function);
    return why ? error_set(&c->failure, KILN_ERR_BUG, "%s", why) : KILN_OK;
}

static int is_error(kiln_status status) { return status >= KILN_ERR_BUG && status < KILN_OK; }

kiln_status ctx_first_failure(const kiln_ctx *c, kiln_status status)
{
    return is_error(status) && c->failure.status != KILN_OK ? c->failure.status : status;
}

/* A status there is, and cancelled only if somebody asked for it. What was recorded on the way to a success (a try that
 * failed before another did not) is forgotten. */
static kiln_status believe(kiln_ctx *c, kiln_status status)
{
    status = ctx_first_failure(c, status);
    int cancelled = status == KILN_CANCELLED && (c->asked_to_stop || ctx_cancelled(c));
    if (!cancelled && is_error(status)) return status;
    c->failure = (error){0};
    if (cancelled || status == KILN_OK) return status;
    if (status == KILN_CANCELLED)
        return error_set(&c->failure, KILN_ERR_BUG, "said it was cancelled, though nobody asked");
    return error_set(&c->failure, KILN_ERR_BUG, "returned %d, which is no status", (int)status);
}

static kiln_status finish(kiln_ctx *c, const kiln_node *t, kiln_status status, error *e)
{
    run_endings(c);
    files_discard(c);
    spill_close(c);
    free_scratch(c);
    assert(!c->files && !c->spills && !c->device_scratch);
    if (status == KILN_OK) return KILN_OK;
    if (status == KILN_CANCELLED) return error_set(e, KILN_CANCELLED, "cancelled");
    error_set(&c->failure, status, "failed without saying why (%s)", status_text(status));
    if (e && e->status == KILN_OK) e->param = c->failure.param;
    if (c->failure.status == KILN_ERR_BUG)
        return error_set(e, status, "node '%s' (%s): plugin %s: %s", c->node_name, t->type, c->plugin,
                         c->failure.message);
    return error_set(e, status, "node '%s' (%s): %s", c->node_name, t->type, c->failure.message);
}

/* What the call did with references that were not its own; each mistake is mended, and a fault under --validate. */
static kiln_status settle_inputs(kiln_ctx *c, const kiln_node *t, const borrowed *b, kiln_value *const *out)
{
    kiln_status status = KILN_OK;
    int stray, missing;
    for (uint32_t i = 0; i < b->n; i++) {
        char what[300];
        if (!borrowed_settle(b, i, out, t->n_out, &stray, &missing)) continue;
        const char *name = port_at(t->in, t->in_stride, i)->name;
        if (missing)
            snprintf(what, sizeof what,
                     "gave its input '%.80s' as an output without a reference of its own; call "
                     "host->ref() on what is handed on",
                     name);
        else
            snprintf(what, sizeof what,
                     "called host->unref() on its input '%.80s', which is borrowed; give up only what "
                     "you have made or taken with host->ref()",
                     name);
        if (ctx_env(c)->validate && status == KILN_OK)
            status = error_set(&c->failure, KILN_ERR_BUG, "%s", what);
        else if (!ctx_env(c)->validate)
            log_warn("node '%s' (%s) of plugin %s %s", c->node_name, t->type, c->plugin, what);
    }
    return status;
}

/* Runs the node with its borrowed inputs watched. */
static kiln_status run_borrowed(kiln_ctx *c, const kiln_node *t, const kiln_call *call)
{
    atomic_int few[8] = {0}, *balance = t->n_in <= 8 ? few : mem_calloc(t->n_in, sizeof *balance);
    if (!balance) return error_set(&c->failure, KILN_ERR_NOMEM, "out of memory");
    borrowed b = {.in = call->in, .n = t->n_in, .balance = balance};
    const borrowed *before = borrowed_enter(&b);
    kiln_status status = believe(c, guarded(c, t, t->run, call));
    borrowed_enter(before);
    kiln_status settled = settle_inputs(c, t, &b, call->out);
    if (balance != few) mem_free(balance);
    return status == KILN_OK ? settled : status;
}

static kiln_status call_node(kiln_ctx *c, const kiln_node *t, void *instance, const void *params, kiln_value *const *in,
                             kiln_value **out, error *e)
{
    const call_environment *env = ctx_env(c);
    digest *before = mem_calloc(t->n_in + 1u, sizeof *before);
    if (!before) return error_set(e, KILN_ERR_NOMEM, "node '%s' (%s): out of memory", c->node_name, t->type);
    for (uint32_t i = 0; i < t->n_out; i++) out[i] = NULL;
    kiln_call call = {.size = sizeof call,
                      .device = KILN_CPU,
                      .host = &engine_host,
                      .ctx = c,
                      .params = params,
                      .in = in,
                      .out = out,
                      .instance = instance,
                      .estimate = ctx_estimating(c) != 0,
                      .wanted = env->wanted ? env->wanted(env->arg, c->node) : UINT64_MAX};
    kiln_status status = refused(c);
    if (status == KILN_OK) status = check_inputs(c, t, in);
    if (status == KILN_OK) status = input_digests(c, t, in, before, &c->failure);
    if (status == KILN_OK) status = run_borrowed(c, t, &call);
    if (status == KILN_OK) status = check_outputs(c, t, call.wanted, out);
    if (status == KILN_OK) status = compare_inputs(c, t, in, before);
    if (status == KILN_OK && env->validate && mem_guard_damaged())
        status = error_set(&c->failure, KILN_ERR_BUG, "wrote outside of a tensor or of its working memory");
    mem_free(before);
    for (uint32_t i = 0; status != KILN_OK && i < t->n_out; i++) {
        value_unref(out[i]);
        out[i] = NULL;
    }
    return finish(c, t, status, e);
}

kiln_status ctx_call(const call_environment *env, size_t node, const char *node_name, const char *plugin_name,
                     const kiln_node *t, void *instance, const void *params, kiln_value *const *in, kiln_value **out,
                     error *e)
{
    kiln_ctx own, *c = take_context();
    if (!c) c = &own;
    *c = (kiln_ctx){.env = env,
                    .node = node,
                    .node_name = node_name,
                    .node_type = t->type,
                    .type = t,
                    .plugin = plugin_name,
                    .function = ctx_function(env)};
    assert(t->run && out && (in || !t->n_in));
    kiln_status status = call_node(c, t, instance, params, in, out, e);
    end_context(c);
    if (status == KILN_OK && env && env->validate && !env->estimate)
        call_again(&(made_call){.env = env,
                                .node = node,
                                .name = node_name,
                                .plugin = plugin_name,
                                .type = t,
                                .instance = instance,
                                .params = params,
                                .in = in,
                                .out = out});
    return status;
}

kiln_status ctx_check(const char *node_name, const char *plugin_name, const kiln_node *t, const ctx_checking *how,
                      error *e)
{
    if (!t->check) return KILN_OK;
    kiln_ctx c = {.env = how->env,
                  .node_name = node_name,
                  .node_type = t->type,
                  .type = t,
                  .plugin = plugin_name,
                  .function = "check"};
    kiln_call call = {.size = sizeof call,
                      .device = KILN_CPU,
                      .host = &engine_host,
                      .ctx = &c,
                      .params = how->params,
                      .estimate = !how->thorough,
                      .wanted = how->wanted};
    kiln_status status = refused(&c);
    if (status == KILN_OK) status = believe(&c, guarded(&c, t, t->check, &call));
    return finish(&c, t, status, e);
}

/* ---- lazy inputs and sub-graphs ---- */

static kiln_status check_wanted(kiln_ctx *c, const kiln_node *t, uint64_t wanted)
{
    for (uint32_t i = 0; i < 63; i++) {
        if (!(wanted >> i & 1)) continue;
        if (i >= t->n_in)
            return error_set(&c->failure, KILN_ERR_BUG, "wants() asked for input %u; the node has %u", i, t->n_in);
        if (!(port_at(t->in, t->in_stride, i)->flags & KILN_PORT_LAZY))
            return error_set(&c->failure, KILN_ERR_BUG,
                             "wants() asked for input '%s', which is not lazy; give it KILN_PORT_LAZY",
                             port_at(t->in, t->in_stride, i)->name);
    }
    return KILN_OK;
}

kiln_status ctx_wants(const call_environment *env, const char *node_name, const char *plugin_name, const kiln_node *t,
                      const void *params, kiln_value *const *in, uint64_t *inputs, error *e)
{
    kiln_ctx c = {.env = env,
                  .node_name = node_name,
                  .node_type = t->type,
                  .type = t,
                  .plugin = plugin_name,
                  .function = "wants"};
    if (refused(&c) != KILN_OK) return finish(&c, t, KILN_ERR_BUG, e);
    kiln_value **none = mem_calloc(t->n_in + 1u, sizeof *none);
    if (!none) return error_set(e, KILN_ERR_NOMEM, "node '%s' (%s): out of memory", node_name, t->type);
    kiln_call call = {.size = sizeof call,
                      .device = KILN_CPU,
                      .host = &engine_host,
                      .ctx = &c,
                      .params = params,
                      .in = in ? in : none,
                      .estimate = ctx_estimating(&c) != 0};
    uint64_t before = float_state();
    const kiln_ctx *outer = crash_report_enter(&c);
    *inputs = 0;
    kiln_status status = t->wants(&call, inputs);
    crash_report_leave(&c, outer);
    float_state_set(before);
    status = believe(&c, status);
    if (status == KILN_OK) status = check_wanted(&c, t, *inputs);
    mem_free(none);
    return finish(&c, t, status, e);
}

kiln_status ctx_expand(const char *node_name, const char *plugin_name, const kiln_node *t, const void *params,
                       kiln_graph *g, error *e)
{
    kiln_ctx c = {.node_name = node_name, .node_type = t->type, .type = t, .plugin = plugin_name, .function = "expand"};
    if (refused(&c) != KILN_OK) return finish(&c, t, KILN_ERR_BUG, e);
    kiln_call call = {.size = sizeof call, .device = KILN_CPU, .host = &engine_host, .ctx = &c, .params = params};
    uint64_t before = float_state();
    const kiln_ctx *outer = crash_report_enter(&c);
    kiln_status status = t->expand(&call, g);
    crash_report_leave(&c, outer);
    float_state_set(before);
    if (g->e->status != KILN_OK) { /* what expand() made of it does not matter */
        c.failure = (error){0};
        status = error_set(&c.failure, g->e->status, "expand(): %s", g->e->message);
    } else {
        status = believe(&c, status);
    }
    return finish(&c, t, status, e);
}
