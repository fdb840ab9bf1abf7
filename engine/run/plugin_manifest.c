/* plugin_manifest.c - see plugin_manifest.h. */
#include "run/plugin_manifest.h"

#include "base/file.h"
#include "base/json_members.h"
#include "base/memory_alloc.h"
#include "base/names.h"
#include "workflow/yaml_tree.h"

#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 1 << 20, ITEMS_MAX = 4096 };

/* ---- reading ---- */

typedef struct {
    arena *a;
    const char *path;
    error *e;
} reading;

static kiln_status wrong(const reading *r, const yaml_node *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static kiln_status wrong(const reading *r, const yaml_node *at, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    error_setv(r->e, KILN_ERR_INVALID, fmt, args);
    va_end(args);
    error_prefix(r->e, "%s:%u:%u", r->path, at->at.line, at->at.column);
    return KILN_ERR_INVALID;
}

static const char *const keys[] = {"kiln-plugin", "id", "name", "version", "license", "doc", "needs", "nodes", "files"};
enum { N_KEYS = sizeof keys / sizeof keys[0] };

static kiln_status known_keys(const reading *r, const yaml_node *root)
{
    for (size_t i = 0; i < root->n; i++) {
        const char *key = root->key[i]->text, *near;
        size_t k = 0;
        while (k < N_KEYS && strcmp(keys[k], key) != 0) k++;
        if (k < N_KEYS) continue;
        near = nearest_of(key, keys, N_KEYS);
        return wrong(r, root->key[i], "a manifest has no '%s'%s%s%s", key, near ? "; did you mean '" : "",
                     near ? near : "", near ? "'?" : "");
    }
    return KILN_OK;
}

/* A line of text under a key. */
static kiln_status text_of(const reading *r, const yaml_node *root, const char *key, int optional, const char **out)
{
    const yaml_node *v = yaml_get(root, key);
    *out = "";
    if (!v && optional) return KILN_OK;
    if (!v) return wrong(r, root, "it does not say %s", key);
    if (v->kind != YAML_SCALAR || !line_is_valid(v->text)) return wrong(r, v, "%s: it is one line of text", key);
    *out = v->text;
    return KILN_OK;
}

static kiln_status list_of(const reading *r, const yaml_node *root, const char *key, const char *const **out, size_t *n)
{
    const yaml_node *v = yaml_get(root, key);
    *n = 0;
    if (!v) return wrong(r, root, "it does not say %s", key);
    if (v->kind != YAML_SEQUENCE || v->n > ITEMS_MAX) return wrong(r, v, "%s: it is a list of names, as [A, B]", key);
    const char **item = arena_alloc(r->a, (v->n + 1) * sizeof *item);
    if (!item) return error_set(r->e, KILN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < v->n; i++) {
        if (v->item[i]->kind != YAML_SCALAR || !line_is_valid(v->item[i]->text))
            return wrong(r, v->item[i], "%s: it is a list of names, as [A, B]", key);
        item[i] = v->item[i]->text;
    }
    *out = item, *n = v->n;
    return KILN_OK;
}

/* A path below the manifest's folder. */
static int stays_below(const char *path)
{
    if (path[0] == '/' || path[0] == '\0') return 0;
    for (const char *p = path; *p; p += p[strcspn(p, "/")] == '/' ? strcspn(p, "/") + 1 : strcspn(p, "/")) {
        size_t n = strcspn(p, "/");
        if (n == 0 || (n <= 2 && strncmp(p, "..", n) == 0)) return 0;
    }
    return 1;
}

static int is_so(const char *name)
{
    size_t n = strlen(name);
    return n > 3 && strcmp(name + n - 3, ".so") == 0 && !strchr(name, '/');
}

static kiln_status check_files(const reading *r, const yaml_node *at, plugin_manifest *m)
{
    for (size_t i = 0; i < m->n_file; i++) {
        char *path = path_join(m->folder, m->file[i]);
        if (!path) return error_set(r->e, KILN_ERR_NOMEM, "out of memory");
        int there = file_exists(path) || folder_exists(path);
        mem_free(path);
        if (!stays_below(m->file[i]))
            return wrong(r, at, "files: '%s' is no path below the manifest's folder", m->file[i]);
        if (is_so(m->file[i]) && m->so)
            return wrong(r, at, "files: both %s and %s; a plugin is one .so", m->so, m->file[i]);
        if (is_so(m->file[i])) m->so = m->file[i];
        if (!there)
            return wrong(r, at, "files: there is no '%s' beside the manifest%s", m->file[i],
                         is_so(m->file[i]) ? "; is it built?" : "");
    }
    return m->so ? KILN_OK : wrong(r, at, "files: none of them is the plugin's .so");
}

static kiln_status read_tree(const reading *r, const yaml_node *root, plugin_manifest *m)
{
    const char *format;
    if (!root || root->kind != YAML_MAP)
        return error_set(r->e, KILN_ERR_INVALID, "%s: this is no manifest of a plugin", r->path);
    TRY(known_keys(r, root));
    TRY(text_of(r, root, "kiln-plugin", 0, &format));
    if (strcmp(format, "1") != 0)
        return wrong(r, yaml_get(root, "kiln-plugin"), "this manifest is of version %s; this kiln reads version 1",
                     format);
    TRY(text_of(r, root, "id", 0, &m->id));
    TRY(text_of(r, root, "name", 0, &m->name));
    TRY(text_of(r, root, "version", 0, &m->version));
    TRY(text_of(r, root, "license", 0, &m->license));
    TRY(text_of(r, root, "doc", 1, &m->doc));
    TRY(text_of(r, root, "needs", 0, &m->needs));
    if (!name_is_valid(m->id) || m->id[0] == '.')
        return wrong(r, yaml_get(root, "id"), "id: '%s' is no id; it is like org.example.soft-glow", m->id);
    if (m->needs[strspn(m->needs, "0123456789.")] || !strchr(m->needs, '.'))
        return wrong(r, yaml_get(root, "needs"), "needs: '%s' is no version of the contract; it is like \"1.0\"",
                     m->needs);
    TRY(list_of(r, root, "nodes", &m->node, &m->n_node));
    TRY(list_of(r, root, "files", &m->file, &m->n_file));
    return check_files(r, yaml_get(root, "files"), m);
}

const char *manifest_in(arena *a, const char *folder)
{
    static const char *const names[] = {"kiln-plugin.yaml", "kiln-plugin.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = path_join(folder, names[i]);
        const char *kept = path && file_exists(path) ? arena_strdup(a, path) : NULL;
        mem_free(path);
        if (kept) return kept;
    }
    return NULL;
}

kiln_status manifest_read(arena *a, const char *path, plugin_manifest *out, error *e)
{
    reading r = {.a = a, .path = path, .e = e};
    char *data = NULL;
    size_t size = 0;
    yaml_node *root = NULL;
    const char *slash = strrchr(path, '/');
    *out = (plugin_manifest){.path = arena_strdup(a, path)};
    out->folder = !slash ? "." : slash == path ? "/" : arena_strndup(a, path, (size_t)(slash - path));
    if (!out->path || !out->folder) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    TRY(file_read(path, BYTES_MAX, &data, &size, e));
    kiln_status status = yaml_tree_read(a, path, 0, data, size, &root, e);
    if (status == KILN_OK) status = read_tree(&r, root, out);
    mem_free(data);
    return status;
}

kiln_status manifest_beside(arena *a, const char *so, plugin_manifest *out, error *e)
{
    const char *slash = strrchr(so, '/'), *name = slash ? slash + 1 : so, *path;
    const char *folder = !slash ? "." : slash == so ? "/" : arena_strndup(a, so, (size_t)(slash - so));
    *out = (plugin_manifest){.path = "", .folder = ""};
    if (!folder) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (!(path = manifest_in(a, folder))) return KILN_OK;
    kiln_status status = manifest_read(a, path, out, e);
    if (status == KILN_OK && strcmp(out->so, name) != 0)
        *out = (plugin_manifest){.path = "", .folder = ""}; /* of another one */
    return status;
}

/* ---- making and comparing ---- */

static const char *needs_of(arena *a, const kiln_plugin *t)
{
    return arena_printf(a, "%u.%u", (unsigned)t->abi_major, (unsigned)t->abi_minor);
}

kiln_status manifest_made(arena *a, const plugin_info *p, const char *data, plugin_manifest *out, error *e)
{
    const char *slash = strrchr(p->path, '/'), *so = arena_strdup(a, slash ? slash + 1 : p->path);
    const char **node = arena_alloc(a, (p->n_node + 1) * sizeof *node), **file = arena_alloc(a, 2 * sizeof *file);
    *out = (plugin_manifest){
        .path = "", .folder = "", .id = p->id, .name = p->id, .version = p->version, .license = p->license, .doc = ""};
    out->needs = needs_of(a, p->table);
    if (!so || !node || !file || !out->needs) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < p->n_node; i++) node[i] = p->table->node[i]->type;
    file[0] = so, file[1] = data;
    out->so = so, out->node = node, out->n_node = p->n_node, out->file = file, out->n_file = data ? 2 : 1;
    return KILN_OK;
}

static int has(const char *const *list, size_t n, const char *name)
{
    size_t i = 0;
    while (i < n && strcmp(list[i], name) != 0) i++;
    return i < n;
}

/* One more difference, behind the others. */
static void differ(str *s, const char *what, const char *says, const char *is)
{
    str_printf(s, "%s%s '%s' in the manifest, '%s' in the plugin", s->len ? "; " : "", what, says, is);
}

kiln_status manifest_agrees(const plugin_manifest *m, const plugin_info *p, error *e)
{
    arena a = {0};
    str s = {0};
    const char *needs = needs_of(&a, p->table);
    if (strcmp(m->id, p->id) != 0) differ(&s, "id", m->id, p->id);
    if (strcmp(m->version, p->version) != 0) differ(&s, "version", m->version, p->version);
    if (strcmp(m->license, p->license) != 0) differ(&s, "license", m->license, p->license);
    if (needs && strcmp(m->needs, needs) != 0) differ(&s, "needs", m->needs, needs);
    for (size_t i = 0; i < p->n_node; i++)
        if (!has(m->node, m->n_node, p->table->node[i]->type))
            str_printf(&s, "%snode %s is not in the manifest", s.len ? "; " : "", p->table->node[i]->type);
    for (size_t i = 0; i < m->n_node; i++) {
        size_t k = 0;
        while (k < p->n_node && strcmp(m->node[i], p->table->node[k]->type) != 0) k++;
        if (k == p->n_node) str_printf(&s, "%sthe plugin has no node %s", s.len ? "; " : "", m->node[i]);
    }
    kiln_status status = s.failed || !needs ? error_set(e, KILN_ERR_NOMEM, "out of memory")
                         : s.len            ? error_set(e, KILN_ERR_INVALID, "%s: %s", m->path, str_text(&s))
                                            : KILN_OK;
    str_free(&s);
    arena_free(&a);
    return status;
}

/* ---- writing ---- */

static void put_list(str *s, const char *const *item, size_t n)
{
    str_append(s, "[");
    for (size_t i = 0; i < n; i++) {
        if (i) str_append(s, ", ");
        str_json(s, item[i], strlen(item[i]), 0);
    }
    str_append(s, "]");
}

static void put_line(str *s, const char *key, const char *text)
{
    str_printf(s, "%s: ", key);
    str_json(s, text, strlen(text), 0); /* a JSON string is one of YAML's */
    str_append(s, "\n");
}

void manifest_yaml(str *s, const plugin_manifest *m)
{
    str_append(s, "kiln-plugin: 1\n");
    put_line(s, "id", m->id), put_line(s, "name", m->name), put_line(s, "version", m->version);
    put_line(s, "license", m->license);
    if (*m->doc) put_line(s, "doc", m->doc);
    put_line(s, "needs", m->needs);
    str_append(s, "nodes: "), put_list(s, m->node, m->n_node);
    str_append(s, "\nfiles: "), put_list(s, m->file, m->n_file), str_append(s, "\n");
}

void manifest_json(str *s, const plugin_manifest *m)
{
    member_field(s, "id", m->id), member_field(s, "name", m->name), member_field(s, "version", m->version);
    member_field(s, "license", m->license), member_field(s, "doc", m->doc), member_field(s, "needs", m->needs);
    member_key(s, "nodes"), put_list(s, m->node, m->n_node);
}
