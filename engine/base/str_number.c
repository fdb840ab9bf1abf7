/* str_number.c - numbers to text and back, in any locale. */
#include "base/str.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;
static void c_locale_make(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

int str_to_double(const char *text, size_t n, double *out)
{
    char buf[128];
    if (n == 0 || n >= sizeof buf) return 0;
    for (size_t i = 0; i < n; i++) /* strtod would also take inf, nan and hexadecimal */
        if (!strchr("0123456789+-.eE", text[i]) || !text[i]) return 0;
    memcpy(buf, text, n);
    buf[n] = '\0';
    pthread_once(&c_locale_once, c_locale_make);
    char *end;
    double v = c_locale ? strtod_l(buf, &end, c_locale) : strtod(buf, &end);
    if (end != buf + n || !isfinite(v)) return 0;
    *out = v;
    return 1;
}

int str_to_u64(const char *text, size_t n, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = n > 0 && text[0] == '+';
    if (i >= n) return 0;
    for (; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') return 0;
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(text[i] - '0'), &v)) return 0;
    }
    *out = v;
    return 1;
}

int str_to_i64(const char *text, size_t n, int64_t *out)
{
    int minus = n > 0 && text[0] == '-';
    uint64_t v;
    if (minus && n > 1 && text[1] == '+') return 0;
    if (!str_to_u64(text + minus, n - (size_t)minus, &v)) return 0;
    if (v > (uint64_t)INT64_MAX + (uint64_t)minus) return 0;
    *out = minus ? (int64_t)(0 - v) : (int64_t)v;
    return 1;
}

void str_double(str *s, double v)
{
    char buf[40];
    double back;
    pthread_once(&c_locale_once, c_locale_make);
    locale_t old = c_locale ? uselocale(c_locale) : (locale_t)0;
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(buf, sizeof buf, "%.*g", digits, v);
        if (!isfinite(v) || (str_to_double(buf, strlen(buf), &back) && back == v)) break;
    }
    if (old) uselocale(old);
    str_append(s, buf);
}

int str_to_bytes(const char *text, size_t n, uint64_t *out)
{
    static const struct {
        const char *name;
        double times;
    } unit[] = {{"", 1},
                {"b", 1},
                {"k", 1e3},
                {"kb", 1e3},
                {"kib", 1024},
                {"m", 1e6},
                {"mb", 1e6},
                {"mib", 1048576},
                {"g", 1e9},
                {"gb", 1e9},
                {"gib", 1073741824},
                {"t", 1e12},
                {"tb", 1e12},
                {"tib", 1099511627776.0}};
    size_t digits = 0;
    double number;
    char name[8] = "";
    while (digits < n && (strchr("0123456789.", text[digits]) && text[digits])) digits++;
    if (!str_to_double(text, digits, &number)) return 0;
    while (digits < n && text[digits] == ' ') digits++;
    if (n - digits >= sizeof name) return 0;
    for (size_t i = 0; i < n - digits; i++)
        name[i] = (char)(text[digits + i] >= 'A' && text[digits + i] <= 'Z' ? text[digits + i] + 32 : text[digits + i]);
    for (size_t i = 0; i < sizeof unit / sizeof unit[0]; i++) {
        if (strcmp(unit[i].name, name) != 0 || number * unit[i].times >= 9e18) continue;
        *out = (uint64_t)(number * unit[i].times);
        return 1;
    }
    return 0;
}

const char *str_bytes(char buf[16], uint64_t bytes)
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
    uint64_t whole = bytes, part = 0;
    size_t u = 0;
    while (whole >= 1000 && u + 1 < sizeof unit / sizeof unit[0]) {
        part = whole % 1000 / 100;
        whole /= 1000;
        u++;
    }
    if (u == 0)
        snprintf(buf, 16, "%u B", (unsigned)whole);
    else
        snprintf(buf, 16, "%u.%u %s", (unsigned)whole % 1000000u, (unsigned)part, unit[u]);
    return buf;
}
