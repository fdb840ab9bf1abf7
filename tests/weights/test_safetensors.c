/* test_safetensors.c - every rule of the format, kept and broken; every truncation, every bit of a header turned.
 *
 * Rules: github.com/huggingface/safetensors README and tensor.rs, and those of safetensors.h that are stricter.
 */
#include "harness.h"
#include "tiny_weights.h"
#include "weights/safetensors.h"

#include "base/memory_alloc.h"
#include "base/str.h"

#include <stdlib.h>

typedef struct {
    const char *header;
    size_t data;      /* bytes after it                       */
    const char *part; /* of the message; NULL: it is accepted */
} row;

#define T(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static const row rows[] = {
    /* ---- accepted ---- */
    {"{}", 0, NULL},
    {"{}   ", 0, NULL},
    {"{\"a\":" T("F32", "[2]", "[0,8]") "}", 8, NULL},
    {"{\"a\":" T("F32", "[2]", "[0,8]") "}      ", 8, NULL},
    {"{ \"a\" : { \"data_offsets\" : [ 0 , 8 ] ,\n\t\"shape\" : [ 2 ] ,\r \"dtype\" : \"F32\" } }", 8, NULL},
    {"{\"a\":" T("F32", "[]", "[0,4]") "}", 4, NULL},
    {"{\"a\":" T("F32", "[0]", "[0,0]") "}", 0, NULL},
    {"{\"a\":" T("F32", "[3,0,5]", "[0,0]") "}", 0, NULL},
    {"{\"a\":" T("F16", "[2]", "[0,4]") ",\"b\":" T("BF16", "[1]", "[4,6]") "}", 6, NULL},
    {"{\"b\":" T("F16", "[2]", "[2,6]") ",\"a\":" T("BF16", "[1]", "[0,2]") "}", 6, NULL},
    {"{\"a\":" T("U8", "[1]", "[0,1]") ",\"b\":" T("F32", "[1]", "[1,5]") "}", 5, NULL}, /* unaligned */
    {"{\"a\":" T("U8", "[0]", "[0,0]") ",\"b\":" T("U8", "[0]", "[0,0]") ",\"c\":" T("U8", "[1]", "[0,1]") "}", 1, NULL},
    {"{\"a\":" T("F4", "[4]", "[0,2]") "}", 2, NULL},
    {"{\"a\":" T("F6_E2M3", "[4]", "[0,3]") "}", 3, NULL},
    {"{\"a\":" T("F8_E4M3", "[4]", "[0,4]") "}", 4, NULL},
    {"{\"a\":" T("I64", "[1]", "[0,8]") "}", 8, NULL},
    {"{\"a\":" T("F64", "[1]", "[0,8]") "}", 8, NULL},
    {"{\"a\":" T("BOOL", "[3]", "[0,3]") "}", 3, NULL},
    {"{\"a\":" T("C64", "[1]", "[0,8]") "}", 8, NULL},
    {"{\"a\":" T("U8", "[1,1,1,1,1,1,1,2]", "[0,2]") "}", 2, NULL},
    {"{\"__metadata__\":{}}", 0, NULL},
    {"{\"__metadata__\":{\"format\":\"pt\",\"x\":\"\"},\"a\":" T("U8", "[1]", "[0,1]") "}", 1, NULL},
    {"{\"a\":" T("U8", "[1]", "[0,1]") ",\"__metadata__\":{\"format\":\"pt\"}}", 1, NULL},
    {"{\"\":" T("U8", "[1]", "[0,1]") "}", 1, NULL},
    {"{\"\\u00e4\\\"\\ud83d\\ude00\":" T("U8", "[1]", "[0,1]") "}", 1, NULL},
    {"{\"\xc3\xa4\":" T("U8", "[1]", "[0,1]") "}", 1, NULL},
    /* ---- the header as a whole ---- */
    {"", 0, "must start with '{'"},
    {" {}", 0, "must start with '{'"},
    {"[]", 0, "must start with '{'"},
    {"{", 0, "the end of the text where"},
    {"{} x", 0, "only spaces may follow"},
    {"{}\n", 0, "only spaces may follow"},
    {"{}}", 0, "only spaces may follow"},
    {"{,}", 0, "where a string must be"},
    {"{\"a\":" T("U8", "[1]", "[0,1]") ",}", 1, "another value after ','"},
    {"{\"a\" " T("U8", "[1]", "[0,1]") "}", 1, "where ':' must be"},
    {"{\"a\":" T("U8", "[1]", "[0,1]") "\"b\":" T("U8", "[1]", "[1,2]") "}", 2, "where ',' or '}' must be"},
    {"{a:1}", 0, "where a string must be"},
    {"{'a':1}", 0, "where a string must be"},
    {"{\"a\":1}", 0, "where an object '{' must be"},
    {"{\"a\":null}", 0, "where an object '{' must be"},
    {"{\"a\":[]}", 0, "where an object '{' must be"},
    /* ---- strings ---- */
    {"{\"a\x01\":" T("U8", "[1]", "[0,1]") "}", 1, "a control character"},
    {"{\"a\\u0000\":" T("U8", "[1]", "[0,1]") "}", 1, "a NUL in a string"},
    {"{\"\\x41\":" T("U8", "[1]", "[0,1]") "}", 1, "a bad escape"},
    {"{\"\\ud800\":" T("U8", "[1]", "[0,1]") "}", 1, "half a surrogate pair"},
    {"{\"\\udc00\":" T("U8", "[1]", "[0,1]") "}", 1, "half a surrogate pair"},
    {"{\"\\ud800\\u0041\":" T("U8", "[1]", "[0,1]") "}", 1, "half a surrogate pair"},
    {"{\"\\u12\":" T("U8", "[1]", "[0,1]") "}", 1, "a bad escape"},
    {"{\"\xff\":" T("U8", "[1]", "[0,1]") "}", 1, "not UTF-8"},
    {"{\"\xc0\xaf\":" T("U8", "[1]", "[0,1]") "}", 1, "not UTF-8"},
    {"{\"a", 0, "does not end"},
    /* ---- one tensor's fields ---- */
    {"{\"a\":{}}", 0, "has no 'dtype'"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 0, "has no 'data_offsets'"},
    {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "has no 'shape'"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "has no 'dtype'"},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "'dtype' twice"},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"more\":1}}", 1, "a field 'more'"},
    {"{\"a\":" T("FLOAT", "[1]", "[0,4]") "}", 4, "unknown dtype 'FLOAT'"},
    {"{\"a\":" T("f32", "[1]", "[0,4]") "}", 4, "unknown dtype 'f32'"},
    {"{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "where a string must be"},
    {"{\"a\":" T("U8", "1", "[0,1]") "}", 1, "where an array '[' must be"},
    {"{\"a\":" T("U8", "[-1]", "[0,1]") "}", 1, "where a whole number"},
    {"{\"a\":" T("U8", "[-0]", "[0,0]") "}", 0, "where a whole number"},
    {"{\"a\":" T("U8", "[1.0]", "[0,1]") "}", 1, "fraction or exponent"},
    {"{\"a\":" T("U8", "[1e0]", "[0,1]") "}", 1, "fraction or exponent"},
    {"{\"a\":" T("U8", "[01]", "[0,1]") "}", 1, "leading zero"},
    {"{\"a\":" T("U8", "[\"1\"]", "[0,1]") "}", 1, "where a whole number"},
    {"{\"a\":" T("U8", "[null]", "[0,1]") "}", 1, "where a whole number"},
    {"{\"a\":" T("U8", "[[1]]", "[0,1]") "}", 1, "where a whole number"},
    {"{\"a\":" T("U8", "[1,]", "[0,1]") "}", 1, "another value after ','"},
    {"{\"a\":" T("U8", "[9007199254740993]", "[0,1]") "}", 1, "above 2^53"},
    {"{\"a\":" T("U8", "[99999999999999999999999]", "[0,1]") "}", 1, "above 2^53"},
    {"{\"a\":" T("F32", "[4294967296,4294967296]", "[0,0]") "}", 0, "too large"},
    {"{\"a\":" T("F32", "[4294967296,4294967296,0]", "[0,0]") "}", 0, "too large"},
    {"{\"a\":" T("F64", "[2147483648,1073741824]", "[0,0]") "}", 0, "too large"},
    {"{\"a\":" T("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, "more than 8 dimensions"},
    {"{\"a\":" T("F4", "[3]", "[0,1]") "}", 1, "not a whole number of bytes"},
    {"{\"a\":" T("F32", "[2]", "[0,4]") "}", 4, "has 4 bytes by its data_offsets"},
    {"{\"a\":" T("F32", "[2]", "[0,12]") "}", 12, "has 12 bytes by its data_offsets"},
    {"{\"a\":" T("F32", "[0]", "[0,4]") "}", 4, "has 4 bytes by its data_offsets"},
    {"{\"a\":" T("U8", "[1]", "[1,0]") "}", 1, "ends before it begins"},
    {"{\"a\":" T("U8", "[1]", "[0]") "}", 1, "must be two numbers"},
    {"{\"a\":" T("U8", "[1]", "[]") "}", 1, "must be two numbers"},
    {"{\"a\":" T("U8", "[1]", "[0,1,2]") "}", 1, "must be two numbers"},
    {"{\"a\":" T("U8", "[1]", "[-1,0]") "}", 1, "where a whole number"},
    /* ---- all together ---- */
    {"{\"a\":" T("U8", "[1]", "[0,1]") ",\"a\":" T("U8", "[1]", "[1,2]") "}", 2, "tensor 'a' twice"},
    {"{\"a\":" T("U8", "[1]", "[0,1]") ",\"\\u0061\":" T("U8", "[1]", "[1,2]") "}", 2, "tensor 'a' twice"},
    {"{\"a\":" T("U8", "[1]", "[1,2]") "}", 2, "a hole"},
    {"{\"a\":" T("U8", "[1]", "[0,1]") ",\"b\":" T("U8", "[1]", "[2,3]") "}", 3, "a hole"},
    {"{\"a\":" T("U8", "[2]", "[0,2]") ",\"b\":" T("U8", "[2]", "[1,3]") "}", 3, "a overlap"},
    {"{\"a\":" T("U8", "[2]", "[0,2]") ",\"b\":" T("U8", "[2]", "[0,2]") "}", 2, "a overlap"},
    {"{\"a\":" T("U8", "[2]", "[0,2]") "}", 3, "bytes that no tensor owns"},
    {"{\"a\":" T("U8", "[2]", "[0,2]") "}", 1, "cut off"},
    {"{}", 1, "bytes that no tensor owns"},
    {"{\"a\":" T("U8", "[9007199254740992]", "[0,9007199254740992]") "}", 1, "cut off"},
    /* ---- notes ---- */
    {"{\"__metadata__\":{\"a\":1}}", 0, "where a string must be"},
    {"{\"__metadata__\":{\"a\":{}}}", 0, "where a string must be"},
    {"{\"__metadata__\":{\"a\":null}}", 0, "where a string must be"},
    {"{\"__metadata__\":[]}", 0, "where an object '{' must be"},
    {"{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}", 0, "key 'a' twice"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ twice"},
};

/* As parse, in a block of exactly that size, so that a sanitizer sees a read past it. */
static kiln_status parse(const uint8_t *bytes, size_t size, safetensors_header *h, error *e)
{
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact) return KILN_ERR_NOMEM;
    if (size) memcpy(exact, bytes, size);
    kiln_status status = safetensors_parse(h, "f.safetensors", exact, size, e);
    free(exact);
    return status;
}

static void test_each_rule(void)
{
    static const uint8_t data[64] = {0};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t size = 0;
        error e = {0};
        safetensors_header h;
        uint8_t *all = tiny_bytes(rows[i].header, data, rows[i].data, &size);
        kiln_status status = parse(all, size, &h, &e);
        if (!rows[i].part)
            CHECK_MSG(status == KILN_OK, "%s: refused: %s", rows[i].header, e.message);
        else
            CHECK_MSG(status == KILN_ERR_INVALID && strstr(e.message, rows[i].part) && strstr(e.message, "f.safetensors: byte "),
                      "%s: wanted '%s', got %s '%s'", rows[i].header, rows[i].part, status_name(status), e.message);
        safetensors_free(&h);
        mem_free(all);
    }
}

static void test_length_word(void)
{
    static const struct {
        uint64_t n;
        const char *part;
    } lengths[] = {{0, "must start with '{'"}, {1, "where a string must be"}, {3, NULL}, {100000000, "ends inside its header"}, {100000001, "at most 100000000"},
                   {UINT64_MAX, "at most 100000000"}, {UINT64_MAX - 7, "at most"}, {(uint64_t)1 << 63, "at most"}};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        uint8_t bytes[11];
        error e = {0};
        safetensors_header h;
        for (int k = 0; k < 8; k++) bytes[k] = (uint8_t)(lengths[i].n >> (8 * k));
        memcpy(bytes + 8, "{} ", 3);
        kiln_status status = parse(bytes, sizeof bytes, &h, &e);
        CHECK_MSG(lengths[i].part ? status == KILN_ERR_INVALID && (strstr(e.message, lengths[i].part) || lengths[i].n == 1) : status == KILN_OK, "length %llu: %s",
                  (unsigned long long)lengths[i].n, e.message);
        safetensors_free(&h);
    }
}

static const char sample[] = "{\"__metadata__\":{\"format\":\"pt\"},\"a.weight\":" T("F32", "[2,3]", "[0,24]") ",\"b\":" T("BF16", "[4]", "[24,32]") ",\"c\":" T("F16", "[]", "[32,34]") "}  ";
enum { SAMPLE_DATA = 34 };

static uint8_t *sample_bytes(size_t *size)
{
    uint8_t data[SAMPLE_DATA];
    for (int i = 0; i < SAMPLE_DATA; i++) data[i] = (uint8_t)(i + 1);
    return tiny_bytes(sample, data, SAMPLE_DATA, size);
}

static void test_what_is_read(void)
{
    size_t size = 0;
    error e = {0};
    safetensors_header h;
    uint8_t *all = sample_bytes(&size);
    CHECK_EQ(safetensors_parse(&h, "f", all, size, &e), KILN_OK);
    CHECK_EQ(h.count, 3);
    if (h.count == 3) {
        CHECK_STR(h.entry[0].name, "a.weight");
        CHECK_EQ(h.entry[0].dtype, KILN_F32);
        CHECK_EQ(h.entry[0].rank, 2);
        CHECK_EQ(h.entry[0].dim[1], 3);
        CHECK_EQ(h.entry[0].begin, 8 + sizeof sample - 1);
        CHECK_EQ(h.entry[1].begin, h.entry[0].end);
        CHECK_EQ(h.entry[2].end, size);
        CHECK_EQ(h.entry[2].rank, 0);
        CHECK_STR(h.entry[1].type_name, "BF16");
    }
    CHECK_EQ(h.n_note, 1);
    CHECK_STR(h.n_note ? h.note[0].value : NULL, "pt");
    safetensors_free(&h);
    mem_free(all);
}

static void test_every_truncation_and_one_byte_more(void)
{
    size_t size = 0;
    uint8_t *all = sample_bytes(&size);
    for (size_t n = 0; n < size; n++) {
        error e = {0};
        safetensors_header h;
        CHECK_MSG(parse(all, n, &h, &e) == KILN_ERR_INVALID && e.message[0], "%zu of %zu bytes are accepted", n, size);
        CHECK(h.count == 0 && !h.text);
    }
    error e = {0};
    safetensors_header h;
    uint8_t more[1024] = {0};
    memcpy(more, all, size);
    CHECK_EQ(parse(more, size + 1, &h, &e), KILN_ERR_INVALID);
    mem_free(all);
}

/* Whatever passes with a bit turned keeps every promise: inside the file, exact cover, sizes that agree. */
static void test_every_bit_of_the_header(void)
{
    size_t size = 0, accepted = 0;
    uint8_t *all = sample_bytes(&size);
    for (size_t bit = 0; bit < (size - SAMPLE_DATA) * 8; bit++) {
        error e = {0};
        safetensors_header h;
        all[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (parse(all, size, &h, &e) == KILN_OK) {
            uint64_t at = h.data_start;
            accepted++;
            for (size_t i = 0; i < h.count; i++) {
                CHECK_MSG(h.entry[i].begin == at && h.entry[i].end >= at && h.entry[i].end <= size, "bit %zu: tensor %zu lies wrong", bit, i);
                at = h.entry[i].end;
            }
            CHECK_MSG(at == size && h.count >= 1, "bit %zu: the file is not covered", bit);
        } else {
            CHECK_MSG(e.message[0] && h.count == 0, "bit %zu: refused without a word", bit);
        }
        safetensors_free(&h);
        all[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    CHECK_MSG(accepted > 0 && accepted < size, "%zu changed headers accepted", accepted); /* names, notes, types of one size */
    mem_free(all);
}

static void test_limits(void)
{
    static const uint8_t data[1] = {0};
    str s = {0};
    size_t size = 0;
    for (int over = 0; over < 2; over++) {
        error e = {0};
        safetensors_header h;
        str_append(&s, "{\"");
        for (int i = 0; i < SAFETENSORS_NAME_MAX + over; i++) str_char(&s, 'n');
        str_append(&s, "\":" T("U8", "[1]", "[0,1]") "}");
        uint8_t *all = tiny_bytes(str_text(&s), data, 1, &size);
        CHECK_EQ(parse(all, size, &h, &e), over ? KILN_ERR_INVALID : KILN_OK);
        safetensors_free(&h);
        mem_free(all);
        str_free(&s);
        s = (str){0};
    }
    for (int over = 0; over < 2; over++) {
        error e = {0};
        safetensors_header h;
        str_char(&s, '{');
        for (int i = 0; i < SAFETENSORS_TENSORS_MAX + over; i++) str_printf(&s, "%s\"%d\":" T("U8", "[0]", "[0,0]"), i ? "," : "", i);
        str_char(&s, '}');
        uint8_t *all = tiny_bytes(str_text(&s), data, 0, &size);
        CHECK_EQ(parse(all, size, &h, &e), over ? KILN_ERR_INVALID : KILN_OK);
        if (over) CHECK_MSG(strstr(e.message, "more than 65536 tensors"), "%s", e.message);
        safetensors_free(&h);
        mem_free(all);
        str_free(&s);
        s = (str){0};
    }
}

static void test_no_memory(void)
{
    size_t size = 0;
    int done = 0;
    uint8_t *all = sample_bytes(&size);
    for (int64_t k = 0; k < 100 && !done; k++) {
        error e = {0};
        safetensors_header h;
        mem_fail_at(k, 0);
        kiln_status status = safetensors_parse(&h, "f", all, size, &e);
        done = mem_count() <= k;
        mem_fail_at(-1, 0);
        CHECK_MSG(status == (done ? KILN_OK : KILN_ERR_NOMEM), "allocation %lld: %s", (long long)k, status_name(status));
        safetensors_free(&h);
    }
    CHECK(done);
    mem_free(all);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_each_rule), CASE(test_length_word), CASE(test_what_is_read), CASE(test_every_truncation_and_one_byte_more),
                                      CASE(test_every_bit_of_the_header), CASE(test_limits), CASE(test_no_memory)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
