/* pattern.c - see pattern.h. The source becomes instructions; a stack of places to go back to replaces recursion, and
 * a repeated class is one instruction and one entry of the stack however long its run. */
#include "pattern.h"

#include "unicode.h"

#include <stdio.h>
#include <string.h>

enum { CODE_MAX = 20000, CLASS_MAX = 2000, NESTING_MAX = 32, REPEAT_MAX = 1000, ENDLESS = INT32_MAX };

typedef enum {
    OP_CLASS,     /* one character of class a */
    OP_RUN,       /* a..: class a, b to c times, how: GREEDY.. */
    OP_SPLIT,     /* go on at a; if that fails at b */
    OP_JUMP,      /* a */
    OP_AHEAD,     /* what follows up to a must match (how 1: must not), go on behind a */
    OP_AHEAD_END, /* the end of a look-ahead */
    OP_BEGIN,
    OP_END,
    OP_MATCH
} op;
enum { GREEDY, LAZY, POSSESSIVE };

typedef struct {
    uint8_t op, how;
    int32_t a, b, c;
} instruction;

typedef struct {
    uint32_t categories;  /* bits */
    uint32_t from, to;    /* a range when from <= to */
    int (*kind)(int32_t); /* NULL: the others */
    int negated;
} class_item;

typedef struct {
    const class_item *item;
    size_t n;
    int negated;
    uint64_t ascii[2]; /* the answer for U+0000..7F */
} char_class;

struct pattern {
    instruction *code;
    size_t n;
    char_class *class;
    size_t n_class;
    const char *literal; /* instead of all that */
    size_t n_literal;
};

/* ---- classes ---- */

#define BITS(name) unicode_category_bits(name, sizeof(name) - 1)

static int item_has(const class_item *x, int32_t c)
{
    if (x->from <= x->to) return (uint32_t)c >= x->from && (uint32_t)c <= x->to;
    if (x->kind) return x->kind(c) != x->negated;
    return (x->categories >> unicode_category_of(c) & 1) != 0;
}

static int class_has_slow(const char_class *k, int32_t c)
{
    int has = 0;
    for (size_t i = 0; i < k->n && !has; i++) has = item_has(&k->item[i], c);
    return has != k->negated;
}

static int class_has(const char_class *k, int32_t c)
{
    return c < 128 ? (int)(k->ascii[c >> 6] >> (c & 63) & 1) : class_has_slow(k, c);
}

/* ---- compiling ---- */

typedef struct {
    token_pool *pool;
    const char *s, *end, *begin;
    pattern *p;
    size_t code_capacity, class_capacity;
    class_item *item; /* of the class being read */
    size_t n_item, item_capacity;
    int ignore_case, depth;
    char *why;
    int failed;
} compiler;

static void refuse(compiler *c, const char *what)
{
    if (!c->failed)
        snprintf(c->why, 300, "the pattern '%.120s%s' has %s at byte %zu", c->begin,
                 c->end - c->begin > 120 ? "..." : "", what, (size_t)(c->s - c->begin));
    c->failed = 1;
}

static int32_t emit(compiler *c, instruction x)
{
    if (c->p->n >= CODE_MAX) refuse(c, "too much");
    if (c->failed) return 0;
    if (!token_pool_reserve(c->pool, &c->p->code, &c->code_capacity, c->p->n + 1, sizeof *c->p->code)) {
        snprintf(c->why, 300, "no memory for a pattern");
        c->failed = 1;
        return 0;
    }
    c->p->code[c->p->n] = x;
    return (int32_t)c->p->n++;
}

static void add_item(compiler *c, class_item x)
{
    if (c->failed || !token_pool_reserve(c->pool, &c->item, &c->item_capacity, c->n_item + 1, sizeof x)) {
        c->failed = 1;
        return;
    }
    c->item[c->n_item++] = x;
}

static void add_bits(compiler *c, uint32_t bits) { add_item(c, (class_item){.categories = bits, .from = 1}); }

static void add_range(compiler *c, int32_t a, int32_t b)
{
    add_item(c, (class_item){.from = (uint32_t)a, .to = (uint32_t)b});
}

/* A character, and in a case-insensitive group all that have its lower case. */
static void add_character(compiler *c, int32_t code)
{
    int32_t low[2], other[2];
    add_range(c, code, code);
    if (!c->ignore_case) return;
    unicode_lower(code, low);
    add_range(c, low[0], low[0]);
    for (int32_t x = 0x41; x < 0x250; x++)
        if (unicode_lower(x, other) == 1 && other[0] == low[0]) add_range(c, x, x);
    if (low[0] == 's') add_range(c, 0x17f, 0x17f);
    if (low[0] == 'k') add_range(c, 0x212a, 0x212a);
}

static int32_t end_class(compiler *c, size_t first, int negated)
{
    char_class k = {.n = c->n_item - first, .negated = negated};
    class_item *items = token_pool_get(c->pool, k.n ? k.n : 1, sizeof *items);
    if (c->p->n_class >= CLASS_MAX) refuse(c, "too many classes");
    if (c->failed || !items ||
        !token_pool_reserve(c->pool, &c->p->class, &c->class_capacity, c->p->n_class + 1, sizeof k)) {
        c->failed = 1;
        return 0;
    }
    memcpy(items, c->item + first, k.n * sizeof *items);
    k.item = items;
    c->n_item = first;
    for (int32_t i = 0; i < 128; i++) k.ascii[i >> 6] |= (uint64_t)class_has_slow(&k, i) << (i & 63);
    c->p->class[c->p->n_class] = k;
    return (int32_t)c->p->n_class++;
}

static int32_t next_code(compiler *c)
{
    int32_t code = -1;
    if (c->s < c->end) c->s += utf8_next(c->s, (size_t)(c->end - c->s), &code);
    if (code < 0) refuse(c, "an end or a byte that is no character");
    return code;
}

/* {..} behind \p, \x; the text between. */
static const char *braces(compiler *c, size_t *n)
{
    const char *close = c->s < c->end && *c->s == '{' ? memchr(c->s, '}', (size_t)(c->end - c->s)) : NULL;
    if (!close) {
        refuse(c, "an escape without {...}");
        return NULL;
    }
    const char *text = c->s + 1;
    *n = (size_t)(close - text);
    c->s = close + 1;
    return text;
}

static void add_property(compiler *c, int negated)
{
    size_t n = 0;
    const char *name = braces(c, &n);
    if (!name) return;
    if (n && name[0] == '^') name++, n--, negated = !negated;
    uint32_t bits = unicode_category_bits(name, n);
    if (!bits) {
        refuse(c, "a property that is no general category (scripts are not known)");
        return;
    }
    add_bits(c, negated ? ~bits & ((1u << CATEGORY_COUNT) - 1) : bits);
}

static void add_kind(compiler *c, int (*kind)(int32_t), int negated)
{
    add_item(c, (class_item){.from = 1, .kind = kind, .negated = negated});
}

static int32_t hex(compiler *c, const char *s, size_t n)
{
    int32_t code = 0;
    if (n == 0 || n > 6) refuse(c, "a code point that is none");
    for (size_t i = 0; i < n && !c->failed; i++) {
        int digit = s[i] >= '0' && s[i] <= '9'   ? s[i] - '0'
                    : s[i] >= 'a' && s[i] <= 'f' ? s[i] - 'a' + 10
                    : s[i] >= 'A' && s[i] <= 'F' ? s[i] - 'A' + 10
                                                 : -1;
        if (digit < 0) refuse(c, "a code point that is none");
        code = code * 16 + digit;
    }
    if (code > 0x10ffff) refuse(c, "a code point that is none");
    return code;
}

/* Oniguruma, whose answers are the field's, has the fractions and superscripts of Latin-1 in \w but not in [\w]. */
static int is_word_in_class(int32_t c)
{
    return unicode_is_pattern_word(c) && c != 0xb2 && c != 0xb3 && c != 0xb9 && (c < 0xbc || c > 0xbe);
}

/* Behind a backslash: a class (returns -1, its items are added) or a character. */
static int32_t escape(compiler *c, int in_class)
{
    int (*word)(int32_t) = in_class ? is_word_in_class : unicode_is_pattern_word;
    const uint32_t all = (1u << CATEGORY_COUNT) - 1;
    int32_t code = next_code(c);
    size_t n = 0;
    switch (code) {
    case 's': add_kind(c, unicode_is_blank, 0); return -1;
    case 'S': add_kind(c, unicode_is_blank, 1); return -1;
    case 'd': add_bits(c, BITS("Nd")); return -1;
    case 'D': add_bits(c, all & ~BITS("Nd")); return -1;
    case 'w': add_kind(c, word, 0); return -1;
    case 'W': add_kind(c, word, 1); return -1;
    case 'p': add_property(c, 0); return -1;
    case 'P': add_property(c, 1); return -1;
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'f': return '\f';
    case 'v': return '\v';
    case 'x': {
        const char *s = c->s < c->end && *c->s == '{' ? braces(c, &n) : c->s;
        if (s == c->s) {
            n = c->end - s >= 2 ? 2 : 0;
            c->s += n;
        }
        return s ? hex(c, s, n) : 0;
    }
    case 'u': {
        const char *s = c->s;
        n = c->end - s >= 4 ? 4 : 0;
        c->s += n;
        return hex(c, s, n);
    }
    default:
        if ((code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z'))
            refuse(c, "an escape that is not known");
        return code;
    }
}

static int32_t read_class(compiler *c) /* behind [ */
{
    size_t first = c->n_item;
    int negated = c->s < c->end && *c->s == '^', any = 0;
    c->s += negated;
    while (!c->failed && !(c->s < c->end && *c->s == ']' && any)) {
        any = 1;
        if (c->s < c->end && (*c->s == '[' || (*c->s == '&' && c->s + 1 < c->end && c->s[1] == '&'))) {
            refuse(c, "a class within a class");
            break;
        }
        int32_t from = next_code(c);
        if (from == '\\') from = escape(c, 1);
        if (from < 0 || c->failed) continue;
        if (c->end - c->s >= 2 && c->s[0] == '-' && c->s[1] != ']') {
            c->s++;
            int32_t to = next_code(c);
            if (to == '\\') to = escape(c, 1);
            if (to < from) refuse(c, "a range from high to low");
            add_range(c, from, to);
        } else {
            add_character(c, from);
        }
    }
    c->s++;
    return c->failed ? 0 : end_class(c, first, negated);
}

static void alternatives(compiler *);

/* {m,n}, ?, *, +; 0: there is none. */
static int quantifier(compiler *c, int32_t *low, int32_t *high, uint8_t *how)
{
    if (c->s >= c->end) return 0;
    int may_possess = 1;
    if (*c->s == '?') {
        *low = 0, *high = 1;
    } else if (*c->s == '*') {
        *low = 0, *high = ENDLESS;
    } else if (*c->s == '+') {
        *low = 1, *high = ENDLESS;
    } else if (*c->s == '{') {
        int m = 0, n = 0, used = 0;
        char copy[24] = "";
        memcpy(copy, c->s, (size_t)(c->end - c->s) < 23 ? (size_t)(c->end - c->s) : 23);
        if (sscanf(copy, "{%4d,%4d}%n", &m, &n, &used) == 2 && used) {
        } else if (sscanf(copy, "{%4d,}%n", &m, &used) == 1 && used) {
            n = ENDLESS;
        } else if (sscanf(copy, "{,%4d}%n", &n, &used) == 1 && used) {
            m = 0;
        } else if (sscanf(copy, "{%4d}%n", &m, &used) == 1 && used) {
            n = m;
        } else {
            return 0; /* a brace */
        }
        if (m < 0 || n < m || m > REPEAT_MAX || (n != ENDLESS && n > REPEAT_MAX)) refuse(c, "a count out of bounds");
        *low = m, *high = n;
        c->s += used - 1;
        may_possess = 0; /* Oniguruma reads {1,3}+ as a repeated group */
    } else {
        return 0;
    }
    c->s++;
    *how = GREEDY;
    if (c->s < c->end && *c->s == '?') {
        *how = LAZY;
        c->s++;
    } else if (c->s < c->end && *c->s == '+') {
        if (!may_possess) refuse(c, "a repeated repeat");
        *how = POSSESSIVE;
        c->s++;
    }
    if (c->s < c->end && strchr("?*+", *c->s)) refuse(c, "a repeated repeat");
    return 1;
}

/* Whether one can go through code from..to without a character: then repeating it for ever would. */
static int can_be_empty(compiler *c, int32_t from, int32_t to)
{
    uint8_t *seen = token_pool_get(c->pool, (size_t)(to - from) + 1, 1);
    int32_t *todo = token_pool_get(c->pool, 2 * (size_t)(to - from) + 2, sizeof *todo), n = 0;
    if (!seen || !todo) return 1;
    todo[n++] = from;
    while (n > 0) {
        int32_t at = todo[--n];
        if (at >= to) return 1;
        if (seen[at - from]++) continue;
        const instruction *x = &c->p->code[at];
        if (x->op == OP_CLASS || (x->op == OP_RUN && x->b > 0)) continue;
        todo[n++] = x->op == OP_SPLIT || x->op == OP_JUMP ? x->a : x->op == OP_AHEAD ? x->a + 1 : at + 1;
        if (x->op == OP_SPLIT) todo[n++] = x->b;
    }
    return 0;
}

static void repeat_group(compiler *c, int32_t from, int32_t low, int32_t high, uint8_t how)
{
    int32_t to = (int32_t)c->p->n;
    if (how == POSSESSIVE) refuse(c, "a possessive group");
    if (high == ENDLESS && can_be_empty(c, from, to)) refuse(c, "a repeated group that may be empty");
    if (c->failed) return;
    /* The group was written once; it is kept aside as a copy for the repeats. */
    instruction *body = token_pool_get(c->pool, (size_t)(to - from) + 1, sizeof *body);
    if (!body) {
        c->failed = 1;
        return;
    }
    if (to > from) memcpy(body, c->p->code + from, (size_t)(to - from) * sizeof *body); /* "()?" has no code yet */
    int32_t length = to - from;
    c->p->n = (size_t)from;
    int32_t copies = high == ENDLESS ? low + 1 : high, exits[REPEAT_MAX + 1], n_exit = 0;
    for (int32_t i = 0; i < copies && !c->failed; i++) {
        int32_t split = -1;
        if (i >= low) split = emit(c, (instruction){.op = OP_SPLIT});
        int32_t at = (int32_t)c->p->n;
        for (int32_t k = 0; k < length; k++) {
            instruction x = body[k];
            if (x.op == OP_SPLIT || x.op == OP_JUMP || x.op == OP_AHEAD) x.a += at - from;
            if (x.op == OP_SPLIT) x.b += at - from;
            emit(c, x);
        }
        if (c->failed) return;
        if (i >= low && high == ENDLESS) emit(c, (instruction){.op = OP_JUMP, .a = split});
        if (split >= 0) {
            c->p->code[split].a = how == LAZY ? -1 : at;
            c->p->code[split].b = how == LAZY ? at : -1;
            exits[n_exit++] = split;
        }
    }
    for (int32_t i = 0; i < n_exit; i++) {
        instruction *x = &c->p->code[exits[i]];
        *(x->a < 0 ? &x->a : &x->b) = (int32_t)c->p->n;
    }
}

static void group(compiler *c) /* behind ( */
{
    int was = c->ignore_case, ahead = -1;
    if (++c->depth > NESTING_MAX) refuse(c, "groups nested too deep");
    if (c->end - c->s >= 2 && c->s[0] == '?') {
        c->s++;
        if (*c->s == '=' || *c->s == '!') {
            ahead = emit(c, (instruction){.op = OP_AHEAD, .how = *c->s == '!'});
            c->s++;
        } else if (*c->s == ':') {
            c->s++;
        } else if (c->end - c->s >= 2 && c->s[0] == 'i' && c->s[1] == ':') {
            c->ignore_case = 1;
            c->s += 2;
        } else {
            refuse(c, "a group of a kind that is not known (look-behind, names, flags)");
        }
    }
    alternatives(c);
    if (!c->failed && (c->s >= c->end || *c->s != ')')) refuse(c, "a group without )");
    c->s++;
    c->ignore_case = was;
    c->depth--;
    if (ahead >= 0 && !c->failed) {
        int32_t end = emit(c, (instruction){.op = OP_AHEAD_END});
        if (!c->failed) c->p->code[ahead].a = end;
    }
}

/* One item and its quantifier. */
static void item(compiler *c)
{
    int32_t from = (int32_t)c->p->n, low = 1, high = 1, class = -1;
    size_t first = c->n_item;
    uint8_t how = GREEDY;
    int32_t code = next_code(c);
    if (c->failed) return;
    if (code == '(') {
        group(c);
    } else if (code == '^' || code == '$') {
        emit(c, (instruction){.op = code == '^' ? OP_BEGIN : OP_END});
    } else if (code == '[') {
        class = read_class(c);
    } else if (code == '.') {
        add_range(c, '\n', '\n');
        class = end_class(c, first, 1);
    } else if (code == '?' || code == '*' || code == '+') {
        refuse(c, "nothing to repeat");
    } else {
        if (code == '\\') code = escape(c, 0);
        if (code >= 0) add_character(c, code);
        class = c->failed ? 0 : end_class(c, first, 0);
    }
    int repeated = !c->failed && quantifier(c, &low, &high, &how);
    if (c->failed) return;
    if (class >= 0 && repeated && how != LAZY) {
        emit(c, (instruction){.op = OP_RUN, .how = how, .a = class, .b = low, .c = high});
        return;
    }
    if (class >= 0) emit(c, (instruction){.op = OP_CLASS, .a = class});
    if (repeated) repeat_group(c, from, low, high, how);
}

static void sequence(compiler *c)
{
    while (!c->failed && c->s < c->end && *c->s != '|' && *c->s != ')') item(c);
}

/* a|b|c: SPLIT a, next; a; JUMP end; SPLIT b, ... The split is put before code that is there already. */
static void alternatives(compiler *c)
{
    int32_t jumps[256], n_jump = 0;
    for (;;) {
        int32_t from = (int32_t)c->p->n;
        sequence(c);
        if (c->failed || c->s >= c->end || *c->s != '|') break;
        c->s++;
        int32_t to = (int32_t)c->p->n;
        emit(c, (instruction){.op = OP_JUMP});
        if (c->failed) return;
        memmove(c->p->code + from + 1, c->p->code + from, (size_t)(to - from) * sizeof *c->p->code);
        for (int32_t i = from + 1; i <= to; i++) {
            instruction *x = &c->p->code[i];
            if (x->op == OP_SPLIT || x->op == OP_JUMP || x->op == OP_AHEAD) x->a++;
            if (x->op == OP_SPLIT) x->b++;
        }
        c->p->code[from] = (instruction){.op = OP_SPLIT, .a = from + 1, .b = to + 2};
        jumps[n_jump++] = emit(c, (instruction){.op = OP_JUMP});
        if (n_jump == 255) refuse(c, "too many alternatives");
        if (c->failed) return;
    }
    for (int32_t i = 0; i < n_jump; i++) c->p->code[jumps[i]].a = (int32_t)c->p->n;
}

pattern *pattern_new(token_pool *pool, const char *source, size_t n, char *why)
{
    compiler c = {.pool = pool, .s = source, .begin = source, .end = source + n, .why = why};
    why[0] = 0;
    if (!(c.p = token_pool_get(pool, 1, sizeof *c.p))) c.failed = 1;
    if (!c.failed) alternatives(&c);
    if (!c.failed && c.s < c.end) refuse(&c, "a ) without a group");
    if (!c.failed) emit(&c, (instruction){.op = OP_MATCH});
    if (!c.failed) return c.p;
    if (!why[0]) snprintf(why, 300, "no memory for a pattern");
    return NULL;
}

pattern *pattern_literal(token_pool *pool, const char *text, size_t n)
{
    pattern *p = token_pool_get(pool, 1, sizeof *p);
    if (!p || !(p->literal = token_pool_copy(pool, text, n))) return NULL;
    p->n_literal = n;
    return p;
}

/* ---- matching ---- */

typedef struct {
    int32_t code;
    uint32_t is_run; /* goes on at `code` from ever shorter runs */
    size_t at, last; /* a run: where it stands now, and where it may go to */
} way_back;

typedef struct {
    const pattern *p;
    token_pool *pool;
    const char *s;
    size_t n;
    way_back *back;
    size_t n_back, capacity;
    uint64_t steps, steps_max;
} matcher;

static size_t run_of(matcher *m, const char_class *k, size_t at, int32_t most)
{
    for (int32_t i = 0; i < most && at < m->n; i++) {
        int32_t code;
        size_t step = utf8_next(m->s + at, m->n - at, &code);
        if (!class_has(k, code)) break;
        at += step;
        m->steps++;
    }
    return at;
}

static int push(matcher *m, way_back b)
{
    if (!token_pool_reserve(m->pool, &m->back, &m->capacity, m->n_back + 1, sizeof b)) return 0;
    m->back[m->n_back++] = b;
    return 1;
}

/* Takes the newest way back that is left above `base`. 0: none. */
static int go_back(matcher *m, size_t base, int32_t *pc, size_t *at)
{
    if (m->n_back == base) return 0;
    way_back *b = &m->back[m->n_back - 1];
    *pc = b->code;
    *at = b->at;
    m->n_back--;
    if (b->is_run && b->at > b->last) { /* a greedy run may give back one more */
        b->at = utf8_before(m->s, b->at);
        *at = b->at;
        m->n_back += b->at > b->last;
    }
    return 1;
}

/* The end of a match that begins at `at`; SIZE_MAX: none; SIZE_MAX - 1: no memory or too many steps. */
static size_t match_from(matcher *m, int32_t pc, size_t at)
{
    const size_t base = m->n_back, none = SIZE_MAX, broken = SIZE_MAX - 1;
    for (;;) {
        const instruction *x = &m->p->code[pc];
        int32_t code;
        size_t end;
        int ok = 1;
        if (++m->steps > m->steps_max) return broken;
        switch ((op)x->op) {
        case OP_CLASS:
            ok = at < m->n;
            if (ok) {
                end = at + utf8_next(m->s + at, m->n - at, &code);
                if ((ok = class_has(&m->p->class[x->a], code))) at = end;
            }
            pc++;
            break;
        case OP_RUN: {
            size_t least = run_of(m, &m->p->class[x->a], at, x -> b), have = 0;
            for (size_t i = at; i < least; i += utf8_next(m->s + i, m->n - i, &code)) have++;
            ok = have == (size_t)x->b;
            if (!ok) break;
            at = least;
            end = run_of(m, &m->p->class[x->a], least, x -> c == ENDLESS ? ENDLESS : x -> c - x -> b);
            if (x->how == GREEDY && end > least && !push(m, (way_back){pc + 1, 1, end, least})) return broken;
            at = end;
            pc++;
            break;
        }
        case OP_SPLIT:
            if (!push(m, (way_back){x->b, 0, at, 0})) return broken;
            pc = x->a;
            break;
        case OP_JUMP: pc = x->a; break;
        case OP_AHEAD:
            end = match_from(m, pc + 1, at);
            if (end == broken) return broken;
            ok = (end == none) == x->how;
            pc = x->a + 1;
            break;
        case OP_BEGIN: ok = at == 0, pc++; break;
        case OP_END: ok = at == m->n, pc++; break;
        case OP_AHEAD_END:
        case OP_MATCH: m->n_back = base; return at;
        }
        if (!ok && !go_back(m, base, &pc, &at)) return none;
    }
}

static int add_match(token_pool *pool, range_list *out, size_t *from, size_t a, size_t b)
{
    if (!token_pool_reserve(pool, &out->item, &out->capacity, out->n + 2, sizeof *out->item)) return 0;
    if (a > *from) out->item[out->n++] = (text_range){*from, a, 0};
    if (b > a) out->item[out->n++] = (text_range){a, b, 1};
    *from = b;
    return 1;
}

static int literal_ranges(const pattern *p, token_pool *pool, const char *s, size_t n, range_list *out)
{
    size_t from = 0;
    for (const char *at = s; p->n_literal && (at = memmem(at, (size_t)(s + n - at), p->literal, p->n_literal));
         at += p->n_literal)
        if (!add_match(pool, out, &from, (size_t)(at - s), (size_t)(at - s) + p->n_literal)) return 0;
    return add_match(pool, out, &from, n, n);
}

int pattern_ranges(const pattern *p, token_pool *pool, const char *s, size_t n, range_list *out)
{
    matcher m = {.p = p, .pool = pool, .s = s, .n = n, .steps_max = 1000000 + (uint64_t)n * 256};
    size_t from = 0;
    out->n = 0;
    if (p->literal) return literal_ranges(p, pool, s, n, out);
    for (size_t at = 0, step; at < n; at += step) {
        int32_t code;
        size_t end = match_from(&m, 0, at);
        if (end == SIZE_MAX - 1) return pool->failed ? 0 : -1;
        if (end != SIZE_MAX && end > at) {
            if (!add_match(pool, out, &from, at, end)) return 0;
            step = end - at;
        } else {
            step = utf8_next(s + at, n - at, &code);
        }
        m.n_back = 0;
    }
    return add_match(pool, out, &from, n, n);
}
