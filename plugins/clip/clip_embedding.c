/* clip_embedding.c - see clip_embedding.h. */
#include "clip_embedding.h"

#include "kiln/checkpoint.h"
#include "kiln/kit.h"
#include "prompt.h"

enum { ROWS_MAX = 4096 };

static int fail(char why[300], const kiln_weight_info *t, const char *name, const clip_embedding_reader *r)
{
    char dim[80] = "[";
    for (uint32_t i = 0, n = 1; i < t->rank && n < 60; i++)
        n += (uint32_t)snprintf(dim + n, sizeof dim - n, "%s%lld", i ? "," : "", (long long)t->dim[i]);
    snprintf(why, 300,
             "embedding '%.100s' has %s] for text encoder '%s', which takes rows of %lld numbers; it was made for "
             "another family of models",
             name, dim, r->encoder, (long long)r->width);
    return 0;
}

/* The tensor for this encoder: of its name, or the only one. */
static int choose(const kiln_weights_api *w, const kiln_weights *set, const clip_embedding_reader *r,
                  kiln_weight_info *out)
{
    if (checkpoint_has(w, set, "clip_", out, "%s", r->encoder)) return 1;
    *out = (kiln_weight_info){.size = sizeof *out};
    return w->count(set) == 1 && w->at(set, 0, out) == KILN_OK;
}

static int read_rows(const kiln_weights_api *w, const kiln_weights *set, const clip_embedding_reader *r,
                     const char *name, const float **rows, size_t *n, char why[300])
{
    kiln_weight_info t;
    if (!choose(w, set, r, &t)) {
        snprintf(why, 300,
                 "embedding '%.100s' (%zu tensors) has none called clip_%s, for text encoder '%s'; it was made for "
                 "another family of models",
                 name, w->count(set), r->encoder, r->encoder);
        return 0;
    }
    if ((t.rank != 1 && t.rank != 2) || t.dim[t.rank - 1] != r->width) return fail(why, &t, name, r);
    *n = t.rank == 2 ? (size_t)t.dim[0] : 1;
    if (*n == 0 || *n > ROWS_MAX) {
        snprintf(why, 300, "embedding '%.100s' has %zu rows for text encoder '%s'; 1 to %d are possible", name, *n,
                 r->encoder, ROWS_MAX);
        return 0;
    }
    float *data = r->host->scratch(r->ctx, *n * (size_t)r->width * sizeof *data + 1, KILN_CPU);
    if (!data || w->read_f32(r->ctx, set, t.name, data) != KILN_OK) {
        snprintf(why, 300, "embedding '%.100s' cannot be read", name); /* the first message, the reason, is kept */
        return 0;
    }
    *rows = data;
    return 1;
}

int clip_embedding_find(void *self, const char *name, const float **rows, size_t *n, char why[300])
{
    const clip_embedding_reader *r = self;
    const kiln_weights_api *w = r->host->ability(KILN_WEIGHTS_ABILITY);
    const char *path =
        KILN_HAS(kiln_host, r->host, find_file) ? r->host->find_file(r->ctx, PROMPT_EMBEDDINGS, name) : NULL;
    kiln_weights *set = path ? w->open(r->ctx, path) : NULL;
    if (!set) {
        snprintf(why, 300, "embedding '%.100s' cannot be opened", name); /* as above */
        return 0;
    }
    int ok = read_rows(w, set, r, name, rows, n, why);
    w->unref(set);
    return ok;
}
