/* ops_gemm.c - linear and convolution: one GEMM, by the GEMV kernel (few rows), the vendor's libraries, tensor cores,
 * or in plain f32 arithmetic.
 *
 * Weights lie as rows of K for each column of the result, a convolution's taps outside its channels, rows padded to
 * eight elements; the two halves of a geglu are interleaved, so that value and gate meet in one thread. The bias is
 * f32, followed by a copy in the result's type for the library.
 *
 * Weights that are stored by blocks lie as they are (ops_blocks.c). With few rows a kernel multiplies them so;
 * otherwise they are widened in the op's scratch to the rows above, all at once or, of large layers, some columns of
 * the result at a time, and the same ways compute those.
 */
#include "backend/cuda/cudnn.h"
#include "backend/cuda/cublaslt.h"

#include "tensor/dtype.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* ---- packing ---- */

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
static size_t bias_floats(int64_t n) { return (size_t)round_up(n, 64); }

/* Row of the file's weight that becomes row n. */
static int64_t source_row(const cu_gemm *p, int64_t n) { return p->finish.geglu ? n % 2 * (p->N / 2) + n / 2 : n; }

static kiln_status pack_bias(const cuda_kernel *k, const void *src, uint32_t src_dtype, void *dst, error *e)
{
    const cu_gemm *p = &k->u.gemm.p;
    float *to = dst;
    size_t size = dtype_size(src_dtype);
    memset(dst, 0, k->base.packed_bytes[2]);
    for (int64_t n = 0; n < p->N; n++)
        TRY(dtype_convert(to + n, KILN_F32, (const char *)src + (size_t)source_row(p, n) * size, src_dtype, 1));
    void *copy = to + bias_floats(p->N);
    TRY(dtype_convert(copy, k->op.out.dtype, to, KILN_F32, (size_t)p->N));
    return cuda_packed_fits(copy, k->op.out.dtype, src_dtype, (size_t)p->N)
               ? KILN_OK
               : cuda_too_large(src, src_dtype, (size_t)p->N, e);
}

/* [I, kh, kw] of one output to [kh, kw, I] */
static void pack_taps(const cu_gemm *p, const float *src, float *dst)
{
    int64_t taps = (int64_t)p->kh * p->kw;
    for (int64_t t = 0; t < taps; t++)
        for (int64_t c = 0; c < p->channels; c++) dst[t * p->channels + c] = src[c * taps + t];
}

typedef struct {
    const cuda_kernel *k;
    const char *src;
    uint32_t src_dtype;
    char *dst;
    int64_t piece;
    atomic_int too_large; /* a row had a number that its type has not */
} pack_job;

static void pack_rows(void *arg, size_t piece)
{
    pack_job *j = arg;
    const cu_gemm *p = &j->k->u.gemm.p;
    uint32_t type = j->k->pack_type[1];
    size_t from = (size_t)p->K * dtype_size(j->src_dtype), to = (size_t)p->k_packed * dtype_size(type);
    float row[2][1024], *wide[2] = {row[0], row[1]};
    int taps = p->picture && p->kh * p->kw > 1;
    for (int64_t n = (int64_t)piece * j->piece; n < ((int64_t)piece + 1) * j->piece && n < p->N; n++) {
        const char *src = j->src + (size_t)source_row(p, n) * from;
        char *dst = j->dst + (size_t)n * to;
        memset(dst + (size_t)p->K * dtype_size(type), 0, to - (size_t)p->K * dtype_size(type));
        if (!taps) {
            dtype_convert(dst, type, src, j->src_dtype, (size_t)p->K);
            if (!cuda_packed_fits(dst, type, j->src_dtype, (size_t)p->K)) atomic_store(&j->too_large, 1);
            continue;
        }
        /* channels by pieces, so that a row of any length is transposed in little memory */
        int64_t all = (int64_t)p->kh * p->kw, most = 1024 / all > 0 ? 1024 / all : 1;
        for (int64_t c = 0; c < p->channels; c += most) {
            int64_t count = p->channels - c < most ? p->channels - c : most;
            cu_gemm part = *p;
            part.channels = count;
            dtype_convert(wide[0], KILN_F32, src + (size_t)(c * all) * dtype_size(j->src_dtype), j->src_dtype,
                          (size_t)(count * all));
            pack_taps(&part, wide[0], wide[1]);
            for (int64_t t = 0; t < all; t++)
                dtype_convert(dst + (size_t)(t * p->channels + c) * dtype_size(type), type, wide[1] + t * count,
                              KILN_F32, (size_t)count);
        }
        if (!cuda_packed_fits(dst, type, j->src_dtype, (size_t)p->K)) atomic_store(&j->too_large, 1);
    }
}

kiln_status cuda_gemm_pack(const kernel *base, uint32_t operand, const void *src, uint32_t src_dtype, void *dst,
                           pool *threads, error *e)
{
    const cuda_kernel *k = (const cuda_kernel *)base;
    if (operand > 2 || k->block[operand]) return cuda_pack_plain(base, operand, src, src_dtype, dst, threads, e);
    if (src_dtype != KILN_F32 && src_dtype != KILN_BF16 && src_dtype != KILN_F16)
        return error_set(e, KILN_ERR_UNSUPPORTED, "weights of type %s are not supported", dtype_name(src_dtype));
    if (operand == 2) return pack_bias(k, src, src_dtype, dst, e);
    pack_job j = {.k = k, .src = src, .src_dtype = src_dtype, .dst = dst, .piece = 16};
    size_t pieces = (size_t)((k->u.gemm.p.N + j.piece - 1) / j.piece);
    if (threads)
        pool_for(threads, pieces, pack_rows, &j);
    else
        for (size_t i = 0; i < pieces; i++) pack_rows(&j, i);
    return atomic_load(&j.too_large) ? cuda_too_large(src, src_dtype, (size_t)(k->u.gemm.p.N * k->u.gemm.p.K), e)
                                     : KILN_OK;
}

static void say_packing(cuda_kernel *k)
{
    const cu_gemm *p = &k->u.gemm.p;
    uint32_t type = k->pack_type[1];
    k->base.pack_copies[1] = p->k_packed == p->K && !p->finish.geglu && !(p->picture && p->kh * p->kw > 1) ? type : 0;
    k->base.packed_bytes[1] = (size_t)(p->N * p->k_packed) * dtype_size(type);
    snprintf(k->base.pack_form[1], sizeof k->base.pack_form[1], "cuda %s %lld taps %d%s", dtype_name(type),
             (long long)p->k_packed, p->picture ? p->kh * p->kw : 1, p->finish.geglu ? " geglu" : "");
}

void cuda_gemm_packing(cuda_kernel *k)
{
    cu_gemm *p = &k->u.gemm.p;
    uint32_t type = cuda_dtype(p->type);
    p->k_packed = round_up(p->K, 8);
    k->pack_type[1] = type;
    if (!k->block[1]) say_packing(k);
    k->base.pack_copies[2] = 0;
    if (k->op.in[2].dtype) {
        k->base.packed_bytes[2] = bias_floats(p->N) * 4 + (size_t)p->N * dtype_size(k->op.out.dtype);
        snprintf(k->base.pack_form[2], sizeof k->base.pack_form[2], "cuda bias %s%s", dtype_name(k->op.out.dtype),
                 p->finish.geglu ? " geglu" : "");
    }
    k->base.pack = cuda_gemm_pack;
}

/* ---- running ---- */

static int aligned(const void *p) { return ((uintptr_t)p & 15) == 0; }

/* Rows that may be a bucket's: more than one a sequence. */
static int has_bucket(const cuda_kernel *k)
{
    const shape *s = &k->op.in[0].shape;
    return k->op.bounded && s->rank > 1 && s->dim[s->rank - 2] > 1;
}

/* By the kernel for few rows: f32 without tensor cores, the others on them; of blocks on any chip. It adds in an order
 * of its own, so that a bucket of few rows is not its. */
static int takes_gemv(const cuda_kernel *k, const cu_gemm *p)
{
    if (has_bucket(k)) return 0;
    if (k->block[1]) return cuda_abilities_get()->gemms >= CUDA_GEMM_MMA && cu_gemv_blocks_takes(p, k->block[1]);
    int may = p->type == CU_F32 ? cuda_abilities_get()->gemms >= CUDA_GEMM_MMA : cuda_on_tensor_cores(p->type);
    return may && cu_gemv_takes(p);
}

/* Its tiles leave no registers for sums of several parts. */
static int takes_wgmma(const cuda_kernel *k, const cu_gemm *p)
{
    return cuda_abilities_get()->wgmma && !has_bucket(k) && cu_gemm_wgmma_takes(p);
}

/* library: the way that it has for p, or NULL; copy: the bias in the result's type. */
static kiln_status compute(const cuda_kernel *k, const cu_gemm *p, const cublaslt_gemm *library, const void *copy,
                           const kernel_args *a, error *e)
{
    int fit = aligned(p->a) && aligned(p->out) && aligned(p->finish.residual);
    if (library && fit) return cublaslt_run(library, p, copy, a->scratch, cuda_stream(a->stream), e);
    if (k->u.gemm.cudnn_conv && fit) return cudnn_run(k->u.gemm.cudnn_conv, p, a->scratch, cuda_stream(a->stream), e);
    if (!k->block[1] && takes_gemv(k, p))
        CUDA_TRY(cu_gemv_run(p, cuda_stream(a->stream)), "launch");
    else if (takes_wgmma(k, p))
        CUDA_TRY(cu_gemm_wgmma_run(p, cuda_abilities_get()->processors, cuda_stream(a->stream)), "launch");
    else if (cuda_on_tensor_cores(p->type) && cu_gemm_mma_takes(p))
        CUDA_TRY(cu_gemm_mma_run(p, cuda_stream(a->stream)), "launch");
    else
        CUDA_TRY(cu_gemm_run(p, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

static const char *moved(const void *p, int64_t elements, int type)
{
    return p ? (const char *)p + elements * (type == CU_F32 ? 4 : 2) : NULL;
}

static int64_t blocks_of(int64_t rows, int64_t columns) { return (rows + 127) / 128 * ((columns + 127) / 128); }

/* How many parts K is cut into, so that a small result is spread over a chip: by shape alone, for equal bytes
 * everywhere. */
static int splits_for(const cu_gemm *p, int64_t rows)
{
    int64_t blocks = blocks_of(rows, p->N), most = p->K / 256, n = blocks > 0 ? 128 / blocks : 1;
    if (n > most) n = most;
    return n < 1 ? 1 : n > 16 ? 16 : (int)n;
}

/* All buckets of rows have the parts of a small one. Of a large one a block sums them one after the other: storing the
 * parts would take longer than what is idle (`scripts/cuda-model`'s figures, for a chip of 132 processors). */
static void cut(const cuda_kernel *k, cu_gemm *p)
{
    enum { BUSY = 88 };
    p->splits = splits_for(p, has_bucket(k) ? 1 : p->M), p->parts = 1;
    if (has_bucket(k) && blocks_of(p->M, p->N) >= BUSY) p->parts = p->splits, p->splits = 1;
}

/* Columns first .. of the GEMM, as one of its own. */
static cu_gemm piece_of(const cuda_kernel *k, const cu_gemm *p, int64_t first)
{
    cu_gemm part = *p;
    int64_t column = p->finish.geglu ? first / 2 : first;
    part.N = p->N - first < k->u.gemm.piece ? p->N - first : k->u.gemm.piece;
    part.out_columns = p->finish.geglu ? part.N / 2 : part.N;
    part.out = (void *)(uintptr_t)moved(p->out, column, p->out_type);
    part.finish.residual = moved(p->finish.residual, column, p->finish.residual_type);
    part.finish.bias = p->finish.bias ? p->finish.bias + first : NULL;
    cut(k, &part);
    return part;
}

static kiln_status compute_widened(const cuda_kernel *k, const cu_gemm *p, const void *copy, const kernel_args *a,
                                   error *e)
{
    for (int64_t first = 0; first < p->N; first += k->u.gemm.piece) {
        cu_gemm part = piece_of(k, p, first);
        part.w = (const char *)a->scratch + k->u.gemm.widened_at;
        TRY(cuda_widen(k, &part, first, a, e));
        TRY(compute(k, &part, part.N == k->u.gemm.piece ? k->u.gemm.library : k->u.gemm.library_rest,
                    moved(copy, first, p->out_type), a, e));
    }
    return KILN_OK;
}

static kiln_status body(const cuda_kernel *k, const kernel_args *a, error *e)
{
    cu_gemm p = k->u.gemm.p;
    const float *bias = k->op.in[2].dtype ? a->in[2] : NULL;
    const void *copy = bias ? bias + bias_floats(p.N) : NULL;
    p.a = a->in[0], p.w = a->in[1], p.out = a->out, p.partial = a->scratch;
    p.finish.bias = bias;
    p.finish.residual = cuda_residual(k, a);
    if (!k->block[1]) return compute(k, &p, k->u.gemm.library, copy, a, e);
    if (k->u.gemm.piece) return compute_widened(k, &p, copy, a, e);
    const cu_stored w = cuda_stored(k, 1, a->in[1]);
    CUDA_TRY(cu_gemv_blocks_run(&p, &w, cuda_stream(a->stream)), "launch");
    return KILN_OK;
}

/* What the libraries have for p, the whole or a piece, and the scratch that p takes with them and without. Their choice
 * hangs on the number of rows, so that buckets are not theirs, whatever is asked for. */
static size_t choose_way(cuda_kernel *k, const cu_gemm *p, int few, cublaslt_gemm **library)
{
    size_t partial = p->splits > 1 ? (size_t)(p->splits * p->M * p->N) * sizeof(float) : 0, workspace = 0;
    cuda_gemm_path by = has_bucket(k) ? CUDA_GEMM_MMA : cuda_abilities_get()->gemms;
    if (by >= CUDA_GEMM_CUBLASLT && !p->picture && !few)
        *library = cublaslt_make(p, k->op.in[2].dtype != 0, &workspace);
    if (by == CUDA_GEMM_CUDNN && p->picture && p->N == k->u.gemm.p.N) k->u.gemm.cudnn_conv = cudnn_make(p, &workspace);
    return workspace > partial ? workspace : partial;
}

/* The first piece and the last; all between are as the first. */
static void prepare_pieces(cuda_kernel *k)
{
    const cu_gemm *p = &k->u.gemm.p;
    int64_t piece = k->u.gemm.piece = cuda_widened_rows(p), rest = p->N % piece;
    cu_gemm part = piece_of(k, p, 0);
    size_t bytes = choose_way(k, &part, 0, &k->u.gemm.library), other = 0;
    if (rest) {
        part = piece_of(k, p, p->N - rest);
        other = choose_way(k, &part, 0, &k->u.gemm.library_rest);
    }
    k->u.gemm.widened_at = (size_t)round_up((int64_t)(other > bytes ? other : bytes), 256);
    k->base.scratch_bytes = k->u.gemm.widened_at + (size_t)(piece * p->K) * dtype_size(cuda_dtype(p->type));
}

static void name_way(cuda_kernel *k, int few)
{
    k->base.name = few                                      ? "gemv"
                   : k->u.gemm.cudnn_conv                   ? "cudnn"
                   : k->u.gemm.library                      ? "cublaslt"
                   : takes_wgmma(k, &k->u.gemm.p)           ? "wgmma"
                   : cuda_on_tensor_cores(k->u.gemm.p.type) ? "mma"
                                                            : "gemm";
}

static kiln_status finish_preparing(cuda_kernel *k, error *e)
{
    cu_gemm *p = &k->u.gemm.p;
    if (p->type == CU_I32) return error_set(e, KILN_ERR_UNSUPPORTED, "a GEMM of %s", dtype_name(k->op.in[0].dtype));
    if (!k->op.in[1].weight || (k->op.in[2].dtype && !k->op.in[2].weight))
        return error_set(e, KILN_ERR_UNSUPPORTED, "a GEMM with something that is no weight");
    p->out_type = cuda_result_type(&k->op);
    p->out_ld = k->op.out.ld;
    p->out_columns = p->finish.geglu ? p->N / 2 : p->N;
    cuda_gemm_packing(k);
    /* Before the library too: so few rows are a reading of the weights, which one launch does as fast as memory allows;
     * the library's choices for such shapes cut K, with a workspace and a second launch. */
    int few = takes_gemv(k, p);
    p->splits = p->parts = 1;
    if (!few) cut(k, p);
    k->base.flops = (uint64_t)(2 * p->M * p->N * p->K);
    k->body = body;
    if (k->block[1] && !few)
        prepare_pieces(k);
    else
        k->base.scratch_bytes = choose_way(k, p, few, &k->u.gemm.library);
    name_way(k, few);
    return KILN_OK;
}

void cuda_gemm_free(cuda_kernel *k)
{
    if (k->op.kind != OP_LINEAR && k->op.kind != OP_CONV2D) return;
    cublaslt_free(k->u.gemm.library), cublaslt_free(k->u.gemm.library_rest);
    cudnn_free(k->u.gemm.cudnn_conv);
}

kiln_status cuda_prepare_linear(cuda_kernel *k, error *e)
{
    cu_gemm *p = &k->u.gemm.p;
    *p = (cu_gemm){.type = cuda_operand_type(k, 0),
                   .M = cuda_rows(&k->op.in[0]),
                   .N = k->op.in[1].shape.dim[0],
                   .K = k->op.in[1].shape.dim[1],
                   .a_ld = cuda_ld(&k->op.in[0])};
    cuda_epilogue(k, &p->finish);
    return finish_preparing(k, e);
}

/* Groups are OP_CONV's, which has no epilogue. */
static kiln_status prepare_groups(cuda_kernel *k, error *e)
{
    const conv2d_attr t = k->op.attr.conv2d;
    const op_epilogue *own = &k->op.epilogue;
    if (own->act || own->residual || own->geglu)
        return error_set(e, KILN_ERR_UNSUPPORTED, "conv2d of %d groups: nothing can be fused with it", (int)t.groups);
    k->op.kind = OP_CONV;
    k->op.attr.conv = (conv_attr){.rank = 2,
                                  .stride = {t.stride[0], t.stride[1]},
                                  .before = {t.pad[0], t.pad[1]},
                                  .after = {t.pad[2], t.pad[3]},
                                  .dilation = {t.dilation[0], t.dilation[1]},
                                  .groups = t.groups};
    return cuda_prepare_conv(k, e);
}

kiln_status cuda_prepare_conv2d(cuda_kernel *k, error *e)
{
    const conv2d_attr *c = &k->op.attr.conv2d;
    const int64_t *x = k->op.in[0].shape.dim, *w = k->op.in[1].shape.dim, *y = k->op.out.shape.dim;
    cu_gemm *p = &k->u.gemm.p;
    if (c->groups != 1) return prepare_groups(k, e);
    int point = w[2] == 1 && w[3] == 1 && c->stride[0] == 1 && c->stride[1] == 1 && !c->pad[0] && !c->pad[1] &&
                !c->pad[2] && !c->pad[3];
    *p = (cu_gemm){.type = cuda_operand_type(k, 0),
                   .M = y[0] * y[1] * y[2],
                   .N = w[0],
                   .K = w[1] * w[2] * w[3],
                   .a_ld = cuda_ld(&k->op.in[0]),
                   .picture = !point,
                   .H = x[1],
                   .W = x[2],
                   .out_h = y[1],
                   .out_w = y[2],
                   .channels = w[1],
                   .kh = (int)w[2],
                   .kw = (int)w[3],
                   .stride_h = c->stride[0],
                   .stride_w = c->stride[1],
                   .top = c->pad[0],
                   .left = c->pad[1],
                   .dilation_h = c->dilation[0],
                   .dilation_w = c->dilation[1]};
    cuda_epilogue(k, &p->finish);
    return finish_preparing(k, e);
}
