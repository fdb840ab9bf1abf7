/* int8_kernels_plain.c - the specification of int8_kernels.h, in plain loops, for any processor. */
#include "backend/cpu/int8_kernels.h"

#include "kiln/plugin.h"
#include "tensor/block_scales.h"

#include <math.h>
#include <string.h>

/* clang-format off: a row a line */
static const int8_form forms[] = {
    {KILN_Q8_0, 128, 1, 0, 34, 1},    {KILN_Q4_0, 8, 1, 0, 18, 1},   {KILN_Q4_1, 0, 1, 1, 20, 1},
    {KILN_Q5_0, 16, 1, 0, 22, 1},     {KILN_Q5_1, 0, 1, 1, 24, 1},   {KILN_Q4_K, 0, 1, 1, 144, 8},
    {KILN_Q5_K, 0, 1, 1, 176, 8},     {KILN_Q6_K, 32, 2, 0, 210, 8}, {KILN_IQ4_NL, 128, 1, 0, 18, 1},
    {KILN_IQ4_XS, 128, 1, 0, 136, 8},
};
/* clang-format on */

const int8_form int8_form_rows = {.zero = 128, .bytes = INT8_PART, .parts = 1};

const int8_form *int8_form_of(uint32_t type)
{
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++)
        if (forms[i].type == type) return &forms[i];
    return NULL;
}

static void round_part(int8_t *codes, float *scale, int32_t sum[2], const float *x)
{
    float most = 0;
    int finite = 1;
    for (int i = 0; i < INT8_PART; i++) {
        if (fabsf(x[i]) > most) most = fabsf(x[i]);
        finite &= isfinite(x[i]) != 0;
    }
    float by = most < 0x1p-100f ? 0 : 127.0f / most; /* smaller ones are 0 beside anything else */
    *scale = !finite ? NAN : by == 0 ? 0 : most / 127.0f;
    sum[0] = sum[1] = 0;
    for (int i = 0; i < INT8_PART; i++) {
        codes[i] = (int8_t)(finite ? lrintf(x[i] * by) : 0);
        sum[i / 16] += codes[i];
    }
}

static void round_row(const int8_form *f, int8_part *to, size_t row, const float *x, size_t n)
{
    for (size_t b = 0; b < n / INT8_PART; b++, to++) {
        int8_t codes[INT8_PART];
        int32_t sum[2];
        round_part(codes, &to->scale[row], sum, x + b * INT8_PART);
        for (size_t i = 0; i < 8; i++) memcpy(to->codes[i][row], codes + 4 * i, 4);
        if (f->halves < 2) sum[0] += sum[1];
        for (int h = 0; h < (f->halves < 2 ? 1 : 2); h++) {
            float whole = (float)sum[h];
            int32_t begin = -f->zero * sum[h];
            memcpy(&to->rest[h][row], f->minima ? (const void *)&whole : &begin, 4);
        }
    }
}

/* ---- weights ---- */

static void fifth_bits(uint8_t q[32], uint32_t bits)
{
    for (int i = 0; i < 32; i++) q[i] = (uint8_t)(q[i] | (bits >> i & 1) << 4);
}
static void nibbles_of(const uint8_t *b, uint8_t q[32])
{
    for (int i = 0; i < 16; i++) q[i] = b[i] & 15, q[16 + i] = b[i] >> 4;
}
static void looked_up(uint8_t q[32])
{
    for (int i = 0; i < 32; i++) q[i] = (uint8_t)(block_iq4[q[i]] + 128);
}

static void scales_k(const uint8_t *b, int part, float scale[2], float *minimum)
{
    uint8_t s[8], m[8];
    block_scales_q4_k(b + 4, s, m);
    scale[0] = block_half(b) * (float)s[part];
    *minimum = -(block_half(b + 2) * (float)m[part]);
}

static void read_k(uint32_t type, const uint8_t *b, int part, uint8_t q[32], float scale[2], float *minimum)
{
    int half = part / 4, k = part % 4;
    if (type == KILN_Q6_K) {
        for (int i = 0; i < 32; i++) {
            int low = b[half * 64 + k % 2 * 32 + i] >> (k / 2 * 4) & 15, high = b[128 + half * 32 + i] >> (k * 2) & 3;
            q[i] = (uint8_t)(low | high << 4);
        }
        for (int h = 0; h < 2; h++) scale[h] = block_half(b + 208) * (float)(int8_t)b[192 + 2 * part + h];
        return;
    }
    if (type == KILN_IQ4_XS) {
        nibbles_of(b + 8 + part * 16, q);
        looked_up(q);
        scale[0] = block_half(b) * (float)block_scale_iq4_xs(b, part);
        return;
    }
    const uint8_t *codes = b + (type == KILN_Q4_K ? 16 : 48) + part / 2 * 32;
    for (int i = 0; i < 32; i++) {
        int high = type == KILN_Q5_K ? b[16 + i] >> part & 1 : 0;
        q[i] = (uint8_t)((codes[i] >> (part % 2 * 4) & 15) | high << 4);
    }
    scales_k(b, part, scale, minimum);
}

static void read_part(uint32_t type, const uint8_t *b, int part, uint8_t q[32], float scale[2], float *minimum)
{
    if (!type) { /* rows of int8 */
        for (int i = 0; i < 32; i++) q[i] = b[i] ^ 0x80;
        return;
    }
    scale[0] = block_half(b);
    switch (type) {
    case KILN_Q8_0:
        for (int i = 0; i < 32; i++) q[i] = b[2 + i] ^ 0x80;
        break;
    case KILN_Q4_0: nibbles_of(b + 2, q); break;
    case KILN_Q4_1: nibbles_of(b + 4, q), *minimum = block_half(b + 2); break;
    case KILN_Q5_0: nibbles_of(b + 6, q), fifth_bits(q, block_u32(b + 2)); break;
    case KILN_Q5_1: nibbles_of(b + 8, q), fifth_bits(q, block_u32(b + 4)), *minimum = block_half(b + 2); break;
    case KILN_IQ4_NL: nibbles_of(b + 2, q), looked_up(q); break;
    default: read_k(type, b, part, q, scale, minimum); break;
    }
}

static void unpack(const int8_form *f, int8_strip *to, const uint8_t *const row[INT8_STRIP], size_t parts)
{
    for (size_t p = 0; p < parts; p++)
        for (int o = 0; o < INT8_STRIP; o++) {
            uint8_t q[INT8_PART];
            float scale[2] = {0}, minimum = 0;
            size_t all = (size_t)f->parts;
            read_part(f->type, row[o] + p / all * f->bytes, (int)(p % all), q, scale, &minimum);
            for (int i = 0; i < 8; i++) memcpy(to->codes[p][i][o], q + 4 * i, 4);
            to->scale[p][0][o] = scale[0], to->scale[p][1][o] = scale[1], to->minimum[p][o] = minimum;
        }
}

static void round_columns(int8_strip to[2], size_t part, const float *x, size_t ld)
{
    for (size_t o = 0; o < 2 * INT8_STRIP; o++) {
        int8_strip *s = to + o / INT8_STRIP;
        float column[INT8_PART];
        int8_t codes[INT8_PART];
        int32_t sum[2];
        for (size_t i = 0; i < INT8_PART; i++) column[i] = x[i * ld + o];
        round_part(codes, &s->scale[part][0][o % INT8_STRIP], sum, column);
        for (size_t i = 0; i < INT8_PART; i++) s->codes[part][i / 4][o % INT8_STRIP][i % 4] = (uint8_t)(codes[i] + 128);
    }
}

/* ---- products ---- */

static int32_t dot(const int8_strip *w, size_t p, int o, const int8_part *a, size_t row, int from, int n)
{
    int32_t sum = 0;
    for (int i = from; i < from + n; i++) sum += w->codes[p][i / 4][o][i % 4] * a->codes[i / 4][row][i % 4];
    return sum;
}

static float add_part(const int8_form *f, const int8_strip *w, const int8_part *a, size_t row, size_t p, int o,
                      float sum)
{
    const int pieces = f->halves ? f->halves : 1, n = INT8_PART / pieces;
    float part = 0;
    for (int h = 0; h < pieces; h++) {
        int32_t begin = 0;
        if (!f->minima) memcpy(&begin, &a->rest[h][row], sizeof begin);
        float one = (float)(begin + dot(w, p, o, a, row, h * n, n));
        part = !f->halves ? one : h ? fmaf(one, w->scale[p][h][o], part) : one * w->scale[p][h][o];
    }
    if (f->minima) {
        float all;
        memcpy(&all, &a->rest[0][row], sizeof all);
        part = fmaf(w->minimum[p][o], all, part);
    }
    return fmaf(part, a->scale[row], sum);
}

static void multiply(const int8_form *f, const int8_strip *w, const int8_part *a, size_t stride, size_t m, size_t parts,
                     float *c, size_t ldc, int accumulate, const int8_ahead *next)
{
    (void)next;
    for (size_t r = 0; r < m; r++)
        for (int o = 0; o < 2 * INT8_STRIP; o++) {
            const int8_part *at = a + r / INT8_ROWS * stride;
            float sum = accumulate ? c[r * ldc + (size_t)o] : 0;
            for (size_t p = 0; p < parts; p++)
                sum = add_part(f, w + o / INT8_STRIP, at + p, r % INT8_ROWS, p, o % INT8_STRIP, sum);
            c[r * ldc + (size_t)o] = sum;
        }
}

const int8_kernels int8_kernels_plain = {
    .name = "plain", .round_row = round_row, .unpack = unpack, .round_columns = round_columns, .multiply = multiply};
