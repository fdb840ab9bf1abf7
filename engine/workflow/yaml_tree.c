/* yaml_tree.c - see yaml_tree.h. */
#include "workflow/yaml_tree.h"

#include "base/memory_alloc.h"
#include "base/str.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum {
    DEPTH_MAX = 64,
    SIZE_MAX_BYTES = 16 << 20,
    SCALAR_MAX = 1 << 20,
    REPLAY_MAX = 10000,
    ANCHORS_MAX = 1000,
    MERGES_MAX = 16,
    ITEMS_MAX = 2000000
};

typedef struct {
    yaml_node *node;
    yaml_node *pending_key;  /* key of a map whose value has not come yet */
    size_t capacity, events; /* events: of this node and all inside, with aliases expanded */
    const char *anchor;
} level;

typedef struct anchor_entry {
    struct anchor_entry *next;
    const char *name;
    yaml_node *node;
    size_t events;
} anchor_entry;

typedef struct {
    arena *a;
    const char *name;
    uint32_t file;
    level stack[DEPTH_MAX];
    size_t depth, items, replayed, n_anchor;
    yaml_node *root;
    anchor_entry *anchors;
    error *e;
} reader;

static kiln_status fault(reader *r, place at, const char *text)
{
    return error_set(r->e, KILN_ERR_INVALID, "%s:%u:%u: %s", r->name, at.line, at.column, text);
}

static kiln_status no_memory(reader *r) { return error_set(r->e, KILN_ERR_NOMEM, "%s: out of memory", r->name); }

static place place_of(const reader *r, yaml_mark_t m)
{
    return (place){.file = r->file, .line = (uint32_t)m.line + 1, .column = (uint32_t)m.column + 1};
}

/* ---- growing maps and sequences ---- */

static kiln_status append(reader *r, level *l, yaml_node *key, yaml_node *value)
{
    yaml_node *n = l->node;
    if (n->n == l->capacity) {
        size_t capacity = l->capacity ? l->capacity * 2 : 4;
        yaml_node **item = arena_alloc(r->a, capacity * sizeof *item),
                  **keys = arena_alloc(r->a, capacity * sizeof *keys);
        if (!item || !keys) return no_memory(r);
        if (n->n) {
            memcpy(item, n->item, n->n * sizeof *item);
            memcpy(keys, n->key, n->n * sizeof *keys);
        }
        n->item = item, n->key = keys, l->capacity = capacity;
    }
    n->item[n->n] = value;
    n->key[n->n++] = key;
    return KILN_OK;
}

static int by_text(const void *a, const void *b)
{
    const yaml_node *x = *(yaml_node *const *)a, *y = *(yaml_node *const *)b;
    int order = strcmp(x->text, y->text);
    if (order) return order;
    return x->at.line != y->at.line ? (x->at.line < y->at.line ? -1 : 1)
                                    : (x->at.column > y->at.column) - (x->at.column < y->at.column);
}

static int is_merge_key(const yaml_node *key) { return strcmp(key->text, "<<") == 0 && !key->quoted; }

static kiln_status keys_are_unique(reader *r, const yaml_node *map)
{
    if (map->n < 2) return KILN_OK;
    yaml_node **sorted = mem_alloc(map->n * sizeof *sorted);
    if (!sorted) return no_memory(r);
    memcpy(sorted, map->key, map->n * sizeof *sorted);
    qsort(sorted, map->n, sizeof *sorted, by_text);
    kiln_status status = KILN_OK;
    for (size_t i = 1; i < map->n && status == KILN_OK; i++)
        if (strcmp(sorted[i - 1]->text, sorted[i]->text) == 0 &&
            !(is_merge_key(sorted[i - 1]) && is_merge_key(sorted[i])))
            status =
                error_set(r->e, KILN_ERR_INVALID, "%s:%u:%u: the key '%.100s' stands here twice; first in line %u",
                          r->name, sorted[i]->at.line, sorted[i]->at.column, sorted[i]->text, sorted[i - 1]->at.line);
    mem_free(sorted);
    return status;
}

static kiln_status add_pairs(reader *r, level *l, const yaml_node *from, place at)
{
    if (from->kind != YAML_MAP) return fault(r, at, "a merge key (<<) takes a map, or a list of maps");
    for (size_t i = 0; i < from->n; i++) {
        if (++r->items > ITEMS_MAX) return fault(r, at, "too many items");
        TRY(append(r, l, from->key[i], from->item[i]));
    }
    return KILN_OK;
}

typedef struct {
    const char *text;
    size_t at; /* index in the map: the lower one wins */
} ranked;

static int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

/* Removes all but the first pair of each key. */
static kiln_status keep_first(reader *r, yaml_node *map)
{
    size_t kept = 0;
    ranked *all = mem_alloc((map->n + 1) * sizeof *all);
    if (!all) return no_memory(r);
    for (size_t i = 0; i < map->n; i++) all[i] = (ranked){map->key[i]->text, i};
    qsort(all, map->n, sizeof *all, by_rank);
    for (size_t i = 1; i < map->n; i++)
        if (strcmp(all[i].text, all[i - 1].text) == 0) map->key[all[i].at] = NULL;
    mem_free(all);
    for (size_t i = 0; i < map->n; i++) {
        if (!map->key[i]) continue;
        map->key[kept] = map->key[i];
        map->item[kept++] = map->item[i];
    }
    map->n = kept;
    return KILN_OK;
}

/* Replaces the << entries of a finished map by the pairs of the maps they name: the map's own keys win, then those of
 * the first map. */
static kiln_status merge(reader *r, level *l)
{
    yaml_node *map = l->node, *source[MERGES_MAX];
    place at[MERGES_MAX]; /* of the <<; the place of an aliased map is where it was defined */
    size_t n_source = 0, kept = 0;
    for (size_t i = 0; i < map->n; i++) {
        if (is_merge_key(map->key[i])) {
            if (n_source == MERGES_MAX) return fault(r, map->key[i]->at, "more than 16 merge keys in one map");
            at[n_source] = map->key[i]->at;
            source[n_source++] = map->item[i];
            continue;
        }
        map->key[kept] = map->key[i];
        map->item[kept++] = map->item[i];
    }
    map->n = kept;
    for (size_t i = 0; i < n_source; i++) {
        if (source[i]->kind != YAML_SEQUENCE) {
            TRY(add_pairs(r, l, source[i], at[i]));
            continue;
        }
        for (size_t k = 0; k < source[i]->n; k++) TRY(add_pairs(r, l, source[i]->item[k], at[i]));
    }
    return n_source ? keep_first(r, map) : KILN_OK;
}

/* ---- events ---- */

/* Adds a node to the collection that is being read. */
static kiln_status attach(reader *r, yaml_node *node)
{
    if (++r->items > ITEMS_MAX) return fault(r, node->at, "too many items");
    if (r->depth == 0) {
        r->root = node;
        return KILN_OK;
    }
    level *l = &r->stack[r->depth - 1];
    if (l->node->kind == YAML_SEQUENCE) return append(r, l, NULL, node);
    if (!l->pending_key) {
        if (node->kind != YAML_SCALAR) return fault(r, node->at, "a key must be a plain name, not a list or a map");
        l->pending_key = node;
        return KILN_OK;
    }
    yaml_node *key = l->pending_key;
    l->pending_key = NULL;
    return append(r, l, key, node);
}

static kiln_status remember(reader *r, const char *anchor, yaml_node *node, size_t events)
{
    if (++r->n_anchor > ANCHORS_MAX) return fault(r, node->at, "more than 1,000 anchors");
    anchor_entry *x = arena_alloc(r->a, sizeof *x);
    if (!x) return no_memory(r);
    *x = (anchor_entry){.next = r->anchors, .name = anchor, .node = node, .events = events};
    r->anchors = x;
    return KILN_OK;
}

static void count(reader *r, size_t events)
{
    if (r->depth > 0) r->stack[r->depth - 1].events += events;
}

/* A tag names a type, but types come from the parameters. */
static kiln_status no_tag(reader *r, const yaml_char_t *tag, place at)
{
    if (!tag) return KILN_OK;
    return error_set(r->e, KILN_ERR_INVALID, "%s:%u:%u: the tag '%.60s' means nothing here; leave it out", r->name,
                     at.line, at.column, (const char *)tag);
}

static kiln_status on_scalar(reader *r, const yaml_event_t *event)
{
    place at = place_of(r, event->start_mark);
    TRY(no_tag(r, event->data.scalar.tag, at));
    if (event->data.scalar.length > SCALAR_MAX) return fault(r, at, "a scalar of more than 1 MiB");
    const char *text = (const char *)event->data.scalar.value;
    if (memchr(text, '\0', event->data.scalar.length)) return fault(r, at, "a NUL character in a scalar");
    yaml_node *n = arena_alloc(r->a, sizeof *n);
    char *copy = n ? arena_strndup(r->a, text, event->data.scalar.length) : NULL;
    if (!copy) return no_memory(r);
    *n = (yaml_node){.kind = YAML_SCALAR,
                     .at = at,
                     .text = copy,
                     .length = event->data.scalar.length,
                     .quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE};
    if (event->data.scalar.anchor) {
        const char *anchor = arena_strdup(r->a, (const char *)event->data.scalar.anchor);
        if (!anchor) return no_memory(r);
        TRY(remember(r, anchor, n, 1));
    }
    count(r, 1);
    return attach(r, n);
}

static kiln_status on_start(reader *r, const yaml_event_t *event, yaml_kind kind, const yaml_char_t *anchor,
                            const yaml_char_t *tag)
{
    place at = place_of(r, event->start_mark);
    TRY(no_tag(r, tag, at));
    if (r->depth == DEPTH_MAX) return fault(r, at, "nested deeper than 64 levels");
    yaml_node *n = arena_alloc(r->a, sizeof *n);
    if (!n) return no_memory(r);
    *n = (yaml_node){.kind = kind, .at = at};
    TRY(attach(r, n));
    const char *name = anchor ? arena_strdup(r->a, (const char *)anchor) : NULL;
    if (anchor && !name) return no_memory(r);
    r->stack[r->depth++] = (level){.node = n, .events = 2, .anchor = name};
    return KILN_OK;
}

static kiln_status on_end(reader *r)
{
    assert(r->depth > 0); /* libyaml pairs its start and end events */
    level l = r->stack[r->depth - 1];
    if (l.node->kind == YAML_MAP) {
        TRY(keys_are_unique(r, l.node));
        TRY(merge(r, &l));
    }
    r->depth--;
    count(r, l.events);
    return l.anchor ? remember(r, l.anchor, l.node, l.events) : KILN_OK;
}

static kiln_status on_alias(reader *r, const yaml_event_t *event)
{
    place at = place_of(r, event->start_mark);
    const char *name = (const char *)event->data.alias.anchor;
    for (anchor_entry *x = r->anchors; x; x = x->next) {
        if (strcmp(x->name, name) != 0) continue;
        r->replayed += x->events;
        if (r->replayed > REPLAY_MAX) return fault(r, at, "aliases expand to more than 10,000 items");
        count(r, x->events);
        return attach(r, x->node);
    }
    return error_set(r->e, KILN_ERR_INVALID, "%s:%u:%u: no anchor '&%.100s' stands before this alias", r->name, at.line,
                     at.column, name);
}

static kiln_status on_event(reader *r, const yaml_event_t *event, int *done)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT: return on_scalar(r, event);
    case YAML_SEQUENCE_START_EVENT:
        return on_start(r, event, YAML_SEQUENCE, event->data.sequence_start.anchor, event->data.sequence_start.tag);
    case YAML_MAPPING_START_EVENT:
        return on_start(r, event, YAML_MAP, event->data.mapping_start.anchor, event->data.mapping_start.tag);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT: return on_end(r);
    case YAML_ALIAS_EVENT: return on_alias(r, event);
    case YAML_DOCUMENT_START_EVENT:
        return r->root ? fault(r, place_of(r, event->start_mark), "a second document; a workflow file holds one")
                       : KILN_OK;
    case YAML_STREAM_END_EVENT: *done = 1; return KILN_OK;
    default: return KILN_OK;
    }
}

/* The line and column of a byte: for characters that YAML does not allow, libyaml gives only the offset. */
static place place_of_offset(const reader *r, const char *data, size_t size, size_t offset)
{
    place at = {.file = r->file, .line = 1, .column = 1};
    for (size_t i = 0; i < size && i < offset; i++) {
        at.column += ((unsigned char)data[i] & 0xc0) != 0x80;
        if (data[i] == '\n') at.line++, at.column = 1;
    }
    return at;
}

static int looks_like_json(const char *data, size_t size)
{
    size_t i = 0;
    while (i < size && strchr(" \t\r\n", data[i]) && data[i]) i++;
    return i + 1 < size && data[i] == '{' && memchr(data + i, '"', size - i < 200 ? size - i : 200);
}

/* The usual mistakes in the line where reading stopped, or the one before it. */
static const char *remedy_for(const char *data, size_t size, uint32_t line)
{
    const char *at = data, *end = data + size, *before = data;
    char text[1000];
    if (looks_like_json(data, size)) return "";
    for (uint32_t i = 1; i < line && at < end; i++) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        before = at;
        if (!next) break;
        at = next + 1;
    }
    const char *stop = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    size_t n = (size_t)((stop ? stop : end) - before);
    snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : sizeof text - 1), before);
    const char *last = strrchr(text, '\n');
    const char *open = strstr(text, "${"), *colon = strstr(last ? last + 1 : text, ": ");
    if (strchr(last ? last + 1 : text, '\t')) return "; indent with blanks, YAML takes no tabs";
    if (open && open > text && open[-1] != '"' && open[-1] != '\'' && !strchr("abcdefghijklmnopqrstuvwxyz", open[-1]))
        return "; write \"${name}\" in quotes";
    if (colon && strstr(colon + 2, ": ")) return "; a text with ': ' in it goes in quotes";
    return "";
}

static kiln_status parser_fault(reader *r, const yaml_parser_t *p, const char *data, size_t size)
{
    place at = p->error == YAML_READER_ERROR ? place_of_offset(r, data, size, p->problem_offset)
                                             : place_of(r, p->problem_mark);
    if (p->error == YAML_MEMORY_ERROR) return no_memory(r);
    return error_set(r->e, KILN_ERR_INVALID, "%s:%u:%u: not well-formed %s: %s%s%s%s", r->name, at.line, at.column,
                     looks_like_json(data, size) ? "JSON" : "YAML", p->problem ? p->problem : "cannot be read",
                     p->context ? ", " : "", p->context ? p->context : "", remedy_for(data, size, at.line));
}

/* ---- JSON ---- */

/* The surrogate half written at p as \uXXXX, or 0. */
static uint32_t half_at(const char *p, const char *end, uint32_t first)
{
    uint32_t v = 0;
    if (end - p < 6 || p[0] != '\\' || p[1] != 'u') return 0;
    for (int i = 2; i < 6; i++) {
        int digit = p[i] >= '0' && p[i] <= '9'   ? p[i] - '0'
                    : p[i] >= 'a' && p[i] <= 'f' ? p[i] - 'a' + 10
                    : p[i] >= 'A' && p[i] <= 'F' ? p[i] - 'A' + 10
                                                 : -1;
        if (digit < 0) return 0;
        v = v << 4 | (uint32_t)digit;
    }
    return (v & 0xfc00) == first ? v : 0;
}

/* JSON escapes a character beyond U+FFFF as a surrogate pair, YAML as one escape (\U0001f600): rewrites the pairs
 * inside double quotes, if the text begins with '{'. NULL: nothing to rewrite, or no memory (*failed). */
static char *join_surrogates(const char *data, size_t size, size_t *joined, int *failed)
{
    size_t n = 0, start = 0;
    int inside = 0;
    while (start < size && strchr(" \t\r\n", data[start]) && data[start]) start++;
    if (start == size || data[start] != '{' || !memmem(data, size, "\\u", 2)) return NULL;
    char *out = mem_alloc(size);
    if (!out) return *failed = 1, NULL;
    for (const char *p = data, *end = data + size; p < end;) {
        uint32_t high = inside ? half_at(p, end, 0xd800) : 0, low = high ? half_at(p + 6, end, 0xdc00) : 0;
        if (low) {
            char escape[11];
            snprintf(escape, sizeof escape, "\\U%08x", 0x10000u + ((high & 0x3ff) << 10) + (low & 0x3ff));
            memcpy(out + n, escape, 10);
            n += 10, p += 12;
            continue;
        }
        if (*p == '"') inside = !inside;
        if (inside && *p == '\\' && end - p > 1) out[n++] = *p++;
        out[n++] = *p++;
    }
    *joined = n;
    return out;
}

kiln_status yaml_tree_read(arena *a, const char *name, uint32_t file, const char *data, size_t size, yaml_node **out,
                           error *e)
{
    if (size > SIZE_MAX_BYTES)
        return error_set(e, KILN_ERR_INVALID, "%s:1:1: %zu bytes; a workflow file may have 16 MiB", name, size);
    if (!utf8_valid(data, size))
        return error_set(e, KILN_ERR_INVALID, "%s:1:1: not valid UTF-8 text%s", name,
                         size > 1 && (memcmp(data, "\xff\xfe", 2) == 0 || memcmp(data, "\xfe\xff", 2) == 0)
                             ? "; it is UTF-16, as Windows writes it: save it as UTF-8"
                             : "");
    int failed = 0;
    char *rewritten = join_surrogates(data, size, &size, &failed);
    if (rewritten) data = rewritten;
    reader *r = failed ? NULL : mem_calloc(1, sizeof *r);
    yaml_parser_t parser;
    if (!r || !yaml_parser_initialize(&parser)) {
        mem_free(r);
        mem_free(rewritten);
        return error_set(e, KILN_ERR_NOMEM, "%s: out of memory", name);
    }
    *r = (reader){.a = a, .name = name, .file = file, .e = e};
    yaml_parser_set_input_string(&parser, (const unsigned char *)data, size);
    kiln_status status = KILN_OK;
    for (int done = 0; status == KILN_OK && !done;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            status = parser_fault(r, &parser, data, size);
            break;
        }
        status = on_event(r, &event, &done);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (status == KILN_OK && !r->root) status = error_set(e, KILN_ERR_INVALID, "%s:1:1: the file is empty", name);
    *out = r->root;
    mem_free(r);
    mem_free(rewritten);
    return status;
}

yaml_node *yaml_get(const yaml_node *map, const char *key)
{
    if (!map || map->kind != YAML_MAP) return NULL;
    for (size_t i = 0; i < map->n; i++)
        if (strcmp(map->key[i]->text, key) == 0) return map->item[i];
    return NULL;
}
