/* token_index.c - see token_index.h. Open addressing, at most half full. */
#include "token_index.h"

#include <string.h>

static uint64_t mix(uint64_t h)
{
    h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
    h = (h ^ h >> 27) * 0x94d049bb133111ebu;
    return h ^ h >> 31;
}

static uint32_t hash_text(const char *s, size_t n)
{
    uint64_t h = n, word;
    for (; n >= 8; s += 8, n -= 8) {
        memcpy(&word, s, 8);
        h = mix(h ^ word);
    }
    word = 0;
    memcpy(&word, s, n);
    return (uint32_t)mix(h ^ word ^ 0x9e3779b97f4a7c15u);
}

static uint32_t slots_for(size_t n)
{
    uint32_t slots = 16;
    while (slots < 2 * n) slots *= 2;
    return slots;
}

/* ---- vocabulary ---- */

int vocabulary_new(token_pool *p, vocabulary *v, size_t n)
{
    *v = (vocabulary){.n = n, .slots = slots_for(n)};
    v->piece = token_pool_get(p, n ? n : 1, sizeof *v->piece);
    v->by_text = token_pool_get(p, v->slots, sizeof *v->by_text);
    if (!v->piece || !v->by_text) return 0;
    memset(v->by_text, 0xff, v->slots * sizeof *v->by_text);
    return 1;
}

void vocabulary_set(vocabulary *v, int32_t id, const char *text, size_t n)
{
    v->piece[id] = (token_piece){.text = text, .n = (uint32_t)n, .type = PIECE_NORMAL};
}

static int32_t *slot_of(const vocabulary *v, const char *text, size_t n)
{
    for (uint32_t i = hash_text(text, n);; i++) {
        int32_t *slot = &v->by_text[i & (v->slots - 1)];
        if (*slot == NO_TOKEN) return slot;
        const token_piece *x = &v->piece[*slot];
        if (x->n == n && memcmp(x->text, text, n) == 0) return slot;
    }
}

int vocabulary_name(vocabulary *v, int32_t id)
{
    int32_t *slot = slot_of(v, v->piece[id].text, v->piece[id].n);
    if (*slot != NO_TOKEN) return 0;
    *slot = id;
    return 1;
}

int32_t vocabulary_find(const vocabulary *v, const char *text, size_t n)
{
    return v->slots ? *slot_of(v, text, n) : NO_TOKEN;
}

/* ---- pairs ---- */

static pair_row *row_of(const pair_table *t, int32_t a, int32_t b)
{
    for (uint32_t i = (uint32_t)mix((uint64_t)(uint32_t)a << 32 | (uint32_t)b);; i++) {
        pair_row *r = &t->row[i & (t->slots - 1)];
        if (r->value == NO_TOKEN || (r->a == a && r->b == b)) return r;
    }
}

static int make_larger(token_pool *p, pair_table *t)
{
    pair_table larger = {.n = t->n, .slots = t->slots ? 2 * t->slots : 64};
    if (!(larger.row = token_pool_get(p, larger.slots, sizeof *larger.row))) return 0;
    for (uint32_t i = 0; i < larger.slots; i++) larger.row[i].value = NO_TOKEN;
    for (uint32_t i = 0; i < t->slots; i++)
        if (t->row[i].value != NO_TOKEN) *row_of(&larger, t->row[i].a, t->row[i].b) = t->row[i];
    *t = larger;
    return 1;
}

int pairs_put(token_pool *p, pair_table *t, int32_t a, int32_t b, int32_t value, int32_t value2)
{
    if (2 * (t->n + 1) > t->slots && !make_larger(p, t)) return 0;
    pair_row *r = row_of(t, a, b);
    if (r->value != NO_TOKEN) return 1;
    *r = (pair_row){a, b, value, value2};
    t->n++;
    return 1;
}

const pair_row *pairs_find(const pair_table *t, int32_t a, int32_t b)
{
    if (!t->slots) return NULL;
    const pair_row *r = row_of(t, a, b);
    return r->value == NO_TOKEN ? NULL : r;
}

/* ---- trie ---- */

static int32_t new_node(token_pool *p, byte_trie *t)
{
    if (t->n >= INT32_MAX || !token_pool_reserve(p, &t->value, &t->capacity, t->n + 1, sizeof *t->value))
        return NO_TOKEN;
    t->value[t->n] = NO_TOKEN;
    return (int32_t)t->n++;
}

int trie_put(token_pool *p, byte_trie *t, const char *text, size_t n, int32_t value)
{
    int32_t node = 0;
    if (t->n == 0 && new_node(p, t) == NO_TOKEN) return 0;
    for (size_t i = 0; i < n; i++) {
        int32_t next = trie_step(t, node, text[i]);
        if (next == NO_TOKEN) {
            next = new_node(p, t);
            if (next == NO_TOKEN || !pairs_put(p, &t->step, node, (unsigned char)text[i], next, 0)) return 0;
        }
        node = next;
    }
    t->value[node] = value;
    return 1;
}

size_t trie_longest(const byte_trie *t, const char *s, size_t n, int32_t *value)
{
    size_t longest = 0;
    int32_t node = 0;
    for (size_t i = 0; i < n && (node = trie_step(t, node, s[i])) != NO_TOKEN; i++)
        if (t->value[node] != NO_TOKEN) {
            longest = i + 1;
            *value = t->value[node];
        }
    return longest;
}
