/* test_safetensors.c - every rule of the header: what obeys it is read, what breaks it is refused with file, byte and
 * reason. The cases are written out by hand; test_damage.c does it by machine. */
#include "weights_kit.h"

typedef struct {
    const char *header;
    size_t data;
    const char *says; /* NULL: accepted */
} rule_case;

static kiln_status parse(safetensors_header *h, const char *header, size_t length, size_t data, error *e)
{
    size_t size;
    uint8_t *file = raw_file(header, length, data, &size);
    kiln_status status = safetensors_parse(h, "m.safetensors", file, size, e);
    free(file);
    return status;
}

static void check_rule(const rule_case *c)
{
    safetensors_header h;
    error e = {0};
    kiln_status status = parse(&h, c->header, strlen(c->header), c->data, &e);
    if (!c->says) {
        CHECK_MSG(status == KILN_OK, "refused: %s\n    %s", c->header, e.message);
        safetensors_free(&h);
        return;
    }
    if (!CHECK_MSG(status == KILN_ERR_INVALID, "accepted: %s", c->header)) {
        safetensors_free(&h);
        return;
    }
    CHECK_MSG(strstr(e.message, c->says), "%s\n    says \"%s\" and not \"%s\"", c->header, e.message, c->says);
    CHECK_MSG(strncmp(e.message, "m.safetensors: byte ", 20) == 0, "no file and byte: %s", e.message);
    CHECK(!h.entry && !h.note && !h.text && !h.count);
}

#define RULES(...)                                                                                                     \
    static const rule_case cases[] = {__VA_ARGS__};                                                                    \
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) check_rule(&cases[i])
#define T(name, dtype, shape, begin, end)                                                                              \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" #begin "," #end "]}"

static void test_plain_files(void)
{
    RULES({"{}", 0, NULL}, {"{}     ", 0, NULL}, {"{" T("a", "F32", "2,3", 0, 24) "}", 24, NULL},
          {"{ \"a\" :\n\t{\"shape\": [ 2 , 3 ] ,\r\"data_offsets\":[0,24],\"dtype\":\"F32\"} } ", 24, NULL},
          {"{\"__metadata__\":{\"format\":\"pt\",\"\":\"\"}," T("a", "F16", "1", 0, 2) "}", 2, NULL},
          {"{" T("b", "F16", "1", 2, 4) "," T("a", "F16", "1", 0, 2) "}", 4, NULL}, /* any order */
          {"{" T("scalar", "F32", "", 0, 4) "," T("empty", "I64", "3,0", 4, 4) "," T("one", "U8", "1", 4, 5) "}", 5,
           NULL});
}

static void test_every_type_of_the_format(void)
{
    RULES({"{" T("a", "F64", "1", 0, 8) "}", 8, NULL}, {"{" T("a", "BOOL", "3", 0, 3) "}", 3, NULL},
          {"{" T("a", "U64", "2", 0, 16) "}", 16, NULL}, {"{" T("a", "F8_E4M3", "5", 0, 5) "}", 5, NULL},
          {"{" T("a", "F4", "3,2", 0, 3) "}", 3, NULL}, {"{" T("a", "F6_E2M3", "4", 0, 3) "}", 3, NULL},
          {"{" T("a", "C64", "1", 0, 8) "}", 8, NULL},
          {"{" T("a", "F4", "3", 0, 2) "}", 2, "not a whole number of bytes"},
          {"{" T("a", "F6_E3M2", "1", 0, 1) "}", 1, "not a whole number of bytes"},
          {"{" T("a", "F33", "1", 0, 4) "}", 4, "unknown dtype 'F33'"},
          {"{" T("a", "f32", "1", 0, 4) "}", 4, "unknown dtype 'f32'"},
          {"{\"a\":{\"dtype\":32,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "where a string must be"});
}

static void test_header_length(void)
{
    static const struct {
        uint64_t length;
        size_t size;
        const char *says;
    } rows[] = {{0, 8, "byte 8: the header must start with '{'"},
                {3, 10, "byte 10: the file ends inside its header of 3 bytes"},
                {100000001, 16, "at most 100000000"},
                {UINT64_MAX, 16, "at most 100000000"},
                {(uint64_t)1 << 63, 64, "at most 100000000"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t *file = calloc(1, rows[i].size);
        for (int k = 0; k < 8; k++) file[k] = (uint8_t)(rows[i].length >> (8 * k));
        safetensors_header h;
        error e = {0};
        CHECK_EQ(safetensors_parse(&h, "m.safetensors", file, rows[i].size, &e), KILN_ERR_INVALID);
        contains(e.message, rows[i].says);
        free(file);
    }
    for (size_t n = 0; n < 8; n++) {
        uint8_t *file = calloc(1, n ? n : 1);
        safetensors_header h;
        error e = {0};
        CHECK_EQ(safetensors_parse(&h, "m.safetensors", file, n, &e), KILN_ERR_INVALID);
        contains(e.message, "8 bytes of header length");
        free(file);
    }
}

static void test_syntax(void)
{
    RULES({"[]", 0, "start with '{'"}, {" {}", 0, "start with '{'"},
          {"{", 0, "the end of the text where a string must be"}, {"{}{", 0, "only spaces may follow"},
          {"{}\n", 0, "only spaces may follow"}, {"{,}", 0, "where a string must be"},
          {"{" T("a", "U8", "1", 0, 1) ",}", 1, "where another value after ',' must be"},
          {"{\"a\" {}}", 0, "where ':' must be"}, {"{\"a\":{}}", 0, "has no 'dtype'"},
          {"{\"a\":1}", 0, "where an object"}, {"{\"a\":null}", 0, "where an object"},
          {"{" T("a", "U8", "1", 0, 1) " " T("b", "U8", "0", 1, 1) "}", 1, "where ',' or '}' must be"},
          {"{'a':{}}", 0, "where a string must be"}, {"{\"a", 0, "does not end"}, {"{\"a\\", 0, "a bad escape"},
          {"{\"a\\q\":{}}", 0, "a bad escape"}, {"{\"\\u12", 0, "a bad escape"},
          {"{\"a\n\":{}}", 0, "a control character"}, {"{\"a\\u0000\":{}}", 0, "a NUL"},
          {"{\"\\ud800\":{}}", 0, "half a surrogate pair"}, {"{\"\\ud800\\u0041\":{}}", 0, "half a surrogate pair"},
          {"{\"\\udc00\":{}}", 0, "half a surrogate pair"}, {"{\"\xff\":{}}", 0, "not UTF-8"},
          {"{\"\xc0\xaf\":{}}", 0, "not UTF-8"}, {"{\"\xed\xa0\x80\":{}}", 0, "not UTF-8"},
          {"{\"\xc3", 0, "not UTF-8"});
}

static void test_fields(void)
{
    RULES({"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "has no 'data_offsets'"},
          {"{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1, "has no 'shape'"},
          {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "has 'dtype' twice"},
          {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":0}}", 1, "has a field 'x'"},
          {"{\"a\":{\"dtype\":\"U8\",\"shape\":1,\"data_offsets\":[0,1]}}", 1, "where an array"},
          {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1]}}", 1, "must be two numbers"},
          {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[]}}", 1, "must be two numbers"},
          {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,1]}}", 1, "must be two numbers"},
          {"{\"a\":{\"dtype\":\"U8\",\"shape\":[[1]],\"data_offsets\":[0,1]}}", 1, "where a whole number"});
}

static void test_numbers_are_whole(void)
{
    RULES({"{" T("a", "U8", "1e0", 0, 1) "}", 1, "a fraction or exponent"},
          {"{" T("a", "U8", "1.0", 0, 1) "}", 1, "a fraction or exponent"},
          {"{" T("a", "U8", "-1", 0, 1) "}", 1, "where a whole number"},
          {"{" T("a", "U8", "-0", 0, 0) "}", 0, "where a whole number"},
          {"{" T("a", "U8", "01", 0, 1) "}", 1, "a leading zero"},
          {"{" T("a", "U8", "+1", 0, 1) "}", 1, "where a whole number"},
          {"{" T("a", "U8", "\"1\"", 0, 1) "}", 1, "where a whole number"},
          {"{" T("a", "U8", "9007199254740993", 0, 1) "}", 1, "above 2^53"},
          {"{" T("a", "U8", "99999999999999999999999999", 0, 1) "}", 1, "above 2^53"},
          {"{" T("a", "U8", "1", 0, 18446744073709551617) "}", 1, "above 2^53"});
}

static void test_shapes(void)
{
    RULES({"{" T("a", "U8", "1,1,1,1,1,1,1,1", 0, 1) "}", 1, NULL},
          {"{" T("a", "U8", "1,1,1,1,1,1,1,1,1", 0, 1) "}", 1, "more than 8 dimensions"},
          {"{" T("a", "F32", "2,3", 0, 23) "}", 23,
           "has 23 bytes by its data_offsets, but its shape and dtype F32 need 24"},
          {"{" T("a", "F32", "0", 0, 4) "}", 4, "need 0"},
          {"{" T("a", "F32", "9007199254740992,9007199254740992", 0, 4) "}", 4, "too large"},
          {"{" T("a", "F32", "4294967296,4294967296", 0, 0) "}", 0, "too large"}, /* wraps to 0 in 64 bits */
          {"{" T("a", "F32", "9007199254740992,9007199254740992,0", 0, 0) "}", 0, "too large"},
          {"{" T("a", "F4", "2305843009213693952", 0, 0) "}", 0, "above 2^53"});
}

static void test_exact_cover(void)
{
    RULES({"{" T("a", "U8", "2", 0, 2) "," T("b", "U8", "2", 3, 5) "}", 5,
           "'b' begins at data byte 3, but the one before it ends at 2: a hole"},
          {"{" T("a", "U8", "2", 0, 2) "," T("b", "U8", "2", 1, 3) "}", 3, "an overlap"},
          {"{" T("a", "U8", "2", 1, 3) "}", 3, "a hole"},
          {"{" T("a", "U8", "2", 0, 2) "," T("b", "U8", "2", 0, 2) "}", 2, "an overlap"},
          {"{" T("a", "U8", "2", 0, 2) "}", 1,
           "the file is cut off: the header describes 2 bytes of tensors, the file holds 1"},
          {"{" T("a", "U8", "2", 0, 2) "}", 3, "bytes that no tensor owns"}, {"{}", 1, "bytes that no tensor owns"},
          {"{" T("a", "U8", "2", 2, 0) "}", 2, "ends before it begins"},
          {"{" T("a", "U8", "0", 1, 1) "}", 1, "a hole"});
}

static void test_duplicates(void)
{
    RULES({"{" T("a", "U8", "1", 0, 1) "," T("a", "U8", "1", 1, 2) "}", 2, "tensor 'a' twice"},
          {"{" T("a", "U8", "0", 0, 0) "," T("\\u0061", "U8", "0", 0, 0) "}", 0,
           "tensor 'a' twice"}, /* the same once decoded */
          {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ twice"},
          {"{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, "key 'k' twice"});
}

static void test_metadata_is_text(void)
{
    RULES({"{\"__metadata__\":{\"k\":1}}", 0, "where a string must be"},
          {"{\"__metadata__\":[]}", 0, "where an object"},
          {"{\"__metadata__\":{\"k\":{\"deep\":1}}}", 0, "where a string must be"},
          {"{\"__metadata__\":null}", 0, "where an object"}, {"{\"__metadata__\":{}}", 0, NULL});
}

static void test_names_are_decoded(void)
{
    static const char header[] =
        "{" T("\\u00e9\\ud83d\\ude00\\\"\\/\\n", "U8", "1", 0, 1) ",\"__metadata__\":{\"b\":\"2\",\"a\":\"x\\ty\"}}";
    safetensors_header h;
    error e = {0};
    REQUIRE(parse(&h, header, strlen(header), 1, &e) == KILN_OK);
    CHECK_STR(h.entry[0].name, "\xc3\xa9\xf0\x9f\x98\x80\"/\n");
    CHECK_EQ(h.n_note, 2);
    CHECK_STR(h.note[0].key, "a");
    CHECK_STR(h.note[0].value, "x\ty");
    CHECK_STR(h.note[1].value, "2");
    safetensors_free(&h);
}

static void test_entries_are_what_the_file_says(void)
{
    static const char header[] = "{" T("late", "BF16", "2,3", 8, 20) "," T("early", "I64", "1", 0, 8) "}  ";
    safetensors_header h;
    error e = {0};
    REQUIRE(parse(&h, header, strlen(header), 20, &e) == KILN_OK);
    CHECK_EQ(h.count, 2);
    CHECK_EQ(h.data_start, 8 + strlen(header));
    CHECK_STR(h.entry[0].name, "early");
    CHECK_EQ(h.entry[0].begin, h.data_start);
    const safetensors_entry *late = &h.entry[1];
    CHECK_STR(late->type_name, "BF16");
    CHECK_EQ(late->dtype, KILN_BF16);
    CHECK(late->rank == 2 && late->dim[0] == 2 && late->dim[1] == 3);
    CHECK_EQ(late->end, h.data_start + 20);
    CHECK_EQ(late->at, 9);
    safetensors_free(&h);
}

/* Limits, each at the edge and one beyond. */
static void test_limits(void)
{
    safetensors_header h;
    for (size_t n = 512; n <= 513; n++) {
        str s = {0};
        error e = {0};
        str_append(&s, "{\"");
        for (size_t i = 0; i < n; i++) str_char(&s, 'n');
        str_append(&s, "\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}");
        kiln_status status = parse(&h, s.data, s.len, 0, &e);
        CHECK_EQ(status, n == 512 ? KILN_OK : KILN_ERR_INVALID);
        if (status != KILN_OK) contains(e.message, "a name of 513 bytes; at most 512");
        safetensors_free(&h);
        str_free(&s);
    }
    for (size_t n = 65536; n <= 65537; n++) {
        str s = {0};
        error e = {0};
        for (size_t i = 0; i < n; i++)
            str_printf(&s, "%c\"%zu\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}", i ? ',' : '{', i);
        str_char(&s, '}');
        kiln_status status = parse(&h, s.data, s.len, 0, &e);
        CHECK_EQ(status, n == 65536 ? KILN_OK : KILN_ERR_INVALID);
        if (status != KILN_OK) contains(e.message, "more than 65536 tensors");
        safetensors_free(&h);
        str_free(&s);
    }
}

/* Deep nesting costs neither stack nor time, wherever it stands. */
static void test_depth(void)
{
    str s = {0};
    error e = {0};
    safetensors_header h;
    str_append(&s, "{\"a\":{\"shape\":");
    for (int i = 0; i < 1000000; i++) str_char(&s, '[');
    CHECK_EQ(parse(&h, s.data, s.len, 0, &e), KILN_ERR_INVALID);
    contains(e.message, "where a whole number");
    str_free(&s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_plain_files),
        CASE(test_every_type_of_the_format),
        CASE(test_header_length),
        CASE(test_syntax),
        CASE(test_fields),
        CASE(test_numbers_are_whole),
        CASE(test_shapes),
        CASE(test_exact_cover),
        CASE(test_duplicates),
        CASE(test_metadata_is_text),
        CASE(test_names_are_decoded),
        CASE(test_entries_are_what_the_file_says),
        CASE(test_limits),
        CASE(test_depth),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
