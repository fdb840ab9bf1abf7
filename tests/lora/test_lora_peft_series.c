/* test_lora_peft_series.c - how many powers of Q the rotation of an OFT has for each num_cayley_neumann_terms, as
 * peft's OFTRotationModule._cayley_batch() counts them: one term is no rotation at all, two have no last power of half
 * weight.
 */
#include "harness.h"

#include "lora_change.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 3, ALL = SIDE * SIDE, TERMS_MAX = 7 };

static void one_after_another(const kiln_weight_call *c, size_t n, void (*fn)(void *, size_t), void *arg)
{
    (void)c;
    for (size_t i = 0; i < n; i++) fn(arg, i);
}

static const float below[] = {0.25f, -0.5f, 0.125f}; /* of Q, above the diagonal */
static const double q[ALL] = {0, 0.25, -0.5, -0.25, 0, 0.125, 0.5, -0.125, 0};

/* What a weight is turned by, for so many terms. */
static void rotation(int terms, double strength, float *to)
{
    const int64_t dim[] = {1, 3};
    const double option[] = {[PEFT_SIDE] = SIDE, [PEFT_TERMS] = terms, [PEFT_BOFT] = 0};
    kiln_weight_factor factor[] = {{.data = below, .rank = 2, .dim = dim}, {0}};
    const kiln_weight_call c = {.size = sizeof c,
                                .rank = 2,
                                .dim = (const int64_t[]){SIDE, SIDE},
                                .rows = SIDE,
                                .columns = SIDE,
                                .strength = strength,
                                .scale = 1,
                                .option = option,
                                .factor = factor,
                                .each = one_after_another};
    float *room = malloc(peft_rotation_change.prepared(&c) * sizeof *room);
    if (!CHECK(room != NULL)) exit(1);
    peft_rotation_change.prepare(&c, room);
    memcpy(to, room, ALL * sizeof *to);
    free(room);
}

/* The factor that peft gives Q^m. */
static double factor_of(int m, int terms)
{
    static const double factor[TERMS_MAX + 1][TERMS_MAX] = {[1] = {1},
                                                            [2] = {1, 2},
                                                            [3] = {1, 2, 2, 1},
                                                            [4] = {1, 2, 2, 1},
                                                            [5] = {1, 2, 2, 2, 1},
                                                            [6] = {1, 2, 2, 2, 2, 1},
                                                            [7] = {1, 2, 2, 2, 2, 2, 1}};
    return factor[terms][m];
}

static void test_the_powers_of_so_many_terms(void)
{
    for (int terms = 1; terms <= TERMS_MAX; terms++)
        for (int half = 0; half < 2; half++) {
            double sum[ALL] = {0}, power[ALL] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, next[ALL];
            float got[ALL];
            for (int m = 0; m < TERMS_MAX; m++) {
                for (int i = 0; i < ALL; i++) sum[i] += factor_of(m, terms) * power[i];
                for (int i = 0; i < ALL; i++) {
                    next[i] = 0;
                    for (int k = 0; k < SIDE; k++) next[i] += power[i / SIDE * SIDE + k] * q[k * SIDE + i % SIDE];
                }
                memcpy(power, next, sizeof power);
            }
            double s = half ? 0.5 : 1;
            rotation(terms, s, got);
            for (int i = 0; i < ALL; i++) { /* it is applied from the right, transposed */
                double want = (1 - s) * (i % (SIDE + 1) == 0) + s * sum[i % SIDE * SIDE + i / SIDE];
                CHECK_MSG(fabs(got[i] - want) < 1e-6, "%d terms at %.1f: number %d is %.7f, wanted %.7f", terms, s, i,
                          (double)got[i], want);
            }
        }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_the_powers_of_so_many_terms)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
