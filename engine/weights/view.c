/* view.c - the same tensors under other names, by rules; see include/kiln/weights.h. What rules do to a tensor beside
 * that is in view_shape.c. */
#include "base/memory_alloc.h"
#include "base/str.h"
#include "weights/derived.h"
#include "weights/view_shape.h"

#include <string.h>

enum { CAPTURES_MAX = 8, PARTS_MAX = 4096 };

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

static kiln_status check_join(const kiln_weights *w, const kiln_weight_rule *r, size_t i, error *e)
{
    int fits = r->join <= KILN_JOIN_STACK && (!r->each || strchr(r->each, '#')) && (r->n_with == 0 || r->with) &&
               r->n_with < PARTS_MAX && (r->join || (!r->each && !r->n_with)) && !(r->each && r->n_with);
    if (r->each) fits = fits && wildcards(r->each) <= wildcards(r->from);
    for (uint32_t k = 0; k < r->n_with && fits; k++) fits = r->with[k] && wildcards(r->with[k]) <= wildcards(r->from);
    if (fits) return KILN_OK;
    return error_set(e, KILN_ERR_INVALID,
                     "%s: rule %zu of a view ('%s') does not say which tensors are joined: `join` and either `with` or "
                     "`each` with a '#', with no more wildcards than `from`",
                     w->path, i, r->from);
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
    if (r->rows < 0 || r->row < 0 || r->slice < 0 || r->slices < 0)
        return error_set(e, KILN_ERR_INVALID, "%s: rule %zu of a view ('%s') has negative rows", w->path, i, r->from);
    return check_join(w, r, i, e);
}

/* ---- joins ---- */

/* A tensor of the base by a pattern with the captures, "#" of it as `number`. *out NULL: there is none. */
static kiln_status find_part(kiln_weights *w, const char *pattern, const captures *c, uint32_t number, size_t *out,
                             error *e)
{
    str s = {0};
    const char *name = build_name(w, pattern, c);
    s.failed = !name;
    for (; name && *name; name++)
        if (*name == '#')
            str_printf(&s, "%u", number);
        else
            str_char(&s, *name);
    const weights_entry *x = s.failed ? NULL : weights_entry_of(w->base, str_text(&s));
    *out = x ? (size_t)(x - w->base->entry) : SIZE_MAX;
    kiln_status status = s.failed ? error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path) : KILN_OK;
    str_free(&s);
    return status;
}

/* The parts' places in the base. */
static kiln_status find_parts(kiln_weights *w, const kiln_weight_rule *r, const captures *c, size_t first, size_t *part,
                              size_t *n, error *e)
{
    *n = 0;
    for (uint32_t i = 0; r->each && i < PARTS_MAX; i++) {
        TRY(find_part(w, r->each, c, i, &part[*n], e));
        if (part[*n] == SIZE_MAX) return KILN_OK;
        ++*n;
    }
    if (r->each) return error_set(e, KILN_ERR_INVALID, "%s: '%s' are more than %d", w->path, r->each, PARTS_MAX);
    part[(*n)++] = first;
    for (uint32_t i = 0; i < r->n_with; i++) {
        TRY(find_part(w, r->with[i], c, 0, &part[*n], e));
        if (part[(*n)++] == SIZE_MAX)
            return error_set(e, KILN_ERR_INVALID, "%s: '%.200s' is to be joined with '%.200s', which is not there",
                             w->path, w->base->entry[first].name, r->with[i]);
    }
    return KILN_OK;
}

/* x is the tensor that `from` matched; it becomes the joined one. */
static kiln_status join(kiln_weights *w, const kiln_weight_rule *r, const captures *c, weights_entry *x, error *e)
{
    size_t *place = mem_alloc(PARTS_MAX * sizeof *place), n = 0;
    const weights_entry **part = NULL;
    kiln_status status = place ? find_parts(w, r, c, x->parent, place, &n, e) : KILN_ERR_NOMEM;
    if (status == KILN_OK && n == 0) n = 1, place[0] = x->parent;
    if (status == KILN_OK && !(part = arena_alloc(&w->memory, n * sizeof *part))) status = KILN_ERR_NOMEM;
    for (size_t i = 0; i < n && status == KILN_OK; i++) {
        weights_entry *copy = arena_alloc(&w->memory, sizeof *copy);
        if (!copy) status = KILN_ERR_NOMEM;
        if (!(part[i] = copy)) break;
        weights_copy_entry(copy, &w->base->entry[place[i]], place[i]);
        copy->name = w->base->entry[place[i]].name;
    }
    mem_free(place);
    if (status == KILN_ERR_NOMEM) return error_set(e, status, "%s: out of memory", w->path);
    if (status != KILN_OK) return status;
    weights_copy_entry(x, part[0], part[0]->parent);
    return view_join(w, x, part, n, r->join == KILN_JOIN_STACK, r->axis, e);
}

static kiln_status add_name(kiln_weights *w, const kiln_weight_rule *r, const captures *c, size_t parent, error *e)
{
    const weights_entry *from = &w->base->entry[parent];
    weights_entry *x = &w->entry[w->n];
    weights_copy_entry(x, from, parent);
    const char *name = build_name(w, r->to, c);
    if (!name) return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", w->path);
    if (r->join) TRY(join(w, r, c, x, e));
    x->name = name;
    TRY(view_shape(w, r, x, from->name, e));
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
