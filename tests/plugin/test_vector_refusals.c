/* test_vector_refusals.c - vector operations of which one argument is missing or lies outside: each by itself is
 * refused with the operation's name, and nothing is written.
 */
#include "harness.h"
#include "rig.h"

static float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8], total[8];
static const double one[2] = {1, 1};
static const float *const list[] = {x, x};

static const kiln_ops *ops(void) { return rig_host()->ability(KILN_OPS_ABILITY); }

static void refused(kiln_status status, const char *name, int which)
{
    char says[80];
    snprintf(says, sizeof says, "%s: a vector is missing, or an area lies outside its picture", name);
    CHECK_MSG(status == KILN_ERR_INVALID && strcmp(rig_message(), says) == 0, "%s %d: status %d, '%s'", name, which,
              (int)status, rig_message());
    for (int i = 0; i < 8; i++) CHECK(out[i] == 0 && total[i] == 0);
}

static void test_vectors_that_are_missing(void)
{
    const kiln_ops *o = ops();
    for (int i = 0; i < 4; i++) {
        const kiln_difference d = {
            .size = sizeof d, .n = 8, .x = i == 0 ? NULL : x, .a = i == 1 ? NULL : x, .b = i == 2 ? NULL : x};
        refused(o->add_difference(rig_ctx(), &d, i == 3 ? NULL : out), "add_difference", i);
        const kiln_blend b = {.size = sizeof b,
                              .pictures = 1,
                              .cells = 8,
                              .channels = 1,
                              .masks = 1,
                              .a = i == 0 ? NULL : x,
                              .b = i == 1 ? NULL : x,
                              .mask = i == 2 ? NULL : x};
        refused(o->blend(rig_ctx(), &b, i == 3 ? NULL : out), "blend", i);
    }
    const kiln_blend maskless = {
        .size = sizeof maskless, .pictures = 1, .cells = 8, .channels = 1, .a = x, .b = x, .mask = x};
    refused(o->blend(rig_ctx(), &maskless, out), "blend", 4);
    for (int i = 0; i < 3; i++) {
        double sum = 5;
        const kiln_dot d = {
            .size = sizeof d, .n = 8, .terms = i == 0 ? 0 : 2, .a = i == 1 ? NULL : one, .x = i == 2 ? NULL : list};
        refused(o->dot(rig_ctx(), &d, &sum), "dot", i);
        CHECK(sum == 0);
    }
    const kiln_area area = {sizeof area, 1, 2, 4, 1, 0, 0, 2, 2};
    refused(o->crop(rig_ctx(), &area, NULL, out), "crop", 0);
    refused(o->crop(rig_ctx(), &area, x, NULL), "crop", 1);
    for (int i = 0; i < 4; i++) {
        const kiln_part part = {.size = sizeof part,
                                .data = i == 0 ? NULL : x,
                                .weight = i == 3 ? x : NULL}; /* 3: a weight for no picture */
        refused(o->accumulate(rig_ctx(), &area, &part, i == 1 ? NULL : out, i == 2 ? NULL : total), "accumulate", i);
    }
    refused(o->divide(rig_ctx(), NULL, x, 8, 1), "divide", 0);
    refused(o->divide(rig_ctx(), out, NULL, 8, 1), "divide", 1);
}

static void test_too_many_terms(void)
{
    double sum = 5;
    const kiln_dot d = {.size = sizeof d, .n = 8, .terms = KILN_MAX_TERMS + 1, .a = one, .x = list};
    char says[80];
    snprintf(says, sizeof says, "a sum of %d terms; up to %d are possible", KILN_MAX_TERMS + 1, KILN_MAX_TERMS);
    CHECK_EQ(ops()->dot(rig_ctx(), &d, &sum), KILN_ERR_INVALID);
    CHECK_STR(rig_message(), says);
    CHECK_EQ(ops()->combine(rig_ctx(), out, 8, KILN_MAX_TERMS + 1, one, list), KILN_ERR_INVALID);
    CHECK_STR(rig_message(), says);
}

/* Each number of an area below 0, and each side one too far; at the edge is inside. */
static void test_areas_that_lie_outside(void)
{
    const kiln_ops *o = ops();
    const kiln_area whole = {
        .size = sizeof whole, .pictures = 1, .height = 2, .width = 4, .channels = 1, .y = 1, .x = 1, .h = 1, .w = 3};
    float three[3] = {0};
    if (o->device(rig_ctx()) == KILN_CPU) {
        CHECK_EQ(o->crop(rig_ctx(), &whole, x, three), KILN_OK);
        CHECK(three[0] == 6 && three[1] == 7 && three[2] == 8);
    }
    for (int i = 0; i < 12; i++) {
        kiln_area a = whole;
        if (i == 0) a.pictures = -1;
        if (i == 1) a.channels = -1;
        if (i == 2) a.height = -1;
        if (i == 3) a.width = -1;
        if (i == 4) a.y = -1;
        if (i == 5) a.x = -1;
        if (i == 6) a.h = -1;
        if (i == 7) a.w = -1;
        if (i == 8) a.y = 2;
        if (i == 9) a.x = 2;
        if (i == 10) a.h = 2;
        if (i == 11) a.w = 4;
        refused(o->crop(rig_ctx(), &a, x, out), "crop", i);
        refused(o->accumulate(rig_ctx(), &a, &(kiln_part){.size = sizeof(kiln_part), .data = x}, out, total),
                "accumulate", i);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_vectors_that_are_missing), CASE(test_too_many_terms),
                                      CASE(test_areas_that_lie_outside)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
