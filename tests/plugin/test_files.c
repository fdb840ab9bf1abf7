/* test_files.c - "kiln.files/1": nothing leaves the output folder, no two files get one name, none appears half
 * written. */
#include "harness.h"

#include "base/memory_alloc.h"
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "plugin/output.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[512];

static void fresh(void)
{
    static int n;
    snprintf(folder, sizeof folder, "%s/o%d", test_folder(), n++);
    mkdir(folder, 0755);
}

static char *below(const char *name)
{
    static char path[4][1100];
    static unsigned at;
    at = (at + 1) % 4;
    snprintf(path[at], sizeof path[at], "%s/%s", folder, name);
    return path[at];
}

/* Files and folders in a folder, hidden ones too. */
static int entries(const char *path)
{
    int n = 0;
    DIR *d = opendir(path);
    for (struct dirent *x; d && (x = readdir(d));) n += strcmp(x->d_name, ".") != 0 && strcmp(x->d_name, "..") != 0;
    if (d) closedir(d);
    return n;
}

typedef struct {
    kiln_ctx ctx;
    call_environment env;
    output_folder out;
    char reported[1100];
} call;

static void on_file(void *arg, size_t node, const char *path)
{
    (void)node, snprintf(((call *)arg)->reported, 1100, "%s", path);
}
static const char *on_text(void *arg, size_t node, const char *name)
{
    return (void)arg, (void)node, strcmp(name, "prompt") == 0 ? "{}" : "";
}

static void begin(call *c)
{
    memset(c, 0, sizeof *c);
    c->out.path = folder;
    c->env = (call_environment){.output = &c->out, .file = on_file, .text = on_text, .arg = c};
    c->ctx.env = &c->env;
}
static void end(call *c)
{
    files_discard(&c->ctx);
    arena_free(&c->ctx.scratch);
}

/* Writes "hello"; the path given back, or NULL. */
static const char *save(call *c, uint32_t where, const char *prefix)
{
    const char *path = NULL;
    kiln_file *f = files_api.create(&c->ctx, where, prefix, "txt");
    if (!f || files_api.write(f, "hel", 3) != KILN_OK || files_api.write(f, "lo", 2) != KILN_OK) return NULL;
    return files_api.commit(f, &path) == KILN_OK ? path : NULL;
}

static void check_content(const char *path, const char *wanted)
{
    char text[64] = "";
    FILE *f = fopen(path, "r");
    if (!CHECK_MSG(f != NULL, "%s is not there", path)) return;
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    fclose(f);
    CHECK_STR(text, wanted);
}

static void test_counters(void)
{
    call c;
    fresh();
    begin(&c);
    CHECK_STR(save(&c, KILN_FILES_OUTPUT, "kiln"), "kiln_00001_.txt");
    CHECK_STR(c.reported, below("kiln_00001_.txt"));
    check_content(below("kiln_00001_.txt"), "hello");
    CHECK_STR(save(&c, KILN_FILES_OUTPUT, "kiln"), "kiln_00002_.txt");
    close(open(below("kiln_00041_.png"), O_CREAT | O_WRONLY, 0644)); /* any extension counts */
    close(open(below("kiln_x_.png"), O_CREAT | O_WRONLY, 0644));
    close(open(below("kilns_00090_.png"), O_CREAT | O_WRONLY, 0644));
    CHECK_STR(save(&c, KILN_FILES_OUTPUT, "kiln"), "kiln_00042_.txt");
    close(open(below("kiln_99999_.png"), O_CREAT | O_WRONLY, 0644));
    CHECK_STR(save(&c, KILN_FILES_OUTPUT, "kiln"), "kiln_100000_.txt");
    CHECK_STR(save(&c, KILN_FILES_OUTPUT, "a/b//./c/kiln"), "a/b//./c/kiln_00001_.txt");
    check_content(below("a/b/c/kiln_00001_.txt"), "hello");
    CHECK_STR(save(&c, KILN_FILES_TEMP, "kiln"), "kiln_00001_.txt");
    check_content(below("temp/kiln_00001_.txt"), "hello");
    CHECK_STR(files_api.text(&c.ctx, "prompt"), "{}");
    CHECK(files_api.text(&c.ctx, "parameters") == NULL);
    end(&c);
}

static void test_what_is_not_committed_vanishes(void)
{
    call c;
    fresh();
    begin(&c);
    kiln_file *one = files_api.create(&c.ctx, KILN_FILES_OUTPUT, "a", "txt"),
              *two = files_api.create(&c.ctx, KILN_FILES_OUTPUT, "a", "txt");
    REQUIRE(one && two);
    CHECK_EQ(files_api.write(one, "x", 1), KILN_OK);
    CHECK_EQ(files_api.commit(two, NULL), KILN_OK);
    end(&c);
    CHECK_EQ(entries(folder), 1);
    check_content(below("a_00001_.txt"), "");
}

static void test_names_that_are_refused(void)
{
    char longest[260], deep[1200];
    memset(longest, 'x', 201);
    longest[201] = '\0';
    memset(deep, 'y', 1100);
    deep[1100] = '\0';
    const struct {
        const char *prefix, *says;
    } rows[] = {
        {"", "is empty"},
        {"/etc/kiln", "absolute path"},
        {"../kiln", "'..'"},
        {"a/../../kiln", "'..'"},
        {"a/..", "'..'"},
        {"a/", "names a folder"},
        {".", "names a folder"},
        {"a\nb", "control character 0x0a"},
        {"a\x1b[31m", "control character 0x1b"},
        {"a\x7f", "control character 0x7f"},
        {"\xff\xfe", "not UTF-8"},
        {longest, "longer than 200 bytes"},
        {deep, "too long"},
    };
    fresh();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        call c;
        begin(&c);
        CHECK(files_api.create(&c.ctx, KILN_FILES_OUTPUT, rows[i].prefix, "txt") == NULL);
        CHECK_EQ(c.ctx.failure.status, KILN_ERR_INVALID);
        CHECK_MSG(strstr(c.ctx.failure.message, rows[i].says) != NULL, "'%s' does not say '%s'", c.ctx.failure.message,
                  rows[i].says);
        end(&c);
    }
    static const char *const extensions[] = {"", "a/b", "..", "PNG", "averyveryverylongone", NULL};
    for (size_t i = 0; i < sizeof extensions / sizeof extensions[0]; i++) {
        call c;
        begin(&c);
        CHECK(files_api.create(&c.ctx, KILN_FILES_OUTPUT, "a", extensions[i]) == NULL);
        CHECK_EQ(c.ctx.failure.status, KILN_ERR_BUG);
        end(&c);
    }
    CHECK_EQ(entries(folder), 0);
}

static void test_links(void)
{
    call c;
    char outside[600];
    fresh();
    snprintf(outside, sizeof outside, "%s-outside", folder);
    mkdir(outside, 0755);
    mkdir(below("real"), 0755);
    CHECK_EQ(symlink(outside, below("away")), 0);
    CHECK_EQ(symlink("..", below("up")), 0);
    CHECK_EQ(symlink("real", below("inside")), 0);
    CHECK_EQ(symlink("nowhere", below("broken")), 0);
    static const char *const refused[] = {"away/a", "up/a", "real/../a", "broken/a"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        begin(&c);
        CHECK_MSG(save(&c, KILN_FILES_OUTPUT, refused[i]) == NULL, "%s", refused[i]);
        CHECK(c.ctx.failure.message[0]);
        if (i < 2)
            CHECK_MSG(strstr(c.ctx.failure.message, "leads out of the output folder through a link") != NULL, "%s",
                      c.ctx.failure.message);
        end(&c);
    }
    begin(&c);
    CHECK_STR(save(&c, KILN_FILES_OUTPUT, "inside/a"),
              "inside/a_00001_.txt"); /* a link that stays inside is a folder like any other */
    end(&c);
    check_content(below("real/a_00001_.txt"), "hello");
    CHECK_EQ(entries(outside), 0);
}

/* Eight processes, fifty files each, one prefix: four hundred names. */
static void test_many_processes_one_prefix(void)
{
    pid_t pid[8];
    fresh();
    for (int i = 0; i < 8; i++) {
        pid[i] = fork();
        if (pid[i] != 0) continue;
        int good = 0;
        for (int k = 0; k < 50; k++) {
            call c;
            begin(&c);
            good += save(&c, KILN_FILES_OUTPUT, "sub/same") != NULL;
            end(&c);
        }
        _exit(good == 50 ? 0 : 1);
    }
    for (int i = 0; i < 8; i++) {
        int status = 1;
        waitpid(pid[i], &status, 0);
        CHECK_EQ(status, 0);
    }
    CHECK_EQ(entries(below("sub")), 400);
    check_content(below("sub/same_00001_.txt"), "hello");
    check_content(below("sub/same_00400_.txt"), "hello");
}

/* A process killed between write and commit leaves nothing (where the file system has files without names). */
static void test_killed_process_leaves_nothing(void)
{
    int fd[2], status;
    char byte;
    fresh();
    int nameless = open(folder, O_TMPFILE | O_RDWR, 0600);
    if (nameless < 0) {
        test_skip("this file system has no O_TMPFILE");
        return;
    }
    close(nameless);
    REQUIRE(pipe(fd) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        call c;
        begin(&c);
        kiln_file *f = files_api.create(&c.ctx, KILN_FILES_OUTPUT, "a", "txt");
        if (f && files_api.write(f, "half", 4) == KILN_OK && write(fd[1], "x", 1) == 1) pause();
        _exit(1);
    }
    CHECK_EQ(read(fd[0], &byte, 1), 1);
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    CHECK_EQ(entries(folder), 0);
    close(fd[0]), close(fd[1]);
}

static void test_no_space(void)
{
    call c;
    static char block[8192];
    struct rlimit old, small;
    fresh();
    begin(&c);
    kiln_file *f = files_api.create(&c.ctx, KILN_FILES_OUTPUT, "a", "txt");
    REQUIRE(f != NULL);
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    CHECK_EQ(files_api.write(f, block, sizeof block), KILN_ERR_IO);
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK_EQ(files_api.write(f, "x", 1), KILN_ERR_IO); /* once broken, stays broken */
    CHECK_EQ(files_api.commit(f, NULL), KILN_ERR_IO);
    CHECK_MSG(strstr(c.ctx.failure.message, "cannot write a: File too large") != NULL, "%s", c.ctx.failure.message);
    end(&c);
    CHECK_EQ(entries(folder), 0);
}

static void test_folders_that_cannot_be_written(void)
{
    call c;
    fresh();
    begin(&c);
    c.out.path = "/nonexistent/kiln";
    CHECK(save(&c, KILN_FILES_OUTPUT, "a") == NULL);
    CHECK_EQ(c.ctx.failure.status, KILN_ERR_IO);
    CHECK_MSG(strstr(c.ctx.failure.message, "choose another with --out") != NULL, "%s", c.ctx.failure.message);
    end(&c);
    begin(&c);
    close(open(below("file"), O_CREAT | O_WRONLY, 0644));
    CHECK(save(&c, KILN_FILES_OUTPUT, "file/a") == NULL); /* a file where a folder should be */
    CHECK_EQ(c.ctx.failure.status, KILN_ERR_IO);
    end(&c);
    begin(&c);
    c.env.output = NULL;
    CHECK(save(&c, KILN_FILES_OUTPUT, "a") == NULL);
    CHECK_EQ(c.ctx.failure.status, KILN_ERR_UNSUPPORTED);
    end(&c);
}

/* ---- a line a case ---- */

static int is_changed;
static kiln_status unchanged(void *arg, size_t node, error *e)
{
    (void)arg, (void)node;
    return is_changed ? error_set(e, KILN_ERR_INVALID, "the input has changed") : KILN_OK;
}
static const char *earlier;
static const char *written(void *arg, size_t node) { return (void)arg, (void)node, earlier; }
static char named[600];
static void naming(void *arg, size_t node, const char *path, const struct stat *file)
{
    (void)arg, (void)node;
    snprintf(named, sizeof named, "%s", file ? path : "");
}
static const char *no_text(void *arg, size_t node, const char *name) { return (void)arg, (void)node, (void)name, NULL; }

static void test_what_create_refuses(void)
{
    char long_name[300], long_folder[300];
    memset(long_name, 'x', 201), long_name[201] = '\0';
    memset(long_folder, 'x', 256), memcpy(long_folder + 256, "/a", 3);
    const struct {
        const char *prefix, *extension, *says;
        uint32_t where;
    } cases[] = {
        {NULL, "txt", "the file name prefix is empty", KILN_FILES_OUTPUT},
        {"", "txt", "the file name prefix is empty", KILN_FILES_OUTPUT},
        {"a/..b/c", "txt", NULL, KILN_FILES_OUTPUT},
        {"a/.x/c", "txt", NULL, KILN_FILES_OUTPUT},
        {"a/../c", "txt", "holds '..'", KILN_FILES_OUTPUT},
        {"/a", "txt", "is an absolute path", KILN_FILES_OUTPUT},
        {"a/", "txt", "names a folder", KILN_FILES_OUTPUT},
        {"a/.", "txt", "names a folder", KILN_FILES_OUTPUT},
        {"a\x7f", "txt", "the control character 0x7f", KILN_FILES_OUTPUT},
        {"a\xff", "txt", "is not UTF-8", KILN_FILES_OUTPUT},
        {long_name, "txt", "has a name longer than 200 bytes", KILN_FILES_OUTPUT},
        {long_folder, "txt", "a name longer than 255 bytes", KILN_FILES_OUTPUT},
        {"a", NULL, "a file extension is 1 to 16 of a-z and 0-9", KILN_FILES_OUTPUT},
        {"a", "", "a file extension is", KILN_FILES_OUTPUT},
        {"a", "PNG", "a file extension is", KILN_FILES_OUTPUT},
        {"a", "x:y", "a file extension is", KILN_FILES_OUTPUT},
        {"a", "abcdefghijklmnopq", "a file extension is", KILN_FILES_OUTPUT},
        {"a", "txt", "create() takes KILN_FILES_OUTPUT or KILN_FILES_TEMP, not 7", 7},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        call c;
        fresh(), begin(&c);
        kiln_file *f = files_api.create(&c.ctx, cases[i].where, cases[i].prefix, cases[i].extension);
        CHECK_MSG(cases[i].says ? !f && strstr(c.ctx.failure.message, cases[i].says) : f != NULL, "case %zu: '%s'", i,
                  c.ctx.failure.message);
        end(&c);
    }
    call c;
    fresh(), begin(&c), c.ctx.env = NULL;
    CHECK(!files_api.create(&c.ctx, KILN_FILES_OUTPUT, "a", "txt") &&
          strstr(c.ctx.failure.message, "no output folder"));
    CHECK(files_api.text(&c.ctx, "prompt") == NULL && files_api.text(&c.ctx, "extension") == NULL);
    begin(&c), c.out.path = NULL;
    CHECK(!files_api.create(&c.ctx, KILN_FILES_OUTPUT, "a", "txt") &&
          strstr(c.ctx.failure.message, "no output folder"));
    begin(&c), c.env.estimate = 1;
    CHECK(!files_api.create(&c.ctx, KILN_FILES_OUTPUT, "a", "txt") && strstr(c.ctx.failure.message, "in an estimate"));
    begin(&c), c.out.path = "/proc/none";
    CHECK(!files_api.create(&c.ctx, KILN_FILES_OUTPUT, "a", "txt") &&
          strstr(c.ctx.failure.message, "cannot write to the folder /proc/none/"));
    end(&c);
}

static void test_a_name_that_somebody_asked_for(void)
{
    call c;
    fresh(), begin(&c);
    c.out.file = "mine.txt", c.env.naming = naming, named[0] = '\0';
    CHECK_STR(files_api.text(&c.ctx, "extension"), "txt");
    CHECK(!files_api.create(&c.ctx, KILN_FILES_OUTPUT, "a", "png") &&
          strstr(c.ctx.failure.message, "-o mine.txt: this node writes .png files; end the name so"));
    c.ctx.failure = (error){0};
    CHECK_STR(save(&c, KILN_FILES_OUTPUT, "sub/a"), "mine.txt");
    CHECK_STR(named, folder);
    check_content(below("mine.txt"), "hello");
    CHECK_STR(save(&c, KILN_FILES_OUTPUT, "sub/a"), "mine_00001_.txt"); /* the second */
    CHECK_STR(save(&c, KILN_FILES_OUTPUT, "sub/a"), "mine_00002_.txt");
    CHECK_STR(save(&c, KILN_FILES_TEMP, "sub/a"), "sub/a_00001_.txt");
    c.out.file = "mine";
    CHECK(files_api.text(&c.ctx, "extension") == NULL);
    CHECK(!files_api.create(&c.ctx, KILN_FILES_OUTPUT, "a", "txt"));
    end(&c);
}

static void test_what_commit_asks_first(void)
{
    call c;
    const char *path = NULL;
    fresh(), begin(&c);
    c.env.unchanged = unchanged, is_changed = 1;
    CHECK(save(&c, KILN_FILES_OUTPUT, "a") == NULL && strstr(c.ctx.failure.message, "the input has changed"));
    is_changed = 0, c.ctx.failure = (error){0};
    /* What an earlier process wrote is what this one answers. */
    char before[600];
    snprintf(before, sizeof before, "%s/sub/a_00007_.txt", folder);
    c.env.written = written, earlier = before;
    CHECK_STR(save(&c, KILN_FILES_OUTPUT, "a"), "sub/a_00007_.txt");
    earlier = "/elsewhere/b.txt";
    CHECK_STR(save(&c, KILN_FILES_OUTPUT, "a"), "/elsewhere/b.txt");
    kiln_file *f = files_api.create(&c.ctx, KILN_FILES_OUTPUT, "a", "txt");
    CHECK(f && files_api.commit(f, NULL) == KILN_OK);
    CHECK_EQ(entries(folder), 0); /* nothing was written twice */
    earlier = NULL;
    f = files_api.create(&c.ctx, KILN_FILES_OUTPUT, "a", "txt");
    CHECK(f && files_api.commit(f, NULL) == KILN_OK);
    CHECK_EQ(entries(folder), 1);
    c.env.file = NULL;
    CHECK_STR(save(&c, KILN_FILES_OUTPUT, "a"), "a_00002_.txt");
    /* A text for which there was no memory refuses the file; an unknown one is only not there. */
    c.env.text = no_text;
    CHECK(files_api.text(&c.ctx, "somebody's") == NULL && files_api.text(&c.ctx, NULL) == NULL);
    CHECK_STR(save(&c, KILN_FILES_OUTPUT, "a"), "a_00003_.txt");
    static const char *const own[] = {"prompt", "parameters", "kiln"};
    for (int i = 0; i < 3; i++) {
        c.ctx.lacks_text = 0, c.ctx.failure = (error){0};
        CHECK(files_api.text(&c.ctx, own[i]) == NULL);
        f = files_api.create(&c.ctx, KILN_FILES_OUTPUT, "a", "txt");
        CHECK(f && files_api.commit(f, &path) == KILN_ERR_NOMEM &&
              strstr(c.ctx.failure.message, "out of memory for the texts"));
    }
    end(&c);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_counters),
        CASE(test_what_is_not_committed_vanishes),
        CASE(test_names_that_are_refused),
        CASE(test_links),
        CASE(test_many_processes_one_prefix),
        CASE(test_killed_process_leaves_nothing),
        CASE(test_no_space),
        CASE(test_folders_that_cannot_be_written),
        CASE(test_what_create_refuses),
        CASE(test_a_name_that_somebody_asked_for),
        CASE(test_what_commit_asks_first),
    };
    umask(022);
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
