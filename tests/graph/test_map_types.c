/* test_map_types.c - what type a map's result has: whole numbers of whole numbers, the program's precision of anything
 * else, or the one that is asked for.
 */
#include "graph_kit.h"

static uint32_t type_of_map(uint32_t precision, const char *expression, uint32_t a, uint32_t b, uint32_t asked)
{
    recording r;
    error e = {0};
    CHECK_EQ(recording_init(&r, "p", precision, &e), KILN_OK);
    const kiln_t x[2] = {record_input(&r, "a", a, 1, DIMS(4)), b ? record_input(&r, "b", b, 1, DIMS(4)) : (kiln_t){0}};
    const kiln_map m = {.size = sizeof m, .dtype = asked};
    kiln_t y = record_map(&r, expression, x, b ? 2 : 1, asked ? &m : NULL, NULL);
    uint32_t got = 0;
    if (CHECK_MSG(r.failure.status == KILN_OK && y.id, "%s: %s", expression, r.failure.message))
        got = r.op[y.id - 1].dtype;
    recording_free(&r);
    return got;
}

static void test_types(void)
{
    static const uint32_t precisions[] = {KILN_F32, KILN_BF16};
    for (int i = 0; i < 2; i++) {
        const uint32_t p = precisions[i];
        CHECK_EQ(type_of_map(p, "a + 1", KILN_I32, 0, 0), KILN_I32);
        CHECK_EQ(type_of_map(p, "a + 1", KILN_F32, 0, 0), p);
        CHECK_EQ(type_of_map(p, "a + b", KILN_I32, KILN_I32, 0), KILN_I32);
        CHECK_EQ(type_of_map(p, "a + b", KILN_I32, KILN_F32, 0), p);
        CHECK_EQ(type_of_map(p, "a + b", KILN_F32, KILN_I32, 0), p);
        CHECK_EQ(type_of_map(p, "a + 1", KILN_I32, 0, KILN_F32), KILN_F32);
        CHECK_EQ(type_of_map(p, "a + b", KILN_F32, KILN_F32, KILN_I32), KILN_I32);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_types)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
