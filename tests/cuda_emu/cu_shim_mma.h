/* cu_shim_mma.h - the instructions that cu_mma.h names, on the host, by the table that stands there. Sums are f32, in
 * the order of k. */
#ifndef KILN_TESTS_CU_SHIM_MMA_H
#define KILN_TESTS_CU_SHIM_MMA_H

#include "cu_shim.h"

static inline int cu_before_sm80() { return cu_emu_before_sm80(); }

static inline float cu_emu_bf16_of(uint32_t pair, unsigned high)
{
    return __uint_as_float(high ? pair & 0xffff0000u : pair << 16);
}
/* As __half2float, inline: the exponent moves by 127 - 15, which is exact for subnormal numbers too. */
static inline float cu_emu_f16_of(uint32_t pair, unsigned high)
{
    uint32_t h = high ? pair >> 16 : pair & 0xffffu, magnitude = (h & 0x7fffu) << 13, sign = (h & 0x8000u) << 16;
    if ((h & 0x7c00u) == 0x7c00u) return __uint_as_float(sign | 0x7f800000u | magnitude);
    return __uint_as_float(sign | __float_as_uint(__uint_as_float(magnitude) * 0x1p112f));
}

/* DEEP / 4 registers of the left side, then DEEP / 8 of the right one. A thread's sums are of two rows and two columns,
 * whose numbers are those of four threads each. */
template <unsigned DEEP, float (*NUMBER)(uint32_t pair, unsigned high)>
static inline void cu_emu_multiply(float *c, const uint32_t *mine)
{
    const unsigned char *all = cu_emu_exchange(0xffffffffu, mine, DEEP / 8 * 3 * sizeof *mine);
    unsigned g = cu_emu_lane() / 4, t = cu_emu_lane() % 4;
    float left[2][DEEP], right[2][DEEP];
    for (unsigned i = 0; i < 2; i++)
        for (unsigned lane = 0; lane < 4; lane++) {
            uint32_t row[DEEP / 8 * 3], column[DEEP / 8 * 3];
            memcpy(row, all + (g * 4 + lane) * CU_EMU_SLOT, sizeof row);
            memcpy(column, all + ((2 * t + i) * 4 + lane) * CU_EMU_SLOT, sizeof column);
            for (unsigned k = 0; k < DEEP / 8; k++)
                for (unsigned high = 0; high < 2; high++) {
                    left[i][8 * k + 2 * lane + high] = NUMBER(row[2 * k + i], high);
                    right[i][8 * k + 2 * lane + high] = NUMBER(column[DEEP / 4 + k], high);
                }
        }
    for (unsigned e = 0; e < 4; e++)
        for (unsigned k = 0; k < DEEP; k++) c[e] += left[e / 2][k] * right[e % 2][k];
}

static inline void cu_mma16_bf16(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    cu_emu_instruction(CU_EMU_MMA16_BF16);
    cu_emu_multiply<16, cu_emu_bf16_of>(c, mine);
}
static inline void cu_mma16_f16(float *c, const uint32_t *a, uint32_t b0, uint32_t b1)
{
    uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
    cu_emu_instruction(CU_EMU_MMA16_F16);
    cu_emu_multiply<16, cu_emu_f16_of>(c, mine);
}
static inline void cu_mma8_f16(float *c, uint32_t a0, uint32_t a1, uint32_t b)
{
    uint32_t mine[3] = {a0, a1, b};
    cu_emu_instruction(CU_EMU_MMA8_F16);
    cu_emu_multiply<8, cu_emu_f16_of>(c, mine);
}

static inline void cu_emu_matrices(uint32_t *r, const void *row, int turned)
{
    const unsigned char *all = cu_emu_exchange(0xffffffffu, &row, sizeof row);
    unsigned g = cu_emu_lane() / 4, t = cu_emu_lane() % 4;
    for (unsigned i = 0; i < 4; i++) {
        uint16_t pair[2];
        for (unsigned e = 0; e < 2; e++) {
            unsigned y = turned ? 2 * t + e : g, x = turned ? g : 2 * t + e;
            const uint16_t *from;
            memcpy(&from, all + (8 * i + y) * CU_EMU_SLOT, sizeof from);
            pair[e] = from[x];
        }
        r[i] = (uint32_t)pair[0] | (uint32_t)pair[1] << 16;
    }
    cu_emu_exchange(0xffffffffu, &row,
                    sizeof row); /* nobody writes before all have read: ldmatrix is one instruction of the warp */
}
static inline void cu_matrices(uint32_t *r, const void *row) { cu_emu_matrices(r, row, 0); }
static inline void cu_matrices_turned(uint32_t *r, const void *row) { cu_emu_matrices(r, row, 1); }

static inline void cu_async16(void *to, const void *from, int there)
{
    cu_emu_instruction(CU_EMU_ASYNC_COPY);
    cu_emu_copy_later(to, from, there);
}
static inline void cu_async_group() { cu_emu_copy_group(); }
template <int n> static inline void cu_async_wait() { cu_emu_copy_wait(n); }

#endif
