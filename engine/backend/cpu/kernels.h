/* kernels.h - the inner loops of the CPU backend, as a table chosen once by what the processor has.
 *
 * kernels_template.h holds one body of code over vectors of a compile-time width; it is compiled four times: plain
 * (16-byte vectors, what every x86-64 and aarch64 has), AVX2+FMA, AVX-512, and that with its bf16. Everything works on
 * rows of floats in cache: load() and store() convert from and to the storage type, so an op is load, compute, store.
 * n is any number; pointers have the alignment of their element type.
 */
#ifndef KILN_BACKEND_CPU_KERNELS_H
#define KILN_BACKEND_CPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Bytes of a line, and what __builtin_prefetch calls a place in the second cache. */
enum { CACHE_LINE = 64, SECOND_LEVEL = 2 };

/* n numbers of up to three operands, stored as f32, bf16 or f16, and of what is made of them, f32 or bf16. */
typedef struct {
    const void *x[3];
    void *to;
    uint32_t type[3], to_type;
    size_t n;
    int few_bits; /* functions of kernels_short.h will do */
    int past;     /* past the caches */
} map_row;

/* Result r: the sum over taps t, in order, of what is stored at x[t] + r step bytes times w[place[t]] and on, plus bias
 * or NULL. */
typedef struct {
    const void *const *x;
    const float *w, *bias;
    const size_t *place;
    size_t taps, step;
    uint32_t type;
} depthwise_taps;

/* Winograd: channels that are transformed together, and floats between the points of a transform, so that these do not
 * fall into one set of the first-level cache. */
enum { WINOGRAD_BLOCK = 64, WINOGRAD_APART = 16 };

/* What becomes of a transformed square: 36 sums of n channels, ldm apart, are 4x4 pixels; plus bias or NULL, plus a
 * pixel of another tensor (added_type 0: of none). to[i] NULL: pixel i lies outside. f32 or bf16 is stored; what lies
 * `ahead` bytes behind it is fetched. */
typedef struct {
    const float *m, *bias;
    size_t ldm, ahead;
    const void *added[16];
    void *to[16];
    uint32_t added_type, type;
} winograd_square;

/* A row of codes: each stands for a number, which is multiplied by the scale of its columns. */
enum { CODES_E4M3 = 1, CODES_E5M2, CODES_INT8, CODES_NIBBLES }; /* two in a byte, the first in the high bits */
typedef struct {
    int kind;
    const uint8_t *codes;
    const float *scale; /* one for each scale_columns; NULL: none */
    size_t scale_columns;
    const float *codebook; /* of nibbles: 16 numbers */
} code_row;

typedef struct cpu_kernels {
    const char *name;
    /* f32, bf16, f16 -> f32 and back, rounding to nearest even */
    void (*load)(float *dst, const void *src, uint32_t dtype, size_t n);
    void (*store)(void *dst, uint32_t dtype, const float *src, size_t n);
    /* In f16 what is beyond 65504 becomes 65504, with its sign; NaN stays. */
    void (*store_saturating)(void *dst, uint32_t dtype, const float *src, size_t n);
    /* store(), and copies of bytes; *_past leave the caches to others: for results that are larger than those. Another
     * thread sees them after an sfence. */
    void (*store_past)(void *dst, uint32_t dtype, const float *src, size_t n);
    void (*copy)(void *to, const void *from, size_t bytes);
    void (*copy_past)(void *to, const void *from, size_t bytes);
    /* x = act(x). exp within 2 ulp; erf within 1.5e-7 absolute (Abramowitz and Stegun 7.1.26). */
    void (*act)(float *x, uint32_t act, size_t n);
    void (*geglu)(float *value, const float *gate, size_t n); /* value *= gelu(gate)          */
    /* The same by functions of kernels_short.h, for what is stored in bf16 as it is. */
    void (*act_short)(float *x, uint32_t act, size_t n);
    void (*geglu_short)(float *value, const float *gate, size_t n);
    /* One operation of an expression (map_op, but LOAD and NUMBER); `to` may be one of its operands. */
    void (*map)(uint32_t op, const map_row *row);
    void (*add)(float *x, const float *y, size_t n); /* x += y                       */
    void (*mul)(float *x, const float *y, size_t n); /* x *= y                       */
    void (*affine)(float *x, float scale, float shift, size_t n);
    void (*normalise)(float *x, const float *mean, const float *scale, const float *shift,
                      size_t n); /* (x-mean)*scale+shift */
    float (*sum)(const float *x, size_t n);
    float (*squares)(const float *x, float mean, size_t n); /* sum of (x-mean)^2 */
    /* Row after row, as they are stored: sum[i] += x[i] - origin[i]; squares[i] += (x[i] - origin[i])^2 */
    void (*moments)(float *sum, float *squares, const void *const *x, size_t rows, uint32_t type, const float *origin,
                    size_t n);
    /* c[m][n] = a b (+ c when `accumulate`), element (i, j) of a at a[i lda + j step]; n a multiple of 16 */
    void (*gemm)(size_t m, size_t n, size_t k, const float *a, size_t lda, size_t step, const float *b, size_t ldb,
                 float *c, size_t ldc, int accumulate);
    /* out[i] += sum of w[j] x[i ldx + j] over j < n, for i < m */
    void (*dots)(float *out, const float *w, const float *x, size_t ldx, size_t m, size_t n);
    /* One step of an online softmax, base 2: every column (their number a multiple of 16) of s is one query's scores of
     * `keys` keys. s becomes 2^(s - max'), sum and max are brought forward, and scale is what sums made before are
     * to be multiplied by; returns whether any is not 1. */
    int (*softmax)(float *s, size_t ld, size_t keys, size_t columns, float *max, float *sum, float *scale);
    /* dst[column][row] = src[row][column] for one block, dst rows `ldd` apart */
    void (*transpose)(float *dst, size_t ldd, const float *src, size_t lds, size_t rows, size_t columns);
    /* The same for 16-bit elements. */
    void (*transpose_half)(uint16_t *dst, size_t ldd, const uint16_t *src, size_t lds, size_t rows, size_t columns);
    /* Both past the caches. */
    void (*transpose_past)(float *dst, size_t ldd, const float *src, size_t lds, size_t rows, size_t columns);
    void (*transpose_half_past)(uint16_t *dst, size_t ldd, const uint16_t *src, size_t lds, size_t rows,
                                size_t columns);
    /* Of 16 rows of bf16, ld apart: the places of the 8 greatest of each, [16][8], greatest first, in the order of
     * order_keys(); columns from 8 to 65535. */
    void (*top_eight)(uint16_t *place, const uint16_t *x, size_t ld, size_t columns, uint32_t flip);
    void (*top_eight_wide)(uint16_t *place, const float *x, size_t ld, size_t columns, uint32_t flip); /* of f32 */
    /* Winograd F(4x4,3x3).
     * input: 6x6 pixels of n channels, a multiple of 16, f32 or bf16 -> 36 points of n, ldv apart; what lies `ahead`
     * bytes behind the pixels is fetched.
     * weight: filters [n][9][WINOGRAD_BLOCK] -> 36 points of [n][WINOGRAD_BLOCK], always as far apart as those of
     * WINOGRAD_BLOCK channels, and WINOGRAD_APART more.
     * output: n channels, a multiple of 16. */
    void (*winograd_input)(float *v, size_t ldv, const void *const pixel[36], uint32_t dtype, size_t ahead, size_t n);
    void (*winograd_weight)(float *u, const void *w, uint32_t dtype, size_t n);
    void (*winograd_output)(const winograd_square *, size_t n);

    /* ---- rows (kernels_rows.h) ---- */
    /* x = (x - mean) * factor * gain + bias; gain, bias or NULL */
    void (*norm_row)(float *x, float mean, float factor, const float *gain, const float *bias, size_t n);
    void (*modulate)(float *x, const float *scale, const float *shift, size_t n); /* x (1 + scale) + shift; or NULL */
    /* n pairs are turned: (a[i], b[i]), or (x[2i], x[2i+1]). */
    void (*rope_halves)(float *a, float *b, const float *cosine, const float *sine, size_t n);
    void (*rope_pairs)(float *x, const float *cosine, const float *sine, size_t n);
    /* All of a row: the sum, or what else SUM, L2 (squares), MAX, MIN, PROD of kiln_reduce do. NaN stays. */
    float (*fold_row)(uint32_t kind, const float *x, size_t n);
    size_t (*find)(const float *x, float v, size_t n); /* the first that is v or NaN; n: none */
    void (*shift_row)(float *to, const float *x, float a, float b, size_t n, int past); /* to = (x - a) - b */
    void (*scale_row)(float *to, const float *x, float by, size_t n, int past);         /* to = x by */
    /* sum() and squares() of up to 4 rows, `ld` apart; layer_row: x = (x - mean) (factor gain) + bias, or NULL */
    void (*sum_rows)(float *to, const float *x, size_t ld, size_t rows, size_t n);
    void (*squares_rows)(float *to, const float *mean, const float *x, size_t ld, size_t rows, size_t n);
    /* norm_row() and modulate(), with their bytes; more: gain, bias, scale, shift or NULL */
    void (*norm_whole)(void *to, const float *x, float mean, float factor, const float *const more[4], size_t n,
                       int past);
    void (*geglu_whole)(void *to, const float *value, const float *gate, size_t n, int past);
    void (*layer_row)(float *x, float mean, float factor, const float *gain, const float *bias, size_t n);
    float (*exp_row)(float *to, const float *x, float base, size_t n); /* to = e^(x - base); their sum */
    /* to[i] = carry + x[0] + .. + x[i], or without x[i]; both stored as f32 or bf16 */
    void (*prefix_row)(void *to, const void *x, uint32_t type, double *carry, int exclusive, size_t n, int past);
    /* Counters for each of 0 .. bins - 1 (COUNTED_BINS at most) and one more for any other number: number i of x raises
     * one of part[COUNTERS][COUNTER_STRIDE]. */
    void (*count)(uint32_t *part, const int32_t *x, uint32_t bins, size_t n);
    /* to[i] = from[place[i]], elements of 2 or 4 bytes, or nothing if a place is not below `places`: the number of the
     * first such one, or n. */
    size_t (*pick_places)(void *to, const void *from, const int32_t *place, uint32_t places, size_t size, size_t n);
    /* key: whole numbers in the order of x, all bits turned where `flip` has ones; the greatest of them. */
    uint32_t (*order_keys)(uint32_t *key, const float *x, uint32_t flip, size_t n);

    /* ---- weights stored by blocks (kernels_blocks.h): `type` is such a one, n whole blocks of it ---- */
    /* The numbers as f32 or bf16. */
    void (*blocks_read)(void *to, uint32_t as, uint32_t type, const void *blocks, size_t n);
    /* Numbers [column, column + n) of a row of codes, as f32 or bf16; of CODES_NIBBLES from an even column on. */
    void (*codes_read)(void *to, uint32_t as, const code_row *row, size_t column, size_t n);
    /* dots() with such numbers for w */
    void (*blocks_dots)(float *out, uint32_t type, const void *blocks, const float *x, size_t ldx, size_t m, size_t n);
    void (*codes_dots)(float *out, const code_row *row, const float *x, size_t ldx, size_t m, size_t n);
    /* to[column][row] of 16 rows of n words; rows `ld` words apart, columns of `to` ldt */
    void (*turn_words)(uint32_t *to, size_t ldt, const uint32_t *rows, size_t ld, size_t n);
    /* 16 words: half `low` of 16 turned rows, columns 16 words apart, below half `high` of them */
    void (*pair_words)(uint32_t *to, const uint32_t *words, size_t low, size_t high);
    /* Up to 4 rows x as they are stored, f32, bf16 or f16: to[g ld + i] += w[r ldw + g] x[r][i], row after row. */
    void (*weigh_stored)(float *to, size_t ld, size_t m, const float *w, size_t ldw, const void *const *x, size_t rows,
                         uint32_t type, size_t n);
    void (*axpy)(float *to, const float *x, float w, size_t n); /* to += w x */
    /* Rows x as they are stored, f32, bf16 or f16, row after row, column by column: to += x[r] w[r]; acc = acc + x[r],
     * or as fold_row; where x is better than `best` (NaN is better than numbers), it takes its place, and the row's
     * number, `at` and on; total is the sum of e^(x - top) of what came, top the greatest of it. */
    void (*products_stored)(float *to, const void *const *x, const float *const *w, size_t rows, uint32_t type,
                            size_t n);
    void (*fold_stored)(uint32_t kind, float *acc, const void *const *x, size_t rows, uint32_t type, size_t n);
    void (*fold_place_stored)(uint32_t least, float *best, float *place, const void *const *x, size_t rows,
                              uint32_t type, float at, size_t n);
    void (*fold_exp_stored)(float *top, float *total, const void *const *x, size_t rows, uint32_t type, size_t n);
    float (*fold_row_stored)(uint32_t kind, const void *x, uint32_t type, size_t n); /* fold_row */
    void (*sum_weighed)(float *to, const float *w, const void *const *x, size_t rows, uint32_t type,
                        size_t n); /* to = the sum over up to 4 rows of w[r] x[r] */
    /* n numbers that are a sum over k < most: of those of vector v (16 of them) number l is w[(v most + k) 16 + l]
     * times x[base[v] + place[(v most + k) 16 + l]]; 32 floats can be read at base[v]. */
    void (*blend_lanes)(void *to, uint32_t type, const float *x, const int32_t *base, const uint8_t *place,
                        const float *w, size_t most, size_t n, int past);
    /* The greatest of rows of bf16, NaN above all: rows of numbers become keys that are ordered as whole numbers are,
     * rows of keys become numbers. */
    void (*most_half)(void *to, const void *const *x, size_t rows, int keys, size_t n, int past);
    /* Pixels of `channels` numbers, in a row; `step` bytes from one of the result to the next, stored in `type`: pixel
     * o is the sum over k < most of weight[o most + k] times pixel place[o most + k]. */
    void (*blend_row)(void *to, uint32_t type, size_t step, const float *row, const int32_t *place, const float *weight,
                      size_t most, size_t pixels, size_t channels, int past);

    /* ---- results that are stored in bf16 (kernels_short.h), past the caches or not ---- */
    /* x and y are bf16, as is what `to` gets. */
    void (*act_half)(void *to, const void *x, uint32_t act, size_t n, int past);
    void (*join_half)(void *to, const void *x, const void *y, uint32_t how, size_t n, int past); /* HALF_ADD .. */
    void (*affine_half)(void *to, const void *x, float scale, float shift, size_t n, int past);
    void (*shift_half)(void *to, const void *x, float a, float b, size_t n, int past); /* (x - a) - b */
    /* act(x scale + shift), act none or SILU */
    void (*normalise_half)(void *to, const void *x, const float *scale, const float *shift, uint32_t act, size_t n,
                           int past);
    float (*exp_half)(float *to, const void *x, float base, size_t n);               /* exp_row; to or NULL */
    void (*store_scaled)(void *to, const float *x, float scale, size_t n, int past); /* of floats */
    /* Of floats: norm_row() and modulate(), more: gain, bias, scale, shift or NULL. n numbers of bf16 at `next` are
     * fetched meanwhile. */
    void (*norm_half)(void *to, const float *x, float mean, float factor, const float *const more[4], const void *next,
                      size_t n, int past);
    /* All of layer norm, a row of bf16 becoming one: (x - mean) / sqrt(variance + eps) gain + bias; or NULL. */
    void (*layer_stored)(void *to, const void *x, double eps, const float *gain, const float *bias, size_t n, int past);
    /* Groups of n numbers, one after the other: x factor gain + bias (or NULL; of all groups), factor by norm_factor.
     */
    void (*groups_stored)(void *to, const void *x, uint32_t how, double eps, const float *gain, const float *bias,
                          size_t n, size_t groups, int past);
    /* n pairs */
    void (*rope_pairs_half)(void *to, const void *x, const float *cosine, const float *sine, size_t n, int past);
    void (*rope_halves_half)(void *to, const void *x, const float *cosine, const float *sine, size_t n, int past);
    /* `count` groups of n numbers, one after the other: fold_row() of each, SUM or L2 */
    void (*fold_groups)(uint32_t kind, float *to, const float *x, size_t n, size_t count);
    /* Rows x as they are stored in `type`, as the result is, `step` bytes apart: sums += x, row after row, and the row
     * of the result is sums, after that or before it. */
    void (*prefix_columns)(void *to, size_t step_to, const void *x, size_t step, uint32_t type, float *sums,
                           size_t rows, int before, size_t n, int past);
    /* Pixels of `channels` floats in a row: result o, `step` bytes apart, is the greatest of pixels o stride and the
     * `window` - 1 behind it, or (SUM) their sum times scale. */
    void (*windows_row)(uint32_t kind, void *to, uint32_t type, size_t step, const float *x, size_t stride,
                        size_t window, float scale, size_t pixels, size_t channels, int past);
    /* The sum of x[r] w[r], row after row, plus bias or NULL; x and the result are stored in `type`. */
    void (*depthwise_row)(void *to, uint32_t type, const void *const *x, const float *const *w, size_t rows,
                          const float *bias, size_t n, int past);
    /* The sines and cosines of the floats `by` x, as those of doubles, as f32 or bf16 */
    void (*waves)(void *sines, void *cosines, uint32_t type, const float *x, float by, size_t n);
    /* n numbers of kiln_random from number `first` on: those of philox_4x32.h */
    void (*random_row)(uint32_t kind, float *to, uint64_t seed, uint64_t offset, uint64_t first, size_t n);

    /* ---- a few queries against many keys (kernels_attention.h): rows as they are stored, f32, bf16 or f16 ----
     * Arranged: a row in an order of its own, filled up with zeros to a multiple of ATTEND_LINE. */
    void (*arrange)(float *to, const float *from, uint32_t type, size_t n);
    void (*arrange_back)(float *to, const float *from, uint32_t type, size_t n);
    /* to[g ldt + i] = q[g ldq ..] k[i], for g < m arranged queries and i < keys, a multiple of ATTEND_KEY_SET; what
     * lies `ahead` bytes behind them is fetched. row: of heads one behind the other, to[h] = q[h ldq ..] k[h n ..].
     * _bf16: by bf16's products (NULL: the processor has none), of bf16 keys and queries that are bf16, filled up, not
     * arranged. */
    void (*key_scores)(float *to, size_t ldt, const float *q, size_t ldq, size_t m, const void *const *k, size_t keys,
                       uint32_t type, size_t n, size_t ahead);
    void (*key_row)(float *to, const float *q, size_t ldq, size_t heads, const void *k, uint32_t type, size_t n);
    void (*key_scores_bf16)(float *to, size_t ldt, const uint16_t *q, size_t ldq, size_t m, const void *const *k,
                            size_t keys, size_t n, size_t ahead);
    void (*key_row_bf16)(float *to, const uint16_t *q, size_t ldq, size_t heads, const void *k, size_t n);
    /* softmax() of one query's scores side by side, a multiple of 16, times `factor`; returns what its sums made before
     * are to be multiplied by. */
    float (*softmax_keys)(float *s, size_t keys, float factor, float *max, float *sum);
    /* to[g ld ..] += w[g ldw + i] v[i], arranged, for g < m and rows, a multiple of ATTEND_VALUE_SET, in order; and, of
     * heads one behind the other in one row, to[h ld ..] += w[h ldw] v[h n ..]. */
    void (*value_sums)(float *to, size_t ld, const float *w, size_t ldw, size_t m, const void *const *v, size_t rows,
                       uint32_t type, size_t n, size_t ahead);
    void (*value_row)(float *to, size_t ld, const float *w, size_t ldw, size_t heads, const void *v, uint32_t type,
                      size_t n);
    /* DEPTHWISE_RESULTS results side by side, n numbers each, `ldt` bytes apart, of f32 or bf16; of up to
     * MOST_DEPTHWISE_TAPS taps. */
    void (*depthwise)(void *to, uint32_t to_type, size_t ldt, const depthwise_taps *d, size_t n, int past);
    /* Up to 16 rows x as they are stored, of f32, bf16 or f16: a row of f32 or bf16 is the sum of w[r] x[r], row after
     * row. Nothing but these rows is read. */
    void (*sum_pixels)(void *to, uint32_t to_type, const float *w, const void *const *x, size_t rows, uint32_t type,
                       size_t n, int past);
} cpu_kernels;

enum { HALF_ADD, HALF_MUL, HALF_GEGLU }; /* x + y, x y, x gelu(y) */
/* 1 over the root of the mean square + eps, of the sum of squares + eps; over that sum's root, eps at least. */
enum { NORM_MEAN_SQUARE, NORM_SQUARES, NORM_ROOT };
enum {
    COUNTERS = 8,
    COUNTED_BINS = 1024,
    /* Counters of few bins do not share the lower 12 bits of an address, by which a processor first takes a load for
     * one of what was just stored. */
    COUNTER_STRIDE = COUNTED_BINS + 64,
    DEPTHWISE_RESULTS = 8,
    MOST_DEPTHWISE_TAPS = 64,
    ATTEND_KEY_SET = 4,
    ATTEND_VALUE_SET = 8,
    ATTEND_LINE = 32
};

extern const cpu_kernels kernels_plain, kernels_avx2, kernels_avx512, kernels_avx512bf16;

#endif
