/* block.c - see block.h: which loops read a type, and where its scales are. block_write.c is the other way. */
#include "tensor/block.h"

#include "tensor/block_rows.h"
#include "tensor/block_scales.h"

static kiln_status read_by(block_reader *by, uint32_t dtype, const void *src, float *dst, size_t n)
{
    size_t elements = dtype_block(dtype);
    if (elements < 2 || n % elements) return KILN_ERR_UNSUPPORTED;
    return by(dtype, src, dst, n / elements) ? KILN_OK : KILN_ERR_UNSUPPORTED;
}

kiln_status block_read_plain(uint32_t dtype, const void *src, float *dst, size_t n)
{
    return read_by(block_rows_plain, dtype, src, dst, n);
}

kiln_status block_read_f32(uint32_t dtype, const void *src, float *dst, size_t n)
{
    block_reader *by = block_rows_plain;
#if defined __x86_64__
    if (__builtin_cpu_supports("avx2")) by = block_rows_avx2;
#endif
    return read_by(by, dtype, src, dst, n);
}

/* ---- scales ---- */

enum { NONE = -1 };

/* Where the halves of a block are. */
static const struct {
    uint32_t dtype;
    int half, second;
} places[] = {
    {KILN_Q4_0, 0, NONE}, {KILN_Q4_1, 0, 2},      {KILN_Q5_0, 0, NONE},   {KILN_Q5_1, 0, 2},
    {KILN_Q8_0, 0, NONE}, {KILN_Q2_K, 80, 82},    {KILN_Q3_K, 108, NONE}, {KILN_Q4_K, 0, 2},
    {KILN_Q5_K, 0, 2},    {KILN_Q6_K, 208, NONE}, {KILN_IQ4_NL, 0, NONE}, {KILN_IQ4_XS, 0, NONE},
};

static int is_infinite(const uint8_t *block, int at)
{
    return at != NONE && (block_u16(block + at) & 0x7c00u) == 0x7c00u;
}

size_t block_first_nonfinite(uint32_t dtype, const void *p, size_t n)
{
    size_t bytes = dtype_block_bytes(dtype), blocks = bytes ? n / dtype_block(dtype) : 0, i = 0;
    const uint8_t *b = p;
    /* e8m0 has a NaN, and with its largest numbers 6 is more than f32 holds */
    for (; dtype == KILN_MXFP4 && i < blocks; i++)
        if (b[i * bytes] > 252) return i;
    for (size_t k = 0; k < sizeof places / sizeof places[0]; k++)
        for (; places[k].dtype == dtype && i < blocks; i++)
            if (is_infinite(b + i * bytes, places[k].half) || is_infinite(b + i * bytes, places[k].second)) return i;
    return blocks;
}
