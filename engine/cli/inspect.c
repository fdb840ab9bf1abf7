/* inspect.c - see inspect.h. Every kind of part that a loaded plugin knows is looked for; what is found is opened,
 * asked for its facts, and recorded once, so that a missing tensor is known and what no network asks for is left over.
 */
#include "cli/inspect.h"

#include "backend/runtime.h"
#include "kiln/loading.h"
#include "plugin/abilities.h"
#include "plugin/supervised.h"
#include "weights/weights.h"

#include <stdio.h>
#include <string.h>

enum { KINDS_MAX = 32, SETS_MAX = 16 };

typedef struct {
    kiln_weights *set;
    call_environment env;
    const kiln_loading_api *loading; /* NULL: the plugin that has it is not loaded */
} inspection;

/* ---- values ---- */

void inspect_put(kiln_value *map, const char *key, kiln_value *item)
{
    if (item) value_api.map_set(map, key, item);
    value_unref(item);
}

void inspect_put_text(kiln_value *map, const char *key, const char *text)
{
    if (text) inspect_put(map, key, value_string(text, strlen(text)));
}

void inspect_push(kiln_value *list, kiln_value *item)
{
    if (item) value_api.list_push(list, item);
    value_unref(item);
}

static void add_to(kiln_value *map, const char *key, int64_t more)
{
    int64_t v = 0;
    value_api.get_int(value_api.map_get(map, key), &v);
    inspect_put(map, key, value_int(v + more));
}

/* ---- sizes ---- */

static int64_t elements_of(const kiln_weight_info *x)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < x->rank; i++)
        if (__builtin_mul_overflow(n, x->dim[i], &n)) return 0; /* the header's check has seen to it */
    return n;
}

typedef struct {
    const kiln_weights *set;
    kiln_value *map, *types;
    int sign;
} sums;

/* Fits weights_unused: what nobody asked for is taken away again. */
static void add_tensor(void *arg, const kiln_weight_info *x)
{
    const sums *s = arg;
    add_to(s->map, "tensors", s->sign);
    add_to(s->map, "bytes", s->sign * (int64_t)x->stored_bytes);
    add_to(s->map, "parameters", s->sign * elements_of(x));
    add_to(s->types, weights_type_name(s->set, x->name), s->sign);
}

/* Tensors, bytes, parameters and types of a set: all of it, or (`used`) what was asked for. */
static void add_sums(const kiln_weights *w, int used, kiln_value *map, kiln_value *types)
{
    sums s = {w, map, types, 1};
    kiln_weight_info x = {.size = sizeof x};
    for (size_t i = 0; weights_at(w, i, &x) == KILN_OK; i++) add_tensor(&s, &x);
    s.sign = -1;
    if (used) weights_unused(w, add_tensor, &s);
}

static void mark_all(const kiln_weights *w)
{
    kiln_weight_info x = {.size = sizeof x};
    for (size_t i = 0; weights_at(w, i, &x) == KILN_OK; i++) weights_mark_used(w, x.name);
}

/* A part that is not whole answers for all its tensors, so that those it did not come to are not left over. */
static void put_sums(kiln_ctx *c, const char *kind, const kiln_value *v, int whole, kiln_value *part)
{
    kiln_weights *seen[SETS_MAX], *w;
    kiln_value *types = value_map();
    size_t n = 0;
    for (size_t i = 0; types && n < SETS_MAX && (w = inspect_weights(c, kind, v, i)); i++) {
        size_t k = 0;
        while (k < n && seen[k] != w) k++;
        if (k < n) continue;
        seen[n++] = w;
        add_sums(w, whole, part, types);
        if (!whole) mark_all(w);
    }
    inspect_put(part, "types", types);
}

/* ---- parts ---- */

static kiln_ctx call_of(const inspection *x)
{
    return (kiln_ctx){.env = &x->env, .node_name = "inspect", .node_type = "inspect", .plugin = "kiln"};
}

static void end_call(kiln_ctx *c)
{
    arena_free(&c->scratch);
    *c = (kiln_ctx){.env = c->env};
}

static kiln_value *open_part(const inspection *x, const kiln_model_family *f, kiln_value *part)
{
    kiln_ctx c = call_of(x);
    int call = family_enter(f, "open");
    kiln_value *v = f->open(&engine_host, &c, x->set);
    supervised_leave(call);
    if (!v) inspect_put_text(part, "problem", c.failure.message[0] ? c.failure.message : "it could not be opened");
    end_call(&c);
    return v;
}

/* 1: every tensor is there. */
static int check_part(const inspection *x, const char *kind, const kiln_value *v, kiln_value *part)
{
    kiln_ctx c = call_of(x);
    kiln_call call = {.size = sizeof call, .device = KILN_CPU, .host = &engine_host, .ctx = &c, .wanted = UINT64_MAX};
    kiln_status status = x->loading ? x->loading->check(&call, kind, v) : KILN_OK;
    if (status != KILN_OK)
        inspect_put_text(part, "problem", c.failure.message[0] ? c.failure.message : "it cannot be recorded");
    end_call(&c);
    return status == KILN_OK;
}

static kiln_value *inspect_part(const inspection *x, const kiln_model_family *f)
{
    kiln_value *part = value_map();
    if (!part) return NULL;
    inspect_put_text(part, "kind", f->kind);
    inspect_put_text(part, "family", f->name);
    inspect_put_text(part, "doc", f->doc);
    kiln_value *v = open_part(x, f, part);
    int whole = v && check_part(x, f->kind, v, part);
    kiln_ctx c = call_of(x);
    if (v) inspect_facts(&c, f->kind, v, part);
    if (v) put_sums(&c, f->kind, v, whole && x->loading, part);
    end_call(&c);
    inspect_put(part, "complete", value_bool(whole));
    inspect_put(part, "checked", value_bool(v && x->loading));
    if (!value_api.map_get(part, "architecture")) inspect_put_text(part, "architecture", f->name);
    value_unref(v);
    return part;
}

/* Each kind that a family is registered for, those of a checkpoint first. */
static size_t all_kinds(const char *kind[KINDS_MAX])
{
    static const char *const first[] = {KILN_FAMILY_DENOISER, KILN_FAMILY_TEXT_ENCODER, KILN_FAMILY_AUTOENCODER};
    size_t n = sizeof first / sizeof first[0];
    memcpy(kind, first, sizeof first);
    for (size_t i = 0; i < model_api.family_count(NULL) && n < KINDS_MAX; i++) {
        const char *one = model_api.family_at(NULL, i)->kind;
        size_t k = 0;
        while (k < n && strcmp(kind[k], one) != 0) k++;
        if (k == n) kind[n++] = one;
    }
    return n;
}

static kiln_value *all_parts(const inspection *x)
{
    const char *kind[KINDS_MAX];
    kiln_value *list = value_list();
    size_t n = all_kinds(kind);
    for (size_t i = 0; list && i < n; i++) {
        const kiln_model_family *f = model_api.detect(kind[i], x->set);
        if (f) inspect_push(list, inspect_part(x, f));
    }
    return list;
}

/* ---- what is left over ---- */

/* Up to the `depth`-th dot or slash, that included. */
static size_t prefix_length(const char *name, int depth)
{
    const char *p = name;
    for (int i = 0; i < depth && *p; i++) {
        p += strcspn(p, "./");
        p += *p != '\0';
    }
    return (size_t)(p - name);
}

typedef struct {
    const kiln_loading_api *loading;
    kiln_value *groups, *group; /* the last one is in the list when it is whole: values there do not change */
    char last[600];
    size_t tensors, needless;
    int depth;
} left_over;

static void end_group(left_over *l)
{
    inspect_push(l->groups, l->group);
    l->group = NULL;
}

static void add_left(void *arg, const kiln_weight_info *x)
{
    left_over *l = arg;
    if (l->loading && KILN_HAS(kiln_loading_api, l->loading, needless) && l->loading->needless(x->name)) {
        l->needless++;
        return;
    }
    size_t n = prefix_length(x->name, l->depth);
    l->tensors++;
    if (!l->group || strlen(l->last) != n || strncmp(l->last, x->name, n) != 0) {
        end_group(l);
        if (!(l->group = value_map())) return;
        snprintf(l->last, sizeof l->last, "%.*s", (int)n, x->name);
        inspect_put_text(l->group, "prefix", l->last);
        inspect_put_text(l->group, "example", x->name);
    }
    add_to(l->group, "tensors", 1);
}

/* Groups by the first part of the name; by two parts where that is one for all. */
static kiln_value *all_left_over(const inspection *x)
{
    left_over l = {.loading = x->loading};
    kiln_value *map = value_map();
    for (l.depth = 1; map && l.depth <= 2; l.depth++) {
        value_unref(l.groups);
        l.tensors = l.needless = 0;
        l.last[0] = '\0';
        if (!(l.groups = value_list())) break;
        weights_unused(x->set, add_left, &l);
        end_group(&l);
        if (value_api.count(l.groups) != 1) break;
    }
    if (!map || !l.groups) return value_unref(map), value_unref(l.groups), NULL;
    inspect_put(map, "groups", l.groups);
    inspect_put(map, "tensors", value_int((int64_t)l.tensors));
    inspect_put(map, "needless", value_int((int64_t)l.needless));
    return map;
}

/* ---- the file itself ---- */

static void put_files(const kiln_weights *w, kiln_value *map)
{
    kiln_value *list = value_list();
    const file_map *m;
    for (size_t i = 0; list && (m = weights_file_at(w, i)); i++) {
        kiln_value *one = value_map();
        if (!one) break;
        inspect_put_text(one, "path", m->path);
        inspect_put(one, "bytes", value_int((int64_t)m->size));
        inspect_push(list, one);
    }
    inspect_put(map, "files", list);
}

static void put_notes(const kiln_weights *w, kiln_value *map)
{
    const char *key, *value;
    kiln_value *notes = value_map();
    for (size_t i = 0; notes && weights_note_at(w, i, &key, &value); i++) inspect_put_text(notes, key, value);
    inspect_put(map, "metadata", notes);
}

static kiln_value *inspect_all(const inspection *x, const char *path)
{
    kiln_value *map = value_map(), *types = value_map();
    if (!map || !types) return value_unref(map), value_unref(types), NULL;
    inspect_put_text(map, "path", path);
    put_files(x->set, map);
    add_sums(x->set, 0, map, types);
    inspect_put(map, "types", types);
    inspect_put(map, "parts", all_parts(x));
    inspect_put(map, "left_over", all_left_over(x));
    put_notes(x->set, map);
    return map;
}

kiln_value *inspect_set(kiln_weights *w, const char *path, error *e)
{
    runtime *rt = runtime_new(
        &(runtime_setting){.backend = backend_find("cpu"), .threads = 1, .precision = KILN_F32, .no_prefetch = 1}, e);
    if (!rt) return NULL;
    inspection x = {
        .set = w, .env = {.runtime = rt, .headers = 1}, .loading = engine_host.ability(KILN_LOADING_ABILITY)};
    kiln_value *found = inspect_all(&x, path);
    runtime_free(rt);
    if (!found) error_set(e, KILN_ERR_NOMEM, "out of memory");
    return found;
}
