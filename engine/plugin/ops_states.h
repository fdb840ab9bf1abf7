/* ops_states.h - kiln_states of kiln.ops/1 for the table in ability_ops.c: made for a call, and as values. */
#ifndef KILN_PLUGIN_OPS_STATES_H
#define KILN_PLUGIN_OPS_STATES_H

#include "kiln/ops.h"

kiln_states *ops_states_new(kiln_ctx *c, const char *label);
kiln_states *ops_states_fork(kiln_ctx *c, kiln_states *s);
kiln_value *ops_states_save(kiln_ctx *c, kiln_states *s);
kiln_status ops_states_load(kiln_ctx *c, kiln_states *s, const kiln_value *v);

#endif
