/* file_list.c - see file_list.h. */
#include "base/file_list.h"

#include "base/array.h"
#include "base/memory_alloc.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

struct file_list {
    atomic_uint refs;
    file_seen *item;
    size_t n, capacity;
};

file_list *file_list_new(void)
{
    file_list *l = mem_calloc(1, sizeof *l);
    if (l) atomic_init(&l->refs, 1);
    return l;
}

file_list *file_list_ref(file_list *l)
{
    unsigned refs = l ? atomic_fetch_add(&l->refs, 1) : 1;
    assert(refs > 0);
    (void)refs;
    return l;
}

void file_list_unref(file_list *l)
{
    unsigned refs = l ? atomic_fetch_sub(&l->refs, 1) : 0;
    assert(!l || refs > 0);
    if (refs != 1) return;
    for (size_t i = 0; i < l->n; i++) mem_free((char *)(uintptr_t)l->item[i].path);
    mem_free(l->item);
    mem_free(l);
}

size_t file_list_count(const file_list *l) { return l ? l->n : 0; }

const file_seen *file_list_at(const file_list *l, size_t i)
{
    assert(l && i < l->n);
    return &l->item[i];
}

static kiln_status changed(const char *path, error *e)
{
    return error_set(e, KILN_ERR_IO,
                     "%s: changed while the run was reading it, so results made from it do not match their keys and "
                     "are not kept; run again",
                     path);
}

kiln_status file_list_add(file_list *l, const char *path, const file_identity *was, error *e)
{
    assert(l && path && was);
    assert(atomic_load(&l->refs) == 1); /* nobody else may be reading it */
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->item[i].path, path) == 0)
            return file_identity_same(&l->item[i].was, was) ? KILN_OK : changed(path, e);
    if (!array_reserve(&l->item, &l->capacity, l->n + 1, sizeof *l->item))
        return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    char *copy = mem_strdup(path);
    if (!copy) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", path);
    l->item[l->n++] = (file_seen){.path = copy, .was = *was};
    return KILN_OK;
}

kiln_status file_list_add_all(file_list *l, const file_list *from, error *e)
{
    for (size_t i = 0; from && i < from->n; i++) TRY(file_list_add(l, from->item[i].path, &from->item[i].was, e));
    return KILN_OK;
}

kiln_status file_list_unchanged(const file_list *l, error *e)
{
    for (size_t i = 0; l && i < l->n; i++) {
        struct stat st;
        const char *path = l->item[i].path;
        if (stat(path, &st) != 0)
            return error_set(
                e, KILN_ERR_IO,
                "%s: gone while the run was reading it (%s), so results made from it are not kept; put it back and run "
                "again",
                path, strerror(errno));
        file_identity now = file_identity_of(&st);
        if (!file_identity_same(&now, &l->item[i].was)) return changed(path, e);
    }
    return KILN_OK;
}
