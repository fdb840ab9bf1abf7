/* test_store.c - the store in one process: keeping, finding, limits, files' digests, states, and when it is refused. */
#include "base/memory_alloc.h"
#include "store_kit.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>

enum { SMALL = 4096, LARGE = 256 << 10 };

static void test_put_get_across_processes(void)
{
    const char *f = kit_folder("basic");
    store *s = kit_open(f);
    REQUIRE(s);
    CHECK_EQ(kit_put(s, 1, SMALL, 0.1), KILN_OK);
    CHECK_EQ(kit_put(s, 2, LARGE, 0.1), KILN_OK);
    CHECK_EQ(kit_get(s, 1, SMALL), 1); /* from the queue or the index: the caller cannot tell */
    CHECK_EQ(kit_get(s, 3, SMALL), 0);
    store_close(s);
    s = kit_open(f);
    REQUIRE(s);
    store_entry x;
    REQUIRE(store_find(s, kit_key(2), &x));
    CHECK_STR(x.type, "Test");
    CHECK_EQ(x.n_value, 1);
    CHECK(x.bytes >= LARGE && x.bytes < LARGE + 1024);
    CHECK_EQ(kit_get(s, 1, SMALL), 1);
    CHECK_EQ(kit_get(s, 2, LARGE), 1);
    kiln_value *out[2];
    CHECK_EQ(store_get(s, kit_key(1), 2, out, NULL), KILN_ERR_INVALID); /* another number of values */
    store_close(s);
}

static void test_many_values_equal_content_once(void)
{
    const char *f = kit_folder("once");
    store *s = kit_open(f);
    REQUIRE(s);
    kiln_value *a = kit_tensor(LARGE, 7), *b = kit_tensor(SMALL, 8);
    CHECK_EQ(store_put(s, kit_key(1), &(store_note){.type = "A"}, 3, (kiln_value *[]){a, b, a}, NULL), KILN_OK);
    CHECK_EQ(store_put(s, kit_key(2), &(store_note){.type = "B"}, 1, &a, NULL), KILN_OK);
    CHECK_EQ(store_flush(s, NULL), KILN_OK);
    CHECK_EQ(kit_value_files(f, NULL), 1);
    kiln_value *out[3];
    REQUIRE(store_get(s, kit_key(1), 3, out, NULL) == KILN_OK);
    CHECK(kit_same(out[0], a) && kit_same(out[1], b) && kit_same(out[2], a));
    for (int i = 0; i < 3; i++) value_unref(out[i]);
    store_report r;
    CHECK_EQ(store_clear(s, "A", &r, NULL), KILN_OK);
    CHECK_EQ(r.entries, 1);
    CHECK(!store_find(s, kit_key(1), NULL) && store_find(s, kit_key(2), NULL));
    CHECK_EQ(kit_value_files(f, NULL), 1); /* the other entry names it still */
    CHECK_EQ(store_clear(s, NULL, &r, NULL), KILN_OK);
    CHECK_EQ(kit_value_files(f, NULL), 0);
    value_unref(a), value_unref(b);
    store_close(s);
}

static void test_handles_are_not_kept(void)
{
    store *s = kit_open(kit_folder("handle"));
    REQUIRE(s);
    kiln_value *model = value_object("MODEL", NULL, NULL, "x");
    CHECK_EQ(store_put(s, kit_key(1), &(store_note){.type = "A"}, 1, &model, NULL), KILN_ERR_UNSUPPORTED);
    CHECK(!store_find(s, kit_key(1), NULL));
    value_unref(model);
    store_close(s);
}

static void test_find_many(void)
{
    enum { N = 2000 };
    store *s = kit_open(kit_folder("many"));
    REQUIRE(s);
    digest key[N];
    uint8_t found[N];
    for (uint64_t i = 0; i < N; i++) {
        key[i] = kit_key(i);
        if (i % 3 == 0) CHECK_EQ(kit_put(s, i, 64, 0), KILN_OK);
    }
    store_find_many(s, key, N, found);
    for (int i = 0; i < N; i++)
        if (!CHECK_EQ(found[i], i % 3 == 0)) break;
    CHECK_EQ(store_flush(s, NULL), KILN_OK);
    store_find_many(s, key, N, found);
    for (int i = 0; i < N; i++)
        if (!CHECK_EQ(found[i], i % 3 == 0)) break;
    store_close(s);
}

/* sqlite.org/wal.html#walresetbug: mended in 3.51.3, and in 3.50.7 and 3.44.6 of the older lines. */
static void test_journal_by_version(void)
{
    static const struct {
        int version, wal;
    } row[] = {
        {3007000, 0}, {3040001, 0}, {3044005, 0}, {3044006, 1}, {3044999, 1}, {3045000, 0}, {3049001, 0}, {3050006, 0},
        {3050007, 1}, {3050999, 1}, {3051000, 0}, {3051002, 0}, {3051003, 1}, {3052000, 1}, {4000000, 1},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
        CHECK_MSG(index_wal_is_safe(row[i].version) == row[i].wal, "version %d", row[i].version);
    store *s = kit_open(kit_folder("journal"));
    REQUIRE(s);
    store_totals t;
    CHECK_EQ(store_total(s, &t, NULL), KILN_OK);
    CHECK_STR(t.journal, index_wal_is_safe(sqlite3_libversion_number()) ? "wal" : "truncate");
    store_close(s);
}

static void test_network_file_systems(void)
{
    static const unsigned long refused[] = {0x6969,     0xff534d42, 0xfe534d42, 0x517b,     0x5346414f,
                                            0x00c36400, 0x0bd00bd0, 0x47504653, 0x01021997, 0x65735546};
    static const unsigned long fine[] = {0xef53 /* ext */,
                                         0x01021994 /* tmpfs */,
                                         0x9123683e /* btrfs */,
                                         0x58465342 /* xfs */,
                                         0x794c7630 /* overlay */,
                                         0x2fc12fc1 /* zfs */,
                                         0xf2f52010};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        CHECK_MSG(store_network_file_system((long)refused[i]) != NULL, "%lx", refused[i]);
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++)
        CHECK_MSG(store_network_file_system((long)fine[i]) == NULL, "%lx", fine[i]);
}

static void test_folder_is_private(void)
{
    const char *f = kit_folder("private");
    struct stat st;
    store *s = kit_open(f);
    REQUIRE(s);
    CHECK_EQ(kit_put(s, 1, LARGE, 0), KILN_OK);
    CHECK_EQ(store_flush(s, NULL), KILN_OK);
    CHECK(stat(f, &st) == 0 && (st.st_mode & 0777) == 0700);
    CHECK(stat(kit_path(f, "index.sqlite"), &st) == 0 && (st.st_mode & 0777) == 0600);
    char file[800];
    CHECK_EQ(kit_value_files(f, file), 1);
    CHECK(stat(file, &st) == 0 && (st.st_mode & 0777) == 0600);
    store_close(s);
    error e = {0};
    chmod(f, 0777);
    CHECK(!store_open(&(store_setting){.folder = f}, &e));
    CHECK_MSG(strstr(e.message, "chmod go-w") && strstr(e.message, "--cache"), "%s", e.message);
    e = (error){0};
    CHECK(!store_open(&(store_setting){.folder = kit_folder("none"), .must_exist = 1}, &e));
    CHECK_EQ(e.status, KILN_ERR_INVALID);
}

static void test_default_folder(void)
{
    char path[200], old_home[300];
    snprintf(old_home, sizeof old_home, "%s", getenv("HOME") ? getenv("HOME") : "");
    unsetenv("KILN_CACHE"), unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/h", 1);
    CHECK_STR(store_default_folder(path, sizeof path), "/h/.cache/kiln");
    setenv("XDG_CACHE_HOME", "/x", 1);
    CHECK_STR(store_default_folder(path, sizeof path), "/x/kiln");
    setenv("KILN_CACHE", "/k", 1);
    CHECK_STR(store_default_folder(path, sizeof path), "/k");
    CHECK(!store_default_folder(path, 2));
    unsetenv("KILN_CACHE"), unsetenv("XDG_CACHE_HOME"), unsetenv("HOME");
    CHECK(!store_default_folder(path, sizeof path));
    setenv("HOME", old_home, 1);
}

/* ---- reading alone ---- */

static void test_read_only_setting(void)
{
    const char *f = kit_folder("ro");
    store *s = kit_open(f);
    REQUIRE(s);
    CHECK_EQ(kit_put(s, 1, SMALL, 0), KILN_OK);
    store_close(s);
    s = store_open(&(store_setting){.folder = f, .read_only = 1}, NULL);
    REQUIRE(s);
    CHECK_EQ(kit_get(s, 1, SMALL), 1);
    CHECK_EQ(kit_put(s, 2, LARGE, 0), KILN_OK); /* nothing is wrong, nothing is kept */
    CHECK(!store_find(s, kit_key(2), NULL));
    CHECK_EQ(kit_value_files(f, NULL), 0);
    store_claim *c = NULL;
    CHECK_EQ(store_claim_key(s, kit_key(3), NULL, NULL, NULL, &c), STORE_UNCLAIMED);
    store_report r;
    CHECK(store_gc(s, 1, &r, NULL) != KILN_OK);
    store_close(s);
}

static void test_warm_run_writes_nothing(void)
{
    const char *f = kit_folder("warm");
    struct stat before, after;
    store *s = kit_open(f);
    REQUIRE(s);
    CHECK_EQ(kit_put(s, 1, SMALL, 0), KILN_OK);
    store_close(s);
    CHECK_EQ(stat(kit_path(f, "index.sqlite"), &before), 0);
    s = kit_open(f);
    REQUIRE(s);
    CHECK_EQ(kit_get(s, 1, SMALL), 1);
    store_close(s);
    CHECK_EQ(stat(kit_path(f, "index.sqlite"), &after), 0);
    CHECK(before.st_mtim.tv_sec == after.st_mtim.tv_sec && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
}

/* ---- eviction ---- */

static int sql(const char *folder, const char *text)
{
    sqlite3 *db;
    int ok = sqlite3_open(kit_path(folder, "index.sqlite"), &db) == SQLITE_OK &&
             sqlite3_exec(db, text, NULL, NULL, NULL) == SQLITE_OK;
    sqlite3_close(db);
    return ok;
}

/* Of four entries of one size: cheap ones go before dear ones, long unused ones before fresh ones. */
static void test_eviction_order(void)
{
    const char *f = kit_folder("order");
    store *s = kit_open(f);
    REQUIRE(s);
    CHECK_EQ(kit_put(s, 1, LARGE, 10), KILN_OK);
    CHECK_EQ(kit_put(s, 2, LARGE, 0.1), KILN_OK); /* least worth: goes first  */
    CHECK_EQ(kit_put(s, 3, LARGE, 10), KILN_OK);  /* the same, unused for 30 days: second */
    CHECK_EQ(kit_put(s, 4, LARGE, 1), KILN_OK);   /* 10 / 31 < 1: third */
    store_close(s);
    char text[200];
    snprintf(text, sizeof text, "UPDATE entry SET used=used-30*86400.0 WHERE seconds=10 AND key<>x'%016llx%016llx'",
             (unsigned long long)__builtin_bswap64(kit_key(1).lo),
             (unsigned long long)__builtin_bswap64(kit_key(1).hi));
    REQUIRE(sql(f, text));
    static const int left[][4] = {{1, 0, 1, 1}, {1, 0, 0, 1}, {1, 0, 0, 0}};
    for (int round = 0; round < 3; round++) {
        store_report r;
        s = kit_open(f);
        REQUIRE(s);
        CHECK_EQ(store_gc(s, (uint64_t)(3 - round) * (LARGE + 1024), &r, NULL), KILN_OK);
        CHECK_EQ(r.entries, 1);
        for (int i = 0; i < 4; i++)
            CHECK_MSG(store_find(s, kit_key((uint64_t)i + 1), NULL) == left[round][i], "round %d, entry %d", round,
                      i + 1);
        CHECK_EQ(kit_value_files(f, NULL), 3 - round);
        store_close(s);
    }
}

static void test_limit_is_kept(void)
{
    enum { N = 12 };
    const uint64_t limit = 5 * (LARGE + 512);
    const char *f = kit_folder("limit");
    store *s = kit_open_limited(f, limit);
    REQUIRE(s);
    store_totals t;
    for (uint64_t i = 0; i < N; i++) {
        CHECK_EQ(kit_put(s, i, LARGE, 1), KILN_OK); /* a second of work: committed at once */
        CHECK_EQ(store_total(s, &t, NULL), KILN_OK);
        CHECK_MSG(t.bytes <= limit, "%llu bytes after %llu", (unsigned long long)t.bytes, (unsigned long long)i);
    }
    store_close(s);
}

/* What this process used goes after what it did not, even if it is worth less. */
static void test_own_entries_go_last(void)
{
    const char *f = kit_folder("own");
    store *s = kit_open(f);
    REQUIRE(s);
    CHECK_EQ(kit_put(s, 1, LARGE, 0.01), KILN_OK);
    CHECK_EQ(kit_put(s, 2, LARGE, 100), KILN_OK);
    store_close(s);
    s = kit_open(f);
    REQUIRE(s);
    CHECK_EQ(kit_get(s, 1, LARGE), 1);
    store_report r;
    CHECK_EQ(store_gc(s, LARGE + 1024, &r, NULL), KILN_OK);
    CHECK(store_find(s, kit_key(1), NULL) && !store_find(s, kit_key(2), NULL));
    store_close(s);
}

/* Two entries naming one value free nothing until both are gone. */
static void test_shared_values_and_the_limit(void)
{
    const char *f = kit_folder("shared");
    store *s = kit_open(f);
    REQUIRE(s);
    kiln_value *v = kit_tensor(LARGE, 5);
    for (uint64_t i = 1; i <= 3; i++)
        CHECK_EQ(store_put(s, kit_key(i), &(store_note){.type = "T", .seconds = 0.001}, 1, &v, NULL), KILN_OK);
    value_unref(v);
    CHECK_EQ(kit_put(s, 9, LARGE, 50), KILN_OK);
    store_close(s);
    s = kit_open(f);
    REQUIRE(s);
    store_report r;
    store_totals t;
    CHECK_EQ(store_gc(s, LARGE + 1024, &r, NULL), KILN_OK);
    CHECK_EQ(store_total(s, &t, NULL), KILN_OK);
    CHECK(t.bytes <= LARGE + 1024);
    CHECK(store_find(s, kit_key(9), NULL));
    store_close(s);
}

static void test_clock_set_back(void)
{
    const char *f = kit_folder("clock");
    store *s = kit_open(f);
    REQUIRE(s);
    CHECK_EQ(kit_put(s, 1, LARGE, 0.001), KILN_OK);
    CHECK_EQ(kit_put(s, 2, LARGE, 10), KILN_OK);
    CHECK_EQ(kit_put(s, 3, LARGE, 5), KILN_OK);
    store_close(s);
    REQUIRE(sql(f, "UPDATE entry SET used=used+1e9,made=made+1e9 WHERE seconds<9"));
    s = kit_open(f);
    REQUIRE(s);
    store_report r; /* a time in the future is now, and worth neither more nor less */
    CHECK_EQ(store_gc(s, 2 * (LARGE + 1024), &r, NULL), KILN_OK);
    CHECK(!store_find(s, kit_key(1), NULL) && store_find(s, kit_key(2), NULL) && store_find(s, kit_key(3), NULL));
    CHECK_EQ(store_gc(s, LARGE + 1024, &r, NULL), KILN_OK);
    CHECK(!store_find(s, kit_key(3), NULL));
    CHECK_EQ(kit_get(s, 2, LARGE), 1);
    store_close(s);
}

/* Another process's eviction took the file while its row was still in our queue: no row is made for it. */
static void test_file_gone_before_its_row(void)
{
    const char *f = kit_folder("early");
    char path[800];
    store *s = kit_open(f);
    REQUIRE(s);
    CHECK_EQ(kit_put(s, 1, LARGE, 0), KILN_OK);
    pthread_mutex_lock(&s->lock); /* the store's own thread waits meanwhile */
    int queued_still = queue_find(s, kit_key(1)) != NULL;
    CHECK(kit_value_files(f, path) == 1 && unlink(path) == 0);
    pthread_mutex_unlock(&s->lock);
    CHECK_EQ(store_flush(s, NULL), KILN_OK);
    if (queued_still) CHECK(!store_find(s, kit_key(1), NULL));
    store_close(s);
}

static void age(const char *path, double seconds)
{
    struct timespec t[2] = {{.tv_sec = time(NULL) - (time_t)seconds}, {.tv_sec = time(NULL) - (time_t)seconds}};
    CHECK_EQ(utimensat(AT_FDCWD, path, t, 0), 0);
}

static void put_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    CHECK(fd >= 0 && write(fd, "x", 1) == 1);
    if (fd >= 0) close(fd);
}

static void test_orphans_are_swept(void)
{
    const char *f = kit_folder("orphans");
    store *s = kit_open(f);
    REQUIRE(s);
    CHECK_EQ(kit_put(s, 1, LARGE, 1), KILN_OK);
    char kept[800];
    REQUIRE(kit_value_files(f, kept) == 1);
    age(kept, 7200);
    mkdir(kit_path(f, "values/00"), 0700);
    const char *orphan = kit_path(f, "values/00/00000000000000000000000000000001"),
               *young = kit_path(f, "values/00/00000000000000000000000000000002");
    const char *dead = kit_path(f, "values/tmp/4194999-1"), *foreign = kit_path(f, "values/00/notes.txt");
    char alive[700];
    snprintf(alive, sizeof alive, "%s/values/tmp/%ld-99", f, (long)getpid());
    put_file(orphan), put_file(young), put_file(dead), put_file(alive), put_file(foreign);
    age(orphan, 7200), age(dead, 120), age(alive, 120), age(foreign, 7200);
    store_report r;
    const char *aside = kit_path(f, "index.sqlite.aside-1"), *aside_young = kit_path(f, "index.sqlite.aside-2");
    put_file(aside), put_file(aside_young), age(aside, 8 * 86400);
    CHECK_EQ(store_gc(s, 0, &r, NULL), KILN_OK);
    CHECK_EQ(r.orphans, 3);
    CHECK(!file_exists(aside) && file_exists(aside_young));
    CHECK(!file_exists(orphan) && !file_exists(dead));
    CHECK(file_exists(young) && file_exists(alive) && file_exists(foreign) && file_exists(kept));
    put_file(dead), age(dead, 120);
    store_close(s);
    s = kit_open(f); /* opening sweeps values/tmp too */
    CHECK(!file_exists(dead) && file_exists(alive));
    CHECK_EQ(kit_get(s, 1, LARGE), 1);
    store_close(s);
}

/* ---- states ---- */

static void test_states(void)
{
    const char *f = kit_folder("states");
    store *s = kit_open(f);
    REQUIRE(s);
    kiln_value *a = kit_tensor(SMALL, 1), *b = kit_tensor(SMALL, 2);
    CHECK(!store_state_get(s, kit_key(1)));
    CHECK_EQ(store_state_put(s, kit_key(1), a, NULL), KILN_OK);
    CHECK_EQ(store_state_put(s, kit_key(1), b, NULL), KILN_OK);
    kiln_value *got = store_state_get(s, kit_key(1));
    CHECK(kit_same(got, b));
    value_unref(got);
    char path[700], hex[33];
    digest_hex(kit_key(1), hex);
    snprintf(path, sizeof path, "%s/states/%.2s/%s", f, hex, hex);
    kit_warned();
    int fd = open(path, O_RDWR);
    CHECK(fd >= 0 && pwrite(fd, "\x5a", 1, 100) == 1);
    close(fd);
    CHECK(!store_state_get(s, kit_key(1)));
    CHECK_EQ(kit_warned(), 1);
    CHECK(!file_exists(path));
    CHECK_EQ(store_state_put(s, kit_key(1), a, NULL), KILN_OK);
    store_state_drop(s, kit_key(1));
    CHECK(!store_state_get(s, kit_key(1)));
    value_unref(a), value_unref(b);
    store_close(s);
}

/* ---- digests of files ---- */

static sqlite3_int64 remembered(store *s)
{
    store_totals t;
    return store_total(s, &t, NULL) == KILN_OK ? (sqlite3_int64)t.remembered_files : -1;
}

static void test_files_are_remembered_unless_racy(void)
{
    store *s = kit_open(kit_folder("files"));
    REQUIRE(s);
    store_remember_digests(s);
    const char *fresh = kit_folder("fresh.bin");
    digest d;
    put_file(fresh);
    CHECK_EQ(file_digest(fresh, &d, NULL), KILN_OK);
    CHECK_EQ(remembered(s), 0); /* written this instant: the next write could have the same times */
    store_close(s);
    /* An old mtime alone does not help: ctime cannot be set, and it is young. So the rule itself, with times given. */
    s = kit_open(kit_folder("files"));
    REQUIRE(s);
    store_remember_digests(s);
    file_identity old = {.device = 1, .inode = 2, .size = 3, .mtime_ns = 1000, .ctime_ns = 2000};
    static const struct {
        int64_t mtime, ctime, began;
        int kept;
    } row[] = {
        {1000, 2000, 2000 + INT64_C(1999999999), 0},
        {1000, 2000, 2000 + INT64_C(2000000000), 1},
        {INT64_C(9000000000), 1000, INT64_C(8000000000), 0},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        old.mtime_ns = row[i].mtime, old.ctime_ns = row[i].ctime, old.inode = 10 + i;
        digest out = {0};
        store_file_add(s, "x", &old, kit_key(77), row[i].began);
        CHECK_EQ(store_flush(s, NULL), KILN_OK);
        CHECK_MSG(store_file_find(s, &old, &out) == row[i].kept, "row %zu", i);
        if (row[i].kept) CHECK(digest_equal(out, kit_key(77)));
        old.ctime_ns++;
        CHECK(!store_file_find(s, &old, &out)); /* touched since */
    }
    store_close(s);
}

/* ---- allocation failures ---- */

static void test_every_allocation_fails_once(void)
{
    int wrong = 0, cases = 0;
    for (int64_t k = 0; k < 400; k++) {
        const char *f = kit_folder("alloc");
        kiln_value *big = kit_tensor(LARGE, 1), *small = kit_tensor(SMALL, 2), *out[2] = {0};
        error e = {0};
        mem_fail_at(k, 0);
        store *s = store_open(&(store_setting){.folder = f}, &e);
        kiln_status put = s ? store_put(s, kit_key(1000 + (uint64_t)k), &(store_note){.type = "T"}, 2,
                                        (kiln_value *[]){big, small}, NULL)
                            : KILN_ERR_NOMEM;
        kiln_status flush = s ? store_flush(s, NULL) : KILN_ERR_NOMEM;
        kiln_status get = s ? store_get(s, kit_key(1000 + (uint64_t)k), 2, out, NULL) : KILN_ERR_NOMEM;
        store_claim *c = NULL;
        if (s && store_claim_key(s, kit_key(5), NULL, NULL, NULL, &c) == STORE_MINE) store_release(c);
        int64_t used = mem_count();
        mem_fail_at(-1, 0);
        if (get == KILN_OK) wrong += !kit_same(out[0], big) || !kit_same(out[1], small);
        wrong += (put == KILN_OK && flush == KILN_OK && get == KILN_ERR_IO) || (!s && e.message[0] == '\0');
        value_unref(out[0]), value_unref(out[1]), value_unref(big), value_unref(small);
        store_close(s);
        cases++;
        if (used <= k) break; /* the k-th was never asked for: all have failed once */
    }
    CHECK_EQ(wrong, 0);
    CHECK_MSG(cases > 20 && cases < 400, "%d cases", cases);
    store *s = kit_open(kit_folder("alloc"));
    REQUIRE(s);
    store_report r;
    CHECK_EQ(store_verify(s, &r, NULL, NULL, NULL), KILN_OK);
    CHECK_EQ(r.damaged, 0);
    store_close(s);
}

/* ---- threads ---- */

static void *hammer(void *arg)
{
    store *s = arg;
    intptr_t wrong = 0;
    for (uint64_t i = 0; i < 60; i++) {
        store_claim *c = NULL;
        store_turn turn = store_claim_key(s, kit_key(i), NULL, NULL, NULL, &c);
        if (turn == STORE_MINE) wrong += kit_put(s, i, i % 8 ? SMALL : LARGE, 0.01) != KILN_OK;
        store_release(c);
        wrong += kit_get(s, i, i % 8 ? SMALL : LARGE) != 1;
    }
    return (void *)wrong;
}

static void test_threads(void)
{
    store *s = kit_open(kit_folder("threads"));
    REQUIRE(s);
    pthread_t t[4];
    for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, hammer, s);
    for (int i = 0; i < 4; i++) {
        void *wrong = NULL;
        pthread_join(t[i], &wrong);
        CHECK_EQ((intptr_t)wrong, 0);
    }
    store_close(s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_put_get_across_processes),
        CASE(test_many_values_equal_content_once),
        CASE(test_handles_are_not_kept),
        CASE(test_find_many),
        CASE(test_journal_by_version),
        CASE(test_network_file_systems),
        CASE(test_folder_is_private),
        CASE(test_default_folder),
        CASE(test_read_only_setting),
        CASE(test_warm_run_writes_nothing),
        CASE(test_eviction_order),
        CASE(test_limit_is_kept),
        CASE(test_own_entries_go_last),
        CASE(test_shared_values_and_the_limit),
        CASE(test_clock_set_back),
        CASE(test_file_gone_before_its_row),
        CASE(test_orphans_are_swept),
        CASE(test_states),
        CASE(test_files_are_remembered_unless_racy),
        CASE(test_every_allocation_fails_once),
        CASE(test_threads),
    };
    log_sink_set(kit_sink, NULL);
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
