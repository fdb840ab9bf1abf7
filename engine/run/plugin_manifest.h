/* plugin_manifest.h - kiln-plugin.yaml (or .json): what a plugin is, to be read without loading its code.
 *
 *     kiln-plugin: 1                 the version of this format
 *     id: org.example.soft-glow      as the plugin's own table says it, and so version, license and nodes
 *     name: Soft Glow                for people
 *     version: 1.2.0
 *     license: MIT
 *     doc: One line.                 optional
 *     needs: "1.0"                   the version of kiln's contract that it asks for
 *     nodes: [SoftGlow]
 *     files: [soft-glow.so, soft-glow.data]     files and folders beside the manifest; one is the .so
 *
 * docs/plugins.md describes it.
 */
#ifndef KILN_RUN_PLUGIN_MANIFEST_H
#define KILN_RUN_PLUGIN_MANIFEST_H

#include "base/arena.h"
#include "base/str.h"
#include "plugin/catalog.h"

typedef struct {
    const char *path, *folder; /* of the manifest; "" where there is none */
    const char *id, *name, *version, *license, *doc, *needs;
    const char *const *node;
    size_t n_node;
    const char *const *file;
    size_t n_file;
    const char *so; /* the one of `file` */
} plugin_manifest;

/* The manifest in this folder; NULL: it has none. */
const char *manifest_in(arena *a, const char *folder);
/* Reads and checks it; the files it names must be there. The message begins with the place. */
kiln_status manifest_read(arena *a, const char *path, plugin_manifest *out, error *e);
/* The one that names the .so at `path`, beside it. KILN_OK with path "": there is none. */
kiln_status manifest_beside(arena *a, const char *so, plugin_manifest *out, error *e);
/* What a loaded plugin's manifest would be: `data` is the name of its data folder, or NULL. */
kiln_status manifest_made(arena *a, const plugin_info *p, const char *data, plugin_manifest *out, error *e);
/* KILN_ERR_INVALID with every disagreement between the manifest and the loaded plugin. */
kiln_status manifest_agrees(const plugin_manifest *m, const plugin_info *p, error *e);
/* The text of the file, and the members of a JSON object without its braces. */
void manifest_yaml(str *s, const plugin_manifest *m);
void manifest_json(str *s, const plugin_manifest *m);

#endif
