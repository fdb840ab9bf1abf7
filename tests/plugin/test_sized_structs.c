/* test_sized_structs.c - the structs of the vector ops say their size: made by another version they work, made without
 * it they are refused with a sentence. */
#include "harness.h"
#include "rig.h"

static const kiln_ops *ops(void) { return rig_host()->ability(KILN_OPS_ABILITY); }

static int is_refused(kiln_status status, const char *sentence)
{
    return CHECK_EQ(status, KILN_ERR_BUG) &&
           CHECK_MSG(strstr(rig_message(), sentence) != NULL, "\"%s\" does not say \"%s\"", rig_message(), sentence);
}

/* ---- reading and filling a struct of another version ---- */

typedef struct {
    uint32_t size;
    uint32_t terms;
    double old;
} older;
typedef struct {
    uint32_t size;
    uint32_t terms;
    double old, later;
} newer;

static void test_reading(void)
{
    const older a = {sizeof a, 3, 0.5};
    newer b = {1, 1, 1, 1}, c = {sizeof c, 4, 0.25, 9};
    older d = {0};
    CHECK(KILN_READ(&b, &a, old) && b.size == sizeof b && b.terms == 3 && b.old == 0.5 && b.later == 0);
    CHECK(KILN_READ(&d, &c, old) && d.size == sizeof d && d.terms == 4 && d.old == 0.25);
    c.size = offsetof(newer, old);
    CHECK(!KILN_READ(&b, &c, old));
    c.size = 0;
    CHECK(!KILN_READ(&b, &c, old));
    c.size = 1u << 30;
    CHECK(!KILN_READ(&b, &c, old));
    CHECK(!KILN_READ(&b, (const newer *)NULL, old));
}

static void test_filling(void)
{
    struct {
        older out;
        double behind;
    } a = {{sizeof a.out, 0, 0}, 7};
    const newer full = {0, 3, 0.5, 9};
    CHECK(KILN_WRITE(&a.out, (const older *)(const void *)&full, old) && a.out.size == sizeof a.out);
    CHECK(a.out.terms == 3 && a.out.old == 0.5 && a.behind == 7);
    const older less = {0, 4, 0.25};
    newer b = {sizeof b, 1, 1, 1}; /* the engine knows `older` alone */
    CHECK(kiln_write(&b, &less, sizeof less, sizeof less) && b.size == sizeof b && b.terms == 4 && b.later == 0);
    a.out.size = 0;
    CHECK(!KILN_WRITE(&a.out, &less, old) && a.out.terms == 3);
}

/* ---- the structs of the vector ops ---- */

static void test_without_a_size(void)
{
    const kiln_ops *o = ops();
    kiln_ctx *c = rig_ctx();
    float x[4] = {1, 2, 3, 4}, y[4] = {0};
    const float *const list[] = {x};
    const double one = 1;
    double sum = 5;
    is_refused(o->add_difference(c, &(kiln_difference){.n = 4, .x = x, .a = x, .b = x}, y),
               "add_difference: a kiln_difference that does not say its size; set .size = sizeof(kiln_difference)");
    c = rig_ctx();
    is_refused(o->dot(c, &(kiln_dot){.n = 4, .terms = 1, .a = &one, .x = list}, &sum), "dot: a kiln_dot that");
    CHECK(sum == 0);
    c = rig_ctx();
    kiln_blend b = {.pictures = 1, .cells = 4, .channels = 1, .masks = 1, .a = x, .b = x, .mask = x};
    is_refused(o->blend(c, &b, y), "blend: a kiln_blend that");
    c = rig_ctx();
    kiln_area a = {.pictures = 1, .height = 2, .width = 2, .channels = 1, .h = 1, .w = 1};
    is_refused(o->crop(c, &a, x, y), "crop: a kiln_area that");
    c = rig_ctx();
    a.size = sizeof a;
    is_refused(o->accumulate(c, &a, &(kiln_part){.data = x}, y, y), "accumulate: a kiln_part that");
    c = rig_ctx();
    is_refused(o->crop(c, NULL, x, y), "crop: a kiln_area that");
}

static void test_of_a_newer_version(void)
{
    const kiln_ops *o = ops();
    kiln_ctx *c = rig_ctx();
    const uint32_t device = o->device(c);
    const float numbers[4] = {1, 2, 3, 4};
    const double two = 2;
    double sum = 0;
    float *x = rig_host()->scratch(c, sizeof numbers, device);
    REQUIRE(x && o->upload(c, x, numbers, 4) == KILN_OK);
    struct {
        kiln_dot known;
        uint64_t later[3];
    } d = {{.size = sizeof d, .terms = 1, .n = 4, .a = &two, .x = (const float *const[]){x}}, {7, 7, 7}};
    CHECK_EQ(o->dot(c, &d.known, &sum), KILN_OK);
    CHECK(sum == 20);
}

/* A program's info, into structs that are longer, as long, and without a size. */
static void test_the_info_of_a_program(void)
{
    const kiln_ops *o = ops();
    kiln_program *p = o->program_new(rig_ctx(), NULL);
    struct {
        kiln_program_info known;
        uint64_t later;
    } longer = {{.size = sizeof longer}, 7};
    kiln_program_info none = {0};
    REQUIRE(p);
    kiln_t x = o->input(p, "x", KILN_F32, 2, KILN_DIMS(3, 5));
    o->output(p, "y", o->add(p, x, x));
    REQUIRE(CHECK_EQ(o->plan(rig_ctx(), p, &longer.known), KILN_OK));
    CHECK(longer.known.size == sizeof longer && longer.known.n_recorded > 0 && longer.later == 0);
    CHECK_EQ(o->info(p, &none), KILN_ERR_INVALID);
    o->program_free(p);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_reading), CASE(test_filling), CASE(test_without_a_size),
                                      CASE(test_of_a_newer_version), CASE(test_the_info_of_a_program)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
