/* job_files.c - that a result is of the files its key says: which a node read, and whether they are still what they
 * were.
 *
 * A node's files are those its own parameters name, in the state in which the key was made of them, those its call
 * opens, and those behind the objects it was given: a MODEL's weights are read when they are packed, long after its
 * loader was done. Plain data was asked for when it was made. They are asked after the call's last reading and before
 * anything of it is kept, named or handed on.
 */
#include "run/job_parts.h"

#include "base/memory_alloc.h"
#include "weights/weights.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

kiln_status job_files_begin(job *j, size_t i, kiln_value *const *in, error *e)
{
    const graph_node *g = &j->workflow.node[i];
    file_list *l = file_list_new();
    kiln_status status = l ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory");
    for (size_t k = 0; k < g->n_seen && status == KILN_OK; k++)
        status = file_list_add(l, g->seen[k].path, &g->seen[k].was, e);
    for (uint32_t p = 0; p < g->type->n_in && status == KILN_OK; p++) status = value_add_files(in[p], l, e);
    j->files[i] = l;
    if (status == KILN_OK) return KILN_OK;
    file_list_unref(l);
    j->files[i] = NULL;
    error_prefix(e, "node '%s' (%s)", g->doc->name, g->type->type);
    return status;
}

kiln_status job_files_end(job *j, size_t i, kiln_status status, kiln_value **out, error *e)
{
    const graph_node *g = &j->workflow.node[i];
    file_list *l = j->files[i];
    j->files[i] = NULL;
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

kiln_status job_files_opened(void *arg, size_t i, const char *path, const file_identity *was, error *e)
{
    job *j = arg;
    return j->files[i] ? file_list_add(j->files[i], path, was, e) : KILN_OK;
}

kiln_status job_files_unchanged(void *arg, size_t i, error *e)
{
    job *j = arg;
    return j->files[i] ? file_list_unchanged(j->files[i], e) : KILN_OK;
}

/* ---- files that are read with another ---- */

static int ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

static int is_text(const struct dirent *d)
{
    return d->d_name[0] != '.' && (ends_with(d->d_name, ".json") || ends_with(d->d_name, ".txt"));
}

/* Settings lie beside an index under names that only the family knows. */
static kiln_status texts_of(const char *folder, kiln_status (*each)(void *to, const char *path, error *e), void *to,
                            error *e)
{
    struct dirent **entry = NULL;
    int n = scandir(folder, &entry, is_text, alphasort);
    kiln_status status = KILN_OK;
    for (int i = 0; i < n; i++) {
        char *path = status == KILN_OK ? path_join(folder, entry[i]->d_name) : NULL;
        if (status == KILN_OK && !path) status = error_set(e, KILN_ERR_NOMEM, "%s: out of memory", folder);
        if (status == KILN_OK && file_exists(path)) status = each(to, path, e);
        mem_free(path);
        free(entry[i]);
    }
    free(entry);
    return status;
}

static kiln_status texts_beside(const char *path, kiln_status (*each)(void *to, const char *path, error *e), void *to,
                                error *e)
{
    char *folder = mem_strdup(path);
    if (!folder) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = '\0';
    kiln_status status = texts_of(slash ? folder : ".", each, to, e);
    mem_free(folder);
    return status;
}

kiln_status job_files_beside(void *arg, const char *path, kiln_status (*each)(void *to, const char *path, error *e),
                             void *to, error *e)
{
    const file_map *m;
    error why = {0};
    (void)arg;
    kiln_weights *w = ends_with(path, ".json") && file_exists(path) ? weights_open(path, &why) : NULL;
    if (!w) return KILN_OK; /* none, or one that whoever opens it will complain about */
    kiln_status status = KILN_OK;
    for (size_t i = 0; status == KILN_OK && (m = weights_file_at(w, i)); i++) status = each(to, m->path, e);
    weights_unref(w);
    return status == KILN_OK ? texts_beside(path, each, to, e) : status;
}
