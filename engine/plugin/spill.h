/* spill.h - kiln_host.spill: files of a running call for what does not fit into memory.
 *
 * A file without a name (O_TMPFILE, else one that is unlinked at once), so that nothing is left of it however the
 * process ends. Its bytes are reserved before it is handed out: a disk without room is a sentence then, and not a write
 * that fails in the middle.
 */
#ifndef KILN_PLUGIN_SPILL_H
#define KILN_PLUGIN_SPILL_H

#include "plugin/ctx.h"

int spill_new(kiln_ctx *c, size_t bytes); /* as kiln_host.spill */
void spill_close(kiln_ctx *c);            /* all of the call's; before its scratch memory goes */

#endif
