/* catalog.h - the plugins that loaded and the node types they bring. One a process; read-only once it is open.
 *
 * Samplers, schedules and families register in tables that the process has once (abilities.h). A plugin that cannot be
 * used is kept with its reason and disturbs nothing else.
 */
#ifndef KILN_PLUGIN_CATALOG_H
#define KILN_PLUGIN_CATALOG_H

#include "base/hash.h"
#include "base/status.h"
#include "kiln/plugin.h"

typedef struct {
    char *path;
    const char *id, *version, *license; /* NULL when it did not load */
    char *why;                          /* NULL when it did          */
    const kiln_plugin *table;
    size_t n_node;
    digest identity;    /* of the file's content */
    int shadowed;       /* `why` is only that one of the same id was found earlier on the path */
    int changed_floats; /* loading it changed the floating-point mode; it was put back */
} plugin_info;

typedef struct {
    const kiln_node *node; /* a normalised copy: full size, full strides */
    const plugin_info *plugin;
} node_info;

typedef struct catalog catalog;

/* Looks through the folders of `plugins` (':'-separated, may be NULL), KILN_PLUGIN_PATH and the installed folder, in
 * that order; loads what passes the probe. A folder or plugin that is refused is in the list with its reason. NULL with
 * a message: no memory, or `plugins` names what is not there. One thread, before any other uses plugins. */
catalog *catalog_open(const char *plugins, error *e);
void catalog_close(catalog *c); /* plugins stay loaded until the process ends */

size_t catalog_plugins(const catalog *c);
const plugin_info *catalog_plugin(const catalog *c, size_t i);
size_t catalog_nodes(const catalog *c); /* sorted by type */
const node_info *catalog_node(const catalog *c, size_t i);
const node_info *catalog_find(const catalog *c, const char *type); /* NULL: none */
const char *catalog_nearest(const catalog *c, const char *type);   /* the type of the nearest name, or NULL */

#endif
