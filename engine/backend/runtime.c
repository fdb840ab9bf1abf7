/* runtime.c - programs: recorded, planned, kept, run; see runtime.h. */
#include "backend/runtime.h"

#include "backend/runtime_state.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "graph/fuse.h"
#include "tensor/dtype.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static kiln_status check_precision(const backend *b, uint32_t precision, error *e)
{
    if (precision != KILN_F32 && precision != KILN_BF16 && precision != KILN_F16)
        return error_set(e, KILN_ERR_UNSUPPORTED, "precision %s: a program's is f32, bf16 or f16",
                         dtype_name(precision));
    if (b->precisions >> precision & 1) return KILN_OK;
    return error_set(e, KILN_ERR_UNSUPPORTED, "precision %s: '%s' computes in f32 or bf16", dtype_name(precision),
                     b->name);
}

/* KILN_PREFETCH=on (as without it) or off, for whoever runs kiln; it can only switch off. */
static kiln_status read_prefetch(runtime_setting *s, error *e)
{
    const char *given = getenv("KILN_PREFETCH");
    if (!given || !*given || strcmp(given, "on") == 0) return KILN_OK;
    if (strcmp(given, "off") != 0) return error_set(e, KILN_ERR_INVALID, "KILN_PREFETCH=%s: it is on or off", given);
    s->no_prefetch = 1;
    return KILN_OK;
}

static kiln_status open_device(runtime *rt, error *e)
{
    const runtime_setting *s = &rt->setting;
    TRY(read_prefetch(&rt->setting, e));
    if (s->precision) TRY(check_precision(s->backend, s->precision, e));
    TRY(s->backend->open(s->device_index, &rt->device, e));
    if (!rt->setting.precision) rt->setting.precision = s->backend->best_precision();
    rt->pool = pool_new(s->threads);
    if (!rt->pool) return error_set(e, KILN_ERR_NOMEM, "cannot start %u threads: out of memory", s->threads);
    residency_setting memory = {.device = rt->device,
                                .limit = s->memory,
                                .host_limit = s->host_memory,
                                .follow = s->memory_follow,
                                .no_prefetch = s->no_prefetch};
    rt->residency = residency_new(&memory, e);
    return rt->residency ? KILN_OK : KILN_ERR_NOMEM;
}

runtime *runtime_new(const runtime_setting *setting, error *e)
{
    runtime *rt = mem_calloc(1, sizeof *rt);
    if (!rt) return error_set(e, KILN_ERR_NOMEM, "out of memory"), NULL;
    rt->setting = *setting;
    pthread_mutex_init(&rt->lock, NULL);
    pthread_mutex_init(&rt->kept_lock, NULL);
    if (open_device(rt, e) == KILN_OK) return rt;
    runtime_free(rt);
    return NULL;
}

void runtime_free(runtime *rt)
{
    if (!rt) return;
    for (size_t i = 0; i < KEPT_MAX; i++) program_free(rt->kept[i]);
    if (rt->host_io) rt->device->table->host_release(rt->device, rt->host_io);
    if (rt->link) rt->device->table->host_release(rt->device, rt->link);
    if (rt->dot) runtime_vector_free(rt, sizeof *rt->dot, rt->dot);
    weight_buffer_free(&rt->buffer);
    residency_free(rt->residency);
    pool_free(rt->pool);
    pthread_mutex_destroy(&rt->lock);
    pthread_mutex_destroy(&rt->kept_lock);
    mem_free(rt);
}

uint32_t runtime_precision(const runtime *rt) { return rt->setting.precision; }

uint32_t runtime_wide_enough(const runtime *rt, uint32_t precisions)
{
    static const uint32_t by_width[] = {KILN_F16, KILN_BF16, KILN_F32};
    uint32_t wanted = rt->setting.precision;
    size_t i = 0;
    if (!precisions) return wanted;
    while (i < 2 && by_width[i] != wanted) i++;
    while (i < 2 && !(precisions & rt->setting.backend->precisions & 1u << by_width[i])) i++;
    return by_width[i];
}

const backend *runtime_backend(const runtime *rt) { return rt->setting.backend; }
pool *runtime_pool(const runtime *rt) { return rt->pool; }
size_t runtime_weight_peak(const runtime *rt) { return residency_peak(rt->residency); }
residency *runtime_residency(const runtime *rt) { return rt->residency; }

void runtime_estimate_reset(runtime *rt)
{
    pthread_mutex_lock(&rt->lock);
    rt->estimate = (runtime_estimate){0};
    rt->estimated = NULL;
    pthread_mutex_unlock(&rt->lock);
}

runtime_estimate runtime_get_estimate(const runtime *rt)
{
    runtime *own = (runtime *)(uintptr_t)rt; /* the lock is no part of what a reader sees */
    pthread_mutex_lock(&own->lock);
    runtime_estimate o = own->estimate;
    pthread_mutex_unlock(&own->lock);
    return o;
}

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

/* ---- life of a program ---- */

kiln_program *program_new(runtime *rt, const char *name, uint32_t precision, error *e)
{
    kiln_program *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a program"), NULL;
    if (!precision) precision = rt->setting.precision;
    if (check_precision(rt->setting.backend, precision, e) != KILN_OK) return mem_free(p), NULL;
    p->rt = rt;
    atomic_init(&p->refs, 1);
    if (recording_init(&p->r, name, precision, e) != KILN_OK) return mem_free(p), NULL;
    p->r.precisions = rt->setting.backend->precisions;
    return p;
}

void program_free(kiln_program *p)
{
    if (!p || atomic_fetch_sub(&p->refs, 1) != 1) return;
    if (p->captured.graph) p->rt->device->table->graph_free(p->rt->device, p->captured.graph);
    executor_free(&p->x);
    recording_free(&p->r);
    mem_free(p->invariant.dtype);
    mem_free(p->invariant.bytes);
    mem_free(p->key);
    mem_free(p);
}

recording *program_recording(kiln_program *p) { return &p->r; }

static int is_kept(const kiln_program *p, const char *key, uint32_t precision)
{
    return p && p->r.precision == precision && strcmp(p->key, key) == 0;
}

/* The place of that program, else of the least recently used one, else a free one. */
static size_t kept_place(runtime *rt, const char *key, uint32_t precision)
{
    assert(mutex_held(&rt->kept_lock));
    size_t best = 0;
    for (size_t i = 0; i < KEPT_MAX; i++)
        if (is_kept(rt->kept[i], key, precision)) return i;
    for (size_t i = 0; i < KEPT_MAX; i++) {
        if (!rt->kept[i]) return i;
        if (rt->kept[i]->used < rt->kept[best]->used) best = i;
    }
    return best;
}

kiln_program *program_keep(runtime *rt, const char *key, const char *name, uint32_t precision, int *fresh, error *e)
{
    if (!precision) precision = rt->setting.precision;
    pthread_mutex_lock(&rt->kept_lock);
    size_t i = kept_place(rt, key, precision);
    kiln_program *p = is_kept(rt->kept[i], key, precision) && rt->kept[i]->planned ? rt->kept[i] : NULL;
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
    if (!p->rt->setting.unfused) {
        fuse_upsampled(&p->r, executor_takes, p->rt->setting.backend);
        fuse_taken(&p->r, executor_takes, p->rt->setting.backend);
    }
    kiln_status status = p->rt->setting.unfused ? fuse_nothing(&p->r, e) : fuse(&p->r, e);
    if (status == KILN_OK) status = executor_make(&p->x, &p->r, p->rt->setting.backend, e);
    if (status == KILN_OK) status = invariant_make(p, e);
    if (status == KILN_OK) {
        if (p->rt->setting.list_ops && log_level() >= KILN_LOG_INFO) executor_log(&p->x);
        atomic_store(&p->planned, 1);
    } else /* a second try would find a half-made program */
        error_set(&p->r.failure, status, "program '%s' could not be planned", p->r.name);
    return status;
}

kiln_status program_info(const kiln_program *p, kiln_program_info *info)
{
    const kiln_program_info full = {.n_recorded = p->n_recorded,
                                    .n_planned = p->x.plan.n_run,
                                    .arena_bytes = p->x.plan.arena_bytes,
                                    .scratch_bytes = p->x.scratch_bytes,
                                    .weight_bytes = p->x.weight_bytes,
                                    .flops = p->x.plan.flops,
                                    .precision = p->r.precision};
    return p->planned && KILN_WRITE(info, &full, flops) ? KILN_OK : KILN_ERR_INVALID;
}
