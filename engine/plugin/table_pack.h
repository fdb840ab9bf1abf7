/* table_pack.h - a plugin's table as bytes, so that a process can know its nodes without loading its code.
 *
 * What is packed: the checked table, and the samplers and schedules that the plugin registers. What is unpacked has
 * functions of the engine's in the place of the plugin's: run() fails, wants() asks for nothing, and nothing expands.
 * Bytes may come from a process that the plugin has ruined, so they are read with distrust, and the table goes through
 * table_read() again.
 */
#ifndef KILN_PLUGIN_TABLE_PACK_H
#define KILN_PLUGIN_TABLE_PACK_H

#include "base/str.h"
#include "kiln/sampler.h"
#include "plugin/plugin_table.h"

/* Appends the table, as table_read() gives it. */
void table_pack(str *to, const kiln_plugin *table);
void table_pack_sampler(str *to, const kiln_sampler *s);
void table_pack_schedule(str *to, const kiln_schedule *s);
void table_pack_others(str *to); /* it registers rows of other kinds: families, types, ops */

typedef struct {
    kiln_plugin table;
    kiln_sampler *sampler;
    size_t n_sampler;
    kiln_schedule *schedule;
    size_t n_schedule;
    int others; /* it registers rows of other kinds */
} unpacked_table;

/* All of it lives in `memory`. KILN_ERR_INVALID with a sentence: the bytes are no such table, or it is a faulty one. */
kiln_status table_unpack(const void *bytes, size_t n, arena *memory, unpacked_table *out, error *e);

#endif
