/* file.h - files: maps, small reads, atomic writes, and a file's state on disk. */
#ifndef KILN_BASE_FILE_H
#define KILN_BASE_FILE_H

#include "base/hash.h"
#include "base/pool.h"
#include "base/status.h"

#include <sys/stat.h>

/* A file's state on disk: as long as none of these changes, its content is taken to be the same. Every write moves both
 * times, and no program can set the second one (ctime) back. docs/cache.md lists the writes that this misses. */
typedef struct {
    uint64_t device, inode, size;
    int64_t mtime_ns, ctime_ns;
} file_identity;
file_identity file_identity_of(const struct stat *st);
int file_identity_same(const file_identity *a, const file_identity *b);

/* A read-only private map of a regular file. Bytes that can no longer be read (the file was truncated, the disk fails)
 * read as zeros, and the map remembers it: map_fault.h. */
typedef struct {
    const uint8_t *data; /* NULL for an empty file */
    size_t size;
    char *path;
    file_identity identity; /* when it was mapped */
    size_t guard;           /* map_fault.h */
} file_map;

kiln_status file_map_open(file_map *m, const char *path, error *e);
void file_map_close(file_map *m);
/* KILN_ERR_IO with a message when the file on disk is no longer the one that was mapped, or a read of the map hit bytes
 * that were missing. */
kiln_status file_map_unchanged(const file_map *m, error *e);
/* Compares the mapped file with `st` alone. */
kiln_status file_map_is(const file_map *m, const struct stat *st, error *e);
/* Reads `bytes` bytes from byte `at` of the mapped file into dst with pread, in pieces of 2 MiB on the pool's threads
 * (NULL: on the caller's). KILN_ERR_IO names file and byte when they cannot be read, or the file is no longer the one
 * that was mapped; dst is undefined then. */
kiln_status file_map_read(const file_map *m, size_t at, size_t bytes, void *dst, pool *p, error *e);

/* Reads at most `limit` bytes into a NUL-terminated buffer (free with mem_free). */
kiln_status file_read(const char *path, size_t limit, char **data, size_t *size, error *e);
/* The same of "-" (standard input), a pipe or a terminal too, which are read to their end. */
kiln_status file_read_stream(const char *path, size_t limit, char **data, size_t *size, error *e);
/* "/dev/fd/63", as a shell's <(...) is called: 63; else -1. */
int file_descriptor_of(const char *path);
/* Puts a pipe's whole content into memory and under its descriptor, so that its name can be read again. 0: it cannot.
 */
int file_keep_pipe(int fd);
/* Writes path.tmpXXXXXX, syncs it, renames it to path and syncs the folder. Leaves no file on failure. */
kiln_status file_write_whole(const char *path, const void *data, size_t size, error *e);
/* mkdir -p with mode 0777 & ~umask. */
kiln_status folder_make(const char *path, error *e);
/* The same; one that it makes is its owner's alone. */
kiln_status folder_make_private(const char *path, error *e);
/* Removes path and all in it, links themselves and not what they point at; what cannot be removed stays. */
void folder_remove(const char *path);
int file_exists(const char *path);
int folder_exists(const char *path);
/* Digest of a file's content, read in parallel chunks of a fixed size; the process remembers it by file_identity. When
 * the file was written a moment ago, waits until another write would move its times. Of a folder: digest of the sorted
 * relative paths and the contents. */
kiln_status file_digest(const char *path, digest *out, error *e);
/* The same, and adds every regular file it read to `seen`, with its state (file_list.h). */
struct file_list;
kiln_status file_digest_seen(const char *path, struct file_list *seen, digest *out, error *e);

/* A store of digests that outlives the process: file_digest looks there for files this process has not digested, and
 * adds those it digests. Both functions may be called from any thread. */
typedef struct {
    void *self;
    int (*find)(void *self, const file_identity *file, digest *out); /* 1: found */
    /* began_ns: unix time when reading began. File times are no finer than a clock tick, so a file changed that
     * recently could change again without its times moving. */
    void (*add)(void *self, const char *path, const file_identity *file, digest content, int64_t began_ns);
} file_memory;
void file_digest_memory(const file_memory *memory); /* NULL: none any more */
/* a/b with one slash between; b alone when it is absolute. The caller frees with mem_free. NULL: no memory. */
char *path_join(const char *a, const char *b);
char *path_real(const char *path); /* realpath; NULL when it does not exist; without memory errno is ENOMEM */

#endif
