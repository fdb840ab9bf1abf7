/* json_scan.c - see json_scan.h. */
#include "weights/json_scan.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

kiln_status json_fail(json_scan *s, size_t at, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return error_set(s->e, KILN_ERR_INVALID, "%s: byte %llu: %s", s->file, (unsigned long long)(s->offset + at), text);
}

size_t json_here(json_scan *s)
{
    while (s->at < s->size && strchr(" \t\n\r", s->text[s->at]) && s->text[s->at]) s->at++;
    return s->at;
}

static int peek(json_scan *s) { return json_here(s) < s->size ? s->text[s->at] : -1; }

/* "'x'", "byte 0x07" or "the end" into buf */
static const char *seen(json_scan *s, char buf[24])
{
    int c = peek(s);
    if (c < 0) return "the end of the text";
    snprintf(buf, 24, c > 0x20 && c < 0x7f ? "'%c'" : "byte 0x%02x", c);
    return buf;
}

static kiln_status expected(json_scan *s, const char *what)
{
    char buf[24];
    size_t at = json_here(s);
    return json_fail(s, at, "%s where %s must be", seen(s, buf), what);
}

kiln_status json_open(json_scan *s, char bracket)
{
    if (peek(s) != bracket) return expected(s, bracket == '{' ? "an object '{'" : "an array '['");
    if (++s->depth > JSON_DEPTH_MAX) return json_fail(s, s->at, "nested deeper than %d levels", JSON_DEPTH_MAX);
    s->at++;
    return KILN_OK;
}

kiln_status json_more(json_scan *s, char closing, size_t *index, int *more)
{
    int c = peek(s);
    *more = 1;
    if (c == closing) {
        s->at++;
        s->depth--;
        *more = 0;
    } else if (*index > 0) {
        if (c != ',') return expected(s, closing == '}' ? "',' or '}'" : "',' or ']'");
        s->at++;
        if (peek(s) == closing) return expected(s, "another value after ','");
    }
    ++*index;
    return KILN_OK;
}

static int hex4(json_scan *s, uint32_t *out)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    *out = 0;
    if (s->size - s->at < 4) return 0;
    for (int i = 0; i < 4; i++) {
        const char *d = memchr(digits, s->text[s->at + (size_t)i], sizeof digits - 1);
        if (!d) return 0;
        *out = *out << 4 | ((uint32_t)(d - digits) & 15u);
    }
    s->at += 4;
    return 1;
}

static void put_utf8(json_scan *s, uint32_t c)
{
    char *out = s->pool + s->pool_used;
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint32_t lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; c >>= 6) out[i] = (char)(0x80u | (c & 0x3fu));
    out[0] = (char)(lead[n] | c);
    s->pool_used += n;
}

static kiln_status escape(json_scan *s)
{
    static const char letter[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
    size_t at = s->at++; /* the backslash */
    int c = s->at < s->size ? s->text[s->at++] : 0;
    const char *known = c ? strchr(letter, c) : NULL;
    if (known) return put_utf8(s, (uint32_t)plain[known - letter]), KILN_OK;
    uint32_t code, low;
    if (c != 'u' || !hex4(s, &code)) return json_fail(s, at, "a bad escape in a string");
    if (code >= 0xd800 && code <= 0xdbff) {
        int pair = s->size - s->at >= 6 && s->text[s->at] == '\\' && s->text[s->at + 1] == 'u';
        if (pair) s->at += 2;
        if (!pair || !hex4(s, &low) || low < 0xdc00 || low > 0xdfff)
            return json_fail(s, at, "half a surrogate pair in a string");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code >= 0xdc00 && code <= 0xdfff) return json_fail(s, at, "half a surrogate pair in a string");
    if (code == 0) return json_fail(s, at, "a NUL in a string");
    put_utf8(s, code);
    return KILN_OK;
}

kiln_status json_string(json_scan *s, const char **out, size_t *length)
{
    if (peek(s) != '"') return expected(s, "a string");
    size_t start = s->at++, pool_start = s->pool_used;
    for (;;) {
        size_t run = s->at;
        while (run < s->size && s->text[run] != '"' && s->text[run] != '\\' && s->text[run] >= 0x20) run++;
        size_t n = run - s->at;
        if (!utf8_valid((const char *)s->text + s->at, n))
            return json_fail(s, start, "a string that is not UTF-8 starts here");
        if (n) memcpy(s->pool + s->pool_used, s->text + s->at, n);
        s->pool_used += n;
        s->at = run;
        if (run == s->size) return json_fail(s, start, "the string that starts here does not end");
        if (s->text[run] == '"') break;
        if (s->text[run] != '\\') return json_fail(s, run, "a control character in a string");
        TRY(escape(s));
    }
    s->at++;
    s->pool[s->pool_used] = '\0';
    *out = s->pool + pool_start;
    *length = s->pool_used - pool_start;
    s->pool_used++;
    return KILN_OK;
}

kiln_status json_key(json_scan *s, const char **out, size_t *length)
{
    TRY(json_string(s, out, length));
    if (peek(s) != ':') return expected(s, "':'");
    s->at++;
    return KILN_OK;
}

static int is_digit(int c) { return c >= '0' && c <= '9'; }

kiln_status json_count(json_scan *s, uint64_t *out)
{
    size_t start = json_here(s);
    uint64_t v = 0;
    if (!is_digit(peek(s))) return expected(s, "a whole number (0 to 2^53)");
    while (s->at < s->size && is_digit(s->text[s->at])) {
        v = v * 10 + (uint64_t)(s->text[s->at++] - '0');
        if (v > (uint64_t)1 << 53) return json_fail(s, start, "a number above 2^53");
    }
    if (s->text[start] == '0' && s->at - start > 1) return json_fail(s, start, "a number with a leading zero");
    if (s->at < s->size && s->text[s->at] && strchr(".eE+-", s->text[s->at]))
        return json_fail(s, start, "a number with a fraction or exponent where a whole one must be");
    *out = v;
    return KILN_OK;
}

static void digits(json_scan *s)
{
    while (s->at < s->size && is_digit(s->text[s->at])) s->at++;
}

static int at_one_of(json_scan *s, const char *set)
{
    return s->at < s->size && s->text[s->at] && strchr(set, s->text[s->at]);
}

static kiln_status skip_number(json_scan *s)
{
    size_t start = s->at;
    if (at_one_of(s, "-")) s->at++;
    size_t whole = s->at, n;
    digits(s);
    n = s->at - whole;
    int ok = n > 0 && (n == 1 || s->text[whole] != '0');
    if (ok && at_one_of(s, ".")) {
        size_t fraction = ++s->at;
        digits(s);
        ok = s->at > fraction;
    }
    if (ok && at_one_of(s, "eE")) {
        s->at++;
        if (at_one_of(s, "+-")) s->at++;
        size_t exponent = s->at;
        digits(s);
        ok = s->at > exponent;
    }
    return ok ? KILN_OK : json_fail(s, start, "not a number");
}

static kiln_status skip_scalar(json_scan *s)
{
    static const char *const words[] = {"true", "false", "null"};
    const char *text;
    size_t n;
    int c = peek(s);
    if (c == '"') {
        size_t keep = s->pool_used;
        TRY(json_string(s, &text, &n));
        s->pool_used = keep;
        return KILN_OK;
    }
    if (c == '-' || is_digit(c)) return skip_number(s);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        n = strlen(words[i]);
        if (s->size - s->at >= n && memcmp(s->text + s->at, words[i], n) == 0) return s->at += n, KILN_OK;
    }
    return expected(s, "a value");
}

kiln_status json_skip(json_scan *s)
{
    char closing[JSON_DEPTH_MAX + 1];
    size_t index[JSON_DEPTH_MAX + 1], level = 0;
    const char *key;
    size_t n;
    for (;;) {
        int c = peek(s), more = 0;
        if (c == '{' || c == '[') {
            TRY(json_open(s, (char)c));
            closing[level] = c == '{' ? '}' : ']';
            index[level++] = 0;
        } else {
            TRY(skip_scalar(s));
        }
        while (level > 0 && !more) {
            TRY(json_more(s, closing[level - 1], &index[level - 1], &more));
            if (!more) level--;
        }
        if (level == 0 && !more) return KILN_OK;
        if (closing[level - 1] == '}') {
            size_t keep = s->pool_used;
            TRY(json_key(s, &key, &n));
            s->pool_used = keep;
        }
    }
}
