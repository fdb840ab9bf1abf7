/* test_scalar_outputs.c - programs whose inputs and outputs are single numbers without a dimension, delivered as each
 * type that an output can have, on the reference and on the processor.
 */
#include "backend/runtime.h"
#include "harness.h"

#include "tensor/dtype.h"

static kiln_bind scalar(const char *name, uint32_t dtype, void *data)
{
    return (kiln_bind)KILN_BIND(
        name, {.size = sizeof(kiln_tensor), .dtype = dtype, .device = KILN_CPU, .rank = 0, .data = data});
}

/* y = 2 x + 0.5 */
static void check_scalar(const backend *on, uint32_t dtype, double want)
{
    error e = {0};
    runtime *rt = runtime_new(&(runtime_setting){.backend = on, .threads = 1, .precision = KILN_F32}, &e);
    REQUIRE(rt);
    kiln_program *p = program_new(rt, "scalar", 0, &e);
    REQUIRE(p);
    recording *r = program_recording(p);
    kiln_t x = record_input(r, "x", KILN_F32, 0, NULL);
    record_output(r, "y", record_op(r, OP_AFFINE, &(op_attr){.affine = {2, 0.5f}}, &x, 1));
    float given = 1.25f, got = -1;
    union {
        float f;
        uint16_t half;
    } y = {.f = -1};
    kiln_bind in = scalar("x", KILN_F32, &given), out = scalar("y", dtype, &y);
    CHECK_MSG(program_plan(p, &e) == KILN_OK && program_run(p, &in, 1, &out, 1, NULL, NULL, &e) == KILN_OK, "%s",
              e.message);
    CHECK_EQ(dtype_convert(&got, KILN_F32, &y, dtype, 1), KILN_OK);
    CHECK_MSG(got == (float)want, "%s: %g, wanted %g", dtype_name(dtype), (double)got, want);
    program_free(p);
    runtime_free(rt);
}

static void test_a_number_arrives(void)
{
    const backend *const on[] = {&backend_reference, &backend_cpu};
    static const uint32_t type[] = {KILN_F32, KILN_F16, KILN_BF16};
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 3; k++) check_scalar(on[i], type[k], 3);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_a_number_arrives)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
