/* charsmap.c - see charsmap.h. Every place is checked while it is walked: the data come from a file. */
#include "charsmap.h"

#include <stdio.h>
#include <string.h>

struct charsmap {
    const uint32_t *unit;
    size_t n_unit;
    const char *text;
    size_t n_text; /* with the NUL that ends it */
};

charsmap *charsmap_new(token_pool *p, const void *data, size_t bytes, char *why)
{
    const unsigned char *d = data;
    charsmap *m = token_pool_get(p, 1, sizeof *m);
    size_t trie = bytes >= 4 ? (size_t)d[0] | (size_t)d[1] << 8 | (size_t)d[2] << 16 | (size_t)d[3] << 24 : 0;
    if (trie == 0 || trie % 4 || trie >= bytes - 4) {
        snprintf(why, 300, "the precompiled_charsmap of %zu bytes has a trie of %zu bytes", bytes, trie);
        return NULL;
    }
    uint32_t *unit = token_pool_get(p, trie / 4, 4);
    char *text = token_pool_copy(p, (const char *)d + 4 + trie, bytes - 4 - trie);
    if (!m || !unit || !text) {
        snprintf(why, 300, "no memory for the precompiled_charsmap");
        return NULL;
    }
    for (size_t i = 0; i < trie / 4; i++) {
        const unsigned char *u = d + 4 + 4 * i;
        unit[i] = (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
    }
    *m = (charsmap){unit, trie / 4, text, bytes - 4 - trie + 1};
    return m;
}

/* A unit: bits 0-7 and 31 the label, bit 8 whether a value hangs on it, bits 10-30 the offset (times 256 with bit 9).
 */
static size_t offset_of(uint32_t unit) { return (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6); }
static uint32_t label_of(uint32_t unit) { return unit & (1u << 31 | 0xff); }

static const char *find(const charsmap *m, const char *s, size_t n, int shortest, size_t *taken, size_t *bytes)
{
    size_t node = offset_of(m->unit[0]);
    const char *found = NULL;
    for (size_t i = 0; i < n && !(shortest && found); i++) {
        unsigned char c = (unsigned char)s[i];
        node ^= c;
        if (node >= m->n_unit || label_of(m->unit[node]) != c || c == 0) break;
        uint32_t unit = m->unit[node];
        node ^= offset_of(unit);
        if (!(unit >> 8 & 1)) continue;
        size_t at = node < m->n_unit ? m->unit[node] & 0x7fffffff : m->n_text;
        if (at >= m->n_text) break;
        *taken = i + 1;
        *bytes = strlen(m->text + at);
        found = m->text + at;
    }
    return found;
}

const char *charsmap_longest(const charsmap *m, const char *s, size_t n, size_t *taken, size_t *bytes)
{
    return find(m, s, n, 0, taken, bytes);
}

const char *charsmap_shortest(const charsmap *m, const char *s, size_t n, size_t *bytes)
{
    size_t taken;
    return find(m, s, n, 1, &taken, bytes);
}
