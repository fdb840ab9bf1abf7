/* kernels_map.h - the part of kernels_template.h that computes one operation of an expression: operands are read as
 * they are stored and the result is stored as it is to be, in one pass. Part of that file: included by it alone, once
 * for each width of vectors.
 */

/* A loop for each type would be a copy of each operation for each of their combinations: what is asked for each vector
 * is hidden from the compiler, and the processor predicts it. */
#define AT_EACH_VECTOR(type) __asm__("" : "+r"(type))

/* At place i of a row of f32 or bf16; past the caches where `past` says that a vector begins there. */
INLINE void put_one(uint32_t type, void *row, size_t i, vf v, size_t left, int past)
{
    char *to = (char *)row + i * (type == KILN_F32 ? 4 : 2);
    if (left > LANES) left = LANES;
#if LANES == 16
    if (past && left == LANES) {
        if (type == KILN_F32)
            _mm512_stream_ps((float *)(void *)to, (__m512)v);
        else
            _mm256_stream_si256((__m256i *)(void *)to, narrowed(v));
        return;
    }
#endif
    (void)past;
    if (type == KILN_F32)
        put_any((float *)(void *)to, v, left);
    else
        put_as(KILN_BF16, to, v, left);
}

/* Two vectors, so that types are asked for half as often and lines of bf16 are stored whole. */
INLINE void map_get_two(const map_row *r, int k, size_t i, vf to[2])
{
    uint32_t type = r->type[k];
    const uint16_t *half = (const uint16_t *)r->x[k] + i;
    AT_EACH_VECTOR(type);
    if (type == KILN_F32) {
        const float *p = (const float *)r->x[k] + i;
        to[0] = get(p), to[1] = get(p + LANES);
        return;
    }
    __builtin_prefetch((const char *)half + AHEAD);
    if (type == KILN_BF16)
        to[0] = widen(half), to[1] = widen(half + LANES);
    else
        to[0] = widen_f16(half), to[1] = widen_f16(half + LANES);
}
INLINE void map_put_two(const map_row *r, size_t i, const vf v[2])
{
    uint32_t type = r->to_type;
    AT_EACH_VECTOR(type);
    if (type == KILN_BF16) {
        put_two((uint16_t *)r->to + i, v[0], v[1], r->past);
        return;
    }
    put_one(KILN_F32, r->to, i, v[0], LANES, r->past), put_one(KILN_F32, r->to, i + LANES, v[1], LANES, r->past);
}

/* expr of x, y and z, the numbers at a place of the first `operands` operands; n is a multiple of MAP_STEP. */
enum { MAP_STEP = 2 * LANES };
#define MAP_LOOP(operands, expr)                                                                                       \
    do {                                                                                                               \
        for (size_t i = 0; i < r->n; i += MAP_STEP) {                                                                  \
            vf in[3][2], out[2];                                                                                       \
            UNROLL for (int k = 0; k < (operands); k++) map_get_two(r, k, i, in[k]);                                   \
            UNROLL for (int h = 0; h < 2; h++)                                                                         \
            {                                                                                                          \
                vf x = in[0][h], y = in[(operands) > 1][h], z = in[(operands) > 2 ? 2 : 0][h];                         \
                (void)y, (void)z, out[h] = (expr);                                                                     \
            }                                                                                                          \
            map_put_two(r, i, out);                                                                                    \
        }                                                                                                              \
    } while (0)
#define UNARY(expr) MAP_LOOP(1, expr)
#define BINARY(expr) MAP_LOOP(2, expr)
/* Number by number, by a function of libm's. */
#define EACH(name, call)                                                                                               \
    static vf name(vf x, vf y)                                                                                         \
    {                                                                                                                  \
        (void)y;                                                                                                       \
        for (int k = 0; k < LANES; k++) x[k] = (call);                                                                 \
        return x;                                                                                                      \
    }
#define EITHER(of_few_bits, expr)                                                                                      \
    do {                                                                                                               \
        if (LANES >= 8 && r->few_bits)                                                                                 \
            UNARY(of_few_bits);                                                                                        \
        else                                                                                                           \
            UNARY(expr);                                                                                               \
    } while (0)

/* ---- sums of rows ---- */

INLINE void prefix_as(const uint32_t type, void *to, const void *x, double *carry, const int exclusive, size_t n,
                      int past)
{
    const vf zero = {0};
    double sum = *carry;
    for (size_t i = 0; i < n; i += LANES) {
        vf v = get_as(type, x, i, n - i);
        __builtin_prefetch((const char *)x + i * (type == KILN_F32 ? 4 : 2) + AHEAD);
        v += SHIFT_1(zero, v);
        v += SHIFT_2(zero, v);
#if LANES > 4
        v += SHIFT_4(zero, v);
#endif
#if LANES > 8
        v += SHIFT_8(zero, v);
#endif
        put_one(type, to, i, (exclusive ? SHIFT_1(zero, v) : v) + splat((float)sum), n - i, past);
        sum += (double)v[LANES - 1];
    }
    *carry = sum;
}
/* The sum so far is a double, so that long rows lose nothing. */
static void prefix_row(void *to, const void *x, uint32_t type, double *carry, int exclusive, size_t n, int past)
{
    past = past && to_line(to) == 0;
    if (type == KILN_BF16 && exclusive)
        prefix_as(KILN_BF16, to, x, carry, 1, n, past);
    else if (type == KILN_BF16)
        prefix_as(KILN_BF16, to, x, carry, 0, n, past);
    else if (exclusive)
        prefix_as(KILN_F32, to, x, carry, 1, n, past);
    else
        prefix_as(KILN_F32, to, x, carry, 0, n, past);
}

/* ---- operations ---- */

static float remainder_of(float a, float b)
{
    float m = fmodf(a, b);
    return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}

EACH(each_remainder, remainder_of(x[k], y[k]))
EACH(each_atan2, atan2f(x[k], y[k]))
EACH(each_power, powf(x[k], y[k]))
EACH(each_tan, tanf(x[k]))
EACH(each_atan, atanf(x[k]))

static void map_operator(uint32_t op, const map_row *r)
{
    switch (op) {
    case MAP_ADD: BINARY(x + y); break;
    case MAP_SUB: BINARY(x - y); break;
    case MAP_MUL: BINARY(x * y); break;
    case MAP_DIV:
        if (LANES >= 8 && r->few_bits)
            BINARY(short_quotient(x, y));
        else
            BINARY(x / y);
        break;
    case MAP_LESS: BINARY(vtruth(x < y)); break;
    case MAP_LESS_EQUAL: BINARY(vtruth(x <= y)); break;
    case MAP_EQUAL: BINARY(vtruth(x == y)); break;
    case MAP_NOT_EQUAL: BINARY(vtruth(x != y)); break;
    case MAP_AND: BINARY(vtruth(~vfalse(x) & ~vfalse(y))); break;
    case MAP_OR: BINARY(vtruth(~vfalse(x) | ~vfalse(y))); break;
    case MAP_MIN: BINARY(vleast(x, y)); break;
    case MAP_MAX: BINARY(vmost(x, y)); break;
    case MAP_MOD: BINARY(each_remainder(x, y)); break;
    case MAP_ATAN2: BINARY(each_atan2(x, y)); break;
    default: BINARY(each_power(x, y)); break;
    }
}

static void map_function(uint32_t op, const map_row *r)
{
    switch (op) {
    case MAP_NEGATE: UNARY(-x); break;
    case MAP_NOT: UNARY(vtruth(vfalse(x))); break;
    case MAP_ABS: UNARY(vabs(x)); break;
    case MAP_SIGN: UNARY(pick(visnan(x), x, vtruth(x > splat(0)) - vtruth(x < splat(0)))); break;
    case MAP_FLOOR: UNARY(vwhole(x, DOWNWARDS)); break;
    case MAP_CEIL: UNARY(vwhole(x, UPWARDS)); break;
    case MAP_ROUND: UNARY(vwhole(x, TO_NEAREST)); break;
    case MAP_SQRT: EITHER(short_root(x), vroot(x)); break;
    case MAP_RSQRT: EITHER(short_root_inverse(x), splat(1) / vroot(x)); break;
    case MAP_EXP: EITHER(short_exp(x), vexp_all(x)); break;
    case MAP_EXP2: EITHER(short_exp2(x), vexp2_all(x)); break;
    case MAP_EXPM1: UNARY(vexpm1(x)); break;
    case MAP_LOG: EITHER(short_log(x), vlog(x)); break;
    case MAP_LOG2: EITHER(short_log(x) * splat(1.44269504f), vlog(x) * splat(1.44269504f)); break;
    case MAP_LOG1P: UNARY(vlog1p(x)); break;
    case MAP_SIN: EITHER(short_sine(x, 0), vsine(x, 0)); break;
    case MAP_COS: EITHER(short_sine(x, 1), vsine(x, 1)); break;
    case MAP_TAN: UNARY(each_tan(x, x)); break;
    case MAP_TANH: EITHER(short_tanh(x), vtanh(x)); break;
    case MAP_ATAN: UNARY(each_atan(x, x)); break;
    case MAP_ERF: EITHER(short_erf(x), verf(x)); break;
    case MAP_SIGMOID: EITHER(short_sigmoid(x), vsigmoid(x)); break;
    case MAP_SILU: EITHER(short_silu(x), vsilu(x)); break;
    case MAP_GELU: EITHER(short_gelu(x), vgelu(x)); break;
    case MAP_GELU_TANH: EITHER(short_gelu_tanh(x), vgelu_tanh(x)); break;
    case MAP_QUICK_GELU: EITHER(short_quick_gelu(x), vquick_gelu(x)); break;
    case MAP_RELU: UNARY(vrelu(x)); break;
    case MAP_SOFTPLUS: EITHER(short_softplus(x), vsoftplus(x)); break;
    default: UNARY(vtruth(visnan(x))); break;
    }
}

static void map_whole(uint32_t op, const map_row *r)
{
    if (op == MAP_SELECT)
        MAP_LOOP(3, pick(vfalse(x), z, y));
    else if (map_op_operands((map_op)op) == 2)
        map_operator(op, r);
    else
        map_function(op, r);
}
/* What is left of a row is copied, filled up with zeros: a loop of its own for it would make each operation half as
 * long again. */
static void map(uint32_t op, const map_row *row)
{
    map_row r = *row;
    const size_t left = r.n % MAP_STEP, whole = r.n - left;
    r.past = r.past && to_line(r.to) == 0, r.n = whole;
    if (whole) map_whole(op, &r);
    if (!left) return;
    float in[3][MAP_STEP] = {{0}}, out[MAP_STEP] = {0};
    for (uint32_t k = 0; k < map_op_operands((map_op)op); k++) {
        const size_t size = r.type[k] == KILN_F32 ? 4 : 2;
        memcpy(in[k], (const char *)r.x[k] + whole * size, left * size), r.x[k] = in[k];
    }
    const size_t size = r.to_type == KILN_F32 ? 4 : 2;
    char *to = (char *)r.to + whole * size;
    r.to = out, r.past = 0, r.n = MAP_STEP;
    map_whole(op, &r);
    memcpy(to, out, left * size);
}
