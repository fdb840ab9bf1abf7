/* plugin_data.h - the files that a plugin ships: for NAME.so, the folder NAME.data beside it (kiln_host.data_folder).
 *
 * They influence results as the plugin's code does, so the same rules of trust apply, and they are part of its
 * identity.
 */
#ifndef KILN_PLUGIN_PLUGIN_DATA_H
#define KILN_PLUGIN_PLUGIN_DATA_H

#include "base/arena.h"
#include "base/hash.h"
#include "base/status.h"

enum { DATA_FILES_MAX = 4096, DATA_DEPTH_MAX = 8, DATA_BYTES_MAX = 1 << 28 };

/* Looks for the data folder of the plugin at `so`. *folder: its path in `memory`, or NULL when there is none. When
 * there is one, *identity becomes a digest of the plugin's identity and of the names and contents of the files.
 * KILN_ERR_INVALID, with a message that begins with the path: an entry that is neither file nor folder, one that others
 * may write, more than DATA_FILES_MAX files, DATA_BYTES_MAX bytes or DATA_DEPTH_MAX levels. */
kiln_status plugin_data_find(const char *so, arena *memory, const char **folder, digest *identity, error *e);

#endif
