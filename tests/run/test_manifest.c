/* test_manifest.c - the manifest of a sweep: what is found again, what a crash or a stranger left in the file, and
 * where its files lie. */
#include "base/file.h"
#include "base/memory_alloc.h"
#include "harness.h"
#include "run/manifest.h"

#include <stdio.h>
#include <string.h>

static char folder[400], path[500];
static const digest key_a = {1, 0}, key_b = {2, 0};

static void begin(const char *content)
{
    error e = {0};
    snprintf(folder, sizeof folder, "%s", test_folder());
    snprintf(path, sizeof path, "%s/m.jsonl", folder);
    remove(path);
    if (content) file_write_whole(path, content, strlen(content), &e);
    char picture[600];
    snprintf(picture, sizeof picture, "%s/a.png", folder);
    file_write_whole(picture, "x", 1, &e);
}

static int add(manifest *m, digest key, const char *status, const char *file)
{
    str s = {0};
    char hex[33];
    error e = {0};
    str_printf(&s, "{\"row\": 1, \"status\": \"%s\", \"files\": [\"%s\"], \"key\": \"%s\"}", status, file,
               digest_hex(key, hex));
    kiln_status done = manifest_add(m, &s, &e);
    str_free(&s);
    return done == KILN_OK;
}

static int found(digest key)
{
    error e = {0};
    size_t n = 0;
    manifest *m = manifest_open(path, &e);
    if (!CHECK_MSG(m != NULL, "%s", e.message)) return -1;
    int there = manifest_find(m, key, folder, &n) != NULL;
    manifest_close(m, &e);
    return there;
}

static void test_the_last_line_holds(void)
{
    error e = {0};
    begin(NULL);
    manifest *m = manifest_open(path, &e);
    REQUIRE(m != NULL);
    CHECK(add(m, key_a, "failed", "a.png") && add(m, key_a, "done", "a.png") && add(m, key_b, "done", "gone.png"));
    CHECK_EQ(manifest_close(m, &e), KILN_OK);
    CHECK_EQ(found(key_a), 1);
    CHECK_EQ(found(key_b), 0); /* its file is not there */
    m = manifest_open(path, &e);
    REQUIRE(m != NULL);
    CHECK(add(m, key_a, "failed", "a.png"));
    manifest_close(m, &e);
    CHECK_EQ(found(key_a), 0);
}

static void test_a_cut_line_is_passed_over(void)
{
    error e = {0};
    begin("{\"row\": 1, \"status\": \"done\", \"fi");
    manifest *m = manifest_open(path, &e);
    REQUIRE(m != NULL);
    CHECK(add(m, key_a, "done", "a.png")); /* on a line of its own */
    manifest_close(m, &e);
    CHECK_EQ(found(key_a), 1);
}

static void test_hostile_lines(void)
{
    char hex[33], text[600];
    digest_hex(key_a, hex);
    static const char *const file[] = {"../a.png", "/etc/passwd", "", "x/../../a.png"};
    for (size_t i = 0; i < sizeof file / sizeof file[0]; i++) {
        snprintf(text, sizeof text, "{\"row\": 1, \"status\": \"done\", \"files\": [\"%s\"], \"key\": \"%s\"}\n",
                 file[i], hex);
        begin(text);
        CHECK_EQ(found(key_a), 0);
    }
    snprintf(text, sizeof text,
             "{\"row\": 1, \"status\": 5, \"files\": 7, \"key\": \"%s\"}\n{\"row\": 2}\n[]\nnull\n\n{\"row\": 1, "
             "\"status\": \"done\", \"files\": [3], \"key\": \"%s\"}\n",
             hex, hex);
    begin(text);
    CHECK_EQ(found(key_a), 0);
}

static void test_a_strangers_file_is_refused(void)
{
    error e = {0};
    begin("\x89PNG\r\n\x1a\nwhatever\n");
    CHECK(manifest_open(path, &e) == NULL && strstr(e.message, "no manifest"));
    e = (error){0};
    CHECK(manifest_open(folder, &e) == NULL && strstr(e.message, "it is a folder"));
}

static void test_every_allocation_may_fail(void)
{
    begin(
        "{\"row\": 1, \"status\": \"done\", \"files\": [\"a.png\"], \"key\": \"00000000000000010000000000000000\"}\n");
    for (int64_t k = 0; k < 40; k++) {
        error e = {0};
        mem_fail_at(k, 0);
        manifest *m = manifest_open(path, &e);
        mem_fail_at(-1, 0);
        CHECK(m || e.status == KILN_ERR_NOMEM);
        manifest_close(m, &e);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_the_last_line_holds), CASE(test_a_cut_line_is_passed_over),
                                      CASE(test_hostile_lines), CASE(test_a_strangers_file_is_refused),
                                      CASE(test_every_allocation_may_fail)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
