/* store_files.h - digests of files, remembered across processes. */
#ifndef KILN_CACHE_STORE_FILES_H
#define KILN_CACHE_STORE_FILES_H

#include "base/file.h"
#include "cache/store.h"

/* One that is not committed yet. */
typedef struct {
    file_identity file;
    digest content;
    char *path;
} queued_file;

/* base/file.h's file_digest_memory; without the lock. */
int store_file_find(void *self, const file_identity *f, digest *out);
void store_file_add(void *self, const char *path, const file_identity *f, digest content, int64_t began_ns);
/* With the lock held. */
kiln_status files_flush(store *s, error *e);
void files_free(store *s);

#endif
