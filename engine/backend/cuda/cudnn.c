/* cudnn.c - see cudnn.h.
 *
 * Pictures are NHWC by strides, filters KRSC, which is how weights are packed where K needs no padding. The library
 * computes the convolution alone; bias, activation and residual are a kernel of ours after it, in place, or from
 * scratch where there is a residual (which may be in the result's memory). So in bf16 the convolution is rounded once
 * more than by our own kernels.
 *
 * Only direct and deterministic algorithms: Winograd's and Fourier's give other bits. f32 is restricted to FMA (the
 * default allows tf32), bf16 to tensor cores. The algorithm is the library's first choice that fits, asked for once
 * when the op is prepared.
 */
#include "backend/cuda/cudnn.h"

#include "backend/cuda/cudnn_api.h"
#include "base/log.h"
#include "base/memory_alloc.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACE = 64 << 20, ALIGNED = 16, SCRATCH_ALIGNED = 256, OLDEST = 8100, CHOICES = 16 };

#define FUNCTIONS(X)                                                                                                   \
    X(cudnnGetVersion)                                                                                                 \
    X(cudnnGetErrorString)                                                                                             \
    X(cudnnCreate)                                                                                                     \
    X(cudnnSetStream)                                                                                                  \
    X(cudnnCreateTensorDescriptor)                                                                                     \
    X(cudnnSetTensor4dDescriptorEx)                                                                                    \
    X(cudnnDestroyTensorDescriptor)                                                                                    \
    X(cudnnCreateFilterDescriptor)                                                                                     \
    X(cudnnSetFilter4dDescriptor)                                                                                      \
    X(cudnnDestroyFilterDescriptor)                                                                                    \
    X(cudnnCreateConvolutionDescriptor)                                                                                \
    X(cudnnSetConvolution2dDescriptor)                                                                                 \
    X(cudnnSetConvolutionMathType)                                                                                     \
    X(cudnnDestroyConvolutionDescriptor)                                                                               \
    X(cudnnGetConvolutionForwardAlgorithm_v7) X(cudnnGetConvolutionForwardWorkspaceSize) X(cudnnConvolutionForward)

static struct {
#define X(name) __typeof__(&name) name;
    FUNCTIONS(X)
#undef X
    cudnnHandle_t handle;
    pthread_mutex_t one; /* the stream belongs to the handle */
} dnn = {.one = PTHREAD_MUTEX_INITIALIZER};

static int look_up(void *library)
{
#define X(name)                                                                                                        \
    {                                                                                                                  \
        void *f = dlsym(library, #name);                                                                               \
        memcpy(&dnn.name, &f, sizeof f);                                                                               \
        if (!f) return 0;                                                                                              \
    }
    FUNCTIONS(X)
#undef X
    return 1;
}

#define DNN(call) ((call) == CUDNN_STATUS_SUCCESS)

kiln_status cudnn_open(size_t *version, error *e)
{
    const char *names[] = {getenv("KILN_CUDNN"), "libcudnn.so.9", "libcudnn.so.8"};
    size_t i = names[0] ? 0 : 1;
    void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library && i) library = dlopen(names[++i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return error_set(e, KILN_ERR_UNSUPPORTED, "cuDNN is not installed (KILN_CUDNN=FILE names its file): %s",
                         dlerror());
    const char *why = !look_up(library)                ? "lacks a function"
                      : dnn.cudnnGetVersion() < OLDEST ? "is older than 8.1"
                                                       : NULL;
    cudnnStatus_t status = why ? CUDNN_STATUS_SUCCESS : dnn.cudnnCreate(&dnn.handle);
    if (!DNN(status)) why = dnn.cudnnGetErrorString(status);
    if (!why) return *version = dnn.cudnnGetVersion(), KILN_OK;
    error_set(e, KILN_ERR_UNSUPPORTED, "%s, as cuDNN, cannot be used: %s", names[i], why);
    dlclose(library);
    return KILN_ERR_UNSUPPORTED;
}

/* ---- preparing ---- */

struct cudnn_conv {
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    cudnnConvolutionFwdAlgo_t algorithm;
    size_t workspace, result_at; /* in scratch */
    int direct;                  /* the convolution is written to the result's memory */
};

void cudnn_free(cudnn_conv *c)
{
    if (!c) return;
    if (c->x) dnn.cudnnDestroyTensorDescriptor(c->x);
    if (c->y) dnn.cudnnDestroyTensorDescriptor(c->y);
    if (c->w) dnn.cudnnDestroyFilterDescriptor(c->w);
    if (c->conv) dnn.cudnnDestroyConvolutionDescriptor(c->conv);
    mem_free(c);
}

static size_t size_of(const cu_gemm *p) { return p->type == CU_BF16 ? 2 : 4; }
static int64_t places(int64_t size, int pad, int window, int dilation, int stride)
{
    return (size + 2 * pad - ((int64_t)(window - 1) * dilation + 1)) / stride + 1;
}

/* Padding at the right and the bottom is the library's own, as much as at the left and the top: what differs shows in
 * the result's size. */
static int takes(const cu_gemm *p)
{
    if (!p->picture || p->finish.geglu || p->k_packed != p->K || p->M < 1 || p->N < 1 || p->K < 1 ||
        (p->type != CU_F32 && p->type != CU_BF16))
        return 0;
    if (p->out_h != places(p->H, p->top, p->kh, p->dilation_h, p->stride_h) ||
        p->out_w != places(p->W, p->left, p->kw, p->dilation_w, p->stride_w))
        return 0;
    if (p->M / (p->out_h * p->out_w) * p->H * p->W > INT_MAX / p->a_ld ||
        p->M > INT_MAX / (p->out_ld > p->N ? p->out_ld : p->N) || p->N > INT_MAX / p->K)
        return 0;
    return (size_t)p->a_ld * size_of(p) % ALIGNED == 0;
}

static int describe_picture(cudnnTensorDescriptor_t *out, cudnnDataType_t type, int64_t images, int64_t channels,
                            int64_t h, int64_t w, int64_t ld)
{
    return DNN(dnn.cudnnCreateTensorDescriptor(out)) &&
           DNN(dnn.cudnnSetTensor4dDescriptorEx(*out, type, (int)images, (int)channels, (int)h, (int)w,
                                                (int)(h * w * ld), 1, (int)(w * ld), (int)ld));
}

static int describe(cudnn_conv *c, const cu_gemm *p)
{
    cudnnDataType_t type = p->type == CU_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT;
    int64_t images = p->M / (p->out_h * p->out_w);
    return describe_picture(&c->x, type, images, p->channels, p->H, p->W, p->a_ld) &&
           describe_picture(&c->y, type, images, p->N, p->out_h, p->out_w, c->direct ? p->out_ld : p->N) &&
           DNN(dnn.cudnnCreateFilterDescriptor(&c->w)) &&
           DNN(dnn.cudnnSetFilter4dDescriptor(c->w, type, CUDNN_TENSOR_NHWC, (int)p->N, (int)p->channels, p->kh,
                                              p->kw)) &&
           DNN(dnn.cudnnCreateConvolutionDescriptor(&c->conv)) &&
           DNN(dnn.cudnnSetConvolution2dDescriptor(c->conv, p->top, p->left, p->stride_h, p->stride_w, p->dilation_h,
                                                   p->dilation_w, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT)) &&
           DNN(dnn.cudnnSetConvolutionMathType(c->conv, p->type == CU_BF16 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH));
}

/* In f32 the descriptor restricts the library's default to FMA. */
static int fits(const cudnnConvolutionFwdAlgoPerf_t *r, int bf16)
{
    if (!DNN(r->status) || r->determinism != CUDNN_DETERMINISTIC || r->algo > CUDNN_CONVOLUTION_FWD_ALGO_GEMM) return 0;
    return bf16 ? r->mathType == CUDNN_TENSOR_OP_MATH
                : r->mathType == CUDNN_FMA_MATH || r->mathType == CUDNN_DEFAULT_MATH;
}

static int choose(cudnn_conv *c, int bf16)
{
    cudnnConvolutionFwdAlgoPerf_t found[CHOICES];
    int n = 0;
    if (!DNN(dnn.cudnnGetConvolutionForwardAlgorithm_v7(dnn.handle, c->x, c->w, c->conv, c->y, CHOICES, &n, found)))
        return 0;
    for (int i = 0; i < n; i++) {
        c->algorithm = found[i].algo;
        if (!fits(&found[i], bf16)) continue;
        if (DNN(dnn.cudnnGetConvolutionForwardWorkspaceSize(dnn.handle, c->x, c->w, c->conv, c->y, c->algorithm,
                                                            &c->workspace)) &&
            c->workspace <= WORKSPACE)
            return 1;
    }
    return 0;
}

cudnn_conv *cudnn_make(const cu_gemm *p, size_t *scratch)
{
    if (!dnn.handle || !takes(p)) return NULL;
    cudnn_conv *c = mem_calloc(1, sizeof *c);
    if (!c) return NULL;
    c->direct = !p->finish.residual_ld && p->out_type == p->type && (size_t)p->out_ld * size_of(p) % ALIGNED == 0;
    if (!describe(c, p) || !choose(c, p->type == CU_BF16)) {
        cudnn_free(c);
        return NULL;
    }
    c->result_at = (c->workspace + SCRATCH_ALIGNED - 1) / SCRATCH_ALIGNED * SCRATCH_ALIGNED;
    *scratch = c->direct ? c->workspace : c->result_at + (size_t)(p->M * p->N) * size_of(p);
    return c;
}

/* ---- running ---- */

/* Bias, activation, residual: from where the convolution is to where the result belongs. */
static kiln_status finish(const cudnn_conv *c, const cu_gemm *p, const void *gemm, cudaStream_t stream, error *e)
{
    if (c->direct && !p->finish.bias && p->finish.act == CU_ACT_NONE) return KILN_OK;
    cu_map m = {.kind = p->finish.bias ? CU_MAP_ADD : CU_MAP_COPY,
                .x_type = p->type,
                .b_type = CU_F32,
                .out_type = p->out_type,
                .rows = p->M,
                .columns = p->N,
                .x_ld = c->direct ? p->out_ld : p->N,
                .b_ld = p->N,
                .out_ld = p->out_ld,
                .x = gemm,
                .b = p->finish.bias,
                .out = p->out,
                .b_rows = CU_ROWS_ONE,
                .b_column = 1,
                .finish = {.act = p->finish.act,
                           .residual = p->finish.residual,
                           .residual_type = p->finish.residual_type,
                           .residual_ld = p->finish.residual_ld}};
    CUDA_TRY(cu_map_run(&m, stream), "launch");
    return KILN_OK;
}

kiln_status cudnn_run(const cudnn_conv *c, const cu_gemm *p, void *scratch, cudaStream_t stream, error *e)
{
    const float one = 1, none = 0;
    void *gemm = c->direct ? p->out : (char *)scratch + c->result_at;
    pthread_mutex_lock(&dnn.one);
    cudnnStatus_t status = dnn.cudnnSetStream(dnn.handle, stream);
    if (DNN(status))
        status = dnn.cudnnConvolutionForward(dnn.handle, &one, c->x, p->a, c->w, p->w, c->conv, c->algorithm,
                                             c->workspace ? scratch : NULL, c->workspace, &none, c->y, gemm);
    pthread_mutex_unlock(&dnn.one);
    if (!DNN(status)) return error_set(e, KILN_ERR_IO, "cuDNN: %s", dnn.cudnnGetErrorString(status));
    return finish(c, p, gemm, stream, e);
}
