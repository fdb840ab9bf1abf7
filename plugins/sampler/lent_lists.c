/* lent_lists.c - see lent_lists.h. */
#include "lent_lists.h"

static int has_area(const kiln_value_api *v, const kiln_value *entry)
{
    return v->map_get(entry, "area") || v->map_get(entry, "area_percent");
}

static int is_allowed(const kiln_value_api *v, const kiln_value *entry, const char *permission)
{
    int allowed = 0;
    return !permission || (v->get_bool(v->map_get(entry, permission), &allowed) == KILN_OK && allowed);
}

/* Number n of the lender's lists; NULL: there are not as many. */
static const kiln_value *lent(const kiln_value_api *v, const kiln_value *lender, const char *key,
                              const char *permission, size_t n)
{
    for (size_t i = 0; lender && i < v->count(lender); i++) {
        const kiln_value *entry = v->list_at(lender, i), *list = v->map_get(entry, key);
        if (list && !has_area(v, entry) && is_allowed(v, entry, permission) && n-- == 0) return list;
    }
    return NULL;
}

void lent_lists(const kiln_value_api *v, const kiln_value *conditioning, const kiln_value *lender, const char *key,
                const char *permission, const kiln_value **out)
{
    size_t n = v->count(conditioning), free_entries = 0, lists = 0;
    int own = 0;
    for (size_t i = 0; i < n; i++) {
        const kiln_value *entry = v->list_at(conditioning, i);
        out[i] = v->map_get(entry, key);
        own |= out[i] && !has_area(v, entry);
        free_entries += !has_area(v, entry);
    }
    while (lent(v, lender, key, permission, lists)) lists++;
    if (own || !lists || !free_entries) return;
    /* list k goes to free entry k % n, and the last that comes there stays */
    for (size_t i = 0, k = 0; i < n; i++) {
        if (has_area(v, v->list_at(conditioning, i))) continue;
        if (k < lists) out[i] = lent(v, lender, key, permission, k + (lists - 1 - k) / free_entries * free_entries);
        k++;
    }
}
