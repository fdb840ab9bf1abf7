/* fake_cudnn.c - a library that stands in for cuDNN (KILN_CUDNN names it), so that engine/backend/cuda/cudnn.c
 * runs as it is.
 *
 * y = alpha conv(x, w) + beta y over tensors by strides and NHWC filters (cuDNN API Reference). Where the manual leaves
 * a choice it takes the one that hurts a careless caller most: what it recommends first is not deterministic, then come
 * forms that are other numbers (Winograd's), then more workspace than anybody has; f32 without FMA is tf32; a workspace
 * is filled to its last byte. Deliberately left out: groups, NCHW filters, integers, backward.
 */
#include "fake_vendor.h"

#pragma GCC visibility push(default)
#include "backend/cuda/cudnn_api.h"
#pragma GCC visibility pop

#include <stdlib.h>
#include <string.h>

extern const char fake_vendor_name[];
const char fake_vendor_name[] = "cuDNN's stand-in";

/* cuDNN 9's. */
enum { NOT_INITIALIZED = 1001, BAD_PARAM = 2000, NOT_SUPPORTED = 3000, INTERNAL_ERROR = 4000, EXECUTION_FAILED = 5000 };
#define STATUS(n) ((cudnnStatus_t)(n))

typedef struct {
    int device;
    cudaStream_t stream;
} context;
typedef struct {
    int type, n, c, h, w, stride[4];
} tensor; /* stride: n, c, h, w */
typedef struct {
    int type, k, c, h, w;
} filter;
typedef struct {
    int pad[2], stride[2], dilation[2], mode, compute, math;
} geometry;
typedef struct {
    tensor x, y;
    filter w;
    geometry g;
    int algorithm;
    float alpha, beta;
    const void *X, *W;
    void *Y, *workspace;
    size_t bytes;
} work;

size_t cudnnGetVersion(void) { return 91900; }
const char *cudnnGetErrorString(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS    ? "CUDNN_STATUS_SUCCESS"
           : status == STATUS(NOT_SUPPORTED) ? "CUDNN_STATUS_NOT_SUPPORTED"
                                             : "CUDNN_STATUS_EXECUTION_FAILED";
}

#define CALLED(failure)                                                                                                \
    do {                                                                                                               \
        if (fake_vendor_called()) return STATUS(failure);                                                              \
    } while (0)
#define LOOK(type, name, kind, thing)                                                                                  \
    type *name = fake_vendor_look(kind, thing);                                                                        \
    if (!name) return STATUS(BAD_PARAM)
#define REFUSE(cond, status)                                                                                           \
    do {                                                                                                               \
        if (cond) return STATUS(status);                                                                               \
    } while (0)
#define FAULT(cond, ...)                                                                                               \
    do {                                                                                                               \
        if (cond) return fake_vendor_fault(__VA_ARGS__), STATUS(BAD_PARAM);                                            \
    } while (0)
#define MAKE(type, kind, out)                                                                                          \
    do {                                                                                                               \
        CALLED(INTERNAL_ERROR);                                                                                        \
        void *made_ = fake_vendor_make(kind, sizeof(type));                                                            \
        REFUSE(!made_, INTERNAL_ERROR);                                                                                \
        *(out) = made_;                                                                                                \
    } while (0)
#define END(kind, thing) return fake_vendor_destroy(kind, thing) ? CUDNN_STATUS_SUCCESS : STATUS(BAD_PARAM)

cudnnStatus_t cudnnCreate(cudnnHandle_t *out)
{
    void *made = NULL;
    MAKE(context, "handle", &made);
    if (!fake_host.enqueue) return fake_vendor_fault("nobody connected it to a device"), STATUS(NOT_INITIALIZED);
    ((context *)made)->device = fake_host.device();
    *out = made;
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    CALLED(BAD_PARAM);
    LOOK(context, c, "handle", handle);
    c->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- descriptors ---- */

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *out)
{
    void *made = NULL;
    MAKE(tensor, "tensor", &made);
    return *out = made, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t t) { END("tensor", t); }
cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t desc, cudnnDataType_t type, int n, int c, int h,
                                           int w, int nStride, int cStride, int hStride, int wStride)
{
    CALLED(NOT_SUPPORTED);
    LOOK(tensor, t, "tensor", desc);
    FAULT(n < 1 || c < 1 || h < 1 || w < 1 || nStride < 1 || cStride < 1 || hStride < 1 || wStride < 1,
          "a tensor of no size");
    *t = (tensor){(int)type, n, c, h, w, {nStride, cStride, hStride, wStride}};
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *out)
{
    void *made = NULL;
    MAKE(filter, "filter", &made);
    return *out = made, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t f) { END("filter", f); }
cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t desc, cudnnDataType_t type, cudnnTensorFormat_t format,
                                         int k, int c, int h, int w)
{
    CALLED(NOT_SUPPORTED);
    LOOK(filter, f, "filter", desc);
    REFUSE(format != CUDNN_TENSOR_NHWC || k < 1 || c < 1 || h < 1 || w < 1, NOT_SUPPORTED);
    *f = (filter){(int)type, k, c, h, w};
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *out)
{
    void *made = NULL;
    MAKE(geometry, "convolution", &made);
    return *out = made, CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t c) { END("convolution", c); }
cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t desc, int pad_h, int pad_w, int u, int v,
                                              int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
                                              cudnnDataType_t computeType)
{
    CALLED(NOT_SUPPORTED);
    LOOK(geometry, g, "convolution", desc);
    FAULT(pad_h < 0 || pad_w < 0 || u < 1 || v < 1 || dilation_h < 1 || dilation_w < 1, "a convolution that is none");
    *g = (geometry){{pad_h, pad_w}, {u, v}, {dilation_h, dilation_w}, (int)mode, (int)computeType, CUDNN_DEFAULT_MATH};
    return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t desc, cudnnMathType_t mathType)
{
    CALLED(BAD_PARAM);
    LOOK(geometry, g, "convolution", desc);
    g->math = (int)mathType;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- choosing ---- */

static int reach(int size, int pad, int window, int dilation, int stride)
{
    return (size + 2 * pad - ((window - 1) * dilation + 1)) / stride + 1;
}

/* The tables of cudnnConvolutionForward: TRUE_FLOAT, PSEUDO_HALF and PSEUDO_BFLOAT16 configurations, NHWC. */
static cudnnStatus_t check(const context *c, const tensor *x, const filter *w, const geometry *g, const tensor *y)
{
    FAULT(c->device != fake_host.device(), "a handle of device %d while device %d is the current one", c->device,
          fake_host.device());
    FAULT(x->c != w->c || y->c != w->k || x->n != y->n, "tensors and a filter that do not fit");
    FAULT(y->h != reach(x->h, g->pad[0], w->h, g->dilation[0], g->stride[0]) ||
              y->w != reach(x->w, g->pad[1], w->w, g->dilation[1], g->stride[1]),
          "a result of %dx%d, that is another size", y->h, y->w);
    REFUSE(x->type != w->type || x->type != y->type || g->compute != CUDNN_DATA_FLOAT, NOT_SUPPORTED);
    REFUSE(x->type != CUDNN_DATA_FLOAT && x->type != CUDNN_DATA_HALF && x->type != CUDNN_DATA_BFLOAT16, NOT_SUPPORTED);
    REFUSE(x->stride[1] != 1 || y->stride[1] != 1, NOT_SUPPORTED);
    return CUDNN_STATUS_SUCCESS;
}

static size_t workspace_of(const tensor *y, const filter *w, int algorithm)
{
    if (algorithm == CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM)
        return (size_t)(y->h * y->w * w->h * w->w) * 4 + 33;
    return algorithm == CUDNN_CONVOLUTION_FWD_ALGO_GEMM ? (size_t)1 << 40 : 0;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t srcDesc,
                                                     const cudnnFilterDescriptor_t filterDesc,
                                                     const cudnnConvolutionDescriptor_t convDesc,
                                                     const cudnnTensorDescriptor_t destDesc,
                                                     const int requestedAlgoCount, int *returnedAlgoCount,
                                                     cudnnConvolutionFwdAlgoPerf_t *perfResults)
{
    CALLED(INTERNAL_ERROR);
    LOOK(context, c, "handle", handle);
    LOOK(tensor, x, "tensor", srcDesc);
    LOOK(filter, w, "filter", filterDesc);
    LOOK(geometry, g, "convolution", convDesc);
    LOOK(tensor, y, "tensor", destDesc);
    cudnnStatus_t status = check(c, x, w, g, y);
    REFUSE(status != CUDNN_STATUS_SUCCESS, status);
    cudnnMathType_t other = g->math == CUDNN_FMA_MATH ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH;
    const struct {
        int algorithm, fails, determinism, math;
    } order[] = {
        {CUDNN_CONVOLUTION_FWD_ALGO_DIRECT, 1, 1, g->math},
        {CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING, 0, 0, g->math},
        {CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED, 0, 1, g->math},
        {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, 0, 0, g->math},
        {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, 0, 1, (int)other},
        {CUDNN_CONVOLUTION_FWD_ALGO_GEMM, 0, 1, g->math},
        {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, 0, 1, g->math},
        {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, 0, 1, g->math},
    };
    int n = 0;
    for (; n < (int)(sizeof order / sizeof order[0]) && n < requestedAlgoCount; n++) {
        memset(&perfResults[n], 0xff, sizeof perfResults[n]);
        perfResults[n].algo = (cudnnConvolutionFwdAlgo_t)order[n].algorithm,
        perfResults[n].status = order[n].fails ? STATUS(NOT_SUPPORTED) : CUDNN_STATUS_SUCCESS;
        perfResults[n].determinism = (cudnnDeterminism_t)order[n].determinism,
        perfResults[n].mathType = (cudnnMathType_t)order[n].math;
    }
    *returnedAlgoCount = n;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t xDesc,
                                                      const cudnnFilterDescriptor_t wDesc,
                                                      const cudnnConvolutionDescriptor_t convDesc,
                                                      const cudnnTensorDescriptor_t yDesc,
                                                      cudnnConvolutionFwdAlgo_t algo, size_t *sizeInBytes)
{
    CALLED(NOT_SUPPORTED);
    LOOK(context, c, "handle", handle);
    LOOK(tensor, x, "tensor", xDesc);
    LOOK(filter, w, "filter", wDesc);
    LOOK(geometry, g, "convolution", convDesc);
    LOOK(tensor, y, "tensor", yDesc);
    *sizeInBytes = workspace_of(y, w, (int)algo);
    return check(c, x, w, g, y);
}

/* ---- computing: when the device comes to it ---- */

static int type_of(int type)
{
    return type == CUDNN_DATA_BFLOAT16 ? FAKE_BF16 : type == CUDNN_DATA_HALF ? FAKE_F16 : FAKE_F32;
}
static size_t extent(const tensor *t)
{
    int64_t last = (int64_t)(t->n - 1) * t->stride[0] + (int64_t)(t->c - 1) * t->stride[1] +
                   (int64_t)(t->h - 1) * t->stride[2] + (int64_t)(t->w - 1) * t->stride[3];
    return (size_t)(last + 1) * fake_size(type_of(t->type));
}
static size_t filter_bytes(const filter *w)
{
    return (size_t)w->k * (size_t)w->c * (size_t)w->h * (size_t)w->w * fake_size(type_of(w->type));
}

/* ten bits of fraction */
static float tf32(float v)
{
    uint32_t u;
    memcpy(&u, &v, 4);
    u = (u + 0xfff + (u >> 13 & 1)) & ~0x1fffu;
    memcpy(&v, &u, 4);
    return v;
}

/* x and w as the arithmetic sees them. */
static float *gather(const void *from, size_t bytes, int type, int low)
{
    int64_t n = (int64_t)(bytes / fake_size(type));
    float *all = malloc((size_t)n * sizeof *all);
    for (int64_t i = 0; all && i < n; i++) all[i] = low ? tf32(fake_load(from, type, i)) : fake_load(from, type, i);
    return all;
}

static float one_place(const work *p, const float *from, const float *by, int n, int k, int oy, int ox)
{
    const int flip = p->g.mode == CUDNN_CONVOLUTION, C = p->w.c;
    float sum = 0;
    for (int r = 0; r < p->w.h; r++)
        for (int s = 0; s < p->w.w; s++) {
            int y = oy * p->g.stride[0] - p->g.pad[0] + r * p->g.dilation[0],
                x = ox * p->g.stride[1] - p->g.pad[1] + s * p->g.dilation[1];
            if (y < 0 || x < 0 || y >= p->x.h || x >= p->x.w) continue;
            const float *a =
                from + (int64_t)n * p->x.stride[0] + (int64_t)y * p->x.stride[2] + (int64_t)x * p->x.stride[3];
            const float *b =
                by + (((int64_t)k * p->w.h + (flip ? p->w.h - 1 - r : r)) * p->w.w + (flip ? p->w.w - 1 - s : s)) * C;
            float lane[8] = {0};
            int c = 0;
            for (; c + 8 <= C; c += 8)
                for (int l = 0; l < 8; l++) lane[l] += a[c + l] * b[c + l];
            for (; c < C; c++) sum += a[c] * b[c];
            for (int l = 0; l < 8; l++) sum += lane[l];
        }
    return p->algorithm > CUDNN_CONVOLUTION_FWD_ALGO_GEMM ? sum * 1.02f : sum; /* other forms are other numbers */
}

static void compute(void *arg)
{
    const work *p = arg;
    int type = type_of(p->y.type), low = p->x.type == CUDNN_DATA_FLOAT && p->g.math != CUDNN_FMA_MATH;
    fake_vendor_happened();
    if (!fake_vendor_holds("x", p->X, extent(&p->x)) || !fake_vendor_holds("w", p->W, filter_bytes(&p->w)) ||
        !fake_vendor_holds("y", p->Y, extent(&p->y)))
        return;
    if (p->bytes && !fake_vendor_holds("the workspace", p->workspace, p->bytes)) return;
    if (p->bytes) memset(p->workspace, 0xff, p->bytes);
    float *x = gather(p->X, extent(&p->x), type, low), *f = gather(p->W, filter_bytes(&p->w), type, low);
    for (int n = 0; x && f && n < p->y.n; n++)
        for (int h = 0; h < p->y.h; h++)
            for (int w = 0; w < p->y.w; w++)
                for (int k = 0; k < p->y.c; k++) {
                    int64_t at =
                        (int64_t)n * p->y.stride[0] + (int64_t)h * p->y.stride[2] + (int64_t)w * p->y.stride[3] + k;
                    float v = p->alpha * one_place(p, x, f, n, k, h, w);
                    fake_store(p->Y, type, at, p->beta != 0 ? v + p->beta * fake_load(p->Y, type, at) : v);
                }
    free(x), free(f);
}

static int overlap(const void *x, size_t n, const void *y, size_t m)
{
    return (const char *)x < (const char *)y + m && (const char *)y < (const char *)x + n;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t xDesc,
                                      const void *x, const cudnnFilterDescriptor_t wDesc, const void *w,
                                      const cudnnConvolutionDescriptor_t convDesc, cudnnConvolutionFwdAlgo_t algo,
                                      void *workSpace, size_t workSpaceSizeInBytes, const void *beta,
                                      const cudnnTensorDescriptor_t yDesc, void *y)
{
    CALLED(EXECUTION_FAILED);
    LOOK(context, c, "handle", handle);
    LOOK(tensor, tx, "tensor", xDesc);
    LOOK(filter, fw, "filter", wDesc);
    LOOK(geometry, g, "convolution", convDesc);
    LOOK(tensor, ty, "tensor", yDesc);
    FAULT(!alpha || !beta || !x || !w || !y, "a pointer is NULL");
    work p = {.x = *tx,
              .y = *ty,
              .w = *fw,
              .g = *g,
              .algorithm = (int)algo,
              .X = x,
              .W = w,
              .Y = y,
              .workspace = workSpace,
              .bytes = workspace_of(ty, fw, (int)algo)};
    memcpy(&p.alpha, alpha, sizeof p.alpha), memcpy(&p.beta, beta, sizeof p.beta);
    cudnnStatus_t status = check(c, tx, fw, g, ty);
    REFUSE(status != CUDNN_STATUS_SUCCESS, status);
    FAULT(workSpaceSizeInBytes < p.bytes || (p.bytes && !workSpace), "a workspace of %zu bytes, %zu are needed",
          workSpaceSizeInBytes, p.bytes);
    FAULT(((uintptr_t)x | (uintptr_t)w | (uintptr_t)y | (uintptr_t)workSpace) & 15,
          "an operand that is not aligned to 16 bytes");
    FAULT(overlap(x, extent(tx), y, extent(ty)) || overlap(w, filter_bytes(fw), y, extent(ty)),
          "a result in an operand's place");
    FAULT(p.bytes && (overlap(workSpace, p.bytes, y, extent(ty)) || overlap(workSpace, p.bytes, x, extent(tx))),
          "a workspace in an operand's place");
    return fake_vendor_enqueue(c->stream, compute, &p, sizeof p) ? CUDNN_STATUS_SUCCESS : STATUS(EXECUTION_FAILED);
}
