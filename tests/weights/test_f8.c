/* test_f8.c - weights in 8 bits: every byte of both types against torch's (tests/golden/fp8.safetensors) and against
 * the definition (OCP 8-bit Floating Point Specification 1.0, tables 1 and 2); views, patches and the search for NaN;
 * and fp8 with a scale in a form kiln does not know, which is refused by name.
 */
#include "weights_kit.h"

#include "tensor/dtype.h"
#include "tensor/value.h"

#include <math.h>

static kiln_weights *all_bytes(void)
{
    char path[600];
    snprintf(path, sizeof path, "%s/tests/golden/fp8.safetensors", test_root());
    return opened(path);
}

/* sign * 2^(exponent - bias) * (1 + fraction / 2^bits); exponent 0: sign * 2^(1 - bias) * fraction / 2^bits. */
static double defined(unsigned byte, int bits, int bias)
{
    unsigned fraction = byte & ((1u << bits) - 1), exponent = (byte & 0x7f) >> bits;
    double one = exponent ? 1 : 0, sign = byte & 0x80 ? -1 : 1;
    return sign * ldexp(one + ldexp((double)fraction, -bits), (exponent ? (int)exponent : 1) - bias);
}

static void check_type(const char *name, uint32_t dtype, int bits, int bias)
{
    float got[256], of_torch[256];
    uint16_t half[256];
    char golden[32];
    kiln_weights *w = all_bytes();
    kiln_weight_info info = {.size = sizeof info};
    REQUIRE(w);
    snprintf(golden, sizeof golden, "%s.f32", name);
    CHECK(weights_find(w, name, &info) == KILN_OK && info.dtype == dtype && info.bytes == 256);
    REQUIRE(weights_read_f32(w, name, got, NULL) == KILN_OK && weights_read_f32(w, golden, of_torch, NULL) == KILN_OK);
    REQUIRE(dtype_convert(half, KILN_F16, weights_bytes(w, name, NULL), dtype, 256) == KILN_OK);
    size_t nan = 0, infinite = 0;
    for (unsigned i = 0; i < 256; i++) {
        CHECK(isnan(of_torch[i]) ? isnan(got[i]) : memcmp(&got[i], &of_torch[i], 4) == 0);
        CHECK(isnan(got[i]) ? isnan(f16_to_f32(half[i])) : f16_to_f32(half[i]) == got[i]); /* f16 has them all */
        nan += isnan(got[i]) != 0, infinite += isinf(got[i]) != 0;
        if (isfinite(got[i])) CHECK_MSG((double)got[i] == defined(i, bits, bias), "byte %u is %g", i, (double)got[i]);
    }
    CHECK_EQ(nan, dtype == KILN_F8_E4M3 ? 2 : 6);
    CHECK_EQ(infinite, dtype == KILN_F8_E4M3 ? 0 : 2);
    CHECK(dtype_convert(half, dtype, got, KILN_F32, 1) == KILN_ERR_UNSUPPORTED); /* nothing is written in 8 bits */
    weights_unref(w);
}

static void test_every_byte_of_e4m3(void) { check_type("e4m3", KILN_F8_E4M3, 3, 7); }
static void test_every_byte_of_e5m2(void) { check_type("e5m2", KILN_F8_E5M2, 2, 15); }

/* ---- in a set ---- */

/* "a" is F8_E4M3 [4,3]: 1, 2, 3, ... 12 in its bytes; then more of the header, and its bytes. */
static kiln_weights *with_a(const char *file, const char *more, size_t n, const char *notes)
{
    static const uint8_t twelve[] = {0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c, 0x4e, 0x50, 0x51, 0x52, 0x53, 0x54};
    char header[800];
    size_t size;
    snprintf(header, sizeof header,
             "{%s\"a.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[4,3],\"data_offsets\":[0,12]}%s}", notes, more);
    uint8_t *bytes = raw_file(header, strlen(header), 12 + n, &size);
    memcpy(bytes + size - 12 - n, twelve, 12);
    kiln_weights *w = opened(put_bytes(file, bytes, size));
    free(bytes);
    return w;
}

static void test_rows_and_transposed(void)
{
    static const kiln_weight_rule rows = KILN_RULE(.from = "a.weight", .to = "b", .row = 1, .rows = 2, .transpose = 1);
    static const float wanted[] = {4, 7, 5, 8, 6, 9};
    kiln_weights *w = with_a("rows.safetensors", "", 0, ""), *v = w ? weights_view(w, &rows, 1, NULL) : NULL;
    float got[6];
    REQUIRE(v && weights_read_f32(v, "b", got, NULL) == KILN_OK);
    CHECK(memcmp(got, wanted, sizeof got) == 0);
    weights_unref(v);
    weights_unref(w);
}

static void test_a_patch_on_top(void)
{
    static const float difference[12] = {0.5f};
    const kiln_weight_patch patch = {
        .size = sizeof patch, .name = "a.weight", .strength = 1, .scale = 1, .difference = "d"};
    kiln_weight_patch p = patch;
    kiln_weights *w = with_a("patched.safetensors", "", 0, ""), *v = NULL;
    p.from = opened(put_tensors(
        "d.safetensors", &(safetensors_source){.name = "d", .dtype = KILN_F32, DIMS(4, 3), .data = difference}, 1));
    float got[12];
    REQUIRE(w && p.from && (v = weights_patch(w, &p, 1, NULL)));
    CHECK_EQ(weights_read_f32(v, "a.weight", got, NULL), KILN_OK);
    CHECK(got[0] == 1.5f && got[1] == 2 && got[11] == 12);
    weights_unref(v), weights_unref(w), weights_unref(p.from);
}

static void test_a_nan_is_found(void)
{
    static const struct {
        const char *type;
        uint8_t byte;
        int finite;
    } rows[] = {{"F8_E4M3", 0x7f, 0}, {"F8_E4M3", 0xff, 0}, {"F8_E4M3", 0x7e, 1},
                {"F8_E5M2", 0x7c, 0}, {"F8_E5M2", 0xfe, 0}, {"F8_E5M2", 0x7b, 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char header[200];
        size_t size;
        error e = {0};
        snprintf(header, sizeof header, "{\"t\":{\"dtype\":\"%s\",\"shape\":[100],\"data_offsets\":[0,100]}}",
                 rows[i].type);
        uint8_t *bytes = raw_file(header, strlen(header), 100, &size);
        memset(bytes + size - 100, 1, 100);
        bytes[size - 5] = rows[i].byte;
        kiln_weights *w = opened(put_bytes("nan.safetensors", bytes, size));
        free(bytes);
        REQUIRE(w);
        CHECK_EQ(weights_scan_finite(w, "t", &e), rows[i].finite ? KILN_OK : KILN_ERR_INVALID);
        if (!rows[i].finite) contains(e.message, "at element 95");
        weights_unref(w);
    }
}

static void test_no_value_is_of_eight_bits(void)
{
    error e = {0};
    CHECK(!value_tensor_new(KILN_F8_E4M3, KILN_CPU, 1, (const int64_t[]){4}, &e));
    CHECK_EQ(e.status, KILN_ERR_INVALID);
}

/* ---- with a scale ---- */

/* In a form that is none of those that test_scaled.c has. */
static void test_an_unknown_scale_is_refused_by_name(void)
{
    static const struct {
        const char *more, *named;
        size_t n;
    } rows[] = {
        {",\"a.weight_scale\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[12,24]}", "'a.weight_scale'", 12},
        {",\"a.weight_scale\":{\"dtype\":\"U8\",\"shape\":[4,1],\"data_offsets\":[12,16]}", "'a.weight_scale'", 4},
        {",\"a.weight_scale_inv\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[12,28]}", "_scale_inv'", 16},
        {",\"a.scale_weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]},\"a.pre_quant_scale\":{"
         "\"dtype\":"
         "\"F32\",\"shape\":[3],\"data_offsets\":[16,28]}",
         "'a.pre_quant_scale'", 16},
    };
    static const kiln_weight_rule renamed = KILN_RULE(.from = "a.*", .to = "b.*");
    float got[12];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        error e = {0}, seen = {0};
        kiln_weights *w = with_a("scaled.safetensors", rows[i].more, rows[i].n, ""), *v = NULL;
        REQUIRE(w && (v = weights_view(w, &renamed, 1, NULL)));
        CHECK_EQ(weights_read_f32(w, "a.weight", got, &e), KILN_ERR_UNSUPPORTED);
        contains(e.message, rows[i].named);
        contains(e.message, "'a.weight' is F8_E4M3 that '");
        CHECK_EQ(weights_supported(v, "b.weight", &seen), KILN_ERR_UNSUPPORTED);
        contains(seen.message, rows[i].named);
        CHECK(!weights_bytes(w, "a.weight", NULL));
        weights_unref(v);
        weights_unref(w);
    }
}

static void test_what_only_looks_like_a_scale(void)
{
    static const char *const others[] = {"b.scale_weight", "a.weight_scales", "unscaled_fp8", "a.bias"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char more[200];
        float got[12];
        snprintf(more, sizeof more, ",\"%s\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[12,16]}", others[i]);
        kiln_weights *w = with_a("plain.safetensors", more, 4, "");
        REQUIRE(w);
        CHECK_MSG(weights_read_f32(w, "a.weight", got, NULL) == KILN_OK && got[11] == 12, "%s", others[i]);
        weights_unref(w);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_every_byte_of_e4m3),
        CASE(test_every_byte_of_e5m2),
        CASE(test_rows_and_transposed),
        CASE(test_a_patch_on_top),
        CASE(test_a_nan_is_found),
        CASE(test_no_value_is_of_eight_bits),
        CASE(test_an_unknown_scale_is_refused_by_name),
        CASE(test_what_only_looks_like_a_scale),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
