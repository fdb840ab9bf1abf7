/* weather.c - an LD_PRELOAD library: a clock that jumps and locks that fail, as over a network's file system.
 *
 *     WEATHER_CLOCK=SECONDS  the time of day is wrong by up to so much either way, by another amount every 50 calls
 *     WEATHER_LOCKS=N        one of N calls that would lock a file fails with ENOLCK      WEATHER_SEED=K
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SHOW __attribute__((visibility("default")))

static struct {
    long clock, locks;
    uint64_t random;
    unsigned calls;
    long shift;
} weather;

__attribute__((constructor)) static void begin(void)
{
    const char *clock = getenv("WEATHER_CLOCK"), *locks = getenv("WEATHER_LOCKS"), *seed = getenv("WEATHER_SEED");
    weather.clock = clock ? atol(clock) : 0;
    weather.locks = locks ? atol(locks) : 0;
    weather.random = (seed ? strtoull(seed, NULL, 10) : 1) * UINT64_C(0x9e3779b97f4a7c15) + 1;
}

/* xorshift64 (Marsaglia, "Xorshift RNGs", 2003); threads may take the same number. */
static uint64_t number(void)
{
    uint64_t x = weather.random;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return weather.random = x;
}

static long shift(void)
{
    if (weather.clock > 0 && weather.calls++ % 50 == 0)
        weather.shift = (long)(number() % (uint64_t)(2 * weather.clock)) - weather.clock;
    return weather.shift;
}

typedef int (*clock_gettime_fn)(clockid_t, struct timespec *);
static int real_time(clockid_t id, struct timespec *t)
{
    static void *kept;
    if (!kept) kept = dlsym(RTLD_NEXT, "clock_gettime");
    return ((clock_gettime_fn)kept)(id, t);
}

SHOW int clock_gettime(clockid_t id, struct timespec *t)
{
    int result = real_time(id, t);
    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) t->tv_sec += shift();
    return result;
}
SHOW time_t time(time_t *out)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) *out = t.tv_sec;
    return t.tv_sec;
}
SHOW int gettimeofday(struct timeval *out, void *zone)
{
    struct timespec t = {0};
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &t);
    *out = (struct timeval){t.tv_sec, t.tv_nsec / 1000};
    return 0;
}

static int no_lock(void)
{
    if (weather.locks <= 0 || number() % (uint64_t)weather.locks != 0) return 0;
    errno = ENOLCK;
    return 1;
}

typedef int (*fcntl_fn)(int, int, ...);
static int control(const char *name, void **kept, int fd, int what, void *arg)
{
    int takes = what == F_SETLK || what == F_SETLKW || what == F_OFD_SETLK || what == F_OFD_SETLKW;
    if (takes && ((const struct flock *)arg)->l_type != F_UNLCK && no_lock()) return -1;
    if (!*kept) *kept = dlsym(RTLD_NEXT, name);
    return ((fcntl_fn)*kept)(fd, what, arg);
}
#define CONTROL(name)                                                                                                  \
    SHOW int name(int fd, int what, ...);                                                                              \
    SHOW int name(int fd, int what, ...)                                                                               \
    {                                                                                                                  \
        static void *kept;                                                                                             \
        va_list args;                                                                                                  \
        va_start(args, what);                                                                                          \
        void *arg = va_arg(args, void *);                                                                              \
        va_end(args);                                                                                                  \
        return control(#name, &kept, fd, what, arg);                                                                   \
    }
CONTROL(fcntl)
CONTROL(fcntl64)

typedef int (*flock_fn)(int, int);
SHOW int flock(int fd, int what)
{
    static void *kept;
    if (!(what & LOCK_UN) && no_lock()) return -1;
    if (!kept) kept = dlsym(RTLD_NEXT, "flock");
    return ((flock_fn)kept)(fd, what);
}
