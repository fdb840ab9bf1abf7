/* cuda.c - the CUDA backend's table: which file prepares which op. See cuda.h. */
#include "backend/cuda/cuda.h"

#include "backend/cuda_load.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

kiln_status cuda_failed(cudaError_t status, const char *what, error *e)
{
    cudaGetLastError();
    if (status == cudaErrorMemoryAllocation)
        return error_set(e, KILN_ERR_NOMEM, "the device has no memory left (%s)", what);
    return error_set(e, KILN_ERR_IO, "%s: %s (%s)", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

void cuda_epilogue(const cuda_kernel *k, cu_epilogue *out)
{
    *out = (cu_epilogue){.act = (int)k->op.epilogue.act, .geglu = (int)k->op.epilogue.geglu};
    if (!k->op.epilogue.residual) return;
    uint32_t last = k->op.n_in - 1;
    out->residual_type = cuda_operand_type(k, last);
    out->residual_ld = cuda_ld(&k->op.in[last]);
}

void cuda_pack_as(cuda_kernel *k, uint32_t i, uint32_t type)
{
    k->pack_type[i] = k->base.pack_copies[i] = type;
    k->base.packed_bytes[i] = (size_t)shape_count(&k->op.in[i].shape) * dtype_size(type);
    snprintf(k->base.pack_form[i], sizeof k->base.pack_form[i], "%s", dtype_name(type));
}

int cuda_packed_fits(const void *packed, uint32_t type, uint32_t src_dtype, size_t n)
{
    return type != KILN_F16 || src_dtype == KILN_F16 || f16_all_finite(packed, n);
}

kiln_status cuda_too_large(const void *src, uint32_t src_dtype, size_t n, error *e)
{
    const float most = dtype_largest(src, src_dtype, n);
    if (fabsf(most) < 65520) return KILN_OK; /* what is infinite was so before */
    return error_set(e, KILN_ERR_INVALID,
                     "the number %g does not fit f16, which ends at 65504; say --precision f32 (or bf16)",
                     (double)most);
}

kiln_status cuda_pack_plain(const kernel *base, uint32_t operand, const void *src, uint32_t src_dtype, void *dst,
                            pool *p, error *e)
{
    const cuda_kernel *k = (const cuda_kernel *)base;
    size_t n = (size_t)shape_count(&k->op.in[operand].shape);
    (void)p;
    if (k->block[operand]) return cuda_pack_blocks(k, operand, src, src_dtype, dst, e);
    kiln_status status = dtype_convert(dst, k->pack_type[operand], src, src_dtype, n);
    if (status != KILN_OK) return error_set(e, status, "weights of type %s are not supported", dtype_name(src_dtype));
    return cuda_packed_fits(dst, k->pack_type[operand], src_dtype, n) ? KILN_OK : cuda_too_large(src, src_dtype, n, e);
}

static kiln_status cuda_run(const kernel *base, const kernel_args *a, error *e)
{
    const cuda_kernel *k = (const cuda_kernel *)base;
    TRY(cuda_here(e));
    return k->body(k, a, e);
}

static void cuda_free(kernel *base)
{
    cuda_kernel *k = (cuda_kernel *)base;
    if (!k) return;
    cuda_gemm_free(k);
    mem_free(k);
}

static cuda_prepare *const prepares[OP_KIND_COUNT] = {
    [OP_CONVERT] = cuda_prepare_map,
    [OP_CONV2D] = cuda_prepare_conv2d,
    [OP_LINEAR] = cuda_prepare_linear,
    [OP_ATTENTION] = cuda_prepare_attention,
    [OP_GROUP_NORM] = cuda_prepare_norm,
    [OP_GROUP_NORM_STATS] = cuda_prepare_norm,
    [OP_LAYER_NORM] = cuda_prepare_norm,
    [OP_ADD] = cuda_prepare_map,
    [OP_MUL] = cuda_prepare_map,
    [OP_AFFINE] = cuda_prepare_map,
    [OP_ACT] = cuda_prepare_map,
    [OP_GEGLU] = cuda_prepare_map,
    [OP_UPSAMPLE] = cuda_prepare_layout,
    [OP_CONCAT] = cuda_prepare_layout,
    [OP_SLICE] = cuda_prepare_layout,
    [OP_RESHAPE] = cuda_prepare_layout,
    [OP_PERMUTE] = cuda_prepare_layout,
    [OP_EMBEDDING] = cuda_prepare_embedding,
    [OP_GATHER] = cuda_prepare_embedding,
    [OP_TIMESTEP] = cuda_prepare_timestep,
    [OP_MAP] = cuda_prepare_expression,
    [OP_MATMUL] = cuda_prepare_matmul,
    [OP_LINEAR_T] = cuda_prepare_linear_transposed,
    [OP_GROUPED_LINEAR] = cuda_prepare_grouped_linear,
    [OP_STATE_WRITE] = cuda_prepare_state_write,
    [OP_CUSTOM] = cuda_prepare_custom,
    [OP_GRID_SAMPLE] = cuda_prepare_grid_sample,
    [OP_PAD] = cuda_prepare_pad,
    [OP_POOL] = cuda_prepare_pool,
    [OP_INTERPOLATE] = cuda_prepare_interpolate,
    [OP_CONV] = cuda_prepare_conv,
    [OP_RANDOM] = cuda_prepare_random,
    [OP_SCATTER] = cuda_prepare_places,
    [OP_TAKE_ALONG] = cuda_prepare_places,
    [OP_TAKE] = cuda_prepare_places,
    [OP_BINCOUNT] = cuda_prepare_places,
    [OP_SORT] = cuda_prepare_sort,
    [OP_CUMSUM] = cuda_prepare_cumsum,
    [OP_REDUCE] = cuda_prepare_reduce,
    [OP_SOFTMAX] = cuda_prepare_softmax,
    [OP_ROPE] = cuda_prepare_rope,
    [OP_NORM] = cuda_prepare_norm_rows,
};

static kiln_status check_types(const op_desc *op, error *e)
{
    for (uint32_t i = 0; i <= op->n_in; i++) {
        uint32_t t = i < op->n_in ? op->in[i].dtype : op->out.dtype;
        if (i < op->n_in && op->in[i].weight && dtype_is_block(t)) continue;
        if (t && t != KILN_F32 && t != KILN_BF16 && t != KILN_F16 && t != KILN_I32)
            return error_set(e, KILN_ERR_UNSUPPORTED, "%s: no kernel for operands of type %s", op_name(op->kind),
                             dtype_name(t));
    }
    return KILN_OK;
}

static kiln_status prepare(const op_desc *op, kernel **out, error *e)
{
    if (op->kind >= OP_KIND_COUNT || !prepares[op->kind])
        return error_set(e, KILN_ERR_UNSUPPORTED, "op '%s' does not run on a device", op_name(op->kind));
    TRY(check_types(op, e));
    TRY(cuda_here(e));
    cuda_kernel *k = mem_calloc(1, sizeof *k);
    if (!k) return error_set(e, KILN_ERR_NOMEM, "out of memory for a kernel");
    k->op = *op;
    for (uint32_t i = 0; i < op->n_in; i++) { /* what is stored by blocks stays so, or is packed from f32 */
        k->block[i] = cuda_block_of(op, i);
        if (op->in[i].weight && dtype_is_block(op->in[i].dtype) && !k->block[i]) k->op.in[i].dtype = KILN_F32;
    }
    k->base = (kernel){.name = op_name(op->kind), .pack = cuda_pack_plain, .run = cuda_run, .free = cuda_free};
    for (uint32_t i = 0; i < op->n_in; i++)
        if (k->block[i])
            cuda_keep_blocks(k, i);
        else if (op->in[i].dtype && op->in[i].weight)
            cuda_pack_as(k, i, op->in[i].dtype == KILN_I32 ? KILN_I32 : KILN_F32);
    kiln_status status = prepares[op->kind](k, e);
    if (status == KILN_OK)
        *out = &k->base;
    else
        cuda_free(&k->base);
    return status;
}

int cuda_on_tensor_cores(int type)
{
    const cuda_abilities *a = cuda_abilities_get();
    return a->gemms >= CUDA_GEMM_MMA && (type == CU_F16 || (type == CU_BF16 && a->major >= 8));
}

/* 99 KiB of shared memory; sm_75 has 64. */
int cuda_takes_wide_heads(void) { return cuda_abilities_get()->major >= 8; }

static void describe(char *text, size_t size)
{
    const cuda_abilities *a = cuda_abilities_get();
    int n = snprintf(text, size, "sm_%d%d, %s", a->major, a->minor,
                     a->gemms == CUDA_GEMM_PLAIN ? "plain GEMMs"
                     : a->wgmma                  ? "tensor cores by warpgroups"
                     : a->major < 8              ? "tensor cores for f16"
                                                 : "tensor cores");
    if (a->cublaslt)
        snprintf(text + n, size - (size_t)n, ", cuBLASLt %zu.%zu.%zu", a->cublaslt / 10000, a->cublaslt / 100 % 100,
                 a->cublaslt % 100);
    size_t unit = a->cudnn >= 90000 ? 10000 : 1000; /* of a major version; 8 counted otherwise than 9 */
    n = (int)strlen(text);
    if (a->cudnn)
        snprintf(text + n, size - (size_t)n, ", cuDNN %zu.%zu.%zu", a->cudnn / unit, a->cudnn % unit / 100,
                 a->cudnn % 100);
}

static const char *features(void)
{
    static char text[128];
    describe(text, sizeof text);
    return text;
}

/* The chip's generation and the library decide how sums are cut; the libraries also look at how many SMs there are. */
static const char *numerics(void)
{
    static char text[160];
    const cuda_abilities *a = cuda_abilities_get();
    describe(text, sizeof text);
    size_t n = strlen(text);
    if (a->cublaslt) snprintf(text + n, sizeof text - n, ", %d SMs", a->processors);
    return text;
}

/* What tensor cores multiply; bf16, whose range is f32's, where they can. */
static uint32_t best_precision(void) { return cuda_abilities_get()->major >= 8 ? KILN_BF16 : KILN_F16; }

static int has_kernel(op_kind kind) { return (unsigned)kind < OP_KIND_COUNT && prepares[kind] != NULL; }

static const backend table = {.name = "cuda",
                              .device = KILN_CUDA,
                              .open = cuda_device_open,
                              .features = features,
                              .numerics = numerics,
                              .best_precision = best_precision,
                              .precisions = 1u << KILN_F32 | 1u << KILN_BF16 | 1u << KILN_F16,
                              .prepare = prepare,
                              .vector_ops = &cuda_vector_ops,
                              .has = has_kernel};

__attribute__((visibility("default"))) extern const cuda_library kiln_cuda_library;
const cuda_library kiln_cuda_library = {.version = KILN_VERSION, .sizes = CUDA_LIBRARY_SIZES, .backend = &table};
