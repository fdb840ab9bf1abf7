/* call_again.h - for `kiln check-plugin`: in a run of a workflow each node of one plugin is called again with the
 * inputs that it got there, models and all, which nothing but a run can bring. KILN_CHECK_AGAIN=ID:FOLDER in the
 * environment asks for it: the plugin's id, and a folder where findings (lines "TEST\tNODE\ttext" of the file `again`)
 * and files that such calls write go. With --validate alone. Families, samplers, schedules and ops of that plugin that
 * the run asked for are noted there too, as "used".
 */
#ifndef KILN_PLUGIN_CALL_AGAIN_H
#define KILN_PLUGIN_CALL_AGAIN_H

#include "plugin/ctx.h"

typedef struct {
    const call_environment *env;
    size_t node;
    const char *name, *plugin;
    const kiln_node *type;
    void *instance;
    const void *params;
    kiln_value *const *in;
    kiln_value *const *out; /* what the call has made */
} made_call;

/* After a call that has succeeded. Each node once a run. */
void call_again(const made_call *m);

/* The run takes the row `name` ("family", "sampler", "schedule", "op") of this plugin; noted once. */
void call_again_used(const char *plugin, const char *kind, const char *name);

#endif
