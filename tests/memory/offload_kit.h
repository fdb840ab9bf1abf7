/* offload_kit.h - programs over made weights, for tests of memory: the real residency, executor and graph code on the
 * host's memory and on a device that is none (fake_device.h). For test_offload.c and test_prefetch.c; the tests of the
 * same names in tests/cuda_emu include these with the CUDA backend as DEVICE.
 */
#ifndef KILN_TESTS_OFFLOAD_KIT_H
#define KILN_TESTS_OFFLOAD_KIT_H

#include "../memory/fake_device.h"
#include "run_or_estimate.h"
#include "graph_kit.h"

#include "backend/runtime.h"
#include "base/log.h"
#include "base/memory_alloc.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

#ifndef DEVICE
#define DEVICE fake_backend
#define TRUTH backend_reference
#define BUDGETS 60
#define OTHER_LIMITS 6 /* for orders of programs other than estimated */
#define ORDERS 100
#define SPREAD 12 /* every k/SPREAD-th failing call */
#define SKIPPED 0
#define DEAF 20 /* orders with waits that do nothing */
#endif

enum { LAYERS = 14, ROWS = 2, WIDTH = 96, PROGRAMS = 3 };

static kiln_weights *set;
static int full;

/* Matrices of 1 KB to 300 KB, biases and norms of a few hundred bytes, in three types, each stored as it may be. */
static size_t list_weights(made_tensor *t, int64_t *width)
{
    dice d = {5};
    size_t n = 0;
    width[0] = WIDTH;
    for (int i = 0; i < LAYERS; i++) {
        uint32_t type = i % 3 == 0 ? KILN_F32 : i % 3 == 1 ? KILN_F16 : KILN_BF16;
        width[i + 1] = i == LAYERS - 1 ? WIDTH : 8 + 8 * (int64_t)dice_below(&d, 35);
        t[n] = (made_tensor){.dtype = type, .rank = 2, .dim = {width[i + 1], width[i]}, .spread = 0.15f};
        snprintf(t[n++].name, sizeof t[0].name, "w.%d", i);
        t[n] = (made_tensor){.dtype = KILN_F32, .rank = 1, .dim = {width[i + 1]}, .spread = 0.1f};
        snprintf(t[n++].name, sizeof t[0].name, "b.%d", i);
        t[n] = (made_tensor){.dtype = KILN_F16, .rank = 1, .dim = {width[i + 1]}, .spread = 0.2f, .centre = 1};
        snprintf(t[n++].name, sizeof t[0].name, "g.%d", i);
    }
    return n;
}

static int64_t width[LAYERS + 1];

static kiln_t weight_at(recording *r, const char *kind, int i, uint32_t rank, int64_t rows)
{
    char name[32];
    snprintf(name, sizeof name, "%s.%d", kind, i);
    return record_weight(r, set, name, rank, rank == 2 ? DIMS(rows, width[i]) : DIMS(rows), 0);
}

/* Layers first to last, each: linear, activation, norm; from layer 0 again when `twice`, so that weights are used
 * twice. */
static void record_layers(recording *r, int first, int last, int twice)
{
    int64_t dim[2] = {ROWS, width[first]};
    kiln_t x = record_input(r, "x", KILN_F32, 2, dim), start = x;
    for (int pass = 0; pass <= twice; pass++)
        for (int i = first; i < last; i++) {
            kiln_t in[] = {x, weight_at(r, "w", i, 2, width[i + 1]), weight_at(r, "b", i, 1, width[i + 1])};
            kiln_t y = record_op(r, OP_LINEAR, &(op_attr){0}, in, 3);
            y = record_op(r, OP_ACT, &(op_attr){.act = {KILN_ACT_GELU}}, &y, 1);
            kiln_t norm[] = {y, weight_at(r, "g", i, 1, width[i + 1]), weight_at(r, "b", i, 1, width[i + 1])};
            x = record_op(r, OP_LAYER_NORM, &(op_attr){.norm = {0, 1e-5f}}, norm, 3);
        }
    if (width[first] == width[last]) x = record_op(r, OP_ADD, &(op_attr){0}, (kiln_t[]){x, start}, 2);
    record_output(r, "y", x);
}

/* Program 0: everything; 1: everything, twice over; 2: the first half. */
static const struct {
    int first, last, twice;
} shape_of[PROGRAMS] = {{0, LAYERS, 0}, {0, LAYERS, 1}, {0, LAYERS / 2, 0}};
static float wanted[PROGRAMS][ROWS * 512];

static kiln_program *plan_program(runtime *rt, int which, error *e)
{
    kiln_program *p = program_new(rt, "net", 0, e);
    if (!p) return NULL;
    record_layers(program_recording(p), shape_of[which].first, shape_of[which].last, shape_of[which].twice);
    if (program_plan(p, e) == KILN_OK) return p;
    program_free(p);
    return NULL;
}

static kiln_bind bind_to(const char *name, float *data, const int64_t dim[2])
{
    return (kiln_bind)KILN_BIND(
        name,
        {.size = sizeof(kiln_tensor), .dtype = KILN_F32, .device = KILN_CPU, .rank = 2, .dim = dim, .data = data});
}

/* step: other numbers go in each time. */
static kiln_status run_program(kiln_program *p, int which, int step, float *y, error *e)
{
    float x[ROWS * 512];
    dice d = {(uint64_t)step + 3};
    int64_t in = width[shape_of[which].first], out = width[shape_of[which].last];
    for (int i = 0; i < ROWS * in; i++) x[i] = dice_real(&d);
    return run_or_estimate(p, (kiln_bind[]){bind_to("x", x, KILN_DIMS(ROWS, in))}, 1,
                           (kiln_bind[]){bind_to("y", y, KILN_DIMS(ROWS, out))}, 1, NULL, NULL, e);
}

static inline size_t y_bytes(int which) { return (size_t)(ROWS * width[shape_of[which].last]) * sizeof(float); }

static runtime *open_runtime(runtime_setting s)
{
    error e = {0};
    if (!s.backend) s.backend = &DEVICE;
    s.threads = 1;
    s.precision = KILN_F32;
    runtime *rt = runtime_new(&s, &e);
    if (!rt && fake_device_look().calls == 0) CHECK_MSG(0, "%s", e.message);
    return rt;
}

/* What each program makes of step `step`, without a limit: plain kernels on the host, for other kernels the same ones.
 */
static int expect(int which, int step, float *out)
{
    error e = {0};
    runtime *rt = open_runtime((runtime_setting){.backend = &TRUTH});
    kiln_program *p = rt ? plan_program(rt, which, &e) : NULL;
    int ok = p && run_program(p, which, step, out, &e) == KILN_OK;
    CHECK_MSG(ok, "%s", e.message);
    program_free(p);
    runtime_free(rt);
    return ok;
}

/* The least and the whole limit of a program on a backend. */
static inline int limits(const backend *b, int which, size_t *least, size_t *whole)
{
    error e = {0};
    float y[ROWS * 512];
    runtime *rt = open_runtime((runtime_setting){.backend = b});
    kiln_program *p = rt ? plan_program(rt, which, &e) : NULL;
    if (!CHECK_MSG(p != NULL, "%s", e.message)) return runtime_free(rt), 0;
    set_estimating(rt, 1);
    int ok = CHECK_EQ(run_program(p, which, 0, y, &e), KILN_OK);
    set_estimating(rt, 0);
    *least = runtime_get_estimate(rt).least, *whole = runtime_get_estimate(rt).whole;
    program_free(p);
    runtime_free(rt);
    return ok && CHECK(*least > 0 && *whole > *least);
}

static int account_is_exact(runtime *rt, size_t limit)
{
    const budget *b = residency_budget(runtime_residency(rt));
    size_t held = 0;
    for (int k = 0; k < MEMORY_KINDS; k++) held += budget_held(b, (memory_kind)k);
    return CHECK_EQ(held, budget_used(b)) &&
           CHECK_MSG(budget_peak(b) <= limit, "%zu held of %zu", budget_peak(b), limit);
}

/* The weights, and what each program makes of them. KILN_TEST_FULL is looked for. 0: no tests are possible. */
static int offload_open(void)
{
    static made_tensor list[3 * LAYERS];
    char path[512];
    error e = {0};
    log_level_set(KILN_LOG_ERROR);
    full = getenv("KILN_TEST_FULL") != NULL;
    size_t n = list_weights(list, width);
    snprintf(path, sizeof path, "%s/made.safetensors", test_folder());
    if (!made_write(path, list, n, 1) || !(set = weights_open(path, &e))) return 0;
    for (int which = 0; which < PROGRAMS; which++) {
        fake_device_open(&(fake_setting){.bytes = 1 << 24, .fail_at = -1});
        if (!expect(which, 0, wanted[which])) return 0;
        fake_device_close();
    }
    return 1;
}

#endif
