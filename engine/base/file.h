/* file.h - files: maps, small reads, whole-or-nothing writes, identity. */
#ifndef KILN_BASE_FILE_H
#define KILN_BASE_FILE_H

#include "base/hash.h"
#include "base/pool.h"
#include "base/status.h"

#include <sys/stat.h>

/* A file's state on disk: while none of these changes, neither does the content. Every write moves the two times, and
 * the second one (when the inode changed) cannot be set back by a program. What this cannot see is in docs/cache.md. */
typedef struct {
    uint64_t device, inode, size;
    int64_t mtime_ns, ctime_ns;
} file_identity;
file_identity file_identity_of(const struct stat *st);
int file_identity_same(const file_identity *a, const file_identity *b);

/* A read-only private map of a regular file. What is gone when it is touched (the file was cut short, the disk fails)
 * reads as zeros and is remembered: map_fault.h. */
typedef struct {
    const uint8_t *data; /* NULL for an empty file */
    size_t size;
    char *path;
    file_identity identity; /* when it was mapped */
    size_t guard;           /* map_fault.h */
} file_map;

kiln_status file_map_open(file_map *m, const char *path, error *e);
void file_map_close(file_map *m);
/* KILN_ERR_IO with a message when the file on disk is no longer the one that was mapped, or was not all there when the
 * map was read. */
kiln_status file_map_unchanged(const file_map *m, error *e);
/* The same of what a file's `st` says. */
kiln_status file_map_is(const file_map *m, const struct stat *st, error *e);
/* Reads `bytes` bytes from byte `at` of the mapped file into dst, not through the map: pieces of 2 MiB by the pool's
 * threads (NULL: by the caller alone). KILN_ERR_IO with file and byte when it cannot be read or is not the file that
 * was mapped; dst is undefined then. */
kiln_status file_map_read(const file_map *m, size_t at, size_t bytes, void *dst, pool *p, error *e);

/* Reads at most `limit` bytes into a NUL-terminated buffer (free with mem_free). */
kiln_status file_read(const char *path, size_t limit, char **data, size_t *size, error *e);
/* Writes path.tmpXXXX, fsync, rename over path, fsync of the folder. Nothing is left on failure. */
kiln_status file_write_whole(const char *path, const void *data, size_t size, error *e);
/* mkdir -p with mode 0777 & ~umask. */
kiln_status folder_make(const char *path, error *e);
int file_exists(const char *path);
int folder_exists(const char *path);
/* Digest of a file's content, read in parallel chunks of a fixed size; remembered in the process by
 * file_identity. A file written to a moment ago is first left alone until a further write would show. Folder: digest of
 * the sorted relative paths and contents. */
kiln_status file_digest(const char *path, digest *out, error *e);
/* The same; every regular file that was read is noted in `seen` with the state it was in (file_list.h). */
struct file_list;
kiln_status file_digest_seen(const char *path, struct file_list *seen, digest *out, error *e);

/* A longer memory for file_digest than the process: asked when the process does not know, told when a digest was made.
 * Both may be called from any thread. NULL takes it away. */
typedef struct {
    void *self;
    int (*find)(void *self, const file_identity *file, digest *out); /* 1: known */
    /* began_ns: unix time at which reading began; times close to it may hide a later write (they are no finer than the
     * clock tick) */
    void (*add)(void *self, const char *path, const file_identity *file, digest content, int64_t began_ns);
} file_memory;
void file_digest_memory(const file_memory *memory);
/* Joins and normalises; the caller frees with mem_free. NULL: no memory. */
char *path_join(const char *a, const char *b);
char *path_real(const char *path); /* realpath; NULL when it does not exist */

#endif
