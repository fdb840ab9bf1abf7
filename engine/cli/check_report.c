/* check_report.c - see check_report.h. */
#include "cli/check_report.h"

#include "base/print.h"
#include "base/str.h"
#include "kiln/plugin.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 3, TESTS = 32, UNTRIED_MAX = 64, UNTRIED_SHOWN = 4 };

static int as_json;
/* How often each test failed of the subject: the first few are printed. */
static struct {
    char test[24];
    unsigned n;
} failed_before[TESTS];
static char subject_kind[32], subject_name[256];
/* Of one file: what the badge says nothing about. */
static struct {
    char name[256];
    const char *give;
} untried[UNTRIED_MAX];
static size_t n_untried;

static const char *const level_name[CHECK_LEVELS] = {"contract", "behaviour", "quality"};

/* The tests that are not of the contract. */
static const struct {
    const char *test;
    check_level level;
} levels[] = {
    {"pure", CHECK_BEHAVIOUR},      {"same", CHECK_BEHAVIOUR},       {"finite", CHECK_BEHAVIOUR},
    {"order", CHECK_BEHAVIOUR},     {"law", CHECK_BEHAVIOUR},        {"resume", CHECK_BEHAVIOUR},
    {"flags", CHECK_BEHAVIOUR},     {"threads", CHECK_BEHAVIOUR},    {"descends", CHECK_BEHAVIOUR},
    {"ends", CHECK_BEHAVIOUR},      {"round-trip", CHECK_BEHAVIOUR}, {"f32", CHECK_BEHAVIOUR},
    {"bf16", CHECK_BEHAVIOUR},      {"progress", CHECK_BEHAVIOUR},   {"evaluations", CHECK_QUALITY},
    {"docs", CHECK_QUALITY},        {"law-of-flows", CHECK_QUALITY}, {"unasked", CHECK_BEHAVIOUR},
    {"asked-twice", CHECK_QUALITY}, {"unfit", CHECK_BEHAVIOUR},      {"device", CHECK_BEHAVIOUR},
    {"unread-rows", CHECK_QUALITY}, {"device-link", CHECK_QUALITY},  {"order-row", CHECK_QUALITY},
    {"asks-noise", CHECK_QUALITY},  {"wants", CHECK_BEHAVIOUR},      {"batch", CHECK_QUALITY},
};

static check_level level_of(const char *test)
{
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++)
        if (strcmp(levels[i].test, test) == 0) return levels[i].level;
    return CHECK_CONTRACT;
}

uint64_t check_failures(const check_counts *c)
{
    uint64_t n = 0;
    for (int i = 0; i < CHECK_LEVELS; i++) n += c->failed[i];
    return n;
}

void check_add(check_counts *to, const check_counts *more)
{
    to->passed += more->passed, to->left += more->left, to->untried += more->untried;
    for (int i = 0; i < CHECK_LEVELS; i++) to->failed[i] += more->failed[i];
}

void check_json(int on) { as_json = on; }

void check_subject(const char *kind, const char *name)
{
    snprintf(subject_kind, sizeof subject_kind, "%s", kind);
    snprintf(subject_name, sizeof subject_name, "%s", name);
    memset(failed_before, 0, sizeof failed_before);
}

static unsigned times_before(const char *test)
{
    size_t i = 0;
    while (i < TESTS && failed_before[i].n &&
           strncmp(failed_before[i].test, test, sizeof failed_before[i].test - 1) != 0)
        i++;
    if (i == TESTS) return 0;
    snprintf(failed_before[i].test, sizeof failed_before[i].test, "%s", test);
    return failed_before[i].n++;
}

/* ---- JSON ---- */

static void field(str *s, const char *name, const char *text)
{
    str_printf(s, "%s\"%s\": ", s->len > 1 ? ", " : "", name);
    str_json(s, text, strlen(text), 0);
}

static void print_line(str *s)
{
    str_append(s, "}\n");
    if (!s->failed) print_raw(stdout, str_text(s));
    print_flush(stdout);
    str_free(s);
}

static void print_event(const char *event, const char *level, const char *test, const char *text)
{
    str s = {0};
    str_char(&s, '{');
    field(&s, "event", event);
    if (subject_kind[0]) field(&s, "kind", subject_kind), field(&s, "name", subject_name);
    if (level) field(&s, "level", level);
    if (test) field(&s, "test", test);
    if (text) field(&s, "text", text);
    print_line(&s);
}

/* ---- findings ---- */

void check_begin(void)
{
    if (as_json)
        print_event("try", NULL, NULL, NULL);
    else
        print_text(stdout, "%s %s\n", subject_kind, subject_name);
    print_flush(stdout);
}

int check_foundv(check_counts *c, int ok, const char *test, const char *fmt, va_list args)
{
    char text[1024];
    if (ok) return c->passed++, 1;
    c->failed[level_of(test)]++;
    const unsigned before = times_before(test);
    if (before > SHOWN) return 0;
    if (before == SHOWN && !as_json) print_text(stdout, "  FAIL %-14s and more of the kind\n", test);
    if (before == SHOWN) return 0;
    vsnprintf(text, sizeof text, fmt, args);
    if (as_json) return print_event("finding", level_name[level_of(test)], test, text), 0;
    print_text(stdout, "  FAIL %-14s %s\n", test, text);
    print_flush(stdout);
    return 0;
}

int check_found(check_counts *c, int ok, const char *test, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    check_foundv(c, ok, test, fmt, args);
    va_end(args);
    return ok;
}

void check_holds(check_counts *c, const char *test, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    c->passed++;
    if (as_json)
        print_event("holds", level_name[level_of(test)], test, text);
    else
        print_text(stdout, "  ok   %-14s %s\n", test, text);
    print_flush(stdout); /* its process may crash later */
}

void check_note(const char *test, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (as_json)
        print_event("note", NULL, test, text);
    else
        print_text(stdout, "  note %-14s %s\n", test, text);
}

static void put_left(check_counts *c, const char *what, const char *text)
{
    c->left++;
    if (as_json)
        print_event("not_checked", NULL, what, text);
    else
        print_text(stdout, "  not checked: %s: %s\n", what, text);
}

void check_left(check_counts *c, const char *what, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    put_left(c, what, text);
}

void check_rows_filled(check_counts *c, const kiln_param_table *t)
{
    enum { EMPTY_STRUCT = 1 };
    check_found(
        c, t->n_param || t->params_size <= EMPTY_STRUCT, "table",
        "params_size is %zu, and n_param 0: a struct that no row fills%s; declare both, KILN_ARRAY(param, rows) "
        "and .params_size, or neither",
        t->params_size, t->param ? ", though there is an array of rows" : "");
    check_found(c, t->n_param || t->params_size > EMPTY_STRUCT || !t->param, "unread-rows",
                "has an array of parameters and n_param 0, so that none of them is read: KILN_ARRAY(param, rows) says "
                "both");
}

/* ---- what was not tried ---- */

void check_untried(check_counts *c, const char *give, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    put_left(c, subject_name, text);
    c->untried++;
    check_list_untried(give);
}

void check_list_untried(const char *give)
{
    if (n_untried == UNTRIED_MAX) return;
    snprintf(untried[n_untried].name, sizeof untried->name, "%s", subject_name);
    untried[n_untried++].give = give;
}

void check_was_tried(const char *name)
{
    size_t kept = 0;
    for (size_t i = 0; i < n_untried; i++)
        if (strcmp(untried[i].name, name) != 0) untried[kept++] = untried[i];
    n_untried = kept;
}

static void print_untried(void)
{
    for (size_t i = 0; i < n_untried && i < UNTRIED_SHOWN; i++)
        print_text(stdout, "%s%s was not tried: give it %s", i ? "; " : " (", untried[i].name, untried[i].give);
    if (n_untried > UNTRIED_SHOWN) print_text(stdout, "; and %zu more were not tried", n_untried - UNTRIED_SHOWN);
    if (n_untried) print_text(stdout, ")");
}

/* ---- the end ---- */

static void print_counts(const char *plugin, const char *version, const check_counts *c, uint64_t n)
{
    str s = {0};
    str_char(&s, '{');
    field(&s, "event", "checked");
    field(&s, "plugin", plugin), field(&s, "version", version);
    str_printf(&s, ", \"tried\": %llu, \"passed\": %llu, \"not_checked\": %llu", (unsigned long long)n,
               (unsigned long long)c->passed, (unsigned long long)c->left);
    for (int i = 0; i < CHECK_LEVELS; i++)
        str_printf(&s, ", \"%s\": %llu", level_name[i], (unsigned long long)c->failed[i]);
    str_append(&s, ", \"untried\": [");
    for (size_t i = 0; i < n_untried; i++) {
        if (i) str_append(&s, ", ");
        str_json(&s, untried[i].name, strlen(untried[i].name), 0);
    }
    str_append(&s, "]");
    print_line(&s);
}

void check_summary(const char *plugin, const char *version, const check_counts *c, uint64_t n)
{
    if (as_json) {
        print_counts(plugin, version, c, n);
        n_untried = 0;
        return;
    }
    print_text(stdout, "  %s: %llu checks passed, %llu failed; %llu tried, %llu not checked\n", plugin,
               (unsigned long long)c->passed, (unsigned long long)check_failures(c), (unsigned long long)n,
               (unsigned long long)c->left);
    print_text(stdout, "  badge: %s %s, kiln %d.%d:", plugin, version, KILN_ABI_MAJOR, KILN_ABI_NEWEST);
    for (int i = 0; i < CHECK_LEVELS; i++)
        print_text(stdout, "%s %s %s", i ? "," : "", level_name[i], c->failed[i] || !n ? "no" : "yes");
    print_untried();
    print_text(stdout, "\n");
    n_untried = 0; /* the next file's are others */
}
