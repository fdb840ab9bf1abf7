/* names.c - the name nearest to a misspelt one, by edit distance with transpositions (optimal string alignment) that
 * ignores case. */
#include "base/str.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

enum { LONGEST = 128 };

static int low(char c) { return tolower((unsigned char)c); }

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t row[3][LONGEST + 1];
    assert(n <= LONGEST && m <= LONGEST);
    for (size_t j = 0; j <= m; j++) row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = row[i % 3], *above = row[(i + 2) % 3], *two = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = above[j - 1] + (low(a[i - 1]) != low(b[j - 1]));
            now[j] = least(change, least(above[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && low(a[i - 1]) == low(b[j - 2]) && low(a[i - 2]) == low(b[j - 1]))
                now[j] = least(now[j], two[j - 2] + 1);
        }
    }
    return row[n % 3][m];
}

const char *nearest_name(const char *word, const char *(*at)(void *arg, size_t i), size_t n, void *arg)
{
    size_t len = strlen(word);
    if (len == 0 || len > LONGEST) return NULL;
    const char *best = NULL;
    size_t limit = len < 3 ? 1 : len < 6 ? 2 : len / 3 + 1, best_distance = limit + 1;
    for (size_t i = 0; i < n; i++) {
        const char *name = at(arg, i);
        size_t m = name ? strlen(name) : 0;
        if (m == 0 || m > LONGEST || (m > len ? m - len : len - m) > limit) continue;
        size_t d = distance(word, len, name, m);
        if (d < best_distance) best_distance = d, best = name;
    }
    return best;
}

static const char *array_at(void *arg, size_t i) { return ((const char *const *)arg)[i]; }

const char *nearest_of(const char *word, const char *const *name, size_t n)
{
    return nearest_name(word, array_at, n, (void *)(uintptr_t)name);
}
