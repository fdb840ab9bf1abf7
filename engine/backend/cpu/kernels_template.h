/* kernels_template.h - the bodies of kernels.h over vectors of LANES floats. Included by kernels_plain.c,
 * kernels_avx2.c and kernels_avx512.c (and that by kernels_avx512bf16.c), which define KERNELS (the table's name),
 * KERNELS_TEXT, LANES, GEMM_ROWS, GEMM_VECTORS (the register block of gemm) and VFMA(a, b, c) = a*b + c. No include
 * guard: once per file.
 */
#include "backend/cpu/kernels.h"

#include "graph/expression.h"
#include "kiln/ops.h"
#include "tensor/dtype.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/kernels_vector.h"

INLINE vf vtruth(vi mask) { return (vf)(mask & (vi)splat(1.0f)); }
INLINE vi vfalse(vf x) { return x == splat(0); } /* NaN is true, as in C */
INLINE vi visnan(vf x) { return x != x; }        /* NOLINT: NaN */
/* NaN of either stays; of two that are equal the first. */
#if LANES == 16 /* of a NaN and a number MIN and MAX give the second operand */
INLINE vf or_nan(vf v, vf b)
{
    return (vf)_mm512_mask_mov_ps((__m512)v, _mm512_cmp_ps_mask((__m512)b, (__m512)b, _CMP_UNORD_Q), (__m512)b);
}
INLINE vf vleast(vf a, vf b) { return or_nan((vf)_mm512_min_ps((__m512)b, (__m512)a), b); }
INLINE vf vmost(vf a, vf b) { return or_nan((vf)_mm512_max_ps((__m512)b, (__m512)a), b); }
#else
INLINE vf vleast(vf a, vf b) { return pick(visnan(a), a, pick(b < a, b, pick(visnan(b), b, a))); }
INLINE vf vmost(vf a, vf b) { return pick(visnan(a), a, pick(b > a, b, pick(visnan(b), b, a))); }
#endif
INLINE vf vabs(vf x) { return (vf)((vi)x & 0x7fffffff); }

#include "backend/cpu/kernels_math.h"

/* One loop with its remainder; `v` is the loaded vector and `i` its place. */
#define MAP(x, n, expr)                                                                                                \
    do {                                                                                                               \
        size_t i = 0;                                                                                                  \
        for (; i + LANES <= (n); i += LANES) {                                                                         \
            vf v = get((x) + i);                                                                                       \
            put((x) + i, expr);                                                                                        \
        }                                                                                                              \
        if (i < (n)) {                                                                                                 \
            vf v = get_part((x) + i, (n)-i);                                                                           \
            put_part((x) + i, expr, (n)-i);                                                                            \
        }                                                                                                              \
    } while (0)
#define OTHER(y, n) ((n)-i >= LANES ? get((y) + i) : get_part((y) + i, (n)-i))

static void act(float *x, uint32_t kind, size_t n)
{
    switch (kind) {
    case KILN_ACT_SILU: MAP(x, n, vsilu(v)); break;
    case KILN_ACT_GELU: MAP(x, n, vgelu(v)); break;
    case KILN_ACT_GELU_TANH: MAP(x, n, vgelu_tanh(v)); break;
    case KILN_ACT_QUICK_GELU: MAP(x, n, vquick_gelu(v)); break;
    case KILN_ACT_RELU: MAP(x, n, vrelu(v)); break;
    case KILN_ACT_SIGMOID: MAP(x, n, vsigmoid(v)); break;
    case KILN_ACT_TANH: MAP(x, n, vtanh(v)); break;
    default: break;
    }
}
static void geglu(float *value, const float *gate, size_t n) { MAP(value, n, v * vgelu(OTHER(gate, n))); }
static void add(float *x, const float *y, size_t n) { MAP(x, n, v + OTHER(y, n)); }
static void mul(float *x, const float *y, size_t n) { MAP(x, n, v * OTHER(y, n)); }
static void affine(float *x, float scale, float shift, size_t n) { MAP(x, n, v * splat(scale) + splat(shift)); }
static void normalise(float *x, const float *mean, const float *scale, const float *shift, size_t n)
{
    MAP(x, n, (v - OTHER(mean, n)) * OTHER(scale, n) + OTHER(shift, n));
}

#include "backend/cpu/kernels_convert.h"

/* ---- sums ---- */

static float sum(const float *x, size_t n)
{
    vf s = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) s += get(x + i);
    if (i < n) s += get_part(x + i, n - i);
    return lanes_sum(s);
}
static float squares(const float *x, float mean, size_t n)
{
    vf s = {0};
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        vf d = get(x + i) - splat(mean);
        s += d * d;
    }
    float rest = 0;
    for (; i < n; i++) rest += (x[i] - mean) * (x[i] - mean);
    return lanes_sum(s) + rest;
}
/* ---- gemm ---- */

INLINE void block(const int rows, const int vectors, size_t k, const float *a, size_t lda, size_t step, const float *b,
                  size_t ldb, float *c, size_t ldc, int accumulate)
{
    vf sums[GEMM_ROWS][GEMM_VECTORS];
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++) sums[r][v] =
        accumulate ? get(c + (size_t)r * ldc + v * LANES) : splat(0);
    for (size_t i = 0; i < k; i++) {
        vf columns[GEMM_VECTORS];
        UNROLL for (int v = 0; v < vectors; v++) columns[v] = get(b + i * ldb + v * LANES);
        UNROLL for (int r = 0; r < rows; r++)
        {
            vf x = splat(a[(size_t)r * lda + i * step]);
            UNROLL for (int v = 0; v < vectors; v++) sums[r][v] = VFMA(x, columns[v], sums[r][v]);
        }
    }
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++)
        put(c + (size_t)r * ldc + v * LANES, sums[r][v]);
}

INLINE void strip(const int vectors, size_t m, size_t k, const float *a, size_t lda, size_t step, const float *b,
                  size_t ldb, float *c, size_t ldc, int accumulate)
{
    size_t r = 0;
    for (; r + GEMM_ROWS <= m; r += GEMM_ROWS)
        block(GEMM_ROWS, vectors, k, a + r * lda, lda, step, b, ldb, c + r * ldc, ldc, accumulate);
#if GEMM_ROWS > 4
    for (; r + 4 <= m; r += 4) block(4, vectors, k, a + r * lda, lda, step, b, ldb, c + r * ldc, ldc, accumulate);
#endif
    for (; r + 2 <= m; r += 2) block(2, vectors, k, a + r * lda, lda, step, b, ldb, c + r * ldc, ldc, accumulate);
    for (; r < m; r++) block(1, vectors, k, a + r * lda, lda, step, b, ldb, c + r * ldc, ldc, accumulate);
}

static void gemm(size_t m, size_t n, size_t k, const float *a, size_t lda, size_t step, const float *b, size_t ldb,
                 float *c, size_t ldc, int accumulate)
{
    size_t j = 0;
    for (; j + GEMM_VECTORS * LANES <= n; j += GEMM_VECTORS * LANES)
        strip(GEMM_VECTORS, m, k, a, lda, step, b + j, ldb, c + j, ldc, accumulate);
#if GEMM_VECTORS > 3
    for (; j + 3 * LANES <= n; j += 3 * LANES) strip(3, m, k, a, lda, step, b + j, ldb, c + j, ldc, accumulate);
#endif
#if GEMM_VECTORS > 2
    for (; j + 2 * LANES <= n; j += 2 * LANES) strip(2, m, k, a, lda, step, b + j, ldb, c + j, ldc, accumulate);
#endif
    for (; j + LANES <= n; j += LANES) strip(1, m, k, a, lda, step, b + j, ldb, c + j, ldc, accumulate);
}

/* Two rows at a time share the loads of w; each row's sum is made in the same order alone. */
INLINE void dots_of(const int rows, float *out, const float *w, const float *x, size_t ldx, size_t n)
{
    vf sums[2][4] = {{{0}}};
    size_t j = 0;
    for (; j + 4 * LANES <= n; j += 4 * LANES) UNROLL for (int v = 0; v < 4; v++)
        {
            vf column = get(w + j + (size_t)v * LANES);
            UNROLL for (int r = 0; r < rows; r++) sums[r][v] =
                VFMA(column, get(x + (size_t)r * ldx + j + (size_t)v * LANES), sums[r][v]);
        }
    for (; j < n; j += LANES) {
        size_t left = n - j < LANES ? n - j : LANES;
        UNROLL for (int r = 0; r < rows; r++) sums[r][0] =
            VFMA(get_part(w + j, left), get_part(x + (size_t)r * ldx + j, left), sums[r][0]);
    }
    UNROLL for (int r = 0; r < rows; r++) out[r] += lanes_sum((sums[r][0] + sums[r][1]) + (sums[r][2] + sums[r][3]));
}

static void dots(float *out, const float *w, const float *x, size_t ldx, size_t m, size_t n)
{
    size_t r = 0;
    for (; r + 2 <= m; r += 2) dots_of(2, out + r, w, x + r * ldx, ldx, n);
    if (r < m) dots_of(1, out + r, w, x + r * ldx, ldx, n);
}

/* Some vectors of columns at once: the greatest of one alone would wait for itself. A NaN is in no maximum, and in the
 * sum. */
INLINE int softmax_columns(const size_t vectors, float *s, size_t ld, size_t keys, float *max, float *sum, float *scale)
{
    vf before[2], top[2], base[2], sums[2] = {{0}};
    int rescale = 0;
    UNROLL for (size_t v = 0; v < vectors; v++) before[v] = top[v] = get(max + v * LANES);
    for (size_t i = 0; i < keys; i++)
        UNROLL for (size_t v = 0; v < vectors; v++) top[v] = vmax(get(s + i * ld + v * LANES), top[v]);
    UNROLL for (size_t v = 0; v < vectors; v++) base[v] =
        pick(top[v] == splat(-INFINITY), splat(0), top[v]); /* nothing seen so far: all stays 0 */
    for (size_t i = 0; i < keys; i++) UNROLL for (size_t v = 0; v < vectors; v++)
        {
            vf p = vexp2_low(get(s + i * ld + v * LANES) - base[v]);
            sums[v] += p;
            put(s + i * ld + v * LANES, p);
        }
    UNROLL for (size_t v = 0; v < vectors; v++)
    {
        vf factor = vexp2_low(before[v] - base[v]);
        vi moved = top[v] > before[v];
        for (size_t i = 0; i < LANES; i++) rescale |= moved[i];
        put(scale + v * LANES, factor);
        put(max + v * LANES, top[v]);
        put(sum + v * LANES, VFMA(get(sum + v * LANES), factor, sums[v]));
    }
    return rescale;
}

static int softmax(float *s, size_t ld, size_t keys, size_t columns, float *max, float *sum, float *scale)
{
    size_t c = 0;
    int rescale = 0;
    for (; c + 2 * LANES <= columns; c += 2 * LANES)
        rescale |= softmax_columns(2, s + c, ld, keys, max + c, sum + c, scale + c);
    if (c < columns) rescale |= softmax_columns(1, s + c, ld, keys, max + c, sum + c, scale + c);
    return rescale;
}

static void transpose_four(float *dst, size_t ldd, const float *src, size_t lds)
{
    typedef float four __attribute__((vector_size(16), aligned(4)));
    four a = *(const four *)(const void *)src, b = *(const four *)(const void *)(src + lds),
         c = *(const four *)(const void *)(src + 2 * lds), d = *(const four *)(const void *)(src + 3 * lds);
    four e = {a[0], b[0], a[1], b[1]}, f = {c[0], d[0], c[1], d[1]};
    four g = {a[2], b[2], a[3], b[3]}, h = {c[2], d[2], c[3], d[3]};
    *(four *)(void *)dst = (four){e[0], e[1], f[0], f[1]};
    *(four *)(void *)(dst + ldd) = (four){e[2], e[3], f[2], f[3]};
    *(four *)(void *)(dst + 2 * ldd) = (four){g[0], g[1], h[0], h[1]};
    *(four *)(void *)(dst + 3 * ldd) = (four){g[2], g[3], h[2], h[3]};
}
static void transpose_fours(float *dst, size_t ldd, const float *src, size_t lds, size_t rows, size_t columns)
{
    enum { SIDE = 16 };
    size_t whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
    for (size_t top = 0; top < whole_columns; top += SIDE)
        for (size_t r = 0; r < whole_rows; r += 4)
            for (size_t c = top; c < whole_columns && c < top + SIDE; c += 4)
                transpose_four(dst + c * ldd + r, ldd, src + r * lds + c, lds);
    for (size_t c = 0; c < columns; c++)
        for (size_t r = c < whole_columns ? whole_rows : 0; r < rows; r++) dst[c * ldd + r] = src[r * lds + c];
}

/* 8 x 8: neighbours are paired, then pairs, then fours. */
static void transpose_eight(uint16_t *dst, size_t ldd, const uint16_t *src, size_t lds)
{
    typedef uint16_t half8 __attribute__((vector_size(16), aligned(2)));
    typedef uint32_t word4 __attribute__((vector_size(16)));
    typedef uint64_t pair2 __attribute__((vector_size(16)));
    half8 row[8], two[8];
    word4 four[8];
    pair2 out[8];
    for (int i = 0; i < 8; i++) row[i] = *(const half8 *)(const void *)(src + (size_t)i * lds);
    for (int i = 0; i < 4; i++) {
        half8 a = row[2 * i], b = row[2 * i + 1];
        two[2 * i] = (half8){a[0], b[0], a[1], b[1], a[2], b[2], a[3], b[3]};
        two[2 * i + 1] = (half8){a[4], b[4], a[5], b[5], a[6], b[6], a[7], b[7]};
    }
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            word4 a = (word4)two[4 * i + k], b = (word4)two[4 * i + 2 + k];
            four[4 * i + 2 * k] = (word4){a[0], b[0], a[1], b[1]};
            four[4 * i + 2 * k + 1] = (word4){a[2], b[2], a[3], b[3]};
        }
    for (int k = 0; k < 4; k++) {
        pair2 a = (pair2)four[k], b = (pair2)four[4 + k];
        out[2 * k] = (pair2){a[0], b[0]};
        out[2 * k + 1] = (pair2){a[1], b[1]};
    }
    for (int i = 0; i < 8; i++) *(half8 *)(void *)(dst + (size_t)i * ldd) = (half8)out[i];
}

static void transpose_eights(uint16_t *dst, size_t ldd, const uint16_t *src, size_t lds, size_t rows, size_t columns)
{
    size_t whole_rows = rows / 8 * 8, whole_columns = columns / 8 * 8;
    for (size_t c = 0; c < whole_columns; c += 8)
        for (size_t r = 0; r < whole_rows; r += 8) transpose_eight(dst + c * ldd + r, ldd, src + r * lds + c, lds);
    for (size_t c = 0; c < columns; c++)
        for (size_t r = c < whole_columns ? whole_rows : 0; r < rows; r++) dst[c * ldd + r] = src[r * lds + c];
}

#include "backend/cpu/kernels_turn.h"

#include "backend/cpu/kernels_rows.h"

#include "backend/cpu/kernels_short.h"

#include "backend/cpu/kernels_map.h"

#include "backend/cpu/kernels_stored.h"

#include "backend/cpu/kernels_random.h"

#include "backend/cpu/kernels_blocks.h"

#include "backend/cpu/kernels_attention.h"
#include "backend/cpu/kernels_depthwise.h"

#include "backend/cpu/kernels_winograd.h"

const cpu_kernels KERNELS = {
    .name = KERNELS_TEXT,
    .load = load,
    .store = store,
    .store_saturating = store_saturating,
    .store_past = store_past,
    .copy = copy,
    .copy_past = copy_past,
    .act = act,
    .geglu = geglu,
    .act_short = act_short,
    .geglu_short = geglu_short,
    .map = map,
    .add = add,
    .mul = mul,
    .affine = affine,
    .normalise = normalise,
    .sum = sum,
    .squares = squares,
    .moments = moments,
    .gemm = gemm,
    .dots = dots,
    .softmax = softmax,
    .transpose = transpose,
    .transpose_half = transpose_half,
    .transpose_past = transpose_past,
    .transpose_half_past = transpose_half_past,
    .top_eight = top_eight,
    .top_eight_wide = top_eight_wide,
    .winograd_input = winograd_input,
    .winograd_weight = winograd_weight,
    .winograd_output = winograd_output,
    .norm_row = norm_row,
    .modulate = modulate,
    .rope_halves = rope_halves,
    .rope_pairs = rope_pairs,
    .fold_row = fold_row,
    .find = find,
    .weigh_stored = weigh_stored,
    .shift_row = shift_row,
    .scale_row = scale_row,
    .sum_rows = sum_rows,
    .squares_rows = squares_rows,
    .layer_row = layer_row,
    .norm_whole = norm_whole,
    .geglu_whole = geglu_whole,
    .exp_row = exp_row,
    .prefix_row = prefix_row,
    .order_keys = order_keys,
    .count = count,
    .pick_places = pick_places,
    .axpy = axpy,
    .blocks_read = blocks_read,
    .codes_read = codes_read,
    .codes_dots = codes_dots,
    .blocks_dots = blocks_dots,
    .turn_words = turn_words,
    .pair_words = pair_words,
    .products_stored = products_stored,
    .fold_stored = fold_stored,
    .sum_weighed = sum_weighed,
    .blend_lanes = blend_lanes,
    .most_half = most_half,
    .blend_row = blend_row,
    .act_half = act_half,
    .join_half = join_half,
    .affine_half = affine_half,
    .shift_half = shift_half,
    .normalise_half = normalise_half,
    .exp_half = exp_half,
    .store_scaled = store_scaled,
    .norm_half = norm_half,
    .layer_stored = layer_stored,
    .groups_stored = groups_stored,
    .rope_pairs_half = rope_pairs_half,
    .rope_halves_half = rope_halves_half,
    .fold_groups = fold_groups,
    .prefix_columns = prefix_columns,
    .windows_row = windows_row,
    .depthwise_row = depthwise_row,
    .random_row = random_row,
    .waves = waves,
    .fold_row_stored = fold_row_stored,
    .fold_place_stored = fold_place_stored,
    .fold_exp_stored = fold_exp_stored,
    .arrange = arrange,
    .arrange_back = arrange_back,
    .key_scores = key_scores,
    .key_row = key_row,
#ifdef __AVX512BF16__
    .key_scores_bf16 = key_scores_bf16,
    .key_row_bf16 = key_row_bf16,
#endif
    .softmax_keys = softmax_keys,
    .value_sums = value_sums,
    .value_row = value_row,
    .depthwise = depthwise,
    .sum_pixels = sum_pixels,
};
