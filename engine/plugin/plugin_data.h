/* plugin_data.h - the files a plugin ships: for NAME.so the folder NAME.data beside it (kiln_host.data_folder).
 *
 * They decide results as the plugin's code does, so they are trusted by the same rules and are part of its identity.
 */
#ifndef KILN_PLUGIN_PLUGIN_DATA_H
#define KILN_PLUGIN_PLUGIN_DATA_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/status.h"

enum { DATA_FILES_MAX = 4096, DATA_DEPTH_MAX = 8, DATA_BYTES_MAX = 1 << 28 };

/* Looks for the folder of the plugin at `so`. *folder is its path in `memory`, or NULL when there is none; *identity
 * then covers the names and contents of its files too. Anything but files and folders in it, what others may write,
 * more than DATA_FILES_MAX files or DATA_BYTES_MAX bytes, or more than DATA_DEPTH_MAX levels is KILN_ERR_INVALID with a
 * message that begins with the path. */
kiln_status plugin_data_find(const char *so, arena *memory, const char **folder, digest *identity, error *e);

#endif
