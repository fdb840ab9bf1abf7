/* cublaslt.c - see cublaslt.h.
 *
 * The library thinks in columns: our row-major out[M,N] = a[M,K] w[N,K]^T is its out^T[N,M] = (w^T)^T a^T, so w is its
 * first operand, transposed, and a its second. Sums are f32, also where K is cut: schemes that keep parts in the
 * result's type are excluded, and tf32 is never asked for. The algorithm is the library's first choice for the shape,
 * asked once when the op is prepared, so that every run takes the same one. By the manual ("Results Reproducibility")
 * its bits depend on the version, the chip's generation and its number of SMs.
 */
#include "backend/cuda/cublaslt.h"

#include "base/log.h"
#include "base/memory_alloc.h"

#include <cublasLt.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACE = 32 << 20, ALIGNED = 16, OLDEST = 120000 };

#define FUNCTIONS(X)                                                                                                   \
    X(cublasLtGetVersion)                                                                                              \
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

static int look_up(void *library)
{
#define X(name)                                                                                                        \
    {                                                                                                                  \
        void *f = dlsym(library, #name);                                                                               \
        memcpy(&lt.name, &f, sizeof f);                                                                                \
        if (!f) return 0;                                                                                              \
    }
    FUNCTIONS(X)
#undef X
    return 1;
}

kiln_status cublaslt_open(size_t *version, error *e)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"};
    const char *named = getenv("KILN_CUBLASLT");
    void *library = named ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : NULL;
    *version = 0;
    if (named && !library) return error_set(e, KILN_ERR_UNSUPPORTED, "KILN_CUBLASLT: %s", dlerror());
    for (size_t i = 0; !library && i < sizeof names / sizeof names[0]; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library) return log_info("cuBLASLt is not installed: kiln's own GEMM kernels are used"), KILN_OK;
    const char *why = !look_up(library)                                        ? "lacks a function"
                      : lt.cublasLtGetVersion() < OLDEST                       ? "is older than 12.0"
                      : lt.cublasLtCreate(&lt.handle) != CUBLAS_STATUS_SUCCESS ? "does not start"
                                                                               : NULL;
    if (!why) return *version = lt.cublasLtGetVersion(), KILN_OK;
    lt.handle = NULL;
    dlclose(library);
    if (named) return error_set(e, KILN_ERR_UNSUPPORTED, "KILN_CUBLASLT: %s, as cuBLASLt, %s", named, why);
    log_warn("cuBLASLt is there but %s: kiln's own GEMM kernels are used", why);
    return KILN_OK;
}

struct cublaslt_gemm {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t w, a, c, out;
    cublasLtMatmulAlgo_t algorithm;
    size_t workspace;
    float beta;
};

void cublaslt_free(cublaslt_gemm *m)
{
    if (!m) return;
    if (m->desc) lt.cublasLtMatmulDescDestroy(m->desc);
    cublasLtMatrixLayout_t all[] = {m->w, m->a, m->c, m->out};
    for (size_t i = 0; i < 4; i++)
        if (all[i]) lt.cublasLtMatrixLayoutDestroy(all[i]);
    mem_free(m);
}

#define LT(call) ((call) == CUBLAS_STATUS_SUCCESS)

/* Our order is activation, then residual; the library's the other way round. */
static int takes(const cu_gemm *p)
{
    int act = p->finish.act;
    if (p->out_type == CU_F16_SATURATED) return 0; /* its own store does not */
    if (p->finish.geglu || p->picture || p->M < 1 || p->N < 1 || p->K < 1) return 0;
    if (act != CU_ACT_NONE && act != CU_ACT_GELU_TANH && act != CU_ACT_RELU) return 0;
    if (act != CU_ACT_NONE && p->finish.residual_ld) return 0;
    size_t size = p->type == CU_F32 ? 4 : 2, out = p->out_type == CU_F32 ? 4 : 2;
    if (p->finish.residual_ld &&
        (p->finish.residual_type != p->out_type || (size_t)p->finish.residual_ld * out % ALIGNED))
        return 0;
    return (size_t)p->a_ld * size % ALIGNED == 0 && (size_t)p->out_ld * out % ALIGNED == 0;
}

static cublasLtEpilogue_t epilogue_of(const cu_gemm *p, int bias)
{
    if (p->finish.act == CU_ACT_RELU) return bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    if (p->finish.act == CU_ACT_GELU_TANH) return bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

static cudaDataType_t type_of(int type)
{
    return type == CU_BF16 ? CUDA_R_16BF : type == CU_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static int describe(cublaslt_gemm *m, const cu_gemm *p, int bias)
{
    cublasOperation_t transposed = CUBLAS_OP_T;
    cublasLtEpilogue_t epilogue = epilogue_of(p, bias);
    cudaDataType_t bias_type = type_of(p->out_type);
    uint64_t M = (uint64_t)p->M, N = (uint64_t)p->N, K = (uint64_t)p->K;
    const void *as_aligned =
        (const void *)(uintptr_t)ALIGNED; /* while an algorithm is chosen only the pointer's alignment counts */
    int64_t c_ld = p->finish.residual_ld ? p->finish.residual_ld : p->out_ld;
    return LT(lt.cublasLtMatmulDescCreate(&m->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F)) &&
           LT(lt.cublasLtMatmulDescSetAttribute(m->desc, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                                sizeof transposed)) &&
           LT(lt.cublasLtMatmulDescSetAttribute(m->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue)) &&
           (!bias || LT(lt.cublasLtMatmulDescSetAttribute(m->desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type,
                                                          sizeof bias_type))) &&
           (!bias || LT(lt.cublasLtMatmulDescSetAttribute(m->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &as_aligned,
                                                          sizeof as_aligned))) &&
           LT(lt.cublasLtMatrixLayoutCreate(&m->w, type_of(p->type), K, N, p->k_packed)) &&
           LT(lt.cublasLtMatrixLayoutCreate(&m->a, type_of(p->type), K, M, p->a_ld)) &&
           LT(lt.cublasLtMatrixLayoutCreate(&m->c, type_of(p->out_type), N, M, c_ld)) &&
           LT(lt.cublasLtMatrixLayoutCreate(&m->out, type_of(p->out_type), N, M, p->out_ld));
}

static int choose(cublaslt_gemm *m)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found;
    uint64_t most = WORKSPACE;
    uint32_t aligned = ALIGNED, scheme = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    int n = 0, ok = LT(lt.cublasLtMatmulPreferenceCreate(&preference)) &&
                    LT(lt.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                               &most, sizeof most)) &&
                    LT(lt.cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                               &scheme, sizeof scheme));
    static const cublasLtMatmulPreferenceAttributes_t each[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    for (size_t i = 0; ok && i < 4; i++)
        ok = LT(lt.cublasLtMatmulPreferenceSetAttribute(preference, each[i], &aligned, sizeof aligned));
    ok = ok &&
         LT(lt.cublasLtMatmulAlgoGetHeuristic(lt.handle, m->desc, m->w, m->a, m->c, m->out, preference, 1, &found,
                                              &n)) &&
         n == 1 && LT(found.state);
    if (preference) lt.cublasLtMatmulPreferenceDestroy(preference);
    if (!ok) return 0;
    m->algorithm = found.algo;
    m->workspace = found.workspaceSize;
    return 1;
}

cublaslt_gemm *cublaslt_make(const cu_gemm *p, int bias, size_t *workspace)
{
    if (!lt.handle || !takes(p)) return NULL;
    cublaslt_gemm *m = mem_calloc(1, sizeof *m);
    if (m && describe(m, p, bias) && choose(m)) {
        m->beta = p->finish.residual_ld ? 1 : 0;
        *workspace = m->workspace;
        return m;
    }
    cublaslt_free(m);
    return NULL;
}

/* The descriptor's pointer to the bias is set for each run: weights move. A program's runs come one after the other,
 * and the call takes what it needs of descriptors, alpha and beta before it returns, so that captured runs keep theirs.
 * C and D in one place must be one layout, says the manual. */
kiln_status cublaslt_run(const cublaslt_gemm *m, const cu_gemm *p, const void *bias, void *workspace,
                         cudaStream_t stream, error *e)
{
    const float one = 1;
    const void *c = m->beta != 0 ? p->finish.residual : p->out;
    if (bias && !LT(lt.cublasLtMatmulDescSetAttribute(m->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias)))
        return error_set(e, KILN_ERR_IO, "cuBLASLt refuses the bias");
    cublasStatus_t status =
        lt.cublasLtMatmul(lt.handle, m->desc, &one, p->w, m->w, p->a, m->a, &m->beta, c, c == p->out ? m->out : m->c,
                          p->out, m->out, &m->algorithm, m->workspace ? workspace : NULL, m->workspace, stream);
    return status == CUBLAS_STATUS_SUCCESS ? KILN_OK : error_set(e, KILN_ERR_IO, "cuBLASLt: status %d", (int)status);
}
