/* test_patched_programs.c - a base and two patched variants of it in one runtime: what is not patched is packed once
 * for all three, each computes what a file with the sums written out computes, to the bit and at every budget, and the
 * base is what it was before.
 */
#include "../memory/fake_device.h"
#include "run_or_estimate.h"
#include "graph_kit.h"

#include "backend/runtime.h"
#include "base/file.h"
#include "weights/safetensors_write.h"

/* tests/cuda_emu/test_cuda_patched.c includes this file with the CUDA backend in place of plain kernels. */
#ifndef DEVICE
#define DEVICE fake_backend
#define TRUTH backend_reference
#define SKIPPED 0
#define BUDGETS 12
#define FORMS PATCHED /* packed copies of what is patched */
#endif

enum { BLOCKS = 4, TOKENS = 5, WIDTH = 64, RANK = 3, SETS = 3, PATCHED = 4, NUMBERS = TOKENS * WIDTH };

static char base_path[600];
static kiln_weights *set[SETS],
    *written[SETS]; /* the base, and it with each patch; the same with the sums written out */
static float wanted[SETS][NUMBERS];

/* ---- files ---- */

static made_tensor made(uint32_t dtype, const char *kind, int i, int64_t rows, int64_t columns, float spread)
{
    made_tensor t = {
        .dtype = dtype, .rank = columns ? 2 : 1, .dim = {rows, columns}, .spread = spread, .centre = kind[0] == 'g'};
    snprintf(t.name, sizeof t.name, "%s.%d", kind, i);
    return t;
}

static kiln_weights *opened(const char *file, const made_tensor *t, size_t n)
{
    char path[600];
    error e = {0};
    snprintf(path, sizeof path, "%s/%s", test_folder(), file);
    kiln_weights *w = made_write(path, t, n, n) ? weights_open(path, &e) : NULL;
    CHECK_MSG(w != NULL, "%s: %s", path, e.message);
    return w;
}

static kiln_weights *open_base(void)
{
    made_tensor t[BLOCKS * 6];
    size_t n = 0;
    static const char *const squares[] = {"q", "k", "v", "out"};
    for (int i = 0; i < BLOCKS; i++) {
        for (int k = 0; k < 4; k++) t[n++] = made(i % 2 ? KILN_F16 : KILN_F32, squares[k], i, WIDTH, WIDTH, 0.2f);
        t[n++] = made(KILN_F32, "b", i, WIDTH, 0, 0.1f);
        t[n++] = made(KILN_F16, "g", i, WIDTH, 0, 0.2f);
    }
    snprintf(base_path, sizeof base_path, "%s/base.safetensors", test_folder());
    return opened("base.safetensors", t, n);
}

/* Adds to q.0 and k.2, which end up in stacks with what is of their type, to out.1 and to b.3. */
static kiln_weights *open_factors(void)
{
    const made_tensor t[] = {made(KILN_F32, "up", 0, WIDTH, RANK, 0.3f), made(KILN_F16, "down", 0, RANK, WIDTH, 0.3f),
                             made(KILN_F32, "d", 0, WIDTH, 0, 0.3f)};
    return opened("lora.safetensors", t, 3);
}

static kiln_weights *add_patch(kiln_weights *base, kiln_weights *from, double strength)
{
    static const char *const names[PATCHED] = {"q.0", "k.2", "out.1", "b.3"};
    kiln_weight_patch p[PATCHED];
    for (int i = 0; i < PATCHED; i++) {
        p[i] = (kiln_weight_patch){.size = sizeof p[i],
                                   .name = names[i],
                                   .strength = strength,
                                   .scale = 0.5,
                                   .from = from,
                                   .up = "up.0",
                                   .down = "down.0"};
        if (names[i][0] == 'b') p[i].up = p[i].down = NULL, p[i].difference = "d.0";
    }
    error e = {0};
    kiln_weights *w = from ? weights_patch(base, p, PATCHED, &e) : NULL;
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

static kiln_weights *write_out(const kiln_weights *w, int number)
{
    enum { MOST = BLOCKS * 6 };
    static float data[MOST][WIDTH * WIDTH];
    static int64_t dim[MOST][2];
    safetensors_source t[MOST];
    char path[600];
    error e = {0};
    for (size_t i = 0; i < weights_count(w); i++) {
        kiln_weight_info info = {.size = sizeof info};
        weights_at(w, i, &info);
        CHECK_EQ(weights_read_f32(w, info.name, data[i], &e), KILN_OK);
        memcpy(dim[i], info.dim, sizeof dim[i]);
        t[i] = (safetensors_source){
            .name = info.name, .dtype = KILN_F32, .rank = info.rank, .dim = dim[i], .data = data[i]};
    }
    snprintf(path, sizeof path, "%s/written%d.safetensors", test_folder(), number);
    CHECK_MSG(safetensors_write(path, t, weights_count(w), NULL, 0, &e) == KILN_OK, "%s", e.message);
    kiln_weights *again = weights_open(path, &e);
    CHECK_MSG(again != NULL, "%s", e.message);
    return again;
}

/* ---- programs ---- */

static kiln_t weight(recording *r, kiln_weights *w, const char *kind, int i, uint32_t rank)
{
    char name[32];
    snprintf(name, sizeof name, "%s.%d", kind, i);
    return record_weight(r, w, name, rank, DIMS(WIDTH, WIDTH), 0);
}

static kiln_t linear(recording *r, kiln_weights *w, const char *kind, int i, kiln_t x, kiln_t bias)
{
    return record_op(r, OP_LINEAR, &(op_attr){0}, (kiln_t[]){x, weight(r, w, kind, i, 2), bias}, 3);
}

static void record_blocks(recording *r, kiln_weights *w)
{
    kiln_t x = record_input(r, "x", KILN_F32, 3, DIMS(1, TOKENS, WIDTH)), none = {0};
    for (int i = 0; i < BLOCKS; i++) {
        kiln_t norm[] = {x, weight(r, w, "g", i, 1), weight(r, w, "b", i, 1)};
        kiln_t h = record_op(r, OP_LAYER_NORM, &(op_attr){.norm = {0, 1e-5f}}, norm, 3);
        kiln_t qkv[] = {linear(r, w, "q", i, h, none), linear(r, w, "k", i, h, none), linear(r, w, "v", i, h, none)};
        h = record_op(r, OP_ATTENTION, &(op_attr){.attention = {.heads = 4}}, qkv, 3);
        x = record_op(r, OP_ADD, &(op_attr){0}, (kiln_t[]){linear(r, w, "out", i, h, weight(r, w, "b", i, 1)), x}, 2);
    }
    record_output(r, "y", x);
}

static kiln_program *plan_program(runtime *rt, kiln_weights *w)
{
    error e = {0};
    kiln_program *p = program_new(rt, "net", 0, &e);
    if (p) record_blocks(program_recording(p), w);
    int ok = p && program_plan(p, &e) == KILN_OK;
    CHECK_MSG(ok || e.status == KILN_ERR_NOMEM, "%s", e.message);
    if (ok) return p;
    program_free(p);
    return NULL;
}

static kiln_bind bind_to(const char *name, float *data)
{
    static const int64_t dim[] = {1, TOKENS, WIDTH};
    return (kiln_bind)KILN_BIND(
        name,
        {.size = sizeof(kiln_tensor), .dtype = KILN_F32, .device = KILN_CPU, .rank = 3, .dim = dim, .data = data});
}

static kiln_status run_program(kiln_program *p, float *y, error *e)
{
    float x[NUMBERS];
    dice d = {9};
    for (int i = 0; i < NUMBERS; i++) x[i] = dice_real(&d);
    memset(y, 0, NUMBERS * sizeof *y);
    return run_or_estimate(p, (kiln_bind[]){bind_to("x", x)}, 1, (kiln_bind[]){bind_to("y", y)}, 1, NULL, NULL, e);
}

static runtime *open_runtime(runtime_setting s)
{
    error e = {0};
    s.threads = 1;
    if (!s.precision) s.precision = KILN_F32;
    runtime *rt = runtime_new(&s, &e);
    CHECK_MSG(rt != NULL, "%s", e.message);
    return rt;
}

static int gives(kiln_program *p, const float *want, const char *what)
{
    float y[NUMBERS];
    error e = {0};
    return CHECK_MSG(p && run_program(p, y, &e) == KILN_OK, "%s: %s", what, e.message) &&
           CHECK_MSG(!memcmp(y, want, sizeof y), "%s: other bytes", what);
}

/* What the three sets make on a backend, each alone in a runtime, from files in which the sums are written out. */
static int expect(const backend *b, uint32_t precision)
{
    error e = {0};
    for (int i = 0; i < SETS; i++) {
        runtime *rt = open_runtime((runtime_setting){.backend = b, .precision = precision});
        kiln_program *p = rt ? plan_program(rt, written[i]) : NULL;
        int ok = CHECK_MSG(p && run_program(p, wanted[i], &e) == KILN_OK, "%s", e.message);
        program_free(p);
        runtime_free(rt);
        if (!ok) return 0;
    }
    return CHECK(memcmp(wanted[0], wanted[1], sizeof wanted[0]) != 0 &&
                 memcmp(wanted[1], wanted[2], sizeof wanted[0]) != 0);
}

/* ---- tests ---- */

static void test_open_sets(void)
{
    kiln_weights *from = open_factors();
    REQUIRE((set[0] = open_base()) && (set[1] = add_patch(set[0], from, 1)) &&
            (set[2] = add_patch(set[0], from, -0.75)));
    weights_unref(from);
    for (int i = 0; i < SETS; i++) written[i] = write_out(set[i], i);
}

/* Packed: every leaf of the base once, then of each variant the four that its patches are in. */
static void shares(const backend *b, uint32_t precision, int unfused)
{
    digest before, after;
    CHECK_EQ(file_digest(base_path, &before, NULL), KILN_OK);
    REQUIRE(expect(b, precision));
    runtime *rt = open_runtime((runtime_setting){.backend = b, .precision = precision, .unfused = unfused});
    REQUIRE(rt);
    kiln_program *p[SETS] = {NULL}, *last = NULL;
    residency *r = runtime_residency(rt);
    size_t bytes[SETS], own[SETS];
    uint64_t packed[SETS];
    for (int i = 0; i < SETS; i++) {
        REQUIRE((p[i] = plan_program(rt, set[i])) && gives(p[i], wanted[i], "a set"));
        bytes[i] = residency_bytes(r), packed[i] = residency_traffic_get(r).packed;
    }
    size_t whole = bytes[0];
    for (int i = 0; i < SETS; i++) { /* of the four alone, in a runtime that knows nothing else */
        own[i] = i ? bytes[i] - bytes[i - 1] : 0;
        if (i) CHECK_EQ(packed[i] - packed[i - 1], PATCHED);
    }
    /* Nothing is padded beyond 64 bytes where kernels take weights as they are: stacks or squares, one square, one
     * bias. */
    size_t square = WIDTH * WIDTH * dtype_size(precision), stack = unfused ? square : 3 * square;
    if (b != &backend_cpu) CHECK_EQ(own[1], 2 * stack + square + WIDTH * 4);
    CHECK_MSG(own[1] == own[2] && own[1] < whole, "%zu, then %zu and %zu more", whole, own[1], own[2]);
    REQUIRE((last = plan_program(rt, set[0]))); /* the base again, by itself and recorded anew */
    CHECK(gives(p[0], wanted[0], "the base after its variants") && gives(last, wanted[0], "the base again") &&
          gives(p[1], wanted[1], "the first again"));
    CHECK_EQ(residency_bytes(r), bytes[2]);
    CHECK_EQ(residency_traffic_get(r).packed, packed[2]);
    program_free(last);
    program_free(p[1]);
    CHECK_EQ(residency_bytes(r), bytes[2] - own[1]); /* what it had for itself goes with it */
    program_free(p[2]);
    CHECK_EQ(residency_bytes(r), whole);
    program_free(p[0]);
    runtime_free(rt);
    CHECK(file_digest(base_path, &after, NULL) == KILN_OK && digest_equal(before, after));
}

static void test_one_copy_of_what_is_not_patched(void)
{
    REQUIRE(set[2]);
    shares(&backend_reference, KILN_F32, 1);
    shares(&backend_reference, KILN_F32, 0);
}

static void test_one_copy_with_kernels_that_pack(void)
{
    REQUIRE(set[2]);
    shares(&backend_cpu, KILN_F32, 0);
    shares(&backend_cpu, KILN_BF16, 0);
}

static int expect_of_device(void)
{
    fake_device_open(&(fake_setting){.bytes = 1 << 24, .seed = 1, .fail_at = -1});
    int ok = expect(&TRUTH, KILN_F32);
    return CHECK_EQ(fake_device_close().faults, 0) && ok;
}

static void test_one_copy_on_a_device(void)
{
    REQUIRE(set[2] && expect_of_device());
    fake_device_open(&(fake_setting){.bytes = 1 << 24, .seed = 3, .graphs = 1, .fail_at = -1});
    runtime *rt = open_runtime((runtime_setting){.backend = &DEVICE, .host_memory = SIZE_MAX});
    REQUIRE(rt);
    kiln_program *p[SETS];
    uint64_t packed[SETS];
    for (int i = 0; i < SETS; i++) {
        p[i] = plan_program(rt, set[i]);
        for (int step = 0; step < 4; step++) gives(p[i], wanted[i], "a set on a device");
        packed[i] = residency_traffic_get(runtime_residency(rt)).packed;
        if (i) CHECK_EQ(packed[i] - packed[i - 1], FORMS);
    }
    CHECK(gives(p[0], wanted[0], "the base after its variants"));
    for (int i = 0; i < SETS; i++) program_free(p[i]);
    runtime_free(rt);
    CHECK_EQ(fake_device_close().faults, 0);
}

/* Taking turns from the least budget upward: patched weights are made again each time they come. */
static int turns_within(const backend *b, size_t limit)
{
    runtime *rt = open_runtime((runtime_setting){.backend = b, .memory = limit});
    kiln_program *p[SETS] = {NULL};
    int ok = rt != NULL;
    for (int i = 0; i < SETS && ok; i++) ok = (p[i] = plan_program(rt, set[i])) != NULL;
    for (int turn = 0; turn < 7 && ok; turn++) ok = gives(p[turn % SETS], wanted[turn % SETS], "under a budget");
    const budget *account = rt ? residency_budget(runtime_residency(rt)) : NULL;
    if (ok) ok = CHECK_MSG(budget_peak(account) <= limit, "%zu held of %zu", budget_peak(account), limit);
    for (int i = 0; i < SETS; i++) program_free(p[i]);
    runtime_free(rt);
    return CHECK_MSG(ok, "with a limit of %zu", limit);
}

static size_t least_of(const backend *b, size_t *whole)
{
    runtime *rt = open_runtime((runtime_setting){.backend = b});
    kiln_program *p = rt ? plan_program(rt, set[1]) : NULL;
    float y[NUMBERS];
    if (!p) return 0;
    set_estimating(rt, 1);
    CHECK_EQ(run_program(p, y, NULL), KILN_OK);
    set_estimating(rt, 0);
    size_t least = runtime_get_estimate(rt).least;
    *whole = runtime_get_estimate(rt).whole;
    program_free(p);
    runtime_free(rt);
    return least;
}

static void test_same_bytes_at_every_budget(void)
{
    static const backend *const hosts[] = {&backend_reference, &backend_cpu};
    size_t least = 0, whole = 0;
    REQUIRE(set[2]);
    for (int k = 0; k < 2; k++) {
        REQUIRE(expect(hosts[k], KILN_F32) && (least = least_of(hosts[k], &whole)) > 0);
        for (size_t i = 0; i <= BUDGETS; i++)
            REQUIRE(turns_within(hosts[k], least + (2 * whole - least) * i / BUDGETS));
    }
}

static void test_same_bytes_at_every_budget_on_a_device(void)
{
    size_t least, whole = 0;
    REQUIRE(set[2] && expect_of_device());
    fake_device_open(&(fake_setting){.bytes = 1 << 24, .fail_at = -1});
    least = least_of(&DEVICE, &whole);
    fake_device_close();
    for (size_t i = 0; i <= BUDGETS && least; i++) {
        size_t limit = least + (2 * whole - least) * i / BUDGETS;
        fake_device_open(&(fake_setting){.bytes = limit, .seed = i + 1, .graphs = (int)(i % 2), .fail_at = -1});
        int ok = turns_within(&DEVICE, limit);
        REQUIRE(CHECK_EQ(fake_device_close().faults, 0) && ok);
    }
    CHECK(least > 0);
}

/* What packing takes from the heap is on the account: the f32 copy, the factors, and rows of down on their way. */
static void test_packing_is_on_the_account(void)
{
    REQUIRE(set[2]);
    size_t whole, plain;
    kiln_weights *mine = set[1];
    size_t patched = least_of(&backend_reference, &whole);
    set[1] = set[0];
    plain = least_of(&backend_reference, &whole);
    set[1] = mine;
    CHECK_EQ(patched - plain,
             (RANK * WIDTH + RANK * WIDTH + RANK * WIDTH) * 4); /* q, k and v are stacked in a copy either way */
}

static void test_a_bad_factor_is_named_and_the_base_still_runs(void)
{
    made_tensor t[] = {made(KILN_F32, "d", 0, WIDTH, 0, 3.4e38f)};
    kiln_weights *from = opened("bad.safetensors", t, 1);
    REQUIRE(set[0] && from && expect(&backend_reference, KILN_F32));
    kiln_weights *w = weights_patch(set[0],
                                    &(kiln_weight_patch){.size = sizeof(kiln_weight_patch),
                                                         .name = "b.1",
                                                         .strength = 64,
                                                         .scale = 1,
                                                         .from = from,
                                                         .difference = "d.0"},
                                    1, NULL);
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_reference});
    kiln_program *p = plan_program(rt, w), *q = plan_program(rt, set[0]);
    float y[NUMBERS];
    error e = {0};
    CHECK_EQ(run_program(p, y, &e), KILN_ERR_INVALID);
    CHECK_MSG(strstr(e.message, "weight 'b.1'") && strstr(e.message, "comes out as a NaN or infinity"), "%s",
              e.message);
    CHECK(gives(q, wanted[0], "the base"));
    program_free(p), program_free(q);
    runtime_free(rt);
    weights_unref(w), weights_unref(from);
}

static void test_close_sets(void)
{
    for (int i = 0; i < SETS; i++) weights_unref(set[i]), weights_unref(written[i]);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_open_sets), CASE(test_one_copy_on_a_device),
                                      CASE(test_same_bytes_at_every_budget_on_a_device), CASE(test_close_sets)};
    static const test_case on_the_host[] = {CASE(test_open_sets),
                                            CASE(test_one_copy_of_what_is_not_patched),
                                            CASE(test_one_copy_with_kernels_that_pack),
                                            CASE(test_one_copy_on_a_device),
                                            CASE(test_same_bytes_at_every_budget),
                                            CASE(test_same_bytes_at_every_budget_on_a_device),
                                            CASE(test_packing_is_on_the_account),
                                            CASE(test_a_bad_factor_is_named_and_the_base_still_runs),
                                            CASE(test_close_sets)};
    if (SKIPPED) return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
    return test_main(argc, argv, on_the_host, sizeof on_the_host / sizeof on_the_host[0]);
}
