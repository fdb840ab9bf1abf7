/* store_paths.h - how anything below the store's folder is opened: never through a link, never something that is no
 * regular file. Any thread.
 */
#ifndef KILN_CACHE_STORE_PATHS_H
#define KILN_CACHE_STORE_PATHS_H

#include "base/status.h"

#include <dirent.h>

enum { STORE_FOLDER_MAX = 3800, STORE_PATH_MAX = 4096 };

/* open() of a regular file, without waiting and without following a link; -1 with a message, and in *why (may be NULL)
 * errno, ELOOP for whatever is no regular file. */
int open_below(const char *path, int flags, int *why, error *e);
DIR *open_folder_below(const char *path); /* NULL: none, or a link */
/* "a FIFO": what is there and is no regular file; NULL: a file, or nothing. */
const char *path_kind(const char *path);
kiln_status folder_private(const char *path, error *e); /* mkdir 0700 unless it is there */
kiln_status folder_sync(const char *path, error *e);

#endif
