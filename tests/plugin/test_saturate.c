/* test_saturate.c - "kiln.ops/1" saturate(): what is recorded under it stores numbers beyond f16's range as the ends of
 * it, and what is recorded before and after as infinities; NaN stays.
 */
#include "golden_kit.h"

#include <math.h>

enum { N = 37 };

static void numbers(const int64_t *dim, piece *c, kiln_t *x)
{
    array a = {.data = malloc(N * sizeof(float)), .rank = 1, .dim = {dim[0]}, .n = N};
    for (int i = 0; i < N; i++) a.data[i] = (float)(i - N / 2);
    a.data[3] = NAN;
    *x = piece_input(c, a, KILN_F32);
}

/* 8192 x in f16, with `on` or without, as f32. */
static kiln_t in_f16(piece *c, kiln_t x, uint32_t on)
{
    kiln_map half = {.size = sizeof half, .dtype = KILN_F16};
    c->ops->saturate(c->p, on);
    kiln_t made = c->ops->map(c->p, "a * 8192", &x, 1, &half);
    c->ops->saturate(c->p, 0);
    return c->ops->cast(c->p, made, KILN_F32);
}

static void test_what_is_recorded_under_it_saturates(void)
{
    const int64_t dim[] = {N};
    float got[3][N];
    static const char *const names[] = {"before", "under", "after"};
    kiln_bind bind[3];
    kiln_t x;
    piece c = piece_new(KILN_F32);
    numbers(dim, &c, &x);
    for (uint32_t i = 0; i < 3; i++) {
        c.ops->output(c.p, names[i], in_f16(&c, x, i == 1));
        bind[i] = (kiln_bind)KILN_BIND(names[i], window_of(got[i], KILN_F32, 1, dim));
    }
    kiln_status status = c.ops->plan(c.ctx, c.p, NULL);
    if (status == KILN_OK) status = c.ops->run(c.ctx, c.p, c.in, c.n_in, bind, 3);
    CHECK_MSG(status == KILN_OK, "%s", rig_message());
    for (int i = 0; i < N && status == KILN_OK; i++) {
        float v = 8192 * (float)(i - N / 2);
        int beyond = fabsf(v) > 65504;
        CHECK(i == 3 ? isnan(got[1][i]) : beyond ? got[1][i] == copysignf(65504, v) : got[1][i] == v); /* NOLINT */
        for (int k = 0; k < 3; k += 2) CHECK(i == 3 ? isnan(got[k][i]) : beyond ? isinf(got[k][i]) : got[k][i] == v);
    }
    for (size_t i = 0; i < c.n_owned; i++) free(c.owned[i]);
    c.ops->program_free(c.p);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_what_is_recorded_under_it_saturates)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
