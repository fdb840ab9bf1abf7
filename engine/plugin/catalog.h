/* catalog.h - every plugin that was found and every node type that can be used.
 *
 * One catalog a process: samplers, schedules and families register in tables that the process has once (abilities.h).
 * A plugin that cannot be used is kept with its reason and disturbs nothing else.
 */
#ifndef KILN_PLUGIN_CATALOG_H
#define KILN_PLUGIN_CATALOG_H

#include "plugin/loader.h"

typedef struct catalog catalog;

/* Finds and loads all plugins. `list`: what --plugins said, or NULL. Fails only when `list` names what is not there or
 * memory is out; the catalog's refused plugins say the rest. One thread, before any other uses plugins. */
kiln_status catalog_load(const char *list, catalog **out, error *e);
/* Forgets the catalog and the registered rows. Code stays loaded: values may still point into it. NULL is allowed. */
void catalog_free(catalog *c);

size_t catalog_plugin_count(const catalog *c);
const plugin *catalog_plugin(const catalog *c, size_t i); /* in the order found */
size_t catalog_refused(const catalog *c);

size_t catalog_node_count(const catalog *c);
/* The i-th type by name; *from (may be NULL): its plugin. */
const kiln_node *catalog_node(const catalog *c, size_t i, const plugin **from);
/* NULL when there is none of that name. */
const kiln_node *catalog_find(const catalog *c, const char *type, const plugin **from);
/* The type whose name is nearest, or NULL. */
const char *catalog_nearest(const catalog *c, const char *type);

#endif
