/* python_format.c - see python_format.h. The specification is read as the language reference's "Format Specification
 * Mini-Language" has it, [[fill]align][sign][z][#][0][width][grouping][.precision][type], and digits come from printf,
 * which is exact as Python's are. The locale is C, so `n` is `d` or `g`.
 */
#include "python_format.h"

#include "code_points.h"
#include "python_text.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { DIGITS_MAX = 100000 }; /* of a width and a precision */

void python_wrong(python_made *to, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (!to->why[0]) vsnprintf(to->why, sizeof to->why, format, list);
    va_end(list);
}

void python_put(python_made *to, const char *text, size_t n)
{
    if (to->why[0]) return;
    if (to->n + n > PYTHON_TEXT_MAX) {
        python_wrong(to, "the text has more than %d bytes", PYTHON_TEXT_MAX);
        return;
    }
    if (to->n + n + 1 > to->capacity) {
        size_t capacity = (to->n + n + 1) * 2;
        char *grown = realloc(to->data, capacity);
        if (!grown) {
            python_wrong(to, "out of memory");
            return;
        }
        to->data = grown, to->capacity = capacity;
    }
    if (n) memcpy(to->data + to->n, text, n);
    to->n += n;
    to->data[to->n] = '\0';
}

/* ---- str and repr ---- */

/* What repr() writes as it is. */
static int is_printable(int32_t code)
{
    switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return 0;
    case UTF8PROC_CATEGORY_ZS: return code == ' ';
    default: return 1;
    }
}

static void put_letter(python_made *to, int32_t code, char quote, int ascii)
{
    char text[12];
    size_t n;
    if (code == quote || code == '\\')
        n = (size_t)snprintf(text, sizeof text, "\\%c", (char)code);
    else if (code == '\n' || code == '\r' || code == '\t')
        n = (size_t)snprintf(text, sizeof text, "\\%c", code == '\n' ? 'n' : code == '\r' ? 'r' : 't');
    else if (is_printable(code) && !(ascii && code > 126))
        n = code_point_put(code, text);
    else
        n = (size_t)snprintf(text, sizeof text,
                             code < 0x100     ? "\\x%02x"
                             : code < 0x10000 ? "\\u%04x"
                                              : "\\U%08x",
                             (unsigned)code);
    python_put(to, text, n);
}

void python_str(python_made *to, const python_value *v)
{
    char text[40];
    if (v->kind == PYTHON_TEXT) {
        python_put(to, v->text, v->bytes);
        return;
    }
    if (v->kind == PYTHON_FLOAT)
        python_float(v->real, text);
    else if (v->kind == PYTHON_BOOL)
        snprintf(text, sizeof text, "%s", v->whole ? "True" : "False");
    else
        snprintf(text, sizeof text, "%lld", (long long)v->whole);
    python_put(to, text, strlen(text));
}

void python_repr(python_made *to, const python_value *v, int ascii)
{
    if (v->kind != PYTHON_TEXT) {
        python_str(to, v);
        return;
    }
    char quote = memchr(v->text, '\'', v->bytes) && !memchr(v->text, '"', v->bytes) ? '"' : '\'';
    python_put(to, &quote, 1);
    for (const char *at = v->text, *end = v->text + v->bytes; at < end;)
        put_letter(to, code_point_next(&at), quote, ascii);
    python_put(to, &quote, 1);
}

/* ---- the specification ---- */

typedef struct {
    int32_t fill;
    char align, sign, grouping, type;           /* 0: not given */
    int no_negative_zero, alternate, precision; /* precision -1: not given */
    size_t width;
} python_spec;

static const char *const kind_name[] = {"int", "float", "bool", "str"};

static size_t read_digits(python_made *to, const char **at, const char *end)
{
    size_t n = 0;
    for (; *at < end && isdigit((unsigned char)**at); ++*at)
        if ((n = n * 10 + (size_t)(**at - '0')) > DIGITS_MAX) {
            python_wrong(to, "a width or precision of more than %d", DIGITS_MAX);
            n = 0;
        }
    return n;
}

static int is_align(char c) { return c && strchr("<>=^", c) != NULL; }

/* The kind's own alignment where none is given. */
static void read_align(python_spec *s, const char **at, const char *end)
{
    const char *behind = *at;
    if (behind == end) return;
    int32_t first = code_point_next(&behind);
    if (behind < end && is_align(*behind))
        s->fill = first, s->align = *behind, *at = behind + 1;
    else if (is_align(**at))
        s->align = *(*at)++;
}

static int take(const char **at, const char *end, const char *any)
{
    return *at < end && **at && strchr(any, **at) ? *(*at)++ : 0;
}

static void read_spec(python_made *to, python_spec *s, int is_text, const char *at, const char *end)
{
    *s = (python_spec){.precision = -1};
    read_align(s, &at, end);
    s->sign = (char)take(&at, end, "+- ");
    s->no_negative_zero = take(&at, end, "z");
    s->alternate = take(&at, end, "#");
    if (!s->fill && take(&at, end, "0")) {
        s->fill = '0';
        if (!s->align && !is_text) s->align = '=';
    }
    s->width = read_digits(to, &at, end);
    s->grouping = (char)take(&at, end, ",_");
    if (s->grouping && take(&at, end, ",_")) python_wrong(to, "',' and '_' are one too many");
    if (take(&at, end, ".")) {
        if (at == end || !isdigit((unsigned char)*at)) python_wrong(to, "digits are missing behind the '.'");
        s->precision = (int)read_digits(to, &at, end);
    }
    if (at < end && isalpha((unsigned char)*at)) s->type = *at++;
    if (at < end && *at == '%') s->type = *at++;
    if (at < end) python_wrong(to, "'%.60s' is left over", at);
    if (s->grouping && s->type && !strchr(s->grouping == '_' ? "defgEG%FboxX" : "defgEG%F", s->type))
        python_wrong(to, "'%c' goes not with '%c'", s->grouping, s->type);
    if (!s->fill) s->fill = ' ';
    if (!s->align) s->align = is_text ? '<' : '>';
}

/* ---- what is put together ---- */

static void put_fill(python_made *to, int32_t fill, size_t n)
{
    char letter[4];
    size_t bytes = code_point_put(fill, letter);
    while (n--) python_put(to, letter, bytes);
}

/* A sign and prefix, digits of which `whole` stand before the point, the rest. */
typedef struct {
    const char *lead, *digits, *rest;
    size_t n_digits;
} number_text;

/* `n` digits with a separator after each `each` from the right, and zeros before them up to `least` letters; a
 * separator never comes first. How many letters, which are written from the right to end when `out` is given. */
static size_t group(const number_text *t, size_t each, char separator, size_t least, char *out)
{
    size_t n = 0, digits = 0;
    while (digits < t->n_digits || n < least) {
        if (digits && digits % each == 0) {
            if (out) *--out = separator;
            n++;
        }
        if (out) *--out = digits < t->n_digits ? t->digits[t->n_digits - 1 - digits] : '0';
        n++, digits++;
    }
    return n;
}

static void put_number(python_made *to, const python_spec *s, const number_text *t)
{
    size_t each = s->type && strchr("boxX", s->type) ? 4 : 3, around = strlen(t->lead) + strlen(t->rest);
    size_t least = s->grouping && s->fill == '0' && s->align == '=' && s->width > around ? s->width - around : 0;
    size_t n = s->grouping && t->n_digits ? group(t, each, s->grouping, least, NULL) : t->n_digits;
    size_t total = n + around, pad = s->width > total ? s->width - total : 0;
    size_t before = s->align == '<' ? 0 : s->align == '^' ? pad / 2 : pad;
    if (s->align != '=') put_fill(to, s->fill, before);
    python_put(to, t->lead, strlen(t->lead));
    if (s->align == '=') put_fill(to, s->fill, before);
    if (s->grouping && t->n_digits) {
        char *grouped = malloc(n);
        if (!grouped) python_wrong(to, "out of memory");
        if (grouped) group(t, each, s->grouping, least, grouped + n), python_put(to, grouped, n);
        free(grouped);
    } else {
        python_put(to, t->digits, t->n_digits);
    }
    python_put(to, t->rest, strlen(t->rest));
    put_fill(to, s->fill, pad - before);
}

static void put_text(python_made *to, const python_spec *s, const char *text, size_t bytes)
{
    size_t letters = 0;
    const char *at = text;
    for (; at < text + bytes && (s->precision < 0 || letters < (size_t)s->precision); letters++) code_point_next(&at);
    size_t pad = s->width > letters ? s->width - letters : 0;
    size_t before = s->align == '<' ? 0 : s->align == '^' ? pad / 2 : pad;
    put_fill(to, s->fill, before);
    python_put(to, text, (size_t)(at - text));
    put_fill(to, s->fill, pad - before);
}

static const char *sign_text(const python_spec *s, int negative)
{
    return negative ? "-" : s->sign == '+' ? "+" : s->sign == ' ' ? " " : "";
}

/* ---- kinds ---- */

static void format_letter(python_made *to, const python_spec *s, int64_t code)
{
    char letter[4];
    if (s->sign || s->alternate) python_wrong(to, "a sign and '#' go not with 'c'");
    if (code < 1 || code > 0x10ffff)
        python_wrong(to, "%lld is no letter's number", (long long)code); /* texts have no NUL */
    if (to->why[0]) return;
    if (code >= 0xd800 && code < 0xe000) {
        python_wrong(to, "%lld is half a letter", (long long)code);
        return;
    }
    python_spec as_text = *s;
    if (s->align == '=') as_text.align = '>';
    put_text(to, &as_text, letter, code_point_put((int32_t)code, letter));
}

static void format_int(python_made *to, const python_spec *s, int64_t value)
{
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    unsigned base = s->type == 'b' ? 2 : s->type == 'o' ? 8 : s->type == 'x' || s->type == 'X' ? 16 : 10;
    char digits[65], *at = digits + 64, lead[4];
    if (s->precision >= 0) python_wrong(to, "a precision goes not with whole numbers");
    if (s->no_negative_zero) python_wrong(to, "'z' goes not with whole numbers");
    if (s->type == 'c') {
        format_letter(to, s, value);
        return;
    }
    *at = '\0';
    do *--at = (s->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[rest % base];
    while (rest /= base);
    int prefix = s->alternate && base != 10;
    snprintf(lead, sizeof lead, "%s%s%.1s", sign_text(s, value < 0), prefix ? "0" : "", prefix ? &s->type : "");
    put_number(to, s, &(number_text){.lead = lead, .digits = at, .rest = "", .n_digits = strlen(at)});
}

/* Without a type and precision: as few digits as give the number again. */
static void shortest_float(double f, int alternate, char *out, size_t capacity)
{
    char shortest[40];
    python_float(f, shortest);
    snprintf(out, capacity, "%s", shortest);
    char *e = strchr(out, 'e');
    if (alternate && e && !strchr(out, '.')) memmove(e + 1, e, strlen(e) + 1), *e = '.';
}

/* Type g: `precision` digits, with an exponent where that is below -4 or the digits do not reach it. `point`: no type,
 * and a digit stands behind the point. Not printf's %#g, which in glibc loses zeros of what is rounded up to a power of
 * ten. */
static void general_float(double f, int precision, int point, int alternate, char *out, size_t capacity)
{
    if (precision == 0) precision = 1;
    snprintf(out, capacity, "%.*e", precision - 1, f);
    int exponent = atoi(strchr(out, 'e') + 1);
    if (exponent >= -4 && exponent < precision - point) snprintf(out, capacity, "%.*f", precision - 1 - exponent, f);
    char *e = strchr(out, 'e'), *dot = strchr(out, '.'), *end = e ? e : out + strlen(out), *last = end;
    if (alternate && !dot) memmove(end + 1, end, strlen(end) + 1), *end = '.';
    if (alternate || !dot) return;
    while (last[-1] == '0') last--;
    if (last == dot + 1) last = point && !e ? dot + 2 : dot; /* 1.0, but 1e+20 */
    memmove(last, end, strlen(end) + 1);
}

static void format_float(python_made *to, const python_spec *s, double f)
{
    char type = s->type == '%' ? 'f' : s->type, how[8], lead[2];
    int general = !type || strchr("gGn", type) != NULL;
    double shown = s->type == '%' ? f * 100 : f, size = fabs(shown);
    int precision = s->precision < 0 ? 6 : s->precision;
    size_t capacity = (size_t)precision + 400;
    char *text = malloc(capacity);
    if (!text) {
        python_wrong(to, "out of memory");
        return;
    }
    if (!isfinite(shown)) {
        snprintf(text, capacity, "%s", isnan(shown) ? "nan" : "inf");
        for (char *at = text; *at && type && isupper((unsigned char)type); at++)
            *at = (char)toupper((unsigned char)*at);
    } else if (!type && s->precision < 0) {
        shortest_float(size, s->alternate, text, capacity);
    } else if (general) {
        general_float(size, precision, !type, s->alternate, text, capacity);
        for (char *at = text; type == 'G' && *at; at++) *at = (char)toupper((unsigned char)*at);
    } else {
        snprintf(how, sizeof how, "%%%s.*%c", s->alternate ? "#" : "", type);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        snprintf(text, capacity, how, precision, size);
#pragma GCC diagnostic pop
    }
    int negative = signbit(shown) && !isnan(shown);
    if (s->no_negative_zero && isfinite(shown) && strspn(text, "0.") == strcspn(text, "eE")) negative = 0;
    snprintf(lead, sizeof lead, "%s", sign_text(s, negative));
    size_t whole = strspn(text, "0123456789");
    char *rest = malloc(strlen(text) - whole + 2);
    if (rest) {
        sprintf(rest, "%s%s", text + whole, s->type == '%' ? "%" : "");
        put_number(to, s, &(number_text){.lead = lead, .digits = text, .rest = rest, .n_digits = whole});
    } else {
        python_wrong(to, "out of memory");
    }
    free(rest);
    free(text);
}

static void format_text(python_made *to, const python_spec *s, const python_value *v)
{
    if (s->sign || s->alternate || s->no_negative_zero || s->grouping || s->align == '=')
        python_wrong(to, "a sign, '#', 'z', ',', '_' and '=' are for numbers");
    if (!to->why[0]) put_text(to, s, v->text, v->bytes);
}

void python_format(python_made *to, const python_value *v, const char *spec, size_t n)
{
    python_spec s;
    if (n == 0) {
        python_str(to, v);
        return;
    }
    int is_text = v->kind == PYTHON_TEXT;
    read_spec(to, &s, is_text, spec, spec + n);
    const char *types = is_text ? "s" : v->kind == PYTHON_FLOAT ? "eEfFgGn%" : "bcdoxXneEfFgG%";
    if (s.type && !strchr(types, s.type))
        python_wrong(to, "a value of type %s has no format '%c'", kind_name[v->kind], s.type);
    if (to->why[0]) return;
    if (is_text)
        format_text(to, &s, v);
    else if (v->kind == PYTHON_FLOAT || (s.type && strchr("eEfFgG%", s.type)))
        format_float(to, &s, v->kind == PYTHON_FLOAT ? v->real : (double)v->whole);
    else
        format_int(to, &s, v->whole);
}
