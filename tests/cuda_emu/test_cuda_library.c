/* test_cuda_library.c - engine/backend/cuda/cublaslt.c against a stand-in of cuBLASLt (fake_cublaslt.c): programs in
 * every order and through graphs, every call of the library failing, libraries that are not there.
 * test_cuda_convolution.c includes this file for cudnn.c and cuDNN.
 *
 * Tolerances: f32 1e-5 as products in test_ops_table.h; bf16 storage between three layers 6e-3, a rounding of 2^-8 at
 * most of each of four tensors, rounded to nearest (half of that) in either of two orders of sums; of pictures twice
 * that, since cuDNN's products are rounded before their epilogue.
 */
#include "../memory/fake_device.h"
#include "fake_cuda.h"
#include "graph_kit.h"

#include "backend/cuda_load.h"
#include "backend/runtime.h"
#include "base/log.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

extern const cuda_library kiln_cuda_library;
enum { LAYERS = 5, ROWS = 40, WIDTH = 96, PART = 88, STEPS = 4 };

static kiln_weights *set;
static const fake_vendor *library;
#ifndef PICTURES
#define PICTURES 0
#endif
enum {
    pictures = PICTURES
}; /* 0: layers are linear; 1: convolutions of 3x3 over a picture of 5x8, and the library is cuDNN */
static int full;

/* ---- a program: a residual that the result takes the place of, an activation, layers with a bias and without; the
 * last two see a part of the columns, so that in bf16 one operand is aligned to 16 bytes and one to 8, which the
 * library is not given ---- */

static int64_t columns_of(int i) { return i >= 3 ? PART : WIDTH; }

static kiln_t layer(recording *r, kiln_t x, int i, int bias)
{
    char name[32];
    snprintf(name, sizeof name, "%c.%d", pictures ? 'c' : 'w', i);
    kiln_t in[3] = {x, record_weight(r, set, name, pictures ? 4 : 2, DIMS(WIDTH, columns_of(i), 3, 3), 0), {0}};
    snprintf(name, sizeof name, "b.%d", i);
    if (bias) in[2] = record_weight(r, set, name, 1, DIMS(WIDTH), 0);
    if (pictures) return record_op(r, OP_CONV2D, &(op_attr){.conv2d = {{1, 1}, {1, 1, 1, 1}, {1, 1}, 1}}, in, 3);
    return record_op(r, OP_LINEAR, &(op_attr){0}, in, 3);
}

static kiln_t part(recording *r, kiln_t x, int start)
{
    return record_op(r, OP_SLICE, &(op_attr){.slice = {pictures ? 3 : 1, start, PART}}, &x, 1);
}

static kiln_program *plan_program(runtime *rt, error *e)
{
    kiln_program *p = program_new(rt, "net", 0, e);
    if (!p) return NULL;
    recording *r = program_recording(p);
    kiln_t x = pictures ? record_input(r, "x", KILN_F32, 4, DIMS(1, 5, 8, WIDTH))
                        : record_input(r, "x", KILN_F32, 2, DIMS(ROWS, WIDTH)),
           z = layer(r, x, 0, 1), h = layer(r, x, 1, 1);
    h = record_op(r, OP_ACT, &(op_attr){.act = {KILN_ACT_GELU_TANH}}, &h, 1);
    h = layer(r, h, 2, 1);
    h = record_op(r, OP_ADD, &(op_attr){0}, (kiln_t[]){h, z}, 2);
    z = layer(r, part(r, h, 8), 3, 0);
    h = layer(r, part(r, h, 4), 4, 1);
    record_output(r, "y", record_op(r, OP_ADD, &(op_attr){0}, (kiln_t[]){h, z}, 2));
    if (program_plan(p, e) == KILN_OK) return p;
    program_free(p);
    return NULL;
}

static kiln_bind bind_to(const char *name, float *data)
{
    static const int64_t picture[4] = {1, 5, 8, WIDTH}, matrix[2] = {ROWS, WIDTH};
    return (kiln_bind)KILN_BIND(name, {.size = sizeof(kiln_tensor),
                                       .dtype = KILN_F32,
                                       .device = KILN_CPU,
                                       .rank = pictures ? 4 : 2,
                                       .dim = pictures ? picture : matrix,
                                       .data = data});
}

static kiln_status run_step(kiln_program *p, int step, float *y, error *e)
{
    float x[ROWS * WIDTH];
    dice d = {(uint64_t)step + 3};
    for (int i = 0; i < ROWS * WIDTH; i++) x[i] = dice_real(&d);
    return program_run(p, (kiln_bind[]){bind_to("x", x)}, 1, (kiln_bind[]){bind_to("y", y)}, 1, NULL, NULL, e);
}

static float wanted[2][STEPS][ROWS * WIDTH]; /* f32, bf16 */
static const uint32_t precision[2] = {KILN_F32, KILN_BF16};
static double distance(const float *a, const float *b)
{
    double d = 0, n = 0;
    for (int i = 0; i < ROWS * WIDTH; i++) d += pow((double)a[i] - (double)b[i], 2), n += pow((double)b[i], 2);
    return sqrt(d / n);
}
static int near_enough(const float *y, int kind, int step)
{
    double far = distance(y, wanted[kind][step]), most = kind ? 6e-3 * (1 + pictures) : 1e-5;
    return CHECK_MSG(far <= most, "step %d: relative error %.3g, at most %.3g", step, far, most);
}

static int expect(void)
{
    error e = {0};
    int ok = 1;
    for (int kind = 0; kind < 2; kind++) {
        runtime *rt = runtime_new(
            &(runtime_setting){.backend = &backend_reference, .threads = 1, .precision = precision[kind]}, &e);
        kiln_program *p = rt ? plan_program(rt, &e) : NULL;
        for (int step = 0; step < STEPS && p; step++) ok = ok && run_step(p, step, wanted[kind][step], &e) == KILN_OK;
        ok = ok && CHECK_MSG(p != NULL, "%s", e.message);
        program_free(p);
        runtime_free(rt);
    }
    return ok;
}

static const uint64_t by_library[2] = {LAYERS * STEPS, (LAYERS - 1) * STEPS};

/* A run of the process's CUDA backend over a fresh fake device; returns the stand-in's products that happened. */
static uint64_t run_all(int kind, uint64_t seed, int graphs, uint64_t *given)
{
    static float y[ROWS * WIDTH], first[STEPS][ROWS * WIDTH];
    error e = {0};
    fake_vendor_report before = library->report();
    fake_device_open(&(fake_setting){.bytes = 64 << 20, .seed = seed, .graphs = graphs, .fail_at = -1});
    runtime *rt = runtime_new(
        &(runtime_setting){.backend = kiln_cuda_library.backend, .threads = 1, .precision = precision[kind]}, &e);
    kiln_program *p = rt ? plan_program(rt, &e) : NULL;
    for (int step = 0; step < STEPS && p; step++) {
        int ok = CHECK_MSG(run_step(p, step, y, &e) == KILN_OK, "%s", e.message) && near_enough(y, kind, step);
        if (ok && seed == 1) memcpy(first[step], y, sizeof y);
        if (ok) CHECK_MSG(!memcmp(y, first[step], sizeof y), "seed %d, step %d: other bytes", (int)seed, step);
    }
    CHECK_MSG(p != NULL, "%s", e.message);
    program_free(p);
    runtime_free(rt);
    CHECK_EQ(fake_device_close().faults, 0);
    fake_cuda_forget();
    fake_vendor_report after = library->report();
    CHECK_EQ(after.faults, 0);
    CHECK_EQ(after.live, 0);
    if (given) *given = after.products - before.products;
    return after.happened - before.happened;
}

static void test_programs_through_the_library(void)
{
    for (int kind = 0; kind < 2; kind++)
        for (uint64_t seed = 1; seed <= (full || !pictures ? 12u : 4u); seed++)
            CHECK_EQ(run_all(kind, seed, 0, NULL), by_library[kind]);
}

/* The second run is captured; what was enqueued while it was happens at each launch. */
static void test_graphs_of_the_library(void)
{
    for (int kind = 0; kind < 2; kind++)
        for (uint64_t seed = 1; seed <= (full || !pictures ? 12u : 4u); seed++) {
            uint64_t given = 0;
            CHECK_EQ(run_all(kind, seed, 1, &given), by_library[kind]);
            CHECK_MSG(given < by_library[kind], "%d products were given: there was no graph", (int)given);
        }
}

/* ---- every call fails ---- */

/* The k-th call of the library fails: the op is made by kiln's own kernels, or the run ends with a word; the next one
 * is right. */
static int survives(int64_t k, uint64_t *calls)
{
    static float y[ROWS * WIDTH];
    error e = {0};
    int ok = 1;
    uint64_t before = library->report().calls;
    fake_device_open(&(fake_setting){.bytes = 64 << 20, .seed = (uint64_t)k, .graphs = 1, .fail_at = -1});
    runtime *rt =
        runtime_new(&(runtime_setting){.backend = kiln_cuda_library.backend, .threads = 1, .precision = KILN_F32}, &e);
    library->fail_at(k);
    kiln_program *p = rt ? plan_program(rt, &e) : NULL;
    if (!CHECK_MSG(p != NULL, "call %d fails: %s", (int)k, e.message)) ok = 0;
    for (int step = 0; step < STEPS && p; step++) {
        e = (error){0};
        kiln_status status = run_step(p, step, y, &e);
        ok &= status == KILN_OK ? near_enough(y, 0, step)
                                : CHECK_MSG(strstr(e.message, pictures ? "cuDNN" : "cuBLASLt"), "call %d fails: %s",
                                            (int)k, e.message);
    }
    library->fail_at(-1);
    if (p) ok &= CHECK_EQ(run_step(p, 0, y, &e), KILN_OK) && near_enough(y, 0, 0);
    program_free(p);
    runtime_free(rt);
    *calls = library->report().calls - before;
    ok &= CHECK_EQ(fake_device_close().faults, 0);
    fake_cuda_forget();
    return ok & CHECK_EQ(library->report().live, 0) & CHECK_EQ(library->report().faults, 0);
}

static void test_every_call_of_the_library_may_fail(void)
{
    uint64_t calls = 0, now;
    REQUIRE(survives(INT64_MAX, &calls));
    REQUIRE(calls > 50);
    for (int64_t k = 0; k < (int64_t)calls; k += full || !pictures ? 1 : 3) REQUIRE(survives(k, &now));
}

/* ---- libraries that are not there: each in a process of its own, since a library is looked for once ---- */

static void apart(int (*body)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int ok = body();
        fflush(stdout);
        _exit(ok ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Opening the backend's device says this; "": it opens. */
static int opening_says(const char *products, const char *file, const char *words)
{
    error e = {0};
    memory_device *d = NULL;
    if (products)
        setenv("KILN_CUDA_GEMM", products, 1);
    else
        unsetenv("KILN_CUDA_GEMM");
    if (file) setenv("KILN_CUBLASLT", file, 1);
    kiln_status status = kiln_cuda_library.backend->open(0, &d, &e);
    if (!words[0]) return CHECK_MSG(status == KILN_OK, "%s", e.message);
    return CHECK_EQ(status, KILN_ERR_UNSUPPORTED) & CHECK_MSG(strstr(e.message, words), "%s", e.message);
}

static int names_no_file(void)
{
    return opening_says(NULL, "/nowhere/libcublasLt.so", "KILN_CUBLASLT: /nowhere/libcublasLt.so");
}
static int names_another_library(void) { return opening_says(NULL, "libm.so.6", "lacks a function"); }
static int asks_for_what_is_none(void)
{
    return opening_says("fast", NULL, "KILN_CUDA_GEMM=fast: it is plain, mma, wgmma, library, cudnn");
}
static int asks_on_an_old_chip(void)
{
    fake_cuda_chip(7, 5);
    return opening_says("library", NULL, "wants sm_80 or newer; this device is sm_75");
}
static int does_not_start(void)
{
    fake_cuda_vendor("KILN_CUBLASLT")->fail_at(0);
    return opening_says("library", NULL, "does not start");
}
static int below_the_library_none_is_opened(void)
{
    return opening_says("mma", "/nowhere/libcublasLt.so", "") &
           CHECK_STR(kiln_cuda_library.backend->numerics(), "sm_90, tensor cores");
}
static int is_part_of_result_keys(void)
{
    return opening_says(NULL, NULL, "") &
           CHECK_STR(kiln_cuda_library.backend->numerics(), "sm_90, tensor cores, cuBLASLt 13.1.0, 132 SMs");
}

static int cudnn_is_not_there(void)
{
    setenv("KILN_CUDNN", "/nowhere/libcudnn.so", 1);
    return opening_says("cudnn", NULL, "cuDNN is not installed (KILN_CUDNN=FILE names its file): /nowhere/libcudnn.so");
}
static int cudnn_is_another_library(void)
{
    setenv("KILN_CUDNN", "libm.so.6", 1);
    return opening_says("cudnn", NULL, "libm.so.6, as cuDNN, cannot be used: lacks a function");
}
static int cudnn_does_not_start(void)
{
    fake_cuda_vendor("KILN_CUDNN")->fail_at(0);
    return opening_says("cudnn", NULL, "as cuDNN, cannot be used: CUDNN_STATUS_");
}
static int cudnn_is_part_of_result_keys(void)
{
    return opening_says("cudnn", NULL, "") & CHECK_STR(kiln_cuda_library.backend->numerics(),
                                                       "sm_90, tensor cores, cuBLASLt 13.1.0, cuDNN 9.19.0, 132 SMs");
}

static void test_libraries_that_are_not_there(void)
{
    apart(names_no_file), apart(names_another_library), apart(asks_for_what_is_none), apart(asks_on_an_old_chip),
        apart(does_not_start);
    apart(below_the_library_none_is_opened), apart(is_part_of_result_keys);
    apart(cudnn_is_not_there), apart(cudnn_is_another_library), apart(cudnn_does_not_start),
        apart(cudnn_is_part_of_result_keys);
}

/* ---- the second of two devices, from a thread that never heard of it ---- */

static void *run_elsewhere(void *arg)
{
    static float y[ROWS * WIDTH];
    error e = {0};
    int ok = CHECK_MSG(run_step(arg, 0, y, &e) == KILN_OK, "%s", e.message) && near_enough(y, 0, 0);
    return ok ? arg : NULL;
}

static int second_device(void)
{
    error e = {0};
    void *ok = NULL;
    pthread_t thread;
    fake_cuda_devices(2);
    fake_device_open(&(fake_setting){.bytes = 64 << 20, .seed = 3, .graphs = 1, .fail_at = -1});
    runtime *rt = runtime_new(
        &(runtime_setting){
            .backend = kiln_cuda_library.backend, .threads = 1, .precision = KILN_F32, .device_index = 1},
        &e);
    kiln_program *p = rt ? plan_program(rt, &e) : NULL;
    if (!CHECK_MSG(p != NULL, "%s", e.message)) return 0;
    for (int i = 0; i < STEPS; i++) {
        pthread_create(&thread, NULL, run_elsewhere, p);
        pthread_join(thread, &ok);
        if (!ok) return 0;
    }
    program_free(p);
    runtime_free(rt);
    return CHECK_EQ(fake_device_close().faults, 0) & CHECK_EQ(library->report().faults, 0) &
           CHECK(library->report().happened > 0);
}
static void test_the_second_of_two_devices(void) { apart(second_device); }

int main(int argc, char **argv)
{
    /* what needs a process without a device comes first */
    static const test_case tests[] = {
        CASE(test_libraries_that_are_not_there),       CASE(test_the_second_of_two_devices),
        CASE(test_programs_through_the_library),       CASE(test_graphs_of_the_library),
        CASE(test_every_call_of_the_library_may_fail),
    };
    static made_tensor list[3 * LAYERS];
    char path[512];
    error e = {0};
    log_level_set(KILN_LOG_ERROR);
    for (int i = 0; i < LAYERS; i++) {
        made_tensor *t = &list[3 * i];
        t[0] = (made_tensor){.dtype = KILN_F32, .rank = 2, .dim = {WIDTH, columns_of(i)}, .spread = 0.15f};
        t[1] = (made_tensor){.dtype = KILN_F32, .rank = 1, .dim = {WIDTH}, .spread = 0.5f};
        t[2] = (made_tensor){.dtype = KILN_F32, .rank = 4, .dim = {WIDTH, columns_of(i), 3, 3}, .spread = 0.05f};
        snprintf(t[0].name, sizeof t[0].name, "w.%d", i), snprintf(t[1].name, sizeof t[1].name, "b.%d", i),
            snprintf(t[2].name, sizeof t[2].name, "c.%d", i);
    }
    snprintf(path, sizeof path, "%s/made.safetensors", test_folder());
    full = getenv("KILN_TEST_FULL") != NULL;
    if (pictures) setenv("KILN_CUDA_GEMM", "cudnn", 1);
    library = fake_cuda_vendor(pictures ? "KILN_CUDNN" : "KILN_CUBLASLT");
    if (!library || !fake_cuda_vendor("KILN_CUBLASLT") || !fake_cuda_vendor("KILN_CUDNN"))
        return printf("# KILN_CUBLASLT or KILN_CUDNN names another library than the stand-in\n"), 2;
    if (!made_write(path, list, 3 * LAYERS, 1) || !(set = weights_open(path, &e))) return 2;
    if (!expect()) return 2;
    int status = test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
    weights_unref(set);
    return status;
}
