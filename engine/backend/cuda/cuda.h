/* cuda.h - what the C files of the CUDA backend share: the kernel object, the device's abilities, errors. Layer:
 * backend.
 *
 * The backend is a library of its own (kiln-cuda.so) that backend/cuda_load.c opens where a driver is; nothing else of
 * kiln knows CUDA. An op is prepared into a cuda_kernel: its launch's arguments but for the pointers, which run() fills
 * in. run() only enqueues. tests/cuda_emu compiles the same files against a runtime and kernels that run on the host.
 */
#ifndef KILN_BACKEND_CUDA_H
#define KILN_BACKEND_CUDA_H

#include "backend/backend.h"
#include "backend/cuda/launch.h"

/* How GEMMs are computed: the best that a device and the machine have, or what
 * KILN_CUDA_GEMM=plain|mma|wgmma|library|cudnn asks for; each has those before it for what it does not take, but for
 * wgmma, which has to be asked for itself. wgmma and cuDNN are never chosen unasked: no GPU has measured them yet. */
typedef enum { CUDA_GEMM_PLAIN, CUDA_GEMM_MMA, CUDA_GEMM_CUBLASLT, CUDA_GEMM_CUDNN } cuda_gemm_path;

typedef struct {
    int major, minor, processors;
    cuda_gemm_path gemms;
    int wgmma;              /* what gemm_wgmma.cu takes is its */
    size_t cublaslt, cudnn; /* their versions, 0: not used */
} cuda_abilities;
/* Of the device that was opened. */
const cuda_abilities *cuda_abilities_get(void);
/* 1: its tensor cores multiply CU_F16 or CU_BF16 and are to be used. Those of sm_75 know no bf16. */
int cuda_on_tensor_cores(int type);
int cuda_takes_wide_heads(void); /* has it the shared memory of cu_attention_wide_run? */

/* NOMEM for want of memory, IO with the driver's words for the rest; forgets CUDA's own sticky last error. */
kiln_status cuda_failed(cudaError_t, const char *what, error *);
#define CUDA_TRY(call, what)                                                                                           \
    do {                                                                                                               \
        cudaError_t cuda_ = (call);                                                                                    \
        if (cuda_ != cudaSuccess) return cuda_failed(cuda_, what, e);                                                  \
    } while (0)

/* Makes the opened device the calling thread's: launches and the vendor's libraries go by that. */
kiln_status cuda_here(error *e);
kiln_status cuda_device_open(unsigned index, memory_device **out, error *e); /* device_cuda.c */
static inline cudaStream_t cuda_stream(device_stream *s) { return (cudaStream_t)(void *)s; }

extern const device_vector_ops cuda_vector_ops; /* cuda_vector_ops.c */

typedef struct cublaslt_gemm cublaslt_gemm; /* a GEMM by the vendor's library: cublaslt.c */
typedef struct cudnn_conv cudnn_conv;       /* cudnn.c */

typedef struct cuda_kernel cuda_kernel;
struct cuda_kernel {
    kernel base;
    op_desc op;
    kiln_status (*body)(const cuda_kernel *, const kernel_args *, error *);
    uint32_t pack_type[OP_MAX_IN]; /* what weights become: KILN_F32, KILN_BF16, KILN_F16 */
    int block[OP_MAX_IN];          /* 0, or a weight that lies as it is stored: CU_Q8_0, .. (ops_blocks.c) */
    union {
        cu_map map;
        cu_expression expression;
        cu_state_write state_write;
        cu_norm norm;
        cu_embedding embedding;
        cu_timestep timestep;
        cu_norm_rows norm_rows;
        cu_rope rope;
        cu_softmax_rows softmax;
        cu_reduce reduce;
        cu_cumsum cumsum;
        cu_sort sort;
        cu_numbers bincount;
        cu_take take;
        cu_scatter scatter;
        cu_random random;
        cu_windows windows;
        cu_resize resize;
        cu_pad pad;
        cu_attention attention;
        struct {
            cu_gemm p;
            cu_matmul product; /* of other kinds: p says how the weight is packed */
            size_t partial_at; /* where in scratch */
            cublaslt_gemm *library;
            cudnn_conv *cudnn_conv;
            /* Of weights stored by blocks: rows that are widened at once, to where in scratch, and the library's way
             * for the last ones where these are fewer. */
            int64_t piece;
            size_t widened_at;
            cublaslt_gemm *library_rest;
        } gemm;
    } u;
};

typedef kiln_status cuda_prepare(cuda_kernel *, error *);
cuda_prepare cuda_prepare_map, cuda_prepare_expression, cuda_prepare_state_write, cuda_prepare_custom,
    cuda_prepare_layout, cuda_prepare_embedding, cuda_prepare_timestep, cuda_prepare_norm, cuda_prepare_conv2d,
    cuda_prepare_linear, cuda_prepare_attention, cuda_prepare_matmul, cuda_prepare_linear_transposed,
    cuda_prepare_grouped_linear;
cuda_prepare cuda_prepare_norm_rows, cuda_prepare_rope, cuda_prepare_softmax, cuda_prepare_reduce, cuda_prepare_cumsum,
    cuda_prepare_sort, cuda_prepare_places, cuda_prepare_random, cuda_prepare_conv, cuda_prepare_pool,
    cuda_prepare_interpolate, cuda_prepare_grid_sample, cuda_prepare_pad;
void cuda_gemm_free(cuda_kernel *);
/* A GEMM's weights, u.gemm.p.N rows of K: pack() for operand 1, and what is said of it. */
kiln_status cuda_gemm_pack(const kernel *, uint32_t operand, const void *src, uint32_t src_dtype, void *dst, pool *,
                           error *);
void cuda_gemm_packing(cuda_kernel *);
/* kernel.pack of weights that only change their type: to pack_type. */
kiln_status cuda_pack_plain(const kernel *, uint32_t operand, const void *src, uint32_t src_dtype, void *dst, pool *,
                            error *);
/* 0: a number did not fit the type that it was packed in, which only f16 is too narrow for; then why, as INVALID. */
int cuda_packed_fits(const void *packed, uint32_t type, uint32_t src_dtype, size_t n);
kiln_status cuda_too_large(const void *src, uint32_t src_dtype, size_t n, error *e);
/* Weight operand i becomes `type`, dense. */
void cuda_pack_as(cuda_kernel *, uint32_t i, uint32_t type);

/* ---- weights that are stored by blocks: ops_blocks.c ---- */

/* Weight operand i at `rows`; .block 0: it does not stay as it is stored. */
cu_stored cuda_stored(const cuda_kernel *, uint32_t i, const void *rows);
/* As what weight operand i of the op may stay on the device (CU_Q8_0, ..); 0: it is widened when it is packed. */
int cuda_block_of(const op_desc *, uint32_t i);
/* Weight operand i stays as it is stored; kernel.pack of it. */
void cuda_keep_blocks(cuda_kernel *, uint32_t i);
kiln_status cuda_pack_blocks(const cuda_kernel *, uint32_t operand, const void *src, uint32_t src_dtype, void *dst,
                             error *e);
/* Bytes of widened weights that a product has in its scratch at once, but for rows that are longer. Tests make it
 * smaller. */
extern size_t cuda_widened_most;
/* Rows of a GEMM's right side that are widened at once. */
int64_t cuda_widened_rows(const cu_gemm *);
/* Rows first .. of operand 1, `part->N` of them, to part->w. */
kiln_status cuda_widen(const cuda_kernel *, const cu_gemm *part, int64_t first, const kernel_args *, error *e);

/* ---- small things ---- */

static inline int64_t cuda_columns(const operand_desc *d)
{
    return d->shape.rank ? d->shape.dim[d->shape.rank - 1] : 1;
}
static inline int64_t cuda_rows(const operand_desc *d)
{
    int64_t n = 1;
    for (uint32_t i = 0; i + 1 < d->shape.rank; i++) n *= d->shape.dim[i];
    return n;
}
static inline int64_t cuda_ld(const operand_desc *d) { return d->weight ? cuda_columns(d) : d->ld; }
static inline uint32_t cuda_dtype(int type)
{
    return type == CU_F32 ? KILN_F32 : type == CU_BF16 ? KILN_BF16 : type == CU_F16 ? KILN_F16 : KILN_I32;
}
static inline int cuda_type(uint32_t dtype)
{
    return dtype == KILN_F32 ? CU_F32 : dtype == KILN_BF16 ? CU_BF16 : dtype == KILN_F16 ? CU_F16 : CU_I32;
}
/* What a kernel whose stores saturate writes. */
static inline int cuda_result_type(const op_desc *d)
{
    return op_saturates(d) ? CU_F16_SATURATED : cuda_type(d->out.dtype);
}
/* As the kernel sees it: packed weights in their packed type. */
static inline int cuda_operand_type(const cuda_kernel *k, uint32_t i)
{
    return cuda_type(k->op.in[i].weight ? k->pack_type[i] : k->op.in[i].dtype);
}
/* Elements from one index of each of the result's dimensions to the next; 0 where the operand repeats. */
void cuda_repeated_strides(const operand_desc *d, const shape *out, int64_t stride[CU_RANK]);
/* All but the pointer of what is added in the end, which is the last operand. */
void cuda_epilogue(const cuda_kernel *k, cu_epilogue *out);
static inline const void *cuda_residual(const cuda_kernel *k, const kernel_args *a)
{
    return k->op.epilogue.residual ? a->in[k->op.n_in - 1] : NULL;
}

#endif
