/* test_dtype.c - conversions between element types: known values, and the fast paths bit for bit the plain ones. */
#include "harness.h"
#include "tensor/dtype.h"

#include <math.h>
#include <string.h>

enum { ALL = 65536 };
static uint16_t halves[ALL], back[ALL];
static float floats[ALL];

static uint32_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static void test_every_f16_widens_as_one(void)
{
    int64_t wrong = 0;
    for (size_t i = 0; i < ALL; i++) halves[i] = (uint16_t)i;
    REQUIRE(dtype_convert(floats, KILN_F32, halves, KILN_F16, ALL) == KILN_OK);
    for (size_t i = 0; i < ALL; i++) wrong += bits(floats[i]) != bits(f16_to_f32((uint16_t)i));
    CHECK_EQ(wrong, 0);
    CHECK(f16_to_f32(0x3c00) == 1.0f && f16_to_f32(0x0001) == 0x1p-24f && isinf(f16_to_f32(0xfc00)) &&
          isnan(f16_to_f32(0x7c01)));
    REQUIRE(dtype_convert(back, KILN_F16, floats, KILN_F32, ALL) == KILN_OK);
    for (size_t i = 0; i < ALL; i++) wrong += back[i] != f16_from_f32(floats[i]);
    CHECK_EQ(wrong, 0);
}

/* Floats of every exponent with fractions that round up, down and to even. */
static void test_f32_narrows_as_one(void)
{
    static const uint32_t tails[] = {0,     1,      0x7fff, 0x8000, 0x8001, 0x17fff, 0x18000,
                                     0xfff, 0x1000, 0x1001, 0x2fff, 0x3000, 0x7fffff};
    size_t n = 0, wrong = 0;
    for (uint32_t e = 0; e < 512; e++)
        for (size_t t = 0; t < sizeof tails / sizeof tails[0]; t++) {
            uint32_t u = e << 23 | tails[t];
            memcpy(&floats[n++], &u, sizeof u);
        }
    REQUIRE(dtype_convert(back, KILN_BF16, floats, KILN_F32, n) == KILN_OK);
    for (size_t i = 0; i < n; i++) wrong += back[i] != bf16_from_f32(floats[i]);
    CHECK_EQ(wrong, 0);
    REQUIRE(dtype_convert(back, KILN_F16, floats, KILN_F32, n) == KILN_OK);
    for (size_t i = 0; i < n; i++) wrong += back[i] != f16_from_f32(floats[i]);
    CHECK_EQ(wrong, 0);
}

static void test_bf16_from_f16_and_odd_counts(void)
{
    unsigned char odd[2 * 13 + 1]; /* any alignment, any count */
    uint16_t out[13];
    for (uint16_t i = 0; i < 13; i++) {
        uint16_t h = f16_from_f32((float)i * 0.37f);
        memcpy(odd + 1 + 2 * i, &h, 2);
    }
    REQUIRE(dtype_convert(out, KILN_BF16, odd + 1, KILN_F16, 13) == KILN_OK);
    for (uint16_t i = 0; i < 13; i++) CHECK_EQ(out[i], bf16_from_f32(f16_to_f32(f16_from_f32((float)i * 0.37f))));
    CHECK_EQ(dtype_convert(out, KILN_BF16, odd + 1, KILN_I32, 1), KILN_ERR_UNSUPPORTED);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_every_f16_widens_as_one), CASE(test_f32_narrows_as_one),
                                      CASE(test_bf16_from_f16_and_odd_counts)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
