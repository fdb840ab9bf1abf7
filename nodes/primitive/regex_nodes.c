/* regex_nodes.c - RegexMatch, RegexExtract, RegexReplace: Python's regular expressions by PCRE2. Names, inputs and
 * results are ComfyUI's, but a pattern that is none is a fault here, and no result.
 */
#include "primitive.h"
#include "regex_pattern.h"

#include "kiln/kit.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { MATCHES_A_REPORT = 256 };

#define TEXT(struct_, field, name_, text)                                                                              \
    {                                                                                                                  \
        .name = name_, .type = KILN_P_STRING, .flags = KILN_PARAM_MULTILINE | KILN_PARAM_REQUIRED,                     \
        .offset = offsetof(struct_, field), .def_str = "", .doc = text                                                 \
    }
#define FLAGS(struct_)                                                                                                 \
    KIT_BOOL(struct_, case_insensitive, 1, "Capital and small letters are the same."),                                 \
        KIT_BOOL(struct_, multiline, 0, "^ and $ are at each line's begin and end."),                                  \
        KIT_BOOL(struct_, dotall, 0, "A dot is a line break, too.")

typedef struct {
    int32_t case_insensitive, multiline, dotall;
} how_params;

/* ---- a pattern at work ---- */

typedef struct {
    const kiln_call *c;
    const char *text;
    size_t n;
    pcre2_code *code;
    pcre2_match_data *found;
    uint32_t groups;
    size_t at;     /* where the next one is looked for */
    int was_empty; /* the last one, which ended there   */
    int nothing;   /* none is found yet: groups are empty */
} search;

static void search_end(search *s)
{
    pcre2_match_data_free(s->found);
    pcre2_code_free(s->code);
}

static pcre2_code *compiled(const char *pattern, const how_params *how, int *error, size_t *at)
{
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    uint32_t options = PCRE2_UTF | PCRE2_UCP | (how->case_insensitive ? PCRE2_CASELESS : 0) |
                       (how->multiline ? PCRE2_MULTILINE : 0) | (how->dotall ? PCRE2_DOTALL : 0);
    if (context) pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_code *code =
        context ? pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, options, error, at, context) : NULL;
    pcre2_compile_context_free(context);
    return code;
}

static kiln_status search_begin(const kiln_call *c, const char *pattern, const char *text, how_params how, search *s)
{
    char why[REGEX_WHY], *made = c->host->scratch(c->ctx, (strlen(pattern) + 1) * REGEX_GROWTH, KILN_CPU);
    int error = 0;
    size_t at = 0;
    *s = (search){.c = c, .text = text, .n = strlen(text)};
    if (!made) return KILN_ERR_NOMEM;
    if (!regex_pattern(pattern, made, why))
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "regex_pattern: '%.80s' is no regular expression of Python's: %s", pattern, why);
    s->code = compiled(made, &how, &error, &at);
    if (!s->code) {
        pcre2_get_error_message(error, (PCRE2_UCHAR *)why, sizeof why);
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "regex_pattern: '%.80s' is no regular expression: %s", pattern,
                             why);
    }
    s->found = pcre2_match_data_create_from_pattern(s->code, NULL);
    pcre2_pattern_info(s->code, PCRE2_INFO_CAPTURECOUNT, &s->groups);
    if (s->found) return KILN_OK;
    search_end(s);
    return KILN_ERR_NOMEM;
}

/* *is: the next one is found. As in Python an empty one is not found twice at a place. */
static kiln_status search_next(search *s, int *is)
{
    uint32_t options = s->was_empty ? PCRE2_NOTEMPTY_ATSTART : 0;
    int n = pcre2_match(s->code, (PCRE2_SPTR)s->text, s->n, s->at, options, s->found, NULL);
    *is = n > 0;
    if (n == PCRE2_ERROR_NOMATCH) return KILN_OK;
    if (n < 0)
        return s->c->host->fail(s->c->ctx, n == PCRE2_ERROR_NOMEMORY ? KILN_ERR_NOMEM : KILN_ERR_INVALID,
                                n == PCRE2_ERROR_MATCHLIMIT || n == PCRE2_ERROR_HEAPLIMIT || n == PCRE2_ERROR_DEPTHLIMIT
                                    ? "regex_pattern: there are too many ways to match it with this text; make "
                                      "repetitions less ambiguous"
                                    : "regex_pattern: the text is not UTF-8");
    const size_t *span = pcre2_get_ovector_pointer(s->found);
    s->was_empty = span[0] == span[1];
    s->at = span[1];
    return KILN_OK;
}

/* Group i of the last one, empty where it took no part. */
static const char *group_of(const search *s, uint32_t i, size_t *n)
{
    const size_t *span = pcre2_get_ovector_pointer(s->found);
    int is = !s->nothing && i <= s->groups && span[2 * i] != PCRE2_UNSET && span[2 * i + 1] >= span[2 * i];
    *n = is ? span[2 * i + 1] - span[2 * i] : 0;
    return is ? s->text + span[2 * i] : "";
}

/* ---- a text that grows ---- */

typedef struct {
    char *text;
    size_t n, room;
    int failed;
} growing;

static void add(growing *g, const char *text, size_t n)
{
    if (g->n + n > g->room) {
        size_t room = (g->n + n) * 2;
        char *more = g->failed ? NULL : realloc(g->text, room);
        if (!more) {
            g->failed = 1;
            return;
        }
        g->text = more, g->room = room;
    }
    if (n) memcpy(g->text + g->n, text, n);
    g->n += n;
}

static kiln_status deliver(const kiln_call *c, growing *g, kiln_status status)
{
    if (status == KILN_OK && !g->failed) c->out[0] = kit_values(c)->new_string(c->ctx, g->text ? g->text : "", g->n);
    free(g->text);
    return status != KILN_OK ? status : c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

/* ---- RegexMatch ---- */

typedef struct {
    const char *text, *pattern;
    int32_t case_insensitive, multiline, dotall;
} match_params;
#define HOW(p) ((how_params){(p)->case_insensitive, (p)->multiline, (p)->dotall})
static const kiln_param match_param[] = {
    TEXT(match_params, text, "string", "The text."),
    TEXT(match_params, pattern, "regex_pattern", "A regular expression as Python has them."),
    FLAGS(match_params),
};
static const kiln_port match_out[] = {{.name = "matches", .type = "BOOLEAN", .doc = "Whether it is found."}};

static kiln_status match_run(const kiln_call *c)
{
    const match_params *p = c->params;
    search s;
    int is = 0;
    TRY(search_begin(c, p->pattern, p->text, HOW(p), &s));
    kiln_status status = search_next(&s, &is);
    search_end(&s);
    TRY(status);
    c->out[0] = kit_values(c)->new_bool(c->ctx, is);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}
const kiln_node node_regex_match = {
    KIT_NODE("RegexMatch", "Regex Match", "utils", "Whether a text has a part that a regular expression describes."),
    KILN_ARRAY(out, match_out),
    KIT_PARAMS(match_params, match_param),
    .run = match_run,
};

/* ---- RegexExtract ---- */

enum { FIRST_MATCH, ALL_MATCHES, FIRST_GROUP, ALL_GROUPS };
typedef struct {
    const char *text, *pattern;
    int32_t mode, case_insensitive, multiline, dotall;
    int64_t group_index;
} extract_params;
static const kiln_choice mode_choice[] = {
    {.name = "First Match", .value = FIRST_MATCH},
    {.name = "All Matches", .value = ALL_MATCHES, .doc = "A line each; of a pattern with groups the first group."},
    {.name = "First Group", .value = FIRST_GROUP, .doc = "Group `group_index` of the first match."},
    {.name = "All Groups", .value = ALL_GROUPS, .doc = "Group `group_index` of each, a line each."},
    {0}};
static const kiln_param extract_param[] = {
    TEXT(extract_params, text, "string", "The text."),
    TEXT(extract_params, pattern, "regex_pattern", "A regular expression as Python has them."),
    KIT_ENUM(extract_params, mode, mode_choice, FIRST_MATCH, "What is taken."),
    FLAGS(extract_params),
    KIT_INT(extract_params, group_index, 1, 0, 100, "The group's number; 0 is all of it."),
};
static const kiln_port string_out[] = {{.name = "STRING", .type = "STRING", .doc = "The new text."}};

static kiln_status extract_all(search *s, const extract_params *p, growing *g)
{
    int one = p->mode == FIRST_MATCH || p->mode == FIRST_GROUP, is = 1;
    uint32_t group = p->mode == FIRST_MATCH ? 0 : p->mode == ALL_MATCHES ? s->groups > 0 : (uint32_t)p->group_index;
    if (group > s->groups || (p->mode == ALL_GROUPS && s->groups == 0)) return KILN_OK;
    for (uint64_t i = 0; is && (i == 0 || !one); i++) {
        size_t n;
        if (i % MATCHES_A_REPORT == 0) TRY(s->c->host->progress(s->c->ctx, s->at, s->n, "matches"));
        TRY(search_next(s, &is));
        if (!is) break;
        const char *text = group_of(s, group, &n);
        if (i) add(g, "\n", 1);
        add(g, text, n);
    }
    return KILN_OK;
}

static kiln_status extract_run(const kiln_call *c)
{
    const extract_params *p = c->params;
    growing g = {0};
    search s;
    TRY(search_begin(c, p->pattern, p->text, HOW(p), &s));
    kiln_status status = extract_all(&s, p, &g);
    search_end(&s);
    return deliver(c, &g, status);
}
const kiln_node node_regex_extract = {
    KIT_NODE("RegexExtract", "Regex Extract", "utils", "The parts of a text that a regular expression describes."),
    KILN_ARRAY(out, string_out),
    KIT_PARAMS(extract_params, extract_param),
    .run = extract_run,
};

/* ---- RegexReplace ---- */

typedef struct {
    const char *text, *pattern, *replace;
    int32_t case_insensitive, multiline, dotall;
    int64_t count;
} replace_params;
static const kiln_param replace_param[] = {
    TEXT(replace_params, text, "string", "The text."),
    TEXT(replace_params, pattern, "regex_pattern", "A regular expression as Python has them."),
    TEXT(replace_params, replace, "replace", "What stands in its place: \\1 and \\g<name> are groups."),
    FLAGS(replace_params),
    KIT_INT(replace_params, count, 0, 0, 100, "How many at most; 0 is all."),
};

static kiln_status no_template(const search *s, const char *at, const char *why)
{
    return s->c->host->fail(s->c->ctx, KILN_ERR_INVALID, "replace: at '%.40s': %s", at, why);
}

static kiln_status add_group(const search *s, growing *g, const char *at, long number)
{
    size_t n;
    if (number < 0 || (uint32_t)number > s->groups) return no_template(s, at, "the pattern has no such group");
    const char *text = group_of(s, (uint32_t)number, &n);
    add(g, text, n);
    return KILN_OK;
}

/* \g<name> and \g<2> */
static kiln_status add_named(const search *s, growing *g, const char **at)
{
    const char *open = *at, *name = open + 3, *end = open[2] == '<' ? strchr(name, '>') : NULL;
    char text[64], *stop;
    if (!end || end == name || end - name >= (long)sizeof text) return no_template(s, open, "\\g takes <a name>");
    snprintf(text, sizeof text, "%.*s", (int)(end - name), name);
    long number = strtol(text, &stop, 10);
    if (*stop || !isdigit((unsigned char)text[0])) number = pcre2_substring_number_from_name(s->code, (PCRE2_SPTR)text);
    *at = end + 1;
    return add_group(s, g, open, number);
}

static int octal_digits(const char *at, int most)
{
    int n = 0;
    while (n < most && at[n] >= '0' && at[n] <= '7') n++;
    return n;
}

static kiln_status add_code(const search *s, growing *g, const char **at, int digits)
{
    unsigned long code = 0;
    char utf8[2];
    for (int i = 0; i < digits; i++) code = code * 8 + (unsigned long)((*at)[1 + i] - '0');
    if (code > 0377 || code == 0) return no_template(s, *at, "an octal number from 1 to 377");
    size_t n = code < 0x80 ? 1 : 2;
    utf8[0] = (char)(n == 1 ? code : 0xc0 | code >> 6), utf8[1] = (char)(0x80 | (code & 0x3f));
    add(g, utf8, n);
    *at += 1 + digits;
    return KILN_OK;
}

static kiln_status add_escape(const search *s, growing *g, const char **at)
{
    static const char letter[] = "abfnrtv\\", means[] = "\a\b\f\n\r\t\v\\";
    const char *open = *at, e = open[1], *known = e ? strchr(letter, e) : NULL;
    if (!e) return no_template(s, open, "a backslash at the end");
    if (e == 'g') return add_named(s, g, at);
    if (e == '0') return add_code(s, g, at, octal_digits(open + 1, 3));
    if (isdigit((unsigned char)e)) {
        if (octal_digits(open + 1, 3) == 3) return add_code(s, g, at, 3);
        int two = isdigit((unsigned char)open[2]) != 0;
        *at += 2 + two;
        return add_group(s, g, open, two ? (e - '0') * 10 + open[2] - '0' : e - '0');
    }
    if (!known && isalpha((unsigned char)e)) return no_template(s, open, "the escape means nothing");
    if (known)
        add(g, means + (known - letter), 1);
    else
        add(g, open, 2); /* as it is, backslash and all */
    *at += 2;
    return KILN_OK;
}

static kiln_status add_template(const search *s, growing *g, const char *template)
{
    for (const char *at = template; *at;) {
        size_t plain = strcspn(at, "\\");
        add(g, at, plain);
        at += plain;
        if (*at) TRY(add_escape(s, g, &at));
    }
    return KILN_OK;
}

static kiln_status replace_all(search *s, const replace_params *p, growing *g)
{
    size_t from = 0;
    int is = 1;
    s->nothing = 1;
    TRY(add_template(s, g, p->replace)); /* is it one? Python asks first, too */
    s->nothing = 0, g->n = 0;
    for (int64_t i = 0; is && (p->count == 0 || i < p->count); i++) {
        if (i % MATCHES_A_REPORT == 0) TRY(s->c->host->progress(s->c->ctx, s->at, s->n, "matches"));
        TRY(search_next(s, &is));
        if (!is) break;
        const size_t *span = pcre2_get_ovector_pointer(s->found);
        add(g, s->text + from, span[0] - from);
        from = span[1];
        TRY(add_template(s, g, p->replace));
    }
    add(g, s->text + from, s->n - from);
    return KILN_OK;
}

static kiln_status replace_run(const kiln_call *c)
{
    const replace_params *p = c->params;
    growing g = {0};
    search s;
    TRY(search_begin(c, p->pattern, p->text, HOW(p), &s));
    kiln_status status = replace_all(&s, p, &g);
    search_end(&s);
    return deliver(c, &g, status);
}
const kiln_node node_regex_replace = {
    KIT_NODE("RegexReplace", "Regex Replace", "utils", "A text with other parts where a regular expression matches."),
    KILN_ARRAY(out, string_out),
    KIT_PARAMS(replace_params, replace_param),
    .run = replace_run,
};
