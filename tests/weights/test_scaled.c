/* test_scaled.c - codes with scales beside them are one tensor: f8 of ComfyUI and DeepSeek, int8 and four-bit codes of
 * bitsandbytes. Numbers by whole, in parts, turned, patched and without the map; companions are no tensors; NaN is
 * found.
 */
#include "weights_kit.h"

#include "tensor/dtype.h"

#include <math.h>

enum { O = 200, I = 260, ALL = O * I };

static uint8_t codes[ALL];
static float want[ALL], scales[O * I];

static void fill_codes(void)
{
    for (size_t i = 0; i < ALL; i++)
        codes[i] = (uint8_t)(i * 37 % 120 + (i % 3 ? 0 : 128)); /* no NaN of either f8 type */
    for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++) scales[i] = 0.01f + (float)(i * 7 % 101) * 0.003f;
}

/* A file of these tensors whose dtypes safetensors_write() may not know: by hand. */
typedef struct {
    const char *name, *type;
    const char *shape;
    const void *data;
    size_t bytes;
} raw;

static kiln_weights *file_of(const char *name, const char *notes, const raw *r, size_t n)
{
    char header[2000];
    size_t at = 0, size, data = 0;
    for (size_t i = 0; i < n; i++) data += r[i].bytes;
    int len = snprintf(header, sizeof header, "{%s", notes);
    for (size_t i = 0; i < n; i++, at += r[i - 1].bytes)
        len += snprintf(header + len, sizeof header - (size_t)len,
                        "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}", i ? "," : "",
                        r[i].name, r[i].type, r[i].shape, at, at + r[i].bytes);
    len += snprintf(header + len, sizeof header - (size_t)len, "}");
    uint8_t *bytes = raw_file(header, (size_t)len, data, &size), *p = bytes + size - data;
    for (size_t i = 0; i < n; i++, p += r[i - 1].bytes)
        if (r[i].bytes) memcpy(p, r[i].data, r[i].bytes);
    kiln_weights *w = opened(put_bytes(name, bytes, size));
    free(bytes);
    return w;
}

static void is_near(const float *got, const float *wanted, size_t n, const char *what)
{
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++) wrong += !(fabsf(got[i] - wanted[i]) <= 2e-7f * fabsf(wanted[i]));
    CHECK_MSG(wrong == 0, "%s: %zu of %zu numbers are wrong", what, wrong, n);
}

/* By whole, rows, turned, patched, from stored bytes; and nothing else of the set is a tensor. */
static void check_all(kiln_weights *w, const char *name, const char *type, size_t rows, size_t columns)
{
    const kiln_weight_rule rule[] = {
        KILN_RULE(.from = name, .to = "rows", .row = 1, .rows = (int64_t)rows - 2, .more = 1),
        KILN_RULE(.from = name, .to = "turned", .transpose = 1)};
    static float got[ALL], one[ALL], stored[ALL];
    size_t n = rows * columns;
    error e = {0};
    kiln_weight_info info = {.size = sizeof info};
    REQUIRE(w);
    CHECK_EQ(weights_count(w), 1);
    REQUIRE(weights_find(w, name, &info) == KILN_OK);
    CHECK(info.dtype == KILN_F32 && info.rank == 2 && info.dim[0] == (int64_t)rows && info.dim[1] == (int64_t)columns);
    CHECK(info.bytes == n * 4 && info.stored_bytes < info.bytes && !weights_bytes(w, name, NULL));
    CHECK_STR(weights_type_name(w, name), type);
    CHECK_MSG(weights_read_f32(w, name, got, &e) == KILN_OK, "%s", e.message);
    is_near(got, want, n, "whole");
    CHECK_EQ(weights_unused(w, NULL, NULL), 0);
    kiln_weights *v = weights_view(w, rule, 2, &e);
    CHECK_MSG(v != NULL, "%s", e.message);
    REQUIRE(v && weights_read_f32(v, "rows", one, NULL) == KILN_OK);
    CHECK(memcmp(one, got + columns, (rows - 2) * columns * 4) == 0);
    REQUIRE(weights_read_f32(v, "turned", one, NULL) == KILN_OK);
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++) wrong += one[i] != got[i % rows * columns + i / rows];
    CHECK_EQ(wrong, 0);
    REQUIRE(weights_read_stored(w, name, stored, NULL, NULL) == KILN_OK);
    CHECK(memcmp(stored, got, n * 4) == 0 && weights_stored_bytes(w, name) == n * 4);
    CHECK(weights_scan_finite(w, name, &e) == KILN_OK);
    const kiln_weight_patch p = {
        .size = sizeof p, .name = name, .strength = 2, .scale = 1, .from = w, .difference = name};
    kiln_weights *three = weights_patch(w, &p, 1, &e);
    CHECK_MSG(three && weights_read_f32(three, name, one, &e) == KILN_OK, "%s", e.message);
    wrong = 0;
    for (size_t i = 0; i < n; i++) wrong += one[i] != got[i] + 2 * got[i];
    CHECK_EQ(wrong, 0);
    weights_unref(three), weights_unref(v), weights_unref(w);
}

static float f8(size_t i) { return f8_e4m3_to_f32(codes[i]); }

static void test_one_scale_for_all(void)
{
    static const char *const names[] = {"m.scale_weight", "m.weight_scale", "m.weight_scale_inv"};
    static const float ones[] = {1};
    static const char json[] = "{\"format\": \"float8_e4m3fn\", \"full_precision_matrix_mult\": true}";
    fill_codes();
    for (size_t i = 0; i < ALL; i++) want[i] = f8(i) * scales[3];
    for (size_t i = 0; i < 3; i++) {
        const raw r[] = {{"m.weight", "F8_E4M3", "200,260", codes, ALL}, {names[i], "F32", "", &scales[3], 4},
                         {"m.input_scale", "F32", "1", ones, 4},         {"m.scale_input", "F32", "", ones, 4},
                         {"scaled_fp8", "F8_E4M3", "2", codes, 2},       {"m.comfy_quant", "U8", "63", json, 63}};
        CHECK_EQ(sizeof json - 1, 63);
        check_all(file_of("one.safetensors", "", r, i == 0 ? 5 : 6), "m.weight", "f8 scaled", O, I);
    }
}

static void test_a_scale_for_each_row(void)
{
    fill_codes();
    for (size_t i = 0; i < ALL; i++) want[i] = f8(i) * scales[i / I];
    const raw r[] = {{"weight", "F8_E4M3", "200,260", codes, ALL}, {"weight_scale", "F32", "200,1", scales, O * 4}};
    check_all(file_of("rows.safetensors", "", r, 2), "weight", "f8 scaled", O, I);
}

static void test_a_scale_for_each_128_by_128(void)
{
    fill_codes();
    for (size_t i = 0; i < ALL; i++) want[i] = f8(i) * scales[i / I / 128 * 3 + i % I / 128];
    const raw r[] = {{"x.weight", "F8_E4M3", "200,260", codes, ALL}, {"x.weight_scale_inv", "F32", "2,3", scales, 24}};
    check_all(file_of("blocks.safetensors", "", r, 2), "x.weight", "f8 scaled", O, I);
}

/* A bank of experts: one for each, or one for each row of each. */
static void test_a_bank_of_experts(void)
{
    static float got[ALL];
    fill_codes();
    for (int rows = 0; rows < 2; rows++) {
        const raw r[] = {{"e.weight", "F8_E5M2", "4,50,260", codes, ALL},
                         {"e.weight_scale", "F32", rows ? "4,50,1" : "4", scales, rows ? 800 : 16}};
        kiln_weights *w = file_of("bank.safetensors", "", r, 2);
        REQUIRE(w && weights_read_f32(w, "e.weight", got, NULL) == KILN_OK);
        for (size_t i = 0; i < ALL; i++) want[i] = f8_e5m2_to_f32(codes[i]) * scales[rows ? i / I : i / I / 50];
        is_near(got, want, ALL, rows ? "rows of experts" : "experts");
        weights_unref(w);
    }
}

static void test_int8(void)
{
    static const uint8_t row_major = 0;
    static const char json[] = "{\"format\": \"int8_tensorwise\"}";
    fill_codes();
    const raw scb[] = {{"l.weight", "I8", "200,260", codes, ALL},
                       {"l.SCB", "F32", "200", scales, O * 4},
                       {"l.weight_format", "U8", "", &row_major, 1}};
    for (size_t i = 0; i < ALL; i++) want[i] = (float)(int8_t)codes[i] * scales[i / I] / 127;
    check_all(file_of("scb.safetensors", "", scb, 3), "l.weight", "int8 scaled", O, I);
    const raw tensorwise[] = {{"l.weight", "I8", "200,260", codes, ALL},
                              {"l.weight_scale", "F32", "", scales, 4},
                              {"l.comfy_quant", "U8", "29", json, sizeof json - 1}};
    for (size_t i = 0; i < ALL; i++) want[i] = (float)(int8_t)codes[i] * scales[0];
    check_all(file_of("int8.safetensors", "", tensorwise, 3), "l.weight", "int8 scaled", O, I);
}

/* What would have to be turned with its input. */
static void test_a_rotated_weight_is_refused(void)
{
    static const char *const json[] = {"{\"format\": \"int8_tensorwise\", \"convrot\": true}",
                                       "{\"format\": \"int8_tensorwise\", \"params\": {\"convrot\": true}}",
                                       "{\"format\": \"convrot_w4a4\"}"};
    for (size_t i = 0; i < 3; i++) {
        char shape[24];
        float got[4];
        error e = {0};
        snprintf(shape, sizeof shape, "%zu", strlen(json[i]));
        const raw r[] = {{"l.weight", "I8", "4,1", codes, 4},
                         {"l.weight_scale", "F32", "", scales, 4},
                         {"l.comfy_quant", "U8", shape, json[i], strlen(json[i])}};
        kiln_weights *w = file_of("rotated.safetensors", "", r, 3);
        REQUIRE(w);
        CHECK_EQ(weights_read_f32(w, "l.weight", got, &e), KILN_ERR_UNSUPPORTED);
        contains(e.message, "'l.comfy_quant' belongs to");
        weights_unref(w);
    }
}

static void check_codebook(int nested)
{
    enum { BLOCK = 64, BLOCKS = (ALL + BLOCK - 1) / BLOCK, NESTED = 256, SECOND = (BLOCKS + NESTED - 1) / NESTED };
    static uint8_t absmax[BLOCKS];
    static float map[16], nested_map[256], second[SECOND];
    char json[300], length[24], n_blocks[24];
    fill_codes();
    for (int i = 0; i < 16; i++) map[i] = -1 + (float)i * 0.13f;
    for (int i = 0; i < 256; i++) nested_map[i] = (float)i / 255;
    for (size_t i = 0; i < BLOCKS; i++) absmax[i] = (uint8_t)(i * 11);
    for (size_t i = 0; i < SECOND; i++) second[i] = 0.5f + (float)i;
    snprintf(json, sizeof json,
             "{\"quant_type\": \"nf4\", \"blocksize\": 64, \"dtype\": \"bfloat16\", \"shape\": [200, 260], "
             "\"nested_blocksize\": 256, \"nested_dtype\": \"float32\", \"nested_offset\": 0.015625}");
    snprintf(length, sizeof length, "%zu", strlen(json));
    snprintf(n_blocks, sizeof n_blocks, "%d", BLOCKS);
    for (size_t i = 0; i < ALL; i++) {
        float a = nested ? nested_map[absmax[i / BLOCK]] * second[i / BLOCK / NESTED] + 0.015625f : scales[i / BLOCK];
        want[i] = map[i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4] * a;
    }
    const raw r[] = {{"q.weight", "U8", "26000,1", codes, ALL / 2},
                     {"q.weight.absmax", nested ? "U8" : "F32", n_blocks, nested ? (const void *)absmax : scales,
                      nested ? BLOCKS : BLOCKS * 4},
                     {"q.weight.quant_map", "F32", "16", map, 64},
                     {"q.weight.quant_state.bitsandbytes__nf4", "U8", length, json, strlen(json)},
                     {"q.weight.nested_absmax", "F32", "4", second, SECOND * 4},
                     {"q.weight.nested_quant_map", "F32", "256", nested_map, 1024}};
    CHECK_EQ((int)SECOND, 4);
    check_all(file_of("nf4.safetensors", "", r, nested ? 6 : 4), "q.weight", "nf4", O, I);
}

static void test_four_bits(void) { check_codebook(0); }
static void test_four_bits_with_nested_scales(void) { check_codebook(1); }

static void test_a_nan_among_codes_or_scales(void)
{
    static const float nan_scale[] = {1, NAN, 1, 1};
    static const uint8_t good[8] = {1, 2, 3, 4, 5, 6, 7, 8}, bad[8] = {1, 2, 3, 4, 5, 0x7f, 7, 8};
    for (int i = 0; i < 2; i++) {
        const raw r[] = {{"a.weight", "F8_E4M3", "4,2", i ? good : bad, 8},
                         {"a.weight_scale", "F32", "4", i ? nan_scale : scales, 16}};
        error e = {0};
        kiln_weights *w = file_of("nan.safetensors", "", r, 2);
        REQUIRE(w);
        CHECK_EQ(weights_scan_finite(w, "a.weight", &e), KILN_ERR_INVALID);
        contains(e.message, i ? "'a.weight_scale' holds a NaN or infinity at element 1"
                              : "'a.weight' holds a NaN or infinity at element 5");
        weights_unref(w);
    }
}

/* The texts beside weights. */
static void test_texts_that_say_nothing(void)
{
    static const char *const texts[] = {"",
                                        "[1]",
                                        "{\"format\": 3}",
                                        "{\"format\": \"float8_e4m3fn\"} x",
                                        "{\"format\":",
                                        "{\"blocksize\": 0}",
                                        "{\"shape\": [0]}",
                                        "{\"shape\": [4611686018427387904, 4]}",
                                        "{\"nested_offset\": \"x\"}",
                                        "{\"nested_offset\": 1e999}"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        error e = {0};
        char header[400];
        size_t size, n = strlen(texts[i]);
        int len =
            snprintf(header, sizeof header,
                     "{\"a.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[4,2],\"data_offsets\":[0,8]},\"a.comfy_quant\":{"
                     "\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[8,%zu]}}",
                     n, n + 8);
        uint8_t *bytes = raw_file(header, (size_t)len, n + 8, &size);
        memcpy(bytes + size - n, texts[i], n);
        kiln_weights *w = weights_open(put_bytes("text.safetensors", bytes, size), &e);
        CHECK_MSG(!w && e.status == KILN_ERR_INVALID, "'%s' is accepted", texts[i]);
        contains(e.message, "text.safetensors: byte ");
        free(bytes);
        weights_unref(w);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_one_scale_for_all),
                                      CASE(test_a_scale_for_each_row),
                                      CASE(test_a_scale_for_each_128_by_128),
                                      CASE(test_a_bank_of_experts),
                                      CASE(test_int8),
                                      CASE(test_a_rotated_weight_is_refused),
                                      CASE(test_four_bits),
                                      CASE(test_four_bits_with_nested_scales),
                                      CASE(test_a_nan_among_codes_or_scales),
                                      CASE(test_texts_that_say_nothing)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
