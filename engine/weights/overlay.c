/* overlay.c - a set laid over another: the union of their tensors; see include/kiln/weights.h. */
#include "weights/set.h"

#include <string.h>

static void take(kiln_weights *w, const weights_entry *from, size_t parent, int beside)
{
    weights_entry *x = &w->entry[w->n++];
    weights_copy_entry(x, from, parent);
    x->name = from->name;
    x->beside = beside;
}

/* Both are sorted by name, and so is the union. */
static void merge(kiln_weights *w)
{
    const kiln_weights *base = w->base, *over = w->over;
    size_t i = 0, k = 0;
    while (i < base->n || k < over->n) {
        int order = i == base->n ? 1 : k == over->n ? -1 : strcmp(base->entry[i].name, over->entry[k].name);
        if (order < 0)
            take(w, &base->entry[i], i, 0);
        else
            take(w, &over->entry[k], k, 1), k++;
        i += order <= 0 && i < base->n;
    }
}

kiln_weights *weights_overlay(kiln_weights *base, kiln_weights *over, error *e)
{
    if (!base || !over) return error_set(e, KILN_ERR_INVALID, "an overlay needs two sets of weights"), NULL;
    kiln_weights *w = set_new(base->path, e);
    if (!w) return NULL;
    w->base = weights_ref(base);
    w->over = weights_ref(over);
    w->entry = arena_alloc(&w->memory, (base->n + over->n + 1) * sizeof *w->entry);
    if (w->entry) return merge(w), w;
    error_set(e, KILN_ERR_NOMEM, "%s: out of memory", base->path);
    weights_unref(w);
    return NULL;
}
