/* vector_ops.c - f32 numbers that stay on the device between runs, and arithmetic on them; see runtime.h and
 * kiln/ops.h.
 *
 * Everything goes on the stream that computes, so it comes in order with runs. Copies wait: they go through one
 * page-locked buffer. While estimating nothing is computed or moved, but memory is taken, so that it is estimated.
 */
#include "backend/runtime_state.h"

#include <math.h>
#include <string.h>

static int there(const runtime *rt) { return rt->device->table->asynchronous && rt->setting.backend->vector_ops; }
static int idle(const runtime *rt) { return rt->estimating || rt->setting.explain; }

uint32_t runtime_vector_device(const runtime *rt) { return there(rt) ? rt->device->table->kind : KILN_CPU; }

kiln_status runtime_vector_new(runtime *rt, size_t bytes, void **out, error *e)
{
    if (!there(rt)) return error_set(e, KILN_ERR_UNSUPPORTED, "no memory of a device: programs run on the host");
    pthread_mutex_lock(&rt->lock);
    kiln_status status = residency_take(rt->residency, MEMORY_VALUES, bytes, "numbers that stay on the device", out, e);
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

kiln_status runtime_vector_count(runtime *rt, size_t bytes, void **out, error *e)
{
    *out = (void *)(uintptr_t)64; /* not NULL, and a fault for whoever reads it */
    return budget_take(residency_budget(rt->residency), MEMORY_VALUES, bytes, "numbers that stay on the device", e);
}

void runtime_vector_uncount(runtime *rt, size_t bytes)
{
    budget_give(residency_budget(rt->residency), MEMORY_VALUES, bytes);
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
    if (!there(rt)) return memmove(device, host, n * sizeof *host), KILN_OK;
    pthread_mutex_lock(&rt->lock);
    kiln_status status = idle(rt) || !n ? KILN_OK : move_in(rt, device, host, n * sizeof *host, e);
    pthread_mutex_unlock(&rt->lock);
    return status;
}

kiln_status runtime_download(runtime *rt, float *host, const float *device, size_t n, error *e)
{
    if (!there(rt)) return memmove(host, device, n * sizeof *host), KILN_OK;
    pthread_mutex_lock(&rt->lock);
    int nothing = idle(rt) || !n;
    kiln_status status = nothing ? KILN_OK : move_out(rt, host, device, n * sizeof *host, e);
    pthread_mutex_unlock(&rt->lock);
    if (nothing) memset(host, 0, n * sizeof *host);
    return status;
}

/* ---- arithmetic ---- */

static void combine_here(float *out, size_t n, uint32_t terms, const double *c, const float *const *x)
{
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < terms; k++) sum += c[k] * (double)x[k][i];
        out[i] = (float)sum;
    }
}

kiln_status runtime_combine(runtime *rt, float *out, size_t n, uint32_t terms, const double *c, const float *const *x,
                            error *e)
{
    if (terms > KILN_MAX_TERMS)
        return error_set(e, KILN_ERR_INVALID, "a sum of %u terms; up to %d are possible", terms, KILN_MAX_TERMS);
    if (!there(rt)) return combine_here(out, n, terms, c, x), KILN_OK;
    pthread_mutex_lock(&rt->lock);
    kiln_status status = idle(rt) || !n ? KILN_OK
                                        : rt->setting.backend->vector_ops->combine(out, n, terms, c, x,
                                                                                   residency_stream(rt->residency), e);
    pthread_mutex_unlock(&rt->lock);
    return status;
}

static kiln_status square_sum_there(runtime *rt, const float *x, size_t n, double *out, error *e)
{
    void *capacity;
    if (!rt->measured) {
        TRY(residency_take(rt->residency, MEMORY_VALUES, sizeof *rt->measured, "numbers that stay on the device",
                           &capacity, e));
        rt->measured = capacity;
    }
    *out = 0;
    if (idle(rt)) return KILN_OK;
    TRY(rt->setting.backend->vector_ops->square_sum(rt->measured, x, n, residency_stream(rt->residency), e));
    return move_out(rt, out, rt->measured, sizeof *out, e);
}

kiln_status runtime_norm(runtime *rt, const float *x, size_t n, double *out, error *e)
{
    kiln_status status = KILN_OK;
    double sum = 0;
    if (there(rt)) {
        pthread_mutex_lock(&rt->lock);
        status = square_sum_there(rt, x, n, &sum, e);
        pthread_mutex_unlock(&rt->lock);
    } else
        for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    *out = n ? sqrt(sum / (double)n) : 0;
    return status;
}
