/* catalog.h - the loaded plugins and their node types. One at a time in a process; read-only once it is open.
 *
 * Samplers, schedules and families are registered in tables of the process (abilities.h), which catalog_close empties.
 * A plugin that cannot be used stays listed with the reason and does not affect the others.
 */
#ifndef KILN_PLUGIN_CATALOG_H
#define KILN_PLUGIN_CATALOG_H

#include "base/hash.h"
#include "base/status.h"
#include "kiln/plugin.h"

typedef struct {
    char *path;
    const char *id, *version, *license; /* NULL when it was not loaded */
    char *why;                          /* NULL when it was            */
    const kiln_plugin *table;
    size_t n_node;
    digest identity;    /* of the file's content */
    int shadowed;       /* nothing is wrong with it, but a plugin of the same id is earlier on the path */
    int disabled;       /* nothing is wrong with it: the user has disabled it */
    int changed_floats; /* loading it changed the floating-point mode, which was restored */
    int shipped;        /* it came with kiln */
    int trusted;        /* loader_trust names it, or it came with kiln */
    /* Sentences about names of its that another plugin has: the nodes and samplers are called "ID/NAME". */
    const char *const *clash;
    size_t n_clash;
} plugin_info;

typedef struct {
    const kiln_node *node; /* a copy with the engine's own struct sizes and strides */
    const plugin_info *plugin;
} node_info;

typedef struct catalog catalog;

/* Searches `plugins` (folders and files, ':' between them; may be NULL), KILN_PLUGIN_PATH and the installed folder, in
 * that order, and loads what passes the probe. Refused folders and plugins are listed with the reason. NULL with a
 * message: no memory, or a name in `plugins` does not exist. One thread, before any other uses plugins. */
catalog *catalog_open(const char *plugins, error *e);
void catalog_close(catalog *c); /* plugins stay loaded until the process ends */

size_t catalog_plugins(const catalog *c);
const plugin_info *catalog_plugin(const catalog *c, size_t i);
size_t catalog_nodes(const catalog *c); /* sorted by type */
const node_info *catalog_node(const catalog *c, size_t i);
/* By its name, or by its plugin's id before it: "org.example.x/ImageInvert". NULL: none. */
const node_info *catalog_find(const catalog *c, const char *type);
/* The plugin of a node's row in this catalog; NULL: it is no row of it. */
const plugin_info *catalog_plugin_of(const catalog *c, const kiln_node *row);
/* 1: a plugin that neither came with kiln nor is trusted is loaded. */
int catalog_has_foreign(const catalog *c);
/* The code that a node may run, for its key: its plugin's, and for plugins that are not kiln's own the code of every
 * plugin that provides an ability. */
digest catalog_code_of(const catalog *c, const node_info *n);
const char *catalog_nearest(const catalog *c, const char *type); /* the most similar type name, or NULL */

#endif
