/* test_base.c - strings, numbers, names, hashes, arenas, files, the pool. */
#include "base/arena.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/names.h"
#include "base/status.h"
#include "base/str.h"
#include "harness.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_status_rows(void)
{
    error e = {0};
    CHECK_EQ(error_set(&e, KILN_ERR_IO, "a %d", 1), KILN_ERR_IO);
    CHECK_EQ(error_set(&e, KILN_ERR_BUG, "later"), KILN_ERR_BUG);
    CHECK_EQ(e.status, KILN_ERR_IO);
    error_prefix(&e, "x.yaml:%d", 3);
    CHECK_STR(e.message, "x.yaml:3: a 1");
    CHECK_STR(status_name(KILN_ERR_NOMEM), "KILN_ERR_NOMEM");
    CHECK_EQ(error_set(NULL, KILN_ERR_IO, "nobody listens"), KILN_ERR_IO);
}

static void test_str_json(void)
{
    str s = {0};
    const char text[] = "a\"\\\n\x01é\xf0\x9f\x8e\xa8\xff";
    str_json(&s, text, strlen(text), 1);
    CHECK_STR(str_text(&s), "\"a\\\"\\\\\\n\\u0001\\u00e9\\ud83c\\udfa8\\ufffd\"");
    str_free(&s);
    str_json(&s, "é", 2, 0);
    CHECK_STR(str_text(&s), "\"é\"");
    str_free(&s);
}

static void test_utf8(void)
{
    CHECK(utf8_valid("a\xc3\xa9\xe2\x82\xac\xf0\x9f\x8e\xa8", 10));
    CHECK(!utf8_valid("\xc0\x80", 2));         /* overlong */
    CHECK(!utf8_valid("\xed\xa0\x80", 3));     /* surrogate */
    CHECK(!utf8_valid("\xf4\x90\x80\x80", 4)); /* above U+10FFFF */
    CHECK(!utf8_valid("\xe2\x82", 2));         /* cut off */
    CHECK(utf8_valid("a\0b", 3));
}

static void test_numbers(void)
{
    double d;
    int64_t i;
    uint64_t u;
    CHECK(str_to_double("1.5e3", 5, &d) && d == 1500);
    CHECK(!str_to_double("1e999", 5, &d));
    CHECK(!str_to_double("nan", 3, &d));
    CHECK(!str_to_double("0x10", 4, &d));
    CHECK(!str_to_double("1,5", 3, &d));
    CHECK(!str_to_double("", 0, &d));
    CHECK(str_to_i64("-9223372036854775808", 20, &i) && i == INT64_MIN);
    CHECK(!str_to_i64("9223372036854775808", 19, &i));
    CHECK(!str_to_i64("-+1", 3, &i));
    CHECK(!str_to_i64("-", 1, &i));
    CHECK(str_to_u64("18446744073709551615", 20, &u) && u == UINT64_MAX);
    CHECK(!str_to_u64("18446744073709551616", 20, &u));
    CHECK(!str_to_u64("1 ", 2, &u));
}

static void test_numbers_ignore_locale(void)
{
    double d;
    str s = {0};
    if (!setlocale(LC_ALL, "de_DE.UTF-8")) setlocale(LC_ALL, "C"); /* still a test of the digits */
    CHECK(str_to_double("2.5", 3, &d) && d == 2.5);
    str_double(&s, 0.1);
    str_char(&s, ' ');
    str_double(&s, 1e300);
    str_char(&s, ' ');
    str_double(&s, 20);
    CHECK_STR(str_text(&s), "0.1 1e+300 20");
    str_free(&s);
    setlocale(LC_ALL, "C");
}

static void test_nearest_name(void)
{
    static const char *const name[] = {"KSampler", "KSamplerAdvanced", "VAEDecode", "euler", "heun"};
    CHECK_STR(nearest_of("KSamplr", name, 5), "KSampler");
    CHECK_STR(nearest_of("vaedecode", name, 5), "VAEDecode");
    CHECK_STR(nearest_of("eluer", name, 5), "euler");
    CHECK(nearest_of("completely else", name, 5) == NULL);
    CHECK(nearest_of("", name, 5) == NULL);
    CHECK_STR(nearest_of("EULER", name, 5), "euler");
}

/* The rule of names.h, at its edges: a third of the letters and one may be wrong, half have to be right. */
static void test_nearness(void)
{
    static const struct {
        const char *word, *name;
        int near;
    } cases[] = {
        {"x", "a", 0},
        {"x", "X", 1},
        {"x", "xy", 1},
        {"wo", "who", 1},
        {"ab", "cd", 0},
        {"cat", "eta", 0},
        {"etta", "eta", 1},
        {"oen", "one", 1},
        {"abcd", "abxy", 1},
        {"abcd", "axyz", 0},
        {"abcde", "abxye", 1},
        {"abcde", "axyze", 0},
        {"abcdef", "abcxyz", 1},
        {"abcdef", "abwxyz", 0},
        {"abcdefghi", "abcdexxxx", 1},
        {"abcdefghi", "abcdxxxxx", 0},
        {"aaaa", "a", 0},
        {"eta", "s_noise", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        CHECK_MSG((nearest_of(cases[i].word, &cases[i].name, 1) != NULL) == cases[i].near, "'%s' and '%s'",
                  cases[i].word, cases[i].name);
}

/* Long pieces go through the widest instructions there are, short ones and the whole through the packaged library. */
static void test_hash_is_the_same_in_any_pieces(void)
{
    enum { N = 300000 };
    unsigned char *bytes = malloc(N);
    hasher *h = hasher_new();
    REQUIRE(bytes && h);
    for (size_t i = 0; i < N; i++) bytes[i] = (unsigned char)(i * i >> 7);
    static const size_t piece[] = {1, 100, 4095, 4096, 5000, 65536, N};
    for (size_t k = 0; k < sizeof piece / sizeof piece[0]; k++)
        for (size_t n = N - 3; n <= N; n += 3) {
            hasher_reset(h);
            for (size_t at = 0; at < n; at += piece[k])
                hash_bytes(h, bytes + at, n - at < piece[k] ? n - at : piece[k]);
            CHECK_MSG(digest_equal(hasher_digest(h), digest_of(bytes, n)), "pieces of %zu", piece[k]);
        }
    hasher_free(h);
    free(bytes);
}

static void test_hash_separates_fields(void)
{
    hasher *h = hasher_new();
    REQUIRE(h);
    hash_text(h, "ab"), hash_text(h, "c");
    digest a = hasher_digest(h);
    hasher_reset(h);
    hash_text(h, "a"), hash_text(h, "bc");
    digest b = hasher_digest(h);
    CHECK(!digest_equal(a, b));
    hasher_reset(h);
    hash_text(h, NULL);
    a = hasher_digest(h);
    hasher_reset(h);
    hash_text(h, "");
    CHECK(!digest_equal(a, hasher_digest(h)));
    hasher_reset(h);
    hash_double(h, 0.0);
    a = hasher_digest(h);
    hasher_reset(h);
    hash_double(h, -0.0);
    CHECK(digest_equal(a, hasher_digest(h)));
    char hex[33];
    CHECK_EQ(strlen(digest_hex(a, hex)), 32);
    hasher_free(h);
}

static void test_checked(void)
{
    size_t out;
    CHECK(checked_bytes(2, (int64_t[]){3, 4}, 2, &out) && out == 24);
    CHECK(!checked_bytes(1, (int64_t[]){-1}, 4, &out));
    CHECK(!checked_bytes(2, (int64_t[]){INT64_MAX, 4}, 4, &out));
}

static void test_arena(void)
{
    arena a = {0};
    for (size_t i = 1; i < 300; i++) {
        unsigned char *p = arena_alloc(&a, i * 37);
        REQUIRE(p && (uintptr_t)p % 64 == 0 && p[0] == 0 && p[i * 37 - 1] == 0);
        memset(p, 0xff, i * 37);
    }
    CHECK_STR(arena_printf(&a, "%s-%d", "x", 7), "x-7");
    CHECK(arena_alloc(&a, SIZE_MAX - 10) == NULL);
    arena_free(&a);
    CHECK(a.head == NULL);
}

static void test_every_allocation_fails(void)
{
    for (int64_t k = 0;; k++) {
        mem_fail_at(k, 0);
        str s = {0};
        arena a = {0};
        for (int i = 0; i < 40; i++) str_printf(&s, "%d,", i);
        char *p = arena_strdup(&a, "text"), *taken = str_take(&s);
        int64_t used = mem_count();
        mem_fail_at(-1, 0);
        CHECK(k >= used || !p || !taken);
        arena_free(&a);
        mem_free(taken);
        if (k >= used) break;
    }
}

static void test_file_write_is_whole_or_nothing(void)
{
    error e = {0};
    char *path = path_join(test_folder(), "whole.txt"), *data;
    size_t n;
    CHECK_EQ(file_write_whole(path, "hello", 5, &e), KILN_OK);
    CHECK_EQ(file_read(path, 100, &data, &n, &e), KILN_OK);
    CHECK_STR(data, "hello");
    mem_free(data);
    CHECK_EQ(file_read(path, 3, &data, &n, &e), KILN_ERR_INVALID);
    mem_free(path);
    e = (error){0};
    path = path_join(test_folder(), "absent/whole.txt");
    CHECK_EQ(file_write_whole(path, "x", 1, &e), KILN_ERR_IO);
    CHECK(strstr(e.message, "absent/whole.txt") != NULL);
    mem_free(path);
}

static void test_file_digest_follows_content(void)
{
    error e = {0};
    digest a, b, c;
    char *path = path_join(test_folder(), "d.bin"), *copy = path_join(test_folder(), "e.bin");
    REQUIRE(path && copy);
    CHECK_EQ(file_write_whole(path, "12345", 5, &e), KILN_OK);
    CHECK_EQ(file_write_whole(copy, "12345", 5, &e), KILN_OK);
    CHECK_EQ(file_digest(path, &a, &e), KILN_OK);
    CHECK_EQ(file_digest(copy, &b, &e), KILN_OK);
    CHECK(digest_equal(a, b)); /* another name, the same content */
    CHECK_EQ(file_write_whole(path, "12346", 5, &e), KILN_OK);
    CHECK_EQ(file_digest(path, &c, &e), KILN_OK);
    CHECK(!digest_equal(a, c)); /* the same name, another content */
    CHECK_EQ(file_digest(test_folder(), &a, &e), KILN_OK);
    CHECK_EQ(unlink(copy), 0);
    CHECK_EQ(file_digest(test_folder(), &b, &e), KILN_OK);
    CHECK(!digest_equal(a, b));
    CHECK_EQ(file_digest("/nonexistent/file", &a, &e), KILN_ERR_IO);
    mem_free(path);
    mem_free(copy);
}

static void test_file_map_notices_change(void)
{
    error e = {0};
    file_map m;
    char *path = path_join(test_folder(), "m.bin");
    CHECK_EQ(file_write_whole(path, "abc", 3, &e), KILN_OK);
    CHECK_EQ(file_map_open(&m, path, &e), KILN_OK);
    CHECK_EQ(m.size, 3);
    CHECK_EQ(file_map_unchanged(&m, &e), KILN_OK);
    CHECK_EQ(file_write_whole(path, "abcd", 4, &e), KILN_OK);
    CHECK_EQ(file_map_unchanged(&m, &e), KILN_ERR_IO);
    file_map_close(&m);
    e = (error){0};
    CHECK_EQ(file_map_open(&m, test_folder(), &e), KILN_ERR_IO); /* a folder is no file */
    mem_free(path);
}

static void log_catch(void *arg, int level, const char *line) { snprintf(arg, 100, "%d %s", level, line); }

static void test_log_levels(void)
{
    char got[100] = "";
    log_sink_set(log_catch, got);
    log_info("quiet");
    CHECK_STR(got, "");
    log_warn("loud %d", 1);
    CHECK_STR(got, "1 loud 1");
    log_sink_set(NULL, NULL);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_status_rows),
        CASE(test_str_json),
        CASE(test_utf8),
        CASE(test_numbers),
        CASE(test_numbers_ignore_locale),
        CASE(test_nearest_name),
        CASE(test_nearness),
        CASE(test_hash_is_the_same_in_any_pieces),
        CASE(test_hash_separates_fields),
        CASE(test_checked),
        CASE(test_arena),
        CASE(test_every_allocation_fails),
        CASE(test_file_write_is_whole_or_nothing),
        CASE(test_file_digest_follows_content),
        CASE(test_file_map_notices_change),
        CASE(test_log_levels),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
