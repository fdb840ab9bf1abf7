/* device_cuda.c - an NVIDIA GPU as a device of the residency manager; see memory/device.h. Source: CUDA Runtime API. */
#include "backend/cuda/cudnn.h"
#include "backend/cuda/cublaslt.h"
#include "backend/cuda/tensor_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    memory_device base;
    device_traffic traffic;
    cuda_abilities abilities;
    int index, opened;
    char name[320];
} gpu;

const cuda_abilities *cuda_abilities_get(void) { return &gpu.abilities; }

/* The runtime's current device belongs to a thread; any thread may call. */
kiln_status cuda_here(error *e)
{
    CUDA_TRY(cudaSetDevice(gpu.index), "cudaSetDevice");
    return KILN_OK;
}

static const char *device_name(const memory_device *d) { return (void)d, gpu.name; }
static void device_close(memory_device *d) { (void)d; }

static kiln_status device_memory(memory_device *d, size_t *free_bytes, size_t *total, error *e)
{
    (void)d;
    TRY(cuda_here(e));
    CUDA_TRY(cudaMemGetInfo(free_bytes, total), "cudaMemGetInfo");
    return KILN_OK;
}

static kiln_status device_alloc(memory_device *d, size_t bytes, void **out, error *e)
{
    (void)d;
    TRY(cuda_here(e));
    CUDA_TRY(cudaMalloc(out, bytes), "cudaMalloc");
    return KILN_OK;
}
static void device_release(memory_device *d, void *p)
{
    (void)d;
    if (p && cudaFree(p) != cudaSuccess) cudaGetLastError();
}
static kiln_status host_alloc(memory_device *d, size_t bytes, void **out, error *e)
{
    (void)d;
    TRY(cuda_here(e));
    cudaError_t status = cudaHostAlloc(out, bytes, cudaHostAllocDefault);
    if (status == cudaSuccess) return KILN_OK;
    cudaGetLastError();
    return error_set(e, KILN_ERR_NOMEM, "the system gives no page-locked memory (%zu bytes: %s)", bytes,
                     cudaGetErrorString(status));
}
static void host_release(memory_device *d, void *p)
{
    (void)d;
    if (p && cudaFreeHost(p) != cudaSuccess) cudaGetLastError();
}

/* ---- streams and events ---- */

static cudaEvent_t event_of(device_event *v) { return (cudaEvent_t)(void *)v; }

static kiln_status stream_new(memory_device *d, device_stream **out, error *e)
{
    cudaStream_t s;
    (void)d;
    TRY(cuda_here(e));
    CUDA_TRY(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "cudaStreamCreate");
    *out = (device_stream *)(void *)s;
    return KILN_OK;
}
static void stream_free(memory_device *d, device_stream *s)
{
    (void)d;
    if (s && cudaStreamDestroy(cuda_stream(s)) != cudaSuccess) cudaGetLastError();
}
static kiln_status event_new(memory_device *d, device_event **out, error *e)
{
    cudaEvent_t v;
    (void)d;
    TRY(cuda_here(e));
    CUDA_TRY(cudaEventCreateWithFlags(&v, cudaEventDisableTiming), "cudaEventCreate");
    *out = (device_event *)(void *)v;
    return KILN_OK;
}
static void event_free(memory_device *d, device_event *v)
{
    (void)d;
    if (v && cudaEventDestroy(event_of(v)) != cudaSuccess) cudaGetLastError();
}
static kiln_status record(memory_device *d, device_event *v, device_stream *s, error *e)
{
    (void)d;
    CUDA_TRY(cudaEventRecord(event_of(v), cuda_stream(s)), "cudaEventRecord");
    return KILN_OK;
}
static kiln_status wait_for(memory_device *d, device_stream *s, device_event *v, error *e)
{
    (void)d;
    CUDA_TRY(cudaStreamWaitEvent(cuda_stream(s), event_of(v), 0), "cudaStreamWaitEvent");
    return KILN_OK;
}
static kiln_status sync_stream(memory_device *d, device_stream *s, error *e)
{
    (void)d;
    CUDA_TRY(cudaStreamSynchronize(cuda_stream(s)), "the device");
    return KILN_OK;
}
static kiln_status sync_event(memory_device *d, device_event *v, error *e)
{
    (void)d;
    CUDA_TRY(cudaEventSynchronize(event_of(v)), "the device");
    return KILN_OK;
}

/* ---- copies: counted where they are enqueued; a graph's, where it is launched ---- */

struct device_graph {
    cudaGraphExec_t exec;
    device_traffic each;
};
static device_traffic *counting = &gpu.traffic;
static device_traffic captured;

static kiln_status copy_in(memory_device *d, void *dst, const void *host, size_t bytes, device_stream *s, error *e)
{
    (void)d;
    CUDA_TRY(cudaMemcpyAsync(dst, host, bytes, cudaMemcpyHostToDevice, cuda_stream(s)), "a copy to the device");
    counting->in += bytes, counting->copies++;
    return KILN_OK;
}
static kiln_status copy_out(memory_device *d, void *host, const void *src, size_t bytes, device_stream *s, error *e)
{
    (void)d;
    CUDA_TRY(cudaMemcpyAsync(host, src, bytes, cudaMemcpyDeviceToHost, cuda_stream(s)), "a copy from the device");
    counting->out += bytes, counting->copies++;
    return KILN_OK;
}

static kiln_status capture_begin(memory_device *d, device_stream *s, error *e)
{
    (void)d;
    TRY(cuda_here(e));
    CUDA_TRY(cudaStreamBeginCapture(cuda_stream(s), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    memset(&captured, 0, sizeof captured);
    counting = &captured;
    return KILN_OK;
}
static kiln_status capture_end(memory_device *d, device_stream *s, device_graph **out, error *e)
{
    cudaGraph_t graph = NULL;
    (void)d;
    counting = &gpu.traffic;
    cudaError_t status = cudaStreamEndCapture(cuda_stream(s), &graph);
    if (status != cudaSuccess || !graph)
        return cuda_failed(status == cudaSuccess ? cudaErrorUnknown : status, "cudaStreamEndCapture", e);
    device_graph *g = malloc(sizeof *g);
    if (g) {
        g->each = captured;
        status = cudaGraphInstantiate(&g->exec, graph, 0);
    }
    cudaGraphDestroy(graph);
    if (!g) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (status != cudaSuccess) {
        free(g);
        return cuda_failed(status, "cudaGraphInstantiate", e);
    }
    *out = g;
    return KILN_OK;
}
static kiln_status graph_launch(memory_device *d, device_graph *g, device_stream *s, error *e)
{
    (void)d;
    TRY(cuda_here(e));
    CUDA_TRY(cudaGraphLaunch(g->exec, cuda_stream(s)), "cudaGraphLaunch");
    gpu.traffic.in += g->each.in, gpu.traffic.out += g->each.out, gpu.traffic.copies += g->each.copies;
    return KILN_OK;
}
static void graph_free(memory_device *d, device_graph *g)
{
    (void)d;
    if (g && cudaGraphExecDestroy(g->exec) != cudaSuccess) cudaGetLastError();
    free(g);
}
static device_traffic device_traffic_get(const memory_device *d) { return (void)d, gpu.traffic; }

static const device_table table = {
    .kind = KILN_CUDA,
    .asynchronous = 1,
    .alignment = 256,
    .close = device_close,
    .name = device_name,
    .memory = device_memory,
    .alloc = device_alloc,
    .release = device_release,
    .host_alloc = host_alloc,
    .host_release = host_release,
    .stream_new = stream_new,
    .stream_free = stream_free,
    .event_new = event_new,
    .event_free = event_free,
    .record = record,
    .wait = wait_for,
    .sync = sync_stream,
    .sync_event = sync_event,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .graph_launch = graph_launch,
    .graph_free = graph_free,
    .traffic = device_traffic_get,
};

/* ---- opening ---- */

static kiln_status take_wgmma(cuda_abilities *a, error *e)
{
    const char *why = a->major != 9 || a->minor != 0 ? "the device is no sm_90"
                      : !cu_gemm_wgmma_compiled() ? "kiln was built for other chips (CUDA_ARCH, and nvcc 12 or newer)"
                      : !tensor_map_available()   ? "the driver is older than 12.0"
                                                  : NULL;
    if (why) return error_set(e, KILN_ERR_UNSUPPORTED, "KILN_CUDA_GEMM=wgmma: %s", why);
    a->gemms = CUDA_GEMM_MMA, a->wgmma = 1;
    return KILN_OK;
}

/* The best that there is, or what KILN_CUDA_GEMM asks for, or no device. */
static kiln_status choose_gemm(cuda_abilities *a, error *e)
{
    static const char *const names[] = {"plain", "mma", "library", "cudnn"};
    const char *text = getenv("KILN_CUDA_GEMM");
    int asked = -1;
    if (text && !*text) text = NULL;
    if (text && strcmp(text, "wgmma") == 0) return cuda_here(e) == KILN_OK ? take_wgmma(a, e) : KILN_ERR_IO;
    for (int i = 0; text && i < (int)(sizeof names / sizeof names[0]); i++)
        if (strcmp(text, names[i]) == 0) asked = i;
    if (text && asked < 0)
        return error_set(e, KILN_ERR_UNSUPPORTED, "KILN_CUDA_GEMM=%s: it is plain, mma, wgmma, library, cudnn", text);
    if (asked > CUDA_GEMM_MMA && a->major < 8)
        return error_set(e, KILN_ERR_UNSUPPORTED, "KILN_CUDA_GEMM=%s wants sm_80 or newer; this device is sm_%d%d",
                         text, a->major, a->minor);
    a->gemms = text ? (cuda_gemm_path)asked : a->major >= 8 ? CUDA_GEMM_CUBLASLT : CUDA_GEMM_MMA;
    if (a->gemms < CUDA_GEMM_CUBLASLT) return KILN_OK;
    TRY(cuda_here(e));
    TRY(cublaslt_open(&a->cublaslt, e));
    if (!a->cublaslt && text)
        return error_set(
            e, KILN_ERR_UNSUPPORTED,
            "KILN_CUDA_GEMM=%s: cuBLASLt is not installed or does not start; KILN_CUBLASLT=FILE names its file", text);
    if (!a->cublaslt) a->gemms = CUDA_GEMM_MMA;
    return a->gemms == CUDA_GEMM_CUDNN ? cudnn_open(&a->cudnn, e) : KILN_OK;
}

kiln_status cuda_device_open(unsigned index, memory_device **out, error *e)
{
    struct cudaDeviceProp p;
    int n = 0;
    cudaError_t status = cudaGetDeviceCount(&n);
    if (status != cudaSuccess) cudaGetLastError();
    if (status == cudaErrorInsufficientDriver)
        return error_set(e, KILN_ERR_UNSUPPORTED,
                         "no NVIDIA driver is installed, or one older than the CUDA that kiln was built with; install "
                         "a newer one, or take --device cpu");
    if (status != cudaSuccess)
        return error_set(e, KILN_ERR_UNSUPPORTED, "no CUDA device: %s", cudaGetErrorString(status));
    if (index >= (unsigned)n)
        return error_set(e, KILN_ERR_UNSUPPORTED, "there is no CUDA device %u (there are %d)", index, n);
    if (gpu.opened && gpu.index != (int)index)
        return error_set(e, KILN_ERR_UNSUPPORTED, "CUDA device %d is in use; one process computes on one", gpu.index);
    *out = &gpu.base;
    if (gpu.opened) return KILN_OK;
    CUDA_TRY(cudaGetDeviceProperties(&p, (int)index), "cudaGetDeviceProperties");
    gpu.index = (int)index;
    gpu.abilities = (cuda_abilities){.major = p.major, .minor = p.minor, .processors = p.multiProcessorCount};
    if (p.major * 10 + p.minor < 75)
        return error_set(e, KILN_ERR_UNSUPPORTED, "%s is sm_%d%d; kiln's kernels want sm_75 or newer", p.name, p.major,
                         p.minor);
    TRY(choose_gemm(&gpu.abilities, e));
    snprintf(gpu.name, sizeof gpu.name, "%s, %d SMs, sm_%d%d", p.name, p.multiProcessorCount, p.major, p.minor);
    gpu.base.table = &table;
    gpu.opened = 1;
    return KILN_OK;
}
