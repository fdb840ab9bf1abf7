/* test_plugin_data.c - a plugin's data folder: what is in it is part of the plugin's identity, whatever cannot be, or
 * that others may change, is refused with its path.
 */
#include "harness.h"

#include "plugin/plugin_data.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!CHECK(f && fputs(text, f) >= 0)) exit(1);
    fclose(f);
    chmod(path, 0644);
}

/* The message, or the identity as it became; "none": there is no such folder. */
static const char *found(const char *so)
{
    static char text[2][1200];
    static int turn;
    char hex[33], *out = text[turn ^= 1];
    arena memory = {0};
    error e = {0};
    const char *folder = NULL;
    digest identity = {.hi = 1, .lo = 2};
    kiln_status status = plugin_data_find(so, &memory, &folder, &identity, &e);
    CHECK_EQ(status == KILN_OK, e.message[0] == '\0');
    CHECK(status == KILN_OK || (!folder && identity.hi == 1 && identity.lo == 2));
    snprintf(out, 1200, "%s", status != KILN_OK ? e.message : folder ? digest_hex(identity, hex) : "none");
    arena_free(&memory);
    return out;
}
#define REFUSED(says) CHECK_MSG(strstr(found("p.so"), says), "'%s', wanted '%s'", found("p.so"), says)

static void test_identity(void)
{
    CHECK_STR(found("p.so"), "none");
    CHECK_STR(found("so"), "none"); /* too short a name for an ending */
    CHECK_STR(found("p.so/x.so"), "none");
    CHECK_EQ(mkdir("p.data", 0755), 0);
    char was[40];
    snprintf(was, sizeof was, "%s", found("p.so"));
    write_text("p.data/a", "");
    CHECK(strcmp(found("p.so"), was) != 0);
    snprintf(was, sizeof was, "%s", found("p.so"));
    CHECK_STR(found("p.so"), was);
    CHECK_EQ(rename("p.data/a", "p.data/b"), 0);
    CHECK(strcmp(found("p.so"), was) != 0); /* names count */
    CHECK_EQ(rename("p.data/b", "p.data/a"), 0);
    CHECK_STR(found("p.so"), was);
    write_text("p.data/a", "x");
    CHECK(strcmp(found("p.so"), was) != 0); /* and contents */
    CHECK_EQ(unlink("p.data/a") | mkdir("p.data/a", 0755), 0);
    CHECK(strcmp(found("p.so"), was) != 0); /* and whether it is a folder */
    CHECK_EQ(rmdir("p.data/a"), 0);
}

static void test_what_is_refused(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "p.data/x"};
    REFUSED(""); /* an empty folder is fine */
    CHECK_EQ(mkfifo("p.data/x", 0600), 0);
    REFUSED("p.data/x: is neither a file nor a folder");
    CHECK_EQ(unlink("p.data/x") | symlink("../p.so", "p.data/x"), 0);
    REFUSED("p.data/x: cannot be opened");
    unlink("p.data/x");
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    if (CHECK(s >= 0 && bind(s, (struct sockaddr *)&at, sizeof at) == 0)) REFUSED("p.data/x: cannot be opened");
    close(s), unlink("p.data/x");
    write_text("p.data/x", "x"), chmod("p.data/x", 0666);
    REFUSED("p.data/x: can be written by anyone; take that away with: chmod o-w");
    chmod("p.data/x", 0644), chmod("p.data", 0777);
    REFUSED("p.data: can be written by anyone");
    chmod("p.data", 0755);
    CHECK_EQ(truncate("p.data/x", (off_t)DATA_BYTES_MAX + 1), 0); /* a hole */
    REFUSED("p.data/x: a plugin's data is at most 256 MiB together");
    unlink("p.data/x");
    char deep[200] = "p.data";
    for (int i = 0; i < DATA_DEPTH_MAX; i++) strcat(deep, "/d"), mkdir(deep, 0755);
    REFUSED("d/d: more than 8 folders deep");
    CHECK_EQ(rmdir(deep), 0);
    CHECK_EQ(strlen(found("p.so")), 32); /* eight levels are */
    CHECK_EQ(symlink("nowhere", "q.data"), 0);
    CHECK_MSG(strstr(found("q.so"), "q.data: No such file"), "%s", found("q.so"));
    unlink("q.data"), write_text("q.data", "no folder");
    CHECK_MSG(strstr(found("q.so"), "q.data: Not a directory"), "%s", found("q.so"));
    CHECK_EQ(mkdir("r.data", 0755), 0);
    for (int i = 0; i <= DATA_FILES_MAX; i++) {
        char name[32];
        snprintf(name, sizeof name, "r.data/%d", i);
        close(open(name, O_CREAT | O_WRONLY, 0644));
    }
    CHECK_MSG(strstr(found("r.so"), "r.data: a plugin's data is at most 4096 files"), "%s", found("r.so"));
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_identity), CASE(test_what_is_refused)};
    if (chdir(test_folder()) != 0) return 1;
    umask(022);
    write_text("p.so", "");
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
