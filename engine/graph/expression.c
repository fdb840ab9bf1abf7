/* expression.c - see expression.h. A recursive descent makes one instruction a value; then values that are no longer
 * needed give their registers to later ones.
 */
#include "graph/expression.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 64, NAME_MAX_LENGTH = 16 };

static const struct {
    const char *name;
    uint8_t operands, whole;
} ops[MAP_OP_COUNT] = {
#define X(code, name, n, whole) [MAP_##code] = {name, n, whole},
    MAP_OPS(X)
#undef X
};

uint32_t map_op_operands(map_op op) { return ops[op].operands; }

const char *map_op_name(map_op op)
{
    static const char *const signs[MAP_OP_COUNT] = {
        [MAP_LOAD] = "operand", [MAP_NUMBER] = "number", [MAP_ADD] = "+",     [MAP_SUB] = "-",
        [MAP_MUL] = "*",        [MAP_DIV] = "/",         [MAP_NEGATE] = "-",  [MAP_NOT] = "!",
        [MAP_LESS] = "<",       [MAP_AND] = "&&",        [MAP_OR] = "||",     [MAP_LESS_EQUAL] = "<=",
        [MAP_EQUAL] = "==",     [MAP_NOT_EQUAL] = "!=",  [MAP_SELECT] = "?:",
    };
    return signs[op] ? signs[op] : ops[op].name;
}

typedef struct {
    const char *text, *at;
    map_attr *out;
    uint32_t n_operands, depth, used; /* used: bits of operands that were read */
    const float *number;
    error *e;
    int failed;
} parser;

static uint32_t wrong(parser *p, const char *what)
{
    if (!p->failed)
        error_set(p->e, KILN_ERR_INVALID, "expression '%s', at character %zu: %s", p->text,
                  (size_t)(p->at - p->text) + 1, what);
    p->failed = 1;
    return 0;
}

/* ---- values: instruction i makes value i ---- */

static uint32_t emit(parser *p, map_op op, uint32_t a, uint32_t b, uint32_t c)
{
    map_attr *m = p->out;
    if (p->failed) return 0;
    if (m->n == OP_MAX_CODE) return wrong(p, "it has too many operations; make two of it");
    if (m->integer && !ops[op].whole) {
        error_set(p->e, KILN_ERR_INVALID, "expression '%s': %s of whole numbers; cast() them first", p->text,
                  ops[op].name);
        p->failed = 1;
        return 0;
    }
    for (uint32_t i = 0; op <= MAP_NUMBER && i < m->n; i++)
        if (m->code[i].op == op && m->code[i].a == a) return i;
    m->code[m->n] = (map_code){.op = (uint8_t)op, .a = (uint8_t)a, .b = (uint8_t)b, .c = (uint8_t)c};
    return m->n++;
}

/* NaN and -0 are numbers like others. */
static int same_bits(float a, float b)
{
    uint32_t x, y;
    memcpy(&x, &a, sizeof x), memcpy(&y, &b, sizeof y);
    return x == y;
}

static uint32_t emit_number(parser *p, double v)
{
    map_attr *m = p->out;
    uint32_t i = 0;
    float f = (float)v;
    if (m->integer && !(v == floor(v) && fabs(v) <= 16777216))
        return wrong(p, "a number that is not whole, of whole numbers");
    while (i < m->n_numbers && !same_bits(m->number[i], f)) i++;
    if (i == OP_MAX_NUMBERS) return wrong(p, "it has too many numbers; make two of it");
    if (i == m->n_numbers) m->number[m->n_numbers++] = f;
    return emit(p, MAP_NUMBER, i, 0, 0);
}

/* ---- the grammar ---- */

static uint32_t parse_choice(parser *p);

static void skip_blanks(parser *p)
{
    while (isspace((unsigned char)*p->at)) p->at++;
}

static int take(parser *p, const char *sign)
{
    size_t n = strlen(sign);
    skip_blanks(p);
    if (strncmp(p->at, sign, n) != 0) return 0;
    p->at += n;
    return 1;
}

static uint32_t parse_arguments(parser *p, map_op op)
{
    uint32_t value[3] = {0}, n = ops[op].operands;
    if (!take(p, "(")) return wrong(p, "a function without brackets");
    for (uint32_t i = 0; i < n; i++) {
        if (i && !take(p, ",")) return wrong(p, "a comma and another argument are missing");
        value[i] = parse_choice(p);
    }
    return take(p, ")") ? emit(p, op, value[0], value[1], value[2]) : wrong(p, "a closing bracket is missing");
}

static uint32_t parse_letter(parser *p, char letter)
{
    static const char numbers[] = "pqrs";
    const char *number = strchr(numbers, letter);
    uint32_t operand = (uint32_t)(letter - 'a');
    if (number && p->number) return emit_number(p, (double)p->number[number - numbers]);
    if (number) return wrong(p, "p, q, r and s stand for kiln_map.number, and there is none");
    if (operand >= p->n_operands) return wrong(p, "there is no such operand");
    p->used |= 1u << operand;
    return emit(p, MAP_LOAD, operand, 0, 0);
}

static uint32_t parse_name(parser *p)
{
    char name[NAME_MAX_LENGTH + 1] = {0};
    size_t n = 0;
    while (isalnum((unsigned char)p->at[n]) || p->at[n] == '_') n++;
    if (n > NAME_MAX_LENGTH) return wrong(p, "there is no function of that name");
    memcpy(name, p->at, n);
    if (n == 1 && islower((unsigned char)name[0])) {
        uint32_t value = parse_letter(p, name[0]);
        p->at += n;
        return value;
    }
    if (strcmp(name, "pi") == 0) return p->at += n, emit_number(p, 3.14159265358979323846);
    if (strcmp(name, "inf") == 0) return p->at += n, emit_number(p, (double)INFINITY);
    if (strcmp(name, "nan") == 0) return p->at += n, emit_number(p, (double)NAN);
    for (map_op op = 0; op < MAP_OP_COUNT; op++)
        if (ops[op].name[0] && strcmp(ops[op].name, name) == 0) return p->at += n, parse_arguments(p, op);
    return wrong(p, "there is no function of that name");
}

/* Digits with a point and an exponent, whatever the locale is. */
static uint32_t parse_number(parser *p)
{
    char digits[64];
    size_t n = 0;
    double value = 0, scale = 1;
    while (isdigit((unsigned char)p->at[n])) value = value * 10 + (p->at[n++] - '0');
    if (p->at[n] == '.')
        for (n++; isdigit((unsigned char)p->at[n]); n++) value = value * 10 + (p->at[n] - '0'), scale *= 10;
    if (n >= sizeof digits) return wrong(p, "a number of too many digits");
    int exponent = 0, sign = 1;
    if (n && (p->at[n] == 'e' || p->at[n] == 'E')) {
        n++;
        if (p->at[n] == '-' || p->at[n] == '+') sign = p->at[n++] == '-' ? -1 : 1;
        if (!isdigit((unsigned char)p->at[n])) return wrong(p, "an exponent without digits");
        while (isdigit((unsigned char)p->at[n]) && exponent < 1000) exponent = exponent * 10 + (p->at[n++] - '0');
    }
    p->at += n;
    return emit_number(p, value / scale * pow(10, sign * exponent));
}

static uint32_t parse_single(parser *p)
{
    uint32_t value = 0;
    skip_blanks(p);
    if (p->failed) return 0;
    if (++p->depth > DEPTH_MAX) return wrong(p, "brackets are nested too deeply");
    if (take(p, "(")) {
        value = parse_choice(p);
        if (!take(p, ")")) wrong(p, "a closing bracket is missing");
    } else if (take(p, "-"))
        value = emit(p, MAP_NEGATE, parse_single(p), 0, 0);
    else if (take(p, "!"))
        value = emit(p, MAP_NOT, parse_single(p), 0, 0);
    else if (isdigit((unsigned char)*p->at) || *p->at == '.')
        value = parse_number(p);
    else if (isalpha((unsigned char)*p->at))
        value = parse_name(p);
    else
        wrong(p, *p->at ? "an operand is missing" : "it ends too early");
    p->depth--;
    return value;
}

/* Operators of two operands, by how tightly they bind; > and >= are < and <= the other way round. */
static const struct {
    const char *sign;
    int level, swapped;
    map_op op;
} binary[] = {
    {"||", 0, 0, MAP_OR},         {"&&", 1, 0, MAP_AND},        {"==", 2, 0, MAP_EQUAL}, {"!=", 2, 0, MAP_NOT_EQUAL},
    {"<=", 3, 0, MAP_LESS_EQUAL}, {">=", 3, 1, MAP_LESS_EQUAL}, {"<", 3, 0, MAP_LESS},   {">", 3, 1, MAP_LESS},
    {"+", 4, 0, MAP_ADD},         {"-", 4, 0, MAP_SUB},         {"*", 5, 0, MAP_MUL},    {"/", 5, 0, MAP_DIV},
};
enum { LEVELS = 6 };

static uint32_t parse_level(parser *p, int level)
{
    if (level == LEVELS) return parse_single(p);
    uint32_t left = parse_level(p, level + 1);
    for (;;) {
        size_t i = 0, n = sizeof binary / sizeof binary[0];
        while (i < n && (binary[i].level != level || !take(p, binary[i].sign))) i++;
        if (i == n || p->failed) return left;
        uint32_t right = parse_level(p, level + 1);
        left = binary[i].swapped ? emit(p, binary[i].op, right, left, 0) : emit(p, binary[i].op, left, right, 0);
    }
}

static uint32_t parse_choice(parser *p)
{
    if (++p->depth > DEPTH_MAX) return wrong(p, "brackets are nested too deeply");
    uint32_t condition = parse_level(p, 0), value = condition;
    if (!p->failed && take(p, "?")) {
        uint32_t yes = parse_choice(p);
        if (!take(p, ":")) return wrong(p, "a ? without its :");
        uint32_t no = parse_choice(p);
        value = emit(p, MAP_SELECT, condition, yes, no);
    }
    p->depth--;
    return value;
}

/* ---- registers ---- */

static uint32_t operands_of(const map_code *c, uint32_t operand[3])
{
    operand[0] = c->a, operand[1] = c->b, operand[2] = c->c;
    return c->op <= MAP_NUMBER ? 0 : ops[c->op].operands;
}

/* Each value gets the lowest register that nobody needs any more. */
static int assign_registers(map_attr *m)
{
    uint32_t last[OP_MAX_CODE] = {0}, operand[3], place[OP_MAX_CODE], owner[OP_MAX_REGISTERS];
    for (uint32_t i = 0; i < m->n; i++)
        for (uint32_t k = 0, n = operands_of(&m->code[i], operand); k < n; k++) last[operand[k]] = i;
    last[m->n - 1] = m->n;
    for (uint32_t r = 0; r < OP_MAX_REGISTERS; r++) owner[r] = OP_MAX_CODE;
    for (uint32_t i = 0; i < m->n; i++) {
        map_code *c = &m->code[i];
        uint32_t n = operands_of(c, operand), r = 0;
        if (n > 0) c->a = (uint8_t)place[operand[0]];
        if (n > 1) c->b = (uint8_t)place[operand[1]];
        if (n > 2) c->c = (uint8_t)place[operand[2]];
        while (r < OP_MAX_REGISTERS && owner[r] != OP_MAX_CODE && last[owner[r]] > i) r++;
        if (r == OP_MAX_REGISTERS) return 0;
        owner[r] = i;
        place[i] = r;
        c->to = (uint8_t)r;
        if (r >= m->n_registers) m->n_registers = r + 1;
    }
    return 1;
}

kiln_status expression_compile(const char *text, uint32_t n_operands, int integer, const float *number, map_attr *out,
                               error *e)
{
    parser p = {.text = text, .at = text, .out = out, .n_operands = n_operands, .number = number, .e = e};
    out->n = out->n_numbers = out->n_registers = 0;
    out->integer = (uint32_t)(integer != 0);
    uint32_t value = parse_choice(&p);
    skip_blanks(&p);
    if (!p.failed && *p.at) wrong(&p, "an operator is missing");
    if (!p.failed && value != out->n - 1) emit(&p, MAP_SELECT, value, value, value); /* the last one is the result */
    for (uint32_t i = 0; i < n_operands && !p.failed; i++)
        if (!(p.used >> i & 1)) wrong(&p, "an operand that it is given never stands in it");
    if (p.failed) return KILN_ERR_INVALID;
    if (!assign_registers(out))
        return error_set(e, KILN_ERR_INVALID, "expression '%s' needs too many numbers at once; make two of it", text);
    return KILN_OK;
}

/* ---- one expression inside another ---- */

/* Instruction i makes value i again: operands become the numbers of the instructions that made them. */
static void as_values(map_attr *m)
{
    uint8_t made[OP_MAX_REGISTERS] = {0};
    for (uint32_t i = 0; i < m->n; i++) {
        map_code *c = &m->code[i];
        uint32_t n = c->op <= MAP_NUMBER ? 0 : ops[c->op].operands;
        if (n > 0) c->a = made[c->a];
        if (n > 1) c->b = made[c->b];
        if (n > 2) c->c = made[c->c];
        made[c->to] = (uint8_t)i;
    }
}

static int number_at(map_attr *m, float v, uint8_t *place)
{
    uint32_t i = 0;
    while (i < m->n_numbers && !same_bits(m->number[i], v)) i++;
    if (i == OP_MAX_NUMBERS) return 0;
    if (i == m->n_numbers) m->number[m->n_numbers++] = v;
    *place = (uint8_t)i;
    return 1;
}

/* Appends value i of `from`, whose earlier values are at `moved`; where it is now goes there too. */
static int append_value(map_attr *to, const map_attr *from, uint32_t i, uint8_t *moved, const uint8_t *operand)
{
    map_code c = from->code[i];
    uint32_t n = c.op <= MAP_NUMBER ? 0 : ops[c.op].operands;
    if (c.op == MAP_LOAD) c.a = operand[c.a];
    if (c.op == MAP_NUMBER && !number_at(to, from->number[c.a], &c.a)) return 0;
    if (n > 0) c.a = moved[c.a];
    if (n > 1) c.b = moved[c.b];
    if (n > 2) c.c = moved[c.c];
    for (uint32_t k = 0; c.op <= MAP_NUMBER && k < to->n; k++)
        if (to->code[k].op == c.op && to->code[k].a == c.a) return moved[i] = (uint8_t)k, 1;
    if (to->n == OP_MAX_CODE) return 0;
    to->code[to->n] = c;
    moved[i] = (uint8_t)to->n++;
    return 1;
}

int expression_inline(map_attr *outer, uint32_t k, const map_attr *inner, const uint8_t *outer_operand,
                      const uint8_t *operand)
{
    map_attr whole = {.integer = outer->integer, .least = outer->least}, a = *outer, b = *inner;
    uint8_t in_outer[OP_MAX_CODE], in_inner[OP_MAX_CODE];
    if (outer->integer != inner->integer) return 0;
    as_values(&a), as_values(&b);
    for (uint32_t i = 0; i < b.n; i++)
        if (!append_value(&whole, &b, i, in_inner, operand)) return 0;
    for (uint32_t i = 0; i < a.n; i++) {
        if (a.code[i].op == MAP_LOAD && a.code[i].a == k)
            in_outer[i] = in_inner[b.n - 1];
        else if (!append_value(&whole, &a, i, in_outer, outer_operand))
            return 0;
    }
    if (in_outer[a.n - 1] != whole.n - 1 || !assign_registers(&whole)) return 0;
    *outer = whole;
    return 1;
}
