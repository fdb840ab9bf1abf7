/* probe.h - tries a plugin in a child process before this process loads it.
 *
 * Loading a .so runs its constructors, and reading its table follows its pointers. The child does both first and calls
 * open(). If it crashes, exits or hangs, this process is unharmed and can say what happened. Files that passed are
 * remembered by identity in the user's cache folder, so that later starts need no child.
 */
#ifndef KILN_PLUGIN_PROBE_H
#define KILN_PLUGIN_PROBE_H

#include "base/hash.h"
#include "base/status.h"
#include "plugin/table_pack.h"

#include <sys/stat.h>

enum { PROBE_SECONDS = 10 };

/* Loads `name` (for dlopen; `data`: its data folder or NULL) in a child process. KILN_OK: it can be loaded here, and
 * its table is kept under `key` (zeros: it is not). Otherwise the message says what happened ("crashed with SIGSEGV in
 * its open()"). Waits at most `seconds`. *fatal: it crashed, ended the process or did not come back, and was not just
 * refused. */
kiln_status probe_plugin(const char *name, const char *data, unsigned seconds, digest key, int *fatal, error *e);
/* What nodes, samplers and schedules the plugin has, as they were kept or from a process of its own: its code does not
 * come into this one. */
kiln_status probe_table(const char *name, const char *data, digest key, arena *memory, unpacked_table *out, error *e);

/* The key of a file: device, inode, size, times, content, and the engine's version. */
digest probe_key(const struct stat *file, digest content);
/* Whether a file passed before, and the note that it did. When reading or writing fails, the file is probed again. */
int probe_remembered(digest key);
void probe_remember(digest key);
/* The same of files whose probe was fatal, and why. */
int probe_failed(digest key, char *why, size_t capacity);
void probe_remember_failed(digest key, const char *why);

#endif
