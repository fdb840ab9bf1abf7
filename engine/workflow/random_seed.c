/* random_seed.c - see random_seed.h. */
#include "workflow/random_seed.h"

#include <string.h>

/* "${name}" and nothing else: the parameter. */
static workflow_param *lone_param(document *d, const char *raw)
{
    size_t n = raw ? strlen(raw) : 0;
    if (n < 4 || strncmp(raw, "${", 2) != 0 || strchr(raw, '}') != raw + n - 1) return NULL;
    return document_param(d, raw + 2, n - 3);
}

static uint64_t number_for(const char *name, uint64_t entropy)
{
    struct {
        uint64_t entropy;
        digest name;
    } mix = {entropy, digest_of(name, strlen(name))};
    return digest_of(&mix, sizeof mix).lo >> 16;
}

static int is_listed(const set_option *out, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(out[i].name, name) == 0) return 1;
    return 0;
}

static const doc_input *random_input(const doc_node *n, const kiln_param *p)
{
    for (size_t i = 0; p->type == KILN_P_SEED && i < n->n_input; i++) {
        const doc_input *in = &n->input[i];
        if (strcmp(in->name, p->name) == 0 && !in->is_wire && in->text && strcmp(in->text, "random") == 0) return in;
    }
    return NULL;
}

size_t random_seeds_find(document *d, const catalog_view *catalog, uint64_t entropy, arena *a,
                         set_option out[RANDOM_SEEDS_MAX])
{
    size_t n = 0;
    for (size_t i = 0; i < d->n_node; i++) {
        digest ignored;
        const kiln_node *t = d->node[i].type ? catalog->find(catalog->self, d->node[i].type, &ignored) : NULL;
        for (uint32_t k = 0; t && k < t->n_param && n < RANDOM_SEEDS_MAX; k++) {
            const doc_input *in = random_input(&d->node[i], node_param(t, k));
            if (!in) continue;
            const workflow_param *p = lone_param(d, in->source);
            const char *name = p ? arena_strdup(a, p->name) : arena_printf(a, "%s.%s", d->node[i].name, in->name);
            if (!name || is_listed(out, n, name)) continue;
            const char *value = arena_printf(a, "%llu", (unsigned long long)number_for(name, entropy));
            if (value) out[n++] = (set_option){.name = name, .value = value, .drawn = 1};
        }
    }
    return n;
}
