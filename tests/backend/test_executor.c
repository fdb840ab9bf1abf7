/* test_executor.c - programs from recording to result: the same numbers fused or not, on either backend, with any
 * number of threads; and everything that can go wrong between the two.
 */
#include "run_or_estimate.h"
#include "graph_kit.h"

#include "backend/runtime.h"
#include "base/log.h"
#include "base/memory_alloc.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

static kiln_weights *set;

/* ---- short words ---- */

static kiln_bind bind_to(const char *name, void *data, uint32_t dtype, uint32_t rank, const int64_t *dim)
{
    return (kiln_bind)KILN_BIND(
        name,
        {.size = sizeof(kiln_tensor), .dtype = dtype, .device = KILN_CPU, .rank = rank, .dim = dim, .data = data});
}

static runtime *open_runtime(runtime_setting s)
{
    error e = {0};
    if (!s.backend) s.backend = &backend_reference;
    if (!s.threads) s.threads = 2;
    if (!s.precision) s.precision = KILN_F32;
    runtime *rt = runtime_new(&s, &e);
    CHECK_MSG(rt != NULL, "%s", e.message);
    return rt;
}

enum { PICTURE_MAX = 2 * 4 * 4 * 16 };

typedef struct {
    float a[PICTURE_MAX], b[PICTURE_MAX];
    size_t n_a, n_b;
} result;

static size_t output_size(kiln_program *p, size_t i, int64_t dim[4])
{
    const recording *r = program_recording(p);
    const shape *s = &r->op[r->output[i].id - 1].shape;
    memcpy(dim, s->dim, 4 * sizeof *dim);
    return (size_t)shape_count(s);
}

/* Binds x and y of a random program to numbers and runs it. */
static kiln_status run_random(kiln_program *p, result *out, int (*cancelled)(void *), void *arg, error *e)
{
    float x[2 * 4 * 4 * 8], y[2 * 4 * 4 * 16];
    int64_t a[4], b[4];
    dice d = {9};
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++) x[i] = dice_real(&d);
    for (size_t i = 0; i < sizeof y / sizeof y[0]; i++) y[i] = bf16_to_f32(bf16_from_f32(dice_real(&d)));
    out->n_a = output_size(p, 0, a), out->n_b = output_size(p, 1, b);
    kiln_bind in[] = {bind_to("x", x, KILN_F32, 4, DIMS(2, 4, 4, 8)), bind_to("y", y, KILN_F32, 4, DIMS(2, 4, 4, 16))};
    kiln_bind to[] = {bind_to("a", out->a, KILN_F32, 4, a), bind_to("b", out->b, KILN_F32, 4, b)};
    return run_or_estimate(p, in, 2, to, 2, cancelled, arg, e);
}

static kiln_program *plan_random(runtime *rt, uint64_t seed, uint32_t steps, error *e)
{
    kiln_program *p = program_new(rt, "p", 0, e);
    if (!p) return NULL;
    record_random_program(program_recording(p), set, seed, steps);
    if (program_plan(p, e) == KILN_OK) return p;
    program_free(p);
    return NULL;
}

static int compute(runtime *rt, uint64_t seed, uint32_t steps, result *out)
{
    error e = {0};
    kiln_program *p = plan_random(rt, seed, steps, &e);
    int ok = p && run_random(p, out, NULL, NULL, &e) == KILN_OK;
    CHECK_MSG(ok, "seed %llu: %s", (unsigned long long)seed, e.message);
    program_free(p);
    return ok;
}

static double distance(const result *x, const result *y)
{
    double worst = 0;
    for (int part = 0; part < 2; part++) {
        const float *p = part ? x->b : x->a, *q = part ? y->b : y->a;
        double difference = 0, norm = 0;
        for (size_t i = 0; i < (part ? x->n_b : x->n_a); i++)
            difference += pow((double)p[i] - (double)q[i], 2), norm += pow((double)q[i], 2);
        double own = sqrt(difference / (norm > 0 ? norm : 1));
        if (!(own <= worst)) worst = own;
    }
    return worst;
}

/* ---- the same numbers ---- */

typedef struct {
    const char *name;
    runtime_setting setting;
    double each, mean; /* relative error allowed of one program, and on average */
} variant;

/* Against the plain backend, unfused, in f32. That backend rounds to f32 where an op of its own would have stored, so
 * fused it gives the same bytes. Measured otherwise over these programs: f32 9.2e-7 at worst and 2.2e-7 on average;
 * bf16 (8 bits a store, up to 25 ops deep, group norms over few numbers) 0.071 and 0.0062; f16 (11 bits) 0.0089 and
 * 0.00069; four times that is allowed. */
static void test_random_programs_compute_the_same_in_every_way(void)
{
    static const variant variants[] = {
        {"reference, fused", {.backend = &backend_reference}, 0, 0},
        {"cpu, fused", {.backend = &backend_cpu}, 3.7e-6, 8.8e-7},
        {"cpu, unfused", {.backend = &backend_cpu, .unfused = 1}, 3.7e-6, 8.8e-7},
        {"reference, fused, bf16", {.backend = &backend_reference, .precision = KILN_BF16}, 0.28, 0.025},
        {"reference, fused, f16", {.backend = &backend_reference, .precision = KILN_F16}, 0.036, 0.0028},
        {"cpu, fused, bf16", {.backend = &backend_cpu, .precision = KILN_BF16}, 0.28, 0.025},
    };
    enum { PROGRAMS = 60 };
    static result wanted[PROGRAMS], got;
    runtime *plain = open_runtime((runtime_setting){.backend = &backend_reference, .unfused = 1});
    for (uint64_t i = 0; i < PROGRAMS; i++) REQUIRE(compute(plain, i + 1, 5 + (uint32_t)i % 20, &wanted[i]));
    runtime_free(plain);
    for (size_t v = 0; v < sizeof variants / sizeof variants[0]; v++) {
        runtime *rt = open_runtime(variants[v].setting);
        double sum = 0, worst = 0;
        for (uint64_t i = 0; i < PROGRAMS; i++) {
            REQUIRE(compute(rt, i + 1, 5 + (uint32_t)i % 20, &got));
            double own = distance(&got, &wanted[i]);
            sum += own;
            if (!(own <= worst)) worst = own;
            CHECK_MSG(own <= variants[v].each, "%s, seed %d: relative error %.3g", variants[v].name, (int)i + 1, own);
        }
        CHECK_MSG(sum / PROGRAMS <= variants[v].mean, "%s: relative error %.3g on average, %.3g at worst",
                  variants[v].name, sum / PROGRAMS, worst);
        if (getenv("KILN_TEST_VERBOSE"))
            printf("  %s: %.3g on average, %.3g at worst\n", variants[v].name, sum / PROGRAMS, worst);
        runtime_free(rt);
    }
}

static void test_bytes_do_not_depend_on_threads_or_on_running_again(void)
{
    static result first, other;
    for (int b = 0; b < 2; b++)
        for (unsigned threads = 1; threads <= 4; threads++) {
            runtime *rt = open_runtime(
                (runtime_setting){.backend = &backend_cpu, .threads = threads, .precision = b ? KILN_BF16 : KILN_F32});
            for (uint64_t seed = 1; seed <= 6; seed++) {
                error e = {0};
                kiln_program *p = plan_random(rt, seed, 20, &e);
                REQUIRE(CHECK_MSG(p != NULL, "%s", e.message));
                static result once[7];
                CHECK_EQ(run_random(p, threads == 1 ? &once[seed] : &first, NULL, NULL, &e), KILN_OK);
                CHECK_EQ(run_random(p, &other, NULL, NULL, &e), KILN_OK);
                CHECK_MSG(memcmp(other.a, once[seed].a, other.n_a * 4) == 0 &&
                              memcmp(other.b, once[seed].b, other.n_b * 4) == 0,
                          "seed %d, %u threads", (int)seed, threads);
                program_free(p);
            }
            runtime_free(rt);
        }
}

/* ---- binding ---- */

typedef struct {
    runtime *rt;
    kiln_program *p;
    recorder c;
} bench;

static bench start(runtime_setting s)
{
    error e = {0};
    bench b = {.rt = open_runtime(s)};
    b.p = program_new(b.rt, "p", 0, &e);
    b.c = (recorder){.r = program_recording(b.p), .w = set};
    return b;
}
static void stop(bench *b)
{
    program_free(b->p);
    runtime_free(b->rt);
}

static void expect_failure(bench *b, const kiln_bind *in, size_t n_in, const kiln_bind *out, size_t n_out,
                           const char *says)
{
    error e = {0};
    kiln_status status = program_run(b->p, in, n_in, out, n_out, NULL, NULL, &e);
    CHECK_MSG(status == KILN_ERR_INVALID || status == KILN_ERR_UNSUPPORTED, "%s: status %s", says, status_name(status));
    CHECK_MSG(strstr(e.message, "program 'p'") && strstr(e.message, says), "wanted \"%s\": %s", says, e.message);
}

static void test_wrong_bindings_are_named(void)
{
    bench b = start((runtime_setting){0});
    error e = {0};
    float x[24] = {0}, y[16] = {0};
    int32_t ids[2] = {0, 1};
    kiln_t t = record_input(b.c.r, "x", KILN_F32, 2, DIMS(2, 8)), i = record_input(b.c.r, "ids", KILN_I32, 1, DIMS(2));
    kiln_t table = put_weight(&b.c, 2, DIMS(16, 8), "lin.%d.%d.%d", 16, 8, 0);
    record_output(b.c.r, "y", put_add(&b.c, t, put2(&b.c, OP_EMBEDDING, (op_attr){0}, table, i)));
    kiln_bind good[] = {bind_to("x", x, KILN_F32, 2, DIMS(2, 8)), bind_to("ids", ids, KILN_I32, 1, DIMS(2))}, bad[3],
              out = bind_to("y", y, KILN_F32, 2, DIMS(2, 8));
    CHECK_EQ(program_run(b.p, good, 2, &out, 1, NULL, NULL, &e), KILN_ERR_BUG); /* not planned */
    e = (error){0};
    CHECK_MSG(program_plan(b.p, &e) == KILN_OK, "%s", e.message);
    CHECK_EQ(program_plan(b.p, NULL), KILN_ERR_BUG);
    CHECK_MSG(program_run(b.p, good, 2, &out, 1, NULL, NULL, &e) == KILN_OK, "%s", e.message);
    expect_failure(&b, good, 1, &out, 1, "input 'ids' is not bound");
    memcpy(bad, good, sizeof good), bad[2] = good[0];
    expect_failure(&b, bad, 3, &out, 1, "'x' is bound twice");
    bad[2] = bind_to("z", x, KILN_F32, 2, DIMS(2, 8));
    expect_failure(&b, bad, 3, &out, 1, "no input 'z'");
    bad[0] = bind_to("x", x, KILN_F32, 2, DIMS(3, 8));
    expect_failure(&b, bad, 2, &out, 1, "'x' is bound to [3,8], recorded as [2,8]");
    bad[0] = bind_to("x", ids, KILN_I32, 2, DIMS(2, 8));
    expect_failure(&b, bad, 2, &out, 1, "input 'x' is f32, bound to i32");
    bad[0] = good[0], bad[1] = bind_to("ids", x, KILN_F32, 1, DIMS(2));
    expect_failure(&b, bad, 2, &out, 1, "input 'ids' is i32, bound to f32");
    bad[0].tensor.stride = (const int64_t[]){48, 4}, bad[1] = good[1];
    expect_failure(&b, bad, 2, &out, 1, "must be dense");
    bad[0].tensor.stride = (const int64_t[]){32, 4};
    CHECK_MSG(program_run(b.p, bad, 2, &out, 1, NULL, NULL, &e) == KILN_OK, "%s", e.message);
    bad[0] = bind_to("x", NULL, KILN_F32, 2, DIMS(2, 8));
    expect_failure(&b, bad, 2, &out, 1, "host memory");
    kiln_bind other = bind_to("yy", y, KILN_F32, 2, DIMS(2, 8));
    expect_failure(&b, good, 2, &other, 1, "no output 'yy'");
    ids[1] = 16;
    expect_failure(&b, good, 2, &out, 1, "16");
    stop(&b);
}

static void test_programs_that_cannot_be_planned_say_why_every_time(void)
{
    bench b = start((runtime_setting){0});
    error e = {0}, again = {0};
    CHECK_EQ(program_plan(b.p, &e), KILN_ERR_INVALID);
    CHECK(strstr(e.message, "no output") != NULL);
    put_norm(&b.c, record_input(b.c.r, "x", KILN_F32, 2, DIMS(2, 8)), 3);
    CHECK_EQ(program_plan(b.p, &again), KILN_ERR_INVALID);
    CHECK(strstr(again.message, "3 groups") != NULL);
    stop(&b);
}

/* Inputs and outputs in other types than the program's: what is exact in all of them goes through unchanged. */
static void test_tensors_are_converted_on_the_way(void)
{
    static const uint32_t types[] = {KILN_F32, KILN_BF16, KILN_F16};
    for (int k = 0; k < 27; k++) {
        uint32_t declared = types[k % 3], bound = types[k / 3 % 3], wanted = types[k / 9];
        bench b = start((runtime_setting){.precision = types[(k + k / 3 + k / 9) % 3]});
        error e = {0};
        float numbers[4] = {0.5f, -1.25f, 3, 0}, back[4];
        char in[16], out[16];
        dtype_convert(in, bound, numbers, KILN_F32, 4);
        record_output(
            b.c.r, "y",
            put1(&b.c, OP_AFFINE, (op_attr){.affine = {2, 0}}, record_input(b.c.r, "x", declared, 1, DIMS(4))));
        CHECK_EQ(program_plan(b.p, &e), KILN_OK);
        kiln_bind x = bind_to("x", in, bound, 1, DIMS(4)), y = bind_to("y", out, wanted, 1, DIMS(4));
        CHECK_MSG(program_run(b.p, &x, 1, &y, 1, NULL, NULL, &e) == KILN_OK, "%s", e.message);
        dtype_convert(back, KILN_F32, out, wanted, 4);
        for (int i = 0; i < 4; i++) CHECK_NEAR(back[i], 2 * numbers[i], 0);
        stop(&b);
    }
}

/* ---- weights ---- */

static kiln_weights *one_tensor(const char *file, made_tensor t)
{
    char path[512];
    error e = {0};
    snprintf(path, sizeof path, "%s/%s", test_folder(), file);
    if (!CHECK(made_write(path, &t, 1, 3))) return NULL;
    kiln_weights *w = weights_open(path, &e);
    CHECK_MSG(w != NULL, "%s", e.message);
    return w;
}

static kiln_status multiply(runtime *rt, kiln_weights *w, int64_t n, error *e)
{
    float *x = calloc((size_t)n * 2, sizeof *x);
    kiln_program *p = program_new(rt, "p", 0, e);
    recording *r = program_recording(p);
    record_scope_push(r, "deep"), record_scope_push(r, "er");
    kiln_t in = record_input(r, "x", KILN_F32, 2, DIMS(1, n)), weight = record_weight(r, w, "w", 2, DIMS(n, n), 0);
    record_output(r, "y", record_op(r, OP_LINEAR, NULL, (const kiln_t[]){in, weight, {0}}, 3));
    kiln_status status = program_plan(p, e);
    kiln_bind from = bind_to("x", x, KILN_F32, 2, DIMS(1, n)), to = bind_to("y", x + n, KILN_F32, 2, DIMS(1, n));
    if (status == KILN_OK) status = program_run(p, &from, 1, &to, 1, NULL, NULL, e);
    program_free(p);
    free(x);
    return status;
}

static void test_M12_a_weight_that_is_not_a_number_is_named(void)
{
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_cpu});
    for (int i = 0; i < 3; i++) {
        kiln_weights *w =
            one_tensor("nan.safetensors", (made_tensor){.name = "w",
                                                        .dtype = (uint32_t[]){KILN_F32, KILN_F16, KILN_BF16}[i],
                                                        .rank = 2,
                                                        .dim = {64, 64},
                                                        .spread = 1,
                                                        .centre = i ? INFINITY : NAN});
        error e = {0};
        REQUIRE(w);
        CHECK_EQ(multiply(rt, w, 64, &e), KILN_ERR_INVALID);
        CHECK_MSG(strstr(e.message, "nan.safetensors") && strstr(e.message, "'w'") && strstr(e.message, "deep/er"),
                  "%s", e.message);
        weights_unref(w);
    }
    runtime_free(rt);
}

/* kB of the file's map that are in memory. */
static long resident_of(const char *file)
{
    char line[1024];
    long sum = 0, n;
    int inside = 0;
    FILE *f = fopen("/proc/self/smaps", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (strchr(line, '-') && strstr(line, " r")) inside = strstr(line, file) != NULL;
        if (inside && sscanf(line, "Rss: %ld", &n) == 1) sum += n;
    }
    if (f) fclose(f);
    return f ? sum : -1;
}

static void test_a_packed_file_is_not_in_memory_twice(void)
{
    enum { N = 2048 };
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_cpu});
    kiln_weights *w = one_tensor("big.safetensors",
                                 (made_tensor){.name = "w", .dtype = KILN_F32, .rank = 2, .dim = {N, N}, .spread = 1});
    error e = {0};
    REQUIRE(w);
    CHECK_MSG(multiply(rt, w, N, &e) == KILN_OK, "%s", e.message);
    long after = resident_of("big.safetensors"), whole = N * N * 4 / 1024, sum = 0;
    const unsigned char *bytes = weights_map(w, "w", &e);
    for (size_t i = 0; bytes && i < (size_t)N * N * 4; i += 4096) sum += bytes[i];
    long touched = resident_of("big.safetensors");
    CHECK_MSG(after >= 0 && after * 20 < whole, "%ld of %ld kB are still mapped in (%ld)", after, whole, sum % 2);
    CHECK_MSG(touched * 2 > whole, "after reading it all only %ld of %ld kB count: this test sees nothing", touched,
              whole);
    weights_unref(w);
    runtime_free(rt);
}

static void test_programs_share_packed_weights(void)
{
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_cpu});
    error e = {0};
    static result out;
    kiln_program *p = plan_random(rt, 5, 20, &e), *q = plan_random(rt, 5, 20, &e);
    REQUIRE(p && q);
    CHECK_EQ(run_random(p, &out, NULL, NULL, &e), KILN_OK);
    size_t once = runtime_weight_peak(rt);
    CHECK_EQ(run_random(q, &out, NULL, NULL, &e), KILN_OK);
    CHECK(once > 0);
    CHECK_EQ(runtime_weight_peak(rt), once);
    program_free(p);
    program_free(q);
    runtime_free(rt);
}

/* Filters of 32 to 64 channels and of 64 to 32, of the same numbers: each is packed for itself. */
enum { SIDE = 4, MANY = 64, FEW = 32 };
static void convolve_both(const backend *b, const float *x, float *many, float *few)
{
    static float numbers[MANY * FEW * 9];
    runtime *rt = open_runtime((runtime_setting){.backend = b});
    error e = {0};
    kiln_program *p = program_new(rt, "p", 0, &e);
    REQUIRE(p);
    recording *r = program_recording(p);
    op_attr how = {.conv2d = {{1, 1}, {1, 1, 1, 1}, {1, 1}, 1, {0, 0}}};
    for (size_t i = 0; i < MANY * FEW * 9; i++) numbers[i] = (float)(i * 37 % 101) / 101 - 0.5f;
    kiln_t a = record_input(r, "a", KILN_F32, 4, DIMS(1, SIDE, SIDE, FEW)),
           c = record_input(r, "c", KILN_F32, 4, DIMS(1, SIDE, SIDE, MANY));
    kiln_t to_many[] = {a, record_constant(r, KILN_F32, numbers, 4, DIMS(MANY, FEW, 3, 3)), {0}},
           to_few[] = {c, record_constant(r, KILN_F32, numbers, 4, DIMS(FEW, MANY, 3, 3)), {0}};
    record_output(r, "many", record_op(r, OP_CONV2D, &how, to_many, 3));
    record_output(r, "few", record_op(r, OP_CONV2D, &how, to_few, 3));
    CHECK_EQ(program_plan(p, &e), KILN_OK);
    kiln_bind in[] = {bind_to("a", (void *)(uintptr_t)x, KILN_F32, 4, DIMS(1, SIDE, SIDE, FEW)),
                      bind_to("c", (void *)(uintptr_t)x, KILN_F32, 4, DIMS(1, SIDE, SIDE, MANY))},
              out[] = {bind_to("many", many, KILN_F32, 4, DIMS(1, SIDE, SIDE, MANY)),
                       bind_to("few", few, KILN_F32, 4, DIMS(1, SIDE, SIDE, FEW))};
    CHECK_MSG(program_run(p, in, 2, out, 2, NULL, NULL, &e) == KILN_OK, "%s", e.message);
    program_free(p);
    runtime_free(rt);
}

static void test_constants_of_the_same_numbers_are_packed_by_shape(void)
{
    static float x[SIDE * SIDE * MANY], many[2][SIDE * SIDE * MANY], few[2][SIDE * SIDE * FEW];
    for (size_t i = 0; i < SIDE * SIDE * MANY; i++) x[i] = (float)(i * 29 % 89) / 89 - 0.5f;
    convolve_both(&backend_cpu, x, many[0], few[0]);
    convolve_both(&backend_reference, x, many[1], few[1]);
    for (size_t i = 0; i < SIDE * SIDE * MANY; i++) CHECK(fabsf(many[0][i] - many[1][i]) < 1e-4f);
    for (size_t i = 0; i < SIDE * SIDE * FEW; i++) CHECK(fabsf(few[0][i] - few[1][i]) < 1e-4f);
}

/* ---- while it runs ---- */

static int cancel_later(void *arg) { return --*(int *)arg < 0; }

static void test_a_run_is_cancelled_between_ops_and_can_be_repeated(void)
{
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_cpu});
    static result whole, again;
    error e = {0};
    kiln_program *p = plan_random(rt, 7, 20, &e);
    REQUIRE(p);
    CHECK_EQ(run_random(p, &whole, NULL, NULL, &e), KILN_OK);
    for (int n = 0; n < 5; n++) {
        int left = n;
        error stop_error = {0};
        CHECK_EQ(run_random(p, &again, cancel_later, &left, &stop_error), KILN_CANCELLED);
    }
    CHECK_EQ(run_random(p, &again, NULL, NULL, &e), KILN_OK);
    CHECK(memcmp(whole.a, again.a, whole.n_a * 4) == 0);
    program_free(p);
    runtime_free(rt);
}

/* Nearly as much as there is, halved, and then ten times that. */
static void name_the_op(uint32_t precision, float most)
{
    bench b = start((runtime_setting){.check_finite = 1, .precision = precision});
    error e = {0};
    float x[2] = {1, most}, y[2];
    kiln_t t = record_input(b.c.r, "x", KILN_F32, 1, DIMS(2));
    record_scope_push(b.c.r, "first"), t = put1(&b.c, OP_AFFINE, (op_attr){.affine = {0.5f, 0}}, t),
                                       record_scope_pop(b.c.r);
    record_scope_push(b.c.r, "second"), t = put1(&b.c, OP_AFFINE, (op_attr){.affine = {10, 0}}, t),
                                        record_scope_pop(b.c.r);
    record_output(b.c.r, "y", t);
    CHECK_EQ(program_plan(b.p, &e), KILN_OK);
    kiln_bind in = bind_to("x", x, KILN_F32, 1, DIMS(2)), out = bind_to("y", y, KILN_F32, 1, DIMS(2));
    CHECK_EQ(program_run(b.p, &in, 1, &out, 1, NULL, NULL, &e), KILN_ERR_INVALID);
    CHECK_MSG(strstr(e.message, "at second: affine made"), "%s", e.message);
    stop(&b);
}

static void test_N4_the_op_that_made_a_nan_is_named(void)
{
    static const struct {
        uint32_t precision;
        float most;
    } rows[] = {{KILN_F32, 3e38f}, {KILN_BF16, 3e38f}, {KILN_F16, 6e4f}};
    for (int i = 0; i < 3; i++) name_the_op(rows[i].precision, rows[i].most);
}

static struct {
    size_t n;
    uint64_t flops;
    int named;
} heard;

static void hear(void *arg, const op_trace *t)
{
    (void)arg;
    heard.n++;
    heard.flops += t->flops;
    heard.named += t->scope && strcmp(t->scope, "random") == 0 && t->kernel[0] && t->seconds >= 0;
}

static void test_every_op_is_traced_and_the_count_of_flops_is_theirs(void)
{
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_cpu, .trace = hear});
    static result out;
    error e = {0};
    kiln_program_info info = {.size = sizeof info};
    kiln_program *p = plan_random(rt, 8, 20, &e);
    REQUIRE(p);
    memset(&heard, 0, sizeof heard);
    CHECK_EQ(run_random(p, &out, NULL, NULL, &e), KILN_OK);
    CHECK_EQ(program_info(p, &info), KILN_OK);
    CHECK(heard.n > 5 && heard.n <= info.n_planned && info.n_planned < info.n_recorded);
    CHECK_EQ(heard.flops, info.flops);
    CHECK_EQ(runtime_usage_get(rt).flops, info.flops);
    CHECK_EQ(runtime_usage_get(rt).arena_peak, info.arena_bytes);
    CHECK(heard.named > 5);
    program_free(p);
    runtime_free(rt);
}

static void test_an_estimate_counts_and_computes_nothing(void)
{
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_cpu, .trace = hear});
    static result out;
    error e = {0};
    kiln_program *p = plan_random(rt, 8, 20, &e);
    REQUIRE(p);
    memset(&heard, 0, sizeof heard);
    out.a[0] = 42;
    set_estimating(rt, 1);
    CHECK_EQ(run_random(p, &out, NULL, NULL, &e), KILN_OK);
    set_estimating(rt, 0);
    CHECK(out.a[0] == 42 && heard.n == 0 && runtime_usage_get(rt).flops > 0 && runtime_weight_peak(rt) == 0);
    program_free(p);
    runtime_free(rt);
}

static int op_lines;
static void count_op_line(void *arg, int level, const char *line)
{
    (void)arg;
    op_lines += level == KILN_LOG_INFO && strstr(line, " -> f32 [2,4,4,") != NULL;
}

static void test_the_ops_are_listed(void)
{
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_cpu, .list_ops = 1});
    error e = {0};
    int level = log_level();
    log_level_set(KILN_LOG_INFO);
    log_sink_set(count_op_line, NULL);
    op_lines = 0;
    kiln_program *p = plan_random(rt, 8, 20, &e);
    log_sink_set(NULL, NULL);
    log_level_set(level);
    CHECK_MSG(op_lines > 5, "%d lines", op_lines);
    program_free(p);
    runtime_free(rt);
}

/* ---- a backend without some kernels ---- */

static int warnings;
static void count_warning(void *arg, int level, const char *line)
{
    (void)arg;
    warnings += level == KILN_LOG_WARN && strstr(line, "no partial kernel") != NULL;
}

static kiln_status prepare_some(const op_desc *d, kernel **out, error *e)
{
    if (d->kind == OP_CONV2D || d->kind == OP_ADD) return error_set(e, KILN_ERR_UNSUPPORTED, "not today");
    return backend_cpu.prepare(d, out, e);
}

static void test_a_missing_kernel_is_replaced_with_one_warning_a_kind(void)
{
    backend partial = backend_cpu;
    partial.name = "partial", partial.prepare = prepare_some;
    static result wanted, got;
    runtime *rt = open_runtime((runtime_setting){.backend = &partial}),
            *plain = open_runtime((runtime_setting){.backend = &backend_cpu});
    CHECK(compute(plain, 9, 25, &wanted));
    log_sink_set(count_warning, NULL);
    warnings = 0;
    CHECK(compute(rt, 9, 25, &got));
    log_sink_set(NULL, NULL);
    CHECK_MSG(warnings >= 1 && warnings <= 2, "%d warnings", warnings);
    CHECK_MSG(distance(&got, &wanted) < 3.7e-6, "relative error %.3g",
              distance(&got, &wanted)); /* as two backends above */
    runtime_free(rt);
    runtime_free(plain);
}

static kiln_status prepare_none(const op_desc *d, kernel **out, error *e)
{
    (void)out;
    return error_set(e, KILN_ERR_DEVICE, "%s: the device is gone", op_name(d->kind));
}

static void test_a_failing_device_is_an_error_with_its_place(void)
{
    backend broken = backend_cpu;
    broken.prepare = prepare_none;
    runtime *rt = open_runtime((runtime_setting){.backend = &broken});
    error e = {0}, again = {0};
    kiln_program *p = program_new(rt, "p", 0, &e);
    record_random_program(program_recording(p), set, 9, 10);
    CHECK_EQ(program_plan(p, &e), KILN_ERR_DEVICE);
    CHECK_MSG(strstr(e.message, "program 'p', at random: convert") && strstr(e.message, "device is gone"), "%s",
              e.message);
    CHECK(program_plan(p, &again) != KILN_OK); /* and does not come to life by being asked again */
    program_free(p);
    runtime_free(rt);
}

/* ---- kept programs ---- */

static kiln_program *keep(runtime *rt, int key, int *fresh)
{
    char text[32];
    error e = {0};
    snprintf(text, sizeof text, "key %d", key);
    kiln_program *p = program_keep(rt, text, "kept", 0, fresh, &e);
    if (p && *fresh) {
        record_random_program(program_recording(p), set, (uint64_t)key + 1, 6);
        CHECK_MSG(program_plan(p, &e) == KILN_OK, "%s", e.message);
    }
    return p;
}

static void test_programs_are_kept_by_key_the_least_used_goes(void)
{
    runtime *rt = open_runtime((runtime_setting){0});
    int fresh;
    static result first, later;
    error e = {0};
    kiln_program *held = keep(rt, 0, &fresh);
    CHECK_EQ(fresh, 1);
    CHECK_EQ(run_random(held, &first, NULL, NULL, &e), KILN_OK);
    program_free(keep(rt, 0, &fresh));
    CHECK_EQ(fresh, 0);
    for (int i = 1; i < 16; i++) program_free(keep(rt, i, &fresh)), CHECK_EQ(fresh, 1);
    program_free(keep(rt, 0, &fresh)), CHECK_EQ(fresh, 0); /* 0 is fresh in memory again: 1 is the oldest */
    program_free(keep(rt, 16, &fresh)), CHECK_EQ(fresh, 1);
    program_free(keep(rt, 0, &fresh)), CHECK_EQ(fresh, 0);
    program_free(keep(rt, 1, &fresh)), CHECK_EQ(fresh, 1);
    for (int i = 20; i < 40; i++) program_free(keep(rt, i, &fresh));
    CHECK_EQ(run_random(held, &later, NULL, NULL, &e), KILN_OK); /* thrown out of the cache, held by us */
    CHECK(memcmp(first.a, later.a, first.n_a * 4) == 0);
    program_free(held);
    runtime_free(rt);
}

typedef struct {
    runtime *rt;
    int start;
    atomic_int *wrong;
} result_cache;

static void *keep_and_run(void *arg)
{
    const result_cache *k = arg;
    result *out = calloc(1, sizeof *out);
    error e = {0};
    for (int i = 0; i < 60; i++) {
        int fresh = 0;
        kiln_program *p = keep(k->rt, (k->start + i * 7) % 20, &fresh);
        if (!p || run_random(p, out, NULL, NULL, &e) != KILN_OK || !isfinite(out->a[0])) atomic_store(k->wrong, 1);
        program_free(p);
    }
    free(out);
    return NULL;
}

static void test_programs_are_kept_and_run_by_several_threads(void)
{
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_cpu});
    atomic_int wrong = 0;
    pthread_t threads[3];
    result_cache k[3];
    for (int i = 0; i < 3; i++)
        k[i] = (result_cache){rt, i, &wrong}, pthread_create(&threads[i], NULL, keep_and_run, &k[i]);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    CHECK_EQ(atomic_load(&wrong), 0);
    runtime_free(rt);
}

/* ---- no memory ---- */

/* Every allocation from recording to result fails once: NOMEM each time, nothing leaks, and the runtime still works. */
static void fail_every_allocation(const backend *b, uint32_t precision)
{
    runtime *rt = open_runtime((runtime_setting){.backend = b, .precision = precision, .threads = 1});
    static result out;
    int64_t k = 0;
    for (kiln_status status = KILN_ERR_NOMEM; status != KILN_OK && k < 5000; k++) {
        error e = {0};
        mem_fail_at(k, 0);
        kiln_program *p = plan_random(rt, 3, 6, &e);
        status = p ? run_random(p, &out, NULL, NULL, &e) : e.status;
        mem_fail_at(-1, 0);
        if (status != KILN_OK)
            CHECK_MSG(status == KILN_ERR_NOMEM, "allocation %lld: %s: %s", (long long)k, status_name(status),
                      e.message);
        program_free(p);
    }
    CHECK_MSG(k > 50 && k < 5000, "%lld allocations were made to fail", (long long)k);
    CHECK(compute(rt, 3, 6, &out));
    runtime_free(rt);
}

static void test_every_allocation_may_fail(void)
{
    fail_every_allocation(&backend_reference, KILN_F32);
    fail_every_allocation(&backend_cpu, KILN_BF16);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_random_programs_compute_the_same_in_every_way),
        CASE(test_bytes_do_not_depend_on_threads_or_on_running_again),
        CASE(test_wrong_bindings_are_named),
        CASE(test_programs_that_cannot_be_planned_say_why_every_time),
        CASE(test_tensors_are_converted_on_the_way),
        CASE(test_M12_a_weight_that_is_not_a_number_is_named),
        CASE(test_a_packed_file_is_not_in_memory_twice),
        CASE(test_programs_share_packed_weights),
        CASE(test_constants_of_the_same_numbers_are_packed_by_shape),
        CASE(test_a_run_is_cancelled_between_ops_and_can_be_repeated),
        CASE(test_N4_the_op_that_made_a_nan_is_named),
        CASE(test_every_op_is_traced_and_the_count_of_flops_is_theirs),
        CASE(test_an_estimate_counts_and_computes_nothing),
        CASE(test_the_ops_are_listed),
        CASE(test_a_missing_kernel_is_replaced_with_one_warning_a_kind),
        CASE(test_a_failing_device_is_an_error_with_its_place),
        CASE(test_programs_are_kept_by_key_the_least_used_goes),
        CASE(test_programs_are_kept_and_run_by_several_threads),
        CASE(test_every_allocation_may_fail),
    };
    return made_test_main(argc, argv, cases, sizeof cases / sizeof cases[0], &set);
}
