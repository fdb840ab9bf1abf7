/* sweep_values.c - see sweep_values.h. Ranges are counted in whole numbers of their last decimal, so that 0.1 steps do
 * not drift.
 */
#include "run/sweep_values.h"

#include "base/array.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "run/sweep.h"

#include <glob.h>
#include <string.h>

enum { LIST_BYTES_MAX = 16 << 20, DIGITS_MAX = 18 };

static kiln_status no_memory(error *e) { return error_set(e, KILN_ERR_NOMEM, "out of memory"); }

kiln_status values_add(values *v, const char *text, error *e)
{
    if (!text) return no_memory(e);
    if (v->n == SWEEP_ROWS_MAX)
        return error_set(e, KILN_ERR_INVALID, "%s: more than %d values", v->what, SWEEP_ROWS_MAX);
    if (!array_reserve(&v->value, &v->capacity, v->n + 1, sizeof *v->value)) return no_memory(e);
    v->value[v->n++] = text;
    return KILN_OK;
}

/* ---- fields, as RFC 4180 quotes them ---- */

/* One field up to a comma or the line's end. *quoted: it stood in quotes. 0: the quotes are wrong. */
static int value_field_read(value_reader *r, arena *a, const char **out, int *quoted)
{
    str text = {0};
    *quoted = r->at < r->end && *r->at == '"';
    if (!*quoted) {
        const char *from = r->at;
        while (r->at < r->end && *r->at != ',' && *r->at != '\n' && *r->at != '\r') r->at++;
        *out = arena_strndup(a, from, (size_t)(r->at - from));
        return 1;
    }
    for (r->at++; r->at < r->end; r->at++) {
        if (*r->at == '"') {
            if (r->at + 1 == r->end || r->at[1] != '"') break;
            r->at++;
        }
        r->line += *r->at == '\n';
        str_char(&text, *r->at);
    }
    int closed = r->at < r->end;
    r->at += closed;
    *out = text.failed ? NULL : arena_strndup(a, str_text(&text), text.len);
    str_free(&text);
    return closed && (r->at == r->end || strchr(",\n\r", *r->at));
}

void value_line_end(value_reader *r)
{
    r->at += r->at < r->end && *r->at == '\r';
    r->at += r->at < r->end && *r->at == '\n';
    r->line++;
}

static const char *trimmed(arena *a, const char *text)
{
    size_t n;
    while (*text == ' ' || *text == '\t') text++;
    for (n = strlen(text); n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t'); n--) continue;
    return arena_strndup(a, text, n);
}

kiln_status value_text_open(const char *what, const char *path, char **data, value_reader *r, error *e)
{
    size_t size;
    TRY(file_read_stream(path, LIST_BYTES_MAX, data, &size, e));
    if (memchr(*data, 0, size) || !utf8_valid(*data, size))
        return error_set(e, KILN_ERR_INVALID, "%s: %s is not a UTF-8 text", what, path);
    size_t bom = size >= 3 && memcmp(*data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    *r = (value_reader){.at = *data + bom, .end = *data + size, .line = 1};
    return KILN_OK;
}

/* ---- ranges ---- */

typedef struct {
    int64_t number; /* in units of 10^-decimals */
    int decimals;
} fixed;

static int read_fixed(const char *text, size_t n, fixed *out)
{
    int digits = 0, negative = n > 0 && *text == '-', dot = 0;
    *out = (fixed){0};
    for (size_t i = n > 0 && (*text == '-' || *text == '+'); i < n; i++) {
        if (text[i] == '.' && !dot++) continue;
        if (text[i] < '0' || text[i] > '9' || ++digits > DIGITS_MAX) return 0;
        out->number = out->number * 10 + (text[i] - '0');
        out->decimals += dot;
    }
    if (negative) out->number = -out->number;
    return digits > 0;
}

static int rescale(fixed *f, int decimals)
{
    for (; f->decimals < decimals; f->decimals++)
        if (!checked_mul_i64(f->number, 10, &f->number)) return 0;
    return 1;
}

static const char *print_fixed(arena *a, int64_t number, int decimals)
{
    uint64_t size = number < 0 ? 0 - (uint64_t)number : (uint64_t)number, unit = 1;
    for (int i = 0; i < decimals; i++) unit *= 10;
    const char *sign = number < 0 ? "-" : "";
    if (decimals == 0) return arena_printf(a, "%s%llu", sign, (unsigned long long)size);
    return arena_printf(a, "%s%llu.%0*llu", sign, (unsigned long long)(size / unit), decimals,
                        (unsigned long long)(size % unit));
}

/* Where the ".." behind a number stands; NULL: the text is no range. */
static const char *range_mark(const char *text)
{
    const char *dots = strstr(text, "..");
    double number;
    return dots && dots > text && str_to_double(text, (size_t)(dots - text), &number) ? dots : NULL;
}

static kiln_status count_range(values *v, const char *text, fixed from, fixed to, fixed step, error *e)
{
    int64_t span;
    int decimals = from.decimals > to.decimals ? from.decimals : to.decimals;
    if (step.decimals > decimals) decimals = step.decimals;
    if (!rescale(&from, decimals) || !rescale(&to, decimals) || !rescale(&step, decimals) ||
        !checked_add_i64(to.number, -from.number, &span))
        return error_set(e, KILN_ERR_INVALID, "%s: the range '%.100s' has too many digits", v->what, text);
    if (step.number == 0)
        return error_set(e, KILN_ERR_INVALID, "%s: the range '%.100s' has a step of 0", v->what, text);
    if (span != 0 && (span < 0) != (step.number < 0))
        return error_set(e, KILN_ERR_INVALID,
                         "%s: the range '%.100s' never gets from its start to its end; to count down give a negative "
                         "step, as in 9..1..-2",
                         v->what, text);
    uint64_t count = (uint64_t)(span / step.number) + 1;
    if (count > SWEEP_ROWS_MAX)
        return error_set(e, KILN_ERR_INVALID, "%s: the range '%.100s' has %llu values; at most %d are allowed", v->what,
                         text, (unsigned long long)count, SWEEP_ROWS_MAX);
    for (uint64_t k = 0; k < count; k++)
        TRY(values_add(v, print_fixed(v->memory, from.number + (int64_t)k * step.number, decimals), e));
    return KILN_OK;
}

static kiln_status add_range(values *v, const char *text, const char *dots, error *e)
{
    const char *second = dots + 2, *more = strstr(second, "..");
    size_t n = more ? (size_t)(more - second) : strlen(second);
    fixed from, to, step = {.number = 1};
    if (!read_fixed(text, (size_t)(dots - text), &from) || !read_fixed(second, n, &to) ||
        (more && !read_fixed(more + 2, strlen(more + 2), &step)))
        return error_set(e, KILN_ERR_INVALID,
                         "%s: '%.100s' is no range; one is 1..100, 1..9..2 or 0.5..1.0..0.1 (plain decimals of at most "
                         "%d digits), and a text goes in \"quotes\"",
                         v->what, text, DIGITS_MAX);
    if (!more && from.decimals + to.decimals > 0)
        return error_set(e, KILN_ERR_INVALID, "%s: the range '%.100s' of decimals needs a step, as in 0.5..1.0..0.1",
                         v->what, text);
    return count_range(v, text, from, to, step, e);
}

/* ---- lists ---- */

/* One value a line; empty lines are passed over. */
static kiln_status add_lines(values *v, const char *path, error *e)
{
    char *data = NULL;
    value_reader r;
    kiln_status status = value_text_open(v->what, path, &data, &r, e);
    while (status == KILN_OK && r.at < r.end) {
        size_t n = 0;
        while (r.at + n < r.end && r.at[n] != '\n' && r.at[n] != '\r') n++;
        if (n) status = values_add(v, arena_strndup(v->memory, r.at, n), e);
        r.at += n;
        value_line_end(&r);
    }
    mem_free(data);
    return status;
}

/* `in/x*.png`, but not a text with a star in it. With ? and [...] alone, which texts have too, there has to be such a
 * file. */
static int is_glob(const char *text)
{
    if (!strchr(text, '/') && !strchr(text, '.')) return 0;
    if (strchr(text, '*')) return 1;
    glob_t found = {0};
    int some = strpbrk(text, "?[") && !file_exists(text) && glob(text, 0, NULL, &found) == 0;
    if (some) globfree(&found);
    return some;
}

static kiln_status add_found(values *v, const glob_t *found, int folders, const char *pattern, error *e)
{
    kiln_status status = KILN_OK;
    for (size_t i = 0; i < found->gl_pathc && status == KILN_OK; i++) {
        const char *path = found->gl_pathv[i];
        size_t n = strlen(path);
        if ((path[n - 1] == '/') != folders) continue;
        status = utf8_valid(path, n)
                     ? values_add(v, arena_strndup(v->memory, path, n - (size_t)folders), e)
                     : error_set(e, KILN_ERR_INVALID, "%s: a file of '%.100s' has a name that is not UTF-8", v->what,
                                 pattern);
    }
    return status;
}

/* The files of that pattern, sorted; folders, as some models are, if it is the pattern of nothing else. */
static kiln_status add_files(values *v, const char *pattern, error *e)
{
    glob_t found = {0};
    size_t before = v->n;
    int none = glob(pattern, GLOB_MARK, NULL, &found);
    kiln_status status = none == GLOB_NOSPACE ? no_memory(e) : KILN_OK;
    for (int folders = 0; !none && folders < 2 && status == KILN_OK && v->n == before; folders++)
        status = add_found(v, &found, folders, pattern, e);
    globfree(&found);
    if (status == KILN_OK && v->n == before)
        status = error_set(e, KILN_ERR_INVALID,
                           "%s: no file here is called '%.200s'; a text with a * goes in \"quotes\"", v->what, pattern);
    return status;
}

static kiln_status add_element(values *v, const char *text, int quoted, error *e)
{
    const char *dots;
    if (!text) return no_memory(e);
    if (quoted) return values_add(v, text, e);
    if (!(text = trimmed(v->memory, text))) return no_memory(e);
    if (!*text) return error_set(e, KILN_ERR_INVALID, "%s: a value is empty; for an empty text write \"\"", v->what);
    if (*text == '@') return add_lines(v, text + 1, e);
    if (is_glob(text)) return add_files(v, text, e);
    if ((dots = range_mark(text))) return add_range(v, text, dots, e);
    return values_add(v, text, e);
}

kiln_status values_read_list(values *v, const char *text, error *e)
{
    value_reader r = {.at = text, .end = text + strlen(text), .line = 1};
    for (;;) {
        const char *field;
        int quoted;
        while (*r.at == ' ') r.at++;
        if (*r.at == '\n' || *r.at == '\r')
            return error_set(e, KILN_ERR_INVALID, "%s: a value with a line break goes in \"quotes\"", v->what);
        if (!value_field_read(&r, v->memory, &field, &quoted))
            return error_set(e, KILN_ERR_INVALID, "%s: a quote that is not closed before the next comma", v->what);
        TRY(add_element(v, field, quoted, e));
        if (r.at == r.end) return KILN_OK;
        if (*r.at++ != ',')
            return error_set(e, KILN_ERR_INVALID, "%s: a value with a line break goes in \"quotes\"", v->what);
    }
}

/* ---- lines of a CSV file ---- */

kiln_status values_read_record(values *v, value_reader *r, int header, size_t *n, error *e)
{
    size_t line = r->line;
    for (*n = 0;; r->at++) {
        const char *field;
        int quoted;
        if (!value_field_read(r, v->memory, &field, &quoted))
            return error_set(e, KILN_ERR_INVALID, "%s:%zu: a quote is not closed, or something follows it", v->what,
                             line);
        if (!field) return no_memory(e);
        if (header && !(field = trimmed(v->memory, field))) return no_memory(e);
        if (v->n == SWEEP_ROWS_MAX * SWEEP_NAMES_MAX)
            return error_set(e, KILN_ERR_INVALID, "%s: too many values", v->what);
        if (!array_reserve(&v->value, &v->capacity, v->n + 1, sizeof *v->value)) return no_memory(e);
        v->value[v->n++] = header || quoted || *field ? field : NULL;
        ++*n;
        if (r->at == r->end || *r->at != ',') break;
    }
    value_line_end(r);
    return KILN_OK;
}
