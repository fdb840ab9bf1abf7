/* test_dtype.c - every f16 and bf16 value there is, and roundings, against the definition of the formats. */
#include "harness.h"
#include "tensor/dtype.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The definition: sign, exponent, fraction of a 16-bit float with `e` exponent bits. */
static double defined(uint16_t v, int e)
{
    int f = 15 - e, exponent = (v >> f) & ((1 << e) - 1), bias = (1 << (e - 1)) - 1;
    double fraction = v & ((1 << f) - 1), sign = v & 0x8000 ? -1 : 1;
    if (exponent == (1 << e) - 1) return fraction != 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, 1 - bias - f);
    return sign * ldexp(ldexp(1, f) + fraction, exponent - bias - f);
}

static int is_nan16(uint16_t v, int e)
{
    int f = 15 - e;
    return ((v >> f) & ((1 << e) - 1)) == (1 << e) - 1 && (v & ((1 << f) - 1));
}

static void test_all_values(void)
{
    int wrong = 0;
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t v = (uint16_t)i;
        float h = f16_to_f32(v), b = bf16_to_f32(v);
        double want_h = defined(v, 5), want_b = defined(v, 8);
        if (isnan(want_h) ? !isnan(h) || !is_nan16(f16_from_f32(h), 5) : (double)h != want_h || !signbit(h) != !signbit(want_h) || f16_from_f32(h) != v) wrong++;
        if (isnan(want_b) ? !isnan(b) || !is_nan16(bf16_from_f32(b), 8) : (double)b != want_b || !signbit(b) != !signbit(want_b) || bf16_from_f32(b) != v) wrong++;
    }
    CHECK_EQ(wrong, 0);
}

/* Between two neighbours a and b: below the middle a, above it b, at it the even one. */
static void check_between(uint16_t a, int e, uint16_t (*from)(float))
{
    double low = defined(a, e), high = defined((uint16_t)(a + 1), e);
    if (isinf(high)) high = 2 * low - defined((uint16_t)(a - 1), e); /* where the next one would be */
    float middle = (float)((low + high) / 2);
    uint16_t even = a & 1 ? (uint16_t)(a + 1) : a;
    uint16_t got[3] = {from(nextafterf(middle, 0)), from(middle), from(nextafterf(middle, INFINITY))};
    CHECK_MSG(got[0] == a && got[1] == even && got[2] == a + 1, "after %04x: %04x %04x %04x", a, got[0], got[1], got[2]);
    CHECK_EQ(from(-middle), even | 0x8000);
}

static void test_rounding_is_to_nearest_even(void)
{
    for (uint32_t a = 1; a < 0x7c00; a++) check_between((uint16_t)a, 5, f16_from_f32);
    for (uint32_t a = 1; a < 0x7f7f; a++) check_between((uint16_t)a, 8, bf16_from_f32);
    CHECK_EQ(f16_from_f32(0x1p-25f), 0);      /* half the smallest: to the even zero */
    CHECK_EQ(f16_from_f32(0x1.000002p-25f), 1);
    CHECK_EQ(f16_from_f32(65519.996f), 0x7bff);
    CHECK_EQ(f16_from_f32(65520.0f), 0x7c00);
    CHECK_EQ(bf16_from_f32(3.4e38f), 0x7f80);
}

static void test_convert(void)
{
    static const uint32_t types[] = {KILN_F32, KILN_F16, KILN_BF16, KILN_F64};
    enum { N = 1000 };
    static unsigned char from[N * 8 + 1], to[N * 8 + 8];
    uint32_t state = 1;
    for (size_t a = 0; a < 4; a++)
        for (size_t b = 0; b < 4; b++) {
            size_t sa = dtype_size(types[a]), sb = dtype_size(types[b]);
            for (size_t i = 0; i < N; i++) { /* numbers every type holds, at an odd address */
                state = state * 1664525u + 1013904223u;
                float f = bf16_to_f32((uint16_t)(0x3c00u | (state >> 20 & 0x83ffu)));
                double d = (double)f;
                uint16_t h = types[a] == KILN_F16 ? f16_from_f32(f) : bf16_from_f32(f);
                memcpy(from + 1 + i * sa, sa == 8 ? (void *)&d : sa == 4 ? (void *)&f : (void *)&h, sa);
            }
            memset(to, 0xA5, sizeof to);
            CHECK_EQ(dtype_convert(to, types[b], from + 1, types[a], N), KILN_OK);
            CHECK_EQ(to[N * sb], 0xA5);
            static unsigned char back[N * 8];
            CHECK_EQ(dtype_convert(back, types[a], to, types[b], N), KILN_OK);
            if (types[a] != KILN_BF16 && types[b] != KILN_F16 && types[a] != KILN_F16) CHECK_MSG(memcmp(back, from + 1, N * sa) == 0, "%s to %s and back", dtype_name(types[a]), dtype_name(types[b]));
        }
    uint32_t ids[2] = {1, 2}, copy[2] = {0};
    CHECK_EQ(dtype_convert(copy, KILN_I32, ids, KILN_I32, 2), KILN_OK);
    CHECK_EQ(copy[1], 2);
    CHECK_EQ(dtype_convert(copy, KILN_F32, ids, KILN_I32, 2), KILN_ERR_UNSUPPORTED);
    CHECK_EQ(dtype_convert(copy, 0, ids, KILN_F32, 2), KILN_ERR_UNSUPPORTED);
    CHECK_EQ(dtype_convert(copy, 0, ids, 0, 2), KILN_ERR_UNSUPPORTED);
}

static void test_names(void)
{
    for (uint32_t t = KILN_F32; t <= KILN_BOOL8; t++) {
        CHECK(dtype_size(t) > 0);
        CHECK_EQ(dtype_from_name(dtype_name(t)), t);
    }
    CHECK_EQ(dtype_size(0), 0);
    CHECK_EQ(dtype_size(99), 0);
    CHECK_STR(dtype_name(99), "?");
    CHECK_EQ(dtype_from_name("float"), 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_all_values), CASE(test_rounding_is_to_nearest_even), CASE(test_convert), CASE(test_names)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
