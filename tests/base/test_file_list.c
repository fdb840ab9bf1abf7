/* test_file_list.c - files that are looked at twice: what a list of them notices, what a digest of one that has just
 * been written waits for, and maps whose file is gone from under them.
 */
#include "base/file.h"
#include "base/file_list.h"
#include "base/map_fault.h"
#include "base/memory_alloc.h"
#include "harness.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char path[300];
static const size_t PAGE = 4096;

static const char *named(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", test_folder(), name);
    return path;
}

/* In place: the inode stays. */
static void put(const char *at, const void *bytes, size_t n)
{
    int fd = open(at, O_CREAT | O_RDWR | O_TRUNC, 0644);
    CHECK(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && close(fd) == 0);
}

static void put_pages(const char *at, size_t pages)
{
    char *bytes = malloc(pages * PAGE);
    memset(bytes, 'x', pages * PAGE);
    put(at, bytes, pages * PAGE);
    free(bytes);
}

/* ---- lists ---- */

static file_list *list_of(const char *at)
{
    file_list *l = file_list_new();
    digest d;
    CHECK_EQ(file_digest_seen(at, l, &d, NULL), KILN_OK);
    CHECK_EQ(file_list_count(l), 1);
    CHECK_EQ(file_list_unchanged(l, NULL), KILN_OK);
    return l;
}

static void set_times_back(const char *at, const file_identity *was)
{
    struct timespec t = {.tv_sec = was->mtime_ns / 1000000000, .tv_nsec = was->mtime_ns % 1000000000};
    CHECK_EQ(utimensat(AT_FDCWD, at, (struct timespec[2]){t, t}, 0), 0);
}

static void expect_changed(file_list *l, const char *say)
{
    error e = {0};
    CHECK_EQ(file_list_unchanged(l, &e), KILN_ERR_IO);
    CHECK_MSG(strstr(e.message, say) && strstr(e.message, path), "%s", e.message);
    file_list_unref(l);
}

static void test_a_list_notices_what_changed(void)
{
    named("list");
    put(path, "one", 3);
    file_list *l = list_of(path);
    put(path, "two", 3);
    expect_changed(l, "changed while");

    l = list_of(path); /* with the time of writing set back, as tar and cp -p do */
    put(path, "one", 3);
    set_times_back(path, &file_list_at(l, 0)->was);
    expect_changed(l, "changed while");

    l = list_of(path);
    char other[310];
    snprintf(other, sizeof other, "%s.new", path);
    put(other, "one", 3);
    CHECK_EQ(rename(other, path), 0);
    expect_changed(l, "changed while");

    l = list_of(path);
    CHECK_EQ(unlink(path), 0);
    expect_changed(l, "gone while");
}

static void test_a_list_refuses_a_second_state(void)
{
    named("second");
    put(path, "one", 3);
    file_list *l = list_of(path);
    const file_seen first = *file_list_at(l, 0);
    file_identity later = first.was;
    later.ctime_ns++;
    CHECK_EQ(file_list_add(l, path, &first.was, NULL), KILN_OK);
    CHECK_EQ(file_list_count(l), 1);
    CHECK_EQ(file_list_add(l, path, &later, NULL), KILN_ERR_IO);
    file_list_unref(l);
}

static void test_a_folder_is_its_files(void)
{
    char inside[320];
    named("folder");
    CHECK_EQ(folder_make(path, NULL), KILN_OK);
    for (int i = 0; i < 20; i++) {
        snprintf(inside, sizeof inside, "%s/%d", path, i);
        put(inside, "x", 1);
    }
    file_list *l = file_list_new();
    digest d;
    CHECK_EQ(file_digest_seen(path, l, &d, NULL), KILN_OK);
    CHECK_EQ(file_list_count(l), 20);
    put(inside, "y", 1);
    CHECK_EQ(file_list_unchanged(l, NULL), KILN_ERR_IO);
    file_list_unref(l);
}

static int64_t age_of(const char *at)
{
    struct stat st;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return stat(at, &st) == 0
               ? (now.tv_sec - st.st_ctim.tv_sec) * INT64_C(1000000000) + now.tv_nsec - st.st_ctim.tv_nsec
               : 0;
}

/* Written, digested and written again at once, the same size each time: within one tick of the clock (10 ms where it is
 * slowest) unless the digest waits. Kernels that give times finer than their ticks do not need it, so the waiting
 * itself is looked for too. */
static void test_writes_in_one_tick(void)
{
    named("tick");
    for (int i = 0; i < 10; i++) {
        char text[8] = {0};
        digest a, b, want;
        snprintf(text, sizeof text, "a%06d", i);
        put(path, text, 7);
        CHECK_EQ(file_digest(path, &a, NULL), KILN_OK);
        CHECK(age_of(path) >= 20000000);
        text[0] = 'b';
        int fd = open(path, O_RDWR);
        CHECK(pwrite(fd, text, 7, 0) == 7 && close(fd) == 0);
        CHECK_EQ(file_digest(path, &b, NULL), KILN_OK);
        char other[310];
        snprintf(other, sizeof other, "%s%d", path, i);
        put(other, text, 7);
        CHECK_EQ(file_digest(other, &want, NULL), KILN_OK);
        CHECK(digest_equal(b, want));
        unlink(other);
    }
}

/* ---- maps ---- */

static void test_a_file_cut_under_its_map(void)
{
    file_map m;
    error e = {0};
    named("cut");
    put_pages(path, 64);
    REQUIRE(file_map_open(&m, path, &e) == KILN_OK);
    CHECK_EQ(file_map_unchanged(&m, &e), KILN_OK);
    CHECK_EQ(truncate(path, (off_t)(10 * PAGE)), 0);
    long sum = 0;
    for (size_t i = 0; i < m.size; i++) sum += m.data[i];
    CHECK_EQ(sum, 10 * (long)PAGE * 'x'); /* zeros from there on */
    CHECK_EQ(map_torn(m.guard), 10 * PAGE);
    CHECK_EQ(file_map_unchanged(&m, &e), KILN_ERR_IO);
    char say[340];
    snprintf(say, sizeof say, "%s: byte %zu:", path, 10 * PAGE);
    CHECK_MSG(strstr(e.message, say), "%s", e.message);
    put_pages(path, 64); /* whole again: what was read was not */
    CHECK_EQ(file_map_unchanged(&m, NULL), KILN_ERR_IO);
    file_map_close(&m);
    REQUIRE(file_map_open(&m, path, &e) == KILN_OK); /* the slot is fresh */
    CHECK_EQ(file_map_unchanged(&m, NULL), KILN_OK);
    file_map_close(&m);
}

/* Many maps, threads that read them backwards and forwards, all cut at once; others opened and closed meanwhile. */
enum { MAPS = 8, READERS = 4, MAP_PAGES = 256 };
static file_map maps[MAPS];
static pthread_barrier_t start;

static void *reader(void *arg)
{
    size_t turn = (size_t)(uintptr_t)arg;
    volatile unsigned sum = 0;
    pthread_barrier_wait(&start);
    for (size_t k = 0; k < MAPS; k++) {
        const file_map *m = &maps[(k + turn) % MAPS];
        for (size_t p = 0; p < MAP_PAGES; p++) sum += m->data[(turn % 2 ? MAP_PAGES - 1 - p : p) * PAGE];
    }
    return NULL;
}

static void *opener(void *arg)
{
    (void)arg;
    char own[320];
    snprintf(own, sizeof own, "%s/own", test_folder());
    put_pages(own, 2);
    pthread_barrier_wait(&start);
    for (int i = 0; i < 500; i++) {
        file_map m;
        CHECK_EQ(file_map_open(&m, own, NULL), KILN_OK);
        CHECK(m.data[PAGE] == 'x');
        CHECK_EQ(map_torn(m.guard), MAP_WHOLE);
        file_map_close(&m);
    }
    return NULL;
}

static void test_maps_cut_under_many_threads(void)
{
    pthread_t thread[READERS + 1];
    char at[320];
    for (int i = 0; i < MAPS; i++) {
        snprintf(at, sizeof at, "%s/many%d", test_folder(), i);
        put_pages(at, MAP_PAGES);
        REQUIRE(file_map_open(&maps[i], at, NULL) == KILN_OK);
        if (i % 2 == 0) CHECK_EQ(truncate(at, (off_t)((size_t)i * 10 * PAGE)), 0);
    }
    pthread_barrier_init(&start, NULL, READERS + 1);
    for (size_t i = 0; i < READERS; i++) pthread_create(&thread[i], NULL, reader, (void *)(uintptr_t)i);
    pthread_create(&thread[READERS], NULL, opener, NULL);
    for (int i = 0; i <= READERS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < MAPS; i++) {
        CHECK_EQ(map_torn(maps[i].guard), i % 2 ? MAP_WHOLE : (size_t)i * 10 * PAGE);
        file_map_close(&maps[i]);
    }
}

/* ---- a SIGBUS that is not a guarded map's ---- */

static int in_a_child(void (*fn)(void)) /* wait status */
{
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        fn();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    return status;
}

static volatile char *torn_map(void)
{
    named("foreign");
    put_pages(path, 2);
    int fd = open(path, O_RDWR);
    char *p = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED || ftruncate(fd, 0) != 0) _exit(9);
    return p;
}

static void guard_something(void)
{
    char other[320];
    file_map m;
    snprintf(other, sizeof other, "%s/guarded", test_folder());
    put_pages(other, 1);
    if (file_map_open(&m, other, NULL) != KILN_OK) _exit(8);
}

static void touch_a_foreign_map(void)
{
    volatile char *p = torn_map();
    signal(SIGBUS, SIG_DFL); /* a sanitizer has one of its own */
    guard_something();
    (void)p[0];
}

static void theirs(int signal, siginfo_t *info, void *context)
{
    (void)context, _exit(signal == SIGBUS && info->si_code == BUS_ADRERR ? 42 : 41);
}

static void touch_with_a_handler(void)
{
    volatile char *p = torn_map();
    sigaction(SIGBUS, &(struct sigaction){.sa_sigaction = theirs, .sa_flags = SA_SIGINFO}, NULL);
    guard_something();
    (void)p[0];
}

static void touch_with_a_plain_handler_of_others(void)
{
    volatile char *p = torn_map();
    sigaction(SIGBUS, &(struct sigaction){.sa_handler = _exit}, NULL);
    guard_something();
    (void)p[0];
}

static void raise_it(void)
{
    signal(SIGBUS, SIG_DFL);
    guard_something();
    raise(SIGBUS);
}

static void test_a_foreign_fault_goes_on(void)
{
    int s = in_a_child(touch_a_foreign_map);
    CHECK(WIFSIGNALED(s) && WTERMSIG(s) == SIGBUS);
    s = in_a_child(raise_it);
    CHECK(WIFSIGNALED(s) && WTERMSIG(s) == SIGBUS);
    s = in_a_child(touch_with_a_handler);
    CHECK(WIFEXITED(s) && WEXITSTATUS(s) == 42);
    s = in_a_child(touch_with_a_plain_handler_of_others);
    CHECK(WIFEXITED(s) && WEXITSTATUS(s) == SIGBUS);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_a_foreign_fault_goes_on),
                                      CASE(test_a_list_notices_what_changed),
                                      CASE(test_a_list_refuses_a_second_state),
                                      CASE(test_a_folder_is_its_files),
                                      CASE(test_writes_in_one_tick),
                                      CASE(test_a_file_cut_under_its_map),
                                      CASE(test_maps_cut_under_many_threads)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
