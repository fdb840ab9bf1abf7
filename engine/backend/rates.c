/* rates.c - see rates.h. */
#include "backend/rates.h"

#include "backend/runtime_state.h"
#include "base/clock.h"
#include "base/memory_alloc.h"

#include <string.h>

enum { SIDE = 1024, COPIED = 32 << 20, TRIES = 3 };

typedef struct {
    runtime *rt;
    memory_device *device;
    device_stream *stream;
    void *host;         /* COPIED bytes, page-locked where that exists */
    char *device_bytes; /* COPIED of them */
    void *scratch;      /* the GEMM's */
    kernel *gemm;
} bench;

static kiln_status finish(const bench *b, error *e)
{
    return b->device->table->asynchronous ? b->device->table->sync(b->device, b->stream, e) : KILN_OK;
}

static kiln_status copy(bench *b, error *e)
{
    if (!b->device->table->asynchronous) return memcpy(b->device_bytes, b->host, COPIED), KILN_OK;
    TRY(b->device->table->copy_in(b->device, b->device_bytes, b->host, COPIED, b->stream, e));
    return finish(b, e);
}

static op_desc gemm_desc(uint32_t precision)
{
    operand_desc x = {.dtype = precision, .shape = {2, {SIDE, SIDE}}, .ld = SIDE},
                 w = {.dtype = precision, .shape = {2, {SIDE, SIDE}}, .ld = SIDE, .weight = 1};
    return (op_desc){.kind = OP_LINEAR, .n_in = 3, .in = {x, w}, .out = x, .precision = precision};
}

/* The GEMM's operands lie one behind the other in the memory that was copied to: zeros, whose values do not matter. */
static kiln_status multiply(bench *b, error *e)
{
    size_t each = (size_t)SIDE * SIDE * sizeof(float),
           packed = b->gemm->packed_bytes[1] ? b->gemm->packed_bytes[1] : each;
    if (2 * each + packed > COPIED)
        return error_set(e, KILN_ERR_UNSUPPORTED, "the GEMM needs more memory than is copied");
    kernel_args a = {.in = {b->device_bytes, b->device_bytes + each},
                     .out = b->device_bytes + each + packed,
                     .scratch = b->scratch,
                     .pool = runtime_pool(b->rt),
                     .stream = b->stream};
    TRY(b->gemm->run(b->gemm, &a, e));
    return finish(b, e);
}

static kiln_status fastest(bench *b, kiln_status (*call)(bench *, error *), double *seconds, error *e)
{
    for (int i = 0; i < TRIES; i++) {
        double start = clock_seconds();
        TRY(call(b, e));
        double took = clock_seconds() - start;
        if (i == 0 || took < *seconds) *seconds = took;
    }
    return KILN_OK;
}

static kiln_status measure(bench *b, device_rates *out, error *e)
{
    const device_table *t = b->device->table;
    op_desc desc = gemm_desc(runtime_precision(b->rt));
    double copying = 0, multiplying = 0;
    if (t->asynchronous) TRY(t->stream_new(b->device, &b->stream, e));
    TRY(t->host_alloc(b->device, COPIED, &b->host, e));
    void *data = NULL;
    TRY(t->alloc(b->device, COPIED, &data, e));
    b->device_bytes = data;
    memset(b->host, 0, COPIED);
    TRY(runtime_backend(b->rt)->prepare(&desc, &b->gemm, e));
    if (b->gemm->scratch_bytes) TRY(t->alloc(b->device, b->gemm->scratch_bytes, &b->scratch, e));
    TRY(fastest(b, copy, &copying, e)); /* and so the operands are 0 */
    TRY(fastest(b, multiply, &multiplying, e));
    *out = (device_rates){.flops = 2.0 * SIDE * SIDE * SIDE / multiplying, .bytes = COPIED / copying};
    return KILN_OK;
}

kiln_status device_rates_measure(runtime *rt, device_rates *out, error *e)
{
    bench b = {.rt = rt, .device = residency_device(runtime_residency(rt))};
    kiln_status status = measure(&b, out, e);
    if (b.gemm) b.gemm->free(b.gemm);
    if (b.scratch) b.device->table->release(b.device, b.scratch);
    if (b.device_bytes) b.device->table->release(b.device, b.device_bytes);
    if (b.host) b.device->table->host_release(b.device, b.host);
    if (b.stream) b.device->table->stream_free(b.device, b.stream);
    return status;
}
