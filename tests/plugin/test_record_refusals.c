/* test_record_refusals.c - what a recorder gives an op wrongly, a line a case: options that do not say their size,
 * operands that are not there, shapes that cannot be. The first mistake is what plan() says.
 */
#include "harness.h"
#include "rig.h"

#include <stdint.h>
#include <string.h>

static const kiln_ops *ops(void) { return rig_host()->ability(KILN_OPS_ABILITY); }

/* O: the table, P: the program, X: f32 [1,4,8], I: i32 [2], NIL: no operand. */
#define NIL ((kiln_t){0})
#define REFUSED(C)                                                                                                     \
    C("attention without its options (heads)", O->attention(P, X, X, X, &(kiln_attention){0}))                         \
    C("attention", O->attention(P, NIL, X, X, &(kiln_attention){.size = sizeof(kiln_attention), .heads = 2}))          \
    C("attention",                                                                                                     \
      O->attention(P, I, X, X, &(kiln_attention){.size = sizeof(kiln_attention), .heads = 2, .lse = &more}))           \
    C("group_norm_stats: operand 0 is missing", O->group_norm_stats(P, NIL, 2))                                        \
    C("group_norm_stats takes x [N,H,W,C]", O->group_norm_stats(P, X, 2))                                              \
    C("group_norm_apply: its statistics are missing", O->group_norm_apply(P, X, NIL, 1e-5f, NIL, NIL))                 \
    C("group_norm_apply takes x [N,h,W,C] and stats", O->group_norm_apply(P, X, X, 1e-5f, NIL, NIL))                   \
    C("norm without its options: a kiln_norm that", O->normalize(P, X, &(kiln_norm){0}))                               \
    C("norm without its options: a kiln_norm that", O->normalize(P, X, NULL))                                          \
    C("norm", O->normalize(P, NIL, &(kiln_norm){.size = sizeof(kiln_norm)}))                                           \
    C("norm", O->normalize(P, scalar, &(kiln_norm){.size = sizeof(kiln_norm)}))                                        \
    C("rope without its options: a kiln_rope that", O->rope(P, X, &(kiln_rope){0}))                                    \
    C("rope", O->rope(P, NIL, &(kiln_rope){.size = sizeof(kiln_rope), .heads = 2}))                                    \
    C("rope", O->rope(P, I, &(kiln_rope){.size = sizeof(kiln_rope), .heads = 2}))                                      \
    C("rope", O->rope(P, X, &(kiln_rope){.size = sizeof(kiln_rope)}))                                                  \
    C("softmax without its options: a kiln_softmax that", O->softmax(P, X, &(kiln_softmax){0}))                        \
    C("softmax", O->softmax(P, NIL, NULL))                                                                             \
    C("matmul without its options: a kiln_matmul that", O->matmul(P, X, X, &(kiln_matmul){.size = 1u << 30}))          \
    C("matmul", O->matmul(P, X, X, NULL))                                                                              \
    C("conv without its options: a kiln_conv that", O->conv(P, X, X, NIL, &(kiln_conv){0}))                            \
    C("interpolate without its options: a kiln_interpolate that", O->interpolate(P, X, &(kiln_interpolate){0}))        \
    C("pool without its options: a kiln_pool that", O->pool(P, X, &(kiln_pool){0}))                                    \
    C("pad without its sizes", O->pad(P, X, NULL, KILN_DIMS(0, 0, 0), 0, 0))                                           \
    C("pad without its sizes", O->pad(P, X, KILN_DIMS(0, 0, 0), NULL, 0, 0))                                           \
    C("pad", O->pad(P, NIL, KILN_DIMS(0), KILN_DIMS(0), 0, 0))                                                         \
    C("grid_sample without its options: a kiln_grid_sample that", O->grid_sample(P, X, X, &(kiln_grid_sample){0}))     \
    C("state_write_part without its options: a kiln_state_write that",                                                 \
      O->state_write_part(P, X, X, &(kiln_state_write){0}))                                                            \
    C("cast to no type", O->cast(P, X, 0))                                                                             \
    C("operand", O->cast(P, NIL, KILN_F32))                                                                            \
    C("expand: the operand is missing", O->expand(P, NIL, 1, KILN_DIMS(2)))                                            \
    C("expand to an impossible shape", O->expand(P, X, 3, NULL))                                                       \
    C("expand to an impossible shape", O->expand(P, X, 0, KILN_DIMS(2)))                                               \
    C("expand to an impossible shape", O->expand(P, X, 99, KILN_DIMS(2)))                                              \
    C("expand to an impossible shape", O->expand(P, X, 3, KILN_DIMS(0, 4, 8)))                                         \
    C("expand to an impossible shape", O->expand(P, X, 2, KILN_DIMS(4, 8)))                                            \
    C("arange from 5 to 5 by 1", O->arange(P, 5, 5, 1))                                                                \
    C("arange from 5 to 3 by 1", O->arange(P, 5, 3, 1))                                                                \
    C("arange from 0 to 9 by 0", O->arange(P, 0, 9, 0))                                                                \
    C("arange from 0 to 9 by -1", O->arange(P, 0, 9, -1))                                                              \
    C("arange from -3000000000 to -2999999999 by 1", O->arange(P, -3000000000, -2999999999, 1))                        \
    C("arange from 0 to 3000000000 by 2999999999", O->arange(P, 0, 3000000000, 2999999999))                            \
    C("arange from 0 to 1000000000 by 1", O->arange(P, 0, 1000000000, 1))                                              \
    C("operand", O->topk(P, NIL, 0, 0, &more))

static void check_refused(kiln_program *p, kiln_t made, const char *says)
{
    const char *message = "";
    CHECK_MSG(made.id == 0, "%s: something was recorded", says);
    CHECK_MSG(ops()->error(p, &message) != KILN_OK && strstr(message, says), "'%s', wanted '%s'", message, says);
    CHECK(ops()->plan(rig_ctx(), p, NULL) != KILN_OK && strstr(rig_message(), says) != NULL);
    ops()->program_free(p);
}

static void test_what_is_refused(void)
{
    const kiln_ops *O = ops();
    kiln_t more, scalar, X, I;
    kiln_program *P;
#define C(says, ...)                                                                                                   \
    P = O->program_new(rig_ctx(), NULL);                                                                               \
    X = O->input(P, "x", KILN_F32, 3, KILN_DIMS(1, 4, 8)), I = O->input(P, "i", KILN_I32, 1, KILN_DIMS(2));            \
    more = (kiln_t){7}, scalar = O->input(P, "s", KILN_F32, 0, NULL);                                                  \
    check_refused(P, (__VA_ARGS__), says);
    REFUSED(C)
#undef C
    (void)more;
}

/* What says nothing new is what it was. */
static void test_what_changes_nothing(void)
{
    const kiln_ops *o = ops();
    kiln_program *p = o->program_new(rig_ctx(), NULL);
    kiln_t x = o->input(p, "x", KILN_F32, 2, KILN_DIMS(2, 3)), c = o->constant(p, (float[]){1, 2, 3}, 1, KILN_DIMS(3));
    CHECK_EQ(o->cast(p, x, KILN_F32).id, x.id);
    CHECK_EQ(o->expand(p, x, 2, KILN_DIMS(2, 3)).id, x.id);
    CHECK(o->cast(p, c, KILN_F32).id != c.id); /* a constant becomes a tensor of the program's */
    CHECK(o->expand(p, c, 1, KILN_DIMS(3)).id != c.id);
    CHECK(o->expand(p, x, 3, KILN_DIMS(4, 2, 3)).id != x.id);
    const char *message;
    CHECK_EQ(o->error(p, &message), KILN_OK);
    o->program_free(p);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_what_is_refused), CASE(test_what_changes_nothing)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
