/* dtype.c - see dtype.h. */
#include "tensor/dtype.h"

#include "base/checked.h"
#include "tensor/dtype_fast.h"

#include <math.h>
#include <string.h>

typedef struct {
    uint32_t dtype;
    uint32_t elements, bytes; /* of a block; 1 element: not stored by blocks */
    const char *name;
} dtype_row;

static const dtype_row rows[] = {
    {KILN_F32, 1, 4, "f32"},         {KILN_F16, 1, 2, "f16"},
    {KILN_BF16, 1, 2, "bf16"},       {KILN_U8, 1, 1, "u8"},
    {KILN_I32, 1, 4, "i32"},         {KILN_I64, 1, 8, "i64"},
    {KILN_F64, 1, 8, "f64"},         {KILN_BOOL8, 1, 1, "bool"},
    {KILN_F8_E4M3, 1, 1, "f8_e4m3"}, {KILN_F8_E5M2, 1, 1, "f8_e5m2"},
    {KILN_Q4_0, 32, 18, "q4_0"},     {KILN_Q4_1, 32, 20, "q4_1"},
    {KILN_Q5_0, 32, 22, "q5_0"},     {KILN_Q5_1, 32, 24, "q5_1"},
    {KILN_Q8_0, 32, 34, "q8_0"},     {KILN_Q2_K, 256, 84, "q2_k"},
    {KILN_Q3_K, 256, 110, "q3_k"},   {KILN_Q4_K, 256, 144, "q4_k"},
    {KILN_Q5_K, 256, 176, "q5_k"},   {KILN_Q6_K, 256, 210, "q6_k"},
    {KILN_IQ4_NL, 32, 18, "iq4_nl"}, {KILN_IQ4_XS, 256, 136, "iq4_xs"},
    {KILN_MXFP4, 32, 17, "mxfp4"},   {KILN_NVFP4, 64, 36, "nvfp4"},
};

static const dtype_row *row_of(uint32_t dtype)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].dtype == dtype) return &rows[i];
    return NULL;
}

size_t dtype_size(uint32_t dtype)
{
    const dtype_row *r = row_of(dtype);
    return r && r->elements == 1 ? r->bytes : 0;
}

size_t dtype_block(uint32_t dtype)
{
    const dtype_row *r = row_of(dtype);
    return r ? r->elements : 0;
}

size_t dtype_block_bytes(uint32_t dtype)
{
    const dtype_row *r = row_of(dtype);
    return r ? r->bytes : 0;
}

int dtype_is_block(uint32_t dtype) { return dtype_block(dtype) > 1; }

int dtype_bytes(uint32_t dtype, size_t n, size_t *bytes)
{
    const dtype_row *r = row_of(dtype);
    return r && n % r->elements == 0 && checked_mul_size(n / r->elements, r->bytes, bytes);
}

const char *dtype_name(uint32_t dtype)
{
    const dtype_row *r = row_of(dtype);
    return r ? r->name : "?";
}

uint32_t dtype_from_name(const char *name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].name, name) == 0) return rows[i].dtype;
    return 0;
}

float f16_to_f32(uint16_t v)
{
    uint32_t sign = (uint32_t)(v & 0x8000u) << 16, exponent = (v >> 10) & 31u, fraction = v & 0x3ffu;
    union {
        uint32_t u;
        float f;
    } x;
    if (exponent == 0) { /* zero or subnormal: fraction * 2^-24 */
        x.f = (float)fraction * 0x1p-24f;
        x.u |= sign;
    } else if (exponent == 31) {
        x.u = sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0u);
    } else {
        x.u = sign | (exponent + 112) << 23 | fraction << 13;
    }
    return x.f;
}

uint16_t f16_from_f32(float f)
{
    union {
        float f;
        uint32_t u;
    } x = {.f = f};
    uint32_t sign = (x.u >> 16) & 0x8000u, magnitude = x.u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* rounds to 65520 or more */
    if (magnitude < 0x38800000u) { /* below 2^-14: the unit is 2^-24, rounded by the float adder */
        x.u = magnitude;
        x.f += 0.5f;
        return (uint16_t)(sign | (x.u - 0x3f000000u));
    }
    uint32_t odd = (magnitude >> 13) & 1u;
    return (uint16_t)(sign | ((magnitude - 0x38000000u + 0xfffu + odd) >> 13));
}

/* OCP 8-bit Floating Point Specification 1.0, section 5: exponent bias 7, no infinity; all ones but the sign is NaN. */
float f8_e4m3_to_f32(uint8_t v)
{
    union {
        uint32_t u;
        float f;
    } x;
    uint32_t sign = (uint32_t)(v & 0x80u) << 24, exponent = (v >> 3) & 15u, fraction = v & 7u;
    if (exponent == 0) { /* zero or subnormal: fraction * 2^-9 */
        x.f = (float)fraction * 0x1p-9f;
        x.u |= sign;
    } else if (exponent == 15 && fraction == 7) {
        x.u = sign | 0x7fc00000u;
    } else {
        x.u = sign | (exponent + 120) << 23 | fraction << 20;
    }
    return x.f;
}

int f16_all_finite(const uint16_t *v, size_t n)
{
    enum { LANES = 64 };
    uint16_t bad = 0;
    size_t i = 0;
    for (; i + LANES <= n; i += LANES) /* a fixed count, for the vectoriser */
        for (size_t k = 0; k < LANES; k++) bad |= (uint16_t)((v[i + k] & 0x7c00u) == 0x7c00u);
    for (; i < n; i++) bad |= (uint16_t)((v[i] & 0x7c00u) == 0x7c00u);
    return !bad;
}

static float load(const unsigned char *p, uint32_t dtype)
{
    float f = 0;
    uint16_t h;
    double d;
    switch (dtype) {
    case KILN_F32: memcpy(&f, p, 4); break;
    case KILN_F16: memcpy(&h, p, 2), f = f16_to_f32(h); break;
    case KILN_BF16: memcpy(&h, p, 2), f = bf16_to_f32(h); break;
    case KILN_F64: memcpy(&d, p, 8), f = (float)d; break;
    case KILN_F8_E4M3: f = f8_e4m3_to_f32(*p); break;
    case KILN_F8_E5M2: f = f8_e5m2_to_f32(*p); break;
    default: break;
    }
    return f;
}

static void store(unsigned char *p, uint32_t dtype, float f)
{
    uint16_t h;
    double d = (double)f;
    switch (dtype) {
    case KILN_F32: memcpy(p, &f, 4); break;
    case KILN_F16: h = f16_from_f32(f), memcpy(p, &h, 2); break;
    case KILN_BF16: h = bf16_from_f32(f), memcpy(p, &h, 2); break;
    case KILN_F64: memcpy(p, &d, 8); break;
    default: break;
    }
}

/* What can be written. */
static int is_float(uint32_t dtype)
{
    return dtype == KILN_F32 || dtype == KILN_F16 || dtype == KILN_BF16 || dtype == KILN_F64;
}

int dtype_is_f8(uint32_t dtype) { return dtype == KILN_F8_E4M3 || dtype == KILN_F8_E5M2; }

/* By a table of all there are. */
static size_t f8_to_f32(float *dst, const unsigned char *src, uint32_t src_dtype, size_t n)
{
    float of[256];
    for (unsigned i = 0; i < 256; i++) of[i] = load(&(unsigned char){(unsigned char)i}, src_dtype);
    for (size_t i = 0; i < n; i++) dst[i] = of[src[i]];
    return n;
}

static size_t convert_fast(void *dst, uint32_t dst_dtype, const void *src, uint32_t src_dtype, size_t n)
{
#if defined __x86_64__
    if (__builtin_cpu_supports("avx2")) /* and so F16C: no processor has the one without the other */
        return dtype_convert_avx2(dst, dst_dtype, src, src_dtype, n);
#endif
    (void)dst, (void)dst_dtype, (void)src, (void)src_dtype, (void)n;
    return 0;
}

float dtype_largest(const void *src, uint32_t src_dtype, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++) {
        float v = load((const unsigned char *)src + i * dtype_size(src_dtype), src_dtype);
        if (isfinite(v) && fabsf(v) > fabsf(most)) most = v;
    }
    return most;
}

kiln_status dtype_convert(void *dst, uint32_t dst_dtype, const void *src, uint32_t src_dtype, size_t n)
{
    size_t from = dtype_size(src_dtype), to = dtype_size(dst_dtype);
    if (src_dtype == dst_dtype && from) {
        memcpy(dst, src, n * from);
        return KILN_OK;
    }
    if (!(is_float(src_dtype) || dtype_is_f8(src_dtype)) || !is_float(dst_dtype)) return KILN_ERR_UNSUPPORTED;
    if (dtype_is_f8(src_dtype) && dst_dtype == KILN_F32) return f8_to_f32(dst, src, src_dtype, n), KILN_OK;
    for (size_t i = convert_fast(dst, dst_dtype, src, src_dtype, n); i < n; i++)
        store((unsigned char *)dst + i * to, dst_dtype, load((const unsigned char *)src + i * from, src_dtype));
    return KILN_OK;
}
