/* attention_multiply.c - see attention_multiply.h. */
#include "attention_multiply.h"

#include <stdlib.h>

static int ends_with(const char *text, size_t n, const char *end)
{
    size_t e = strlen(end);
    return n >= e && memcmp(text + n - e, end, e) == 0;
}

static int is_of(const char *name, const multiplied_layer *l)
{
    size_t n = strlen(name);
    if (ends_with(name, n, ".weight"))
        n -= strlen(".weight");
    else if (ends_with(name, n, ".bias"))
        n -= strlen(".bias");
    else
        return 0;
    return ends_with(name, n, l->layer) && (!l->part || (strstr(name, l->part) != NULL) != l->without);
}

/* The row that the tensor is of; n: none. */
static size_t row_of(const char *name, const multiplied_layer *layer, size_t n)
{
    size_t k = 0;
    while (k < n && !is_of(name, &layer[k])) k++;
    return k;
}

kiln_status weights_multiplied(const kiln_call *c, kiln_weights *set, const multiplied_layer *layer, size_t n,
                               size_t *found, kiln_weights **out)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    size_t count = w->count(set), patches = 0;
    kiln_weight_patch *patch = calloc(count + 1, sizeof *patch);
    if (!patch) return KILN_ERR_NOMEM;
    memset(found, 0, n * sizeof *found);
    for (size_t i = 0; i < count; i++) {
        kiln_weight_info info = {.size = sizeof info};
        size_t k = w->at(set, i, &info) == KILN_OK ? row_of(info.name, layer, n) : n;
        if (k == n) continue;
        found[k]++;
        patch[patches++] = (kiln_weight_patch){.size = sizeof *patch,
                                               .name = info.name,
                                               .strength = layer[k].factor - 1,
                                               .scale = 1,
                                               .from = set,
                                               .difference = info.name};
    }
    *out = patches ? w->patch(c->ctx, set, patch, patches) : w->ref(set);
    free(patch);
    return *out ? KILN_OK : KILN_ERR_INVALID;
}
