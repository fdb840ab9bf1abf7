/* cmd_plugin.h - the actions of `kiln plugin`, each in a file of its own or with those it is like. */
#ifndef KILN_CLI_CMD_PLUGIN_H
#define KILN_CLI_CMD_PLUGIN_H

#include "cli/command.h"
#include "run/plugin_manifest.h"

/* What an action is called with: the operands behind its name. Memory goes when the command ends. */
typedef struct {
    const arguments *args;
    const char *const *operand;
    size_t n;
    arena *memory;
} plugin_request;

/* Exit statuses; what is wrong was said. */
int plugin_new(const plugin_request *r);
int plugin_check(const plugin_request *r);
int plugin_install(const plugin_request *r);
int plugin_remove(const plugin_request *r);
int list_plugins(const plugin_request *r);
int plugin_info_of(const plugin_request *r);
int plugin_index(const plugin_request *r);
int plugin_enable(const plugin_request *r);
int plugin_disable(const plugin_request *r);

/* Where the plugin is that an operand names: a .so, a folder with a manifest, or the id of one whose manifest is on the
 * search path. `m` has path "" where it has no manifest. NULL with a message. */
const char *plugin_find_so(const plugin_request *r, const char *named, plugin_manifest *m, error *e);
/* Prints the message behind "kiln plugin ACTION: " and answers with the status that goes with it. */
int plugin_fail(const char *action, const error *e);

#endif
