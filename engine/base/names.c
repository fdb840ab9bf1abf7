/* names.c - see names.h. The distance is optimal string alignment: Levenshtein's, plus swaps of neighbours. */
#include "base/names.h"

#include <assert.h>
#include <ctype.h>
#include <stdint.h>
#include <string.h>

enum { NAME_LONGEST = 128, LINE_LONGEST = 16384 };

static int low(char c) { return tolower((unsigned char)c); }

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t row[3][NAME_LONGEST + 1];
    assert(n <= NAME_LONGEST && m <= NAME_LONGEST);
    for (size_t j = 0; j <= m; j++) row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = row[i % 3], *above = row[(i + 2) % 3], *two = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t change = above[j - 1] + (low(a[i - 1]) != low(b[j - 1]));
            now[j] = smaller(change, smaller(above[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && low(a[i - 1]) == low(b[j - 2]) && low(a[i - 2]) == low(b[j - 1]))
                now[j] = smaller(now[j], two[j - 2] + 1);
        }
    }
    return row[n % 3][m];
}

static const char *nearest_within(const char *word, const char *(*at)(void *arg, size_t i), size_t n, void *arg,
                                  size_t limit)
{
    size_t len = strlen(word);
    if (len == 0 || len > NAME_LONGEST) return NULL;
    const char *best = NULL;
    size_t best_distance = limit + 1;
    for (size_t i = 0; i < n; i++) {
        const char *name = at(arg, i);
        size_t m = name ? strlen(name) : 0;
        if (m == 0 || m > NAME_LONGEST || (m > len ? m - len : len - m) > limit) continue;
        size_t d = distance(word, len, name, m);
        if (d < best_distance && 2 * d <= (m > len ? m : len)) best_distance = d, best = name;
    }
    return best;
}

const char *nearest_name(const char *word, const char *(*at)(void *arg, size_t i), size_t n, void *arg)
{
    return nearest_within(word, at, n, arg, strlen(word) / 3 + 1);
}

const char *nearest_type(const char *word, const char *(*at)(void *arg, size_t i), size_t n, void *arg)
{
    return nearest_within(word, at, n, arg, (strlen(word) + 1) / 4 + 1);
}

static const char *array_at(void *arg, size_t i) { return ((const char *const *)arg)[i]; }

const char *nearest_of(const char *word, const char *const *name, size_t n)
{
    return nearest_name(word, array_at, n, (void *)(uintptr_t)name);
}

static int is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || (c && strchr("_.+-", c));
}

static int is_name_with(const char *name, int blanks)
{
    size_t n = name ? strnlen(name, NAME_LONGEST + 1) : 0;
    if (n == 0 || n > NAME_LONGEST) return 0;
    for (size_t i = 0; i < n; i++) {
        int between = i > 0 && i + 1 < n && name[i - 1] != ' ';
        if (!is_name_char(name[i]) && !(blanks && name[i] == ' ' && between)) return 0;
    }
    return 1;
}

int name_is_valid(const char *name) { return is_name_with(name, 0); }
int node_type_is_valid(const char *type) { return is_name_with(type, 1); }

int line_is_valid(const char *text)
{
    size_t n = text ? strnlen(text, LINE_LONGEST + 1) : 0;
    if (n == 0 || n > LINE_LONGEST) return 0;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f) return 0;
    return 1;
}
