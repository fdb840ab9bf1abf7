/* test_store_processes.c - several processes on one store: exclusion, take-over, no wrong byte, no wait without end. */
#include "base/clock.h"
#include "store_kit.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum { SMALL = 4096, LARGE = 200 << 10, PROCESSES = 8, KEYS = 24 };

static void nap_ms(int ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000L};
    nanosleep(&t, NULL);
}

/* Runs fn(folder, i) in n children; the number of them that did not exit with 0. */
static int in_children(int n, int (*fn)(const char *, int), const char *folder)
{
    pid_t pid[32];
    int bad = 0;
    fflush(stdout);
    for (int i = 0; i < n; i++)
        if ((pid[i] = fork()) == 0) _exit(fn(folder, i));
    for (int i = 0; i < n; i++) {
        int status;
        if (waitpid(pid[i], &status, 0) != pid[i] || !WIFEXITED(status) || WEXITSTATUS(status) != 0) bad++;
    }
    return bad;
}

static void append(const char *path, char c)
{
    FILE *f = fopen(path, "a");
    if (f) fputc(c, f), fclose(f);
}

static long size_of(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (long)st.st_size : 0;
}

/* Each computes what is not there and reads all of it; a line in FOLDER.log for each computation. */
static int worker(const char *folder, int i)
{
    char log[500];
    snprintf(log, sizeof log, "%s.log", folder);
    store *s = kit_open(folder);
    if (!s) return 2;
    for (uint64_t step = 0; step < KEYS; step++) {
        uint64_t n = (step * 5 + (uint64_t)i * 3) % KEYS;
        size_t bytes = n % 4 ? SMALL : LARGE;
        store_claim *c = NULL;
        store_turn turn = store_claim_key(s, kit_key(n), NULL, NULL, NULL, &c);
        if (turn == STORE_UNCLAIMED) return 3;
        if (turn == STORE_MINE) {
            append(log, 'x');
            if (kit_put(s, n, bytes, 0.001) != KILN_OK) return 4;
        }
        store_release(c);
        if (kit_get(s, n, bytes) != 1) return 5;
    }
    store_close(s);
    return 0;
}

static void test_eight_processes_compute_each_key_once(void)
{
    const char *f = kit_folder("eight");
    char log[500];
    snprintf(log, sizeof log, "%s.log", f);
    CHECK_EQ(in_children(PROCESSES, worker, f), 0);
    CHECK_EQ(size_of(log), KEYS);
    store *s = kit_open(f);
    REQUIRE(s);
    store_report r;
    CHECK_EQ(store_verify(s, &r, NULL, NULL, NULL), KILN_OK);
    CHECK_EQ(r.checked, KEYS);
    CHECK_EQ(r.damaged, 0);
    store_close(s);
}

/* Sixteen open an index that is not there yet, all at once: one makes it, none moves it aside. */
static int opener(const char *folder, int i)
{
    store *s = kit_open(folder);
    if (!s) return 1;
    int bad = kit_put(s, (uint64_t)i, SMALL, 1) != KILN_OK;
    store_close(s);
    return bad;
}

static void test_sixteen_begin_at_once(void)
{
    const char *f = kit_folder("begin");
    CHECK_EQ(in_children(16, opener, f), 0);
    CHECK(!file_exists(kit_path(f, "index.sqlite.aside-1")));
    store *s = kit_open(f);
    REQUIRE(s);
    for (uint64_t i = 0; i < 16; i++) CHECK_EQ(kit_get(s, i, SMALL), 1);
    store_close(s);
}

/* A damaged index met by sixteen at once is moved aside once. */
static void test_sixteen_meet_a_damaged_index(void)
{
    const char *f = kit_folder("meet");
    store_close(kit_open(f));
    FILE *x = fopen(kit_path(f, "index.sqlite"), "r+");
    REQUIRE(x);
    fputs("this is no database at all", x);
    fclose(x);
    CHECK_EQ(in_children(16, opener, f), 0);
    CHECK(file_exists(kit_path(f, "index.sqlite.aside-1")) && !file_exists(kit_path(f, "index.sqlite.aside-2")));
    store *s = kit_open(f);
    REQUIRE(s);
    for (uint64_t i = 0; i < 16; i++) CHECK_EQ(kit_get(s, i, SMALL), 1);
    store_close(s);
}

/* ---- claims ---- */

/* Takes the claim, says so, and never gives it back. */
static pid_t holder(const char *folder)
{
    int ready[2];
    char c;
    if (pipe(ready) != 0) return -1;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        store_claim *claim = NULL;
        store *s = kit_open(folder);
        if (!s || store_claim_key(s, kit_key(1), NULL, NULL, NULL, &claim) != STORE_MINE) _exit(1);
        if (write(ready[1], "r", 1) != 1) _exit(1);
        for (;;) nap_ms(1000);
    }
    close(ready[1]);
    int came = read(ready[0], &c, 1) == 1;
    close(ready[0]);
    return came ? pid : -1;
}

static void count_call(void *arg) { ++*(int *)arg; }
static int after_a_while(void *arg) { return ++*(int *)arg > 10; }
static void kill_it(void *arg) { kill(*(pid_t *)arg, SIGKILL); }

static void test_killed_holder_is_taken_over(void)
{
    const char *f = kit_folder("killed");
    pid_t pid = holder(f);
    REQUIRE(pid > 0);
    store *s = kit_open(f);
    REQUIRE(s);
    store_claim *c = NULL;
    int asked = 0;
    CHECK_EQ(store_claim_key(s, kit_key(1), after_a_while, NULL, &asked, &c), STORE_STOPPED);
    CHECK(asked > 10 && !c);
    double began = clock_seconds();
    CHECK_EQ(store_claim_key(s, kit_key(1), NULL, kill_it, &pid, &c), STORE_MINE);
    CHECK_MSG(clock_seconds() - began < 2, "%g s", clock_seconds() - began);
    store_release(c);
    waitpid(pid, NULL, 0);
    store_close(s);
}

static int slow_maker(const char *folder, int i)
{
    store_claim *c = NULL;
    int waits = 0;
    store *s = kit_open(folder);
    if (!s) return 2;
    if (i) nap_ms(100); /* the first has it by then */
    store_turn turn = store_claim_key(s, kit_key(1), NULL, i ? count_call : NULL, &waits, &c);
    int bad = turn != (i ? STORE_IS_THERE : STORE_MINE);
    if (!i) nap_ms(400), bad |= kit_put(s, 1, LARGE, 0.001) != KILN_OK;
    store_release(c);
    bad |= kit_get(s, 1, LARGE) != 1 || (i && waits != 1);
    store_close(s);
    return bad;
}

static void test_waiters_get_what_the_first_computed(void)
{
    CHECK_EQ(in_children(6, slow_maker, kit_folder("slow")), 0);
}

/* ---- killed anywhere ---- */

/* Puts for ever; the parent kills it. */
static int putter(const char *folder, int i)
{
    store *s = kit_open(folder);
    if (!s) return 1;
    for (uint64_t n = (uint64_t)i * 1000;; n++)
        if (kit_put(s, n, n % 3 ? SMALL : LARGE, 0.2) != KILN_OK) return 2;
}

static void test_killed_writers_leave_a_sound_store(void)
{
    const char *f = kit_folder("kills");
    store_close(kit_open(f));
    for (int i = 0; i < 25; i++) {
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) _exit(putter(f, i));
        nap_ms(3 + i * 3);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    kit_warned();
    store *s = kit_open(f);
    REQUIRE(s);
    store_report r;
    CHECK_EQ(store_verify(s, &r, NULL, NULL, NULL), KILN_OK);
    CHECK(r.checked > 0);
    CHECK_EQ(r.damaged, 0);
    CHECK_EQ(kit_warned(), 0);
    store_close(s);
    CHECK(!file_exists(kit_path(f, "index.sqlite.aside-1")));
}

/* ---- one evicts what others are about to name ---- */

static int evictor_or_putter(const char *folder, int i)
{
    store *s = kit_open(folder);
    if (!s) return 1;
    for (int round = 0; round < 25; round++) {
        store_report r;
        uint64_t n = (uint64_t)round % 3;
        int got = 1;
        if (i == 0)
            (void)store_gc(s, 1, &r, NULL);
        else if (kit_put(s, n + (uint64_t)i * 10, LARGE, 1) != KILN_OK ||
                 (got = kit_get(s, n + (uint64_t)i * 10, LARGE)) < 0)
            return 2;
        /* All putters keep the same content under keys of their own: 7 processes, 3 contents. */
        kiln_value *v = kit_tensor(LARGE, 500 + n);
        kiln_status status = i ? store_put(s, kit_key(900 + (uint64_t)(i * 100 + round)),
                                           &(store_note){.type = "T", .seconds = 1}, 1, &v, NULL)
                               : KILN_OK;
        value_unref(v);
        if (status != KILN_OK) return 3;
    }
    store_close(s);
    return 0;
}

static void test_eviction_beside_writers(void)
{
    const char *f = kit_folder("evict");
    CHECK_EQ(in_children(4, evictor_or_putter, f), 0);
    store *s = kit_open(f);
    REQUIRE(s);
    store_report r;
    CHECK_EQ(store_verify(s, &r, NULL, NULL, NULL), KILN_OK);
    CHECK_MSG(r.damaged == 0, "%llu of %llu entries name a value that is gone", (unsigned long long)r.damaged,
              (unsigned long long)r.checked);
    store_close(s);
}

/* ---- a lock that is never given back ---- */

static void test_a_stuck_writer_costs_five_seconds_at_most(void)
{
    const char *f = kit_folder("stuck");
    store *s = kit_open(f);
    REQUIRE(s);
    sqlite3 *db;
    REQUIRE(sqlite3_open(kit_path(f, "index.sqlite"), &db) == SQLITE_OK &&
            sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK);
    error e = {0};
    double began = clock_seconds();
    CHECK_EQ(kit_put(s, 1, SMALL, 0), KILN_OK);
    kit_warned();
    kiln_status flushed = store_flush(s, &e);
    CHECK(flushed == KILN_ERR_IO || kit_warned() == 1); /* or the store's own thread was first, and said so */
    CHECK_MSG(clock_seconds() - began < 6, "%g s", clock_seconds() - began);
    CHECK(!store_find(s, kit_key(1), NULL)); /* not kept, and nobody is told that it was */
    sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    sqlite3_close(db);
    CHECK_EQ(kit_put(s, 1, SMALL, 0), KILN_OK);
    CHECK_EQ(store_flush(s, NULL), KILN_OK);
    CHECK_EQ(kit_get(s, 1, SMALL), 1);
    store_close(s);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_eight_processes_compute_each_key_once),
        CASE(test_sixteen_begin_at_once),
        CASE(test_sixteen_meet_a_damaged_index),
        CASE(test_killed_holder_is_taken_over),
        CASE(test_waiters_get_what_the_first_computed),
        CASE(test_killed_writers_leave_a_sound_store),
        CASE(test_eviction_beside_writers),
        CASE(test_a_stuck_writer_costs_five_seconds_at_most),
    };
    log_sink_set(kit_sink, NULL);
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
