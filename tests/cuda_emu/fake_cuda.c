/* fake_cuda.c - the CUDA runtime's functions on the fake device of tests/memory: an arena with guards, streams whose
 * work happens late and in any order that events allow, every call able to fail. What it is asked to do is told to the
 * real library in the same words, so engine/backend/cuda's own C files run on it as they are. */
#include "../memory/fake_device.h"
#include "fake_cuda.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static error last;
static int devices = 1, home = -1; /* of which the fake device is this one; -1: no stream was made yet */
static _Thread_local int current;
static struct cudaDeviceProp chip = {.name = "a GPU that is none", .major = 9, .minor = 0, .multiProcessorCount = 132};

void fake_cuda_chip(int major, int minor) { chip.major = major, chip.minor = minor; }
void fake_cuda_devices(int n) { devices = n; }
int fake_cuda_major(void) { return chip.major; }

static cudaError_t said(kiln_status status)
{
    if (status == KILN_OK) return cudaSuccess;
    return status == KILN_ERR_NOMEM ? cudaErrorMemoryAllocation : cudaErrorUnknown;
}
#define ASK(call) (last = (error){0}, said(fake_device_get()->table->call))
#define ON fake_device_get()

const char *cudaGetErrorString(cudaError_t status)
{
    return status == cudaSuccess ? "no error" : last.message[0] ? last.message : "an error";
}
const char *cudaGetErrorName(cudaError_t status)
{
    return status == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
           : status == cudaSuccess             ? "cudaSuccess"
                                               : "cudaErrorUnknown";
}
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
cudaError_t cudaSetDevice(int device)
{
    return device >= 0 && device < devices ? (current = device, cudaSuccess) : cudaErrorInvalidDevice;
}
cudaError_t cudaGetDevice(int *device) { return *device = current, cudaSuccess; }
cudaError_t cudaGetDeviceCount(int *n) { return *n = devices, cudaSuccess; }
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device)
{
    return *p = chip, device >= 0 && device < devices ? cudaSuccess : cudaErrorInvalidDevice;
}
static int elsewhere(void) { return home >= 0 && current != home; }
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    return (void)attribute, (void)device, *value = 227 << 10, cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) { return ASK(memory(ON, free_bytes, total, &last)); }
cudaError_t cudaMalloc(void **out, size_t bytes)
{
    return elsewhere() ? cudaErrorInvalidDevice : ASK(alloc(ON, bytes, out, &last));
}
cudaError_t cudaFree(void *p) { return fake_device_get()->table->release(ON, p), cudaSuccess; }
cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    return (void)flags, ASK(host_alloc(ON, bytes, out, &last));
}
cudaError_t cudaFreeHost(void *p) { return fake_device_get()->table->host_release(ON, p), cudaSuccess; }

/* ---- streams and events: the fake device's own behind CUDA's names ---- */

static device_stream *stream(cudaStream_t s) { return (device_stream *)(void *)s; }
static device_event *event(cudaEvent_t v) { return (device_event *)(void *)v; }

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    device_stream *s = NULL;
    if (home < 0) home = current;
    cudaError_t status = ((void)flags, ASK(stream_new(ON, &s, &last)));
    *out = (cudaStream_t)(void *)s;
    return status;
}
cudaError_t cudaStreamDestroy(cudaStream_t s)
{
    return fake_device_get()->table->stream_free(ON, stream(s)), cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) { return ASK(sync(ON, stream(s), &last)); }
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t v, unsigned flags)
{
    return (void)flags, ASK(wait(ON, stream(s), event(v), &last));
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    device_event *v = NULL;
    cudaError_t status = ((void)flags, ASK(event_new(ON, &v, &last)));
    *out = (cudaEvent_t)(void *)v;
    return status;
}
cudaError_t cudaEventDestroy(cudaEvent_t v) { return fake_device_get()->table->event_free(ON, event(v)), cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t v, cudaStream_t s) { return ASK(record(ON, event(v), stream(s), &last)); }
cudaError_t cudaEventSynchronize(cudaEvent_t v) { return ASK(sync_event(ON, event(v), &last)); }

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t s)
{
    if (kind == cudaMemcpyHostToDevice) return ASK(copy_in(ON, dst, src, bytes, stream(s), &last));
    return ASK(copy_out(ON, dst, src, bytes, stream(s), &last));
}

/* ---- graphs: CUDA has a captured one and one that can be launched; here they are the same ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t s, enum cudaStreamCaptureMode mode)
{
    (void)mode;
    return ON->table->capture_begin ? ASK(capture_begin(ON, stream(s), &last)) : cudaErrorUnknown;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *out)
{
    device_graph *g = NULL;
    cudaError_t status = ASK(capture_end(ON, stream(s), &g, &last));
    *out = (cudaGraph_t)(void *)g;
    return status;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    (void)flags;
    *out = (cudaGraphExec_t)(void *)graph;
    return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return (void)graph, cudaSuccess; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t s)
{
    return ASK(graph_launch(ON, (device_graph *)(void *)graph, stream(s), &last));
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    return fake_device_get()->table->graph_free(ON, (device_graph *)(void *)graph), cudaSuccess;
}

/* ---- kernels ---- */

cudaError_t fake_cuda_call(cudaStream_t s, void (*call)(void *), void *arg)
{
    last = (error){0};
    if (elsewhere()) return cudaErrorInvalidResourceHandle;
    return said(fake_device_call(stream(s), call, arg, &last));
}

/* ---- descriptions of tensors, by the rules of the driver's manual ---- */

static int tensor_allowed(const fake_tensor *t, const cuuint64_t *size, const cuuint32_t *box, const cuuint32_t *step)
{
    int fine = t->rank >= 1 && t->rank <= 5 && ((uintptr_t)t->first & 15) == 0 && box[0] * 2 == 128;
    for (unsigned d = 0; d < t->rank && fine; d++) {
        fine =
            size[d] > 0 && size[d] <= UINT64_C(1) << 32 && box[d] > 0 && box[d] <= 256 && step[d] > 0 && step[d] <= 8;
        if (d + 1 < t->rank) fine = fine && t->bytes[d] % 16 == 0 && t->bytes[d] < UINT64_C(1) << 40;
    }
    return fine;
}

CUresult cuTensorMapEncodeTiled(CUtensorMap *out, CUtensorMapDataType type, cuuint32_t rank, void *first,
                                const cuuint64_t *size, const cuuint64_t *bytes, const cuuint32_t *box,
                                const cuuint32_t *step, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill outside)
{
    fake_tensor t = {.whole = FAKE_TENSOR, .rank = rank, .first = first};
    _Static_assert(sizeof t <= sizeof *out, "");
    (void)type, (void)interleave, (void)promotion, (void)outside;
    for (unsigned d = 0; d < rank && d < 5; d++) {
        t.size[d] = (uint32_t)size[d], t.box[d] = (uint16_t)box[d], t.step[d] = (uint8_t)step[d];
        if (d + 1 < rank) t.bytes[d] = bytes[d];
    }
    if (swizzle != CU_TENSOR_MAP_SWIZZLE_128B || !tensor_allowed(&t, size, box, step)) return CUDA_ERROR_INVALID_VALUE;
    memcpy(out, &t, sizeof t);
    return CUDA_SUCCESS;
}

static int driver_is_old;
void fake_cuda_old_driver(int old) { driver_is_old = old; }
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                             unsigned long long flags, enum cudaDriverEntryPointQueryResult *found)
{
    CUresult (*encode)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                       const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                       CUtensorMapL2promotion, CUtensorMapFloatOOBfill) = cuTensorMapEncodeTiled;
    (void)flags, (void)version;
    int there = strcmp(symbol, "cuTensorMapEncodeTiled") == 0 && !driver_is_old;
    *found = there ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    if (there) memcpy(function, &encode, sizeof encode);
    return cudaSuccess;
}

/* ---- NVIDIA's libraries ---- */

static int current_device(void) { return current; }
static struct {
    const char *variable, *file;
    const fake_vendor *table;
} vendors[] = {{"KILN_CUBLASLT", FAKE_LIBRARIES "/fake-cublaslt.so", NULL},
               {"KILN_CUDNN", FAKE_LIBRARIES "/fake-cudnn.so", NULL}};
enum { VENDORS = sizeof vendors / sizeof vendors[0] };

__attribute__((constructor)) static void name_libraries(void)
{
    static const fake_vendor_host host = {
        .enqueue = fake_cuda_call, .holds = fake_device_holds, .device = current_device};
    if (getenv("KILN_TEST_GPU")) return;
    for (size_t i = 0; i < VENDORS; i++) {
        setenv(vendors[i].variable, vendors[i].file, 0);
        void *library = dlopen(getenv(vendors[i].variable), RTLD_NOW | RTLD_LOCAL);
        vendors[i].table = library ? dlsym(library, "fake_vendor_table") : NULL;
        if (vendors[i].table) vendors[i].table->connect(&host);
    }
}

const fake_vendor *fake_cuda_vendor(const char *variable)
{
    for (size_t i = 0; i < VENDORS; i++)
        if (strcmp(vendors[i].variable, variable) == 0) return vendors[i].table;
    return NULL;
}

void fake_cuda_forget(void)
{
    for (size_t i = 0; i < VENDORS; i++)
        if (vendors[i].table) vendors[i].table->forget();
}
