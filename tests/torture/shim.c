/* shim.c - an LD_PRELOAD library that makes the k-th thing fail, or cuts the power there.
 *
 *     SHIM_FOLDER=DIR  only files below it count          SHIM_AT=K     the K-th call (from 1); 0: only count
 *     SHIM_KIND=alloc | eio | enospc | short | eintr | kill             SHIM_LOG=FILE  gets "COUNT FIRED" at the end
 *     SHIM_FROM=1      every call from the K-th on fails, not that one alone
 *     SHIM_LIE=1       no fsync counts: a planted bug, which whoever judges what is left has to find
 *     SHIM_DAMAGE=kept | dropped | torn, SHIM_SEED=N                    what a kill leaves of what was not synced
 *
 * Allocations count from main() on: what the libraries of a program do before is nobody's to mend.
 *
 * For a kill every change is noted with what undoes it until the file (or, for names, its folder) is synced: `dropped`
 * undoes all that was not, the last first, names too; `torn` undoes about half of the 512-byte pieces of unsynced
 * writes. Left out: changes through maps, and disks that lie about fsync.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define SHOW __attribute__((visibility("default")))
#define REAL(name) ((name##_fn)real(#name, &real_##name))
enum { FDS = 1024, PATHS = 4096, PIECE = 512 };

typedef enum { OFF, ALLOC, EIO_, ENOSPC_, SHORT, EINTR_, KILL } fault;
typedef enum { CHANGE = 1, ACCESS = 2, TRANSFER = 3 } sort; /* kills count changes alone, short counts transfers */

static struct {
    fault kind;
    long at, seen, fired;
    char folder[1024], log[1024], damage;
    uint64_t seed;
    int ready, lies, goes_on, in_main;
    pid_t process;
} shim;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread int inside;

static void *real(const char *name, void **kept)
{
    if (!*kept) {
        inside++;
        *kept = dlsym(RTLD_NEXT, name);
        inside--;
    }
    return *kept;
}

/* ---- what was changed and not synced ---- */

typedef enum { WROTE, CUT, MADE, RENAMED, REMOVED } change_kind;
typedef struct change {
    struct change *before;
    change_kind kind;
    int fd; /* ours, to undo through */
    dev_t device;
    ino_t inode;
    off_t at, size_before;
    size_t n, had; /* bytes written; bytes of old content kept */
    char *old;
    char path[PATHS], other[PATHS], backup[PATHS];
} change;
static change *last;
static char path_of[FDS][PATHS];
static unsigned backups;

static int ours(const char *path)
{
    return path && shim.ready && shim.folder[0] && strncmp(path, shim.folder, strlen(shim.folder)) == 0;
}
static const char *path_at(int fd) { return fd >= 0 && fd < FDS && path_of[fd][0] ? path_of[fd] : NULL; }

static change *note(change_kind kind, const char *path)
{
    if (shim.kind != KILL) return NULL;
    change *c = calloc(1, sizeof *c);
    if (!c) abort();
    c->kind = kind, c->fd = -1, c->before = last;
    snprintf(c->path, PATHS, "%s", path);
    last = c;
    return c;
}

static void folder_of(const char *path, char *out)
{
    snprintf(out, PATHS, "%s", path);
    char *slash = strrchr(out, '/');
    if (slash) *slash = '\0';
}

static void forget(int (*which)(const change *, const void *), const void *arg)
{
    for (change **link = &last; *link;) {
        change *c = *link;
        if (!which(c, arg)) {
            link = &c->before;
            continue;
        }
        *link = c->before;
        if (c->fd >= 0) syscall(SYS_close, c->fd);
        if (c->backup[0]) syscall(SYS_unlink, c->backup);
        free(c->old);
        free(c);
    }
}

static int is_of_file(const change *c, const void *arg)
{
    const struct stat *st = arg;
    return (c->kind == WROTE || c->kind == CUT) && c->device == st->st_dev && c->inode == st->st_ino;
}

static int is_in_folder(const change *c, const void *arg)
{
    char folder[PATHS];
    if (c->kind == WROTE || c->kind == CUT) return 0;
    folder_of(c->kind == RENAMED ? c->other : c->path, folder);
    return strcmp(folder, arg) == 0;
}

static void synced(int fd)
{
    struct stat st;
    if (shim.kind != KILL || shim.lies || fstat(fd, &st) != 0) return;
    if (S_ISDIR(st.st_mode))
        forget(is_in_folder, path_at(fd));
    else
        forget(is_of_file, &st);
}

/* Old bytes of [at, at + n), before they are changed. */
static void note_bytes(change_kind kind, int fd, off_t at, size_t n)
{
    struct stat st;
    if (shim.kind != KILL || fstat(fd, &st) != 0) return;
    change *c = note(kind, path_at(fd));
    char self[64];
    snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    c->fd = (int)syscall(SYS_openat, AT_FDCWD, self, O_RDWR | O_CLOEXEC);
    c->device = st.st_dev, c->inode = st.st_ino, c->at = at, c->n = n, c->size_before = st.st_size;
    size_t have = at < st.st_size ? (size_t)(st.st_size - at) : 0;
    c->had = have < n ? have : n;
    c->old = malloc(c->had + 1);
    if (c->fd < 0 || !c->old || (c->had && syscall(SYS_pread64, c->fd, c->old, c->had, at) != (long)c->had)) abort();
}

static int coin(void)
{
    shim.seed ^= shim.seed << 13, shim.seed ^= shim.seed >> 7, shim.seed ^= shim.seed << 17;
    return (int)(shim.seed >> 20 & 1);
}

static void undo_bytes(const change *c, int torn)
{
    if (torn && c->kind == CUT) return; /* a file's length is the file system's journal's, like names */
    for (size_t i = 0; i < c->had; i += PIECE) {
        size_t n = c->had - i < PIECE ? c->had - i : PIECE;
        if (!torn || coin()) syscall(SYS_pwrite64, c->fd, c->old + i, n, c->at + (off_t)i);
    }
    if (!torn) {
        syscall(SYS_ftruncate, c->fd, c->size_before);
    } else if (c->kind == WROTE) {
        static const char zeros[PIECE];
        for (size_t i = c->had; i < c->n; i += PIECE) /* a piece that was never written reads as zeros */
            if (coin()) syscall(SYS_pwrite64, c->fd, zeros, c->n - i < PIECE ? c->n - i : PIECE, c->at + (off_t)i);
    }
}

static void undo(const change *c)
{
    if (c->kind == WROTE || c->kind == CUT) {
        undo_bytes(c, shim.damage == 't');
        return;
    }
    if (shim.damage == 't') return; /* names are a file system's journal: in order, so all or none */
    if (c->kind == MADE && syscall(SYS_unlinkat, AT_FDCWD, c->path, 0) != 0)
        syscall(SYS_unlinkat, AT_FDCWD, c->path, AT_REMOVEDIR);
    if (c->kind == RENAMED) syscall(SYS_rename, c->other, c->path);
    if (c->kind == RENAMED && c->backup[0]) syscall(SYS_rename, c->backup, c->other);
    if (c->kind == REMOVED) syscall(SYS_rename, c->backup, c->path);
}

static void cut_the_power(void)
{
    if (shim.damage != 'k')
        for (const change *c = last; c; c = c->before) undo(c);
    for (const change *c = last; c; c = c->before)
        if (c->backup[0]) syscall(SYS_unlink, c->backup);
    syscall(SYS_kill, syscall(SYS_getpid), SIGKILL);
}

static void back_up(change *c, const char *path)
{
    if (!c) return;
    snprintf(c->backup, PATHS, "%s/../shim-%ld-%u", shim.folder, (long)getpid(), backups++);
    if (link(path, c->backup) != 0) c->backup[0] = '\0';
}

/* ---- when it is time ---- */

static void write_log(void)
{
    char text[64];
    if (getpid() != shim.process) return; /* a child that was forked is not counted */
    int n = snprintf(text, sizeof text, "%ld %ld\n", shim.seen, shim.fired),
        fd = (int)syscall(SYS_openat, AT_FDCWD, shim.log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd >= 0) syscall(SYS_write, fd, text, n), syscall(SYS_close, fd);
}

/* 1: this call is the one. */
static int due(sort what)
{
    if (shim.kind == OFF || shim.kind == ALLOC || (shim.kind == KILL && what != CHANGE) ||
        (shim.kind == SHORT && what != TRANSFER))
        return 0;
    ++shim.seen;
    if (shim.seen != shim.at && !(shim.goes_on && shim.at && shim.seen > shim.at)) return 0;
    shim.fired++;
    if (shim.kind == KILL) write_log(), cut_the_power();
    return 1;
}

static int failure(void) { return shim.kind == ENOSPC_ ? ENOSPC : shim.kind == EINTR_ ? EINTR : EIO; }

static int alloc_due(void)
{
    if (shim.kind != ALLOC || !shim.in_main || inside) return 0;
    long seen = __atomic_add_fetch(&shim.seen, 1, __ATOMIC_RELAXED);
    if (seen != shim.at && !(shim.goes_on && shim.at && seen > shim.at)) return 0;
    shim.fired++;
    errno = ENOMEM;
    return 1;
}

__attribute__((constructor)) static void begin(void)
{
    static const char *const name[] = {"off", "alloc", "eio", "enospc", "short", "eintr", "kill"};
    const char *kind = getenv("SHIM_KIND"), *at = getenv("SHIM_AT"), *folder = getenv("SHIM_FOLDER"),
               *log = getenv("SHIM_LOG"), *damage = getenv("SHIM_DAMAGE"), *seed = getenv("SHIM_SEED");
    for (int i = 0; kind && i <= KILL; i++)
        if (strcmp(kind, name[i]) == 0) shim.kind = (fault)i;
    shim.at = at ? atol(at) : 0;
    snprintf(shim.folder, sizeof shim.folder, "%s", folder ? folder : "");
    snprintf(shim.log, sizeof shim.log, "%s", log ? log : "/dev/null");
    shim.damage = damage ? damage[0] : 'k';
    shim.seed = (seed ? strtoull(seed, NULL, 10) : 1) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    shim.lies = getenv("SHIM_LIE") != NULL;
    shim.goes_on = getenv("SHIM_FROM") != NULL;
    shim.process = getpid();
    shim.ready = 1;
}

/* glibc's start of a program: main is called through a function of ours. */
typedef int (*main_fn)(int, char **, char **);
typedef int (*start_fn)(main_fn, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
static main_fn real_main;

static int our_main(int argc, char **argv, char **env)
{
    shim.in_main = 1;
    int status = real_main(argc, argv, env);
    shim.in_main = 0;
    return status;
}

SHOW int __libc_start_main(main_fn, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);
SHOW int __libc_start_main(main_fn start, int argc, char **argv, void (*init)(void), void (*fini)(void),
                           void (*ld_fini)(void), void *stack)
{
    static void *kept;
    start_fn call = (start_fn)real("__libc_start_main", &kept);
    real_main = start;
    return call(our_main, argc, argv, init, fini, ld_fini, stack);
}

SHOW void _exit(int status)
{
    if (shim.kind != OFF && shim.ready) write_log();
    syscall(SYS_exit_group, status);
    __builtin_unreachable();
}

__attribute__((destructor)) static void end(void)
{
    if (shim.kind != OFF) write_log();
}

/* ---- files ---- */

typedef ssize_t (*write_fn)(int, const void *, size_t);
typedef ssize_t (*pwrite64_fn)(int, const void *, size_t, off_t);
typedef ssize_t (*read_fn)(int, void *, size_t);
typedef ssize_t (*pread64_fn)(int, void *, size_t, off_t);
typedef int (*fsync_fn)(int);
typedef int (*ftruncate64_fn)(int, off_t);
typedef int (*rename_fn)(const char *, const char *);
typedef int (*unlink_fn)(const char *);
typedef int (*mkdir_fn)(const char *, mode_t);
typedef int (*open_fn)(const char *, int, ...);
typedef int (*close_fn)(int);
static void *real_write, *real_pwrite64, *real_read, *real_pread64, *real_fsync, *real_fdatasync, *real_ftruncate64,
    *real_rename, *real_unlink, *real_mkdir, *real_open, *real_close;

static int open_it(const char *path, int flags, mode_t mode)
{
    if (!ours(path)) return REAL(open)(path, flags, mode);
    pthread_mutex_lock(&lock);
    inside++;
    int made = (flags & O_CREAT) && access(path, F_OK) != 0, fd = -1;
    if (due(made ? CHANGE : ACCESS) && shim.kind != SHORT)
        errno = failure();
    else
        fd = REAL(open)(path, flags, mode);
    if (fd >= 0 && made) note(MADE, path);
    if (fd >= 0 && fd < FDS) snprintf(path_of[fd], PATHS, "%s", path);
    inside--;
    pthread_mutex_unlock(&lock);
    return fd;
}

static mode_t mode_of(int flags, va_list args) { return flags & O_CREAT ? (mode_t)va_arg(args, int) : 0; }
#define OPEN(name)                                                                                                     \
    SHOW int name(const char *path, int flags, ...);                                                                   \
    SHOW int name(const char *path, int flags, ...)                                                                    \
    {                                                                                                                  \
        va_list args;                                                                                                  \
        va_start(args, flags);                                                                                         \
        mode_t mode = mode_of(flags, args);                                                                            \
        va_end(args);                                                                                                  \
        return open_it(path, flags, mode);                                                                             \
    }
OPEN(open)
OPEN(open64)

SHOW int close(int fd)
{
    if (fd >= 0 && fd < FDS) path_of[fd][0] = '\0';
    return REAL(close)(fd);
}

/* What a file function does round the real call. `n` may be shortened. 0: go on; else: return -1. */
static int before(int fd, sort what, size_t *n)
{
    if (!path_at(fd)) return 0;
    if (!due(shim.kind == SHORT && n && *n > 1 ? TRANSFER : what)) return 0;
    if (shim.kind == SHORT) {
        *n /= 2;
        return 0;
    }
    errno = failure();
    return 1;
}

#define LOCKED(type, ...)                                                                                              \
    type result = -1;                                                                                                  \
    pthread_mutex_lock(&lock);                                                                                         \
    inside++;                                                                                                          \
    __VA_ARGS__;                                                                                                       \
    inside--;                                                                                                          \
    pthread_mutex_unlock(&lock);                                                                                       \
    return result

SHOW ssize_t write(int fd, const void *p, size_t n)
{
    if (!path_at(fd)) return REAL(write)(fd, p, n);
    LOCKED(
        ssize_t, if (!before(fd, CHANGE, &n)) {
            note_bytes(WROTE, fd, lseek(fd, 0, SEEK_CUR), n);
            result = REAL(write)(fd, p, n);
        });
}

static ssize_t pwrite_it(int fd, const void *p, size_t n, off_t at)
{
    if (!path_at(fd)) return REAL(pwrite64)(fd, p, n, at);
    LOCKED(
        ssize_t, if (!before(fd, CHANGE, &n)) {
            note_bytes(WROTE, fd, at, n);
            result = REAL(pwrite64)(fd, p, n, at);
        });
}
SHOW ssize_t pwrite64(int fd, const void *p, size_t n, off_t at) { return pwrite_it(fd, p, n, at); }
SHOW ssize_t pwrite(int fd, const void *p, size_t n, off_t at) { return pwrite_it(fd, p, n, at); }

SHOW ssize_t read(int fd, void *p, size_t n)
{
    if (!path_at(fd)) return REAL(read)(fd, p, n);
    LOCKED(ssize_t, if (!before(fd, ACCESS, &n)) result = REAL(read)(fd, p, n));
}

static ssize_t pread_it(int fd, void *p, size_t n, off_t at)
{
    if (!path_at(fd)) return REAL(pread64)(fd, p, n, at);
    LOCKED(ssize_t, if (!before(fd, ACCESS, &n)) result = REAL(pread64)(fd, p, n, at));
}
SHOW ssize_t pread64(int fd, void *p, size_t n, off_t at) { return pread_it(fd, p, n, at); }
SHOW ssize_t pread(int fd, void *p, size_t n, off_t at) { return pread_it(fd, p, n, at); }

static int sync_it(int fd, fsync_fn call)
{
    if (!path_at(fd)) return call(fd);
    LOCKED(
        int, if (!before(fd, CHANGE, NULL)) {
            result = call(fd);
            if (result == 0) synced(fd);
        });
}
SHOW int fsync(int fd) { return sync_it(fd, REAL(fsync)); }
typedef fsync_fn fdatasync_fn;
SHOW int fdatasync(int fd) { return sync_it(fd, REAL(fdatasync)); }

static int truncate_it(int fd, off_t size)
{
    struct stat st;
    if (!path_at(fd)) return REAL(ftruncate64)(fd, size);
    LOCKED(
        int, if (!before(fd, CHANGE, NULL)) {
            if (fstat(fd, &st) == 0) note_bytes(CUT, fd, size, st.st_size > size ? (size_t)(st.st_size - size) : 0);
            result = REAL(ftruncate64)(fd, size);
        });
}
SHOW int ftruncate64(int fd, off_t size) { return truncate_it(fd, size); }
SHOW int ftruncate(int fd, off_t size) { return truncate_it(fd, size); }

/* Calls on names. */
static int name_due(const char *path) { return ours(path) && due(CHANGE) && shim.kind != SHORT; }

SHOW int rename(const char *from, const char *to)
{
    if (!ours(to)) return REAL(rename)(from, to);
    LOCKED(
        int, if (name_due(to)) errno = failure(); else {
            change *c = note(RENAMED, from);
            if (c) snprintf(c->other, PATHS, "%s", to), back_up(c, to);
            result = REAL(rename)(from, to);
        });
}

SHOW int unlink(const char *path)
{
    if (!ours(path)) return REAL(unlink)(path);
    LOCKED(
        int, if (name_due(path)) errno = failure(); else {
            back_up(note(REMOVED, path), path);
            result = REAL(unlink)(path);
        });
}

SHOW int mkdir(const char *path, mode_t mode)
{
    if (!ours(path)) return REAL(mkdir)(path, mode);
    LOCKED(
        int, if (name_due(path)) errno = failure(); else {
            result = REAL(mkdir)(path, mode);
            if (result == 0) note(MADE, path);
        });
}

/* ---- memory ---- */

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

SHOW void *malloc(size_t n) { return alloc_due() ? NULL : __libc_malloc(n); }
SHOW void *calloc(size_t k, size_t n) { return alloc_due() ? NULL : __libc_calloc(k, n); }
SHOW void *realloc(void *p, size_t n) { return alloc_due() ? NULL : __libc_realloc(p, n); }
SHOW void *aligned_alloc(size_t a, size_t n) { return alloc_due() ? NULL : __libc_memalign(a, n); }
SHOW int posix_memalign(void **p, size_t a, size_t n)
{
    if (alloc_due()) return ENOMEM;
    *p = __libc_memalign(a, n);
    return *p ? 0 : ENOMEM;
}
