/* fake_cublaslt.c - a library that stands in for cuBLASLt (KILN_CUBLASLT names it), so that
 * engine/backend/cuda/cublaslt.c runs as it is.
 *
 * D = epilogue(alpha op(A) op(B) + beta C + bias) over column-major matrices with leading dimensions, the activation
 * last (cuBLAS Library, cublasLtMatmul, and the comments of cublasLt.h). Where the manual leaves a choice it takes the
 * one that hurts a careless caller most: algorithms want as much alignment as the preference allows, cut K wherever a
 * scheme is allowed, in the result's type if they may, and use every byte of the workspace that they ask for.
 * Deliberately left out: batches, other orders of memory, integers, f8, complex numbers, auxiliary outputs.
 */
#include "fake_vendor.h"

#pragma GCC visibility push(default)
#include <cublasLt.h>
#pragma GCC visibility pop

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char fake_vendor_name[];
const char fake_vendor_name[] = "cuBLASLt's stand-in";

typedef struct {
    int device;
} context;
typedef struct {
    int64_t type, rows, cols, ld;
} layout;
typedef struct {
    int64_t compute, scale;
    int32_t transa, transb, bias_type;
    uint32_t epilogue;
    const void *bias;
} operation;
typedef struct {
    uint64_t workspace;
    uint32_t schemes, alignment[4];
} preference;
/* What an algorithm's opaque words hold. */
typedef struct {
    uint64_t problem, workspace;
    uint32_t scheme, splits, alignment[4], bias_alignment;
} algorithm;
_Static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm fits");

/* One product, all that it needs: descriptors may change or go before it happens. */
typedef struct {
    operation op;
    layout a, b, c, d;
    algorithm how;
    int type, out_type;
    float alpha, beta;
    const void *A, *B, *C;
    void *D, *workspace;
} product;

size_t cublasLtGetVersion(void) { return 130100; }

#define CALLED(failure)                                                                                                \
    do {                                                                                                               \
        if (fake_vendor_called()) return failure;                                                                      \
    } while (0)
#define LOOK(type, name, kind, thing)                                                                                  \
    type *name = fake_vendor_look(kind, thing);                                                                        \
    if (!name) return CUBLAS_STATUS_INVALID_VALUE
#define REFUSE(cond, status)                                                                                           \
    do {                                                                                                               \
        if (cond) return status;                                                                                       \
    } while (0)
/* As REFUSE, for what no caller should try. */
#define FAULT(cond, ...)                                                                                               \
    do {                                                                                                               \
        if (cond) return fake_vendor_fault(__VA_ARGS__), CUBLAS_STATUS_INVALID_VALUE;                                  \
    } while (0)

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    CALLED(CUBLAS_STATUS_NOT_INITIALIZED);
    if (!fake_host.enqueue) return fake_vendor_fault("nobody connected it to a device"), CUBLAS_STATUS_NOT_INITIALIZED;
    context *c = fake_vendor_make("handle", sizeof *c);
    REFUSE(!c, CUBLAS_STATUS_ALLOC_FAILED);
    c->device = fake_host.device();
    *out = (cublasLtHandle_t)(void *)c;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- descriptors ---- */

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute, cudaDataType_t scale)
{
    CALLED(CUBLAS_STATUS_ALLOC_FAILED);
    operation *o = fake_vendor_make("operation", sizeof(cublasLtMatmulDescOpaque_t));
    REFUSE(!o, CUBLAS_STATUS_ALLOC_FAILED);
    *o = (operation){.compute = compute,
                     .scale = scale,
                     .transa = CUBLAS_OP_N,
                     .transb = CUBLAS_OP_N,
                     .bias_type = -1,
                     .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    *out = (cublasLtMatmulDesc_t)(void *)o;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    return fake_vendor_destroy("operation", desc) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

static cublasStatus_t set(void *to, size_t size, const void *buf, size_t bytes)
{
    if (!buf || size != bytes)
        return fake_vendor_fault("an attribute of %zu bytes is set by %zu", size, bytes), CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, buf, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attr,
                                              const void *buf, size_t bytes)
{
    CALLED(CUBLAS_STATUS_INVALID_VALUE);
    LOOK(operation, o, "operation", desc);
    switch (attr) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(&o->transa, sizeof o->transa, buf, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(&o->transb, sizeof o->transb, buf, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(&o->epilogue, sizeof o->epilogue, buf, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(&o->bias, sizeof o->bias, buf, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return set(&o->bias_type, sizeof o->bias_type, buf, bytes);
    }
    return fake_vendor_fault("an operation has no attribute %d here", (int)attr), CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows, uint64_t cols,
                                          int64_t ld)
{
    CALLED(CUBLAS_STATUS_ALLOC_FAILED);
    layout *l = fake_vendor_make("layout", sizeof(cublasLtMatrixLayoutOpaque_t));
    REFUSE(!l, CUBLAS_STATUS_ALLOC_FAILED);
    *l = (layout){.type = type, .rows = (int64_t)rows, .cols = (int64_t)cols, .ld = ld};
    *out = (cublasLtMatrixLayout_t)(void *)l;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    return fake_vendor_destroy("layout", l) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    CALLED(CUBLAS_STATUS_ALLOC_FAILED);
    preference *p = fake_vendor_make("preference", sizeof(cublasLtMatmulPreferenceOpaque_t));
    REFUSE(!p, CUBLAS_STATUS_ALLOC_FAILED);
    *p = (preference){.schemes = CUBLASLT_REDUCTION_SCHEME_MASK, .alignment = {256, 256, 256, 256}};
    *out = (cublasLtMatmulPreference_t)(void *)p;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    return fake_vendor_destroy("preference", p) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t attr, const void *buf,
                                                    size_t bytes)
{
    CALLED(CUBLAS_STATUS_INVALID_VALUE);
    LOOK(preference, p, "preference", pref);
    switch (attr) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return set(&p->workspace, sizeof p->workspace, buf, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return set(&p->schemes, sizeof p->schemes, buf, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return set(&p->alignment[attr - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], sizeof p->alignment[0], buf,
                   bytes);
    }
    return fake_vendor_fault("a preference has no attribute %d here", (int)attr), CUBLAS_STATUS_INVALID_VALUE;
}

/* ---- what is done, and what is refused ---- */

static int type_of(int64_t type) { return type == CUDA_R_16BF ? FAKE_BF16 : type == CUDA_R_16F ? FAKE_F16 : FAKE_F32; }
static int has_bias(const operation *o) { return (o->epilogue & CUBLASLT_EPILOGUE_BIAS) != 0; }

/* cuBLAS Library, cublasLtMatmul: the tables of types and of epilogues. */
static cublasStatus_t check(const operation *o, const layout *a, const layout *b, const layout *c, const layout *d)
{
    const layout *all[] = {a, b, c, d};
    for (int i = 0; i < 4; i++)
        REFUSE(all[i]->rows < 1 || all[i]->cols < 1 || all[i]->ld < all[i]->rows, CUBLAS_STATUS_INVALID_VALUE);
    int64_t m = o->transa == CUBLAS_OP_N ? a->rows : a->cols, k = o->transa == CUBLAS_OP_N ? a->cols : a->rows;
    int64_t n = o->transb == CUBLAS_OP_N ? b->cols : b->rows, k_too = o->transb == CUBLAS_OP_N ? b->rows : b->cols;
    FAULT(k != k_too || m != d->rows || n != d->cols || c->rows != d->rows || c->cols != d->cols,
          "matrices that do not fit: %lldx%lld by %lldx%lld into %lldx%lld", (long long)m, (long long)k,
          (long long)k_too, (long long)n, (long long)d->rows, (long long)d->cols);
    REFUSE(o->compute != CUBLAS_COMPUTE_32F || o->scale != CUDA_R_32F || a->type != b->type || c->type != d->type,
           CUBLAS_STATUS_NOT_SUPPORTED);
    REFUSE(a->type != CUDA_R_32F && a->type != CUDA_R_16BF && a->type != CUDA_R_16F, CUBLAS_STATUS_NOT_SUPPORTED);
    REFUSE(d->type != a->type && d->type != CUDA_R_32F, CUBLAS_STATUS_NOT_SUPPORTED);
    uint32_t plain = o->epilogue & ~(uint32_t)CUBLASLT_EPILOGUE_BIAS;
    REFUSE(o->epilogue != CUBLASLT_EPILOGUE_DEFAULT && plain != 0 && plain != CUBLASLT_EPILOGUE_RELU &&
               plain != CUBLASLT_EPILOGUE_GELU,
           CUBLAS_STATUS_NOT_SUPPORTED);
    REFUSE(has_bias(o) && o->bias_type != -1 && o->bias_type != d->type, CUBLAS_STATUS_NOT_SUPPORTED);
    return CUBLAS_STATUS_SUCCESS;
}

static uint64_t mix(uint64_t h, int64_t v) { return (h ^ (uint64_t)v) * 0x100000001b3u; }
/* All but pointers. */
static uint64_t problem_of(const operation *o, const layout *a, const layout *b, const layout *c, const layout *d)
{
    const layout *all[] = {a, b, c, d};
    uint64_t h =
        mix(mix(mix(mix(0xcbf29ce484222325u, o->transa), o->transb), o->epilogue), has_bias(o) ? o->bias_type : 0);
    for (int i = 0; i < 4; i++) h = mix(mix(mix(mix(h, all[i]->type), all[i]->rows), all[i]->cols), all[i]->ld);
    return h;
}

static cublasStatus_t here(cublasLtHandle_t handle)
{
    LOOK(context, c, "handle", handle);
    FAULT(c->device != fake_host.device(), "a handle of device %d while device %d is the current one", c->device,
          fake_host.device());
    return CUBLAS_STATUS_SUCCESS;
}

/* K in as many parts as the workspace holds, four at most, where there is enough of it. */
static void cut(algorithm *g, const preference *p, int64_t m, int64_t n, int64_t k, int out_type)
{
    static const uint32_t worst_first[] = {CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE,
                                           CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE};
    g->splits = 1;
    for (size_t i = 0; i < 2 && g->splits == 1; i++) {
        size_t each =
            (size_t)(m * n) * (worst_first[i] == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE ? fake_size(out_type) : 4);
        uint64_t most = p->workspace / each;
        if (!(p->schemes & worst_first[i]) || k < 64 || most < 2) continue;
        g->scheme = worst_first[i], g->splits = most < 4 ? (uint32_t)most : 4;
        g->workspace = g->splits * each;
    }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t Adesc, cublasLtMatrixLayout_t Bdesc,
                                              cublasLtMatrixLayout_t Cdesc, cublasLtMatrixLayout_t Ddesc,
                                              cublasLtMatmulPreference_t pref, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int *found)
{
    CALLED(CUBLAS_STATUS_NOT_SUPPORTED);
    LOOK(operation, o, "operation", desc);
    LOOK(layout, a, "layout", Adesc);
    LOOK(layout, b, "layout", Bdesc);
    LOOK(layout, c, "layout", Cdesc);
    LOOK(layout, d, "layout", Ddesc);
    LOOK(preference, p, "preference", pref);
    REFUSE(here(handle) != CUBLAS_STATUS_SUCCESS || requested < 1, CUBLAS_STATUS_INVALID_VALUE);
    *found = 0;
    cublasStatus_t status = check(o, a, b, c, d);
    REFUSE(status != CUBLAS_STATUS_SUCCESS, status);
    uintptr_t bias = (uintptr_t)o->bias; /* what it is aligned to decides what may be assumed of the real one */
    algorithm g = {.problem = problem_of(o, a, b, c, d),
                   .bias_alignment = bias ? (uint32_t)(bias & (0 - bias) & 511) : 256};
    if (bias && !g.bias_alignment) g.bias_alignment = 256;
    memcpy(g.alignment, p->alignment, sizeof g.alignment);
    cut(&g, p, d->rows, d->cols, o->transa == CUBLAS_OP_N ? a->cols : a->rows, type_of(d->type));
    memset(results, 0xff, (size_t)requested * sizeof *results);
    memcpy(&results[0].algo, &g, sizeof g);
    results[0].workspaceSize = g.workspace;
    results[0].state = CUBLAS_STATUS_SUCCESS;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- computing: when the device comes to it ---- */

/* op(X) as f32, `outer` vectors along K, each dense. */
static float *gather(const void *X, const layout *x, int type, int along_rows, int64_t outer, int64_t k)
{
    float *all = malloc((size_t)(outer * k) * sizeof *all);
    for (int64_t i = 0; all && i < outer; i++)
        for (int64_t j = 0; j < k; j++) all[i * k + j] = fake_load(X, type, along_rows ? j + i * x->ld : i + j * x->ld);
    return all;
}

static float dot(const float *x, const float *y, int64_t n)
{
    float lane[16] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int l = 0; l < 16; l++) lane[l] += x[i + l] * y[i + l];
    for (; i < n; i++) sum += x[i] * y[i];
    for (int l = 0; l < 16; l++) sum += lane[l];
    return sum;
}

static float finish(const product *p, float v, int64_t row, int64_t column)
{
    v *= p->alpha;
    if (p->beta != 0) v += p->beta * fake_load(p->C, p->out_type, row + column * p->c.ld);
    if (has_bias(&p->op)) v += fake_load(p->op.bias, p->out_type, row);
    uint32_t act = p->op.epilogue & ~(uint32_t)CUBLASLT_EPILOGUE_BIAS;
    if (act == CUBLASLT_EPILOGUE_RELU) return v > 0 || isnan(v) ? v : 0;
    /* the tanh form: Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016 */
    if (act == CUBLASLT_EPILOGUE_GELU) return 0.5f * v * (1 + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));
    return v;
}

static size_t extent(const layout *l, int type) { return (size_t)((l->cols - 1) * l->ld + l->rows) * fake_size(type); }

static int operands_live(const product *p)
{
    int ok = fake_vendor_holds("A", p->A, extent(&p->a, p->type)) &
             fake_vendor_holds("B", p->B, extent(&p->b, p->type)) &
             fake_vendor_holds("D", p->D, extent(&p->d, p->out_type));
    if (p->beta != 0) ok &= fake_vendor_holds("C", p->C, extent(&p->c, p->out_type));
    if (has_bias(&p->op)) ok &= fake_vendor_holds("the bias", p->op.bias, (size_t)p->d.rows * fake_size(p->out_type));
    if (p->how.workspace) ok &= fake_vendor_holds("the workspace", p->workspace, p->how.workspace);
    return ok;
}

static void compute(void *arg)
{
    const product *p = arg;
    int64_t m = p->d.rows, n = p->d.cols, k = p->op.transa == CUBLAS_OP_N ? p->a.cols : p->a.rows,
            splits = p->how.splits;
    fake_vendor_happened();
    if (!operands_live(p)) return;
    float *a = gather(p->A, &p->a, p->type, p->op.transa != CUBLAS_OP_N, m, k),
          *b = gather(p->B, &p->b, p->type, p->op.transb == CUBLAS_OP_N, n, k);
    int part_type = p->how.scheme == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE ? p->out_type : FAKE_F32;
    for (int64_t s = 0; a && b && s < splits && splits > 1; s++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < m; i++)
                fake_store(
                    p->workspace, part_type, (s * n + j) * m + i,
                    dot(a + i * k + k * s / splits, b + j * k + k * s / splits, k * (s + 1) / splits - k * s / splits));
    for (int64_t j = 0; a && b && j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            float sum = splits == 1 ? dot(a + i * k, b + j * k, k) : 0;
            for (int64_t s = 0; s < splits && splits > 1; s++)
                sum += fake_load(p->workspace, part_type, (s * n + j) * m + i);
            fake_store(p->D, p->out_type, i + j * p->d.ld, finish(p, sum, i, j));
        }
    free(a), free(b);
}

static int misaligned(const void *p, uint32_t alignment) { return ((uintptr_t)p & (alignment - 1)) != 0; }

static int overlap(const void *x, size_t n, const void *y, size_t m)
{
    return (const char *)x < (const char *)y + m && (const char *)y < (const char *)x + n;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha, const void *A,
                              cublasLtMatrixLayout_t Adesc, const void *B, cublasLtMatrixLayout_t Bdesc,
                              const void *beta, const void *C, cublasLtMatrixLayout_t Cdesc, void *D,
                              cublasLtMatrixLayout_t Ddesc, const cublasLtMatmulAlgo_t *algo, void *workspace,
                              size_t workspaceSizeInBytes, cudaStream_t stream)
{
    CALLED(CUBLAS_STATUS_EXECUTION_FAILED);
    LOOK(operation, o, "operation", desc);
    LOOK(layout, a, "layout", Adesc);
    LOOK(layout, b, "layout", Bdesc);
    LOOK(layout, c, "layout", Cdesc);
    LOOK(layout, d, "layout", Ddesc);
    REFUSE(here(handle) != CUBLAS_STATUS_SUCCESS, CUBLAS_STATUS_INVALID_VALUE);
    FAULT(!alpha || !beta || !A || !B || !D || !algo, "a pointer is NULL");
    product p = {.op = *o,
                 .a = *a,
                 .b = *b,
                 .c = *c,
                 .d = *d,
                 .type = type_of(a->type),
                 .out_type = type_of(d->type),
                 .A = A,
                 .B = B,
                 .C = C,
                 .D = D,
                 .workspace = workspace};
    memcpy(&p.how, algo, sizeof p.how), memcpy(&p.alpha, alpha, sizeof p.alpha), memcpy(&p.beta, beta, sizeof p.beta);
    cublasStatus_t status = check(o, a, b, c, d);
    REFUSE(status != CUBLAS_STATUS_SUCCESS, status);
    FAULT(p.how.problem != problem_of(o, a, b, c, d), "an algorithm that was chosen for another product");
    FAULT(workspaceSizeInBytes < p.how.workspace || (p.how.workspace && !workspace),
          "a workspace of %zu bytes, %zu are needed", workspaceSizeInBytes, (size_t)p.how.workspace);
    FAULT(p.how.workspace && misaligned(workspace, 256), "a workspace that is not aligned to 256 bytes");
    FAULT(misaligned(A, p.how.alignment[0]) || misaligned(B, p.how.alignment[1]) || misaligned(D, p.how.alignment[3]),
          "an operand that is not aligned as was promised");
    FAULT(p.beta != 0 && (!C || misaligned(C, p.how.alignment[2])),
          "a C that is not there, or not aligned as was promised");
    FAULT(has_bias(o) && (!o->bias || misaligned(o->bias, p.how.bias_alignment)),
          "a bias that is not there, or not aligned as was promised");
    FAULT(C == D && Cdesc != Ddesc, "C and D in one place by two descriptors");
    FAULT(p.beta != 0 && C != D && overlap(C, extent(c, p.out_type), D, extent(d, p.out_type)), "C and D overlap");
    return fake_vendor_enqueue(stream, compute, &p, sizeof p) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
