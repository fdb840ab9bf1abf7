/* loader.h - from a search path to plugins in this process.
 *
 * Folders are searched in order, the files of each by name: the list given (--plugins), KILN_PLUGIN_PATH, then what is
 * installed beside the command (../lib/kiln/plugins, and plugins/ in a build tree). A folder or file that somebody else
 * may write, or that belongs to somebody else, is refused. Nothing is ever unloaded. One thread.
 */
#ifndef KILN_PLUGIN_LOADER_H
#define KILN_PLUGIN_LOADER_H

#include "base/hash.h"
#include "plugin/plugin_table.h"

typedef enum {
    PLUGIN_LOADED,
    PLUGIN_REFUSED, /* something is wrong with it: `why`                                    */
    PLUGIN_SHADOWED /* one of the same id was found earlier on the search path: `why` says where */
} plugin_state;

typedef struct {
    plugin_state state;
    char *path;        /* real path; of a folder when the whole folder was refused */
    char *why;         /* NULL when loaded                                          */
    kiln_plugin table; /* the checked copy; zero unless the file could be loaded   */
    const char *data;  /* the folder of files it ships, see plugin_data.h; NULL: none */
    digest identity;   /* of the file's content and its data's: part of result keys */
    uint64_t device, inode;
    int changed_floats; /* loading it changed the floating-point mode (-ffast-math); it was put back */
} plugin;

typedef struct {
    plugin *item;
    size_t n, capacity;
} plugin_list;

/* Appends every file that the path leads to, state PLUGIN_LOADED and not yet loaded, and every refused folder. A name
 * in `list` (':' between them; folders or single files) that does not exist is KILN_ERR_INVALID; what is missing
 * elsewhere is passed over. */
kiln_status loader_search(const char *list, arena *memory, plugin_list *out, error *e);

/* Checks, probes (unless remembered), loads and reads the file of p->path. On failure p is REFUSED with its reason. Its
 * open() has not been called. */
void loader_load(plugin *p, arena *memory);
/* Calls open(), if it has one. On failure p is REFUSED and what it registered is gone. */
void loader_open(plugin *p, arena *memory);

/* Marks p as refused with a reason; the first is kept. */
void plugin_refuse(plugin *p, arena *memory, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
