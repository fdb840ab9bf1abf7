/* probe.h - trying a plugin in a child process before it is let into this one.
 *
 * Loading a .so runs its constructors, and reading its table trusts its pointers. The child does both first, and calls
 * open(); if it crashes, ends or hangs, this process has lost nothing and knows how. A file that was found good is
 * remembered by its identity, in the user's cache folder, so that a start costs no child.
 */
#ifndef KILN_PLUGIN_PROBE_H
#define KILN_PLUGIN_PROBE_H

#include "base/hash.h"
#include "base/status.h"

#include <sys/stat.h>

enum { PROBE_SECONDS = 10 };

/* Loads `name` (what dlopen is given; `data` is its data folder or NULL) in a child process. KILN_OK: it can be loaded
 * here. A failure's message says what happened ("its constructor ended the process with status 3", "signal SEGV while
 * ..."). Waits at most `seconds`. */
kiln_status probe_plugin(const char *name, const char *data, unsigned seconds, error *e);

/* What a probed file is remembered by: which file, how long, when changed, its content and this engine's version. */
digest probe_key(const struct stat *file, digest content);
/* The remembered good files; reading or writing failures only cost the next probe. */
int probe_remembered(digest key);
void probe_remember(digest key);

#endif
