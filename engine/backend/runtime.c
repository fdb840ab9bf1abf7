/* runtime.c - programs: recorded, planned, kept, run; see runtime.h. */
#include "backend/runtime.h"

#include "backend/executor.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "graph/fuse.h"
#include "tensor/dtype.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { KEPT_MAX = 16 };

struct kiln_program {
    runtime *rt;
    recording r;
    executor x;
    atomic_uint refs;
    atomic_int planned;
    uint32_t n_recorded;
    char *key; /* kept programs */
    uint64_t used;
};

struct runtime {
    runtime_setting setting;
    pool *pool;
    residency *residency;
    pthread_mutex_t lock;    /* one program runs at a time; guards arena, scratch, usage */
    pthread_mutex_t kept_lock;
    kiln_program *kept[KEPT_MAX];
    uint64_t clock;
    void *arena, *scratch;
    size_t arena_bytes, scratch_bytes;
    runtime_usage usage;
};

runtime *runtime_new(const runtime_setting *setting, error *e)
{
    runtime *rt = mem_calloc(1, sizeof *rt);
    if (!rt) return error_set(e, KILN_ERR_NOMEM, "out of memory"), NULL;
    rt->setting = *setting;
    if (!rt->setting.precision) rt->setting.precision = setting->backend->best_precision();
    rt->pool = pool_new(setting->threads);
    rt->residency = residency_new();
    pthread_mutex_init(&rt->lock, NULL);
    pthread_mutex_init(&rt->kept_lock, NULL);
    if (!rt->pool || !rt->residency) {
        error_set(e, KILN_ERR_NOMEM, "cannot start %u threads", setting->threads);
        runtime_free(rt);
        return NULL;
    }
    return rt;
}

void runtime_free(runtime *rt)
{
    if (!rt) return;
    for (size_t i = 0; i < KEPT_MAX; i++) program_free(rt->kept[i]);
    residency_free(rt->residency);
    pool_free(rt->pool);
    pthread_mutex_destroy(&rt->lock);
    pthread_mutex_destroy(&rt->kept_lock);
    mem_free(rt->arena);
    mem_free(rt->scratch);
    mem_free(rt);
}

uint32_t runtime_precision(const runtime *rt) { return rt->setting.precision; }
const backend *runtime_backend(const runtime *rt) { return rt->setting.backend; }
pool *runtime_pool(const runtime *rt) { return rt->pool; }
size_t runtime_weight_peak(const runtime *rt) { return residency_peak(rt->residency); }

void runtime_usage_reset(runtime *rt)
{
    pthread_mutex_lock(&rt->lock);
    rt->usage = (runtime_usage){0};
    pthread_mutex_unlock(&rt->lock);
}

runtime_usage runtime_usage_get(const runtime *rt)
{
    runtime *own = (runtime *)(uintptr_t)rt; /* the lock is no part of what a reader sees */
    pthread_mutex_lock(&own->lock);
    runtime_usage u = own->usage;
    pthread_mutex_unlock(&own->lock);
    return u;
}

/* ---- life of a program ------------------------------------------------------------------------------------------- */

kiln_program *program_new(runtime *rt, const char *name, uint32_t precision, error *e)
{
    kiln_program *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a program"), NULL;
    if (!precision) precision = rt->setting.precision;
    if (precision != KILN_F32 && precision != KILN_BF16) {
        error_set(e, KILN_ERR_UNSUPPORTED, "a program's precision is f32 or bf16");
        return mem_free(p), NULL;
    }
    p->rt = rt;
    atomic_init(&p->refs, 1);
    if (recording_init(&p->r, name, precision, e) != KILN_OK) return mem_free(p), NULL;
    return p;
}

void program_free(kiln_program *p)
{
    if (!p || atomic_fetch_sub(&p->refs, 1) != 1) return;
    executor_free(&p->x);
    recording_free(&p->r);
    mem_free(p->key);
    mem_free(p);
}

recording *program_recording(kiln_program *p) { return &p->r; }

/* The place of `key`, else of the least recently used program, else a free one. */
static size_t kept_place(runtime *rt, const char *key)
{
    size_t best = 0;
    for (size_t i = 0; i < KEPT_MAX; i++)
        if (rt->kept[i] && strcmp(rt->kept[i]->key, key) == 0) return i;
    for (size_t i = 0; i < KEPT_MAX; i++) {
        if (!rt->kept[i]) return i;
        if (rt->kept[i]->used < rt->kept[best]->used) best = i;
    }
    return best;
}

kiln_program *program_keep(runtime *rt, const char *key, const char *name, uint32_t precision, int *fresh, error *e)
{
    pthread_mutex_lock(&rt->kept_lock);
    size_t i = kept_place(rt, key);
    kiln_program *p = rt->kept[i] && strcmp(rt->kept[i]->key, key) == 0 && rt->kept[i]->planned ? rt->kept[i] : NULL;
    *fresh = !p;
    if (!p && (p = program_new(rt, name, precision, e))) {
        p->key = mem_strdup(key);
        if (p->key) {
            program_free(rt->kept[i]);
            rt->kept[i] = p;
        } else {
            program_free(p);
            error_set(e, KILN_ERR_NOMEM, "out of memory for a program");
            p = NULL;
        }
    }
    if (p) {
        atomic_fetch_add(&p->refs, 1);
        p->used = ++rt->clock;
    }
    pthread_mutex_unlock(&rt->kept_lock);
    return p;
}

kiln_status program_plan(kiln_program *p, error *e)
{
    if (p->r.failure.status != KILN_OK) return error_set(e, p->r.failure.status, "%s", p->r.failure.message);
    if (p->planned) return error_set(e, KILN_ERR_BUG, "program '%s' is planned twice", p->r.name);
    if (p->r.n_output == 0) return error_set(e, KILN_ERR_INVALID, "program '%s' has no output", p->r.name);
    p->n_recorded = (uint32_t)p->r.n;
    kiln_status status = p->rt->setting.unfused ? fuse_nothing(&p->r, e) : fuse(&p->r, e);
    if (status == KILN_OK) status = executor_make(&p->x, &p->r, p->rt->setting.backend, e);
    if (status == KILN_OK) {
        if (p->rt->setting.explain && log_level() >= KILN_LOG_INFO) executor_log(&p->x);
        atomic_store(&p->planned, 1);
    } else /* a second try would find a half-made program */
        error_set(&p->r.failure, status, "program '%s' could not be planned", p->r.name);
    return status;
}

kiln_status program_info(const kiln_program *p, kiln_program_info *info)
{
    if (!p->planned || info->size < sizeof *info) return KILN_ERR_INVALID;
    *info = (kiln_program_info){.size = sizeof *info, .n_recorded = p->n_recorded, .n_planned = p->x.plan.n_run,
        .arena_bytes = p->x.plan.arena_bytes, .scratch_bytes = p->x.scratch_bytes, .weight_bytes = p->x.weight_bytes, .flops = p->x.plan.flops};
    return KILN_OK;
}

/* ---- running ------------------------------------------------------------------------------------------------------- */

typedef struct {
    kiln_program *p;
    const kiln_bind *in, *out;
    size_t n_in, n_out;
    const void **input; /* [r.n + 1] by id */
    void **converted;   /* [r.n + 1]: what was made for an input bound in another type */
} binding;

static const kiln_bind *find_bind(const kiln_bind *b, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(b[i].name, name) == 0) return &b[i];
    return NULL;
}

static kiln_status fits(const kiln_program *p, const kiln_bind *b, const shape *s, error *e)
{
    shape have = {.rank = b->tensor.rank <= KILN_MAX_RANK ? b->tensor.rank : 0};
    char x[80], y[80];
    memcpy(have.dim, b->tensor.dim, have.rank * sizeof have.dim[0]);
    if (!shape_equal(&have, s)) return error_set(e, KILN_ERR_INVALID, "program '%s': '%s' is bound to %s, recorded as %s", p->r.name, b->name, shape_text(&have, x), shape_text(s, y));
    if (!b->tensor.data || b->tensor.device != KILN_CPU) return error_set(e, KILN_ERR_UNSUPPORTED, "program '%s': '%s' must be bound to host memory", p->r.name, b->name);
    int64_t stride = (int64_t)dtype_size(b->tensor.dtype);
    for (uint32_t i = have.rank; i-- > 0; stride *= have.dim[i])
        if (have.dim[i] > 1 && b->tensor.stride[i] != stride) return error_set(e, KILN_ERR_UNSUPPORTED, "program '%s': '%s' must be dense", p->r.name, b->name);
    return KILN_OK;
}

static int is_real(uint32_t dtype) { return dtype == KILN_F32 || dtype == KILN_BF16 || dtype == KILN_F16; }

static kiln_status bind_input(binding *b, uint32_t id, const kiln_bind *bound, error *e)
{
    const op *o = &b->p->r.op[id - 1];
    uint32_t from = bound->tensor.dtype;
    TRY(fits(b->p, bound, &o->shape, e));
    b->input[id] = bound->tensor.data;
    if (from == o->dtype) return KILN_OK;
    if (!is_real(from) || !is_real(o->dtype))
        return error_set(e, KILN_ERR_INVALID, "program '%s': input '%s' is %s, bound to %s", b->p->r.name, o->name, dtype_name(o->dtype), dtype_name(from));
    size_t n = (size_t)shape_count(&o->shape);
    if (!(b->converted[id] = mem_aligned(64, n * dtype_size(o->dtype)))) return error_set(e, KILN_ERR_NOMEM, "out of memory for input '%s'", o->name);
    b->input[id] = b->converted[id];
    return dtype_convert(b->converted[id], o->dtype, bound->tensor.data, from, n);
}

/* Every name once, and each the name of an input. */
static kiln_status known_binds(const binding *b, error *e)
{
    const recording *r = &b->p->r;
    for (size_t i = 0; i < b->n_in; i++) {
        int known = 0;
        for (size_t k = 0; k < r->n; k++) known |= r->op[k].kind == OP_INPUT && strcmp(r->op[k].name, b->in[i].name) == 0;
        if (!known) return error_set(e, KILN_ERR_INVALID, "program '%s' has no input '%s'", r->name, b->in[i].name);
        if (find_bind(b->in, i, b->in[i].name)) return error_set(e, KILN_ERR_INVALID, "program '%s': input '%s' is bound twice", r->name, b->in[i].name);
    }
    return KILN_OK;
}

static kiln_status bind_inputs(binding *b, error *e)
{
    recording *r = &b->p->r;
    TRY(known_binds(b, e));
    for (uint32_t id = 1; id <= r->n; id++) {
        const op *o = &r->op[id - 1];
        if (o->kind != OP_INPUT) continue;
        const kiln_bind *bound = find_bind(b->in, b->n_in, o->name);
        if (!bound) return error_set(e, KILN_ERR_INVALID, "program '%s': input '%s' is not bound", r->name, o->name);
        TRY(bind_input(b, id, bound, e));
    }
    for (size_t i = 0; i < b->n_out; i++) {
        const program_output *o = NULL;
        for (size_t k = 0; k < r->n_output; k++)
            if (strcmp(r->output[k].name, b->out[i].name) == 0) o = &r->output[k];
        if (!o) return error_set(e, KILN_ERR_INVALID, "program '%s' has no output '%s'", r->name, b->out[i].name);
        TRY(fits(b->p, &b->out[i], &r->op[o->id - 1].shape, e));
    }
    return KILN_OK;
}

static void *address(const binding *b, uint32_t id)
{
    const placement *x = &b->p->x.plan.place[id], *base = &b->p->x.plan.place[x->base];
    size_t shift = (size_t)x->shift * dtype_size(x->dtype);
    if (base->kind == PLACE_INPUT) return (char *)(uintptr_t)b->input[x->base] + shift;
    return (char *)b->p->rt->arena + base->offset + shift;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int all_finite(const operand_desc *d, const void *data)
{
    int64_t columns = d->shape.rank ? d->shape.dim[d->shape.rank - 1] : 1, rows = columns ? shape_count(&d->shape) / columns : 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) {
            int64_t at = r * d->ld + c;
            float v = d->dtype == KILN_BF16 ? bf16_to_f32(((const uint16_t *)data)[at]) : d->dtype == KILN_F32 ? ((const float *)data)[at] : 0;
            if (!isfinite(v)) return 0;
        }
    return 1;
}

static kiln_status run_step(const binding *b, uint32_t i, error *e)
{
    runtime *rt = b->p->rt;
    const step *s = &b->p->x.step[i];
    const op *o = &b->p->r.op[i];
    kernel_args a = {.out = address(b, i + 1), .scratch = rt->scratch, .pool = rt->pool};
    error why = {0};
    for (uint32_t k = 0; k < s->desc.n_in; k++)
        if (o->in[k]) a.in[k] = s->held[k] ? resident_data(s->held[k]) : address(b, o->in[k]);
    double start = rt->setting.trace ? now() : 0;
    kiln_status status = s->kernel->run(s->kernel, &a, &why);
    if (rt->setting.trace)
        rt->setting.trace(rt->setting.trace_arg, &(op_trace){.program = b->p->r.name, .scope = o->scope, .op = op_name(o->kind),
            .kernel = s->kernel->name, .start = start, .seconds = now() - start, .flops = s->kernel->flops});
    if (status != KILN_OK) return error_set(e, status, "program '%s'%s%s: %s: %s", b->p->r.name, at_or_not(o), o->scope, op_name(o->kind), why.message);
    if (rt->setting.check_finite && !all_finite(&s->desc.out, a.out))
        return error_set(e, KILN_ERR_INVALID, "program '%s'%s%s: %s made a number that is not finite", b->p->r.name, at_or_not(o), o->scope, op_name(o->kind));
    return KILN_OK;
}

static kiln_status deliver(const binding *b, const kiln_bind *out, error *e)
{
    const recording *r = &b->p->r;
    uint32_t id = 0;
    for (size_t k = 0; k < r->n_output; k++)
        if (strcmp(r->output[k].name, out->name) == 0) id = r->output[k].id;
    const placement *x = &b->p->x.plan.place[id];
    const shape *s = &r->op[id - 1].shape;
    int64_t columns = s->rank ? s->dim[s->rank - 1] : 1, rows = columns ? shape_count(s) / columns : 0;
    const char *src = address(b, id);
    size_t from = dtype_size(x->dtype), to = dtype_size(out->tensor.dtype);
    for (int64_t row = 0; row < rows; row++) {
        kiln_status status = dtype_convert((char *)out->tensor.data + (size_t)(row * columns) * to, out->tensor.dtype,
                                           src + (size_t)(row * x->ld) * from, x->dtype, (size_t)columns);
        if (status != KILN_OK) return error_set(e, status, "program '%s': output '%s' cannot be delivered as %s", r->name, out->name, dtype_name(out->tensor.dtype));
    }
    return KILN_OK;
}

static kiln_status reserve(void **data, size_t *have, size_t want, const char *what, error *e)
{
    if (want <= *have) return KILN_OK;
    mem_free(*data);
    *data = NULL;
    *have = 0;
    size_t padded = (want + 4095) / 4096 * 4096;
    if (!(*data = mem_aligned(4096, padded))) return error_set(e, KILN_ERR_NOMEM, "out of memory: %zu bytes of %s", padded, what);
    *have = padded;
    return KILN_OK;
}

static void note_usage(runtime *rt, const executor *x)
{
    runtime_usage *u = &rt->usage;
    u->runs++;
    u->flops += x->plan.flops;
    if (x->plan.arena_bytes > u->arena_peak) u->arena_peak = x->plan.arena_bytes;
    if (x->scratch_bytes > u->scratch_peak) u->scratch_peak = x->scratch_bytes;
    if (x->weight_bytes > u->weight_bytes) u->weight_bytes = x->weight_bytes;
}

static kiln_status run_locked(binding *b, int (*cancelled)(void *), void *arg, error *e)
{
    runtime *rt = b->p->rt;
    executor *x = &b->p->x;
    TRY(bind_inputs(b, e));
    note_usage(rt, x);
    if (rt->setting.explain) return KILN_OK;
    TRY(executor_pack(x, rt->residency, rt->pool, e));
    TRY(reserve(&rt->arena, &rt->arena_bytes, x->plan.arena_bytes, "activations", e));
    TRY(reserve(&rt->scratch, &rt->scratch_bytes, x->scratch_bytes, "working memory", e));
    for (uint32_t i = 0; i < b->p->r.n; i++) {
        if (!x->step[i].kernel) continue;
        if (cancelled && cancelled(arg)) return error_set(e, KILN_CANCELLED, "cancelled");
        TRY(run_step(b, i, e));
    }
    for (size_t i = 0; i < b->n_out; i++) TRY(deliver(b, &b->out[i], e));
    return KILN_OK;
}

kiln_status program_run(kiln_program *p, const kiln_bind *in, size_t n_in, const kiln_bind *out, size_t n_out,
                        int (*cancelled)(void *arg), void *arg, error *e)
{
    if (!p->planned) return error_set(e, KILN_ERR_BUG, "program '%s' is run before it is planned", p->r.name);
    binding b = {.p = p, .in = in, .out = out, .n_in = n_in, .n_out = n_out, .input = mem_calloc(p->r.n + 1, sizeof *b.input),
                 .converted = mem_calloc(p->r.n + 1, sizeof *b.converted)};
    kiln_status status = b.input && b.converted ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (status == KILN_OK) {
        pthread_mutex_lock(&p->rt->lock);
        status = run_locked(&b, cancelled, arg, e);
        pthread_mutex_unlock(&p->rt->lock);
    }
    for (size_t i = 0; b.converted && i <= p->r.n; i++) mem_free(b.converted[i]);
    mem_free(b.converted);
    mem_free(b.input);
    return status;
}
