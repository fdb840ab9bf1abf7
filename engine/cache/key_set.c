/* key_set.c - see key_set.h. */
#include "cache/key_set.h"

#include "base/memory_alloc.h"

#include <string.h>

static size_t place_of(const key_set *set, digest key)
{
    size_t at = (size_t)key.lo & (set->capacity - 1);
    while (set->tag[at] && !digest_equal(set->key[at], key)) at = (at + 1) & (set->capacity - 1);
    return at;
}

static int key_set_grow(key_set *set)
{
    key_set bigger = {.capacity = set->capacity ? set->capacity * 2 : 64, .n = set->n};
    bigger.key = mem_alloc(bigger.capacity * sizeof *bigger.key);
    bigger.tag = mem_calloc(bigger.capacity, sizeof *bigger.tag);
    if (!bigger.key || !bigger.tag) {
        mem_free(bigger.key), mem_free(bigger.tag);
        return 0;
    }
    for (size_t i = 0; i < set->capacity; i++) {
        if (!set->tag[i]) continue;
        size_t at = place_of(&bigger, set->key[i]);
        bigger.key[at] = set->key[i], bigger.tag[at] = set->tag[i];
    }
    mem_free(set->key), mem_free(set->tag);
    *set = bigger;
    return 1;
}

int key_set_add(key_set *set, digest key, uint32_t tag)
{
    if (2 * (set->n + 1) > set->capacity && !key_set_grow(set)) return 0;
    size_t at = place_of(set, key);
    set->n += set->tag[at] == 0;
    set->key[at] = key, set->tag[at] = tag + 1;
    return 1;
}

int key_set_find(const key_set *set, digest key, uint32_t *tag)
{
    if (!set->capacity) return 0;
    size_t at = place_of(set, key);
    if (!set->tag[at]) return 0;
    if (tag) *tag = set->tag[at] - 1;
    return 1;
}

void key_set_clear(key_set *set)
{
    if (set->capacity) memset(set->tag, 0, set->capacity * sizeof *set->tag);
    set->n = 0;
}

void key_set_free(key_set *set)
{
    mem_free(set->key), mem_free(set->tag);
    *set = (key_set){0};
}
