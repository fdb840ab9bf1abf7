/* pread_kit.h - for tests of code that reads files: a pread that fails, stops short or stutters on demand. Include it
 * in one file of a program; the whole program then uses it instead of the C library's.
 */
#ifndef KILN_TESTS_PREAD_KIT_H
#define KILN_TESTS_PREAD_KIT_H

#include <errno.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static struct {
    atomic_long calls;
    long fail_at;         /* the call, counted from 0, that fails with `error`; < 0: none */
    int error;            /* 0: the file seems to end there */
    int stutter;          /* calls read fewer bytes, or fail with EINTR */
    void (*during)(void); /* called at call fail_at, which then succeeds */
    void (*seen)(void *to, size_t bytes);
    atomic_size_t largest;
} preads = {.fail_at = -1};

static void preads_reset(void)
{
    atomic_store(&preads.calls, 0);
    atomic_store(&preads.largest, 0);
    preads.fail_at = -1, preads.error = EIO, preads.stutter = 0, preads.during = NULL, preads.seen = NULL;
}

__attribute__((visibility("default"))) ssize_t pread(int fd, void *to, size_t bytes, off_t at)
{
    long n = atomic_fetch_add(&preads.calls, 1);
    if (bytes > atomic_load(&preads.largest)) atomic_store(&preads.largest, bytes);
    if (n == preads.fail_at) {
        if (preads.during)
            preads.during();
        else if (!preads.error)
            return 0;
        else
            return errno = preads.error, -1;
    }
    if (preads.stutter && n % 3 == 1) return errno = EINTR, -1;
    if (preads.stutter && bytes > 7) bytes = n % 2 ? 7 + (size_t)n * 977 % (bytes - 6) : bytes - (size_t)n % 7;
    if (preads.seen) preads.seen(to, bytes);
    return (ssize_t)syscall(SYS_pread64, fd, to, bytes, at);
}

#endif
