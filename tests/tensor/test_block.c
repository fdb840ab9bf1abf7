/* test_block.c - element types that are stored by blocks: what the gguf package reads and writes (tests/golden/
 * blocks.safetensors), the fast loops bit for bit the plain ones, sizes, and how far rounded floats are from the rest.
 */
#include "tensor/block.h"
#include "tensor/dtype.h"
#include "weights/weights.h"

#include "harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 8, WIDTH = 256, ALL = 1024 };

static const struct {
    uint32_t dtype;
    const char *name;
    size_t elements, bytes;
    double error; /* of a normal distribution, relative to its RMS: see test_errors */
} types[] = {
    {KILN_Q4_0, "q4_0", 32, 18, 0.0915},    {KILN_Q4_1, "q4_1", 32, 20, 0.0800},
    {KILN_Q5_0, "q5_0", 32, 22, 0.0455},    {KILN_Q5_1, "q5_1", 32, 24, 0.0390},
    {KILN_Q8_0, "q8_0", 32, 34, 0.0056},    {KILN_Q2_K, "q2_k", 256, 84, 0.265},
    {KILN_Q3_K, "q3_k", 256, 110, 0.145},   {KILN_Q4_K, "q4_k", 256, 144, 0.0715},
    {KILN_Q5_K, "q5_k", 256, 176, 0.0360},  {KILN_Q6_K, "q6_k", 256, 210, 0.0185},
    {KILN_IQ4_NL, "iq4_nl", 32, 18, 0.074}, {KILN_IQ4_XS, "iq4_xs", 256, 136, 0.076},
    {KILN_MXFP4, "mxfp4", 32, 17, 0.118},   {KILN_NVFP4, "nvfp4", 64, 36, 0.0980},
};
enum { N_TYPES = sizeof types / sizeof types[0] };

static kiln_weights *goldens(void)
{
    char path[600];
    error e = {0};
    snprintf(path, sizeof path, "%s/tests/golden/blocks.safetensors", test_root());
    kiln_weights *w = weights_open(path, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

static const void *bytes_of(const kiln_weights *w, const char *type, const char *part, size_t bytes)
{
    char name[40];
    kiln_weight_info info = {.size = sizeof info};
    snprintf(name, sizeof name, "%s.%s", type, part);
    const void *p = weights_bytes(w, name, &info);
    CHECK_MSG(p && info.bytes == bytes, "%s has %zu bytes", name, info.bytes);
    return p;
}

static void test_sizes(void)
{
    size_t n = 7;
    for (size_t i = 0; i < N_TYPES; i++) {
        CHECK_EQ(dtype_block(types[i].dtype), types[i].elements);
        CHECK_EQ(dtype_block_bytes(types[i].dtype), types[i].bytes);
        CHECK_EQ(dtype_size(types[i].dtype), 0); /* no element has a size of its own */
        CHECK_STR(dtype_name(types[i].dtype), types[i].name);
        CHECK_EQ(dtype_from_name(types[i].name), types[i].dtype);
        CHECK(dtype_is_block(types[i].dtype));
        CHECK(dtype_bytes(types[i].dtype, 512, &n) && n == 512 / types[i].elements * types[i].bytes);
        CHECK(!dtype_bytes(types[i].dtype, 500, &n));
        CHECK(!dtype_bytes(types[i].dtype, SIZE_MAX / 256 * 256, &n) || types[i].bytes < types[i].elements);
        CHECK(block_read_f32(types[i].dtype, NULL, NULL, 8) == KILN_ERR_UNSUPPORTED);
        CHECK(block_write(types[i].dtype, NULL, NULL, 8) == KILN_ERR_UNSUPPORTED);
    }
    CHECK(dtype_bytes(KILN_F16, 3, &n) && n == 6 && !dtype_bytes(KILN_F64, SIZE_MAX / 4, &n));
    CHECK(!dtype_bytes(0, 4, &n) && !dtype_is_block(KILN_F16) && !dtype_block(999));
    CHECK(block_read_f32(KILN_F16, NULL, NULL, 32) == KILN_ERR_UNSUPPORTED);
}

static void test_Q1_read_as_gguf_does(void)
{
    kiln_weights *w = goldens();
    REQUIRE(w);
    for (size_t i = 0; i < N_TYPES; i++) {
        float plain[ALL], fast[ALL];
        uint8_t odd[ALL * 34 / 32 + 1];
        size_t bytes = ALL / types[i].elements * types[i].bytes;
        const void *blocks = bytes_of(w, types[i].name, "blocks", bytes);
        const void *want = bytes_of(w, types[i].name, "f32", sizeof plain);
        REQUIRE(blocks && want && bytes < sizeof odd);
        memcpy(odd + 1, blocks, bytes); /* any alignment */
        REQUIRE(block_read_plain(types[i].dtype, blocks, plain, ALL) == KILN_OK);
        REQUIRE(block_read_f32(types[i].dtype, odd + 1, fast, ALL) == KILN_OK);
        CHECK_MSG(memcmp(plain, want, sizeof plain) == 0, "%s is not what gguf reads", types[i].name);
        CHECK_MSG(memcmp(fast, want, sizeof fast) == 0, "%s: the fast loop differs", types[i].name);
    }
    weights_unref(w);
}

static void test_write_as_gguf_does(void)
{
    static const uint32_t same[] = {KILN_Q4_0, KILN_Q4_1, KILN_Q5_0, KILN_Q5_1, KILN_Q8_0, KILN_MXFP4};
    kiln_weights *w = goldens();
    REQUIRE(w);
    const float *rows = weights_bytes(w, "rows", NULL);
    static float x[ROWS * WIDTH];
    REQUIRE(rows);
    memcpy(x, rows, sizeof x);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        uint8_t got[ROWS * WIDTH / 32 * 34];
        size_t bytes = 0;
        REQUIRE(dtype_bytes(same[i], ROWS * WIDTH, &bytes) && bytes <= sizeof got);
        const void *want = bytes_of(w, dtype_name(same[i]), "written", bytes);
        REQUIRE(want && block_write(same[i], x, got, ROWS * WIDTH) == KILN_OK);
        CHECK_MSG(memcmp(got, want, bytes) == 0, "%s is not what gguf writes", dtype_name(same[i]));
    }
    weights_unref(w);
}

/* ---- what is lost ---- */

enum { MANY = 1 << 16 };

static float *normal(void)
{
    float *x = malloc(MANY * sizeof *x);
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; x && i < MANY; i++) { /* Box and Muller's, from two xorshift numbers */
        double u[2];
        for (int k = 0; k < 2; k++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            u[k] = ((double)(state >> 11) + 0.5) / 9007199254740992.0;
        }
        x[i] = (float)(0.02 * sqrt(-2 * log(u[0])) * cos(6.283185307179586 * u[1]));
    }
    return x;
}

static double rms_error(const float *x, const float *y)
{
    double off = 0, all = 0;
    for (size_t i = 0; i < MANY; i++) {
        off += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
        all += (double)x[i] * (double)x[i];
    }
    return sqrt(off / all);
}

static void test_errors(void)
{
    float *x = normal(), *y = malloc(MANY * sizeof *y);
    uint8_t *b = malloc(MANY * 2), *again = malloc(MANY * 2);
    REQUIRE(x && y && b && again);
    for (size_t i = 0; i < N_TYPES; i++) {
        size_t bytes = 0;
        REQUIRE(dtype_bytes(types[i].dtype, MANY, &bytes));
        REQUIRE(block_write(types[i].dtype, x, b, MANY) == KILN_OK);
        REQUIRE(block_write(types[i].dtype, x, again, MANY) == KILN_OK);
        CHECK(memcmp(b, again, bytes) == 0);
        CHECK_EQ(block_first_nonfinite(types[i].dtype, b, MANY), MANY / types[i].elements);
        REQUIRE(block_read_f32(types[i].dtype, b, y, MANY) == KILN_OK);
        double off = rms_error(x, y);
        printf("%-7s %.2f bits, relative RMS error %.5f\n", types[i].name, 8.0 * (double)bytes / MANY, off);
        CHECK_MSG(off < types[i].error, "%s: error %g of at most %g", types[i].name, off, types[i].error);
    }
    free(x), free(y), free(b), free(again);
}

/* What a type can hold exactly comes back as it was, and zero stays zero. */
static void test_zeros_and_constants(void)
{
    for (size_t i = 0; i < N_TYPES; i++) {
        float x[WIDTH] = {0}, y[WIDTH];
        uint8_t b[WIDTH * 2];
        REQUIRE(block_write(types[i].dtype, x, b, WIDTH) == KILN_OK);
        REQUIRE(block_read_f32(types[i].dtype, b, y, WIDTH) == KILN_OK);
        for (int k = 0; k < WIDTH; k++) CHECK(y[k] == 0);
        for (int k = 0; k < WIDTH; k++) x[k] = -0.5f;
        REQUIRE(block_write(types[i].dtype, x, b, WIDTH) == KILN_OK);
        REQUIRE(block_read_f32(types[i].dtype, b, y, WIDTH) == KILN_OK);
        for (int k = 0; k < WIDTH; k++)
            CHECK_MSG(fabsf(y[k] + 0.5f) < 0.002f, "%s: -0.5 came back as %g", types[i].name, (double)y[k]);
    }
}

static void test_a_scale_that_is_not_finite_is_found(void)
{
    static const struct {
        uint32_t dtype;
        int at[2];
    } halves[] = {{KILN_Q4_0, {0, 0}}, {KILN_Q4_1, {0, 2}},     {KILN_Q5_0, {0, 0}},     {KILN_Q5_1, {0, 2}},
                  {KILN_Q8_0, {0, 0}}, {KILN_Q2_K, {80, 82}},   {KILN_Q3_K, {108, 108}}, {KILN_Q4_K, {0, 2}},
                  {KILN_Q5_K, {0, 2}}, {KILN_Q6_K, {208, 208}}, {KILN_IQ4_NL, {0, 0}},   {KILN_IQ4_XS, {0, 0}}};
    for (size_t i = 0; i < sizeof halves / sizeof halves[0]; i++)
        for (int k = 0; k < 2; k++) {
            uint8_t b[4 * 256];
            size_t elements = dtype_block(halves[i].dtype), bytes = dtype_block_bytes(halves[i].dtype);
            memset(b, 0, sizeof b);
            CHECK_EQ(block_first_nonfinite(halves[i].dtype, b, 4 * elements), 4);
            b[2 * bytes + (size_t)halves[i].at[k] + 1] = k ? 0xfc : 0x7e;
            CHECK_EQ(block_first_nonfinite(halves[i].dtype, b, 4 * elements), 2);
        }
    uint8_t e8m0[34] = {250};
    CHECK_EQ(block_first_nonfinite(KILN_MXFP4, e8m0, 64), 2);
    e8m0[17] = 255;
    CHECK_EQ(block_first_nonfinite(KILN_MXFP4, e8m0, 64), 1);
    float huge[32] = {1e30f};
    uint8_t b[34];
    CHECK(block_write(KILN_Q8_0, huge, b, 32) == KILN_OK && block_first_nonfinite(KILN_Q8_0, b, 32) == 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_sizes),  CASE(test_Q1_read_as_gguf_does), CASE(test_write_as_gguf_does),
        CASE(test_errors), CASE(test_zeros_and_constants),  CASE(test_a_scale_that_is_not_finite_is_found)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
