/* loader_cache.c - see loader_cache.h. */
#include "run/loader_cache.h"

#include "base/file_list.h"
#include "base/memory_alloc.h"
#include "tensor/value.h"

#include <assert.h>

static void kept_free(kept_loader *k)
{
    for (uint32_t i = 0; k->out && i < k->n; i++) value_unref(k->out[i]);
    mem_free(k->out);
    *k = (kept_loader){0};
}

void loader_cache_init(loader_cache *c)
{
    *c = (loader_cache){0};
    pthread_mutex_init(&c->lock, NULL);
}

void loader_cache_free(loader_cache *c)
{
    for (size_t i = 0; i < LOADERS_KEPT; i++) kept_free(&c->kept[i]);
    pthread_mutex_destroy(&c->lock);
}

/* An object goes on reading its files. When they have changed the node makes it anew. */
static int files_unchanged(const kept_loader *k)
{
    file_list *files = file_list_new();
    error why = {0};
    kiln_status status = files ? KILN_OK : KILN_ERR_NOMEM;
    for (uint32_t o = 0; o < k->n && status == KILN_OK; o++) status = value_add_files(k->out[o], files, &why);
    if (status == KILN_OK) status = file_list_unchanged(files, &why);
    file_list_unref(files);
    return status == KILN_OK;
}

/* 1: it has every output that this node's users take; one that had no users may not have been made. */
static int has_wanted(const kept_loader *k, uint64_t used)
{
    for (uint32_t o = 0; o < k->n; o++)
        if (!k->out[o] && (o >= 64 || (used >> o & 1))) return 0;
    return 1;
}

int loader_cache_take(loader_cache *c, const graph_node *g, kiln_value **out)
{
    int found = 0;
    pthread_mutex_lock(&c->lock);
    for (size_t i = 0; i < LOADERS_KEPT && !found; i++) {
        kept_loader *k = &c->kept[i];
        if (!k->out || !digest_equal(k->key, g->key) || !has_wanted(k, g->used) || !files_unchanged(k)) continue;
        assert(k->n == g->type->n_out);
        for (uint32_t o = 0; o < k->n; o++) out[o] = k->out[o] ? value_ref(k->out[o]) : NULL;
        k->used = ++c->clock;
        found = 1;
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

static int has_objects(kiln_value *const *out, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        if (out[k] && value_kind(out[k]) == KILN_V_OBJECT) return 1;
    return 0;
}

void loader_cache_keep(loader_cache *c, const graph_node *g, kiln_value *const *out)
{
    uint32_t n = g->type->n_out;
    if (!has_objects(out, n)) return;
    kept_loader fresh = {.key = g->key, .n = n, .out = mem_calloc(n + 1u, sizeof *fresh.out)}, old;
    if (!fresh.out) return;
    for (uint32_t o = 0; o < n; o++) {
        if (!out[o]) continue;
        value_publish(out[o]);
        fresh.out[o] = value_ref(out[o]);
    }
    pthread_mutex_lock(&c->lock);
    size_t slot = 0;
    for (size_t i = 1; i < LOADERS_KEPT; i++)
        if (c->kept[i].used < c->kept[slot].used) slot = i;
    old = c->kept[slot];
    fresh.used = ++c->clock;
    c->kept[slot] = fresh;
    pthread_mutex_unlock(&c->lock);
    kept_free(&old); /* a model may be freed here: not under the lock */
}
