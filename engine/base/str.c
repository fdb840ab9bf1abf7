/* str.c - growing strings, UTF-8 and JSON escapes; see str.h. Numbers are in str_number.c, suggestions in names.c. */
#include "base/str.h"

#include "base/array.h"
#include "base/checked.h"
#include "base/memory_alloc.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static int reserve(str *s, size_t more)
{
    size_t need;
    assert(s->data ? s->len < s->capacity : s->len == 0);
    if (s->failed || !checked_add_size(s->len, more, &need) || !checked_add_size(need, 1, &need))
        return s->failed = 1, 0;
    if (!array_reserve(&s->data, &s->capacity, need, 1)) s->failed = 1;
    return !s->failed;
}

void str_append_n(str *s, const char *bytes, size_t n)
{
    if (!reserve(s, n)) return;
    if (n) memcpy(s->data + s->len, bytes, n);
    s->len += n;
    s->data[s->len] = '\0';
}

void str_append(str *s, const char *text) { str_append_n(s, text, strlen(text)); }
void str_char(str *s, char c) { str_append_n(s, &c, 1); }

void str_printf(str *s, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    if (n < 0)
        s->failed = 1;
    else if (reserve(s, (size_t)n)) {
        vsnprintf(s->data + s->len, (size_t)n + 1, fmt, again);
        s->len += (size_t)n;
    }
    va_end(again);
}

size_t utf8_sequence(const unsigned char *s, size_t n, uint32_t *code)
{
    if (n == 0) return 0;
    if (s[0] < 0x80) return *code = s[0], 1;
    size_t len = s[0] >= 0xc2 && s[0] <= 0xdf ? 2 : (s[0] & 0xf0) == 0xe0 ? 3 : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4 : 0;
    if (len == 0 || n < len) return 0;
    uint32_t c = s[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (s[i] & 0x3fu);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return 0;
    *code = c;
    return len;
}

int text_is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

int utf8_valid(const char *s, size_t n)
{
    uint32_t code;
    while (n > 0) {
        size_t len = utf8_sequence((const unsigned char *)s, n, &code);
        if (len == 0) return 0;
        s += len;
        n -= len;
    }
    return 1;
}

static void json_escape(str *s, uint32_t c)
{
    static const char plain[] = "\b\f\n\r\t\"\\", letter[] = "bfnrt\"\\";
    const char *at = c && c < 0x80 ? strchr(plain, (int)c) : NULL;
    if (at)
        str_printf(s, "\\%c", letter[at - plain]);
    else if (c >= 0x10000)
        str_printf(s, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
    else
        str_printf(s, "\\u%04x", c);
}

void str_json(str *s, const char *text, size_t n, int ascii)
{
    const unsigned char *p = (const unsigned char *)text;
    str_char(s, '"');
    while (n > 0) {
        uint32_t c = 0xfffd;
        size_t len = utf8_sequence(p, n, &c);
        if (c == '"' || c == '\\' || text_is_control(c) || (c >= 0x80 && (ascii || len == 0)))
            json_escape(s, c);
        else
            str_append_n(s, (const char *)p, len);
        if (len == 0) len = 1;
        p += len;
        n -= len;
    }
    str_char(s, '"');
}

const char *str_text(const str *s) { return s->data ? s->data : ""; }

char *str_take(str *s)
{
    if (!s->data && !s->failed) str_append(s, "");
    char *data = s->failed ? NULL : s->data;
    if (s->failed) mem_free(s->data);
    *s = (str){0};
    return data;
}

void str_free(str *s)
{
    mem_free(s->data);
    *s = (str){0};
}

const char *str_stem(const char *path, size_t *n)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    *n = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    return name;
}
