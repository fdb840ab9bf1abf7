/* test_spill.c - kiln_host.spill: a file of the call's own that is as large as was asked for, has no name and is gone
 * when the call ends, however it ends; where there is no room, a sentence that names folders and remedy. */
#include "harness.h"

#include "plugin/ctx.h"
#include "plugin/spill.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BYTES = 3000000 };

static int first, second; /* the descriptors of the last call */
static size_t wanted = BYTES;
static kiln_status ends_with = KILN_OK;

static kiln_status run(const kiln_call *c)
{
    if ((first = c->host->spill(c->ctx, wanted)) < 0) return KILN_ERR_IO;
    if ((second = c->host->spill(c->ctx, 1)) < 0) return KILN_ERR_IO;
    struct stat st;
    char back[6] = "";
    CHECK(first > 2 && second > 2 && first != second);
    CHECK(fstat(first, &st) == 0 && st.st_nlink == 0 && st.st_blocks * 512 >= BYTES);
    CHECK(pwrite(first, "there", 5, BYTES - 5) == 5 && pread(first, back, 5, BYTES - 5) == 5);
    CHECK_STR(back, "there");
    if (ends_with == KILN_CANCELLED) return c->host->progress(c->ctx, 1, 2, "half");
    return ends_with;
}

static int always(void *arg) { return (void)arg, 1; }

static error call(const char *folder, int estimate)
{
    static const kiln_node type = {
        .size = sizeof type, .type = "Tried", .doc = "Tried.", .revision = 1, .devices = KILN_CPU, .run = run};
    call_environment env = {
        .spill = folder, .estimate = estimate, .cancelled = ends_with == KILN_CANCELLED ? always : NULL};
    error e = {0};
    kiln_value *out = NULL; /* there are none */
    first = second = -1;
    kiln_status status = ctx_call(&env, 0, "n", "org.example.tried", &type, NULL, NULL, NULL, &out, &e);
    CHECK_EQ(status, e.status);
    return e;
}

static int is_open(int fd) { return fd >= 0 && fcntl(fd, F_GETFD) >= 0; }

static int files_in(const char *folder)
{
    int n = -2; /* . and .. */
    DIR *d = opendir(folder);
    for (struct dirent *item; d && (item = readdir(d));) n++;
    if (d) closedir(d);
    return n;
}

static void test_closed_however_the_call_ends(void)
{
    static const kiln_status ends[] = {KILN_OK, KILN_ERR_INVALID, KILN_CANCELLED};
    char *folder = strdup(test_folder());
    for (size_t i = 0; i < 3; i++) {
        ends_with = ends[i];
        CHECK_EQ(call(folder, 0).status, ends[i]);
        CHECK(first > 0 && !is_open(first) && !is_open(second));
        CHECK_EQ(files_in(folder), 0);
    }
    ends_with = KILN_OK;
    free(folder);
}

static void test_where(void)
{
    char missing[600], other[600];
    const char *folder = test_folder();
    snprintf(missing, sizeof missing, "%s/missing", folder), snprintf(other, sizeof other, "%s/other", folder);
    setenv("TMPDIR", folder, 1);
    CHECK_EQ(call(NULL, 0).status, KILN_OK);
    CHECK_EQ(call(missing, 0).status, KILN_OK); /* then TMPDIR */
    setenv("TMPDIR", other, 1);
    error e = call(missing, 0);
    CHECK_EQ(e.status, KILN_ERR_IO);
    CHECK_MSG(strstr(e.message, "cannot put 3.0 MB aside") && strstr(e.message, "/missing: No such file") &&
                  strstr(e.message, "/other: No such file") && strstr(e.message, "TMPDIR, or give more --memory"),
              "%s", e.message);
    unsetenv("TMPDIR");
    CHECK_EQ(call(NULL, 0).status, KILN_OK); /* /var/tmp */
}

static void test_no_room(void)
{
    char *folder = strdup(test_folder());
    setenv("TMPDIR", folder, 1);
    wanted = (size_t)1 << 61;
    error e = call(NULL, 0);
    CHECK_EQ(e.status, KILN_ERR_IO);
    CHECK_MSG(strstr(e.message, folder) && strstr(e.message, "free some space there"), "%s", e.message);
    wanted = SIZE_MAX;
    CHECK_EQ(call(NULL, 0).status, KILN_ERR_IO);
    CHECK_EQ(files_in(folder), 0);
    wanted = BYTES;
    unsetenv("TMPDIR");
    free(folder);
}

static void test_not_in_an_estimate(void)
{
    error e = call(NULL, 1);
    CHECK_MSG(strstr(e.message, "in an estimate"), "%s", e.message);
    CHECK(first < 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_closed_however_the_call_ends), CASE(test_where), CASE(test_no_room),
                                      CASE(test_not_in_an_estimate)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
