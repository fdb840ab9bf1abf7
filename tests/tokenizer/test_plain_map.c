/* test_plain_map.c - plain maps are read as the JSON library reads them, and all else is left to it. */
#include "source_files.h"

#include "plain_map.h"

#include <jansson.h>

static const char all_escapes[] =
    " {\"a\\u0120\\\"\\\\\\/\\b\\f\\n\\r\\t\" : 7 ,\t\"\xe6\x97\xa5</w>\":0,\r\n\"\\u00A1\":1234567}\n";

static void test_entries_in_their_order(void)
{
    plain_map m = plain_map_of(all_escapes, sizeof all_escapes - 1);
    REQUIRE(plain_map_next(&m) == 1);
    CHECK(m.n == 11 && memcmp(m.key, "a\xc4\xa0\"\\/\b\f\n\r\t", 11) == 0 && m.number == 7);
    REQUIRE(plain_map_next(&m) == 1);
    CHECK(m.n == 7 && memcmp(m.key, "\xe6\x97\xa5</w>", 7) == 0 && m.number == 0);
    REQUIRE(plain_map_next(&m) == 1);
    CHECK(m.n == 2 && memcmp(m.key, "\xc2\xa1", 2) == 0 && m.number == 1234567);
    CHECK_EQ(plain_map_next(&m), 0);
}

/* 1: it was read to its end. */
static int is_plain(const char *json, size_t n)
{
    plain_map m = plain_map_of(json, n);
    int got;
    while ((got = plain_map_next(&m)) == 1) {
    }
    return got == 0;
}

static void test_what_is_not_plain(void)
{
    static const char *const not_plain[] = {"",
                                            "[]",
                                            "{",
                                            "{}",
                                            "{\"a\":1",
                                            "{\"a\":1}x",
                                            "{\"a\":1}}",
                                            "{\"a\":1,}",
                                            "{\"a\" 1}",
                                            "{\"a\":1 \"b\":2}",
                                            "{\"a\":-1}",
                                            "{\"a\":1.5}",
                                            "{\"a\":1e3}",
                                            "{\"a\":01}",
                                            "{\"a\":00}",
                                            "{\"a\":99999999}",
                                            "{\"a\":null}",
                                            "{\"a\":\"1\"}",
                                            "{\"a\":{}}",
                                            "{\"\":1}",
                                            "{\"\\ud83d\\ude00\":1}",
                                            "{\"\\u0000\":1}",
                                            "{\"\\u12g4\":1}",
                                            "{\"\\u12",
                                            "{\"\\x\":1}",
                                            "{\"\\",
                                            "{\"\n\":1}",
                                            "{\"\xff\":1}",
                                            "{\"\xc0\x80\":1}",
                                            "{\"\xed\xa0\x80\":1}",
                                            "{\"\xf5\x80\x80\x80\":1}",
                                            "{\"\xe6\x97\":1}",
                                            "{\"a\xe6",
                                            "{a:1}",
                                            "{'a':1}",
                                            "\xef\xbb\xbf{\"a\":1}"};
    CHECK(is_plain("{\"a\":1}", 7));
    for (size_t i = 0; i < sizeof not_plain / sizeof not_plain[0]; i++)
        CHECK_MSG(!is_plain(not_plain[i], strlen(not_plain[i])), "%s", not_plain[i]);
    CHECK(!is_plain("{\"a\":1}\0", 8));
    CHECK(!is_plain("{\"a\0b\":1}", 9));
    CHECK(!is_plain("{\"a\":1\0}", 8));
    CHECK(!is_plain("{\"\\\0\":1}", 8));
}

static void test_long_keys(void)
{
    char json[PLAIN_KEY_MAX + 64];
    for (size_t n = PLAIN_KEY_MAX - 4; n <= PLAIN_KEY_MAX + 4; n++)
        for (int wide = 0; wide < 2; wide++) { /* the last character of one byte, or of four, which may stand over it */
            size_t at = (size_t)snprintf(json, sizeof json, "{\"%0*d", (int)n - (wide ? 4 : 0), 0);
            snprintf(json + at, sizeof json - at, "%s\": 5}", wide ? "\xf0\x9f\x98\x80" : "");
            CHECK_MSG(is_plain(json, strlen(json)) == (n <= PLAIN_KEY_MAX), "%zu, %d", n, wide);
        }
}

static uint64_t state = 1;
static size_t draw(size_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(state >> 33) % n;
}

/* What is read to its end is what the library reads, but for what it refuses as said twice. */
static int agrees(const char *json, size_t n)
{
    json_t *root = json_loadb(json, n, 0, NULL);
    plain_map m = plain_map_of(json, n);
    int ok = json_is_object(root), got;
    size_t entries = 0;
    while (ok && (got = plain_map_next(&m)) == 1) {
        const json_t *value = json_object_getn(root, m.key, m.n);
        ok = json_is_integer(value), entries++;
    }
    plain_map again = plain_map_of(json, n); /* of one key the last counts: with all different they are the same */
    if (ok && entries == json_object_size(root))
        while (plain_map_next(&again) == 1)
            ok = ok && json_integer_value(json_object_getn(root, again.key, again.n)) == again.number;
    json_decref(root);
    return ok;
}

static void test_changed_texts(void)
{
    static const char bytes[] = "{}\":,\\u0019abedD \n\t\xc3\xa9\xed\xa0\xf0\x9f\x98\x80-.[";
    char json[sizeof all_escapes];
    int plain = 0;
    for (int i = 0; i < 400000; i++) {
        size_t n = sizeof json - 1;
        memcpy(json, all_escapes, sizeof json);
        for (size_t k = draw(4); k < 4; k++) json[draw(n)] = bytes[draw(sizeof bytes - 1)];
        if (draw(8) == 0) n = draw(n);
        char *exact = malloc(n + !n); /* so that a sanitizer sees what is read behind it */
        REQUIRE(exact);
        memcpy(exact, json, n);
        if (is_plain(exact, n)) plain++, CHECK_MSG(agrees(exact, n), "%.*s", (int)n, json);
        free(exact);
    }
    CHECK_MSG(plain > 1000, "%d", plain);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_entries_in_their_order), CASE(test_what_is_not_plain),
                                      CASE(test_long_keys), CASE(test_changed_texts)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
