/* test_expression.c - texts at random into code: whatever the text is, it is refused with a place or makes code whose
 * registers, operands and numbers are there; putting one expression into another computes what both do.
 */
#include "graph/expression.h"
#include "harness.h"

#include <math.h>
#include <string.h>

static uint64_t state = 7;
static uint32_t roll(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

/* Every register is written before it is read, and nothing lies outside its table. */
static void check_code(const map_attr *m, uint32_t operands, const char *text)
{
    uint32_t written = 0, wrong = m->n < 1 || m->n > OP_MAX_CODE || m->n_numbers > OP_MAX_NUMBERS;
    for (uint32_t i = 0; i < m->n && !wrong; i++) {
        const map_code *c = &m->code[i];
        uint32_t n = c->op <= MAP_NUMBER ? 0 : map_op_operands((map_op)c->op);
        wrong |= c->op >= MAP_OP_COUNT || c->to >= OP_MAX_REGISTERS || c->to >= m->n_registers;
        wrong |= c->op == MAP_LOAD && c->a >= operands;
        wrong |= c->op == MAP_NUMBER && c->a >= m->n_numbers;
        wrong |= n > 0 && !(written >> c->a & 1);
        wrong |= n > 1 && !(written >> c->b & 1);
        wrong |= n > 2 && !(written >> c->c & 1);
        written |= 1u << c->to;
    }
    CHECK_MSG(!wrong, "'%s'", text);
}

static void test_random_texts(void)
{
    static const char *const pieces[] = {"a",  "b",    "c",    "p",  " ",   "(",   ")",    "+", "-",  "*",   "/", "<",
                                         ">=", "==",   "&&",   "||", "!",   "?",   ":",    ",", "1",  "2.5", ".", "1e3",
                                         "e",  "exp(", "min(", "pi", "inf", "nan", "mod(", "z", "\t", "\x80"};
    int made = 0;
    for (int round = 0; round < 200000; round++) {
        char text[200] = "";
        error e = {0};
        map_attr m = {0};
        static const float number[4] = {1, 2, 3, 4};
        for (uint32_t n = 1 + roll(14); n > 0; n--) strcat(text, pieces[roll(sizeof pieces / sizeof pieces[0])]);
        uint32_t operands = 1 + roll(2);
        kiln_status status = expression_compile(text, operands, (int)roll(2), number, &m, &e);
        if (status == KILN_OK)
            check_code(&m, operands, text), made++;
        else
            CHECK_MSG(status == KILN_ERR_INVALID && strstr(e.message, text), "'%s': %s", text, e.message);
    }
    CHECK_MSG(made > 0, "no text made sense");
}

/* Balanced ones, so that most are code. */
static void grow(char *text, int depth)
{
    static const char *const binary[] = {" + ", " - ", " * ", " < ", " && ", " / "};
    static const char *const unary[] = {"abs(", "-(", "tanh(", "!(", "relu("};
    char left[2000] = "", right[2000] = "";
    if (depth == 0) {
        strcat(text, roll(3) ? (const char *[]){"a", "b", "c"}[roll(3)] : "0.5");
        return;
    }
    grow(left, depth - 1);
    if (roll(3) == 0) {
        strcat(strcat(strcat(text, unary[roll(5)]), left), ")");
        return;
    }
    grow(right, depth - 1 - (int)roll((uint32_t)depth));
    strcat(strcat(strcat(strcat(strcat(text, "("), left), binary[roll(6)]), right), ")");
}

static double value_of(const map_attr *m, const double *operand)
{
    double r[OP_MAX_REGISTERS] = {0};
    for (uint32_t i = 0; i < m->n; i++) {
        const map_code *c = &m->code[i];
        double a = c->op > MAP_NUMBER ? r[c->a] : 0, b = r[c->b], v = 0;
        switch (c->op) {
        case MAP_LOAD: v = operand[c->a]; break;
        case MAP_NUMBER: v = (double)m->number[c->a]; break;
        case MAP_ADD: v = a + b; break;
        case MAP_SUB: v = a - b; break;
        case MAP_MUL: v = a * b; break;
        case MAP_DIV: v = a / b; break;
        case MAP_LESS: v = a < b; break;
        case MAP_AND: v = a != 0 && b != 0; break;
        case MAP_NEGATE: v = -a; break;
        case MAP_NOT: v = a == 0; break;
        case MAP_ABS: v = fabs(a); break;
        case MAP_TANH: v = tanh(a); break;
        case MAP_RELU: v = a > 0 || isnan(a) ? a : 0; break;
        default: v = (double)NAN; break;
        }
        r[c->to] = v;
    }
    return r[m->code[m->n - 1].to];
}

static int same(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

static void test_one_expression_inside_another(void)
{
    int inlined = 0;
    for (int round = 0; round < 20000; round++) {
        char outer_text[2000] = "a * (b + c) + ", inner_text[2000] = "a + b + c - ";
        map_attr outer = {0}, inner = {0};
        grow(outer_text, (int)roll(4)), grow(inner_text, (int)roll(4));
        if (expression_compile(outer_text, 3, 0, NULL, &outer, NULL) != KILN_OK ||
            expression_compile(inner_text, 3, 0, NULL, &inner, NULL) != KILN_OK)
            continue;
        /* outer's b is inner; inner's operands are the whole's 0, 3, 1, outer's a and c 0 and 2 */
        static const uint8_t outer_place[] = {0, 0, 2}, inner_place[] = {0, 3, 1};
        const double x[4] = {0.75, -1.5, 0.25, 2}, of_inner[3] = {x[0], x[3], x[1]};
        const double of_outer[3] = {x[0], value_of(&inner, of_inner), x[2]};
        double wanted = value_of(&outer, of_outer);
        map_attr whole = outer;
        if (!expression_inline(&whole, 1, &inner, outer_place, inner_place)) continue;
        inlined++;
        check_code(&whole, 4, outer_text);
        CHECK_MSG(same(value_of(&whole, x), wanted), "'%s' in '%s'", inner_text, outer_text);
    }
    CHECK_MSG(inlined > 1000, "%d were put into another", inlined);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_random_texts), CASE(test_one_expression_inside_another)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
