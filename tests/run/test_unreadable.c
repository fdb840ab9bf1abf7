/* test_unreadable.c - large files that no node can use are told by their headers, and only those: sizes at the limits,
 * names in any case, folders, links that lead nowhere. The files are sparse.
 */
#include "harness.h"

#include "run/unreadable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const int64_t LARGE = INT64_C(256) << 20, HUGE_FILE = INT64_C(1) << 40;

/* 0: this file system has no room for such a size. */
static int make(const char *name, const void *begin, size_t n, int64_t size)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (!CHECK(fd >= 0 && write(fd, begin, n) == (ssize_t)n)) exit(1);
    int fits = ftruncate(fd, size) == 0;
    CHECK(fits || errno == EFBIG || errno == EINVAL);
    close(fd);
    return fits;
}

static int is_unreadable(const char *name)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    return file_is_unreadable(NULL, path);
}

/* A safetensors file of that size whose one tensor takes `short_by` bytes less than there are. */
static void make_tensors(const char *name, int64_t size, int64_t short_by)
{
    char head[208] = {0};
    int64_t bytes = size - 208 - short_by;
    int n = snprintf(head + 8, 200, "{\"a\":{\"dtype\":\"U8\",\"shape\":[%lld],\"data_offsets\":[0,%lld]}}",
                     (long long)bytes, (long long)bytes);
    memset(head + 8 + n, ' ', (size_t)(200 - n));
    head[0] = (char)200;
    CHECK(make(name, head, sizeof head, size));
}

static void test_safetensors(void)
{
    static const uint8_t too_long[8] = {0, 0, 0, 0, 1}, beyond[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f};
    make_tensors("good.safetensors", LARGE, 0);
    CHECK_EQ(is_unreadable("good.safetensors"), 0);
    make_tensors("short.safetensors", LARGE, 1);
    CHECK_EQ(is_unreadable("short.safetensors"), 1);
    make_tensors("short.SafeTensors", LARGE, 1);
    CHECK_EQ(is_unreadable("short.SafeTensors"), 1);
    make_tensors("short.bin", LARGE, 1); /* not a kind that is looked into */
    CHECK_EQ(is_unreadable("short.bin"), 0);
    make_tensors("small.safetensors", LARGE - 1, 1); /* is digested in no time */
    CHECK_EQ(is_unreadable("small.safetensors"), 0);
    make("zeros.safetensors", "", 0, LARGE);
    CHECK_EQ(is_unreadable("zeros.safetensors"), 1);
    make("long.safetensors", too_long, 8, LARGE);
    CHECK_EQ(is_unreadable("long.safetensors"), 1);
    make("beyond.safetensors", beyond, 8, LARGE);
    CHECK_EQ(is_unreadable("beyond.safetensors"), 1);
}

static void test_gguf(void)
{
    static const uint8_t empty[24] = {'G', 'G', 'U', 'F', 3};
    make("zeros.gguf", "", 0, LARGE);
    CHECK_EQ(is_unreadable("zeros.gguf"), 1);
    make("zeros.GGUF", "", 0, LARGE - 1);
    CHECK_EQ(is_unreadable("zeros.GGUF"), 0);
    make("empty.gguf", empty, sizeof empty, LARGE);
    CHECK_EQ(is_unreadable("empty.gguf"), 0);
}

static void test_what_nobody_waits_for(void)
{
    if (!make("huge.bin", "", 0, HUGE_FILE + 1)) {
        test_skip("no room for a sparse file of a terabyte");
        return;
    }
    CHECK_EQ(is_unreadable("huge.bin"), 1);
    CHECK_EQ(is_unreadable("nowhere"), 0); /* nothing is known of it, least of all what was of the one before */
    CHECK(make("huge.bin", "", 0, HUGE_FILE));
    CHECK_EQ(is_unreadable("huge.bin"), 0);
}

static void test_folders(void)
{
    char path[700], name[100] = "deep";
    snprintf(path, sizeof path, "%s/folder", test_folder());
    REQUIRE(mkdir(path, 0700) == 0);
    CHECK_EQ(is_unreadable("folder"), 0);
    make_tensors("folder/good.safetensors", LARGE, 0);
    make_tensors("folder/.short.safetensors", LARGE, 1); /* hidden: no model's */
    snprintf(path, sizeof path, "%s/folder/link.safetensors", test_folder());
    REQUIRE(symlink("nowhere.safetensors", path) == 0);
    CHECK_EQ(is_unreadable("folder"), 0);
    make_tensors("folder/short.safetensors", LARGE, 1);
    CHECK_EQ(is_unreadable("folder"), 1);
    for (int depth = 0; depth < 9; depth++) { /* seven folders below it are looked into */
        char file[140];
        snprintf(path, sizeof path, "%s/%s", test_folder(), name);
        REQUIRE(mkdir(path, 0700) == 0);
        snprintf(file, sizeof file, "%s/short.safetensors", name);
        make_tensors(file, LARGE, 1);
        CHECK_MSG(is_unreadable("deep") == (depth < 8), "%d folders down", depth);
        snprintf(path, sizeof path, "%s/%s", test_folder(), file);
        REQUIRE(unlink(path) == 0);
        snprintf(name + strlen(name), sizeof name - strlen(name), "/d");
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_safetensors), CASE(test_gguf), CASE(test_what_nobody_waits_for),
                                      CASE(test_folders)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
