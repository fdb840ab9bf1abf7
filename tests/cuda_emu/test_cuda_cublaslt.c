/* test_cuda_cublaslt.c - the stand-in of cuBLASLt itself (fake_cublaslt.c): its products are right in every layout,
 * type and epilogue, what the library refuses is refused, and mistakes planted in a caller are found. Numbers are small
 * integers where equality is asked for.
 */
#include "../memory/fake_device.h"
#include "fake_cuda.h"
#include "harness.h"
#include "tensor/dtype.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS(X)                                                                                                   \
    X(cublasLtCreate)                                                                                                  \
    X(cublasLtMatmul)                                                                                                  \
    X(cublasLtMatmulDescCreate)                                                                                        \
    X(cublasLtMatmulDescDestroy)                                                                                       \
    X(cublasLtMatmulDescSetAttribute)                                                                                  \
    X(cublasLtMatrixLayoutCreate)                                                                                      \
    X(cublasLtMatrixLayoutDestroy)                                                                                     \
    X(cublasLtMatmulPreferenceCreate)                                                                                  \
    X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute) X(cublasLtMatmulAlgoGetHeuristic)
static struct {
#define X(name) __typeof__(&name) name;
    FUNCTIONS(X)
#undef X
    cublasLtHandle_t handle;
} lt;
static const fake_vendor *library;
static cudaStream_t stream;

enum { ROOM = 1 << 16 };
typedef struct {
    int m, n, k, transa, transb, pad; /* rows beyond what a column holds */
    cudaDataType type, out;
    uint32_t epilogue;
    float alpha, beta;
    int in_place;
    uint32_t schemes;
    uint64_t workspace;
} problem;
/* Descriptors and places of a problem; all of ROOM bytes on the device. */
typedef struct {
    problem p;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, c, d;
    cublasLtMatmulHeuristicResult_t found;
    int n_found;
    char *A, *B, *C, *D, *bias, *workspace, *locked;
    char *block[6]; /* those, as they were given */
} setting;

static int kind(cudaDataType t) { return t == CUDA_R_32F ? KILN_F32 : t == CUDA_R_16BF ? KILN_BF16 : KILN_F16; }
static int number(int i, int salt) { return (i * 37 + salt * 11) % 7 - 3; }
static float act(uint32_t epilogue, float v)
{
    if (epilogue & CUBLASLT_EPILOGUE_RELU) return v > 0 ? v : 0;
    return epilogue & CUBLASLT_EPILOGUE_GELU
               ? 0.5f * v * (1 + tanhf(sqrtf(2 / 3.14159265f) * (v + 0.044715f * v * v * v)))
               : v;
}
static int a_ld(const problem *p) { return (p->transa ? p->k : p->m) + p->pad; }
static int b_ld(const problem *p) { return (p->transb ? p->n : p->k) + p->pad; }

static char *place(void)
{
    void *p = NULL;
    return CHECK_EQ(cudaMalloc(&p, ROOM), cudaSuccess) ? p : NULL;
}

static void put(setting *s, char *to, cudaDataType type, int salt)
{
    for (int i = 0; i < ROOM / 4; i++) {
        float v = (float)number(i, salt);
        dtype_convert(s->locked + (size_t)i * dtype_size((uint32_t)kind(type)), (uint32_t)kind(type), &v, KILN_F32, 1);
    }
    CHECK_EQ(cudaMemcpyAsync(to, s->locked, ROOM, cudaMemcpyHostToDevice, stream), cudaSuccess);
    CHECK_EQ(cudaStreamSynchronize(stream), cudaSuccess);
}

static cublasStatus_t choose(setting *s)
{
    cublasLtMatmulPreference_t pref;
    uint32_t aligned = 16;
    lt.cublasLtMatmulPreferenceCreate(&pref);
    lt.cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &s->p.workspace, 8);
    lt.cublasLtMatmulPreferenceSetAttribute(pref, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &s->p.schemes, 4);
    for (int i = 0; i < 4; i++)
        lt.cublasLtMatmulPreferenceSetAttribute(
            pref, (cublasLtMatmulPreferenceAttributes_t)(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i), &aligned, 4);
    cublasStatus_t status =
        lt.cublasLtMatmulAlgoGetHeuristic(lt.handle, s->desc, s->a, s->b, s->c, s->d, pref, 1, &s->found, &s->n_found);
    lt.cublasLtMatmulPreferenceDestroy(pref);
    return status;
}

static cublasStatus_t open_setting(setting *s, problem p)
{
    int32_t ta = p.transa ? CUBLAS_OP_T : CUBLAS_OP_N, tb = p.transb ? CUBLAS_OP_T : CUBLAS_OP_N;
    *s = (setting){
        .p = p, .A = place(), .B = place(), .C = place(), .D = place(), .bias = place(), .workspace = place()};
    memcpy(s->block, (char *[]){s->A, s->B, s->C, s->D, s->bias, s->workspace}, sizeof s->block);
    CHECK_EQ(cudaHostAlloc((void **)&s->locked, ROOM, 0), cudaSuccess);
    put(s, s->A, p.type, 1), put(s, s->B, p.type, 2), put(s, s->C, p.out, 3), put(s, s->D, p.out, 3),
        put(s, s->bias, p.out, 4);
    lt.cublasLtMatmulDescCreate(&s->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    lt.cublasLtMatmulDescSetAttribute(s->desc, CUBLASLT_MATMUL_DESC_TRANSA, &ta, 4),
        lt.cublasLtMatmulDescSetAttribute(s->desc, CUBLASLT_MATMUL_DESC_TRANSB, &tb, 4);
    lt.cublasLtMatmulDescSetAttribute(s->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &p.epilogue, 4);
    lt.cublasLtMatmulDescSetAttribute(s->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &s->bias, sizeof s->bias);
    lt.cublasLtMatrixLayoutCreate(&s->a, p.type, (uint64_t)(p.transa ? p.k : p.m), (uint64_t)(p.transa ? p.m : p.k),
                                  a_ld(&p));
    lt.cublasLtMatrixLayoutCreate(&s->b, p.type, (uint64_t)(p.transb ? p.n : p.k), (uint64_t)(p.transb ? p.k : p.n),
                                  b_ld(&p));
    lt.cublasLtMatrixLayoutCreate(&s->c, p.out, (uint64_t)p.m, (uint64_t)p.n, p.m + p.pad),
        lt.cublasLtMatrixLayoutCreate(&s->d, p.out, (uint64_t)p.m, (uint64_t)p.n, p.m + p.pad);
    return choose(s);
}

static void close_setting(setting *s)
{
    cudaStreamSynchronize(stream);
    for (int i = 0; i < 6; i++) cudaFree(s->block[i]);
    cudaFreeHost(s->locked);
    if (s->desc) lt.cublasLtMatmulDescDestroy(s->desc);
    lt.cublasLtMatrixLayoutDestroy(s->a), lt.cublasLtMatrixLayoutDestroy(s->b), lt.cublasLtMatrixLayoutDestroy(s->c),
        lt.cublasLtMatrixLayoutDestroy(s->d);
}

static cublasStatus_t multiply(const setting *s)
{
    return lt.cublasLtMatmul(lt.handle, s->desc, &s->p.alpha, s->A, s->a, s->B, s->b, &s->p.beta,
                             s->p.in_place ? s->D : s->C, s->p.in_place ? s->d : s->c, s->D, s->d, &s->found.algo,
                             s->workspace, s->found.workspaceSize, stream);
}

/* How many elements of D are other than the definition says; untouched ones between columns count too. */
static int wrong_elements(setting *s)
{
    const problem *p = &s->p;
    int wrong = 0, ld = p->m + p->pad;
    cudaMemcpyAsync(s->locked, s->D, ROOM, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    for (int j = 0; j < p->n; j++)
        for (int i = 0; i < ld; i++) {
            float sum = 0, got;
            for (int k = 0; k < p->k; k++)
                sum += (float)(number(p->transa ? k + i * a_ld(p) : i + k * a_ld(p), 1) *
                               number(p->transb ? j + k * b_ld(p) : k + j * b_ld(p), 2));
            sum = sum * p->alpha + p->beta * (float)number(i + j * ld, 3);
            if (p->epilogue & CUBLASLT_EPILOGUE_BIAS) sum += (float)number(i, 4);
            sum = i < p->m ? act(p->epilogue, sum) : (float)number(i + j * ld, 3);
            dtype_convert(&got, KILN_F32, s->locked + (size_t)(i + j * ld) * dtype_size((uint32_t)kind(p->out)),
                          (uint32_t)kind(p->out), 1);
            wrong += !(fabsf(got - sum) <= fabsf(sum) * (p->out == CUDA_R_32F   ? 1e-6f
                                                         : p->out == CUDA_R_16F ? 0x1p-10f
                                                                                : 0x1p-8f));
        }
    return wrong;
}

static const problem usual = {.m = 13,
                              .n = 7,
                              .k = 70,
                              .type = CUDA_R_16BF,
                              .out = CUDA_R_16BF,
                              .epilogue = CUBLASLT_EPILOGUE_DEFAULT,
                              .alpha = 1,
                              .schemes = 2,
                              .workspace = ROOM};

static void test_products_by_their_definition(void)
{
    static const struct {
        cudaDataType in, out;
    } types[] = {{CUDA_R_32F, CUDA_R_32F},
                 {CUDA_R_16BF, CUDA_R_16BF},
                 {CUDA_R_16BF, CUDA_R_32F},
                 {CUDA_R_16F, CUDA_R_16F},
                 {CUDA_R_16F, CUDA_R_32F}};
    static const uint32_t epilogues[] = {1, 2, 4, 6, 32, 36};
    for (unsigned i = 0; i < 5 * 6 * 4 * 3; i++) {
        problem p = usual;
        setting s;
        p.type = types[i % 5].in, p.out = types[i % 5].out, p.epilogue = epilogues[i / 5 % 6], p.transa = i / 30 % 2,
        p.transb = i / 60 % 2;
        p.beta = i / 120 % 3 ? -2 : 0, p.in_place = i / 120 % 3 == 2, p.alpha = i % 2 ? 1 : 0.5f, p.pad = (int)i % 4,
        p.workspace = i % 3 ? ROOM : 0;
        if (CHECK_EQ(open_setting(&s, p), CUBLAS_STATUS_SUCCESS) && CHECK_EQ(multiply(&s), CUBLAS_STATUS_SUCCESS))
            CHECK_MSG(!wrong_elements(&s), "case %u: %d wrong", i, wrong_elements(&s));
        close_setting(&s);
    }
    CHECK_EQ(library->report().live, 0);
    CHECK_EQ(library->report().faults, 0);
}

static void test_it_happens_late(void)
{
    setting s;
    int late = 0;
    for (int i = 0; i < 20; i++) {
        uint64_t before = library->report().happened;
        open_setting(&s, usual), multiply(&s);
        late += library->report().happened == before;
        close_setting(&s);
    }
    CHECK_MSG(late > 10, "%d of 20 had not happened yet", late);
}

static void test_what_the_library_refuses(void)
{
    static const struct {
        problem p;
        cublasStatus_t status;
    } rows[] = {
        {{.m = 8, .n = 8, .k = 8, .type = CUDA_R_32F, .out = CUDA_R_16BF, .epilogue = 1, .alpha = 1},
         CUBLAS_STATUS_NOT_SUPPORTED},
        {{.m = 8, .n = 8, .k = 8, .type = CUDA_R_16F, .out = CUDA_R_16BF, .epilogue = 1, .alpha = 1},
         CUBLAS_STATUS_NOT_SUPPORTED},
        {{.m = 8, .n = 8, .k = 8, .type = CUDA_R_16BF, .out = CUDA_R_16BF, .epilogue = 8, .alpha = 1},
         CUBLAS_STATUS_NOT_SUPPORTED},
        {{.m = 8, .n = 8, .k = 8, .type = CUDA_R_16BF, .out = CUDA_R_16BF, .epilogue = 1, .alpha = 1, .pad = -1},
         CUBLAS_STATUS_INVALID_VALUE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setting s;
        CHECK_EQ(open_setting(&s, rows[i].p), rows[i].status);
        CHECK_EQ(s.n_found, 0);
        close_setting(&s);
    }
    setting s; /* a bias that is not of the result's type */
    int32_t type = CUDA_R_32F;
    problem p = usual;
    p.epilogue = CUBLASLT_EPILOGUE_BIAS;
    open_setting(&s, p);
    lt.cublasLtMatmulDescSetAttribute(s.desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, 4);
    CHECK_EQ(choose(&s), CUBLAS_STATUS_NOT_SUPPORTED);
    close_setting(&s);
}

/* `change` is made between choosing and multiplying; the call is refused and counted, or what it does late is. */
#define MISTAKE(change)                                                                                                \
    do {                                                                                                               \
        setting s;                                                                                                     \
        unsigned before = library->report().faults;                                                                    \
        open_setting(&s, planted), (void)(change), multiply(&s), cudaStreamSynchronize(stream);                        \
        CHECK_MSG(library->report().faults > before, "%s: no fault", #change);                                         \
        close_setting(&s);                                                                                             \
    } while (0)

static void test_mistakes_of_a_caller_are_found(void)
{
    problem planted = usual;
    planted.epilogue = CUBLASLT_EPILOGUE_BIAS, planted.beta = 1;
    const void *none = NULL;
    printf("# the faults that follow are planted\n");
    MISTAKE(s.A += 2);
    MISTAKE(s.D += 8);
    MISTAKE(s.C = s.D);
    MISTAKE(s.C = s.D + 16);
    MISTAKE(s.workspace += 16);
    MISTAKE(s.found.workspaceSize -= 1);
    MISTAKE(s.B += ROOM - 16);
    MISTAKE((cudaFree(s.B), s.block[1] = NULL));
    MISTAKE(s.found.algo.data[0] ^= 1);
    MISTAKE(lt.cublasLtMatmulDescSetAttribute(s.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &none, sizeof none));
    MISTAKE(lt.cublasLtMatmulDescSetAttribute(s.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &none, 4));
    MISTAKE(lt.cublasLtMatmulDescSetAttribute(s.desc, (cublasLtMatmulDescAttributes_t)99, &none, 4));
    MISTAKE((lt.cublasLtMatmulDescDestroy(s.desc), multiply(&s), s.desc = NULL));
}

/* Everything that K's parts may be kept in is used, so a caller who allows the result's type gets its roundings. */
static void test_parts_in_the_results_type_are_rounded(void)
{
    setting s;
    problem p = usual;
    p.schemes = CUBLASLT_REDUCTION_SCHEME_MASK, p.k = 400, p.m = 8, p.n = 4, p.alpha = 0.03125f;
    p.out = CUDA_R_16BF;
    open_setting(&s, p);
    CHECK_EQ(s.found.workspaceSize, 4 * 8 * 4 * 2);
    multiply(&s);
    close_setting(&s);
    p.schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    open_setting(&s, p);
    CHECK_EQ(s.found.workspaceSize, 4 * 8 * 4 * 4);
    multiply(&s);
    CHECK_EQ(wrong_elements(&s), 0);
    close_setting(&s);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {
        CASE(test_products_by_their_definition),   CASE(test_it_happens_late),
        CASE(test_what_the_library_refuses),       CASE(test_parts_in_the_results_type_are_rounded),
        CASE(test_mistakes_of_a_caller_are_found),
    };
    library = fake_cuda_vendor("KILN_CUBLASLT");
    void *opened = library ? dlopen(getenv("KILN_CUBLASLT"), RTLD_NOW) : NULL;
    if (!opened) return printf("# KILN_CUBLASLT names another library than the stand-in\n"), 2;
#define X(name)                                                                                                        \
    {                                                                                                                  \
        void *f = dlsym(opened, #name);                                                                                \
        memcpy(&lt.name, &f, sizeof f);                                                                                \
        if (!f) return 2;                                                                                              \
    }
    FUNCTIONS(X)
#undef X
    fake_device_open(&(fake_setting){.bytes = 1 << 20, .seed = 9, .fail_at = -1});
    if (cudaStreamCreateWithFlags(&stream, 0) != cudaSuccess || lt.cublasLtCreate(&lt.handle) != CUBLAS_STATUS_SUCCESS)
        return 2;
    int status = test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
    cudaStreamDestroy(stream);
    fake_report r = fake_device_close();
    fake_cuda_forget();
    return status ? status : (int)r.faults;
}
