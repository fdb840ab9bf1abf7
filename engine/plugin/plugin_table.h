/* plugin_table.h - a plugin's table, read with distrust and copied into this engine's structs.
 *
 * Every struct is read through its own size or stride, so that older and (within the major version) larger structs are
 * understood; what the plugin did not know about is zero in the copy. The copy is what the rest of the engine sees:
 * n_in rows of sizeof(kiln_port) and so on. Pointers to text and functions stay the plugin's, which is never unloaded.
 */
#ifndef KILN_PLUGIN_PLUGIN_TABLE_H
#define KILN_PLUGIN_PLUGIN_TABLE_H

#include "base/arena.h"
#include "base/status.h"
#include "kiln/plugin.h"

/* Reads and checks the whole table: magic, version, sizes, strides, names, docs, offsets, ranges, choices, duplicates.
 * KILN_ERR_INVALID with a sentence that names the node, the row and what would be right; KILN_ERR_UNSUPPORTED for
 * another version of the contract. Calls no code of the plugin. The copy and its rows live in `memory`. */
kiln_status table_read(const void *raw, arena *memory, kiln_plugin *out, error *e);

#endif
