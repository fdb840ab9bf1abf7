/* test_nag_sides.c - NAGuidance asks which pictures of a batch are the positive's and which the negative's: where a
 * batch has one side alone, attentions are left as they are, whatever lies behind the batch's last member.
 */
#include "harness.h"

#include "attention_guidance.h"

#include <stdlib.h>

static uint32_t shape_of(const kiln_program *p, kiln_t x, int64_t *dim, uint32_t capacity)
{
    static const int64_t is[] = {2, 16, 8};
    (void)p, (void)x;
    for (uint32_t i = 0; i < 3 && i < capacity; i++) dim[i] = is[i];
    return 3;
}

static int used; /* ops that were recorded */

static kiln_t slice(kiln_program *p, kiln_t x, uint32_t axis, int64_t start, int64_t length)
{
    (void)p, (void)x, (void)axis, (void)start, (void)length;
    used++;
    exit(1); /* there is nothing to slice */
}

static void left_alone(const kiln_batch_member *member, size_t n, const char *what)
{
    const kiln_ops ops = {.size = sizeof ops, .shape = shape_of, .slice = slice};
    const kiln_denoise_inputs in = {.size = sizeof in, .member = member, .n_member = n};
    const kiln_recording r = {.size = sizeof r, .ops = &ops, .in = &in};
    const kiln_place_info place = {.size = sizeof place, .place = "input.1.t0.attn1.to_out"};
    model_patch *p = nag_new(5, 0.25, 2.5);
    if (!CHECK(p != NULL)) return;
    CHECK_EQ(p->n_hook, 1);
    CHECK_MSG(p->hook[0].at(&p->hook[0], &r, (kiln_t){7}, &place).id == 7, "%s", what);
    free(p);
}

static void test_a_batch_of_one_side_is_left_alone(void)
{
    const kiln_batch_member positive = {sizeof positive, 0, 2}, negative = {sizeof negative, 1, 2};
    left_alone((const kiln_batch_member[]){positive, negative}, 1, "the positive alone");
    left_alone((const kiln_batch_member[]){negative, positive}, 1, "the negative alone");
    left_alone((const kiln_batch_member[]){positive, positive, negative}, 2, "two positives");
    CHECK_EQ(used, 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_a_batch_of_one_side_is_left_alone)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
