/* test_cuda_cudnn.c - the stand-in of cuDNN itself (fake_cudnn.c): its convolutions are right for every geometry, type
 * and stride, what the library refuses is refused, and mistakes planted in a caller are found. Numbers are small
 * integers, so that f32 is exact.
 */
#include "../memory/fake_device.h"
#include "fake_cuda.h"
#include "harness.h"
#include "tensor/dtype.h"

#include "backend/cuda/cudnn_api.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS(X)                                                                                                   \
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
} dnn;
static const fake_vendor *library;
static cudaStream_t stream;

enum { ROOM = 1 << 16 };
typedef struct {
    int n, c, k, h, w, kh, kw, pad, stride, dilation, gap; /* gap: elements between places, beyond the channels */
    cudnnDataType_t type;
    cudnnConvolutionMode_t mode;
    cudnnMathType_t math;
    float alpha, beta;
} problem;
typedef struct {
    problem p;
    int oh, ow;
    cudnnTensorDescriptor_t x, y;
    cudnnFilterDescriptor_t w;
    cudnnConvolutionDescriptor_t conv;
    cudnnConvolutionFwdAlgo_t algorithm;
    size_t workspace;
    char *X, *W, *Y, *capacity, *locked, *block[4];
} setting;
static const problem usual = {.n = 2,
                              .c = 8,
                              .k = 5,
                              .h = 7,
                              .w = 6,
                              .kh = 3,
                              .kw = 2,
                              .pad = 1,
                              .stride = 1,
                              .dilation = 1,
                              .type = CUDNN_DATA_FLOAT,
                              .mode = CUDNN_CROSS_CORRELATION,
                              .math = CUDNN_FMA_MATH,
                              .alpha = 1};

static uint32_t kind(const problem *p)
{
    return p->type == CUDNN_DATA_FLOAT ? KILN_F32 : p->type == CUDNN_DATA_HALF ? KILN_F16 : KILN_BF16;
}
static int number(int64_t i, int salt) { return (int)((i * 37 + salt * 11) % 7) - 3; }

static char *place(setting *s, int salt)
{
    void *p = NULL;
    CHECK_EQ(cudaMalloc(&p, ROOM), cudaSuccess);
    for (int i = 0; i < ROOM / 4; i++) {
        float v = (float)number(i, salt);
        dtype_convert(s->locked + (size_t)i * dtype_size(kind(&s->p)), kind(&s->p), &v, KILN_F32, 1);
    }
    cudaMemcpyAsync(p, s->locked, ROOM, cudaMemcpyHostToDevice, stream);
    cudaStreamSynchronize(stream);
    return p;
}

static int reach(const problem *p, int size, int window)
{
    return (size + 2 * p->pad - (window - 1) * p->dilation - 1) / p->stride + 1;
}

static void describe(const setting *s, cudnnTensorDescriptor_t t, int c, int h, int w)
{
    int ld = c + s->p.gap;
    dnn.cudnnSetTensor4dDescriptorEx(t, s->p.type, s->p.n, c, h, w, h * w * ld, 1, w * ld, ld);
}

static void open_setting(setting *s, problem p)
{
    *s = (setting){.p = p,
                   .algorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                   .oh = reach(&p, p.h, p.kh),
                   .ow = reach(&p, p.w, p.kw)};
    CHECK_EQ(cudaHostAlloc((void **)&s->locked, ROOM, 0), cudaSuccess);
    s->X = place(s, 1), s->W = place(s, 2), s->Y = place(s, 3), s->capacity = place(s, 4);
    memcpy(s->block, (char *[]){s->X, s->W, s->Y, s->capacity}, sizeof s->block);
    dnn.cudnnCreateTensorDescriptor(&s->x), dnn.cudnnCreateTensorDescriptor(&s->y),
        dnn.cudnnCreateFilterDescriptor(&s->w), dnn.cudnnCreateConvolutionDescriptor(&s->conv);
    describe(s, s->x, p.c, p.h, p.w), describe(s, s->y, p.k, s->oh, s->ow);
    dnn.cudnnSetFilter4dDescriptor(s->w, p.type, CUDNN_TENSOR_NHWC, p.k, p.c, p.kh, p.kw);
    dnn.cudnnSetConvolution2dDescriptor(s->conv, p.pad, p.pad, p.stride, p.stride, p.dilation, p.dilation, p.mode,
                                        CUDNN_DATA_FLOAT);
    dnn.cudnnSetConvolutionMathType(s->conv, p.math);
    dnn.cudnnGetConvolutionForwardWorkspaceSize(dnn.handle, s->x, s->w, s->conv, s->y, s->algorithm, &s->workspace);
}

static cudnnStatus_t convolve(const setting *s)
{
    dnn.cudnnSetStream(dnn.handle, stream);
    return dnn.cudnnConvolutionForward(dnn.handle, &s->p.alpha, s->x, s->X, s->w, s->W, s->conv, s->algorithm,
                                       s->capacity, s->workspace, &s->p.beta, s->y, s->Y);
}

static void close_setting(setting *s)
{
    cudaStreamSynchronize(stream);
    for (int i = 0; i < 4; i++) cudaFree(s->block[i]);
    cudaFreeHost(s->locked);
    if (s->x) dnn.cudnnDestroyTensorDescriptor(s->x);
    dnn.cudnnDestroyTensorDescriptor(s->y), dnn.cudnnDestroyFilterDescriptor(s->w),
        dnn.cudnnDestroyConvolutionDescriptor(s->conv);
}

static float wanted(const setting *s, int n, int y, int x, int k)
{
    const problem *p = &s->p;
    int64_t at = ((n * s->oh + y) * s->ow + x) * (p->k + p->gap) + k;
    float sum = 0;
    for (int r = 0; r < p->kh; r++)
        for (int q = 0; q < p->kw; q++) {
            int iy = y * p->stride - p->pad + r * p->dilation, ix = x * p->stride - p->pad + q * p->dilation;
            int wr = p->mode == CUDNN_CONVOLUTION ? p->kh - 1 - r : r,
                wq = p->mode == CUDNN_CONVOLUTION ? p->kw - 1 - q : q;
            for (int c = 0; c < p->c && iy >= 0 && ix >= 0 && iy < p->h && ix < p->w; c++)
                sum += (float)(number(((n * p->h + iy) * p->w + ix) * (p->c + p->gap) + c, 1) *
                               number(((k * p->kh + wr) * p->kw + wq) * p->c + c, 2));
        }
    return p->alpha * sum + p->beta * (float)number(at, 3);
}

/* Gaps between places count too: they keep what was there. */
static int wrong_elements(const setting *s)
{
    const problem *p = &s->p;
    int wrong = 0, ld = p->k + p->gap;
    cudaMemcpyAsync(s->locked, s->Y, ROOM, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    for (int i = 0; i < p->n * s->oh * s->ow * ld; i++) {
        int at = i / ld, k = i % ld;
        float got,
            want = k < p->k ? wanted(s, at / (s->oh * s->ow), at / s->ow % s->oh, at % s->ow, k) : (float)number(i, 3);
        dtype_convert(&got, KILN_F32, s->locked + (size_t)i * dtype_size(kind(p)), kind(p), 1);
        wrong += !(fabsf(got - want) <= fabsf(want) * (p->type == CUDNN_DATA_FLOAT  ? 0
                                                       : p->type == CUDNN_DATA_HALF ? 0x1p-11f
                                                                                    : 0x1p-9f));
    }
    return wrong;
}

static void test_convolutions_by_their_definition(void)
{
    static const cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16};
    for (int i = 0; i < 3 * 3 * 2 * 2 * 2 * 3; i++) {
        problem p = usual;
        setting s;
        p.type = types[i % 3], p.pad = i / 3 % 3, p.stride = 1 + i / 9 % 2, p.dilation = 1 + i / 18 % 2,
        p.mode = (cudnnConvolutionMode_t)(i / 36 % 2), p.gap = 3 * (i / 72);
        p.beta = i % 2 ? 2.0f : 0.0f, p.alpha = i % 2 ? 1 : 0.5f;
        open_setting(&s, p);
        if (CHECK_EQ(convolve(&s), CUDNN_STATUS_SUCCESS))
            CHECK_MSG(!wrong_elements(&s), "case %d: %d wrong", i, wrong_elements(&s));
        close_setting(&s);
    }
    CHECK_EQ(library->report().live, 0);
    CHECK_EQ(library->report().faults, 0);
}

/* What kiln may not take: without FMA f32 is tf32, and Winograd's form is other numbers. Numbers with more than ten
 * bits of fraction show it. */
static void test_other_arithmetic_is_other_numbers(void)
{
    setting s;
    problem p = usual;
    float odd = 1.00048828125f; /* 1 + 2^-11 */
    for (int i = 0; i < 3; i++) {
        p.math = i == 1 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
        open_setting(&s, p);
        for (int j = 0; j < ROOM / 4; j++) ((float *)(void *)s.locked)[j] = odd * (float)number(j, 1);
        cudaMemcpyAsync(s.X, s.locked, ROOM, cudaMemcpyHostToDevice, stream);
        s.algorithm = i == 2 ? CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD : CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
        s.p.alpha = 1 / odd; /* of what the definition is asked for; exact up to f32's rounding */
        convolve(&s);
        cudaMemcpyAsync(s.locked, s.Y, ROOM, cudaMemcpyDeviceToHost, stream);
        cudaStreamSynchronize(stream);
        float got = *(float *)(void *)s.locked;
        s.p.alpha = 1;
        float far = fabsf(got / wanted(&s, 0, 0, 0, 0) - 1);
        CHECK_MSG(i == 0 ? far < 1e-6f : far > 1e-4f, "way %d: %g away", i, (double)far);
        close_setting(&s);
    }
}

static void test_what_the_library_refuses(void)
{
    setting s;
    cudnnConvolutionFwdAlgoPerf_t found[16];
    int n = 0;
    open_setting(&s, usual); /* types that differ */
    dnn.cudnnSetFilter4dDescriptor(s.w, CUDNN_DATA_HALF, CUDNN_TENSOR_NHWC, usual.k, usual.c, usual.kh, usual.kw);
    CHECK(dnn.cudnnGetConvolutionForwardAlgorithm_v7(dnn.handle, s.x, s.w, s.conv, s.y, 16, &n, found) !=
              CUDNN_STATUS_SUCCESS &&
          convolve(&s) != CUDNN_STATUS_SUCCESS);
    CHECK(dnn.cudnnSetFilter4dDescriptor(s.w, usual.type, CUDNN_TENSOR_NCHW, usual.k, usual.c, usual.kh, usual.kw) !=
          CUDNN_STATUS_SUCCESS);
    close_setting(&s);
    open_setting(&s, usual); /* channels apart */
    dnn.cudnnSetTensor4dDescriptorEx(s.x, usual.type, usual.n, usual.c, usual.h, usual.w, usual.c * usual.h * usual.w,
                                     usual.h * usual.w, usual.w, 1);
    CHECK(convolve(&s) != CUDNN_STATUS_SUCCESS);
    close_setting(&s);
    open_setting(&s, usual); /* what is recommended first is what a careful caller leaves */
    CHECK_EQ(dnn.cudnnGetConvolutionForwardAlgorithm_v7(dnn.handle, s.x, s.w, s.conv, s.y, 16, &n, found),
             CUDNN_STATUS_SUCCESS);
    CHECK(n > 4 && found[0].status != CUDNN_STATUS_SUCCESS && found[1].determinism == CUDNN_NON_DETERMINISTIC &&
          found[2].algo == CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED);
    close_setting(&s);
    CHECK_EQ(library->report().faults, 0);
}

#define MISTAKE(change)                                                                                                \
    do {                                                                                                               \
        setting s;                                                                                                     \
        unsigned before = library->report().faults;                                                                    \
        open_setting(&s, usual), (void)(change), convolve(&s), cudaStreamSynchronize(stream);                          \
        CHECK_MSG(library->report().faults > before, "%s: no fault", #change);                                         \
        close_setting(&s);                                                                                             \
    } while (0)

static void test_mistakes_of_a_caller_are_found(void)
{
    printf("# the faults that follow are planted\n");
    MISTAKE(s.X += 4);
    MISTAKE(s.X = NULL);
    MISTAKE(s.Y = s.X);
    MISTAKE(s.Y = s.W + 64);
    MISTAKE(s.Y += ROOM - 64);
    MISTAKE(s.capacity = s.Y);
    MISTAKE(s.capacity = NULL);
    MISTAKE(s.workspace -= 1);
    MISTAKE(s.capacity += ROOM - 64);
    MISTAKE((cudaFree(s.W), s.block[1] = NULL));
    MISTAKE(describe(&s, s.y, usual.k, s.oh + 1, s.ow));
    MISTAKE(describe(&s, s.y, usual.k + 1, s.oh, s.ow));
    MISTAKE(dnn.cudnnSetConvolution2dDescriptor(s.conv, 0, 0, 0, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    MISTAKE((dnn.cudnnDestroyTensorDescriptor(s.x), convolve(&s), s.x = NULL));
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        CASE(test_convolutions_by_their_definition),
        CASE(test_other_arithmetic_is_other_numbers),
        CASE(test_what_the_library_refuses),
        CASE(test_mistakes_of_a_caller_are_found),
    };
    library = fake_cuda_vendor("KILN_CUDNN");
    void *opened = library ? dlopen(getenv("KILN_CUDNN"), RTLD_NOW) : NULL;
    if (!opened) return printf("# KILN_CUDNN names another library than the stand-in\n"), 2;
#define X(name)                                                                                                        \
    {                                                                                                                  \
        void *f = dlsym(opened, #name);                                                                                \
        memcpy(&dnn.name, &f, sizeof f);                                                                               \
        if (!f) return 2;                                                                                              \
    }
    FUNCTIONS(X)
#undef X
    fake_device_open(&(fake_setting){.bytes = 1 << 20, .seed = 9, .fail_at = -1});
    if (cudaStreamCreateWithFlags(&stream, 0) != cudaSuccess || dnn.cudnnCreate(&dnn.handle) != CUDNN_STATUS_SUCCESS)
        return 2;
    int status = test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
    cudaStreamDestroy(stream);
    fake_report r = fake_device_close();
    fake_cuda_forget();
    return status ? status : (int)r.faults;
}
