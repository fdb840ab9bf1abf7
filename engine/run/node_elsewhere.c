/* node_elsewhere.c - see node_elsewhere.h. */
#include "run/node_elsewhere.h"

#include "run/plugin_manifest.h"

#include <string.h>

static int lists(const plugin_manifest *m, const char *type)
{
    for (size_t i = 0; i < m->n_node; i++)
        if (strcmp(m->node[i], type) == 0) return 1;
    return 0;
}

static const char *in_folder(arena *a, const char *folder, const char *type)
{
    error ignored = {0};
    plugin_manifest m;
    const char *manifest = folder ? manifest_in(a, folder) : NULL;
    if (!manifest || manifest_read(a, manifest, &m, &ignored) != KILN_OK || !lists(&m, type)) return NULL;
    return arena_printf(a, "it is in %.300s/%.200s: add --plugins %.300s", folder, m.so, folder);
}

static const char *not_loaded(arena *a, const plugin_info *p, const char *type)
{
    error ignored = {0};
    plugin_manifest m;
    if ((!p->disabled && !p->why) || manifest_beside(a, p->path, &m, &ignored) != KILN_OK || !*m.path ||
        !lists(&m, type))
        return NULL;
    if (p->disabled)
        return arena_printf(a, "it is in %.200s, which is disabled: kiln plugin enable %.200s", m.id, m.id);
    return arena_printf(a, "it is in %.300s, which was not loaded: %.300s", p->path, p->why);
}

const char *node_elsewhere(const catalog *c, arena *a, const char *path, const char *type)
{
    const char *slash = path ? strrchr(path, '/') : NULL, *found = in_folder(a, ".", type);
    if (!found && slash && slash > path) found = in_folder(a, arena_strndup(a, path, (size_t)(slash - path)), type);
    for (size_t i = 0; !found && i < catalog_plugins(c); i++) found = not_loaded(a, catalog_plugin(c, i), type);
    return found;
}
