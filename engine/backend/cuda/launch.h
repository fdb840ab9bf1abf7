/* launch.h - the kernels as functions: what the C side of this folder calls and the .cu side has. Layer: backend.
 *
 * Each enqueues on `stream` and returns the status of the launch. Pointers are the device's. A matrix is rows of
 * columns, rows ld elements apart. Sizes were checked by whoever prepared the op; a size of 0 launches nothing.
 */
#ifndef KILN_BACKEND_CUDA_LAUNCH_H
#define KILN_BACKEND_CUDA_LAUNCH_H

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* CU_F16_SATURATED: results alone; what is beyond f16 becomes the end of it. */
enum { CU_F32, CU_BF16, CU_F16, CU_I32, CU_F16_SATURATED };
enum {
    CU_ACT_NONE,
    CU_ACT_SILU,
    CU_ACT_GELU,
    CU_ACT_GELU_TANH,
    CU_ACT_QUICK_GELU,
    CU_ACT_RELU,
    CU_ACT_SIGMOID,
    CU_ACT_TANH
};                    /* as kiln_act */
enum { CU_RANK = 8 }; /* KILN_MAX_RANK */

/* Types of weights that stay as they are stored: by blocks (tensor/block.h), or in f8. */
enum {
    CU_Q4_0 = 1,
    CU_Q4_1,
    CU_Q5_0,
    CU_Q5_1,
    CU_Q8_0,
    CU_Q2_K,
    CU_Q3_K,
    CU_Q4_K,
    CU_Q5_K,
    CU_Q6_K,
    CU_IQ4_NL,
    CU_IQ4_XS,
    CU_MXFP4,
    CU_NVFP4,
    CU_F8_E4M3, /* plain codes, as blocks of eight */
    CU_F8_E5M2,
    CU_INT8,
    CU_NIBBLES /* two codes a byte, the first in the high bits, of 16 numbers */
};
/* Where such a weight lies. block 0: it does not. */
typedef struct {
    int block; /* CU_Q8_0, .. */
    const void *rows;
    /* NULL: a number is what its code says; or that times scale[row * scales + column / scale_columns]. */
    const float *scale;
    int64_t columns, scales, scale_columns; /* of a row */
    const float *codebook;                  /* of CU_NIBBLES */
} cu_stored;

typedef struct {
    int act, geglu;       /* geglu: columns 2j and 2j + 1 of the GEMM are value and gate of column j */
    const float *bias;    /* by column of the GEMM, or NULL */
    const void *residual; /* by row and column of the result, or NULL */
    int residual_type;
    int64_t residual_ld;
} cu_epilogue;

/* ---- element by element (elementwise.cu) ---- */

typedef enum { CU_MAP_COPY, CU_MAP_ADD, CU_MAP_MUL, CU_MAP_AFFINE, CU_MAP_GEGLU } cu_map_kind;
/* Which row of b belongs to a row of the result: the same, always the first, or by dimensions. */
typedef enum { CU_ROWS_SAME, CU_ROWS_ONE, CU_ROWS_BY_DIM } cu_row_rule;

typedef struct {
    cu_map_kind kind;
    int x_type, b_type, out_type;
    int64_t rows, columns, x_ld, b_ld, out_ld;
    const void *x, *b; /* geglu: the gate is half-way along x's rows */
    void *out;
    float scale, shift;
    cu_row_rule b_rows;
    int b_column;                            /* 0: b has one column */
    int outer;                               /* dimensions before the last */
    int64_t dim[CU_RANK], b_stride[CU_RANK]; /* of those, outermost first; b's in rows, 0 where it repeats */
    cu_epilogue finish;
} cu_map;
cudaError_t cu_map_run(const cu_map *, cudaStream_t);

/* ---- expressions (expression.cu) ---- */

enum { CU_OPERANDS = 6, CU_CODE = 64, CU_NUMBERS = 16, CU_REGISTERS = 16 };

/* A thread a number: the code of graph/expression.h, operands broadcast by strides. Types as CU_F32, .. */
typedef struct {
    int n, rank, out_type, integer, operands;
    uint8_t code[CU_CODE][5]; /* op, to, a, b, c */
    float number[CU_NUMBERS];
    int64_t count, dim[CU_RANK], out_stride[CU_RANK]; /* in elements; dim of the result */
    int type[CU_OPERANDS];
    int64_t stride[CU_OPERANDS][CU_RANK]; /* 0 where it repeats */
    const void *in[CU_OPERANDS];
    void *out;
} cu_expression;
cudaError_t cu_expression_run(const cu_expression *, cudaStream_t);

/* ---- state (state.cu) ---- */

/* Element i of x to its place: outer * places + (offset + k) % places, each `inner` elements, k below `written`.
 * Numbers that cannot be write nothing. */
typedef struct {
    int x_type, out_type;
    int64_t count, inner, n, places, columns, x_ld; /* columns, x_ld: of x's rows */
    int one_offset, one_written;                    /* 1: the same for all */
    const int32_t *offset, *written;                /* written: NULL: all of x */
    const void *x;
    void *out;
} cu_state_write;
cudaError_t cu_state_write_run(const cu_state_write *, cudaStream_t);

/* ---- layout (layout.cu) ---- */

typedef struct {
    int unit; /* bytes that move together: 2, 4, 8, 16 */
    int rank;
    int64_t dim[CU_RANK], from[CU_RANK], to[CU_RANK]; /* strides in units */
    const void *src;
    void *dst;
} cu_move;
cudaError_t cu_move_run(const cu_move *, cudaStream_t);
/* Element i of src's rows to element i of dst's. */
typedef struct {
    int unit;
    int64_t n, src_columns, src_ld, dst_columns, dst_ld; /* units */
    const void *src;
    void *dst;
} cu_reshape;
cudaError_t cu_reshape_run(const cu_reshape *, cudaStream_t);
/* dst[n, y, x] = src[n, y H / h, x W / w], rows of `columns` units. */
typedef struct {
    int unit;
    int64_t images, H, W, h, w, columns, src_ld, dst_ld;
    const void *src;
    void *dst;
} cu_upsample;
cudaError_t cu_upsample_run(const cu_upsample *, cudaStream_t);

/* ---- embedding and gather (embedding.cu) ---- */

/* Row k of the result is row (k / every) * step + id[k] of the table; NaN where id is not in 0..limit-1. */
typedef struct {
    int table_type, out_type;
    cu_stored stored; /* block 0: the table lies as table_type */
    int64_t rows, columns, table_ld, out_ld, every, step, limit, id_columns, id_ld;
    const void *table;
    const int32_t *id;
    void *out;
} cu_embedding;
cudaError_t cu_embedding_run(const cu_embedding *, cudaStream_t);

typedef struct {
    int out_type, cos_first;
    int64_t rows, dim, out_ld;
    double shift, max_period;
    const float *t;
    void *out;
} cu_timestep;
cudaError_t cu_timestep_run(const cu_timestep *, cudaStream_t);

/* ---- norms (norms.cu) ---- */

typedef struct {
    int x_type, out_type, act;
    int64_t images, rows, columns, x_ld, out_ld; /* rows of an image */
    int groups;
    float eps;
    const float *gamma, *beta; /* or NULL */
    const void *x;
    void *out;
    float *partial;                  /* cu_group_norm_scratch bytes */
    const float *stats;              /* as cu_group_norm_stats_run() makes them; NULL: none are given */
    int64_t stats_ld, width, height; /* of a picture, whose pixels rows are; height: of which statistics are */
    cu_epilogue finish;
} cu_norm;
size_t cu_group_norm_scratch(int64_t images, int64_t rows, int64_t columns, int groups); /* bytes */
cudaError_t cu_group_norm_run(const cu_norm *, cudaStream_t);
/* Of each row of pixels, and of each group, into out: mean, 0, sum of squares off it. */
cudaError_t cu_group_norm_stats_run(const cu_norm *, cudaStream_t);
cudaError_t cu_layer_norm_run(const cu_norm *, cudaStream_t); /* images 1, groups 0 */

/* ---- rows (rows.cu) ---- */

/* An operand that broadcasts: elements from one index of each of the result's dimensions to the next. p NULL: none. */
typedef struct {
    const void *p;
    int type;
    int64_t stride[CU_RANK];
} cu_view;

/* Each group of columns normalised, * gain + bias (numbers of `gain_columns`, which repeat), then modulated. */
typedef struct {
    int x_type, out_type, gain_type, bias_type, kind, one_plus, eps_inside, rank; /* kind: kiln_norm_kind */
    float eps;
    int64_t rows, columns, group, x_ld, out_ld, gain_columns, bias_columns, dim[CU_RANK];
    const void *x, *gain, *bias;
    cu_view scale, shift;
    void *out;
} cu_norm_rows;
cudaError_t cu_norm_rows_run(const cu_norm_rows *, cudaStream_t);

/* x [rows, heads * head]; tables of [1 or N, T, 1 or heads] rows of `half`. */
typedef struct {
    int x_type, out_type, interleaved, table_n, table_heads; /* tables: 1 where they have that dimension */
    int64_t rows, T, heads, head, half, x_ld, out_ld, cos_ld, sin_ld;
    const void *x;
    const float *cosine, *sine;
    void *out;
} cu_rope;
cudaError_t cu_rope_run(const cu_rope *, cudaStream_t);

typedef struct {
    int x_type, out_type, log;
    int64_t rows, columns, x_ld, out_ld, length_columns, length_ld, lengths; /* lengths: 1, or one a row */
    const void *x;
    const int32_t *length; /* or NULL */
    void *out;
} cu_softmax_rows;
cudaError_t cu_softmax_run(const cu_softmax_rows *, cudaStream_t);

/* ---- reductions and sums along an axis (reduce.cu) ---- */

/* Dimensions before the last: those that stay and those that go, and elements from one index to the next. */
typedef struct {
    int x_type, out_type, kind, n_stay, n_go, line; /* line: the last dimension goes */
    int64_t stay[CU_RANK], stay_step[CU_RANK], go[CU_RANK], go_step[CU_RANK];
    int64_t kept, gone, columns, out_columns, out_ld, pieces, per_piece;
    const void *x;
    void *out, *parts; /* parts: cu_reduce_scratch bytes */
} cu_reduce;
size_t cu_reduce_scratch(const cu_reduce *);
cudaError_t cu_reduce_run(const cu_reduce *, cudaStream_t);

/* Rows; or, along another axis, lines of elements `inner` rows apart: of column l % columns, row l / columns of [..,
 * along, inner]. */
typedef struct {
    int x_type, out_type, exclusive, reverse, last;     /* last: the axis is the last one: a line is a row */
    int64_t lines, along, inner, columns, x_ld, out_ld; /* inner: rows from one element of a line to the next */
    const void *x;
    void *out;
} cu_cumsum;
cudaError_t cu_cumsum_run(const cu_cumsum *, cudaStream_t);

/* ---- order (sort.cu) ---- */

/* The k first of each row, and where they stood. room: cu_sort_scratch bytes. */
typedef struct {
    int x_type, ascending;
    int64_t rows, columns, k, padded, x_ld, out_ld, places_ld; /* padded: cu_sort_padded(k) */
    const void *x;
    void *out;
    int32_t *places; /* or NULL */
    uint64_t *room;
} cu_sort;
int64_t cu_sort_padded(int64_t k);
cudaError_t cu_sort_run(const cu_sort *, cudaStream_t);

/* ---- places (places.cu) ---- */

/* n whole numbers in rows of `columns`. */
typedef struct {
    const int32_t *p;
    int64_t n, columns, ld;
} cu_numbers;

/* count[b] = how often b stands among the numbers. */
cudaError_t cu_bincount_run(const cu_numbers *, int64_t bins, int32_t *count, cudaStream_t);

/* x as [outer, places, inner] -> [outer, index.n, inner]; along: x [outer, places] -> [outer, inner], an index for each
 * element. A place outside gives NaN, of whole numbers the least one. */
typedef struct {
    int type, along;
    int64_t outer, places, inner, x_columns, x_ld, out_columns, out_ld;
    cu_numbers index;
    const void *x;
    void *out;
} cu_take;
cudaError_t cu_take_run(const cu_take *, cudaStream_t);

/* x [outer, places, inner], source [outer, index.n, inner]. room: cu_scatter_scratch bytes. */
typedef struct {
    int type, add;
    int64_t outer, places, inner, x_columns, x_ld, source_columns, source_ld, out_ld;
    cu_numbers index;
    const void *x, *source;
    void *out;
    int32_t *room;
} cu_scatter;
size_t cu_scatter_scratch(int64_t places, int64_t n);
cudaError_t cu_scatter_run(const cu_scatter *, cudaStream_t);

/* ---- random numbers (random.cu) ---- */

typedef struct {
    int kind; /* kiln_random */
    int64_t count, columns, out_ld, seed_columns, seed_ld;
    const int32_t *seed;
    float *out;
} cu_random;
cudaError_t cu_random_run(const cu_random *, cudaStream_t);

/* ---- pictures (picture.cu) ---- */

/* A convolution, or the windows of a pool, on a picture of rank 3. w [O, I/groups, taps], transposed [I, O/groups,
 * taps], f32. */
typedef struct {
    int x_type, out_type, pad_mode, transposed, most, include_pad; /* most, include_pad: of a pool */
    int64_t images, x[3], out[3], kernel[3], stride[3], before[3], after[3], dilation[3];
    int64_t columns, in_group, out_group, x_ld, out_ld; /* columns: of the result */
    const void *in;
    const float *w, *bias; /* bias or NULL */
    void *to;
} cu_windows;
cudaError_t cu_conv_run(const cu_windows *, cudaStream_t);
cudaError_t cu_pool_run(const cu_windows *, cudaStream_t);

/* interpolate; and grid_sample, whose mode and padding these are when there is a grid. */
typedef struct {
    int x_type, out_type, grid_type, mode, padding, align_corners, antialias;
    int64_t images, H, W, h, w, columns, x_ld, out_ld, grid_ld;
    const void *in, *grid;
    void *to;
} cu_resize;
cudaError_t cu_interpolate_run(const cu_resize *, cudaStream_t);
cudaError_t cu_grid_sample_run(const cu_resize *, cudaStream_t);

typedef struct {
    int type, mode, rank;
    float value;
    int64_t count, in[CU_RANK], out[CU_RANK], before[CU_RANK], from[CU_RANK], to[CU_RANK]; /* from, to: strides */
    const void *src;
    void *dst;
} cu_pad;
cudaError_t cu_pad_run(const cu_pad *, cudaStream_t);

/* ---- gemm ---- */

/* out[m, n] = sum over k of a[m, k] w[n, k], then the epilogue. a is a matrix, or what a convolution sees of a picture:
 * row m is a place of the result, k = tap * channels + channel, and what lies outside the picture is 0. */
typedef struct {
    int type, out_type; /* of a; w has the same type, rows of `k_packed` elements, zeros behind K */
    int64_t M, N, K, k_packed;
    int64_t a_ld, out_ld;
    int64_t out_columns; /* N, or half of it with geglu */
    const void *a, *w;
    void *out;
    int picture; /* 0: the rest is not looked at */
    int64_t H, W, out_h, out_w, channels;
    int kh, kw, stride_h, stride_w, top, left, dilation_h, dilation_w;
    int splits;     /* parts of K that are summed apart; > 1: partial */
    int parts;      /* > 1, where splits is 1: the parts that one block sums one after the other and adds in their
                       order, which gives the bytes of as many splits */
    float *partial; /* [splits, M, N] */
    cu_epilogue finish;
} cu_gemm;
/* Any sizes and storage, f32 arithmetic (gemm.cu). */
cudaError_t cu_gemm_run(const cu_gemm *, cudaStream_t);
/* bf16 or f16 on tensor cores (gemm_mma.cu): channels or K, a_ld and k_packed multiples of 8, pointers of 16 bytes.
 */
int cu_gemm_mma_takes(const cu_gemm *);
cudaError_t cu_gemm_mma_run(const cu_gemm *, cudaStream_t);
/* The same on sm_90a, with its copy engine (gemm_wgmma.cu), from 65 rows and 33 columns on; a picture's strides up
 * to 8. processors: the chip's. compiled: 0 in a build that is for other chips. */
int cu_gemm_wgmma_compiled(void);
int cu_gemm_wgmma_takes(const cu_gemm *);
cudaError_t cu_gemm_wgmma_run(const cu_gemm *, int processors, cudaStream_t);
/* Up to 16 rows, any storage (gemv.cu; bf16 from sm_80 on): no picture; K (up to 2^28), a_ld and k_packed
 * multiples of 16 bytes, pointers too. splits is 1. */
int cu_gemv_takes(const cu_gemm *);
cudaError_t cu_gemv_run(const cu_gemm *, cudaStream_t);
/* Rows of split-K sums, or of a finished f32 GEMM, through the epilogue (gemm.cu). */
cudaError_t cu_gemm_finish(const cu_gemm *, cudaStream_t);

/* ---- weights that are stored by blocks (blocks.cu) ---- */

enum { CU_MOST_TAPS = 512 };
/* Rows `first` to first + count - 1 of a GEMM's right side, of N rows of K numbers in all, become rows of K numbers of
 * `type`. rows: as stored, whole blocks each, of 64 bytes' alignment; stored in halves with geglu, and, with more than
 * one of at most CU_MOST_TAPS taps, as [channels, taps]. out: of 16 bytes' alignment. */
typedef struct {
    int type, geglu, taps;
    int64_t N, K, first, count;
    int64_t each; /* channels that are turned at once: the launcher's */
    cu_stored stored;
    void *out;
} cu_widen;
cudaError_t cu_widen_run(const cu_widen *, cudaStream_t);
/* Up to 16 rows, any storage of a: no picture; w is not looked at, rows are stored as for cu_widen. splits is 1. */
int cu_gemv_blocks_takes(const cu_gemm *, int block);
cudaError_t cu_gemv_blocks_run(const cu_gemm *, const cu_stored *, cudaStream_t);

/* out[m, i, j] = alpha sum over k of a[m, i, k] b[m, j, k] (+ bias[j]), f32 arithmetic (product.cu). */
typedef struct {
    int type, b_type, out_type;
    cu_stored b_stored; /* block 0: b lies as b_type */
    int64_t matrices, I, J, K, a_ld, out_ld;
    int64_t b_j, b_k; /* elements from one j, one k to the next */
    int dims;         /* of the matrices, the last one first; elements from one to the next */
    int64_t size[CU_RANK], a_step[CU_RANK], b_step[CU_RANK];
    float alpha;
    const void *a, *b;
    void *out;
    const float *bias;
    /* Or NULL: matrix m has rows offsets[m] to offsets[m + 1] - 1 of a and of the result, of I in all, b begins
     * m * b_group elements on, the bias m J; rows of none are 0. */
    const int32_t *offsets;
    int64_t b_group;
} cu_matmul;
cudaError_t cu_matmul_run(const cu_matmul *, cudaStream_t);

/* ---- attention ---- */

enum { CU_BUCKETS = 128 };
/* Whole numbers by image: `step` from one image to the next, 0: the same for all. NULL: there are none. */
typedef struct {
    const int32_t *at;
    int64_t step;
} cu_places;
/* What the plain kernel alone knows; see kiln_attention. */
typedef struct {
    int used; /* 0: nothing of this */
    float softcap;
    int window, bidirectional, table_type, sinks_type;
    int64_t left, right;
    cu_places offset, key_length, q_segment, k_segment, key_position, pages;
    int64_t page, n_pages; /* keys of a page, pages that there are */
    const void *table, *sinks;
    int64_t table_ld, buckets; /* of one direction; from `exact` on bucket i begins at distance start[i] */
    int64_t exact, start[CU_BUCKETS];
    float *lse;
} cu_attention_more;

typedef struct {
    int type, out_type, mask_type;
    int64_t images, heads, queries, keys, head; /* head: its size */
    int64_t group, head_v;                      /* heads of q that read one of k; size of a head of v */
    int64_t q_ld, k_ld, v_ld, out_ld;
    float scale;
    int causal;
    const void *q, *k, *v, *mask;
    int64_t mask_ld, mask_image, mask_head; /* elements from one image, one head to the next; 0: the same for all */
    void *out;
    cu_attention_more more;
} cu_attention;
/* Any sizes, heads of up to CU_WIDEST_HEAD, f32 arithmetic (attention.cu). */
enum { CU_WIDEST_HEAD = 768 };
cudaError_t cu_attention_run(const cu_attention *, cudaStream_t);
/* bf16 or f16 on tensor cores: heads of up to 160 (attention_mma.cu), of 161 to 512 (attention_wide.cu). Head sizes and
 * distances of rows are multiples of 8, q, k and v of 16 bytes. */
int cu_attention_mma_takes(const cu_attention *);
cudaError_t cu_attention_mma_run(const cu_attention *, cudaStream_t);
int cu_attention_wide_takes(const cu_attention *);
cudaError_t cu_attention_wide_run(const cu_attention *, cudaStream_t);

/* ---- vector ops (vector_ops.cu): the formulas of kiln/ops.h, without fused operations ---- */

enum { CU_TERMS = 64 };
typedef struct {
    int64_t n;
    int terms;
    double c[CU_TERMS];
    const float *x[CU_TERMS];
    float *out;
} cu_combine;
cudaError_t cu_combine_run(const cu_combine *, cudaStream_t);

typedef struct {
    int64_t n;
    const float *x, *a, *b;
    double t;
    float *out;
} cu_difference;
cudaError_t cu_difference_run(const cu_difference *, cudaStream_t);

typedef struct {
    int64_t n;
    int terms, has_b; /* has_b 0: the second factor is 1 */
    double a[CU_TERMS], b[CU_TERMS], shift;
    const float *x[CU_TERMS];
    double *out;
} cu_dot;
cudaError_t cu_dot_run(const cu_dot *, cudaStream_t);

typedef struct {
    int64_t pictures, cells, channels, masks;
    const float *a, *b, *mask;
    float *out;
} cu_blend;
cudaError_t cu_blend_run(const cu_blend *, cudaStream_t);

/* A part of each picture: h rows of w cells from row y, column x on. */
typedef struct {
    int64_t pictures, height, width, channels, y, x, h, w;
} cu_area;
cudaError_t cu_crop_run(const cu_area *, const float *x, float *out, cudaStream_t);
typedef struct {
    cu_area area;
    const float *part, *weight; /* weight NULL: 1 */
    int64_t weights;
    float *sum, *total;
} cu_accumulate;
cudaError_t cu_accumulate_run(const cu_accumulate *, cudaStream_t);
cudaError_t cu_divide_run(float *x, const float *total, int64_t cells, int64_t channels, cudaStream_t);

#ifdef __cplusplus
}
#endif
#endif
