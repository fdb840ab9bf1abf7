/* key.c - see key.h. Each field is fed with its tag and length, so that no two different nodes feed alike. */
#include "workflow/key.h"

#include "base/file_list.h"
#include "param/param_key.h"

#include <string.h>

static const char key_version[] = "kiln-key/1";

/* A name stands for code of whatever plugin registered it. */
static void hash_origin(hasher *h, const kiln_param *p, const char *name, const key_setting *on)
{
    digest content;
    if (name && on->origin && on->origin(on->arg, p->from, name, &content)) hash_digest(h, content);
}

static int makes_models(const kiln_node *t)
{
    for (uint32_t i = 0; i < t->n_out; i++) {
        const char *type = node_out(t, i)->type;
        if (strcmp(type, "MODEL") == 0 || strcmp(type, "CLIP") == 0 || strcmp(type, "VAE") == 0) return 1;
    }
    return 0;
}

typedef struct {
    hasher *h;
    file_list *seen;
} file_hash;

static kiln_status hash_file(void *to, const char *path, error *e)
{
    file_hash *f = to;
    digest content;
    TRY(file_digest_seen(path, f->seen, &content, e));
    hash_digest(f->h, content);
    return KILN_OK;
}

static kiln_status hash_files(hasher *h, const char *path, const key_setting *on, file_list *seen, error *e)
{
    file_hash f = {h, seen};
    TRY(hash_file(&f, path, e));
    return on->beside ? on->beside(on->arg, path, hash_file, &f, e) : KILN_OK;
}

/* A parameter's own part is param_key.h's; a file stands for its content, a name for the code behind it. */
static kiln_status hash_param(hasher *h, const graph_node *g, const kiln_param *p, uint32_t index,
                              const key_setting *on, file_list *seen, error *e)
{
    param_hash(h, p, g->params);
    if (p->type == KILN_P_NAME) hash_origin(h, p, param_get(p, g->params).text, on);
    if (p->type != KILN_P_FILE) return KILN_OK;
    if (g->file[index]) return hash_files(h, g->file[index], on, seen, e);
    hash_text(h, NULL);
    return KILN_OK;
}

/* The node will say what is wrong with the file; hours of reading would not. */
static int is_unreadable(const graph_node *g, const kiln_param *p, uint32_t index, const key_setting *on)
{
    return p->type == KILN_P_FILE && g->file[index] && on->unreadable && on->unreadable(on->arg, g->file[index]);
}

/* w NULL: what is wired in stays out. */
static int hash_source(hasher *h, const workflow *w, source s)
{
    if (!w) return 1;
    hash_digest(h, w->node[s.node].key);
    hash_u64(h, s.output);
    return w->node[s.node].cacheable;
}

/* w NULL: *g's own part alone, into `self`. */
static kiln_status node_key(const workflow *w, graph_node *g, const key_setting *on, hasher *h, file_list *seen,
                            error *e)
{
    const kiln_node *t = g->type;
    int cacheable = (t->flags & KILN_NODE_PURE) != 0;
    hasher_reset(h);
    hash_text(h, key_version);
    hash_text(h, t->type);
    hash_u64(h, t->revision);
    hash_digest(h, g->plugin);
    if (!(t->flags & KILN_NODE_PURE)) hash_text(h, g->doc->name);
    if (makes_models(t)) hash_digest(h, on->families);
    if (t->flags & KILN_NODE_DEVICE) {
        hash_text(h, on->device);
        hash_text(h, on->precision);
        hash_text(h, on->numerics);
        hash_text(h, on->engine);
    }
    for (uint32_t i = 0; i < t->n_param; i++) {
        const kiln_param *p = node_param(t, i);
        if (p->flags & KILN_PARAM_NEUTRAL) continue;
        if (is_unreadable(g, p, i, on)) {
            hash_text(h, p->name), hash_text(h, g->file[i]);
            cacheable = 0;
            continue;
        }
        if (g->param_in[i].node == SOURCE_NONE) {
            TRY(hash_param(h, g, p, i, on, seen, e));
        } else {
            hash_text(h, p->name);
            cacheable &= hash_source(h, w, g->param_in[i]);
        }
    }
    for (size_t i = 0; i < g->n_named; i++) TRY(hash_files(h, g->named[i].path, on, seen, e));
    for (uint32_t i = 0; i < t->n_in; i++) {
        hash_text(h, node_in(t, i)->name);
        if (w) hash_u64(h, g->in[i].n);
        for (uint32_t k = 0; k < g->in[i].n; k++) cacheable &= hash_source(h, w, g->in[i].from[k]);
    }
    if (!w) return g->self = hasher_digest(h), KILN_OK;
    g->key = hasher_digest(h);
    g->cacheable = cacheable;
    return KILN_OK;
}

static kiln_status keep_seen(workflow *w, graph_node *g, const file_list *seen, error *e)
{
    size_t n = file_list_count(seen);
    if (n == 0) return KILN_OK;
    file_seen *rows = arena_alloc(&w->doc->memory, n * sizeof *rows);
    if (!rows) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        rows[i] = *file_list_at(seen, i);
        if (!(rows[i].path = arena_strdup(&w->doc->memory, rows[i].path)))
            return error_set(e, KILN_ERR_NOMEM, "out of memory");
    }
    g->seen = rows, g->n_seen = n;
    return KILN_OK;
}

kiln_status workflow_keys(workflow *w, const key_setting *on, error *e)
{
    hasher *h = hasher_new();
    if (!h) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < w->n && status == KILN_OK; i++) {
        graph_node *g = &w->node[w->order[i]];
        if (!g->needed) continue;
        file_list *seen = file_list_new();
        g->seen = NULL, g->n_seen = 0;
        status = seen ? node_key(w, g, on, h, seen, e) : error_set(e, KILN_ERR_NOMEM, "out of memory");
        if (status == KILN_OK && g->mapped) status = node_key(NULL, g, on, h, seen, e);
        if (status == KILN_OK) status = keep_seen(w, g, seen, e);
        file_list_unref(seen);
        if (status != KILN_OK) error_prefix(e, "node '%s' (%s)", g->doc->name, g->type->type);
    }
    hasher_free(h);
    return status;
}
