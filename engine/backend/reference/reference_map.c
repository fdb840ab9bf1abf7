/* reference_map.c - what the operations of expressions are: f32 results of f32 operands by the C library, or whole
 * numbers of 32 bits that wrap round.
 */
#include "backend/reference/reference.h"
#include "graph/expression.h"

#include <math.h>

static double softplus(double x) { return x > 20 ? x : log1p(exp(x)); }

static double remainder_of(double a, double b)
{
    double m = fmod(a, b);
    return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}

static double function(map_op op, double a)
{
    switch (op) {
    case MAP_NEGATE: return -a;
    case MAP_NOT: return a == 0;
    case MAP_ABS: return fabs(a);
    case MAP_SIGN: return isnan(a) ? a : (double)((a > 0) - (a < 0));
    case MAP_FLOOR: return floor(a);
    case MAP_CEIL: return ceil(a);
    case MAP_ROUND: return rint(a);
    case MAP_SQRT: return sqrt(a);
    case MAP_RSQRT: return 1 / sqrt(a);
    case MAP_EXP: return exp(a);
    case MAP_EXP2: return exp2(a);
    case MAP_EXPM1: return expm1(a);
    case MAP_LOG: return log(a);
    case MAP_LOG2: return log2(a);
    case MAP_LOG1P: return log1p(a);
    case MAP_SIN: return sin(a);
    case MAP_COS: return cos(a);
    case MAP_TAN: return tan(a);
    case MAP_TANH: return tanh(a);
    case MAP_ATAN: return atan(a);
    case MAP_ERF: return erf(a);
    case MAP_SIGMOID: return (double)act_apply(KILN_ACT_SIGMOID, (float)a);
    case MAP_SILU: return (double)act_apply(KILN_ACT_SILU, (float)a);
    case MAP_GELU: return (double)act_apply(KILN_ACT_GELU, (float)a);
    case MAP_GELU_TANH: return (double)act_apply(KILN_ACT_GELU_TANH, (float)a);
    case MAP_QUICK_GELU: return (double)act_apply(KILN_ACT_QUICK_GELU, (float)a);
    case MAP_RELU: return isnan(a) || a > 0 ? a : 0;
    case MAP_SOFTPLUS: return softplus(a);
    default: return isnan(a) != 0;
    }
}

static double operator_of(map_op op, double a, double b)
{
    switch (op) {
    case MAP_ADD: return a + b;
    case MAP_SUB: return a - b;
    case MAP_MUL: return a * b;
    case MAP_DIV: return a / b;
    case MAP_LESS: return a < b;
    case MAP_LESS_EQUAL: return a <= b;
    case MAP_EQUAL: return a == b;
    case MAP_NOT_EQUAL: return a != b;
    case MAP_AND: return a != 0 && b != 0;
    case MAP_OR: return a != 0 || b != 0;
    case MAP_MIN: return isnan(a) || isnan(b) ? (double)NAN : fmin(a, b);
    case MAP_MAX: return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b);
    case MAP_MOD: return remainder_of(a, b);
    case MAP_ATAN2: return atan2(a, b);
    default: return pow(a, b);
    }
}

/* The numbers are 64 bits wide here: what they come to is cut to 32 after each operation. */
static int64_t whole(map_op op, int64_t a, int64_t b, int64_t c)
{
    int64_t down = b == 0 ? 0 : (int64_t)floor((double)a / (double)b);
    switch (op) {
    case MAP_ADD: return a + b;
    case MAP_SUB: return a - b;
    case MAP_MUL: return a * b;
    case MAP_DIV: return down;
    case MAP_MOD: return b == 0 ? 0 : a - down * b;
    case MAP_NEGATE: return -a;
    case MAP_NOT: return a == 0;
    case MAP_LESS: return a < b;
    case MAP_LESS_EQUAL: return a <= b;
    case MAP_EQUAL: return a == b;
    case MAP_NOT_EQUAL: return a != b;
    case MAP_AND: return a && b;
    case MAP_OR: return a || b;
    case MAP_SELECT: return a ? b : c;
    case MAP_ABS: return a < 0 ? -a : a;
    case MAP_SIGN: return (a > 0) - (a < 0);
    case MAP_MIN: return a < b ? a : b;
    default: return a > b ? a : b;
    }
}

static double evaluate(const op_desc *op, const kernel_args *a, int64_t row, int64_t column)
{
    const map_attr *m = &op->attr.map;
    double value[OP_MAX_REGISTERS] = {0};
    for (uint32_t i = 0; i < m->n; i++) {
        const map_code *c = &m->code[i];
        const operand_desc *d = &op->in[c->op == MAP_LOAD ? c->a : 0];
        int64_t place = c->op == MAP_LOAD ? broadcast_place(&op->out, d, row, column) : 0, n = operand_columns(d);
        double x = c->op > MAP_NUMBER ? value[c->a] : 0, y = value[c->b], z = value[c->c], r;
        if (c->op == MAP_LOAD)
            r = m->integer ? (double)operand_get_i32(d, a->in[c->a], place)
                           : (double)operand_get(d, a->in[c->a], place / n, place % n);
        else if (c->op == MAP_NUMBER)
            r = (double)m->number[c->a];
        else if (m->integer)
            r = (double)(int32_t)(uint32_t)whole((map_op)c->op, (int64_t)x, (int64_t)y, (int64_t)z);
        else if (c->op == MAP_SELECT)
            r = x != 0 ? y : z;
        else
            r = (double)(float)(map_op_operands((map_op)c->op) == 2 ? operator_of((map_op)c->op, x, y)
                                                                    : function((map_op)c->op, x));
        value[c->to] = r;
    }
    return value[m->code[m->n - 1].to];
}

kiln_status reference_map(const op_desc *op, const kernel_args *a, error *e)
{
    (void)e;
    for (int64_t r = 0; r < operand_rows(&op->out); r++)
        for (int64_t c = 0; c < operand_columns(&op->out); c++) {
            double v = evaluate(op, a, r, c);
            if (op->attr.map.integer)
                ((int32_t *)a->out)[r * op->out.ld + c] = (int32_t)v;
            else
                operand_set(&op->out, a->out, r, c, (float)v);
        }
    return KILN_OK;
}
