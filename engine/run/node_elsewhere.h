/* node_elsewhere.h - where a node type is that no loaded plugin has: in a plugin that was not named, is disabled, or
 * was not loaded. Only manifests are read (plugin_manifest.h); no code is loaded for it.
 */
#ifndef KILN_RUN_NODE_ELSEWHERE_H
#define KILN_RUN_NODE_ELSEWHERE_H

#include "base/arena.h"
#include "plugin/catalog.h"

/* "it is in ./x.so: add --plugins .", in a; NULL: nowhere that is known. Looked at: the working folder, that of the
 * workflow at `path`, and what of the catalog was not loaded. */
const char *node_elsewhere(const catalog *c, arena *a, const char *path, const char *type);

#endif
