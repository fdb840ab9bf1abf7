/* test_operands.c - what may stand where in a program: weights and constants as tensors, ids and times that were
 * computed, regions of another precision, expressions and their mistakes.
 */
#include "harness.h"
#include "rig.h"

#include <math.h>
#include <string.h>

static const kiln_ops *ops(void) { return rig_host()->ability(KILN_OPS_ABILITY); }

static kiln_program *fresh(uint32_t precision)
{
    return ops()->program_new(
        rig_ctx(), &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "p", .precision = precision});
}

static kiln_bind bind_to(const char *name, uint32_t dtype, void *data, uint32_t rank, const int64_t *dim)
{
    return (kiln_bind)KILN_BIND(
        name,
        {.size = sizeof(kiln_tensor), .dtype = dtype, .device = KILN_CPU, .rank = rank, .dim = dim, .data = data});
}

/* Plans p and runs it from "x" f32 [2,3] = 1..6 to "y" f32 [n]. */
static void run(kiln_program *p, float *y, uint32_t rank, const int64_t *dim)
{
    float x[6] = {1, 2, 3, 4, 5, 6};
    kiln_bind in = bind_to("x", KILN_F32, x, 2, KILN_DIMS(2, 3)), out = bind_to("y", KILN_F32, y, rank, dim);
    CHECK_MSG(ops()->plan(rig_ctx(), p, NULL) == KILN_OK, "%s", rig_message());
    CHECK_MSG(ops()->run(rig_ctx(), p, &in, 1, &out, 1) == KILN_OK, "%s", rig_message());
    ops()->program_free(p);
}

static kiln_t map2(kiln_program *p, const char *text, kiln_t a, kiln_t b)
{
    return ops()->map(p, text, (const kiln_t[]){a, b}, 2, NULL);
}

/* A class token before the rows, a slice and a permutation of weights, a constant on the left of a sum. */
static void test_weights_stand_wherever_an_operand_does(void)
{
    const kiln_ops *o = ops();
    static const float token[3] = {-1, -2, -3}, table[6] = {10, 20, 30, 40, 50, 60};
    static const uint32_t turned[2] = {1, 0};
    float y[15];
    kiln_program *p = fresh(KILN_F32);
    kiln_t x = o->input(p, "x", KILN_F32, 2, KILN_DIMS(2, 3)), c = o->constant(p, token, 2, KILN_DIMS(1, 3));
    kiln_t t = o->constant(p, table, 2, KILN_DIMS(3, 2));
    kiln_t row = o->permute(p, o->slice(p, t, 1, 1, 1), turned); /* [1,3]: 20 40 60 */
    kiln_t sum = o->add(p, o->reshape(p, o->constant(p, table, 1, KILN_DIMS(6)), 2, KILN_DIMS(2, 3)), x);
    o->output(p, "y", o->concat(p, (const kiln_t[]){c, x, row, o->slice(p, sum, 0, 1, 1)}, 4, 0));
    run(p, y, 2, KILN_DIMS(5, 3));
    static const float wanted[15] = {-1, -2, -3, 1, 2, 3, 4, 5, 6, 20, 40, 60, 44, 55, 66};
    CHECK(memcmp(y, wanted, sizeof wanted) == 0);
}

static void test_ids_and_times_are_computed(void)
{
    const kiln_ops *o = ops();
    static const float table[8] = {0, 1, 10, 11, 20, 21, 30, 31};
    static const int32_t shift[3] = {-1, 0, -3};
    float y[12], plain[4], times[4];
    kiln_program *p = fresh(KILN_F32);
    kiln_t x = o->input(p, "x", KILN_F32, 2, KILN_DIMS(2, 3));
    kiln_t ids = map2(p, "a - b > 3 ? 3 : a - b", o->cast(p, o->map(p, "a * .5", &x, 1, NULL), KILN_I32),
                      o->constant_i32(p, shift, 1, KILN_DIMS(3))); /* 1 1 4>3, 3 2 6>3 */
    o->output(p, "y", o->embedding(p, o->constant(p, table, 2, KILN_DIMS(4, 2)), ids));
    run(p, y, 3, KILN_DIMS(2, 3, 2));
    static const float wanted[12] = {10, 11, 10, 11, 30, 31, 30, 31, 20, 21, 30, 31};
    CHECK(memcmp(y, wanted, sizeof wanted) == 0);
    kiln_timestep_embedding e = {.size = sizeof e};
    for (int computed = 0; computed < 2; computed++) { /* in bf16 999 would be 1000 */
        p = fresh(KILN_BF16);
        x = o->input(p, "x", KILN_F32, 2, KILN_DIMS(2, 3));
        kiln_t t = o->map(p, computed ? "p * a / 3 - 333" : "p - 0 * a", (const kiln_t[]){o->slice(p, x, 0, 0, 1)}, 1,
                          &(kiln_map){.size = sizeof(kiln_map), .dtype = KILN_F32, .number = {computed ? 1332 : 999}});
        CHECK_EQ(o->dtype(p, t), KILN_F32);
        t = o->slice(p, t, 1, computed ? 2 : 0, 1);
        o->output(p, "y", o->timestep_embedding(p, o->reshape(p, t, 1, KILN_DIMS(1)), 4, &e));
        run(p, computed ? times : plain, 2, KILN_DIMS(1, 4));
    }
    CHECK(memcmp(times, plain, sizeof times) == 0);
}

/* 1 + 2^-9 lives in f32 and is 1 in bf16. */
static void test_a_region_keeps_its_precision(void)
{
    const kiln_ops *o = ops();
    static const float eye[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    float y[6];
    for (int wide = 0; wide < 2; wide++) {
        kiln_program *p = fresh(KILN_BF16);
        kiln_t x = o->input(p, "x", KILN_F32, 2, KILN_DIMS(2, 3));
        if (wide) o->precision_push(p, KILN_F32);
        kiln_t h = o->affine(p, o->act(p, o->affine(p, x, 0, 1), KILN_ACT_RELU), 1, 0x1p-9f);
        CHECK_EQ(o->dtype(p, h), wide ? KILN_F32 : KILN_BF16);
        h = o->affine(p, h, 1, -1);
        if (wide) o->precision_pop(p);
        h = o->linear(p, h, o->constant(p, eye, 2, KILN_DIMS(3, 3)), (kiln_t){0}); /* 2^-9 fits both */
        CHECK_EQ(o->dtype(p, h), KILN_BF16);
        o->output(p, "y", h);
        run(p, y, 2, KILN_DIMS(2, 3));
        for (int i = 0; i < 6; i++) CHECK(y[i] == (wide ? 0x1p-9f : 0));
    }
}

static void test_tensors_are_expanded(void)
{
    const kiln_ops *o = ops();
    float y[12];
    kiln_program *p = fresh(KILN_F32);
    kiln_t x = o->input(p, "x", KILN_F32, 2, KILN_DIMS(2, 3));
    o->output(p, "y", o->expand(p, o->slice(p, x, 0, 1, 1), 3, KILN_DIMS(2, 2, 3)));
    run(p, y, 3, KILN_DIMS(2, 2, 3));
    for (int i = 0; i < 12; i++) CHECK(y[i] == (float)(4 + i % 3));
}

static void mistake(const char *text, const char *says)
{
    kiln_program *p = fresh(KILN_F32);
    kiln_t x = ops()->input(p, "x", KILN_F32, 2, KILN_DIMS(2, 3)), i = ops()->input(p, "i", KILN_I32, 1, KILN_DIMS(3));
    int whole = strncmp(text, "whole ", 6) == 0;
    ops()->map(p, whole ? text + 6 : text, (const kiln_t[]){whole ? i : x, i}, 2, NULL);
    CHECK(ops()->plan(rig_ctx(), p, NULL) == KILN_ERR_INVALID);
    CHECK_MSG(strstr(rig_message(), says), "%s: %s", text, rig_message());
    ops()->program_free(p);
}

static void test_what_is_wrong_with_an_expression_is_a_sentence(void)
{
    mistake("a + ", "at character 5: it ends too early");
    mistake("a + c * b", "at character 5: there is no such operand");
    mistake("a * 2", "an operand that it is given never stands in it");
    mistake("sine(a) + b", "there is no function of that name");
    mistake("min(a) + b", "a comma and another argument");
    mistake("(a + b", "a closing bracket is missing");
    mistake("a b", "an operator is missing");
    mistake("a ? b", "a ? without its :");
    mistake("a + b * p", "p, q, r and s stand for kiln_map.number");
    mistake("a + b * 1e", "an exponent without digits");
    mistake("whole exp(a) + b", "exp of whole numbers");
    mistake("whole a + b * 0.5", "a number that is not whole");
    mistake("((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((a + b))))))))))", "too deeply");
}

static void wrong(int which, const char *says)
{
    const kiln_ops *o = ops();
    kiln_program *p = fresh(KILN_F32);
    kiln_t x = o->input(p, "x", KILN_F32, 2, KILN_DIMS(2, 3)), i = o->input(p, "i", KILN_I32, 1, KILN_DIMS(3));
    switch (which) {
    case 0: o->linear(p, i, o->constant(p, (const float[3]){0}, 2, KILN_DIMS(1, 3)), (kiln_t){0}); break;
    case 1: o->concat(p, (const kiln_t[]){o->reshape(p, x, 1, KILN_DIMS(6)), i}, 2, 0); break;
    case 2: o->precision_pop(p); break;
    case 3: o->precision_push(p, KILN_I32); break;
    case 4: o->linear(p, x, o->affine(p, x, 1, 0), (kiln_t){0}); break;
    default: o->expand(p, x, 2, KILN_DIMS(2, 4)); break;
    }
    CHECK(o->plan(rig_ctx(), p, NULL) != KILN_OK);
    CHECK_MSG(strstr(rig_message(), says), "%s", rig_message());
    o->program_free(p);
}

static void test_operands_of_the_wrong_kind_are_refused(void)
{
    wrong(0, "linear: operand 0 must not be i32; cast() it");
    wrong(1, "concat of i32 and f32; cast() one of them");
    wrong(2, "precision_pop without a precision_push");
    wrong(3, "a precision is f32, bf16 or f16");
    wrong(4, "operand 1 must be a weight or a constant");
    wrong(5, "x does not broadcast to that shape");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_weights_stand_wherever_an_operand_does),
        CASE(test_ids_and_times_are_computed),
        CASE(test_a_region_keeps_its_precision),
        CASE(test_tensors_are_expanded),
        CASE(test_what_is_wrong_with_an_expression_is_a_sentence),
        CASE(test_operands_of_the_wrong_kind_are_refused),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
