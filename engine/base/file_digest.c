/* file_digest.c - the content of a file or folder as 128 bits, remembered in the process.
 *
 * Chunks of 8 MiB are read and digested in parallel. The file's digest is that of the chunks' digests in order and of
 * the length, so it does not depend on the number of threads.
 */
#include "base/file.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/file_list.h"
#include "base/memory_alloc.h"
#include "base/pool.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 8 << 20, DEPTH_MAX = 8, ENTRIES_MAX = 10000 };

typedef struct known {
    struct known *next;
    file_identity file;
    digest content;
} known;

static known *known_head;
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

static file_memory store; /* under known_lock; find NULL: none */

static void known_add(const file_identity *file, digest content)
{
    known *k = mem_alloc(sizeof *k);
    if (!k) return; /* the next call reads the file again */
    *k = (known){.file = *file, .content = content};
    pthread_mutex_lock(&known_lock);
    k->next = known_head;
    known_head = k;
    pthread_mutex_unlock(&known_lock);
}

static int known_find(const file_identity *file, digest *out)
{
    int found = 0;
    pthread_mutex_lock(&known_lock);
    file_memory memory = store;
    for (known *k = known_head; k && !found; k = k->next)
        if (file_identity_same(&k->file, file)) found = 1, *out = k->content;
    pthread_mutex_unlock(&known_lock);
    if (found || !memory.find || !memory.find(memory.self, file, out)) return found;
    known_add(file, *out);
    return 1;
}

static void remember(const char *path, const file_identity *file, digest content, int64_t began_ns)
{
    known_add(file, content);
    pthread_mutex_lock(&known_lock);
    file_memory memory = store;
    pthread_mutex_unlock(&known_lock);
    if (memory.add) memory.add(memory.self, path, file, content, began_ns);
}

void file_digest_memory(const file_memory *memory)
{
    pthread_mutex_lock(&known_lock);
    store = memory ? *memory : (file_memory){0};
    pthread_mutex_unlock(&known_lock);
}

__attribute__((destructor)) static void known_free(void)
{
    while (known_head) {
        known *next = known_head->next;
        mem_free(known_head);
        known_head = next;
    }
}

typedef struct {
    int fd;
    uint64_t size;
    digest *chunk;
    atomic_int failed; /* errno, or ENOMEM, of a chunk that could not be read */
} reading;

static void chunk_digest(void *arg, size_t i)
{
    reading *r = arg;
    uint64_t at = (uint64_t)i * CHUNK;
    size_t want = r->size - at < CHUNK ? (size_t)(r->size - at) : CHUNK, got = 0;
    char *buffer = mem_alloc(want);
    if (!buffer) atomic_store(&r->failed, ENOMEM);
    while (buffer && got < want) {
        ssize_t n = pread(r->fd, buffer + got, want - got, (off_t)(at + got));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            atomic_store(&r->failed, n < 0 ? errno : EIO);
            break;
        }
        got += (size_t)n;
    }
    if (buffer && got == want) r->chunk[i] = digest_of(buffer, want);
    mem_free(buffer);
}

/* ---- files that were written a moment ago ---- */

/* Two writes within one tick of the file system's clock leave the same times. A tick is up to 10 ms where the kernel
 * keeps the times, up to 2 s where the file system stores whole seconds. */
static const int64_t TICK_NS = 25000000, COARSE_TICK_NS = INT64_C(2100000000);

/* Nanoseconds until a write would give the file other times than those in `st`; 0: a write now would. */
static int64_t unsettled(const struct stat *st)
{
    file_identity f = file_identity_of(st);
    int64_t tick = f.mtime_ns % 1000000000 == 0 && f.ctime_ns % 1000000000 == 0 ? COARSE_TICK_NS : TICK_NS;
    int64_t newest = f.mtime_ns > f.ctime_ns ? f.mtime_ns : f.ctime_ns, age = clock_wall_ns() - newest;
    return age > -tick && age < tick ? tick - age : 0;
}

/* Waits for the end of the tick in which the file was last written, and reads its state again. */
static void settle(int fd, struct stat *st)
{
    int64_t wait = unsettled(st);
    if (wait <= 0) return;
    nanosleep(&(struct timespec){.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000}, NULL);
    fstat(fd, st);
}

/* ---- files ---- */

static kiln_status note(file_list *seen, const char *path, const file_identity *file, error *e)
{
    return seen ? file_list_add(seen, path, file, e) : KILN_OK;
}

/* Reads the file, which known_find did not know. */
static kiln_status regular_digest(const char *path, int fd, struct stat *st, file_list *seen, digest *out, error *e)
{
    settle(fd, st);
    file_identity file = file_identity_of(st);
    int64_t began = clock_wall_ns();
    size_t n = (size_t)(((uint64_t)st->st_size + CHUNK - 1) / CHUNK);
    reading r = {.fd = fd, .size = (uint64_t)st->st_size, .chunk = mem_calloc(n + 1, sizeof(digest))};
    if (!r.chunk) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    pool *p = n > 1 ? pool_new(0) : NULL;
    pool_for(p, n, chunk_digest, &r);
    pool_free(p);
    r.chunk[n] = (digest){.lo = r.size, .hi = 0x6b696c6e}; /* the last entry is the length */
    *out = digest_of(r.chunk, (n + 1) * sizeof(digest));
    mem_free(r.chunk);
    if (r.failed == ENOMEM) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    if (r.failed) return error_set(e, KILN_ERR_IO, "%s: cannot read: %s", path, strerror(r.failed));
    struct stat now;
    file_identity after = fstat(fd, &now) == 0 ? file_identity_of(&now) : (file_identity){0};
    if (!file_identity_same(&after, &file))
        return error_set(e, KILN_ERR_IO, "%s: changed while it was read; run again", path);
    remember(path, &file, *out, began);
    return note(seen, path, &file, e);
}

typedef struct {
    char **name;
    size_t n;
} listing;

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static kiln_status list_folder(const char *path, arena *a, listing *out, error *e)
{
    DIR *d = opendir(path);
    if (!d) return error_set(e, KILN_ERR_IO, "%s: cannot open the folder: %s", path, strerror(errno));
    out->name = mem_calloc(ENTRIES_MAX, sizeof *out->name);
    kiln_status status = out->name ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    for (struct dirent *entry; status == KILN_OK && (entry = readdir(d));) {
        if (entry->d_name[0] == '.') continue;
        if (out->n == ENTRIES_MAX)
            status = error_set(e, KILN_ERR_INVALID, "%s: more than %d entries", path, ENTRIES_MAX);
        else if (!(out->name[out->n++] = arena_strdup(a, entry->d_name)))
            status = error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    }
    closedir(d);
    if (status == KILN_OK) qsort(out->name, out->n, sizeof *out->name, by_name);
    return status;
}

static kiln_status content_digest(const char *path, int depth, file_list *seen, digest *out, error *e);

static kiln_status folder_digest(const char *path, int depth, file_list *seen, digest *out, error *e)
{
    if (depth > DEPTH_MAX) return error_set(e, KILN_ERR_INVALID, "%s: folders deeper than %d", path, DEPTH_MAX);
    arena a = {0};
    listing list = {0};
    hasher *h = hasher_new();
    kiln_status status = h ? list_folder(path, &a, &list, e) : error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    for (size_t i = 0; status == KILN_OK && i < list.n; i++) {
        digest part;
        char *child = path_join(path, list.name[i]);
        status = child ? content_digest(child, depth + 1, seen, &part, e)
                       : error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
        mem_free(child);
        hash_text(h, list.name[i]);
        if (status == KILN_OK) hash_digest(h, part);
    }
    if (status == KILN_OK) *out = hasher_digest(h);
    hasher_free(h);
    mem_free(list.name);
    arena_free(&a);
    return status;
}

/* Does not open a file whose digest is known. */
static kiln_status content_digest(const char *path, int depth, file_list *seen, digest *out, error *e)
{
    struct stat st;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        file_identity file = file_identity_of(&st);
        if (known_find(&file, out)) return note(seen, path, &file, e);
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0) {
        error_set(e, KILN_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
        if (fd >= 0) close(fd);
        return KILN_ERR_IO;
    }
    kiln_status status = S_ISREG(st.st_mode)   ? regular_digest(path, fd, &st, seen, out, e)
                         : S_ISDIR(st.st_mode) ? folder_digest(path, depth, seen, out, e)
                                               : error_set(e, KILN_ERR_IO, "%s: neither file nor folder", path);
    close(fd);
    return status;
}

kiln_status file_digest(const char *path, digest *out, error *e) { return content_digest(path, 0, NULL, out, e); }
kiln_status file_digest_seen(const char *path, file_list *seen, digest *out, error *e)
{
    return content_digest(path, 0, seen, out, e);
}
