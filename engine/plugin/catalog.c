/* catalog.c - all plugins and node types; see catalog.h. */
#include "plugin/catalog.h"

#include "base/array.h"
#include "base/descriptors.h"
#include "base/memory_alloc.h"
#include "base/names.h"
#include "base/str.h"
#include "plugin/abilities.h"
#include "plugin/loader.h"
#include "plugin/process_state.h"
#include "plugin/supervised.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { DESCRIPTORS_SPARE = 4 /* a probe needs three */ };

struct catalog {
    arena memory;
    plugin_list plugins;
    plugin_info *info; /* [plugins.n] */
    node_info *node;
    size_t n_node, node_capacity;
};

/* ---- duplicates ---- */

/* Of several plugins with one id, the first on the path is used. */
static void check_id(catalog *c, plugin *p)
{
    for (const plugin *q = c->plugins.item; q < p; q++) {
        if (q->state != PLUGIN_LOADED || strcmp(q->table.id, p->table.id) != 0) continue;
        plugin_refuse(p, &c->memory, "%s %s was already loaded from %s", q->table.id, q->table.version, q->path);
        p->state = PLUGIN_SHADOWED;
        return;
    }
}

static const node_info *already_there(const catalog *c, const char *type)
{
    for (size_t i = 0; i < c->n_node; i++)
        if (strcmp(c->node[i].node->type, type) == 0) return &c->node[i];
    return NULL;
}

/* A name belongs to the plugin that brought it first. Another one's node of that name gets its plugin's id before it;
 * the rows of the table are ours (plugin_table.h). */
static kiln_status name_types(catalog *c, plugin *p, error *e)
{
    for (size_t i = 0; p->state == PLUGIN_LOADED && i < p->table.n_node; i++) {
        kiln_node *row = (kiln_node *)(uintptr_t)p->table.node[i];
        const node_info *other = already_there(c, row->type);
        if (!other) continue;
        char *own = arena_printf(&c->memory, "%s/%s", p->table.id, row->type);
        if (!own) return error_set(e, KILN_ERR_NOMEM, "out of memory");
        plugin_clash(p, &c->memory, "node type %s of %s (%s) is already taken by %s (%s); use it as %s", row->type,
                     p->table.id, p->path, other->plugin->id, other->plugin->path, own);
        row->type = own;
    }
    return KILN_OK;
}

/* ---- the whole ---- */

static kiln_status add_nodes(catalog *c, size_t index, error *e)
{
    const plugin *p = &c->plugins.item[index];
    size_t need = c->n_node + p->table.n_node;
    if (p->state != PLUGIN_LOADED) return KILN_OK;
    if (!array_reserve(&c->node, &c->node_capacity, need, sizeof *c->node))
        return error_set(e, KILN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < p->table.n_node; i++)
        c->node[c->n_node++] = (node_info){.node = p->table.node[i], .plugin = &c->info[index]};
    return KILN_OK;
}

static void fill_info(plugin_info *info, plugin *p)
{
    *info = (plugin_info){.path = p->path,
                          .identity = p->identity,
                          .shadowed = p->state == PLUGIN_SHADOWED,
                          .disabled = p->state == PLUGIN_DISABLED,
                          .shipped = p->shipped,
                          .trusted = p->shipped || p->trusted,
                          .clash = p->clash,
                          .n_clash = p->n_clash,
                          .changed_floats = p->changed_floats};
    if (p->state != PLUGIN_LOADED) {
        info->why = p->why;
        return;
    }
    info->id = p->table.id, info->version = p->table.version, info->license = p->table.license;
    info->table = &p->table, info->n_node = p->table.n_node;
}

/* kiln's own plugins, or their replacements: plugins of the same id earlier on the path. */
static int has_own_id(const char *id) { return strncmp(id, "org.kiln.", strlen("org.kiln.")) == 0; }
static int is_own(const plugin *p) { return p->state == PLUGIN_LOADED && has_own_id(p->table.id); }

/* Adds the plugin's nodes, samplers and families. */
static kiln_status admit(catalog *c, size_t i, error *e)
{
    plugin *p = &c->plugins.item[i];
    TRY(name_types(c, p, e));
    loader_open(p, &c->memory);
    fill_info(&c->info[i], p);
    return add_nodes(c, i, e);
}

/* Without descriptors good plugins cannot be opened, and messages about missing nodes would hide the reason: so this is
 * an error of its own. */
static kiln_status descriptors_suffice(const catalog *c, error *e)
{
    size_t refused = 0;
    for (size_t i = 0; i < c->plugins.n; i++) refused += c->plugins.item[i].state == PLUGIN_REFUSED;
    return refused && !descriptors_left(DESCRIPTORS_SPARE) ? descriptors_ran_out(c->plugins.n, e) : KILN_OK;
}

/* Admits kiln's own plugins first, so that they have their names wherever another plugin with one of them is on the
 * path. */
static kiln_status load_all(catalog *c, const char *list, error *e)
{
    TRY(loader_search(list, &c->memory, &c->plugins, e));
    c->info = arena_alloc(&c->memory, (c->plugins.n + 1) * sizeof *c->info);
    int *own = arena_alloc(&c->memory, (c->plugins.n + 1) * sizeof *own);
    if (!c->info || !own) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < c->plugins.n; i++) {
        plugin *p = &c->plugins.item[i];
        loader_load(p, &c->memory);
        if (p->state == PLUGIN_LOADED) check_id(c, p);
        own[i] = is_own(p);
    }
    TRY(descriptors_suffice(c, e));
    for (size_t i = 0; i < c->plugins.n; i++)
        if (own[i]) TRY(admit(c, i, e));
    for (size_t i = 0; i < c->plugins.n; i++)
        if (!own[i]) TRY(admit(c, i, e));
    return KILN_OK;
}

static int by_type(const void *a, const void *b)
{
    return strcmp(((const node_info *)a)->node->type, ((const node_info *)b)->node->type);
}

static int against_type(const void *type, const void *n) { return strcmp(type, ((const node_info *)n)->node->type); }

catalog *catalog_open(const char *plugins, error *e)
{
    error own = {0};
    assert(registry_mark() == 0); /* no other catalog is open */
    if (!e) e = &own;
    catalog *c = mem_calloc(1, sizeof *c);
    if (!c) return error_set(e, KILN_ERR_NOMEM, "out of memory"), NULL;
    if (load_all(c, plugins, e) != KILN_OK) {
        catalog_close(c);
        return NULL;
    }
    loader_trust_check();
    if (c->n_node) qsort(c->node, c->n_node, sizeof *c->node, by_type);
    for (size_t i = 0; i < c->plugins.n; i++)
        if (c->info[i].table && !c->info[i].shipped)
            process_state_watch(c->info[i].id, registry_has_rows_of(c->info[i].id));
    return c;
}

void catalog_close(catalog *c)
{
    if (!c) return;
    registry_rewind(0);
    process_state_forget();
    supervised_forget_absent();
    mem_free(c->node);
    arena_free(&c->memory);
    mem_free(c);
}

size_t catalog_plugins(const catalog *c) { return c->plugins.n; }
const plugin_info *catalog_plugin(const catalog *c, size_t i) { return i < c->plugins.n ? &c->info[i] : NULL; }
size_t catalog_nodes(const catalog *c) { return c->n_node; }
const node_info *catalog_node(const catalog *c, size_t i) { return i < c->n_node ? &c->node[i] : NULL; }

const node_info *catalog_find(const catalog *c, const char *type)
{
    const node_info *named = c->n_node ? bsearch(type, c->node, c->n_node, sizeof *c->node, against_type) : NULL;
    const char *slash = strchr(type, '/');
    if (named) return named;
    for (size_t i = 0; slash && i < c->n_node; i++) {
        const node_info *n = &c->node[i];
        size_t id = strlen(n->plugin->id);
        if (id == (size_t)(slash - type) && strncmp(n->plugin->id, type, id) == 0 &&
            strcmp(n->node->type, slash + 1) == 0)
            return n;
    }
    return NULL;
}

const plugin_info *catalog_plugin_of(const catalog *c, const kiln_node *row)
{
    for (size_t i = 0; i < c->n_node; i++)
        if (c->node[i].node == row) return c->node[i].plugin;
    return NULL;
}

int catalog_has_foreign(const catalog *c)
{
    for (size_t i = 0; i < c->plugins.n; i++)
        if (c->info[i].table && !c->info[i].trusted) return 1;
    return 0;
}

static const plugin_info *plugin_of_id(const catalog *c, const char *id)
{
    for (size_t i = 0; i < c->plugins.n; i++)
        if (c->info[i].id && strcmp(c->info[i].id, id) == 0) return &c->info[i];
    return NULL;
}

/* Sums of both halves: the order of plugins does not matter. */
digest catalog_code_of(const catalog *c, const node_info *n)
{
    digest sum = n->plugin->identity;
    if (has_own_id(n->plugin->id)) return sum;
    for (size_t i = 0; registry_provider(i); i++) {
        const plugin_info *p = plugin_of_id(c, registry_provider(i));
        if (p && p != n->plugin) sum.lo += p->identity.lo, sum.hi += p->identity.hi;
    }
    return sum;
}

static const char *type_at(void *self, size_t i) { return ((const catalog *)self)->node[i].node->type; }

const char *catalog_nearest(const catalog *c, const char *type)
{
    return nearest_type(type, type_at, c->n_node, (void *)(uintptr_t)c);
}
