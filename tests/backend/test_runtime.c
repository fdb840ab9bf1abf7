/* test_runtime.c - programs through the runtime: what run() refuses to be bound to, cancel between ops, kept programs,
 * estimates, the search for NaN, and every allocation failing in turn over recording, planning and the first run.
 */
#include "backend/runtime.h"
#include "harness.h"
#include "weights/tiny_weights.h"

#include "base/memory_alloc.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DIM(...) ((const int64_t[]){__VA_ARGS__})
#define IN(...) ((const kiln_t[]){__VA_ARGS__})
enum { ROWS = 4, WIDTH = 8, MADE = 6 };

static kiln_weights *weights;

static int open_weights(void)
{
    char path[300];
    float data[MADE * WIDTH + MADE];
    error e = {0};
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) data[i] = (float)(i % 7) * 0.25f - 0.5f;
    snprintf(path, sizeof path, "%s/w.safetensors", test_folder());
    if (!tiny_write(path,
                    "{\"w\":{\"dtype\":\"F32\",\"shape\":[6,8],\"data_offsets\":[0,192]},\"b\":{\"dtype\":\"F32\","
                    "\"shape\":[6],\"data_offsets\":[192,216]}}",
                    data, sizeof data))
        return 0;
    weights = weights_open(path, &e);
    return CHECK_MSG(weights != NULL, "%s", e.message);
}

static runtime *make_runtime(runtime_setting s)
{
    error e = {0};
    s.backend = s.backend ? s.backend : &backend_reference;
    s.threads = 1;
    s.precision = KILN_F32;
    runtime *rt = runtime_new(&s, &e);
    CHECK_MSG(rt != NULL, "%s", e.message);
    return rt;
}

/* x [4,8], scale by 2, linear to 6, silu: three ops before fusing */
static void record_net(recording *r)
{
    kiln_t x = record_input(r, "x", KILN_F32, 2, DIM(ROWS, WIDTH));
    op_attr twice = {.affine = {2, 0}}, silu = {.act = {KILN_ACT_SILU}};
    record_scope_push(r, "block.0");
    kiln_t h = record_op(r, OP_AFFINE, &twice, &x, 1);
    h = record_op(
        r, OP_LINEAR, NULL,
        IN(h, record_weight(r, weights, "w", 2, DIM(MADE, WIDTH), 0), record_weight(r, weights, "b", 1, DIM(MADE), 0)),
        3);
    record_scope_push(r, "act");
    h = record_op(r, OP_ACT, &silu, &h, 1);
    record_scope_pop(r);
    record_scope_pop(r);
    record_output(r, "y", h);
}

static kiln_program *make_program(runtime *rt)
{
    error e = {0};
    kiln_program *p = program_new(rt, "net", 0, &e);
    if (!CHECK_MSG(p != NULL, "%s", e.message)) return NULL;
    record_net(program_recording(p));
    CHECK_MSG(program_plan(p, &e) == KILN_OK, "%s", e.message);
    return p;
}

static kiln_bind bind_dims(const char *name, void *data, const int64_t dim[2])
{
    return (kiln_bind)KILN_BIND(
        name,
        {.size = sizeof(kiln_tensor), .dtype = KILN_F32, .device = KILN_CPU, .rank = 2, .dim = dim, .data = data});
}
#define bind(name_, data_, rows_, columns_) bind_dims(name_, data_, KILN_DIMS(rows_, columns_))

static void test_it_runs(void)
{
    runtime *rt = make_runtime((runtime_setting){0});
    REQUIRE(rt && (weights || open_weights()));
    kiln_program *p = make_program(rt);
    REQUIRE(p);
    float x[ROWS * WIDTH], y[ROWS * MADE];
    error e = {0};
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = (float)(i % 5) - 2;
    kiln_bind in = bind("x", x, ROWS, WIDTH), out = bind("y", y, ROWS, MADE);
    CHECK_MSG(program_run(p, &in, 1, &out, 1, NULL, NULL, &e) == KILN_OK, "%s", e.message);
    for (int r = 0; r < ROWS; r++)
        for (int o = 0; o < MADE; o++) {
            double sum = (double)((MADE * WIDTH + o) % 7) * 0.25 - 0.5;
            for (int i = 0; i < WIDTH; i++)
                sum += 2.0 * (double)x[r * WIDTH + i] * ((double)((o * WIDTH + i) % 7) * 0.25 - 0.5);
            CHECK_NEAR(y[r * MADE + o], sum / (1 + exp(-sum)), 1e-6); /* one rounding to f32 of a sum and of expf */
        }
    kiln_program_info info = {.size = sizeof info};
    CHECK_EQ(program_info(p, &info), KILN_OK);
    CHECK_EQ(info.n_recorded, 6); /* leaves too */
    CHECK_EQ(info.n_planned, 2);
    CHECK_EQ(info.flops, 2 * ROWS * WIDTH * MADE);
    CHECK_EQ(info.weight_bytes, (MADE * WIDTH + MADE) * 4);
    runtime_usage u = runtime_usage_get(rt);
    CHECK_EQ(u.runs, 1);
    CHECK_EQ(u.flops, info.flops);
    CHECK_EQ(u.arena_peak, info.arena_bytes);
    program_free(p);
    runtime_free(rt);
}

static void test_binding_errors(void)
{
    runtime *rt = make_runtime((runtime_setting){0});
    REQUIRE(rt && (weights || open_weights()));
    kiln_program *p = make_program(rt);
    REQUIRE(p);
    static float x[ROWS * WIDTH], y[ROWS * MADE];
    enum { N = 14 };
    static const struct {
        kiln_status status;
        const char *part;
    } want[N] = {{KILN_ERR_INVALID, "input 'x' is not bound"},
                 {KILN_ERR_INVALID, "has no input 'X'"},
                 {KILN_ERR_INVALID, "'x' is bound to [8,4], recorded as [4,8]"},
                 {KILN_ERR_INVALID, "'x' is bound to [32], recorded as [4,8]"},
                 {KILN_ERR_INVALID, "input 'x' is f32, bound to i32"},
                 {KILN_ERR_UNSUPPORTED, "'x' must be bound to host memory"},
                 {KILN_ERR_UNSUPPORTED, "'x' must be bound to host memory"},
                 {KILN_ERR_UNSUPPORTED, "'x' must be dense"},
                 {KILN_ERR_INVALID, "has no output 'z'"},
                 {KILN_ERR_INVALID, "'y' is bound to [4,8], recorded as [4,6]"},
                 {KILN_ERR_UNSUPPORTED, "'y' must be dense"},
                 {KILN_ERR_INVALID, "'x' is bound to"},
                 {KILN_ERR_INVALID, "has no input 'unknown'"},
                 {KILN_ERR_INVALID, "input 'x' is bound twice"}};
    for (int i = 0; i < N; i++) {
        kiln_bind in[2] = {bind("x", x, ROWS, WIDTH), bind("unknown", x, ROWS, WIDTH)}, out = bind("y", y, ROWS, MADE);
        size_t n_in = i == 0 ? 0 : i >= 12 ? 2 : 1;
        if (i == 1) in[0].name = "X";
        const int64_t turned[] = {WIDTH, ROWS}, flat[] = {32}, wide[] = {ROWS, 8}, apart[] = {64, 4};
        if (i == 2) in[0].tensor.dim = turned;
        if (i == 3) in[0].tensor.rank = 1, in[0].tensor.dim = flat;
        if (i == 4) in[0].tensor.dtype = KILN_I32;
        if (i == 5) in[0].tensor.device = KILN_CUDA;
        if (i == 6) in[0].tensor.data = NULL;
        if (i == 7) in[0].tensor.stride = apart;
        if (i == 8) out.name = "z";
        if (i == 9) out.tensor.dim = wide;
        if (i == 10) out.tensor.stride = apart;
        if (i == 13) in[1].name = "x";
        if (i == 11) in[0].tensor.rank = 77;
        error e = {0};
        kiln_status status = program_run(p, in, n_in, &out, 1, NULL, NULL, &e);
        CHECK_MSG(status == want[i].status && strstr(e.message, "program 'net'") && strstr(e.message, want[i].part),
                  "case %d: wanted '%s', got %s '%s'", i, want[i].part, status_name(status), e.message);
    }
    program_free(p);
    runtime_free(rt);
}

static int say_stop(void *arg) { return (*(int *)arg)-- == 0; }

static void test_cancel_between_ops(void)
{
    runtime *rt = make_runtime((runtime_setting){.unfused = 1});
    REQUIRE(rt && (weights || open_weights()));
    kiln_program *p = make_program(rt);
    REQUIRE(p);
    float x[ROWS * WIDTH] = {0}, y[ROWS * MADE];
    kiln_bind in = bind("x", x, ROWS, WIDTH), out = bind("y", y, ROWS, MADE);
    for (int after = 0; after < 5; after++) {
        int left = after;
        error e = {0};
        y[0] = -7;
        kiln_status status = program_run(p, &in, 1, &out, 1, say_stop, &left, &e);
        CHECK_EQ(status, after < 3 ? KILN_CANCELLED : KILN_OK); /* three ops */
        if (after < 3) CHECK(y[0] == -7);
    }
    program_free(p);
    runtime_free(rt);
}

static void test_kept_programs(void)
{
    runtime *rt = make_runtime((runtime_setting){0});
    REQUIRE(rt && (weights || open_weights()));
    error e = {0};
    int fresh = 0;
    kiln_program *a = program_keep(rt, "a", "net", 0, &fresh, &e), *b;
    REQUIRE(a);
    CHECK_EQ(fresh, 1);
    b = program_keep(rt, "a", "net", 0, &fresh, &e); /* not planned yet: another, or it would be recorded twice */
    CHECK_EQ(fresh, 1);
    program_free(a);
    record_net(program_recording(b));
    CHECK_EQ(program_plan(b, &e), KILN_OK);
    CHECK_EQ(program_plan(b, &(error){0}), KILN_ERR_BUG);
    program_free(b);
    a = program_keep(rt, "a", "net", 0, &fresh, &e);
    CHECK_EQ(fresh, 0);
    CHECK(a == b);
    for (int i = 0; i < 40; i++) { /* others push it out; who holds it can still run it */
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        kiln_program *p = program_keep(rt, key, "net", 0, &fresh, &e);
        REQUIRE(p);
        record_net(program_recording(p));
        CHECK_EQ(program_plan(p, &e), KILN_OK);
        program_free(p);
    }
    float x[ROWS * WIDTH] = {0}, y[ROWS * MADE];
    kiln_bind in = bind("x", x, ROWS, WIDTH), out = bind("y", y, ROWS, MADE);
    CHECK_EQ(program_run(a, &in, 1, &out, 1, NULL, NULL, &e), KILN_OK);
    program_free(a);
    a = program_keep(rt, "a", "net", 0, &fresh, &e);
    CHECK_EQ(fresh, 1);
    program_free(a);
    a = program_keep(rt, "k39", "net", 0, &fresh, &e);
    CHECK_EQ(fresh, 0);
    program_free(a);
    runtime_free(rt);
}

static void test_misuse(void)
{
    runtime *rt = make_runtime((runtime_setting){0});
    REQUIRE(rt && (weights || open_weights()));
    error e = {0};
    kiln_program *p = program_new(rt, "net", 0, &e);
    REQUIRE(p);
    CHECK_EQ(program_run(p, NULL, 0, NULL, 0, NULL, NULL, &(error){0}), KILN_ERR_BUG);
    CHECK_EQ(program_info(p, &(kiln_program_info){.size = sizeof(kiln_program_info)}), KILN_ERR_INVALID);
    CHECK_EQ(program_plan(p, &e), KILN_ERR_INVALID);
    CHECK_STR(e.message, "program 'net' has no output");
    program_free(p);
    e = (error){0};
    CHECK(program_new(rt, "net", KILN_I32, &e) == NULL);
    CHECK_EQ(e.status, KILN_ERR_UNSUPPORTED);
    CHECK_STR(e.message, "precision i32: a program's is f32, bf16 or f16");
    e = (error){0};
    p = program_new(rt, "net", 0, &e);
    REQUIRE(p);
    record_weight(program_recording(p), weights, "w.wieght", 1, DIM(1), 0);
    CHECK_EQ(program_plan(p, &e), KILN_ERR_INVALID);
    CHECK_MSG(strstr(e.message, "no tensor 'w.wieght'"), "%s", e.message);
    program_free(p);
    e = (error){0};
    p = program_new(rt, "net", 0, &e);
    REQUIRE(p);
    CHECK_EQ(record_weight(program_recording(p), weights, "nothing", 1, DIM(1), 1).id, 0); /* optional */
    record_weight(program_recording(p), weights, "w", 2, DIM(8, 6), 0);
    CHECK_EQ(program_plan(p, &e), KILN_ERR_INVALID);
    CHECK_MSG(strstr(e.message, "w.safetensors: tensor 'w' is [6,8], this model wants [8,6]"), "%s", e.message);
    program_free(p);
    runtime_free(rt);
}

static void test_an_estimate_computes_nothing(void)
{
    runtime *rt = make_runtime((runtime_setting){0});
    REQUIRE(rt && (weights || open_weights()));
    kiln_program *p = make_program(rt);
    REQUIRE(p);
    float x[ROWS * WIDTH] = {0}, y[ROWS * MADE];
    error e = {0};
    for (int i = 0; i < ROWS * MADE; i++) y[i] = -7;
    kiln_bind in = bind("x", x, ROWS, WIDTH), out = bind("y", y, ROWS, MADE);
    CHECK_EQ(program_estimate(p, &in, 1, &out, 1, &e), KILN_OK);
    for (int i = 0; i < ROWS * MADE; i++) CHECK(y[i] == -7);
    in.tensor.data = out.tensor.data = NULL;
    CHECK_EQ(program_estimate(p, &in, 1, &out, 1, &e), KILN_OK);
    CHECK_EQ(runtime_usage_get(rt).flops, 2 * 2 * ROWS * WIDTH * MADE);
    CHECK_EQ(runtime_weight_peak(rt), 0);
    CHECK_EQ(program_run(p, &in, 1, &out, 1, NULL, NULL, &e), KILN_ERR_UNSUPPORTED); /* a run needs data */
    e = (error){0};
    CHECK_EQ(program_estimate(p, NULL, 0, NULL, 0, &e), KILN_ERR_INVALID); /* bindings are still checked */
    program_free(p);
    runtime_free(rt);
}

/* The plain backend stores f16, the processor's does not: said before anything is recorded, and of a program that asks
 * by itself. */
static void test_a_precision_that_the_device_has_not(void)
{
    error e = {0};
    CHECK(runtime_new(&(runtime_setting){.backend = &backend_cpu, .threads = 1, .precision = KILN_F16}, &e) == NULL);
    CHECK_EQ(e.status, KILN_ERR_UNSUPPORTED);
    CHECK_STR(e.message, "precision f16: 'cpu' computes in f32 or bf16");
    for (int plain = 0; plain < 2; plain++) {
        runtime *rt = make_runtime((runtime_setting){.backend = plain ? &backend_reference : &backend_cpu});
        e = (error){0};
        kiln_program *p = program_new(rt, "net", KILN_F16, &e);
        CHECK_MSG(plain ? p != NULL
                        : !p && e.status == KILN_ERR_UNSUPPORTED &&
                              strstr(e.message, "'cpu' computes in f32 or bf16") != NULL,
                  "%s", e.message);
        program_free(p);
        runtime_free(rt);
    }
}

static void test_not_finite_names_the_place(void)
{
    static const struct {
        float x;
        const char *part;
    } rows[] = {{1, NULL},
                {3e38f, "at block.0: affine made a number that is not finite"},
                {NAN, "at block.0: affine"},
                {1.5e38f, "at block.0: linear"}};
    for (int on = 0; on < 2; on++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            runtime *rt = make_runtime((runtime_setting){.check_finite = on, .unfused = 1});
            REQUIRE(rt && (weights || open_weights()));
            kiln_program *p = make_program(rt);
            REQUIRE(p);
            float x[ROWS * WIDTH], y[ROWS * MADE];
            error e = {0};
            for (int k = 0; k < ROWS * WIDTH; k++) x[k] = rows[i].x;
            kiln_bind in = bind("x", x, ROWS, WIDTH), out = bind("y", y, ROWS, MADE);
            kiln_status status = program_run(p, &in, 1, &out, 1, NULL, NULL, &e);
            CHECK_MSG(on && rows[i].part ? status == KILN_ERR_INVALID && strstr(e.message, rows[i].part)
                                         : status == KILN_OK,
                      "%g: %s", (double)rows[i].x, e.message);
            program_free(p);
            runtime_free(rt);
        }
}

static void test_bad_weight_is_named(void)
{
    char path[300];
    float data[8] = {1, 2, NAN};
    error e = {0};
    snprintf(path, sizeof path, "%s/nan.safetensors", test_folder());
    REQUIRE(tiny_write(path, "{\"w\":{\"dtype\":\"F32\",\"shape\":[1,8],\"data_offsets\":[0,32]}}", data, sizeof data));
    kiln_weights *bad = weights_open(path, &e);
    runtime *rt = make_runtime((runtime_setting){0});
    REQUIRE(rt && bad);
    kiln_program *p = program_new(rt, "net", 0, &e);
    recording *r = program_recording(p);
    kiln_t x = record_input(r, "x", KILN_F32, 2, DIM(ROWS, WIDTH));
    record_output(r, "y", record_op(r, OP_LINEAR, NULL, IN(x, record_weight(r, bad, "w", 2, DIM(1, 8), 0), {0}), 3));
    CHECK_MSG(program_plan(p, &e) == KILN_OK, "%s", e.message);
    float in_data[ROWS * WIDTH] = {0}, y[ROWS];
    kiln_bind in = bind("x", in_data, ROWS, WIDTH), out = bind("y", y, ROWS, 1);
    CHECK_EQ(program_run(p, &in, 1, &out, 1, NULL, NULL, &e), KILN_ERR_INVALID);
    CHECK_MSG(strstr(e.message, "nan.safetensors") && strstr(e.message, "'w'"), "%s", e.message);
    program_free(p);
    runtime_free(rt);
    weights_unref(bad);
}

static void fail_each_allocation(const backend *b, int persistent)
{
    int done = 0;
    for (int64_t k = 0; k < 3000 && !done; k++) {
        error e = {0};
        float x[ROWS * WIDTH] = {0}, y[ROWS * MADE];
        kiln_bind in = bind("x", x, ROWS, WIDTH), out = bind("y", y, ROWS, MADE);
        kiln_program *p = NULL;
        mem_fail_at(k, persistent);
        runtime *rt = runtime_new(&(runtime_setting){.backend = b, .threads = 1, .precision = KILN_F32}, &e);
        if (rt) p = program_new(rt, "net", 0, &e);
        if (p) record_net(program_recording(p));
        kiln_status status = p ? program_plan(p, &e) : e.status;
        if (p && status == KILN_OK) status = program_run(p, &in, 1, &out, 1, NULL, NULL, &e);
        done = mem_count() <= k;
        mem_fail_at(-1, 0);
        CHECK_MSG(status == (done ? KILN_OK : KILN_ERR_NOMEM) || (status == KILN_OK && !persistent),
                  "allocation %lld: %s %s", (long long)k, status_name(status), e.message);
        if (status != KILN_OK) CHECK_MSG(e.message[0], "allocation %lld: no message", (long long)k);
        if (status == KILN_ERR_NOMEM && p &&
            program_info(p, &(kiln_program_info){.size = sizeof(kiln_program_info)}) == KILN_OK) {
            e = (error){0};
            CHECK_MSG(program_run(p, &in, 1, &out, 1, NULL, NULL, &e) == KILN_OK,
                      "allocation %lld: it does not run afterwards: %s", (long long)k, e.message);
        }
        program_free(p);
        runtime_free(rt);
    }
    CHECK(done);
}

static void test_no_memory(void)
{
    REQUIRE(weights || open_weights());
    fail_each_allocation(&backend_reference, 0);
    fail_each_allocation(&backend_reference, 1);
    fail_each_allocation(&backend_cpu, 0);
}

static void test_close_weights(void)
{
    weights_unref(weights);
    weights = NULL;
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_it_runs),
                                      CASE(test_binding_errors),
                                      CASE(test_cancel_between_ops),
                                      CASE(test_kept_programs),
                                      CASE(test_misuse),
                                      CASE(test_an_estimate_computes_nothing),
                                      CASE(test_a_precision_that_the_device_has_not),
                                      CASE(test_not_finite_names_the_place),
                                      CASE(test_bad_weight_is_named),
                                      CASE(test_no_memory),
                                      CASE(test_close_weights)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
