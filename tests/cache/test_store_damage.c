/* test_store_damage.c - whatever is done to the store's files: a miss or the right bytes, one warning, and it goes on.
 */
#include "store_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

enum { SMALL = 1024, LARGE = 128 << 10, ENTRIES = 40 };

static size_t size_of_entry(uint64_t n) { return n % 8 ? SMALL : LARGE; }

static void fill(const char *folder)
{
    store *s = kit_open(folder);
    REQUIRE(s);
    for (uint64_t n = 0; n < ENTRIES; n++) CHECK_EQ(kit_put(s, n, size_of_entry(n), 0.01), KILN_OK);
    kiln_value *v[2] = {kit_tensor(SMALL, 91), kit_tensor(SMALL, 92)};
    CHECK_EQ(store_put(s, kit_key(1000), &(store_note){.type = "Pair"}, 2, v, NULL), KILN_OK);
    value_unref(v[0]), value_unref(v[1]);
    store_close(s);
}

/* Opens what was damaged and uses all of it: the number of wrong answers. `right` counts what was still there. */
static int use_it(const char *folder, int *right)
{
    int wrong = 0;
    error e = {0};
    *right = 0;
    store *s = store_open(&(store_setting){.folder = folder}, &e);
    if (!s) return e.message[0] ? 0 : 1;
    for (uint64_t n = 0; n < ENTRIES; n++) {
        int got = kit_get(s, n, size_of_entry(n));
        wrong += got<0, *right += got> 0;
    }
    kiln_value *pair[2], *a = kit_tensor(SMALL, 91), *b = kit_tensor(SMALL, 92);
    if (store_get(s, kit_key(1000), 2, pair, NULL) == KILN_OK) {
        wrong += !kit_same(pair[0], a) || !kit_same(pair[1], b);
        value_unref(pair[0]), value_unref(pair[1]);
    }
    value_unref(a), value_unref(b);
    store_report r;
    (void)store_verify(s, &r, NULL, NULL, NULL);
    /* What is computed anew is kept anew, unless the index was given up for this process. */
    wrong += kit_put(s, 5000, SMALL, 0.01) != KILN_OK && s->db != NULL;
    wrong += kit_get(s, 5000, SMALL) < 0;
    store_close(s);
    return wrong;
}

static int copy(const char *from, const char *to)
{
    char command[1500];
    snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s' '%s'", to, from, to);
    return system(command) == 0;
}

static int overwrite(const char *path, long at, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY);
    int ok = fd >= 0 && pwrite(fd, bytes, n, at) == (ssize_t)n;
    if (fd >= 0) close(fd);
    return ok;
}

/* Each page is zeroed, filled with noise, and has single bytes changed in it. */
static void test_index_pages_are_damaged(void)
{
    const char *good = kit_folder("good"), *bad = kit_folder("bad");
    struct stat st;
    fill(good);
    REQUIRE(stat(kit_path(good, "index.sqlite"), &st) == 0);
    long pages = st.st_size / 8192;
    CHECK(pages > 5);
    uint32_t x = 12345;
    for (long page = 0; page < pages; page++)
        for (int kind = 0; kind < 5; kind++) {
            unsigned char noise[8192] = {0};
            int right;
            REQUIRE(copy(good, bad));
            for (int i = 0; kind == 1 && i < 8192; i++)
                noise[i] = (unsigned char)((x = x * 1664525u + 1013904223u) >> 24);
            if (kind < 2) {
                REQUIRE(overwrite(kit_path(bad, "index.sqlite"), page * 8192, noise, sizeof noise));
            } else {
                /* The page's head, then places all over it. */
                long at = kind < 4 ? kind - 2 : (long)((x = x * 1664525u + 1013904223u) >> 8) % 8192;
                noise[0] = (unsigned char)(0x5a + kind);
                REQUIRE(overwrite(kit_path(bad, "index.sqlite"), page * 8192 + at, noise, 1));
            }
            kit_warned();
            int wrong = use_it(bad, &right);
            CHECK_MSG(wrong == 0, "page %ld, damage %d: %d wrong", page, kind, wrong);
            int warned = kit_warned();
            CHECK_MSG(warned <= 2, "page %ld, damage %d: %d warnings, the last \"%s\"", page, kind, warned, kit_last);
            wrong = use_it(bad, &right); /* and again, as the next process finds it */
            CHECK_MSG(wrong == 0, "page %ld, damage %d, second time", page, kind);
        }
}

static void test_index_is_truncated(void)
{
    const char *good = kit_folder("good-t"), *bad = kit_folder("bad-t");
    struct stat st;
    fill(good);
    REQUIRE(stat(kit_path(good, "index.sqlite"), &st) == 0);
    for (long size = 0; size < st.st_size; size += size < 100 ? 33 : 8192 + 1111) {
        int right;
        REQUIRE(copy(good, bad) && truncate(kit_path(bad, "index.sqlite"), size) == 0);
        int wrong = use_it(bad, &right);
        CHECK_MSG(wrong == 0, "cut to %ld: %d wrong", size, wrong);
        wrong = use_it(bad, &right);
        CHECK_MSG(wrong == 0, "cut to %ld, second time", size);
    }
}

static void test_rows_in_another_order(void)
{
    const char *f = kit_folder("seal");
    fill(f);
    sqlite3 *db;
    REQUIRE(sqlite3_open(kit_path(f, "index.sqlite"), &db) == SQLITE_OK);
    CHECK_EQ(sqlite3_exec(db, "UPDATE part SET i=1-i+10 WHERE key=(SELECT key FROM entry WHERE type='Pair')", NULL,
                          NULL, NULL),
             SQLITE_OK);
    sqlite3_close(db);
    kit_warned();
    store *s = kit_open(f);
    REQUIRE(s);
    kiln_value *out[2];
    CHECK(store_find(s, kit_key(1000), NULL));
    CHECK_EQ(store_get(s, kit_key(1000), 2, out, NULL), KILN_ERR_IO);
    CHECK(!store_find(s, kit_key(1000), NULL));
    CHECK_EQ(kit_warned(), 1);
    store_close(s);
}

/* Each region of a value's file: a changed byte, a cut, an addition, a folder or nothing in its place. */
static void test_value_files_are_damaged(void)
{
    const char *f = kit_folder("file");
    char path[800];
    int cases = 0;
    for (long at = 0; at < LARGE; at += at < 512 ? 37 : 9973, cases++) {
        store *s = kit_open(f);
        REQUIRE(s);
        CHECK_EQ(kit_put(s, 1, LARGE, 0.01), KILN_OK);
        store_close(s);
        REQUIRE(kit_value_files(f, path) == 1);
        char byte = 0x5a;
        switch (cases % 5) {
        case 1: CHECK_EQ(truncate(path, at), 0); break;
        case 2: CHECK_EQ(truncate(path, LARGE + 4096 + at), 0); break;
        case 3: CHECK_EQ(unlink(path), 0); break;
        case 4: CHECK(unlink(path) == 0 && mkdir(path, 0700) == 0); break;
        default: {
            int fd = open(path, O_RDWR);
            CHECK(fd >= 0 && pread(fd, &byte, 1, at) == 1);
            byte = (char)(byte ^ 0x10);
            CHECK(pwrite(fd, &byte, 1, at) == 1);
            close(fd);
        }
        }
        kit_warned();
        s = kit_open(f);
        REQUIRE(s);
        kiln_value *v;
        CHECK(store_find(s, kit_key(1), NULL));
        CHECK_MSG(store_get(s, kit_key(1), 1, &v, NULL) == KILN_ERR_IO && !v, "at %ld, case %d", at, cases % 5);
        CHECK_EQ(kit_warned(), 1);
        CHECK(!store_find(s, kit_key(1), NULL));
        store_close(s);
        if (cases % 5 == 4) rmdir(path);
        CHECK_EQ(kit_value_files(f, NULL), 0);
    }
}

static void test_verify_finds_and_removes(void)
{
    const char *f = kit_folder("verify");
    char path[800];
    store *s = kit_open(f);
    REQUIRE(s);
    for (uint64_t n = 0; n < 5; n++) CHECK_EQ(kit_put(s, n, LARGE, 1), KILN_OK);
    CHECK_EQ(kit_value_files(f, path), 5);
    CHECK(overwrite(path, 5000, "damage", 6));
    store_report r;
    CHECK_EQ(store_verify(s, &r, NULL, NULL, NULL), KILN_OK);
    CHECK_EQ(r.checked, 5);
    CHECK_EQ(r.damaged, 1);
    CHECK_EQ(kit_value_files(f, NULL), 4);
    CHECK_EQ(store_verify(s, &r, NULL, NULL, NULL), KILN_OK);
    CHECK_EQ(r.checked, 4);
    CHECK_EQ(r.damaged, 0);
    store_close(s);
}

/* ---- objects whose type is not loaded are no damage ---- */

static uint32_t revision(void *self, const char *type) { return (void)self, strcmp(type, "PLAN") == 0; }
static kiln_value *to_plain(void *self, const kiln_value *o, error *e)
{
    return (void)self, (void)o, (void)e, value_int(42);
}
static kiln_value *from_plain(void *self, const char *type, const kiln_value *plain, error *e)
{
    (void)self, (void)plain, (void)e;
    return value_object(type, NULL, NULL, "42");
}

static void test_verify_keeps_types_that_are_not_loaded(void)
{
    const char *f = kit_folder("types");
    codec_types types = {.revision = revision, .to_plain = to_plain, .from_plain = from_plain};
    store *s = store_open(&(store_setting){.folder = f, .types = &types}, NULL);
    REQUIRE(s);
    kiln_value *plan = value_object("PLAN", NULL, NULL, "42"), *got = NULL;
    value_publish(plan);
    CHECK_EQ(store_put(s, kit_key(1), &(store_note){.type = "T"}, 1, &plan, NULL), KILN_OK);
    store_close(s);
    s = kit_open(f); /* as `kiln cache verify` does: no plugins */
    REQUIRE(s);
    store_report r;
    CHECK_EQ(store_verify(s, &r, NULL, NULL, NULL), KILN_OK);
    CHECK_EQ(r.checked, 1);
    CHECK_EQ(r.damaged, 0);
    store_close(s);
    s = store_open(&(store_setting){.folder = f, .types = &types}, NULL);
    REQUIRE(s);
    CHECK_EQ(store_get(s, kit_key(1), 1, &got, NULL), KILN_OK);
    value_unref(got), value_unref(plan);
    store_close(s);
}

/* ---- an index that is not ours ---- */

static void make_index(const char *folder, const char *sql)
{
    sqlite3 *db;
    CHECK_EQ(sqlite3_open(kit_path(folder, "index.sqlite"), &db), SQLITE_OK);
    CHECK_MSG(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK, "%s", sqlite3_errmsg(db));
    sqlite3_close(db);
}

static void test_foreign_newer_older(void)
{
    static const struct {
        const char *sql, *says;
    } row[] = {
        {"PRAGMA application_id=77", "another application"},
        {"PRAGMA user_version=99", "newer kiln"},
        {"PRAGMA user_version=0", "older kiln"},
        {"CREATE TABLE more(x)", "other tables"},
        {"CREATE TRIGGER t AFTER INSERT ON entry BEGIN DELETE FROM part; END", "other tables"},
        {"CREATE VIEW v AS SELECT 1", "other tables"},
        {"DROP TABLE file", "other tables"},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        char name[20];
        snprintf(name, sizeof name, "foreign%zu", i);
        const char *f = kit_folder(name);
        fill(f);
        make_index(f, row[i].sql);
        kit_warned();
        store *s = kit_open(f);
        REQUIRE(s);
        CHECK_MSG(kit_warned() == 1 && strstr(kit_last, row[i].says), "%s: \"%s\"", row[i].sql, kit_last);
        CHECK(file_exists(kit_path(f, "index.sqlite.aside-1")));
        CHECK(!store_find(s, kit_key(1), NULL));
        CHECK_EQ(kit_put(s, 1, SMALL, 1), KILN_OK);
        store_close(s);
        s = kit_open(f);
        CHECK_EQ(kit_get(s, 1, SMALL), 1);
        CHECK_EQ(kit_warned(), 0);
        store_close(s);
    }
}

static void test_something_else_in_the_indexs_place(void)
{
    for (int kind = 0; kind < 3; kind++) {
        char name[20];
        snprintf(name, sizeof name, "else%d", kind);
        const char *f = kit_folder(name);
        mkdir(f, 0700);
        const char *index = kit_path(f, "index.sqlite");
        if (kind == 0) mkdir(index, 0700);
        if (kind == 1) CHECK_EQ(symlink("/etc/passwd", index), 0);
        if (kind == 2) CHECK_EQ(mkfifo(index, 0600), 0);
        kit_warned();
        store *s = kit_open(f);
        REQUIRE(s);
        CHECK_EQ(kit_warned(), 1);
        CHECK_EQ(kit_put(s, 1, SMALL, 1), KILN_OK);
        CHECK_EQ(kit_get(s, 1, SMALL), 1);
        store_close(s);
    }
}

/* ---- while it is open ---- */

static void test_moved_aside_while_open(void)
{
    const char *f = kit_folder("moved");
    store *old = kit_open(f);
    REQUIRE(old);
    CHECK_EQ(kit_put(old, 1, SMALL, 1), KILN_OK);
    REQUIRE(rename(kit_path(f, "index.sqlite"), kit_path(f, "index.sqlite.aside-1")) == 0);
    store *fresh = kit_open(f);
    REQUIRE(fresh);
    CHECK_EQ(kit_put(fresh, 2, SMALL, 1), KILN_OK);
    CHECK_EQ(kit_get(old, 1, SMALL), 1);
    CHECK(kit_put(old, 3, SMALL, 1) != KILN_OK); /* a second of work: committed at once, which is refused */
    CHECK_EQ(kit_get(old, 3, SMALL), 0);
    CHECK_EQ(kit_get(fresh, 2, SMALL), 1);
    CHECK_EQ(kit_put(fresh, 4, SMALL, 1), KILN_OK);
    store_close(old);
    store_close(fresh);
    fresh = kit_open(f);
    REQUIRE(fresh);
    CHECK(kit_get(fresh, 2, SMALL) == 1 && kit_get(fresh, 4, SMALL) == 1);
    store_close(fresh);
    CHECK(!file_exists(kit_path(f, "index.sqlite.aside-2")));
}

/* Who finds the index it has open damaged does not move the one that has taken its place. */
static void test_damaged_after_it_was_replaced(void)
{
    const char *f = kit_folder("replaced"), *old_index = kit_path(f, "old");
    struct stat st;
    fill(f);
    store *old = kit_open(f);
    REQUIRE(old);
    REQUIRE(rename(kit_path(f, "index.sqlite"), old_index) == 0 && stat(old_index, &st) == 0);
    store *fresh = kit_open(f);
    REQUIRE(fresh);
    CHECK_EQ(kit_put(fresh, 2000, SMALL, 1), KILN_OK);
    store_close(fresh);
    char noise[8192];
    memset(noise, 0x5a, sizeof noise);
    for (long page = 1; page < st.st_size / 8192; page++) CHECK(overwrite(old_index, page * 8192, noise, sizeof noise));
    for (uint64_t n = 0; n < ENTRIES; n++) CHECK(kit_get(old, n, size_of_entry(n)) >= 0);
    CHECK(old->db == NULL); /* it saw the damage, and gave up */
    store_close(old);
    CHECK(!file_exists(kit_path(f, "index.sqlite.aside-1")));
    fresh = kit_open(f);
    REQUIRE(fresh);
    CHECK_EQ(kit_get(fresh, 2000, SMALL), 1);
    store_close(fresh);
}

static void test_deleted_while_open(void)
{
    const char *f = kit_folder("deleted");
    char command[700];
    store *s = kit_open(f);
    REQUIRE(s);
    CHECK_EQ(kit_put(s, 1, LARGE, 1), KILN_OK);
    snprintf(command, sizeof command, "rm -rf '%s'", f);
    REQUIRE(system(command) == 0);
    kit_warned();
    for (uint64_t n = 0; n < 6; n++) {
        store_claim *c = NULL;
        store_turn turn = store_claim_key(s, kit_key(n + 10), NULL, NULL, NULL, &c);
        CHECK(turn == STORE_MINE || turn == STORE_UNCLAIMED);
        (void)kit_put(s, n + 10, n % 2 ? SMALL : LARGE, 1);
        store_release(c);
        CHECK(kit_get(s, n + 10, n % 2 ? SMALL : LARGE) >= 0);
    }
    CHECK_EQ(kit_get(s, 1, LARGE), 0);
    store_close(s);
    CHECK_MSG(kit_warned() <= 2, "the last: %s", kit_last);
}

/* ---- mounts: in a child with a file system of its own ---- */

enum { SKIPPED = 77 };

static int private_mounts(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static int read_only_mount(const char *f)
{
    fill(f);
    if (!private_mounts() || mount(f, f, NULL, MS_BIND, NULL) != 0 ||
        mount(NULL, f, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) != 0)
        return SKIPPED;
    kit_warned();
    store *s = kit_open(f);
    if (!s) return 1;
    int bad = kit_get(s, 0, LARGE) != 1 || kit_get(s, 1, SMALL) != 1 || kit_put(s, 77, LARGE, 1) != KILN_OK ||
              store_find(s, kit_key(77), NULL);
    store_close(s);
    return bad || kit_warned() != 0;
}

/* The disk of 1 MB fills up: nothing that is said to be kept is wrong, and when there is space again it goes on. */
static int full_disk(const char *f)
{
    int failed = 0, wrong = 0;
    mkdir(f, 0700);
    if (!private_mounts() || mount("none", f, "tmpfs", 0, "size=1m,mode=0700") != 0) return SKIPPED;
    store *s = kit_open(f);
    if (!s) return 1;
    for (uint64_t n = 0; n < 60; n++) {
        size_t bytes = n % 2 ? 32 << 10 : LARGE;
        failed += kit_put(s, n, bytes, 1) != KILN_OK;
        wrong += kit_get(s, n, bytes) < 0;
    }
    store_report r;
    if (failed == 0 || wrong) return 2;
    if (store_verify(s, &r, NULL, NULL, NULL) != KILN_OK || r.damaged) return 3;
    store_close(s);
    if (!(s = kit_open(f))) return 4;
    if (store_verify(s, &r, NULL, NULL, NULL) != KILN_OK || r.damaged || r.checked == 0) return 5;
    if (mount(NULL, f, NULL, MS_REMOUNT, "size=4m") != 0) return 6;
    if (kit_put(s, 900, LARGE, 1) != KILN_OK || kit_get(s, 900, LARGE) != 1) return 7;
    store_close(s);
    return 0;
}

static void in_child(int (*fn)(const char *), const char *folder)
{
    int status;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) _exit(fn(folder));
    REQUIRE(waitpid(pid, &status, 0) == pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
        test_skip("no mounts of one's own here");
        return;
    }
    CHECK_MSG(WIFEXITED(status) && WEXITSTATUS(status) == 0, "exit status %d",
              WIFEXITED(status) ? WEXITSTATUS(status) : -1);
}

static void test_read_only_file_system(void) { in_child(read_only_mount, kit_folder("romount")); }
static void test_disk_is_full(void) { in_child(full_disk, kit_folder("full")); }

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_index_pages_are_damaged),
        CASE(test_index_is_truncated),
        CASE(test_rows_in_another_order),
        CASE(test_value_files_are_damaged),
        CASE(test_verify_finds_and_removes),
        CASE(test_verify_keeps_types_that_are_not_loaded),
        CASE(test_foreign_newer_older),
        CASE(test_something_else_in_the_indexs_place),
        CASE(test_moved_aside_while_open),
        CASE(test_damaged_after_it_was_replaced),
        CASE(test_deleted_while_open),
        CASE(test_read_only_file_system),
        CASE(test_disk_is_full),
    };
    log_sink_set(kit_sink, NULL);
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
