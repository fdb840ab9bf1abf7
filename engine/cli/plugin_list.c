/* plugin_list.c - `kiln plugin list`, `info` and `index`: what plugins are, by their manifests; info loads the one it
 * is asked for. */
#include "cli/cmd_plugin.h"

#include "base/file.h"
#include "base/json_members.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "cli/open_catalog.h"
#include "plugin/abilities.h"
#include "plugin/loader.h"
#include "plugin/user_plugins.h"
#include "workflow/yaml_tree.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { INDEX_BYTES_MAX = 16 << 20, FOUND_MAX = 1024 };

/* ---- what is listed ---- */

/* One line a plugin: id, version, licence, doc, where. */
static void print_line(const plugin_manifest *m, const char *where, const char *state)
{
    print_text(stdout, "%s %s (%s)%s%s%s\n      %s\n", m->id, m->version, m->license, *m->doc ? "  " : "", m->doc,
               state, where);
    for (size_t i = 0; i < m->n_node; i++)
        print_text(stdout, i + 1 == m->n_node ? "%s%s\n" : "%s%s", i ? ", " : "      ", m->node[i]);
}

typedef struct {
    const plugin_request *r;
    str json;
    size_t n, own, without;
    int faults;
} listing;

static void list_one(listing *l, const plugin_manifest *m, const char *where)
{
    const char *disabled = user_plugins_disabled(l->r->memory, m->id, NULL);
    l->n++;
    if (!argument(l->r->args, "--json")) {
        print_line(m, where, disabled ? "  [disabled]" : "");
        return;
    }
    member_next(&l->json);
    str_append(&l->json, "{");
    manifest_json(&l->json, m);
    member_field(&l->json, "path", where), member_bool(&l->json, "disabled", disabled != NULL);
    str_append(&l->json, "}");
}

static void list_fault(listing *l, const error *e)
{
    l->faults++;
    print_text(stderr, "kiln plugin list: %s\n", e->message);
}

/* Of the search path; kiln's own are counted alone. */
static kiln_status list_path(listing *l, error *e)
{
    plugin_list found = {0};
    TRY(loader_search(argument(l->r->args, "--plugins"), l->r->memory, &found, e));
    for (size_t i = 0; i < found.n; i++) {
        plugin_manifest m;
        error own = {0};
        const char *path = found.item[i].path, *slash = strrchr(path, '/');
        if (found.item[i].state != PLUGIN_LOADED)
            error_set(&own, KILN_ERR_INVALID, "%s: %s", path, found.item[i].why), list_fault(l, &own);
        else if (manifest_beside(l->r->memory, path, &m, &own) != KILN_OK)
            list_fault(l, &own);
        else if (*m.path)
            list_one(l, &m, path);
        else if (slash && strncmp(slash + 1, "kiln-", 5) == 0)
            l->own++;
        else if (l->without++ == 0 && argument(l->r->args, "--json"))
            continue;
        else if (!argument(l->r->args, "--json"))
            print_text(stdout, "%s\n      it has no manifest; `kiln plugin info %s` loads it and says what it is\n",
                       path, path);
    }
    return KILN_OK;
}

/* ---- folders ---- */

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* The folders with a manifest: this one, and those in it, by name. */
static size_t folders_with_manifest(const plugin_request *r, const char *folder, const char **out)
{
    size_t n = 0;
    DIR *d = opendir(folder);
    if (manifest_in(r->memory, folder)) out[n++] = folder;
    for (struct dirent *x; d && n < FOUND_MAX && (x = readdir(d));) {
        const char *path = x->d_name[0] == '.' ? NULL : arena_printf(r->memory, "%s/%s", folder, x->d_name);
        if (path && folder_exists(path) && manifest_in(r->memory, path)) out[n++] = path;
    }
    if (d) closedir(d);
    qsort(out, n, sizeof *out, by_name);
    return n;
}

/* It may be gone since it was found. */
static kiln_status read_found(const plugin_request *r, const char *folder, plugin_manifest *m, error *e)
{
    const char *path = manifest_in(r->memory, folder);
    return path ? manifest_read(r->memory, path, m, e)
                : error_set(e, KILN_ERR_IO, "%s: its kiln-plugin.yaml cannot be read", folder);
}

static kiln_status list_folder(listing *l, const char *folder, error *e)
{
    const char **found = arena_alloc(l->r->memory, FOUND_MAX * sizeof *found);
    if (!found) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    size_t n = folders_with_manifest(l->r, folder, found);
    for (size_t i = 0; i < n; i++) {
        plugin_manifest m;
        error own = {0};
        if (read_found(l->r, found[i], &m, &own) == KILN_OK)
            list_one(l, &m, found[i]);
        else
            list_fault(l, &own);
    }
    return n ? KILN_OK : error_set(e, KILN_ERR_INVALID, "no folder in '%s' has a kiln-plugin.yaml", folder);
}

/* ---- an index ---- */

static const char *text_under(const yaml_node *map, const char *key)
{
    const yaml_node *v = yaml_get(map, key);
    return v && v->kind == YAML_SCALAR ? v->text : "";
}

static kiln_status list_index(listing *l, const char *path, error *e)
{
    char *data = NULL;
    size_t size;
    yaml_node *root = NULL;
    TRY(file_read(path, INDEX_BYTES_MAX, &data, &size, e));
    kiln_status status = yaml_tree_read(l->r->memory, path, 0, data, size, &root, e);
    mem_free(data);
    TRY(status);
    const yaml_node *plugins = yaml_get(root, "plugins");
    if (strcmp(text_under(root, "kiln-plugin-index"), "1") != 0 || !plugins || plugins->kind != YAML_SEQUENCE)
        return error_set(e, KILN_ERR_INVALID, "%s: this is no index of plugins (`kiln plugin index FOLDER` writes one)",
                         path);
    for (size_t i = 0; i < plugins->n; i++) {
        const yaml_node *p = plugins->item[i], *nodes = yaml_get(p, "nodes");
        plugin_manifest m = {.id = text_under(p, "id"),
                             .name = text_under(p, "name"),
                             .version = text_under(p, "version"),
                             .license = text_under(p, "license"),
                             .doc = text_under(p, "doc"),
                             .needs = text_under(p, "needs")};
        const char **node = arena_alloc(l->r->memory, ((nodes ? nodes->n : 0) + 1) * sizeof *node);
        for (size_t k = 0; node && nodes && nodes->kind == YAML_SEQUENCE && k < nodes->n; k++)
            if (nodes->item[k]->kind == YAML_SCALAR) node[m.n_node++] = nodes->item[k]->text;
        m.node = node;
        list_one(l, &m, text_under(p, "folder"));
    }
    return KILN_OK;
}

int list_plugins(const plugin_request *r)
{
    error e = {0};
    listing l = {.r = r};
    int json = argument(r->args, "--json") != NULL;
    str_append(&l.json, "[");
    if (!r->n)
        list_path(&l, &e);
    else if (folder_exists(r->operand[0]))
        list_folder(&l, r->operand[0], &e);
    else if (file_exists(r->operand[0]))
        list_index(&l, r->operand[0], &e);
    else
        error_set(&e, KILN_ERR_INVALID, "there is no folder or index '%s'", r->operand[0]);
    str_append(&l.json, "]\n");
    if (json && e.status == KILN_OK) print_str(stdout, &l.json);
    const int others = l.n + l.without > 0;
    if (!json && e.status == KILN_OK && !r->n) {
        print_raw(stdout, others ? "\n" : "");
        print_text(stdout, "%s%zu ship with kiln (`kiln plugins` lists them)\n", others ? "" : "no others; ", l.own);
    }
    str_free(&l.json);
    if (e.status != KILN_OK) return plugin_fail("list", &e);
    return l.faults ? EXIT_RUN_FAILED : EXIT_DONE;
}

/* ---- info ---- */

static const plugin_info *find_loaded(const catalog *c, const char *path, const char *id)
{
    for (size_t i = 0; i < catalog_plugins(c); i++) {
        const plugin_info *p = catalog_plugin(c, i);
        if ((path && strcmp(p->path, path) == 0) || (id && p->id && strcmp(p->id, id) == 0)) return p;
    }
    return NULL;
}

static void print_files(const plugin_manifest *m)
{
    for (size_t i = 0; i < m->n_file; i++) {
        struct stat s;
        char size[16], *path = path_join(m->folder, m->file[i]);
        int there = path && stat(path, &s) == 0;
        print_text(stdout, "%-10s%s%s%s\n", i ? "" : "files", m->file[i], !there || S_ISDIR(s.st_mode) ? "" : "  ",
                   !there || S_ISDIR(s.st_mode) ? "" : str_bytes(size, (uint64_t)s.st_size));
        mem_free(path);
    }
}

/* Names in a registry that this plugin brought. */
static void print_names(const char *from, const char *title, const char *id)
{
    size_t shown = 0;
    const char *name;
    for (size_t i = 0; (name = registry_name(from, i)); i++)
        if (strcmp(registry_owner_of(from, name), id) == 0) print_text(stdout, "%-10s%s\n", shown++ ? "" : title, name);
}

static void print_rows(const plugin_info *p)
{
    const kiln_op_kind *op;
    for (size_t i = 0; i < p->n_node; i++)
        print_text(stdout, "%-10s%s: %s\n", i ? "" : "nodes", p->table->node[i]->type, p->table->node[i]->doc);
    print_names("sampler", "samplers", p->id), print_names("schedule", "schedules", p->id);
    for (size_t i = 0; (op = op_kind_of(p->id, i)); i++)
        print_text(stdout, "%-10s%s: %s\n", i ? "" : "ops", op->name, op->doc);
    for (size_t i = 0, shown = 0; registry_family_owner(i); i++) {
        const kiln_model_family *f = model_api.family_at(NULL, i);
        if (f && strcmp(registry_family_owner(i), p->id) == 0)
            print_text(stdout, "%-10s%s: %s\n", shown++ ? "" : "models", f->name, f->doc);
    }
}

static void print_json(const plugin_info *p, const plugin_manifest *m, const char *state, const char *says)
{
    str s = {0};
    char hex[33];
    str_append(&s, "{");
    if (*m->path) {
        manifest_json(&s, m);
    } else if (p->table) {
        member_field(&s, "id", p->id), member_field(&s, "version", p->version), member_field(&s, "license", p->license);
        member_key(&s, "nodes"), str_append(&s, "[");
        for (size_t i = 0; i < p->n_node; i++) {
            if (i) str_append(&s, ", ");
            str_json(&s, p->table->node[i]->type, strlen(p->table->node[i]->type), 0);
        }
        str_append(&s, "]");
    }
    member_field(&s, "path", p->path), member_field(&s, "state", state);
    if (p->why) member_field(&s, "why", p->why);
    if (p->table) {
        member_key(&s, "contract"),
            str_printf(&s, "\"%u.%u\"", (unsigned)p->table->abi_major, (unsigned)p->table->abi_minor);
        member_field(&s, "identity", digest_hex(p->identity, hex));
    }
    member_field(&s, "manifest", *m->path ? m->path : NULL);
    if (says) member_field(&s, "manifest_differs", says);
    str_append(&s, "}\n");
    print_str(stdout, &s);
    str_free(&s);
}

static void print_info(const plugin_info *p, const plugin_manifest *m, const char *state, const char *says)
{
    const char *id = p->id ? p->id : *m->path ? m->id : "";
    print_text(stdout, "%s %s%s%s\n", id,
               p->version ? p->version
               : *m->path ? m->version
                          : "",
               *m->path ? "  " : "", *m->path ? m->name : "");
    if (*m->path && *m->doc) print_text(stdout, "%s\n", m->doc);
    print_text(stdout, "\n%-10s%s%s%s\n", "state", state, p->why ? ": " : "", p->why ? p->why : "");
    print_text(stdout, "%-10s%s\n", "licence", p->license ? p->license : *m->path ? m->license : "?");
    if (p->table)
        print_text(stdout, "%-10s%u.%u (this kiln has %d.%d)\n", "contract", (unsigned)p->table->abi_major,
                   (unsigned)p->table->abi_minor, KILN_ABI_MAJOR, KILN_ABI_NEWEST);
    print_text(stdout, "%-10s%s\n", "path", p->path);
    if (*m->path) print_files(m);
    print_text(stdout, "%-10s%s%s\n", "manifest", *m->path ? m->path : "none",
               *m->path ? says ? "; it differs from the plugin:" : "; it agrees with the plugin" : "");
    if (says) print_text(stdout, "%-10s%s\n", "", says);
    if (p->table) print_rows(p);
}

int plugin_info_of(const plugin_request *r)
{
    error e = {0}, differs = {0};
    plugin_manifest m;
    const char *named = r->operand[0], *so = plugin_find_so(r, named, &m, &e), *list = argument(r->args, "--plugins");
    char *real = so ? path_real(so) : NULL;
    const char *with = !real ? list : !list ? real : arena_printf(r->memory, "%s:%s", real, list);
    int is_id = !so && !strchr(named, '/') && m.path && !*m.path; /* else its manifest is what cannot be read */
    if (so || is_id) e = (error){0};
    catalog *c = so || is_id ? catalog_open(with, &e) : NULL;
    const plugin_info *p = c ? find_loaded(c, real, is_id ? named : NULL) : NULL;
    if (c && !p) error_set(&e, KILN_ERR_INVALID, "there is no plugin '%s'; `kiln plugins` lists them", named);
    if (p) {
        const char *state = p->table ? "loaded" : p->shadowed ? "shadowed" : p->disabled ? "disabled" : "refused";
        if (p->table && *m.path) manifest_agrees(&m, p, &differs);
        (argument(r->args, "--json") ? print_json : print_info)(p, &m, state,
                                                                *differs.message ? differs.message : NULL);
    }
    int status = !p                                                                ? plugin_fail("info", &e)
                 : (!p->table && !p->shadowed && !p->disabled) || *differs.message ? EXIT_RUN_FAILED
                                                                                   : EXIT_DONE;
    catalog_close(c);
    mem_free(real);
    return status;
}

/* ---- index ---- */

/* What the .so was compiled for, by its ELF header (e_machine). */
static const char *machine_of(const char *so)
{
    unsigned char head[20] = {0};
    FILE *f = fopen(so, "rb");
    size_t n = f ? fread(head, 1, sizeof head, f) : 0;
    if (f) fclose(f);
    if (n != sizeof head || memcmp(head, "\177ELF", 4) != 0) return NULL;
    return head[18] == 62 ? "x86_64" : head[18] == 183 ? "aarch64" : "another";
}

static kiln_status index_file(str *s, const plugin_manifest *m, const char *name, error *e)
{
    char hex[33];
    struct stat st;
    digest d = {0};
    char *path = path_join(m->folder, name);
    kiln_status status =
        path && stat(path, &st) == 0 ? file_digest(path, &d, e) : error_set(e, KILN_ERR_IO, "%s: it is gone", name);
    member_next(s);
    str_append(s, "{");
    member_field(s, "path", name);
    if (status == KILN_OK && S_ISREG(st.st_mode))
        member_key(s, "bytes"), str_printf(s, "%llu", (unsigned long long)st.st_size);
    member_field(s, "xxh128", digest_hex(d, hex));
    str_append(s, "}");
    mem_free(path);
    return status;
}

static kiln_status index_one(str *s, const plugin_manifest *m, const char *below, error *e)
{
    char *so = path_join(m->folder, m->so);
    const char *machine = so ? machine_of(so) : NULL;
    mem_free(so);
    if (!machine) return error_set(e, KILN_ERR_INVALID, "%s: %s is no shared object", m->path, m->so);
    str_append(s, s->len && s->data[s->len - 1] == '}' ? ",\n  {" : "\n  {");
    manifest_json(s, m);
    member_field(s, "machine", machine), member_field(s, "folder", below);
    member_key(s, "files"), str_append(s, "[");
    for (size_t i = 0; i < m->n_file; i++) TRY(index_file(s, m, m->file[i], e));
    str_append(s, "]}");
    return KILN_OK;
}

static kiln_status write_index(const plugin_request *r, const char *folder, const char *to, size_t *n, error *e)
{
    const char **found = arena_alloc(r->memory, FOUND_MAX * sizeof *found);
    str s = {0};
    kiln_status status = KILN_OK;
    if (!found) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    *n = folders_with_manifest(r, folder, found);
    if (!*n) return error_set(e, KILN_ERR_INVALID, "no folder in '%s' has a kiln-plugin.yaml", folder);
    str_append(&s, "{\"kiln-plugin-index\": 1, \"plugins\": [");
    for (size_t i = 0; status == KILN_OK && i < *n; i++) {
        plugin_manifest m;
        const char *below = strlen(found[i]) > strlen(folder) ? found[i] + strlen(folder) + 1 : ".";
        status = read_found(r, found[i], &m, e);
        if (status == KILN_OK) status = index_one(&s, &m, below, e);
    }
    str_append(&s, "\n]}\n");
    if (status == KILN_OK && s.failed) status = error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (status == KILN_OK) status = file_write_whole(to, str_text(&s), s.len, e);
    str_free(&s);
    return status;
}

int plugin_index(const plugin_request *r)
{
    error e = {0};
    size_t n = 0;
    const char *folder = r->operand[0], *to = argument(r->args, "--output");
    if (!folder_exists(folder))
        return error_set(&e, KILN_ERR_INVALID, "there is no folder '%s'", folder), plugin_fail("index", &e);
    while (folder && strlen(folder) > 1 && folder[strlen(folder) - 1] == '/')
        folder = arena_strndup(r->memory, folder, strlen(folder) - 1);
    if (folder && !to) to = arena_printf(r->memory, "%s/kiln-plugins.json", folder);
    if (!to || !folder) return error_set(&e, KILN_ERR_NOMEM, "out of memory"), plugin_fail("index", &e);
    if (write_index(r, folder, to, &n, &e) != KILN_OK) return plugin_fail("index", &e);
    print_text(stdout, "%s: %zu plugin%s\n", to, n, n == 1 ? "" : "s");
    return EXIT_DONE;
}
