/* words.c - see words.h. */
#include "words.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

typedef int word_fn(void *arg, word_kind kind, const char *word, size_t n);

static const struct {
    const char *text;
    word_kind kind;
} special[] = {{"<|startoftext|>", WORD_START_TOKEN}, {"<|endoftext|>", WORD_END_TOKEN}};

/* ---- letters ---- */

/* White_Space of Unicode's PropList. */
static int is_blank(int32_t c)
{
    return (c >= 9 && c <= 13) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

typedef enum { KIND_BLANK, KIND_LETTER, KIND_NUMBER, KIND_OTHER } letter_kind;

static letter_kind kind_of(int32_t c)
{
    if (is_blank(c)) return KIND_BLANK;
    utf8proc_category_t k = utf8proc_category(c);
    if (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) return KIND_LETTER;
    return k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO ? KIND_NUMBER : KIND_OTHER;
}

/* The character at s (valid UTF-8); *n: its bytes. */
static int32_t letter_at(const char *s, size_t capacity, size_t *n)
{
    utf8proc_int32_t c = -1;
    utf8proc_ssize_t got = utf8proc_iterate((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)capacity, &c);
    *n = got > 0 ? (size_t)got : 1;
    return c;
}

/* Writes one character in lower case; only U+0130 becomes two (Unicode's SpecialCasing, the unconditional rows). */
static size_t put_lower(int32_t c, char *out)
{
    if (c == 0x130) {
        memcpy(out, "i\xcc\x87", 3);
        return 3;
    }
    return (size_t)utf8proc_encode_char(utf8proc_tolower(c), (utf8proc_uint8_t *)out);
}

/* ---- the pattern ---- */

static size_t starts_with_any(const char *s, size_t n, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t m = strlen(list[i]);
        if (m <= n && memcmp(s, list[i], m) == 0) return m;
    }
    return 0;
}

/* Bytes of the run of characters of one kind at s. */
static size_t run_of(const char *s, size_t n, letter_kind kind)
{
    size_t at = 0, step;
    while (at < n && kind_of(letter_at(s + at, n - at, &step)) == kind) at += step;
    return at;
}

/* Text that became a special token's name only in lower case is cut like any text, but on its own. */
static int split_spelt_special(const char *s, size_t n, word_fn *fn, void *arg)
{
    return fn(arg, WORD_PLAIN, s, 2) && fn(arg, WORD_PLAIN, s + 2, n - 4) && fn(arg, WORD_PLAIN, s + n - 2, 2);
}

static int split_plain(const char *s, size_t n, word_fn *fn, void *arg)
{
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    static const char *const specials[] = {"<|startoftext|>", "<|endoftext|>"};
    for (size_t at = 0, step; at < n; at += step) {
        letter_kind kind = kind_of(letter_at(s + at, n - at, &step));
        if (kind == KIND_BLANK) continue;
        size_t m = starts_with_any(s + at, n - at, specials, 2);
        if (m) {
            if (!split_spelt_special(s + at, m, fn, arg)) return 0;
            step = m;
            continue;
        }
        if ((m = starts_with_any(s + at, n - at, endings, 7)))
            step = m;
        else if (kind != KIND_NUMBER)
            step = run_of(s + at, n - at, kind);
        if (!fn(arg, WORD_PLAIN, s + at, step)) return 0;
    }
    return 1;
}

/* text[n] in NFC and lower case, a new string. */
static char *normalise(const char *text, size_t n, size_t *out_n)
{
    utf8proc_uint8_t *nfc = NULL;
    utf8proc_ssize_t m = utf8proc_map((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &nfc,
                                      (utf8proc_option_t)(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    char *out = m >= 0 ? malloc(3 * (size_t)m + 8) : NULL; /* lower case is at most three times as long */
    if (out) {
        size_t to = 0, step;
        for (size_t at = 0; at < (size_t)m; at += step)
            to += put_lower(letter_at((const char *)nfc + at, (size_t)m - at, &step), out + to);
        *out_n = to;
    }
    free(nfc);
    return out;
}

static int plain(const char *text, size_t n, word_fn *fn, void *arg, int *stopped)
{
    if (n == 0) return 1;
    size_t m = 0;
    char *s = normalise(text, n, &m);
    if (!s) return -1;
    *stopped = !split_plain(s, m, fn, arg);
    free(s);
    return 1;
}

static int valid(const char *text, size_t n, size_t *bad)
{
    for (size_t at = 0; at < n;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t got = utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(n - at), &c);
        *bad = at;
        if (got <= 0) return 0;
        at += (size_t)got;
    }
    return 1;
}

int words_each(const char *text, size_t n, word_fn *fn, void *arg, size_t *bad)
{
    size_t from = 0;
    int stopped = 0;
    if (!valid(text, n, bad)) return 0;
    for (size_t at = 0; at < n && !stopped;) {
        size_t k = 0, m = 0;
        for (; k < sizeof special / sizeof special[0]; k++) {
            m = strlen(special[k].text);
            if (m <= n - at && memcmp(text + at, special[k].text, m) == 0) break;
        }
        if (k == sizeof special / sizeof special[0]) {
            at++;
            continue;
        }
        if (plain(text + from, at - from, fn, arg, &stopped) < 0) return -1;
        if (!stopped) stopped = !fn(arg, special[k].kind, text + at, m);
        at += m;
        from = at;
    }
    return stopped ? 1 : plain(text + from, n - from, fn, arg, &stopped);
}
