/* ops_custom.c - ops of plugins on the device by their own launch, or by their reference on the host: then the run
 * waits for the stream and is never captured.
 */
#include "backend/cuda/cuda.h"

#include "backend/custom_kernel.h"
#include "tensor/dtype.h"

static kiln_status gather_rows(const cuda_kernel *k, const kernel_args *a, error *e)
{
    for (uint32_t i = 0; i < k->op.n_in; i++) {
        const operand_desc *d = &k->op.in[i];
        if (!d->dtype || custom_is_dense(d)) continue;
        cu_move m = {.unit = (int)dtype_size(d->dtype),
                     .rank = 2,
                     .dim = {cuda_rows(d), cuda_columns(d)},
                     .from = {d->ld, 1},
                     .to = {cuda_columns(d), 1},
                     .src = a->in[i],
                     .dst = (char *)a->scratch + custom_dense_at(&k->op, i)};
        CUDA_TRY(cu_move_run(&m, cuda_stream(a->stream)), "launch");
    }
    return KILN_OK;
}

static kiln_status on_device(const cuda_kernel *k, const kernel_args *a, error *e)
{
    custom_call c;
    TRY(gather_rows(k, a, e));
    custom_call_of(&c, &k->op, a, KILN_CUDA, e);
    return k->op.attr.custom->kind.cuda(&c.call, cuda_stream(a->stream),
                                        (char *)a->scratch + custom_dense_bytes(&k->op));
}

/* ---- on the host ---- */

static size_t bytes_of(const kiln_tensor *t)
{
    size_t n = t->dtype ? dtype_size(t->dtype) : 0;
    for (uint32_t i = 0; i < t->rank; i++) n *= (size_t)t->dim[i];
    return n;
}

/* The tensors' data copied one after the other into (or back from) host memory. */
static kiln_status exchange(custom_call *c, char *host, int back, cudaStream_t stream, error *e)
{
    for (uint32_t i = 0; i < c->call.n_in + c->call.n_out; i++) {
        int out = i >= c->call.n_in;
        kiln_tensor *t = out ? &c->out[i - c->call.n_in] : &c->in[i];
        size_t bytes = bytes_of(t);
        if (t->data && out == back)
            CUDA_TRY(cudaMemcpyAsync(back ? t->data : host, back ? host : t->data, bytes,
                                     back ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream),
                     "copy");
        host += (bytes + 63) & ~(size_t)63;
    }
    CUDA_TRY(cudaStreamSynchronize(stream), "wait");
    return KILN_OK;
}

static void point_at(custom_call *c, char *host)
{
    for (uint32_t i = 0; i < c->call.n_in + c->call.n_out; i++) {
        kiln_tensor *t = i < c->call.n_in ? &c->in[i] : &c->out[i - c->call.n_in];
        if (t->data) t->data = host;
        t->device = KILN_CPU;
        host += (bytes_of(t) + 63) & ~(size_t)63;
    }
    c->call.device = KILN_CPU;
}

static kiln_status on_host(const cuda_kernel *k, const kernel_args *a, error *e)
{
    custom_call there, here;
    size_t bytes = 0;
    TRY(gather_rows(k, a, e));
    custom_call_of(&there, &k->op, a, KILN_CUDA, e);
    custom_call_of(&here, &k->op, a, KILN_CUDA, e);
    for (uint32_t i = 0; i < there.call.n_in; i++) bytes += (bytes_of(&there.in[i]) + 63) & ~(size_t)63;
    for (uint32_t i = 0; i < there.call.n_out; i++) bytes += (bytes_of(&there.out[i]) + 63) & ~(size_t)63;
    void *host = NULL;
    CUDA_TRY(cudaHostAlloc(&host, bytes + 64, cudaHostAllocDefault), "page-locked memory");
    point_at(&here, host);
    kiln_status status = exchange(&there, host, 0, cuda_stream(a->stream), e);
    if (status == KILN_OK) status = k->op.attr.custom->kind.reference(&here.call);
    if (status == KILN_OK) status = exchange(&there, host, 1, cuda_stream(a->stream), e);
    cudaFreeHost(host);
    return status;
}

kiln_status cuda_prepare_custom(cuda_kernel *k, error *e)
{
    const kiln_op_kind *kind = &k->op.attr.custom->kind;
    custom_call c;
    custom_call_of(&c, &k->op, NULL, KILN_CUDA, e);
    k->base.name = kind->name;
    k->base.scratch_bytes =
        custom_dense_bytes(&k->op) + (kind->cuda && kind->cuda_workspace ? kind->cuda_workspace(&c.call) : 0);
    k->base.flops = kind->flops ? kind->flops(&c.call) : 0;
    k->base.waits = !kind->cuda;
    k->body = kind->cuda ? on_device : on_host;
    if (!kind->cuda) custom_warn_slow(&k->op, "the GPU");
    return KILN_OK;
}
