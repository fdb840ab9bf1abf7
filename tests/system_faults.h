/* system_faults.h - a whole piece of work (no_memory_kit.h) with its k-th call of the system failing, for every k.
 *
 * This program's own functions stand before the C library's, for the engine and for the libraries it uses (SQLite).
 * Each time the work either gives all that it gives otherwise, or says why it could not; it leaves nothing allocated or
 * open; and what it worked on is sound afterwards. Not under sanitizers, which stand there themselves.
 */
#ifndef KILN_TESTS_SYSTEM_FAULTS_H
#define KILN_TESTS_SYSTEM_FAULTS_H

#include "no_memory_kit.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef kiln_status (*check_afterwards)(error *e);
enum { CALL_RUNS = 80 };

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__

static inline void fail_every_call(const char *name, piece_of_work run, check_afterwards after)
{
    (void)name, (void)run, (void)after;
    test_skip("a sanitizer stands before the C library");
}

#else

static atomic_llong calls_before = -1, calls_counted;
static atomic_int call_error;
static int (*calls_asked)(void); /* also asked, where it is set: 1: this call fails, with the errno that it left */

static inline void calls_fail_at(int64_t k, int with)
{
    atomic_store(&call_error, with);
    atomic_store(&calls_counted, 0);
    atomic_store(&calls_before, k);
}

static inline int call_fails(void)
{
    atomic_fetch_add(&calls_counted, 1);
    if (calls_asked && calls_asked()) return 1;
    if (atomic_load(&calls_before) < 0 || atomic_fetch_sub(&calls_before, 1) != 0) return 0;
    errno = atomic_load(&call_error);
    return 1;
}

static inline void *real_function(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

/* RESULT NAME(PARAMETERS) that calls the C library's with ARGUMENTS, or returns FAILED. */
#define STANDS_BEFORE(result, failed, name, parameters, arguments)                                                     \
    result name parameters;                                                                                            \
    result name parameters                                                                                             \
    {                                                                                                                  \
        static result(*next) parameters;                                                                               \
        if (!next) *(void **)&next = real_function(#name);                                                             \
        return call_fails() ? failed : next arguments;                                                                 \
    }

STANDS_BEFORE(ssize_t, -1, read, (int fd, void *to, size_t n), (fd, to, n))
STANDS_BEFORE(ssize_t, -1, write, (int fd, const void *from, size_t n), (fd, from, n))
STANDS_BEFORE(ssize_t, -1, pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at))
STANDS_BEFORE(ssize_t, -1, pwrite, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))
STANDS_BEFORE(ssize_t, -1, pread64, (int fd, void *to, size_t n, off_t at), (fd, to, n, at))
STANDS_BEFORE(ssize_t, -1, pwrite64, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))
STANDS_BEFORE(int, -1, ftruncate, (int fd, off_t n), (fd, n))
STANDS_BEFORE(int, -1, ftruncate64, (int fd, off_t n), (fd, n))
STANDS_BEFORE(int, -1, fstat, (int fd, struct stat *st), (fd, st))
STANDS_BEFORE(int, -1, rename, (const char *from, const char *to), (from, to))
STANDS_BEFORE(int, -1, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
STANDS_BEFORE(int, -1, linkat, (int a, const char *from, int b, const char *to, int how), (a, from, b, to, how))
STANDS_BEFORE(int, -1, mkdir, (const char *path, mode_t mode), (path, mode))
STANDS_BEFORE(int, -1, mkdirat, (int at, const char *path, mode_t mode), (at, path, mode))
STANDS_BEFORE(int, -1, mkostemp, (char *path, int how), (path, how))
STANDS_BEFORE(int, -1, unlink, (const char *path), (path))
STANDS_BEFORE(void *, MAP_FAILED, mmap, (void *p, size_t n, int may, int how, int fd, off_t at),
              (p, n, may, how, fd, at))

/* The power does not fail here, and waiting for the disk would take most of the time. */
int fsync(int fd);
int fsync(int fd) { return (void)fd, call_fails() ? -1 : 0; }
int fdatasync(int fd);
int fdatasync(int fd) { return (void)fd, call_fails() ? -1 : 0; }

/* open() and openat() with the mode that some of their calls have. */
#define STANDS_BEFORE_OPEN(name, at_parameter, at_argument)                                                            \
    int name(at_parameter const char *path, int how, ...);                                                             \
    int name(at_parameter const char *path, int how, ...)                                                              \
    {                                                                                                                  \
        static int (*next)(at_parameter const char *path, int how, ...);                                               \
        va_list args;                                                                                                  \
        va_start(args, how);                                                                                           \
        mode_t mode = how & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;                                          \
        va_end(args);                                                                                                  \
        if (!next) *(void **)&next = real_function(#name);                                                             \
        return call_fails() ? -1 : next(at_argument path, how, mode);                                                  \
    }
#define NO_FOLDER
#define IN_FOLDER int folder,
#define THE_FOLDER folder,
STANDS_BEFORE_OPEN(open, NO_FOLDER, NO_FOLDER)
STANDS_BEFORE_OPEN(open64, NO_FOLDER, NO_FOLDER)
STANDS_BEFORE_OPEN(openat, IN_FOLDER, THE_FOLDER)

int fcntl(int fd, int what, ...);
int fcntl(int fd, int what, ...)
{
    static int (*next)(int fd, int what, ...);
    va_list args;
    va_start(args, what);
    void *more = va_arg(args, void *);
    va_end(args);
    if (!next) *(void **)&next = real_function("fcntl");
    return call_fails() ? -1 : next(fd, what, more);
}

static inline int64_t call_now(void) { return atomic_load(&calls_counted) - 1; }

static inline void fail_call(fail_case *c, int64_t k, int with, check_afterwards after)
{
    error e = {0}, wrong = {0};
    yield out = {0};
    int64_t live = mem_live(), open_before = open_descriptors();
    calls_fail_at(k, with);
    kiln_status status = c->run(&out, &e);
    calls_fail_at(-1, 0);
    int ok;
    if (status == KILN_OK)
        ok = CHECK_MSG(out.n == c->sound.n && out.hash == c->sound.hash,
                       "%s: call %lld (%s): it succeeds, but gives something else", c->name, (long long)k,
                       strerror(with));
    else
        ok = CHECK_MSG(status != KILN_ERR_BUG && e.message[0], "%s: call %lld (%s): %s: \"%s\"", c->name, (long long)k,
                       strerror(with), status_name(status), e.message);
    ok &= CHECK_MSG(mem_live() == live, "%s: call %lld (%s): %lld blocks are left", c->name, (long long)k,
                    strerror(with), (long long)(mem_live() - live));
    ok &= CHECK_MSG(open_descriptors() == open_before, "%s: call %lld (%s): files are left open", c->name, (long long)k,
                    strerror(with));
    ok &= CHECK_MSG(!after || after(&wrong) == KILN_OK, "%s: call %lld (%s): afterwards: %s", c->name, (long long)k,
                    strerror(with), wrong.message);
    if (!ok) c->shown++;
}

static inline void fail_every_call(const char *name, piece_of_work run, check_afterwards after)
{
    static const int with[] = {EIO, ENOSPC, EMFILE};
    fail_case c = {.name = name, .run = run};
    const char *word = getenv("KILN_TEST_SEED");
    uint64_t seed = word ? strtoull(word, NULL, 10) : 1;
    for (int i = 0; i < 2; i++) {
        error e = {0};
        c.sound = (yield){0};
        calls_fail_at(-1, 0);
        note_places_by(call_now);
        calls_asked = i ? note_places : NULL;
        kiln_status status = run(&c.sound, &e);
        calls_asked = NULL;
        if (!CHECK_MSG(status == KILN_OK, "%s: does not work at all: %s", name, e.message)) return;
        c.n = atomic_load(&calls_counted);
    }
    CHECK_MSG(c.n > 0, "%s: calls nothing of the system", name);
    int64_t step = getenv("KILN_TEST_FULL") || c.n <= CALL_RUNS ? 1 : (c.n + CALL_RUNS - 1) / CALL_RUNS;
    for (size_t i = 0; step > 1 && i < came_by.n_first && c.shown < FAULTS_SHOWN; i++)
        fail_call(&c, came_by.first[i], with[i % 3], after);
    for (int i = 0; i < 3; i++)
        for (int64_t k = (int64_t)((seed + (uint64_t)i * 7) % (uint64_t)step); k < c.n && c.shown < FAULTS_SHOWN;
             k += step)
            fail_call(&c, k, with[i], after);
    if (getenv("KILN_TEST_VERBOSE")) printf("  %s: %lld calls, every %lld\n", name, (long long)c.n, (long long)step);
}

#endif
#endif
