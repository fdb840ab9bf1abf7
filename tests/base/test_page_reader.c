/* test_page_reader.c - pages of a mapped file are read before anybody touches them, a few at a time, and no more of
 * them once nobody wants them.
 */
#include "harness.h"

#include "base/page_reader.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILE_BYTES = 24 << 20, PAGE = 4096, PAGES = FILE_BYTES / PAGE };

static int asked, stop_after;
static int stop(void *arg)
{
    (void)arg;
    return asked++ >= stop_after;
}

/* A file that is on the disk and not in memory, if the system lets it go; NULL: there is none. */
static const char *mapped(int *fd)
{
    char path[] = "/var/tmp/kiln-page-reader-XXXXXX", *bytes = malloc(FILE_BYTES);
    *fd = mkstemp(path);
    if (bytes) memset(bytes, 7, FILE_BYTES);
    int written = *fd >= 0 && bytes && write(*fd, bytes, FILE_BYTES) == FILE_BYTES && fsync(*fd) == 0;
    unlink(path);
    free(bytes);
    posix_fadvise(*fd, 0, 0, POSIX_FADV_DONTNEED);
    const char *map = written ? mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, *fd, 0) : MAP_FAILED;
    return map != MAP_FAILED ? map : NULL;
}

static size_t pages_there(const char *map)
{
    static unsigned char there[PAGES];
    size_t n = 0;
    CHECK_EQ(mincore((void *)(uintptr_t)map, FILE_BYTES, there), 0);
    for (size_t i = 0; i < PAGES; i++) n += there[i] & 1;
    return n;
}

static void test_pages_are_read(void)
{
    int fd;
    const char *map = mapped(&fd);
    REQUIRE(map);
    page_reader r = {.stop = stop};
    stop_after = 1 << 30;
    size_t before = pages_there(map);
    if (before > PAGES / 2)
        test_skip("the system kept the file in memory");
    else {
        page_reader_ask(&r, map + 100, FILE_BYTES - 300);
        CHECK(r.n == FILE_BYTES / (512 << 10));
        for (int i = 0; i < 5000 && pages_there(map) < PAGES; i++) usleep(1000); /* the last ones come, too */
        CHECK_EQ(pages_there(map), PAGES);
    }
    page_reader_ask(&r, map, 0);
    page_reader_ask(&r, map + PAGE - 1, 2); /* parts of two pages */
    CHECK_EQ(map[FILE_BYTES - 1], 7);
    munmap((void *)(uintptr_t)map, FILE_BYTES);
    page_reader_ask(&r, map, FILE_BYTES); /* no mapping any more: a hint does no harm */
    close(fd);
}

static void test_it_ends_when_it_is_told_to(void)
{
    int fd;
    const char *map = mapped(&fd);
    REQUIRE(map);
    page_reader r = {.stop = stop};
    asked = 0, stop_after = 0;
    page_reader_ask(&r, map, FILE_BYTES);
    CHECK_EQ(r.n, 0);
    asked = 0, stop_after = 3;
    page_reader_ask(&r, map, FILE_BYTES);
    CHECK(r.n > 0 && r.n <= 3);
    munmap((void *)(uintptr_t)map, FILE_BYTES);
    close(fd);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_pages_are_read), CASE(test_it_ends_when_it_is_told_to)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
