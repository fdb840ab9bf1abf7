/* node_files.c - see node_files.h. */
#include "run/node_files.h"

#include <assert.h>

kiln_status node_files_begin(batch *b, size_t i, kiln_value *const *in, error *e)
{
    const graph_node *g = batch_node(b, i);
    assert(!b->files[i]); /* one call of a node at a time */
    file_list *l = file_list_new();
    kiln_status status = l ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory");
    for (size_t k = 0; k < g->n_seen && status == KILN_OK; k++)
        status = file_list_add(l, g->seen[k].path, &g->seen[k].was, e);
    for (uint32_t p = 0; p < g->type->n_in && status == KILN_OK; p++) status = value_add_files(in[p], l, e);
    b->files[i] = l;
    if (status == KILN_OK) return KILN_OK;
    file_list_unref(l);
    b->files[i] = NULL;
    error_prefix(e, "node '%s' (%s)", g->doc->name, g->type->type);
    return status;
}

kiln_status node_files_end(batch *b, size_t i, kiln_status status, kiln_value **out, error *e)
{
    const graph_node *g = batch_node(b, i);
    file_list *l = b->files[i];
    assert(l);
    b->files[i] = NULL;
    if (status == KILN_OK && (status = file_list_unchanged(l, e)) != KILN_OK)
        error_prefix(e, "node '%s' (%s)", g->doc->name, g->type->type);
    for (uint32_t k = 0; k < g->type->n_out; k++) {
        if (status == KILN_OK) {
            value_set_files(out[k], l);
            continue;
        }
        value_unref(out[k]);
        out[k] = NULL;
    }
    file_list_unref(l);
    return status;
}

kiln_status node_files_opened(batch *b, size_t i, const char *path, const file_identity *was, error *e)
{
    assert(b->files[i]);
    return file_list_add(b->files[i], path, was, e);
}

kiln_status node_files_unchanged(const batch *b, size_t i, error *e)
{
    assert(b->files[i]);
    return file_list_unchanged(b->files[i], e);
}
