/* catalog.c - all plugins and node types; see catalog.h. */
#include "plugin/catalog.h"

#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "plugin/abilities.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const kiln_node *type;
    size_t from; /* index in plugins */
} entry;

struct catalog {
    arena memory;
    plugin_list plugins;
    entry *node;
    size_t n_node, room_node;
};

/* ---- duplicates ---------------------------------------------------------------------------------------------------- */

static const entry *entry_of(const catalog *c, const char *type)
{
    for (size_t i = 0; i < c->n_node; i++)
        if (strcmp(c->node[i].type->type, type) == 0) return &c->node[i];
    return NULL;
}

/* One id, one plugin: the first on the path. */
static void check_id(catalog *c, plugin *p)
{
    for (const plugin *q = c->plugins.item; q < p; q++) {
        if (q->state != PLUGIN_LOADED || strcmp(q->table.id, p->table.id) != 0) continue;
        plugin_refuse(p, &c->memory, "%s %s was already loaded from %s", q->table.id, q->table.version, q->path);
        p->state = PLUGIN_SHADOWED;
        return;
    }
}

static void check_types(catalog *c, plugin *p)
{
    for (size_t i = 0; p->state == PLUGIN_LOADED && i < p->table.n_node; i++) {
        const entry *other = entry_of(c, p->table.node[i]->type);
        if (!other) continue;
        const plugin *q = &c->plugins.item[other->from];
        plugin_refuse(p, &c->memory, "node type %s of %s is already taken by %s (%s); use one of the two plugins, or rename the node", p->table.node[i]->type,
                      p->table.id, q->table.id, q->path);
    }
}

static int by_type(const void *a, const void *b) { return strcmp(((const entry *)a)->type->type, ((const entry *)b)->type->type); }

static kiln_status add_nodes(catalog *c, size_t index, error *e)
{
    const plugin *p = &c->plugins.item[index];
    if (p->state != PLUGIN_LOADED) return KILN_OK;
    size_t need = c->n_node + p->table.n_node;
    if (need > c->room_node) {
        entry *node = mem_realloc(c->node, need * 2 * sizeof *node);
        if (!node) return error_set(e, KILN_ERR_NOMEM, "out of memory");
        c->node = node, c->room_node = need * 2;
    }
    for (size_t i = 0; i < p->table.n_node; i++) c->node[c->n_node++] = (entry){.type = p->table.node[i], .from = index};
    return KILN_OK;
}

/* ---- the whole ------------------------------------------------------------------------------------------------------ */

kiln_status catalog_load(const char *list, catalog **out, error *e)
{
    catalog *c = mem_calloc(1, sizeof *c);
    *out = NULL;
    if (!c) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    kiln_status status = loader_search(list, &c->memory, &c->plugins, e);
    for (size_t i = 0; status == KILN_OK && i < c->plugins.n; i++) {
        plugin *p = &c->plugins.item[i];
        loader_load(p, &c->memory);
        if (p->state == PLUGIN_LOADED) check_id(c, p);
        if (p->state == PLUGIN_LOADED) check_types(c, p);
        loader_open(p, &c->memory);
        status = add_nodes(c, i, e);
        if (p->state == PLUGIN_REFUSED) log_debug("%s: not loaded: %s", p->path, p->why);
    }
    if (status != KILN_OK) {
        catalog_free(c);
        return status;
    }
    if (c->n_node) qsort(c->node, c->n_node, sizeof *c->node, by_type);
    *out = c;
    return KILN_OK;
}

void catalog_free(catalog *c)
{
    if (!c) return;
    registry_rewind(0);
    mem_free(c->node);
    arena_free(&c->memory);
    mem_free(c);
}

size_t catalog_plugin_count(const catalog *c) { return c->plugins.n; }
const plugin *catalog_plugin(const catalog *c, size_t i) { return i < c->plugins.n ? &c->plugins.item[i] : NULL; }

size_t catalog_refused(const catalog *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->plugins.n; i++) n += c->plugins.item[i].state == PLUGIN_REFUSED;
    return n;
}

size_t catalog_node_count(const catalog *c) { return c->n_node; }

const kiln_node *catalog_node(const catalog *c, size_t i, const plugin **from)
{
    if (i >= c->n_node) return NULL;
    if (from) *from = &c->plugins.item[c->node[i].from];
    return c->node[i].type;
}

const kiln_node *catalog_find(const catalog *c, const char *type, const plugin **from)
{
    const entry *found = entry_of(c, type);
    if (found && from) *from = &c->plugins.item[found->from];
    return found ? found->type : NULL;
}

static const char *type_at(void *self, size_t i) { return ((const catalog *)self)->node[i].type->type; }

const char *catalog_nearest(const catalog *c, const char *type) { return nearest_name(type, type_at, c->n_node, (void *)(uintptr_t)c); }
