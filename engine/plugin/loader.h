/* loader.h - from a search path to plugins in this process.
 *
 * The search goes through the list given (--plugins), KILN_PLUGIN_PATH, the user's folder (user_plugins.h), then the
 * folders beside the command (../lib/kiln/plugins, and plugins/ in a build tree); the files of a folder are sorted by
 * name. Folders and files that belong to another user, or that others may write, are refused. Plugins are never
 * unloaded. One thread.
 */
#ifndef KILN_PLUGIN_LOADER_H
#define KILN_PLUGIN_LOADER_H

#include "base/hash.h"
#include "plugin/table_pack.h"

typedef enum {
    PLUGIN_LOADED,
    PLUGIN_REFUSED,  /* `why` says what is wrong with it                                     */
    PLUGIN_DISABLED, /* nothing is wrong with it: the user wants it so (user_plugins.h)     */
    PLUGIN_SHADOWED  /* a plugin of the same id is earlier on the search path: `why` says where */
} plugin_state;

typedef struct {
    plugin_state state;
    char *path;        /* real path; of a folder when the whole folder was refused */
    char *why;         /* NULL when loaded                                          */
    kiln_plugin table; /* a checked copy; zero unless the file could be loaded     */
    const char *data;  /* its data folder, see plugin_data.h; NULL: it has none    */
    digest identity;   /* of the file's content and its data's: part of result keys */
    uint64_t device, inode;
    int changed_floats; /* loading it changed the floating-point mode (-ffast-math), which was restored */
    int shipped;        /* it came with kiln                       */
    int trusted;        /* --trust names it, by file or id, or all */
    const char *absent; /* why its code is not in this process, which knows its nodes all the same; NULL: it is */
    int held;           /* it is in another process of this run */
    const unpacked_table *rows; /* of an absent one */
    const char **clash;         /* sentences about names of its that others have */
    size_t n_clash;
} plugin;

typedef struct {
    plugin *item;
    size_t n, capacity;
} plugin_list;

/* Appends every plugin file on the search path, with state PLUGIN_LOADED but not loaded yet, and every refused folder.
 * `list`: folders and files, ':' between them. KILN_ERR_INVALID when a name in `list` or KILN_PLUGIN_PATH does not
 * exist. */
kiln_status loader_search(const char *list, arena *memory, plugin_list *out, error *e);

/* Plugins that the user knows: ids, names of files, or "all". Kept as they are, until the process ends. Of the first
 * n_named, loader_trust_check warns once where no plugin searched for or loaded so far is called so. */
void loader_trust(const char *const *names, size_t n, size_t n_named);
void loader_trust_check(void);
/* 1: there is a plugin file on the search path that did not come with kiln and whose name is not trusted. Loads nothing
 * and says nothing. */
int loader_has_foreign(const char *list);

/* Checks the file at p->path, probes it unless that is remembered, loads it and reads its table; does not call open().
 * On failure p is PLUGIN_REFUSED with the reason. */
void loader_load(plugin *p, arena *memory);
/* Calls open() if the plugin has one. On failure p is PLUGIN_REFUSED and its registered rows are removed. */
void loader_open(plugin *p, arena *memory);

/* Notes that a name of p's is taken. */
void plugin_clash(plugin *p, arena *memory, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Refuses p with a reason; the first reason stays. */
void plugin_refuse(plugin *p, arena *memory, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
