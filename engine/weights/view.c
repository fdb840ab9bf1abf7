/* view.c - other names for the same bytes, by rules; see include/kiln/weights.h. */
#include "base/memory_alloc.h"
#include "base/str.h"
#include "tensor/dtype.h"
#include "weights/set.h"

#include <string.h>

enum { CAPTURES_MAX = 8 };

typedef struct {
    const char *at[CAPTURES_MAX];
    size_t n[CAPTURES_MAX], count;
} captures;

/* Matches the rest of name against the rest of pattern. Recursion is as deep as there are "{}", at most 8. */
static int match(const char *pattern, const char *name, captures *c)
{
    while (*pattern && strncmp(pattern, "{}", 2) != 0 && !(pattern[0] == '*' && pattern[1] == '\0')) {
        if (*pattern++ != *name++) return 0;
    }
    if (*pattern == '\0') return *name == '\0';
    if (c->count == CAPTURES_MAX) return 0;
    size_t place = c->count++;
    c->at[place] = name;
    if (*pattern == '*') {
        c->n[place] = strlen(name);
        return 1;
    }
    size_t longest = strcspn(name, ".");
    for (size_t n = longest; n > 0; n--) {
        c->n[place] = n;
        c->count = place + 1;
        if (match(pattern + 2, name + n, c)) return 1;
    }
    c->count = place;
    return 0;
}

static const char *build_name(kiln_weights *w, const char *to, const captures *c)
{
    str s = {0};
    size_t next = 0;
    while (*to) {
        int wildcard = strncmp(to, "{}", 2) == 0 ? 2 : to[0] == '*' && to[1] == '\0' ? 1 : 0;
        if (wildcard && next < c->count) {
            str_append_n(&s, c->at[next], c->n[next]);
            next++;
        } else if (!wildcard) {
            str_char(&s, *to);
        }
        to += wildcard ? wildcard : 1;
    }
    const char *name = s.failed ? NULL : arena_strdup(&w->memory, str_text(&s));
    str_free(&s);
    return name;
}

static kiln_status apply(const kiln_weights *w, const kiln_weight_rule *r, const weights_entry *from, weights_entry *x, error *e)
{
    if (r->rows > 0) {
        if (x->rank < 1 || x->transposed || r->row < 0 || r->rows > x->dim[0] - r->row)
            return error_set(e, KILN_ERR_INVALID, "%s: rows %lld to %lld of tensor '%.200s' do not exist", w->path, (long long)r->row,
                             (long long)(r->row + r->rows), from->name);
        uint64_t row = x->dim[0] ? x->bytes / (uint64_t)x->dim[0] : 0;
        x->begin += row * (uint64_t)r->row;
        x->bytes = row * (uint64_t)r->rows;
        x->dim[0] = r->rows;
    }
    while (r->squeeze && x->rank > 1 && x->dim[x->rank - 1] == 1) x->dim[--x->rank] = 0;
    if (r->transpose) {
        if (x->rank != 2) return error_set(e, KILN_ERR_INVALID, "%s: tensor '%.200s' has %u dimensions and cannot be transposed", w->path, from->name, x->rank);
        int64_t first = x->dim[0];
        x->dim[0] = x->dim[1];
        x->dim[1] = first;
        x->transposed = !x->transposed;
    }
    return KILN_OK;
}

static kiln_status fill(kiln_weights *w, const kiln_weight_rule *rule, size_t n, error *e)
{
    const char *twice = NULL;
    size_t room = w->base->n * (n ? n : 1) + 1;
    if (room > w->base->n * 4 + 64) room = w->base->n * 4 + 64;
    w->entry = arena_alloc(&w->memory, room * sizeof *w->entry);
    if (!w->entry) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    for (size_t i = 0; i < w->base->n; i++) {
        const weights_entry *from = &w->base->entry[i];
        for (size_t k = 0; k < n; k++) {
            captures c = {0};
            if (!match(rule[k].from, from->name, &c)) continue;
            if (w->n == room) return error_set(e, KILN_ERR_INVALID, "%s: a view of more than four names a tensor", w->path);
            weights_entry *x = &w->entry[w->n];
            *x = *from;
            if (!(x->name = build_name(w, rule[k].to, &c))) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
            TRY(apply(w, &rule[k], from, x, e));
            w->n++;
            if (!rule[k].more) break;
        }
    }
    if (!weights_sort(w, &twice)) return error_set(e, KILN_ERR_INVALID, "%s: two tensors come to be called '%.200s' in a view", w->path, twice);
    return KILN_OK;
}

kiln_weights *weights_view(kiln_weights *base, const kiln_weight_rule *rule, size_t n, error *e)
{
    kiln_weights *w = mem_calloc(1, sizeof *w);
    if (!w) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", base->path), NULL;
    atomic_init(&w->refs, 1);
    pthread_mutex_init(&w->lock, NULL);
    w->base = weights_ref(base);
    w->path = mem_strdup(base->path);
    if ((w->path || error_set(e, KILN_ERR_NOMEM, "%s: out of memory", base->path) == KILN_OK) && fill(w, rule, n, e) == KILN_OK) return w;
    weights_unref(w);
    return NULL;
}
