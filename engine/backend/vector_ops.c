/* vector_ops.c - kiln_ops' vector ops where programs run; see runtime.h and kiln/ops.h.
 *
 * On a device everything goes on the stream that computes, so it comes in order with runs. Copies wait: they go through
 * one page-locked buffer. An estimate calls none of this but runtime_vector_count.
 */
#include "backend/runtime_state.h"

#include "backend/host_vector_ops.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static int on_device(const runtime *rt) { return rt->device->table->asynchronous && rt->setting.backend->vector_ops; }

uint32_t runtime_vector_device(const runtime *rt) { return on_device(rt) ? rt->device->table->kind : KILN_CPU; }

kiln_status runtime_vector_new(runtime *rt, size_t bytes, void **out, error *e)
{
    if (!on_device(rt)) return error_set(e, KILN_ERR_UNSUPPORTED, "no memory of a device: programs run on the host");
    pthread_mutex_lock(&rt->lock);
    kiln_status status = residency_take(rt->residency, MEMORY_VALUES, bytes, "vectors on the device", out, e);
    pthread_mutex_unlock(&rt->lock);
    return status;
}

void runtime_vector_free(runtime *rt, size_t bytes, void *data)
{
    pthread_mutex_lock(&rt->lock);
    rt->device->table->sync(rt->device, residency_stream(rt->residency), NULL);
    residency_give(rt->residency, MEMORY_VALUES, bytes, data);
    pthread_mutex_unlock(&rt->lock);
}

/* As the device would hand it out. */
static size_t counted(const runtime *rt, size_t bytes)
{
    size_t unit = rt->device->table->alignment;
    return ((bytes ? bytes : 1) + unit - 1) / unit * unit;
}

kiln_status runtime_vector_count(runtime *rt, size_t bytes, void **out, error *e)
{
    *out = (void *)(uintptr_t)64; /* not NULL, and a fault for whoever reads it */
    return budget_take(residency_budget(rt->residency), MEMORY_VALUES, counted(rt, bytes), "vectors on the device", e);
}

void runtime_vector_uncount(runtime *rt, size_t bytes)
{
    budget_give(residency_budget(rt->residency), MEMORY_VALUES, counted(rt, bytes));
}

/* ---- over the link ---- */

static kiln_status ensure_staging(runtime *rt, size_t bytes, error *e)
{
    if (rt->link_bytes >= bytes) return KILN_OK;
    if (rt->link) rt->device->table->host_release(rt->device, rt->link);
    rt->link = NULL, rt->link_bytes = 0;
    TRY(rt->device->table->host_alloc(rt->device, bytes, &rt->link, e));
    rt->link_bytes = bytes;
    return KILN_OK;
}

static kiln_status move_in(runtime *rt, void *device, const void *host, size_t bytes, error *e)
{
    device_stream *s = residency_stream(rt->residency);
    TRY(ensure_staging(rt, bytes, e));
    memcpy(rt->link, host, bytes);
    TRY(rt->device->table->copy_in(rt->device, device, rt->link, bytes, s, e));
    return rt->device->table->sync(rt->device, s, e);
}

static kiln_status move_out(runtime *rt, void *host, const void *device, size_t bytes, error *e)
{
    device_stream *s = residency_stream(rt->residency);
    TRY(ensure_staging(rt, bytes, e));
    TRY(rt->device->table->copy_out(rt->device, rt->link, device, bytes, s, e));
    TRY(rt->device->table->sync(rt->device, s, e));
    memcpy(host, rt->link, bytes);
    return KILN_OK;
}

kiln_status runtime_upload(runtime *rt, float *device, const float *host, size_t n, error *e)
{
    if (!n) return KILN_OK;
    if (!on_device(rt)) return memmove(device, host, n * sizeof *host), KILN_OK;
    pthread_mutex_lock(&rt->lock);
    kiln_status status = move_in(rt, device, host, n * sizeof *host, e);
    pthread_mutex_unlock(&rt->lock);
    return status;
}

kiln_status runtime_download(runtime *rt, float *host, const float *device, size_t n, error *e)
{
    if (!n) return KILN_OK;
    if (!on_device(rt)) return memmove(host, device, n * sizeof *host), KILN_OK;
    pthread_mutex_lock(&rt->lock);
    kiln_status status = move_out(rt, host, device, n * sizeof *host, e);
    pthread_mutex_unlock(&rt->lock);
    return status;
}

/* ---- arithmetic ---- */

static void begin(runtime *rt)
{
    if (on_device(rt)) pthread_mutex_lock(&rt->lock);
}

static kiln_status end(runtime *rt, kiln_status status)
{
    if (on_device(rt)) pthread_mutex_unlock(&rt->lock);
    return status;
}

static const device_vector_ops *ops_of(const runtime *rt)
{
    return on_device(rt) ? rt->setting.backend->vector_ops : &host_vector_ops;
}

static device_stream *stream_of(const runtime *rt) { return on_device(rt) ? residency_stream(rt->residency) : NULL; }

kiln_status runtime_combine(runtime *rt, float *out, size_t n, uint32_t terms, const double *c, const float *const *x,
                            error *e)
{
    assert(terms <= KILN_MAX_TERMS);
    begin(rt);
    return end(rt, !n ? KILN_OK : ops_of(rt)->combine(out, n, terms, c, x, stream_of(rt), e));
}

kiln_status runtime_add_difference(runtime *rt, const kiln_difference *d, float *out, error *e)
{
    begin(rt);
    return end(rt, !d->n ? KILN_OK : ops_of(rt)->add_difference(d, out, stream_of(rt), e));
}

static kiln_status dot_on_device(runtime *rt, const kiln_dot *d, double *out, error *e)
{
    void *memory = rt->dot;
    if (!memory)
        TRY(residency_take(rt->residency, MEMORY_VALUES, sizeof *rt->dot, "vectors on the device", &memory, e));
    rt->dot = memory;
    if (!d->n) return KILN_OK;
    TRY(ops_of(rt)->dot(d, rt->dot, stream_of(rt), e));
    return move_out(rt, out, rt->dot, sizeof *out, e);
}

kiln_status runtime_dot(runtime *rt, const kiln_dot *d, double *out, error *e)
{
    assert(d->terms >= 1 && d->terms <= KILN_MAX_TERMS);
    *out = 0;
    if (!on_device(rt)) return host_vector_ops.dot(d, out, NULL, e);
    begin(rt);
    return end(rt, dot_on_device(rt, d, out, e));
}

kiln_status runtime_norm(runtime *rt, const float *x, size_t n, double *out, error *e)
{
    const double one = 1;
    double sum = 0;
    TRY(runtime_dot(rt, &(kiln_dot){.size = sizeof(kiln_dot), .n = n, .terms = 1, .a = &one, .b = &one, .x = &x}, &sum,
                    e));
    *out = n ? sqrt(sum / (double)n) : 0;
    return KILN_OK;
}

kiln_status runtime_blend(runtime *rt, const kiln_blend *b, float *out, error *e)
{
    begin(rt);
    int nothing = !b->pictures || !b->cells || !b->channels;
    return end(rt, nothing ? KILN_OK : ops_of(rt)->blend(b, out, stream_of(rt), e));
}

static int is_empty(const kiln_area *a) { return !a->pictures || !a->channels || !a->h || !a->w; }

kiln_status runtime_crop(runtime *rt, const kiln_area *a, const float *x, float *out, error *e)
{
    begin(rt);
    return end(rt, is_empty(a) ? KILN_OK : ops_of(rt)->crop(a, x, out, stream_of(rt), e));
}

kiln_status runtime_accumulate(runtime *rt, const kiln_area *a, const kiln_part *part, float *sum, float *total,
                               error *e)
{
    begin(rt);
    int nothing = is_empty(a);
    return end(rt, nothing ? KILN_OK : ops_of(rt)->accumulate(a, part, sum, total, stream_of(rt), e));
}

kiln_status runtime_divide(runtime *rt, float *x, const float *total, size_t cells, size_t channels, error *e)
{
    begin(rt);
    int nothing = !cells || !channels;
    return end(rt, nothing ? KILN_OK : ops_of(rt)->divide(x, total, cells, channels, stream_of(rt), e));
}
