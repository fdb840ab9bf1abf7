/* block_search.c - the scales of blocks with sub-blocks; see block.h.
 *
 * Each sub-block's scale (and minimum) is found first: codes are rounded by a few dozen scales around the one that
 * reaches the largest number, for each the best factor of those codes follows by least squares, and the one of least
 * squared error stays. The block's own scale then holds the largest of them in 4, 6 or 8 bits; with what has become of
 * the scales by that, and with their neighbours, codes are rounded again.
 */
#include "tensor/block_search.h"

#include <math.h>
#include <string.h>

enum { LONGEST = 32, LANES = 8 }; /* sums go by lanes, so that they are the same whatever the vectors' length */

/* To nearest even, of magnitudes below 2^22. */
static inline float rounded(float v)
{
    const float shift = 12582912.0f; /* 1.5 2^23: no bits are left behind the point */
    return (v + shift) - shift;
}

static inline float total(const float v[LANES])
{
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
}

static float half_of(float v) { return f16_to_f32(f16_from_f32(v)); }

static void put_half(uint8_t *p, float f)
{
    uint16_t h = f16_from_f32(f);
    p[0] = (uint8_t)h, p[1] = (uint8_t)(h >> 8);
}

/* ---- x = s q - t, q from 0 to `most`, s and t not negative ---- */

typedef struct {
    float s, t;
} affine;

static inline float affine_error(const float *restrict x, int n, affine f, int most, float q[restrict LONGEST])
{
    float id = f.s > 0 ? 1 / f.s : 0, sum[LANES] = {0};
    for (int i = 0; i < n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            float v = (x[i + k] + f.t) * id;
            v = v > 0 ? v : 0;
            q[i + k] = rounded(v < (float)most ? v : (float)most);
            float off = f.s * q[i + k] - f.t - x[i + k];
            sum[k] += off * off;
        }
    return total(sum);
}

/* The best s and t for given codes. */
static inline affine affine_of(const float *restrict x, int n, const float *restrict q)
{
    float each[4][LANES] = {{0}};
    for (int i = 0; i < n; i += LANES)
        for (int k = 0; k < LANES; k++) {
            each[0][k] += x[i + k], each[1][k] += q[i + k];
            each[2][k] += q[i + k] * q[i + k], each[3][k] += q[i + k] * x[i + k];
        }
    double sx = (double)total(each[0]), sq = (double)total(each[1]), sqq = (double)total(each[2]),
           sqx = (double)total(each[3]);
    double under = n * sqq - sq * sq, s = under > 0 ? (n * sqx - sq * sx) / under : 0, t = (s * sq - sx) / n;
    if (t < 0) t = 0, s = sqq > 0 ? sqx / sqq : 0;
    return (affine){s > 0 ? (float)s : 0, (float)t};
}

static affine affine_search(const float *x, int n, int most)
{
    enum { TRIES = 21 };
    float low = 0, high = 0, q[LONGEST];
    for (int i = 0; i < n; i++) low = fminf(low, x[i]), high = fmaxf(high, x[i]);
    affine best = {(high - low) / (float)most, -low};
    if (!(best.s > 0)) return (affine){0, -low};
    float least = affine_error(x, n, best, most, q);
    for (int k = 0; k < TRIES; k++) {
        affine f = {(high - low) / ((float)most - 1 + 0.1f * (float)k), -low};
        affine_error(x, n, f, most, q);
        f = affine_of(x, n, q);
        float error = affine_error(x, n, f, most, q);
        if (error < least) least = error, best = f;
    }
    return best;
}

typedef struct {
    int parts, n, most; /* sub-blocks, elements in each, largest code */
    int steps;          /* largest value of a stored scale or minimum */
} affine_kind;

typedef struct {
    float d, dmin;
    uint8_t scale[16], min[16], q[256];
} affine_block;

/* Of a part's rounded scale and minimum and their neighbours those of least error. */
static void affine_settle(const affine_kind *k, const float *x, affine want, affine_block *out, int part)
{
    float least = INFINITY, q[LONGEST];
    int s0 = out->d > 0 ? (int)rounded(want.s / out->d) : 0, t0 = out->dmin > 0 ? (int)rounded(want.t / out->dmin) : 0;
    for (int s = s0 - 1; s <= s0 + 1; s++)
        for (int t = t0 - 1; t <= t0 + 1; t++) {
            if (s < 0 || t < 0 || s > k->steps || t > k->steps) continue;
            float error = affine_error(x, k->n, (affine){out->d * (float)s, out->dmin * (float)t}, k->most, q);
            if (error >= least) continue;
            least = error;
            out->scale[part] = (uint8_t)s, out->min[part] = (uint8_t)t;
            for (int i = 0; i < k->n; i++) out->q[part * k->n + i] = (uint8_t)q[i];
        }
}

static void affine_search_block(const affine_kind *k, const float *x, affine_block *out)
{
    affine part[16];
    float s = 0, t = 0;
    for (int i = 0; i < k->parts; i++) {
        part[i] = affine_search(x + i * k->n, k->n, k->most);
        s = fmaxf(s, part[i].s), t = fmaxf(t, part[i].t);
    }
    memset(out, 0, sizeof *out);
    out->d = half_of(s / (float)k->steps);
    out->dmin = half_of(t / (float)k->steps);
    for (int i = 0; i < k->parts; i++) affine_settle(k, x + i * k->n, part[i], out, i);
}

void block_write_q2_k(const float *x, uint8_t *b)
{
    affine_block f;
    affine_search_block(&(affine_kind){16, 16, 3, 15}, x, &f);
    memset(b, 0, 84);
    for (int i = 0; i < 16; i++) {
        b[i] = (uint8_t)(f.scale[i] | f.min[i] << 4);
        uint8_t *to = b + 16 + i / 8 * 32 + i % 2 * 16;
        for (int j = 0; j < 16; j++) to[j] = (uint8_t)(to[j] | f.q[i * 16 + j] << (i % 8 / 2 * 2));
    }
    put_half(b + 80, f.d);
    put_half(b + 82, f.dmin);
}

static void put_scales_q4_k(uint8_t b[12], const uint8_t *scale, const uint8_t *min)
{
    for (int j = 0; j < 4; j++) {
        b[j] = (uint8_t)(scale[j] | scale[j + 4] >> 4 << 6);
        b[j + 4] = (uint8_t)(min[j] | min[j + 4] >> 4 << 6);
        b[j + 8] = (uint8_t)((scale[j + 4] & 15) | (min[j + 4] & 15) << 4);
    }
}

void block_write_q4_k(const float *x, uint8_t *b)
{
    affine_block f;
    affine_search_block(&(affine_kind){8, 32, 15, 63}, x, &f);
    put_half(b, f.d);
    put_half(b + 2, f.dmin);
    put_scales_q4_k(b + 4, f.scale, f.min);
    for (int i = 0; i < 8; i += 2)
        for (int j = 0; j < 32; j++) b[16 + i * 16 + j] = (uint8_t)(f.q[i * 32 + j] | f.q[i * 32 + 32 + j] << 4);
}

void block_write_q5_k(const float *x, uint8_t *b)
{
    affine_block f;
    affine_search_block(&(affine_kind){8, 32, 31, 63}, x, &f);
    memset(b, 0, 176);
    put_half(b, f.d);
    put_half(b + 2, f.dmin);
    put_scales_q4_k(b + 4, f.scale, f.min);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 32; j++) {
            uint8_t q = f.q[i * 32 + j], *low = b + 48 + i / 2 * 32 + j;
            *low = (uint8_t)(*low | (q & 15) << (i % 2 * 4));
            b[16 + j] = (uint8_t)(b[16 + j] | q >> 4 << i);
        }
}

/* ---- x = s k, k a whole number from -half to half - 1, or one of a table ---- */

typedef struct {
    int n, half;
    const int8_t *table; /* 16 ascending numbers; NULL: all of -half .. half - 1 */
} code_kind;

/* Between two numbers of block_iq4 the middle, and how far they are apart. */
static const float middles[15] = {-115.5f, -93.5f, -74, -57, -42, -28.5f, -16, -4.5f, 7, 19, 31.5f, 45.5f, 61, 79, 101};
static const float steps[15] = {23, 21, 18, 16, 14, 13, 12, 11, 12, 12, 13, 15, 16, 20, 24};

static inline void nearest_whole(float half, const float *restrict v, float *restrict q)
{
    for (int i = 0; i < LANES; i++) {
        float c = v[i] > -half ? v[i] : -half;
        q[i] = rounded(c < half - 1 ? c : half - 1);
    }
}

static inline void nearest_of_table(const float *restrict v, float *restrict q)
{
    float at[LANES];
    for (int i = 0; i < LANES; i++) at[i] = (float)block_iq4[0];
    for (int t = 0; t < 15; t++)
        for (int i = 0; i < LANES; i++) at[i] += v[i] > middles[t] ? steps[t] : 0;
    memcpy(q, at, sizeof at);
}

static inline void nearest(const code_kind *k, const float v[LANES], float q[LANES])
{
    if (k->table)
        nearest_of_table(v, q);
    else
        nearest_whole((float)k->half, v, q);
}

static inline float code_error(const code_kind *k, const float *restrict x, float s, float q[restrict LONGEST])
{
    float id = s != 0 ? 1 / s : 0, sum[LANES] = {0};
    for (int i = 0; i < k->n; i += LANES) {
        float v[LANES];
        for (int j = 0; j < LANES; j++) v[j] = x[i + j] * id;
        nearest(k, v, q + i);
        for (int j = 0; j < LANES; j++) {
            float off = s * q[i + j] - x[i + j];
            sum[j] += off * off;
        }
    }
    return total(sum);
}

/* The best factor for given codes; *gain: how much of the sum of squares it takes away. */
static inline float factor_of(const code_kind *k, const float *restrict x, const float *restrict q, float *gain)
{
    float sqq[LANES] = {0}, sqx[LANES] = {0};
    for (int i = 0; i < k->n; i += LANES)
        for (int j = 0; j < LANES; j++) sqq[j] += q[i + j] * q[i + j], sqx[j] += q[i + j] * x[i + j];
    float all = total(sqq), mixed = total(sqx);
    *gain = all > 0 ? mixed * mixed / all : 0;
    return all > 0 ? mixed / all : 0;
}

/* The largest number becomes the code at either end, or one close to it. */
static float code_search(const code_kind *k, const float *x)
{
    enum { TRIES = 9 };
    const float step = k->table ? 1.0f : 0.1f, first = k->table ? (float)k->table[0] : (float)-k->half,
                last = k->table ? (float)k->table[15] : (float)(k->half - 1);
    float most = 0, best = 0, highest = -1, q[LONGEST];
    for (int i = 0; i < k->n; i++)
        if (fabsf(x[i]) > fabsf(most)) most = x[i];
    for (int end = 0; end < 2 && most != 0; end++)
        for (int i = -TRIES; i <= TRIES; i++) {
            code_error(k, x, most / ((end ? last : first) + step * (float)i), q);
            float gain, s = factor_of(k, x, q, &gain);
            if (gain > highest) highest = gain, best = s;
        }
    return best;
}

typedef struct {
    float d;
    int8_t scale[16], q[256]; /* q: the numbers that codes stand for */
} code_block;

/* Of a part's rounded scale and its neighbours that of least error; scales reach from -half to half - 1. */
static void code_settle(const code_kind *k, int half, const float *x, float want, code_block *out, int part)
{
    float least = INFINITY, q[LONGEST];
    int s0 = out->d != 0 ? (int)rounded(want / out->d) : 0;
    for (int s = s0 - 1; s <= s0 + 1; s++) {
        if (s < -half || s > half - 1) continue;
        float error = code_error(k, x, out->d * (float)s, q);
        if (error >= least) continue;
        least = error;
        out->scale[part] = (int8_t)s;
        for (int i = 0; i < k->n; i++) out->q[part * k->n + i] = (int8_t)q[i];
    }
}

static void code_search_block(const code_kind *k, int half, const float *x, code_block *out)
{
    float part[16], most = 0;
    for (int i = 0; i < 256 / k->n; i++) {
        part[i] = code_search(k, x + i * k->n);
        if (fabsf(part[i]) > fabsf(most)) most = part[i];
    }
    memset(out, 0, sizeof *out);
    out->d = half_of(most / (float)-half);
    for (int i = 0; i < 256 / k->n; i++) code_settle(k, half, x + i * k->n, part[i], out, i);
}

void block_write_q3_k(const float *x, uint8_t *b)
{
    code_block f;
    code_search_block(&(code_kind){16, 4, NULL}, 32, x, &f);
    memset(b, 0, 110);
    for (int i = 0; i < 16; i++) {
        uint8_t *low = b + 32 + i / 8 * 32 + i % 2 * 16, *high = b + i % 2 * 16;
        for (int j = 0; j < 16; j++) {
            int q = f.q[i * 16 + j] + 4;
            low[j] = (uint8_t)(low[j] | (q & 3) << (i % 8 / 2 * 2));
            high[j] = (uint8_t)(high[j] | q >> 2 << (i / 2));
        }
        int s = f.scale[i] + 32;
        b[96 + i % 8] = (uint8_t)(b[96 + i % 8] | (s & 15) << (i / 8 * 4));
        b[104 + i % 4] = (uint8_t)(b[104 + i % 4] | s >> 4 << (i / 4 * 2));
    }
    put_half(b + 108, f.d);
}

void block_write_q6_k(const float *x, uint8_t *b)
{
    code_block f;
    code_search_block(&(code_kind){16, 32, NULL}, 128, x, &f);
    memset(b, 0, 210);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 32; j++) {
            int q = f.q[i * 32 + j] + 32;
            uint8_t *low = b + i / 4 * 64 + i % 2 * 32 + j, *high = b + 128 + i / 4 * 32 + j;
            *low = (uint8_t)(*low | (q & 15) << (i % 4 / 2 * 4));
            *high = (uint8_t)(*high | q >> 4 << (i % 4 * 2));
        }
    memcpy(b + 192, f.scale, 16);
    put_half(b + 208, f.d);
}

/* ---- tables ---- */

static uint8_t code_of(int8_t number)
{
    uint8_t i = 0;
    while (i < 15 && block_iq4[i] != number) i++;
    return i;
}

static void put_codes(uint8_t *b, const int8_t q[32])
{
    for (int j = 0; j < 16; j++) b[j] = (uint8_t)(code_of(q[j]) | code_of(q[j + 16]) << 4);
}

void block_write_iq4_nl(const float *x, uint8_t *b)
{
    const code_kind k = {32, 0, block_iq4};
    float q[LONGEST], d = half_of(code_search(&k, x));
    int8_t code[32];
    code_error(&k, x, d, q);
    for (int i = 0; i < 32; i++) code[i] = (int8_t)q[i];
    put_half(b, d);
    put_codes(b + 2, code);
}

void block_write_iq4_xs(const float *x, uint8_t *b)
{
    code_block f;
    code_search_block(&(code_kind){32, 0, block_iq4}, 32, x, &f);
    memset(b, 0, 136);
    put_half(b, f.d);
    for (int i = 0; i < 8; i++) {
        int s = f.scale[i] + 32;
        b[2 + i / 4] = (uint8_t)(b[2 + i / 4] | s >> 4 << (i % 4 * 2));
        b[4 + i / 2] = (uint8_t)(b[4 + i / 2] | (s & 15) << (i % 2 * 4));
        put_codes(b + 8 + i * 16, f.q + i * 32);
    }
}
