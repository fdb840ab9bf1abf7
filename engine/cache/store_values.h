/* store_values.h - values as bytes: small ones in the index, larger ones as files named by the digest of their content.
 * Without the store's lock: nothing here touches the index.
 */
#ifndef KILN_CACHE_STORE_VALUES_H
#define KILN_CACHE_STORE_VALUES_H

#include "cache/store.h"
#include "cache/store_paths.h"

enum { STORE_INLINE_MAX = 64 << 10 }; /* larger values become files: SQLite is slower with them from about 100 KB on */

/* One encoded value: its bytes, or a file of them in values/. */
typedef struct {
    digest content;
    uint64_t size;
    unsigned char *inline_bytes; /* NULL: a file; owned by the queue entry */
} stored_value;

kiln_status value_write(store *s, const kiln_value *v, stored_value *out, error *e);
kiln_status value_read_inline(store *s, const unsigned char *bytes, uint64_t size, digest content, kiln_value **out,
                              error *e);
kiln_status value_read_file(store *s, digest content, uint64_t size, kiln_value **out, error *e);
/* Reads it all and compares, decodes nothing. */
kiln_status value_check_file(store *s, digest content, uint64_t size, error *e);
void value_path(const store *s, digest content, char path[STORE_PATH_MAX]);
/* FOLDER/values/tmp/PID-N opened for writing; -1 with a message. */
int temp_open(store *s, char path[STORE_PATH_MAX], error *e);
kiln_status write_fully(int fd, const void *bytes, size_t n, const char *path, error *e);
/* fsync, rename, fsync of the folder; of a short-lived store the rename alone. */
kiln_status file_settle(const store *s, int fd, const char *from, const char *to, error *e);

#endif
