/* view.c - the same tensors under other names, by rules: renamed, sliced by rows, squeezed, transposed; see
 * include/kiln/weights.h. */
#include "base/memory_alloc.h"
#include "base/str.h"
#include "weights/set.h"

#include <string.h>

enum { CAPTURES_MAX = 8 };

typedef struct {
    const char *at[CAPTURES_MAX];
    size_t n[CAPTURES_MAX], count;
} captures;

/* Matches the rest of name against the rest of pattern. Recursion is as deep as there are "{}", at most 8; since none
 * of them crosses a dot, patterns that put dots between them are matched without a second try. */
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

static size_t wildcard_at(const char *p) { return strncmp(p, "{}", 2) == 0 ? 2 : p[0] == '*' && p[1] == '\0' ? 1 : 0; }

static size_t wildcards(const char *pattern)
{
    size_t n = 0;
    for (const char *p = pattern; *p; p++) n += wildcard_at(p) != 0;
    return n;
}

static const char *build_name(kiln_weights *w, const char *to, const captures *c)
{
    str s = {0};
    for (size_t next = 0; *to;) {
        size_t wildcard = wildcard_at(to);
        if (wildcard)
            str_append_n(&s, c->at[next], c->n[next]), next++;
        else
            str_char(&s, *to);
        to += wildcard ? wildcard : 1;
    }
    const char *name = s.failed ? NULL : arena_strdup(&w->memory, str_text(&s));
    str_free(&s);
    return name;
}

enum {
    RULE_1_0 = offsetof(kiln_weight_rule, more) + sizeof(uint32_t),
    RULE_MAX = 65536
}; /* a plugin cannot be older */

/* The rules of a view as this version knows them: what an older plugin's do not have is 0. */
typedef struct {
    const kiln_weight_rule *first;
    size_t n;
} rule_table;

static kiln_weight_rule rule_at(const rule_table *t, size_t i)
{
    kiln_weight_rule r = {0};
    memcpy(&r, (const char *)t->first + i * t->first->size, t->first->size < sizeof r ? t->first->size : sizeof r);
    return r;
}

static kiln_status check_rule(const kiln_weights *w, const rule_table *t, size_t i, error *e)
{
    kiln_weight_rule rule = rule_at(t, i), *r = &rule;
    if (r->size < RULE_1_0 || r->size > RULE_MAX || r->size != t->first->size || r->size % sizeof(void *))
        return error_set(e, KILN_ERR_BUG,
                         "%s: rule %zu of a view says it is %u bytes, the first %u; make each with KILN_RULE", w->path,
                         i, r->size, t->first->size);
    if (!r->from || !r->to)
        return error_set(e, KILN_ERR_INVALID, "%s: rule %zu of a view has no `from` or no `to`", w->path, i);
    if (wildcards(r->from) > CAPTURES_MAX)
        return error_set(e, KILN_ERR_INVALID, "%s: rule %zu of a view ('%s') has more than %d wildcards", w->path, i,
                         r->from, CAPTURES_MAX);
    if (wildcards(r->to) > wildcards(r->from))
        return error_set(e, KILN_ERR_INVALID, "%s: rule %zu of a view: '%s' has more wildcards than '%s'", w->path, i,
                         r->to, r->from);
    if (r->rows < 0 || r->row < 0)
        return error_set(e, KILN_ERR_INVALID, "%s: rule %zu of a view ('%s') has negative rows", w->path, i, r->from);
    return KILN_OK;
}

static kiln_status slice(const kiln_weights *w, const kiln_weight_rule *r, weights_entry *x, const char *from, error *e)
{
    if (x->transposed)
        return error_set(e, KILN_ERR_INVALID, "%s: tensor '%.200s' is transposed; take its rows in the view before",
                         w->path, from);
    if (x->rank < 1 || r->row > x->dim[0] || r->rows > x->dim[0] - r->row)
        return error_set(e, KILN_ERR_INVALID, "%s: tensor '%.200s' has %lld rows; %lld from row %lld were asked for",
                         w->path, from, (long long)(x->rank ? x->dim[0] : 0), (long long)r->rows, (long long)r->row);
    uint64_t count = (uint64_t)x->dim[0], row = x->bytes / count;
    if (row * count != x->bytes)
        return error_set(e, KILN_ERR_UNSUPPORTED, "%s: rows of tensor '%.200s' (%s) are no whole bytes", w->path, from,
                         x->type_name);
    x->begin += row * (uint64_t)r->row;
    x->bytes = row * (uint64_t)r->rows;
    x->dim[0] = r->rows;
    return KILN_OK;
}

/* In this order: rows, squeeze, transpose. */
static kiln_status apply(const kiln_weights *w, const kiln_weight_rule *r, weights_entry *x, const char *from, error *e)
{
    if (r->rows > 0) TRY(slice(w, r, x, from, e));
    while (r->squeeze && x->rank > 1 && x->dim[x->rank - 1] == 1) {
        x->dim[--x->rank] = 0;
        x->transposed = 0; /* [a,1] and [1,a] are the same bytes */
    }
    if (!r->transpose) return KILN_OK;
    if (x->rank != 2)
        return error_set(e, KILN_ERR_INVALID, "%s: tensor '%.200s' has %u dimensions; only one of 2 can be transposed",
                         w->path, from, x->rank);
    int64_t first = x->dim[0];
    x->dim[0] = x->dim[1];
    x->dim[1] = first;
    x->transposed = !x->transposed;
    return KILN_OK;
}

static kiln_status add_name(kiln_weights *w, const kiln_weight_rule *r, const captures *c, size_t parent, error *e)
{
    const weights_entry *from = &w->base->entry[parent];
    weights_entry *x = &w->entry[w->n];
    *x = (weights_entry){.file = from->file,
                         .type_name = from->type_name,
                         .scale = from->scale,
                         .dtype = from->dtype,
                         .rank = from->rank,
                         .begin = from->begin,
                         .bytes = from->bytes,
                         .patch = from->patch,
                         .parent = parent,
                         .transposed = from->transposed};
    memcpy(x->dim, from->dim, sizeof x->dim);
    if (!(x->name = build_name(w, r->to, c))) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    TRY(apply(w, r, x, from->name, e));
    w->n++;
    return KILN_OK;
}

/* Characters before the first wildcard: most rules are passed over by these alone. */
static size_t literal_length(const char *pattern)
{
    size_t n = 0;
    while (pattern[n] && !wildcard_at(pattern + n)) n++;
    return n;
}

typedef struct {
    kiln_weight_rule rule;
    size_t literal; /* literal_length() of `from` */
} checked_rule;

/* Every name the rules give; only counted while the set has no entries. */
static kiln_status each_name(kiln_weights *w, const checked_rule *rule, size_t n, size_t *count, error *e)
{
    *count = 0;
    for (size_t i = 0; i < w->base->n; i++)
        for (size_t k = 0; k < n; k++) {
            captures c = {0};
            const char *from = rule[k].rule.from, *name = w->base->entry[i].name;
            if (strncmp(from, name, rule[k].literal) != 0 || !match(from, name, &c)) continue;
            if (w->entry) TRY(add_name(w, &rule[k].rule, &c, i, e));
            ++*count;
            if (!rule[k].rule.more) break;
        }
    return KILN_OK;
}

static kiln_status fill(kiln_weights *w, const checked_rule *rule, size_t n, error *e)
{
    const char *twice = NULL;
    size_t count;
    TRY(each_name(w, rule, n, &count, e));
    w->entry = arena_alloc(&w->memory, (count + 1) * sizeof *w->entry);
    if (!w->entry) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    TRY(each_name(w, rule, n, &count, e));
    if (!weights_sort(w, &twice))
        return error_set(e, KILN_ERR_INVALID, "%s: two tensors come to be called '%.200s' in a view", w->path, twice);
    return KILN_OK;
}

/* The rules, checked, as structs of this version. */
static kiln_status read_rules(const kiln_weights *w, const rule_table *t, checked_rule **out, error *e)
{
    if (!(*out = mem_calloc(t->n + 1, sizeof **out))) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    for (size_t i = 0; i < t->n; i++) {
        TRY(check_rule(w, t, i, e));
        (*out)[i].rule = rule_at(t, i);
        (*out)[i].literal = literal_length((*out)[i].rule.from);
    }
    return KILN_OK;
}

kiln_weights *weights_view(kiln_weights *base, const kiln_weight_rule *rule, size_t n, error *e)
{
    if (!base) return error_set(e, KILN_ERR_INVALID, "a view of no weights was asked for"), NULL;
    kiln_weights *w = set_new(base->path, e);
    checked_rule *known = NULL;
    if (!w) return NULL;
    w->base = weights_ref(base);
    kiln_status status = read_rules(w, &(rule_table){rule, n}, &known, e);
    if (status == KILN_OK) status = fill(w, known, n, e);
    mem_free(known);
    if (status == KILN_OK) return w;
    weights_unref(w);
    return NULL;
}
