/* math_expression.c - ComfyMathExpression: a formula over the values wired to a, b, c ... z, in Python's arithmetic:
 * whole numbers stay whole but for /, // and % go down, ** binds before a sign at its left, comparisons chain.
 *
 * A recursive descent that computes while it reads; both sides of a choice are read, and what the other side fails with
 * counts as well. Whole numbers have 64 bits; one that needs more is a fault.
 */
#include "lettered_values.h"
#include "primitive.h"

#include "kiln/kit.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAMES = LETTERED_VALUES_N, DEPTH = 64, ARGUMENTS = 64 };
enum { WHOLE, REAL, TRUTH };

typedef struct {
    int kind;
    int64_t i; /* WHOLE, TRUTH */
    double f;  /* REAL */
} number;

typedef struct {
    const char *at, *text;
    number value[NAMES];
    int given[NAMES], depth;
    char why[200]; /* empty: no fault yet */
} reader;

static number whole(int64_t i) { return (number){.kind = WHOLE, .i = i}; }
static number real(double f) { return (number){.kind = REAL, .f = f}; }
static number truth(int is) { return (number){.kind = TRUTH, .i = is != 0}; }
static double as_real(number n) { return n.kind == REAL ? n.f : (double)n.i; }
static int is_true(number n) { return n.kind == REAL ? n.f != 0 : n.i != 0; }

static number fault(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static number fault(reader *r, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (!r->why[0]) vsnprintf(r->why, sizeof r->why, format, list);
    va_end(list);
    return whole(0);
}

static void skip(reader *r)
{
    while (isspace((unsigned char)*r->at)) r->at++;
}

/* Takes a sign, unless a longer one begins with it. */
static int take(reader *r, const char *sign, const char *unless)
{
    size_t n = strlen(sign);
    skip(r);
    if (strncmp(r->at, sign, n) != 0 || (*unless && strchr(unless, r->at[n]) && r->at[n])) return 0;
    r->at += n;
    return 1;
}

static int take_word(reader *r, const char *word)
{
    size_t n = strlen(word);
    skip(r);
    if (strncmp(r->at, word, n) != 0 || isalnum((unsigned char)r->at[n]) || r->at[n] == '_') return 0;
    r->at += n;
    return 1;
}

/* ---- arithmetic ---- */

static number overflow(reader *r) { return fault(r, "a whole number of more than 64 bits"); }

static number divide(reader *r, number a, number b)
{
    return as_real(b) == 0 ? fault(r, "a division by zero") : real(as_real(a) / as_real(b));
}

/* Down to the next whole number, and what is left then: it has b's sign. */
static number divide_down(reader *r, number a, number b, int rest)
{
    if (as_real(b) == 0) return fault(r, "a division by zero");
    if (a.kind == REAL || b.kind == REAL) {
        double x = as_real(a), y = as_real(b), mod = fmod(x, y);
        if (mod != 0 && (mod < 0) != (y < 0)) mod += y;
        if (rest) return real(mod == 0 ? copysign(0, y) : mod);
        double quotient = (x - mod) / y, down = floor(quotient);
        return real(quotient - down > 0.5 ? down + 1 : down);
    }
    if (b.i == -1) return rest ? whole(0) : a.i == INT64_MIN ? overflow(r) : whole(-a.i);
    int64_t quotient = a.i / b.i, left = a.i % b.i;
    if (left != 0 && (left < 0) != (b.i < 0)) quotient--, left += b.i;
    return whole(rest ? left : quotient);
}

static number power(reader *r, number a, number b)
{
    if (a.kind == REAL || b.kind == REAL || b.i < 0) {
        double f = as_real(a) == 0 && as_real(b) < 0 ? NAN : pow(as_real(a), as_real(b));
        return isfinite(f) ? real(f) : fault(r, "%g ** %g is no number", as_real(a), as_real(b));
    }
    int64_t result = 1, base = a.i;
    for (int64_t n = b.i; n > 0; n >>= 1) {
        if (n & 1 && __builtin_mul_overflow(result, base, &result)) return overflow(r);
        if (n > 1 && __builtin_mul_overflow(base, base, &base)) return overflow(r);
    }
    return whole(result);
}

static number combine(reader *r, char sign, number a, number b)
{
    int64_t i;
    if (a.kind == REAL || b.kind == REAL) {
        double x = as_real(a), y = as_real(b);
        return real(sign == '+' ? x + y : sign == '-' ? x - y : x * y);
    }
    int over = sign == '+'   ? __builtin_add_overflow(a.i, b.i, &i)
               : sign == '-' ? __builtin_sub_overflow(a.i, b.i, &i)
                             : __builtin_mul_overflow(a.i, b.i, &i);
    return over ? overflow(r) : whole(i);
}

static int compare(number a, number b)
{
    if (a.kind != REAL && b.kind != REAL) return (a.i > b.i) - (a.i < b.i);
    return (as_real(a) > as_real(b)) - (as_real(a) < as_real(b));
}

/* ---- functions ---- */

static number to_whole(reader *r, double f)
{
    return fabs(f) < 9.2e18 ? whole((int64_t)f) : fault(r, "%g is no whole number of 64 bits", f);
}
/* To the nearest, halves to the even one; behind `digits` decimals as they are written. */
static number rounded(reader *r, const number *a, size_t n)
{
    char text[400];
    if (n == 1) return a[0].kind == REAL ? to_whole(r, rint(a[0].f)) : whole(a[0].i);
    if (a[1].kind == REAL || a[1].i < 0 || a[1].i > 17) return fault(r, "round() takes 0 to 17 decimals");
    if (a[0].kind != REAL) return whole(a[0].i);
    snprintf(text, sizeof text, "%.*f", (int)a[1].i, a[0].f);
    return real(strtod(text, NULL));
}
static number smallest(reader *r, const number *a, size_t n)
{
    (void)r;
    number best = a[0];
    for (size_t i = 1; i < n; i++)
        if (compare(a[i], best) < 0) best = a[i];
    return best;
}
static number largest(reader *r, const number *a, size_t n)
{
    (void)r;
    number best = a[0];
    for (size_t i = 1; i < n; i++)
        if (compare(a[i], best) > 0) best = a[i];
    return best;
}
static number sum(reader *r, const number *a, size_t n)
{
    number all = whole(0);
    for (size_t i = 0; i < n; i++) all = combine(r, '+', all, a[i]);
    return all;
}
static number absolute(reader *r, const number *a, size_t n)
{
    (void)n;
    if (a[0].kind == REAL) return real(fabs(a[0].f));
    return a[0].i == INT64_MIN ? overflow(r) : whole(a[0].i < 0 ? -a[0].i : a[0].i);
}
static number of_real(reader *r, double f, const char *name, number a)
{
    return isfinite(f) ? real(f) : fault(r, "%s(%g) is no number", name, as_real(a));
}
static number raised(reader *r, const number *a, size_t n) { return (void)n, power(r, a[0], a[1]); }
static number root(reader *r, const number *a, size_t n)
{
    return (void)n, of_real(r, sqrt(as_real(a[0])), "sqrt", a[0]);
}
static number up(reader *r, const number *a, size_t n)
{
    return (void)n, a[0].kind == REAL ? to_whole(r, ceil(a[0].f)) : whole(a[0].i);
}
static number down(reader *r, const number *a, size_t n)
{
    return (void)n, a[0].kind == REAL ? to_whole(r, floor(a[0].f)) : whole(a[0].i);
}
static number logarithm(reader *r, const number *a, size_t n)
{
    double f = log(as_real(a[0]));
    return of_real(r, n > 1 ? f / log(as_real(a[1])) : f, "log", a[0]);
}
static number logarithm2(reader *r, const number *a, size_t n)
{
    return (void)n, of_real(r, log2(as_real(a[0])), "log2", a[0]);
}
static number logarithm10(reader *r, const number *a, size_t n)
{
    return (void)n, of_real(r, log10(as_real(a[0])), "log10", a[0]);
}
static number sine(reader *r, const number *a, size_t n)
{
    return (void)n, of_real(r, sin(as_real(a[0])), "sin", a[0]);
}
static number cosine(reader *r, const number *a, size_t n)
{
    return (void)n, of_real(r, cos(as_real(a[0])), "cos", a[0]);
}
static number tangent(reader *r, const number *a, size_t n)
{
    return (void)n, of_real(r, tan(as_real(a[0])), "tan", a[0]);
}
static number cut(reader *r, const number *a, size_t n)
{
    return (void)n, a[0].kind == REAL ? to_whole(r, a[0].f) : whole(a[0].i);
}
static number widened(reader *r, const number *a, size_t n) { return (void)r, (void)n, real(as_real(a[0])); }

static const struct function {
    const char *name;
    size_t least, most;
    number (*of)(reader *, const number *, size_t);
} functions[] = {
    {"abs", 1, 1, absolute},
    {"ceil", 1, 1, up},
    {"cos", 1, 1, cosine},
    {"float", 1, 1, widened},
    {"floor", 1, 1, down},
    {"int", 1, 1, cut},
    {"log", 1, 2, logarithm},
    {"log10", 1, 1, logarithm10},
    {"log2", 1, 1, logarithm2},
    {"max", 1, ARGUMENTS, largest},
    {"min", 1, ARGUMENTS, smallest},
    {"pow", 2, 2, raised},
    {"round", 1, 2, rounded},
    {"sin", 1, 1, sine},
    {"sqrt", 1, 1, root},
    {"sum", 1, ARGUMENTS, sum},
    {"tan", 1, 1, tangent},
};

/* ---- reading ---- */

static number choice(reader *r);

static number call(reader *r, const char *name, size_t length)
{
    number a[ARGUMENTS];
    size_t n = 0;
    const struct function *f = NULL;
    for (size_t i = 0; i < COUNT(functions); i++)
        if (strlen(functions[i].name) == length && memcmp(functions[i].name, name, length) == 0) f = &functions[i];
    if (!f) return fault(r, "there is no function '%.*s'", (int)length, name);
    while (!r->why[0] && !take(r, ")", "")) {
        if (n == ARGUMENTS || (n > 0 && !take(r, ",", ""))) return fault(r, "')' is missing behind %s(", f->name);
        a[n++] = choice(r);
    }
    if (r->why[0]) return whole(0);
    if (n < f->least || n > f->most) return fault(r, "%s() does not take %zu values", f->name, n);
    return f->of(r, a, n);
}

/* `values` with [i], or as all values of a function, is Python's way to all inputs: only names are known here. */
static number named(reader *r)
{
    const char *name = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_') r->at++;
    size_t n = (size_t)(r->at - name);
    if (take(r, "(", "")) return call(r, name, n);
    if (n == 4 && memcmp(name, "True", 4) == 0) return truth(1);
    if (n == 5 && memcmp(name, "False", 5) == 0) return truth(0);
    if (n != 1 || *name < 'a' || *name > 'z')
        return fault(r, "'%.*s' is none of the inputs, which are a to z", (int)n, name);
    if (!r->given[*name - 'a']) return fault(r, "nothing is wired to values.%c", *name);
    return r->value[*name - 'a'];
}

static number written(reader *r)
{
    char *end, *point = NULL;
    double f = strtod(r->at, &end);
    size_t digits = strspn(r->at, "0123456789");
    if (strspn(r->at, "0123456789.eE+-") < (size_t)(end - r->at) || end == r->at)
        return fault(r, "'%.20s' is no number", r->at);
    if (r->at + digits == end) {
        char text[40];
        if (digits > 19) return r->at = end, overflow(r);
        snprintf(text, sizeof text, "%.*s", (int)digits, r->at);
        unsigned long long i = strtoull(text, &point, 10);
        r->at = end;
        return i > INT64_MAX ? overflow(r) : whole((int64_t)i);
    }
    r->at = end;
    return isfinite(f) ? real(f) : fault(r, "a number is too large");
}

static number atom(reader *r)
{
    skip(r);
    if (take(r, "(", "")) {
        number n = choice(r);
        return take(r, ")", "") || r->why[0] ? n : fault(r, "')' is missing");
    }
    if (isdigit((unsigned char)*r->at) || *r->at == '.') return written(r);
    if (isalpha((unsigned char)*r->at) || *r->at == '_') return named(r);
    return fault(r, *r->at ? "'%.20s' is not expected" : "it ends where a value should stand%.0s", r->at);
}

static number factor(reader *r)
{
    if (r->why[0]) return whole(0);
    if (++r->depth > DEPTH) return fault(r, "more than %d levels", DEPTH);
    number n;
    if (take(r, "-", "")) {
        n = factor(r);
        n = n.kind == REAL ? real(-n.f) : combine(r, '-', whole(0), n);
    } else if (take(r, "+", "")) {
        n = factor(r);
        n = n.kind == TRUTH ? whole(n.i) : n;
    } else {
        n = atom(r);
        if (take(r, "**", "")) n = power(r, n, factor(r));
    }
    r->depth--;
    return n;
}

static number product(reader *r)
{
    number n = factor(r);
    while (!r->why[0]) {
        if (take(r, "//", ""))
            n = divide_down(r, n, factor(r), 0);
        else if (take(r, "*", "*"))
            n = combine(r, '*', n, factor(r));
        else if (take(r, "/", "/"))
            n = divide(r, n, factor(r));
        else if (take(r, "%", ""))
            n = divide_down(r, n, factor(r), 1);
        else
            break;
    }
    return n;
}

static number sum_of(reader *r)
{
    number n = product(r);
    while (!r->why[0]) {
        if (take(r, "+", ""))
            n = combine(r, '+', n, product(r));
        else if (take(r, "-", ""))
            n = combine(r, '-', n, product(r));
        else
            break;
    }
    return n;
}

static number comparison(reader *r)
{
    static const char *const sign[] = {"<=", ">=", "==", "!=", "<", ">"};
    number n = sum_of(r);
    int is = 1, any = 0;
    for (size_t i = 0; !r->why[0] && i < COUNT(sign); i++) {
        if (!take(r, sign[i], "")) continue;
        number next = sum_of(r);
        int order = compare(n, next);
        const int holds[] = {order <= 0, order >= 0, order == 0, order != 0, order<0, order> 0};
        is &= holds[i], any = 1, n = next;
        i = SIZE_MAX; /* a < b < c */
    }
    return any ? truth(is) : n;
}

static number negation(reader *r)
{
    if (!take_word(r, "not")) return comparison(r);
    if (++r->depth > DEPTH) return fault(r, "more than %d levels", DEPTH);
    number n = truth(!is_true(negation(r)));
    r->depth--;
    return n;
}
static number conjunction(reader *r)
{
    number n = negation(r);
    while (!r->why[0] && take_word(r, "and")) {
        number next = negation(r);
        n = is_true(n) ? next : n;
    }
    return n;
}
static number disjunction(reader *r)
{
    number n = conjunction(r);
    while (!r->why[0] && take_word(r, "or")) {
        number next = conjunction(r);
        n = is_true(n) ? n : next;
    }
    return n;
}
static number choice(reader *r)
{
    if (++r->depth > DEPTH) return fault(r, "more than %d levels", DEPTH);
    number n = disjunction(r);
    if (!r->why[0] && take_word(r, "if")) {
        number asked = disjunction(r);
        if (!take_word(r, "else") && !r->why[0]) return fault(r, "'else' is missing behind 'if'");
        number other = choice(r);
        n = is_true(asked) ? n : other;
    }
    r->depth--;
    return n;
}

/* ---- the node ---- */

typedef struct {
    const char *expression;
} math_params;
static const kiln_param math_param[] = {
    {.name = "expression",
     .type = KILN_P_STRING,
     .flags = KILN_PARAM_MULTILINE,
     .offset = offsetof(math_params, expression),
     .def_str = "a + b",
     .doc =
         "+ - * / // % **, comparisons, and, or, not, x if y else z; abs ceil cos float floor int log log10 log2 max "
         "min pow round sin sqrt sum tan; a to z are the inputs."}};
#define IN_EXPRESSION(letter_) "`" letter_ "` in the expression."
static const kiln_port math_in[] = {LETTERED_VALUES(IN_EXPRESSION)};
static const kiln_port math_out[] = {
    {.name = "FLOAT", .type = "FLOAT", .doc = "The result."},
    {.name = "INT", .type = "INT", .doc = "The same without what is behind the point."},
    {.name = "BOOL", .type = "BOOLEAN", .doc = "Whether it is true, or not 0."},
};

static kiln_status read_inputs(const kiln_call *c, reader *r)
{
    const kiln_value_api *v = kit_values(c);
    for (int i = 0; i < NAMES; i++) {
        int b;
        if (!c->in[i]) continue;
        r->given[i] = 1;
        if (v->get_bool(c->in[i], &b) == KILN_OK)
            r->value[i] = truth(b);
        else if (v->get_int(c->in[i], &r->value[i].i) == KILN_OK)
            r->value[i].kind = WHOLE;
        else if (v->get_float(c->in[i], &r->value[i].f) == KILN_OK)
            r->value[i].kind = REAL;
        else
            return c->host->fail(c->ctx, KILN_ERR_INVALID, "values.%c: what is wired here is no number", 'a' + i);
    }
    return KILN_OK;
}

static kiln_status math_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    const char *text = ((const math_params *)c->params)->expression;
    reader r = {.at = text, .text = text};
    TRY(read_inputs(c, &r));
    number n = choice(&r);
    skip(&r);
    if (!r.why[0] && *r.at) fault(&r, "'%.20s' is not expected", r.at);
    if (!r.why[0] && !isfinite(as_real(n))) fault(&r, "the result is no number");
    number i = r.why[0] ? whole(0) : cut(&r, &n, 1);
    if (r.why[0])
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "expression '%.80s', character %zu: %s", text,
                             (size_t)(r.at - text) + 1, r.why);
    if (!(c->out[0] = v->new_float(c->ctx, as_real(n)))) return KILN_ERR_NOMEM;
    if (!(c->out[1] = v->new_int(c->ctx, i.i))) return KILN_ERR_NOMEM;
    c->out[2] = v->new_bool(c->ctx, is_true(n));
    return c->out[2] ? KILN_OK : KILN_ERR_NOMEM;
}
const kiln_node node_math_expression = {
    KIT_NODE("ComfyMathExpression", "Math Expression", "utils",
             "Computes a formula of the values that are wired to it."),
    KILN_ARRAY(in, math_in),
    KILN_ARRAY(out, math_out),
    KIT_PARAMS(math_params, math_param),
    .run = math_run,
};
