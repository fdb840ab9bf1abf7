/* int8_kernels_plain.c - the specification of int8_kernels.h, in plain loops, for any processor. */
#include "backend/cpu/int8_kernels.h"

#include "kiln/plugin.h"
#include "tensor/block_scales.h"

#include <math.h>
#include <string.h>

/* clang-format off: a row a line */
static const int8_form forms[] = {
    {KILN_Q8_0, 128, INT8_PIECES, 0, 32, 34, 0},
    {KILN_Q4_0, 8, INT8_PIECES, 0, 32, 18, 0},
    {KILN_Q4_1, 128, 1, 0, 32, 20, 0},
    {KILN_Q5_0, 16, INT8_PIECES, 0, 32, 22, 0},
    {KILN_Q5_1, 128, 1, 0, 32, 24, 0},
    {KILN_Q4_K, 128, 1, 0, 256, 144, 0},
    {KILN_Q5_K, 128, 1, 0, 256, 176, 0},
    {KILN_Q6_K, 128, 1, 0, 256, 210, 0},
    {KILN_IQ4_NL, 128, INT8_PIECES, 0, 32, 18, 0},
    {KILN_IQ4_XS, 128, INT8_PIECES, 0, 256, 136, 0},
};
static const int8_form few_rows[] = {
    {KILN_Q4_K, 0, INT8_PIECES, 1, 256, 144, 0},
    {KILN_Q5_K, 0, INT8_PIECES, 1, 256, 176, 0},
};
static const int8_form kept[] = {
    {KILN_Q6_K, 32, INT8_HALF_PIECES, 0, 256, 210, 0},
};
static const int8_form interleaved[] = {
    {KILN_Q4_K, 128, 1, 0, 256, 144, 1},
    {KILN_Q5_0, 16, INT8_PIECES, 0, 32, 22, 1},
    {KILN_Q8_0, 128, INT8_PIECES, 0, 32, 34, 1},
};
static const int8_form few_interleaved[] = {
    {KILN_Q4_K, 0, INT8_PIECES, 1, 256, 144, 1},
};
/* clang-format on */
const int8_form int8_form_rows = {.zero = 128, .scales = 0, .block = 1, .bytes = 1};
const int8_form int8_form_rounded = {.zero = 128, .scales = 1, .block = 1, .bytes = 1};

static const int8_form *form_among(const int8_form *all, size_t n, uint32_t type)
{
    for (size_t i = 0; i < n; i++)
        if (all[i].type == type) return all + i;
    return NULL;
}

#define FORM_AMONG(all, type) form_among(all, sizeof(all) / sizeof *(all), type)

const int8_form *int8_form_of(uint32_t type, int8_use use)
{
    const int8_form *own = use == INT8_KEPT ? FORM_AMONG(kept, type) : NULL;
    if (!own && use != INT8_MANY) own = FORM_AMONG(few_rows, type);
    return own ? own : FORM_AMONG(forms, type);
}

const int8_form *int8_form_interleaved(uint32_t type, int8_use use)
{
    const int8_form *own = use != INT8_MANY ? FORM_AMONG(few_interleaved, type) : NULL;
    return own ? own : FORM_AMONG(interleaved, type);
}

/* sum: of each piece. n: whole pieces */
static void round_part(int8_t *codes, float *scale, int32_t sum[INT8_PIECES], const float *x, size_t n)
{
    float most = 0;
    int finite = 1;
    for (size_t i = 0; i < n; i++) {
        if (fabsf(x[i]) > most) most = fabsf(x[i]);
        finite &= isfinite(x[i]) != 0;
    }
    float by = most < 0x1p-100f ? 0 : 127.0f / most; /* smaller ones are 0 beside anything else */
    *scale = !finite ? NAN : by == 0 ? 0 : most / 127.0f;
    memset(sum, 0, INT8_PIECES * sizeof *sum);
    for (size_t i = 0; i < n; i++) {
        codes[i] = (int8_t)(finite ? lrintf(x[i] * by) : 0);
        sum[i / 32] += codes[i];
    }
}

static void round_row(const int8_form *f, void *parts, size_t row, const float *x, size_t n)
{
    int8_part *to = parts;
    const size_t groups = f->scales ? f->scales : 1;
    for (size_t k = 0; k < n; k += INT8_PART, to++) {
        int8_t codes[INT8_PART];
        int32_t sum[INT8_PIECES];
        const size_t here = n - k < INT8_PART ? n - k : INT8_PART;
        round_part(codes, &to->scale[row], sum, x + k, here);
        for (size_t i = 0; i < here / 4; i++) memcpy(to->codes[i][row], codes + 4 * i, 4);
        if (f->scales == INT8_HALF_PIECES) {
            for (size_t i = 0; i < INT8_HALF_PIECES; i++) {
                int half = 0;
                for (size_t k16 = 16 * i; k16 < 16 * (i + 1) && k16 < here; k16++) half += codes[k16];
                to->half_pieces[i / 2][row][i % 2] = (int16_t)half;
            }
            continue;
        }
        for (size_t i = 0; i < groups && !f->minima; i++) to->begin[i][row] = 0;
        for (size_t i = 0; i < INT8_PIECES; i++) {
            if (f->minima)
                to->sum[i / 2][row][i % 2] = (int16_t)sum[i];
            else
                to->begin[i * groups / INT8_PIECES][row] -= f->zero * sum[i];
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

/* 32 inputs of a block: d q + m, or of halves of it. `middle` of q stands for m. */
typedef struct {
    uint8_t q[32];
    float d[2], m;
    int halves, top, middle;
    float least; /* and how many of it m is */
    int minimum;
} piece;

static void read_k(uint32_t type, const uint8_t *b, int at, piece *p)
{
    uint8_t s[8], m[8];
    const uint8_t *codes = b + (type == KILN_Q4_K ? 16 : 48) + at / 2 * 32;
    for (int i = 0; i < 32; i++) {
        int high = type == KILN_Q5_K ? b[16 + i] >> at & 1 : 0;
        p->q[i] = (uint8_t)((codes[i] >> (at % 2 * 4) & 15) | high << 4);
    }
    block_scales_q4_k(b + 4, s, m);
    p->d[0] = block_half(b) * (float)s[at], p->m = -(block_half(b + 2) * (float)m[at]);
    p->least = -block_half(b + 2), p->minimum = m[at];
    p->top = type == KILN_Q4_K ? 15 : 31;
}

static void read_q6_k(const uint8_t *b, int at, piece *p)
{
    int half = at / 4, k = at % 4;
    for (int i = 0; i < 32; i++) {
        int low = b[half * 64 + k % 2 * 32 + i] >> (k / 2 * 4) & 15, high = b[128 + half * 32 + i] >> (k * 2) & 3;
        p->q[i] = (uint8_t)(low | high << 4);
    }
    p->halves = 2, p->top = 63, p->middle = 32;
    for (int h = 0; h < 2; h++) p->d[h] = block_half(b + 208) * (float)(int8_t)b[192 + 2 * at + h];
}

/* 32 inputs from k on of a row. */
static piece read_piece(const int8_form *f, const uint8_t *row, size_t k)
{
    const uint8_t *b = row + k / f->block * f->bytes;
    const int at = (int)(k % f->block / 32);
    piece p = {.halves = 1};
    if (f->type) p.d[0] = block_half(b);
    switch (f->type) {
    case 0: /* rows of int8 */
        for (int i = 0; i < 32; i++) p.q[i] = b[i] ^ 0x80;
        break;
    case KILN_Q8_0:
        for (int i = 0; i < 32; i++) p.q[i] = b[2 + i] ^ 0x80;
        break;
    case KILN_Q4_0: nibbles_of(b + 2, p.q); break;
    case KILN_Q4_1: nibbles_of(b + 4, p.q), p.m = block_half(b + 2), p.top = 15; break;
    case KILN_Q5_0: nibbles_of(b + 6, p.q), fifth_bits(p.q, block_u32(b + 2)); break;
    case KILN_Q5_1:
        nibbles_of(b + 8, p.q), fifth_bits(p.q, block_u32(b + 4)), p.m = block_half(b + 2), p.top = 31;
        break;
    case KILN_Q6_K: read_q6_k(b, at, &p); break;
    case KILN_IQ4_NL: nibbles_of(b + 2, p.q), looked_up(p.q); break;
    case KILN_IQ4_XS:
        nibbles_of(b + 8 + at * 16, p.q), looked_up(p.q);
        p.d[0] = block_half(b) * (float)block_scale_iq4_xs(b, at);
        break;
    default: read_k(f->type, b, at, &p); break;
    }
    return p;
}

/* The largest of d q + m for any q, from `most` on; NaN if one is none. */
static float largest_of(const piece *p, float most)
{
    for (int h = 0; h < p->halves; h++) {
        float least = fabsf(fmaf(p->d[h], (float)-p->middle, p->m)),
              last = fabsf(fmaf(p->d[h], (float)(p->top - p->middle), p->m));
        most = isnan(most) || least <= most ? most : least;
        most = isnan(most) || last <= most ? most : last;
    }
    return most;
}

static void round_piece(piece *p, float by)
{
    for (int h = 0; h < p->halves; h++) {
        uint32_t multiplier = (uint32_t)lrintf(p->d[h] * by),
                 offset = (uint32_t)lrintf(fmaf(p->m, by, INT8_OFFSET)) - (uint32_t)p->middle * multiplier;
        const int n = 32 / p->halves;
        for (int i = h * n; i < (h + 1) * n; i++) p->q[i] = (uint8_t)((p->q[i] * multiplier + offset) >> 8);
    }
}

/* `pieces` of one output's part, and what fills up the last quarter. */
static void unpack_part(const int8_form *f, int8_strip *to, size_t part, size_t o, const uint8_t *row, size_t pieces)
{
    piece p[INT8_PIECES];
    const size_t filled = pieces + pieces % 2;
    float most = 0;
    for (size_t i = 0; i < filled; i++) {
        p[i] = i < pieces ? read_piece(f, row, part * INT8_PART + 32 * i) : (piece){.d = {0}};
        most = largest_of(p + i, most);
    }
    if (f->scales == 1) {
        int there = most >= 0x1p-100f && most <= 0x1.fffffep127f;
        float by = there ? 127.0f / most : 0;
        for (size_t i = 0; i < pieces; i++) round_piece(p + i, there ? by * 256 : 0);
        to->scale[part][0][o] = there ? most * (1 / 127.0f) : most < 0x1p-100f ? 0 : NAN;
    }
    const uint8_t *block = row + part * f->bytes; /* of one part */
    for (size_t i = 0; i < INT8_HALF_PIECES && f->scales == INT8_HALF_PIECES; i++)
        to->half_pieces[part][i / 2][o][i % 2] = (int16_t)((block[192 + i] ^ 128) - 128),
                                            to->least[part][o] = block_half(block + 208);
    for (size_t i = 0; i < filled; i++) {
        if (f->scales == INT8_PIECES) to->scale[part][i][o] = p[i].d[0];
        if (f->minima) to->minimum[part][i / 2][o][i % 2] = (int16_t)p[i].minimum, to->least[part][o] = p[i].least;
        for (size_t w = 0; w < 8; w++) memcpy(to->codes[part][8 * i + w][o], p[i].q + 4 * w, 4);
    }
}

static void unpack(const int8_form *f, int8_strip *to, const uint8_t *const row[INT8_STRIP], size_t n)
{
    for (size_t k = 0; k < n; k += INT8_PART)
        for (size_t o = 0; o < INT8_STRIP; o++)
            unpack_part(f, to, k / INT8_PART, o, row[o], n - k < INT8_PART ? (n - k) / 32 : INT8_PIECES);
}

static void round_columns(int8_strip to[2], const float *x, size_t ld, size_t n)
{
    for (size_t o = 0; o < 2 * INT8_STRIP; o++) {
        int8_strip *s = to + o / INT8_STRIP;
        float column[INT8_PART];
        int8_t codes[INT8_PART];
        int32_t sum[INT8_PIECES];
        for (size_t i = 0; i < n; i++) column[i] = x[i * ld + o];
        round_part(codes, &s->scale[0][0][o % INT8_STRIP], sum, column, n);
        for (size_t i = 0; i < n; i++) s->codes[0][i / 4][o % INT8_STRIP][i % 4] = (uint8_t)(codes[i] + 128);
    }
}

int int8_rounds_blocks(uint32_t type) { return type == KILN_Q6_K || type == KILN_Q8_0; }

/* Number `column` of 256: a code of 7 bits and a sign, and what it is multiplied by. */
static int code_of(uint32_t type, const uint8_t *row, size_t column, float by, float *scale)
{
    if (type == KILN_Q8_0) {
        const uint8_t *b = row + column / 32 * 34;
        *scale = block_half(b) * by;
        return (int8_t)b[2 + column % 32];
    }
    piece p = {.halves = 1};
    read_q6_k(row, (int)(column / 32), &p);
    *scale = block_half(row + 208) * by * 0.25f * (float)(int8_t)row[192 + column / 16];
    return 4 * (p.q[column % 32] - 32);
}

static void round_blocks(uint32_t type, int8_strip to[16], const uint8_t *const row[INT8_PART], const float *by,
                         size_t n)
{
    for (size_t s = 0; s < 16; s++)
        for (size_t o = 0; o < INT8_STRIP; o++) {
            const size_t column = int8_turned_column(s, o);
            float most = 0, scale;
            for (size_t i = 0; i < n; i++) {
                code_of(type, row[i], column, by[i], &scale);
                most = isnan(most) || fabsf(scale) * 128 <= most ? most : fabsf(scale) * 128;
            }
            const int there = most >= 0x1p-100f && most <= 0x1.fffffep127f;
            const float in_32768ths = there ? 127.0f / most * 32768 : 0;
            to[s].scale[0][0][o] = there ? most * (1 / 127.0f) : most < 0x1p-100f ? 0 : NAN;
            for (size_t i = 0; i < n; i++) {
                const int code = code_of(type, row[i], column, by[i], &scale),
                          multiplier = there ? (int)lrintf(scale * in_32768ths) : 0;
                to[s].codes[0][i / 4][o][i % 4] = (uint8_t)((code * multiplier + 0x404000) / 32768); /* 128.5 more */
            }
        }
}

/* ---- products ---- */

static int32_t dot(const int8_strip *w, size_t p, int o, const int8_part *a, size_t row, size_t from, size_t n)
{
    int32_t sum = 0;
    for (size_t i = from; i < from + n; i++) sum += w->codes[p][i / 4][o][i % 4] * a->codes[i / 4][row][i % 4];
    return sum;
}

/* Part p by integers as scales. */
static float add_half_pieces(const int8_form *f, const int8_strip *w, const int8_part *a, size_t row, size_t p, int o,
                             float sum)
{
    int32_t all = 0;
    for (size_t i = 0; i < INT8_HALF_PIECES; i++)
        all += w->half_pieces[p][i / 2][o][i % 2] *
               (dot(w, p, o, a, row, 16 * i, 16) - f->zero * a->half_pieces[i / 2][row][i % 2]);
    return fmaf((float)all * w->least[p][o], a->scale[row], sum);
}

/* `inputs` of part p. */
static float add_part(const int8_form *f, const int8_strip *w, const int8_part *a, size_t row, size_t p, int o,
                      size_t inputs, float sum)
{
    const size_t groups = f->scales ? f->scales : 1, n = INT8_PART / groups < inputs ? INT8_PART / groups : inputs;
    float part = 0;
    if (f->scales == INT8_HALF_PIECES) return add_half_pieces(f, w, a, row, p, o, sum);
    for (size_t i = 0; i * n < inputs; i++) {
        float one = (float)((f->minima ? 0 : a->begin[i][row]) + dot(w, p, o, a, row, i * n, n));
        part = f->scales ? fmaf(one, w->scale[p][i][o], part) : one;
    }
    if (f->minima) {
        int32_t minima = 0;
        for (size_t i = 0; i < INT8_PIECES; i++) minima += w->minimum[p][i / 2][o][i % 2] * a->sum[i / 2][row][i % 2];
        part = fmaf((float)minima, w->least[p][o], part);
    }
    return fmaf(part, a->scale[row], sum);
}

static void multiply(const int8_form *f, const int8_strip *w, const int8_operand *a, float *c, size_t ldc,
                     int accumulate, const int8_ahead *next)
{
    (void)next;
    for (size_t r = 0; r < a->m; r++)
        for (int o = 0; o < 2 * INT8_STRIP; o++) {
            const int8_part *at = (const int8_part *)a->parts + r / a->together * a->stride;
            float sum = accumulate ? c[r * ldc + (size_t)o] : 0;
            for (size_t q = 0; q < a->quarters; q += INT8_QUARTERS, at++) {
                const size_t left = a->quarters - q, n = left < INT8_QUARTERS ? left : INT8_QUARTERS;
                sum = add_part(f, w + o / INT8_STRIP, at, r % a->together, q / INT8_QUARTERS, o % INT8_STRIP,
                               n * INT8_QUARTER, sum);
            }
            c[r * ldc + (size_t)o] = sum;
        }
}

const int8_kernels int8_kernels_plain = {.name = "plain",
                                         .linear = "int8:plain",
                                         .transposed = "int8_transposed:plain",
                                         .rows = INT8_ROWS,
                                         .part_bytes = sizeof(int8_part),
                                         .spread = 1,
                                         .round_row = round_row,
                                         .unpack = unpack,
                                         .round_columns = round_columns,
                                         .round_blocks = round_blocks,
                                         .multiply = multiply};
