/* test_quant_json.c - the texts beside quantised weights: each member, one level of "params", members that nobody
 * knows, and what is refused with its byte.
 */
#include "harness.h"

#include "base/memory_alloc.h"
#include "weights/quant_json.h"

#include <stdlib.h>
#include <string.h>

static quant_json parsed(const char *text)
{
    quant_json q;
    error e = {0};
    CHECK_MSG(quant_json_parse(&q, "a file", 100, (const uint8_t *)text, strlen(text), &e) == KILN_OK, "%s: %s", text,
              e.message);
    return q;
}

static void test_members(void)
{
    quant_json q = parsed("{\"format\": \"int8_tensorwise\", \"blocksize\": 64, \"nested_blocksize\": 256, "
                          "\"nested_offset\": 0.0625, \"shape\": [3, 5]}");
    CHECK_STR(q.format, "int8_tensorwise");
    CHECK(q.block == 64 && q.nested_block == 256 && q.nested_offset == 0.0625 && q.rank == 2 && q.dim[0] == 3 &&
          q.dim[1] == 5 && !q.rotated);
    q = parsed("{\"unknown\": {\"format\": \"x\", \"list\": [1, {}]}, \"params\": {\"blocksize\": 32, \"format\": "
               "\"nf4\"}, \"last\": null}");
    CHECK_STR(q.format, "nf4");
    CHECK(q.block == 32 && q.rank == 0);
    q = parsed("{\"format\": \"first\", \"params\": {\"format\": \"second\"}}");
    CHECK_STR(q.format, "first");
    q = parsed(" { } ");
    CHECK(!q.format[0] && !q.block && !q.rank);
    parsed("{\"params\": 7, \"format\": \"x\"}");
}

/* Anything but false is a rotation: what it would mean is not known. */
static void test_rotations(void)
{
    static const struct {
        const char *text;
        int rotated;
    } row[] = {{"{\"convrot\": false}", 0},
               {"{\"convrot\": true}", 1},
               {"{\"convrot\": 0}", 1},
               {"{\"convrot\": \"false\"}", 1},
               {"{\"convrot\": 12345}", 1},
               {"{\"convrot\": [1,2]}", 1},
               {"{\"params\": {\"convrot\": true}}", 1},
               {"{\"params\": {\"convrot\": false}}", 0},
               {"{\"other\": true}", 0}};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        CHECK_MSG(parsed(row[i].text).rotated == row[i].rotated, "%s", row[i].text);
}

static void refused(const char *text, size_t n)
{
    quant_json q;
    error e = {0};
    CHECK_MSG(quant_json_parse(&q, "a file", 100, (const uint8_t *)text, n, &e) == KILN_ERR_INVALID, "%.60s", text);
    CHECK_MSG(strstr(e.message, "a file") != NULL && strstr(e.message, "byte 1") != NULL, "%.60s: %s", text, e.message);
}

static void test_what_is_none(void)
{
    static const char *const row[] = {"",
                                      "{",
                                      "[]",
                                      "7",
                                      "{\"format\": 7}",
                                      "{\"format\": \"x\"",
                                      "{\"format\" \"x\"}",
                                      "{\"blocksize\": \"64\"}",
                                      "{\"blocksize\": -1}",
                                      "{\"nested_offset\": true}",
                                      "{\"shape\": 3}",
                                      "{\"shape\": [0]}",
                                      "{\"shape\": [1,]}",
                                      "{\"shape\": [4611686018427387904, 2]}",
                                      "{\"shape\": [1,1,1,1,1,1,1,1,1]}",
                                      "{} {}",
                                      "{\"a\": 1} x",
                                      "{\"params\": {\"format\": 1}}"};
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) refused(row[i], strlen(row[i]));
    char *large = calloc(1, QUANT_JSON_MAX + 2);
    REQUIRE(large);
    memset(large, ' ', QUANT_JSON_MAX + 1), memcpy(large, "{}", 2);
    refused(large, QUANT_JSON_MAX + 1);
    quant_json q;
    CHECK_EQ(quant_json_parse(&q, "a file", 100, (const uint8_t *)large, QUANT_JSON_MAX, NULL), KILN_OK);
    mem_fail_at(0, 0);
    CHECK_EQ(quant_json_parse(&q, "a file", 100, (const uint8_t *)large, QUANT_JSON_MAX, NULL), KILN_ERR_NOMEM);
    mem_fail_at(-1, 0);
    free(large);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_members), CASE(test_rotations), CASE(test_what_is_none)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
