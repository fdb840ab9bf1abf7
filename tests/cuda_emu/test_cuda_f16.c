/* test_cuda_f16.c - programs in f16 on the CUDA backend over the emulation, whose chip is an sm_75 here: whole random
 * programs, weights that f16 cannot hold, results that it cannot hold. The ops by themselves are in test_cuda_ops.c.
 */
#include "cu_emu.h"
#include "fake_cuda.h"

#include "../memory/fake_device.h"
#include "backend/cuda_load.h"
#include "backend/runtime.h"
#include "graph_kit.h"

#include <math.h>

extern const cuda_library kiln_cuda_library;

static kiln_bind bind_to(const char *name, void *data, uint32_t dtype, const shape *s)
{
    return (kiln_bind)KILN_BIND(name, {.size = sizeof(kiln_tensor),
                                       .dtype = dtype,
                                       .device = KILN_CPU,
                                       .rank = s->rank,
                                       .dim = s->dim,
                                       .data = data});
}

static runtime *open_runtime(runtime_setting s)
{
    error e = {0};
    s.threads = 2;
    if (!s.backend) {
        fake_cuda_chip(7, 5);
        fake_device_open(&(fake_setting){.bytes = 64 << 20, .seed = 5, .graphs = 1, .fail_at = -1});
        s.backend = kiln_cuda_library.backend;
    }
    runtime *rt = runtime_new(&s, &e);
    CHECK_MSG(rt != NULL, "%s", e.message);
    return rt;
}

/* Of the device: nothing it forbids was done. */
static void close_runtime(runtime *rt)
{
    runtime_free(rt);
    fake_report r = fake_device_close();
    cu_emu_forget();
    CHECK_EQ(r.faults, 0);
    CHECK_EQ(cu_emu_faults(), 0);
}

/* ---- whole programs ---- */

enum { PROGRAMS = 12, ROOM = 2 * 4 * 4 * 32 };

/* Both outputs, one behind the other; how many numbers. */
static size_t compute(runtime *rt, kiln_weights *set, uint64_t seed, float *out)
{
    error e = {0};
    float x[2 * 4 * 4 * 8], y[2 * 4 * 4 * 16];
    dice d = {9};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = dice_real(&d);
    for (size_t i = 0; i < sizeof y / sizeof *y; i++) y[i] = dice_real(&d);
    kiln_program *p = program_new(rt, "p", 0, &e);
    recording *r = program_recording(p);
    record_random_program(r, set, seed, 5 + (uint32_t)seed % 20);
    CHECK_MSG(program_plan(p, &e) == KILN_OK, "%s", e.message);
    const shape *a = &r->op[r->output[0].id - 1].shape, *b = &r->op[r->output[1].id - 1].shape,
                in[] = {{4, {2, 4, 4, 8}}, {4, {2, 4, 4, 16}}};
    size_t n = (size_t)shape_count(a);
    kiln_status status = program_run(
        p, (kiln_bind[]){bind_to("x", x, KILN_F32, &in[0]), bind_to("y", y, KILN_F32, &in[1])}, 2,
        (kiln_bind[]){bind_to("a", out, KILN_F32, a), bind_to("b", out + n, KILN_F32, b)}, 2, NULL, NULL, &e);
    CHECK_MSG(status == KILN_OK, "seed %d: %s", (int)seed, e.message);
    n += (size_t)shape_count(b);
    program_free(p);
    return n;
}

/* Measured: 6.6e-4 at worst, 4.9e-4 on average; four times that is allowed. */
static void test_random_programs_are_near_f32(void)
{
    static float wanted[PROGRAMS][2 * ROOM], got[2 * ROOM];
    kiln_weights *set = made_weights();
    REQUIRE(set);
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_reference, .precision = KILN_F32});
    for (uint64_t i = 0; i < PROGRAMS; i++) compute(rt, set, i + 1, wanted[i]);
    runtime_free(rt);
    double all = 0;
    rt = open_runtime((runtime_setting){0}); /* nobody names a precision */
    CHECK_EQ(runtime_precision(rt), KILN_F16);
    for (uint64_t i = 0; i < PROGRAMS; i++) {
        double difference = 0, norm = 0;
        size_t n = compute(rt, set, i + 1, got);
        for (size_t k = 0; k < n; k++)
            difference += pow((double)got[k] - (double)wanted[i][k], 2), norm += pow((double)wanted[i][k], 2);
        double own = sqrt(difference / norm);
        CHECK_MSG(own <= 2.7e-3, "seed %d: relative error %.3g", (int)i + 1, own);
        all += own / PROGRAMS;
    }
    printf("  relative error %.3g on average\n", all);
    CHECK(all <= 2e-3);
    CHECK(cu_emu_count(CU_EMU_MMA8_F16) > 0 && cu_emu_count(CU_EMU_MMA16_F16) == 0);
    close_runtime(rt);
    weights_unref(set);
}

/* ---- weights that do not fit ---- */

typedef enum { LINEAR, GATED, CONVOLUTION, POINT, BIAS, TABLE, GAMMA } place;
enum { IN = 40, OUT = 24, IDS = 3 };

/* What the weight under test is to the program, its shape; the others are small. */
static made_tensor shaped(place at)
{
    switch (at) {
    case CONVOLUTION: return (made_tensor){.rank = 4, .dim = {OUT, IN, 3, 3}};
    case POINT: return (made_tensor){.rank = 4, .dim = {OUT, IN, 1, 1}};
    case BIAS: return (made_tensor){.rank = 1, .dim = {OUT}};
    case GAMMA: return (made_tensor){.rank = 1, .dim = {IN}};
    case TABLE: return (made_tensor){.rank = 2, .dim = {OUT, IN}};
    default: return (made_tensor){.rank = 2, .dim = {OUT, IN}};
    }
}

/* A file with the weight "w", whose element `which` is `value`, and a matrix "m". */
static kiln_weights *weights_with(place at, uint32_t type, size_t which, float value)
{
    char path[512];
    error e = {0};
    made_tensor t[] = {{.name = "m", .dtype = KILN_F16, .rank = 2, .dim = {OUT, IN}, .spread = 1}, shaped(at)};
    uint32_t element = 0;
    size_t n = made_count(&t[1]);
    t[1].dtype = type, t[1].spread = 1, memcpy(t[1].name, "w", 2);
    snprintf(path, sizeof path, "%s/large.safetensors", test_folder());
    dtype_convert(&element, type, &value, KILN_F32, 1);
    if (!CHECK(made_write(path, t, 2, 3))) return NULL;
    FILE *f = fopen(path, "r+b");
    int put = f && fseek(f, -(long)((n - which % n) * dtype_size(type)), SEEK_END) == 0 &&
              fwrite(&element, dtype_size(type), 1, f) == 1;
    if (!CHECK((!f || fclose(f) == 0) && put)) return NULL;
    kiln_weights *w = weights_open(path, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

static kiln_t put_op(recorder *c, place at, kiln_t x, kiln_t ids)
{
    made_tensor t = shaped(at);
    kiln_t w = record_weight(c->r, c->w, "w", t.rank, t.dim, 0);
    int around = at == CONVOLUTION;
    op_attr conv = {
        .conv2d = {.stride = {1, 1}, .pad = {around, around, around, around}, .dilation = {1, 1}, .groups = 1}};
    switch (at) {
    case CONVOLUTION:
    case POINT: return record_op(c->r, OP_CONV2D, &conv, (const kiln_t[]){x, w, {0}}, 3);
    case BIAS:
        return record_op(c->r, OP_LINEAR, NULL,
                         (const kiln_t[]){x, record_weight(c->r, c->w, "m", 2, DIMS(OUT, IN), 0), w}, 3);
    case GAMMA: return record_op(c->r, OP_LAYER_NORM, &(op_attr){.norm = {0, 1e-5f}}, (const kiln_t[]){x, w, {0}}, 3);
    case TABLE: return record_op(c->r, OP_EMBEDDING, NULL, (const kiln_t[]){w, ids}, 2);
    case GATED:
        return put1(c, OP_GEGLU, (op_attr){0}, record_op(c->r, OP_LINEAR, NULL, (const kiln_t[]){x, w, {0}}, 3));
    default: return record_op(c->r, OP_LINEAR, NULL, (const kiln_t[]){x, w, {0}}, 3);
    }
}

/* Zeros go in, so that what comes out is finite whatever the weight is. */
static kiln_status run_with(runtime *rt, kiln_weights *w, place at, uint32_t precision, error *e)
{
    static float x[2 * 2 * IN], y[2 * 2 * 64];
    int32_t ids[IDS] = {0, 1, 2};
    shape in = {4, {1, 2, 2, IN}}, list = {1, {IDS}};
    kiln_program *p = program_new(rt, "p", precision, e);
    recorder c = {.r = program_recording(p), .w = w};
    record_scope_push(c.r, "deep");
    kiln_t from =
        at == TABLE ? record_input(c.r, "ids", KILN_I32, 1, list.dim) : record_input(c.r, "x", KILN_F32, 4, in.dim);
    record_output(c.r, "y", put_op(&c, at, from, from));
    kiln_status status = program_plan(p, e);
    if (status == KILN_OK) {
        const shape out = c.r->op[c.r->output[0].id - 1].shape;
        kiln_bind bound = at == TABLE ? bind_to("ids", ids, KILN_I32, &list) : bind_to("x", x, KILN_F32, &in);
        status = program_run(p, &bound, 1, (kiln_bind[]){bind_to("y", y, KILN_F32, &out)}, 1, NULL, NULL, e);
    }
    program_free(p);
    return status;
}

/* 65519 is rounded to 65504, the largest there is, and 65520 to infinity. bf16 has neither. */
static void test_a_weight_beyond_f16_is_named(void)
{
    static const struct {
        uint32_t type;
        float value;
        const char *said;
    } rows[] = {{KILN_F32, 70000, "70000"}, {KILN_F32, -65520, "-65520"}, {KILN_BF16, 1e30f, "1.00026e+30"},
                {KILN_F32, 65519, NULL},    {KILN_BF16, -65024, NULL},    {KILN_F16, 65504, NULL}};
    runtime *rt = open_runtime((runtime_setting){.precision = KILN_F16});
    REQUIRE(rt);
    for (place at = LINEAR; at <= GAMMA; at++)
        for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
            const size_t row = i / 2;
            kiln_weights *w = weights_with(at, rows[row].type, i % 2 ? 0 : (size_t)-1 / 2 + 77, rows[row].value);
            error e = {0};
            REQUIRE(w);
            kiln_status status = run_with(rt, w, at, KILN_F16, &e);
            int refused = status == KILN_ERR_INVALID && rows[row].said &&
                          strstr(e.message, "program 'p', at deep: weight 'w'") && strstr(e.message, rows[row].said) &&
                          strstr(e.message, "does not fit f16, which ends at 65504; say --precision f32");
            CHECK_MSG(rows[row].said && at != GAMMA ? refused : status == KILN_OK, "place %d, %g: %s", at,
                      (double)rows[row].value, e.message); /* gammas are f32 */
            if (refused) {                                 /* and nothing is the matter in another precision */
                error none = {0};
                CHECK_MSG(run_with(rt, w, at, KILN_BF16, &none) == KILN_OK &&
                              run_with(rt, w, at, KILN_F32, &none) == KILN_OK,
                          "%s", none.message);
            }
            weights_unref(w);
        }
    close_runtime(rt);
}

/* ---- results that do not fit ---- */

static void test_a_result_beyond_f16_is_found(void)
{
    runtime *rt = open_runtime((runtime_setting){.precision = KILN_F16, .check_finite = 1});
    error e = {0};
    float x[2] = {1, 6e4f}, y[2];
    shape two = {1, {2}};
    REQUIRE(rt);
    kiln_program *p = program_new(rt, "p", 0, &e);
    recorder c = {.r = program_recording(p)};
    kiln_t t = put1(&c, OP_AFFINE, (op_attr){.affine = {0.5f, 0}}, record_input(c.r, "x", KILN_F32, 1, two.dim));
    record_scope_push(c.r, "second");
    record_output(c.r, "y", put1(&c, OP_AFFINE, (op_attr){.affine = {10, 0}}, t));
    CHECK_EQ(program_plan(p, &e), KILN_OK);
    kiln_bind in = bind_to("x", x, KILN_F32, &two), out = bind_to("y", y, KILN_F32, &two);
    CHECK_EQ(program_run(p, &in, 1, &out, 1, NULL, NULL, &e), KILN_ERR_INVALID);
    CHECK_MSG(strstr(e.message, "at second: affine made a number that is not finite"), "%s", e.message);
    program_free(p);
    close_runtime(rt);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_random_programs_are_near_f32), CASE(test_a_weight_beyond_f16_is_named),
                                      CASE(test_a_result_beyond_f16_is_found)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
