/* regex_pattern.c - see regex_pattern.h.
 *
 * Both are close enough that most is copied. What one has and the other has not, or means in another way, is written
 * anew or refused here; PCRE2 then judges the rest. Not taken: the flags a, L and x, and \N{...}.
 */
#include "regex_pattern.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOTHING, ITEM, REPEATED }; /* what a quantifier would repeat */

typedef struct {
    const char *start, *at;
    char *to, *why;
    int before, groups;
} reader;

static int refuse(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int refuse(reader *r, const char *format, ...)
{
    va_list list;
    int n = snprintf(r->why, REGEX_WHY, "at '%.40s': ", r->at);
    va_start(list, format);
    vsnprintf(r->why + n, (size_t)(REGEX_WHY - n), format, list);
    va_end(list);
    return 0;
}

static void put(reader *r, const char *text) { r->to += sprintf(r->to, "%s", text); }
static int put_code(reader *r, unsigned long code) { return r->to += sprintf(r->to, "\\x{%lx}", code), 1; }
static void copy(reader *r, size_t n)
{
    memcpy(r->to, r->at, n);
    r->to += n, r->at += n;
}

/* ---- escapes ---- */

/* \x, \u and \U have so many digits, no fewer. */
static int put_hex(reader *r, size_t digits)
{
    char text[9] = "";
    for (size_t i = 0; i < digits; i++) {
        if (!isxdigit((unsigned char)r->at[2 + i])) return refuse(r, "an escape with %zu hexadecimal digits", digits);
        text[i] = r->at[2 + i];
    }
    r->at += 2 + digits;
    return put_code(r, strtoul(text, NULL, 16));
}

static int is_octal(char c) { return c >= '0' && c <= '7'; }

static int put_octal(reader *r, size_t digits)
{
    unsigned long code = 0;
    for (size_t i = 0; i < digits; i++) code = code * 8 + (unsigned long)(r->at[1 + i] - '0');
    if (code > 0377) return refuse(r, "an octal number of at most 377");
    r->at += 1 + digits;
    return put_code(r, code);
}

/* Escapes that stand for one character. -1: it is none of them. */
static int one_character(reader *r)
{
    char e = r->at[1];
    if (!e) return refuse(r, "a backslash at the end");
    if (e == 'x') return put_hex(r, 2);
    if (e == 'u') return put_hex(r, 4);
    if (e == 'U') return put_hex(r, 8);
    if (e == 'a' || e == 'v') return r->at += 2, put_code(r, e == 'a' ? 7 : 11);
    if (e && strchr("fnrt", e)) return copy(r, 2), 1;
    if ((unsigned char)e >= 0x80) return r->at++, 1; /* the letter itself comes next */
    if (!isalnum((unsigned char)e)) return copy(r, 2), 1;
    return -1;
}

static int back_reference(reader *r)
{
    const char *d = r->at + 1;
    if (is_octal(d[0]) && is_octal(d[1]) && is_octal(d[2])) return put_octal(r, 3);
    int digits = isdigit((unsigned char)d[1]) ? 2 : 1,
        group = digits == 2 ? (d[0] - '0') * 10 + d[1] - '0' : d[0] - '0';
    if (group > r->groups) return refuse(r, "there is no group %d before it", group);
    r->at += 1 + digits;
    return r->to += sprintf(r->to, "\\g{%d}", group), 1;
}

static int escape(reader *r)
{
    char e = r->at[1];
    int is = one_character(r);
    r->before = ITEM;
    if (is >= 0) return is;
    if (e == '0') return put_octal(r, is_octal(r->at[2]) ? is_octal(r->at[3]) ? 3 : 2 : 1);
    if (isdigit((unsigned char)e)) return back_reference(r);
    if (strchr("dDwW", e)) return copy(r, 2), 1;
    if (strchr("bBAZ", e)) {
        r->before = NOTHING;
        put(r, e == 'Z' ? "\\z" : e == 'A' ? "\\A" : e == 'b' ? "\\b" : "\\B");
    } else if (e == 's' || e == 'S') {
        put(r, e == 's' ? "[\\s\\x1c-\\x1f]" : "[^\\s\\x1c-\\x1f]"); /* four that only Python takes for blanks */
    } else {
        return refuse(r, e == 'N' ? "\\N{...} is not taken; write the letter itself" : "\\%c means nothing", e);
    }
    r->at += 2;
    return 1;
}

/* ---- classes ---- */

/* One member; *set: several characters, which no range begins or ends with. */
static int member(reader *r, int *set)
{
    char e = r->at[1];
    *set = 0;
    if (*r->at == '[') return put(r, "\\["), r->at++, 1; /* [[:alpha:]] is no class of Python's */
    if (*r->at != '\\') {
        copy(r, 1);
        while (((unsigned char)*r->at & 0xc0) == 0x80) copy(r, 1);
        return 1;
    }
    int is = one_character(r);
    if (is >= 0) return is;
    if (is_octal(e)) return put_octal(r, is_octal(r->at[2]) ? is_octal(r->at[3]) ? 3 : 2 : 1);
    if (e == 'b') return r->at += 2, put_code(r, 8);
    if (!strchr("dDwWsS", e)) return refuse(r, "\\%c means nothing in [...]", e);
    *set = 1;
    if (e == 's') put(r, "\\x1c-\\x1f");
    return copy(r, 2), 1;
}

static int character_class(reader *r)
{
    const char *open = r->at;
    int set, other;
    copy(r, 1);
    if (*r->at == '^') copy(r, 1);
    if (*r->at == ']') put(r, "\\]"), r->at++;
    while (*r->at && *r->at != ']') {
        if (!member(r, &set)) return 0;
        if (r->at[0] != '-' || !r->at[1] || r->at[1] == ']') continue;
        copy(r, 1);
        if (!member(r, &other)) return 0;
        if (set || other) return refuse(r, "a range with something before it that is no single character");
    }
    r->before = ITEM;
    if (*r->at) return copy(r, 1), 1;
    r->at = open;
    return refuse(r, "a [ without its ]");
}

/* ---- groups ---- */

static int opened(reader *r, size_t n)
{
    copy(r, n);
    r->before = NOTHING;
    return 1;
}

static int flags(reader *r)
{
    const char *at = r->at + 2;
    int global;
    while (*at && strchr("imsu-", *at)) at++;
    if (*at && strchr("aLx", *at)) return refuse(r, "the flag %c is not taken", *at);
    if (*at != ':' && *at != ')') return refuse(r, "a group of a kind that Python does not have");
    global = *at == ')';
    if (global && r->at != r->start) return refuse(r, "flags for the whole stand at its beginning");
    put(r, "(?");
    for (r->at += 2; r->at <= at; r->at++)
        if (*r->at != 'u') *r->to++ = *r->at;
    r->before = NOTHING;
    return 1;
}

static int group(reader *r)
{
    const char *kind = r->at + 2;
    if (r->at[1] != '?') return r->groups++, opened(r, 1);
    if (strncmp(kind, "P<", 2) == 0) return r->groups++, opened(r, 4);
    if (*kind == ':' || *kind == '=' || *kind == '!' || *kind == '>') return opened(r, 3);
    if (strncmp(kind, "<=", 2) == 0 || strncmp(kind, "<!", 2) == 0) return opened(r, 4);
    size_t end = strcspn(kind, ")");
    if (!kind[end]) return refuse(r, "a ( without its )");
    if (*kind == '#') return r->at = kind + end + 1, 1;
    if (strncmp(kind, "P=", 2) == 0) return copy(r, end + 3), r->before = ITEM, 1;
    if (*kind == '<') return refuse(r, "write a group with a name as (?P<name>...)");
    if (*kind != '(') return flags(r);
    int number = isdigit((unsigned char)kind[1]);
    r->to += sprintf(r->to, number ? "(?(%.*s)" : "(?(<%.*s>)", (int)end - 1, kind + 1);
    r->at = kind + end + 1;
    r->before = NOTHING;
    return 1;
}

/* ---- quantifiers ---- */

static int quantified(reader *r)
{
    if (*r->at == '?' || *r->at == '+') copy(r, 1); /* as few as can be, or for good */
    r->before = REPEATED;
    return 1;
}

static int may_repeat(reader *r)
{
    if (r->before == ITEM) return 1;
    return refuse(r, r->before == NOTHING ? "there is nothing to repeat" : "what is repeated already");
}

/* {2}, {2,}, {,5}, {2,5}; any other { is itself. */
static int braces(reader *r)
{
    const char *low = r->at + 1, *end = low + strspn(low, "0123456789"), *high = end;
    if (*end == ',') high = end + 1, end = high + strspn(high, "0123456789");
    if (*end != '}' || end == low) return put(r, "\\{"), r->at++, r->before = ITEM, 1;
    if (!may_repeat(r)) return 0;
    if (end - low > 12) return refuse(r, "more often than can be");
    r->to += sprintf(r->to, "{%s%.*s}", *low == ',' ? "0" : "", (int)(end - low), low);
    r->at = end + 1;
    return quantified(r);
}

static int piece(reader *r)
{
    switch (*r->at) {
    case '\\': return escape(r);
    case '[': return character_class(r);
    case '(': return group(r);
    case '{': return braces(r);
    case '*':
    case '+':
    case '?': return may_repeat(r) && (copy(r, 1), quantified(r));
    case '|':
    case '^':
    case '$': return opened(r, 1);
    default: r->before = ITEM; return copy(r, 1), 1;
    }
}

int regex_pattern(const char *python, char *to, char why[REGEX_WHY])
{
    reader r = {.start = python, .at = python, .to = to, .why = why};
    why[0] = '\0';
    while (*r.at)
        if (!piece(&r)) return 0;
    *r.to = '\0';
    return 1;
}
