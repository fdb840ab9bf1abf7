/* test_offload.c - programs under a budget: the real offloader, executor and graph code on the host's memory and on a
 * device that is none (fake_device.h). The same bytes at every budget, in every legal order of streams, from run to
 * run; the account exact; every k-th call of the device failing; programs that take turns; a device that others fill.
 *
 * KILN_TEST_FULL=1 (make test-memory): 1,000 orders and every failing call; otherwise a spread of them.
 */
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

/* tests/cuda_emu/test_cuda_offload.c includes this file with the CUDA backend in place of plain kernels. */
#ifndef DEVICE
#define DEVICE fake_backend
#define TRUTH backend_reference
#define BUDGETS 60
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

static kiln_bind bind_to(const char *name, float *data, int64_t columns)
{
    kiln_bind b = {.name = name,
                   .tensor = {.size = sizeof b.tensor, .dtype = KILN_F32, .device = KILN_CPU, .rank = 2, .data = data}};
    b.tensor.dim[0] = ROWS, b.tensor.dim[1] = columns;
    b.tensor.stride[0] = columns * 4, b.tensor.stride[1] = 4;
    return b;
}

/* step: other numbers go in each time. */
static kiln_status run_program(kiln_program *p, int which, int step, float *y, error *e)
{
    float x[ROWS * 512];
    dice d = {(uint64_t)step + 3};
    int64_t in = width[shape_of[which].first], out = width[shape_of[which].last];
    for (int i = 0; i < ROWS * in; i++) x[i] = dice_real(&d);
    return run_or_estimate(p, (kiln_bind[]){bind_to("x", x, in)}, 1, (kiln_bind[]){bind_to("y", y, out)}, 1, NULL, NULL,
                           e);
}

static size_t y_bytes(int which) { return (size_t)(ROWS * width[shape_of[which].last]) * sizeof(float); }

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
static int limits(const backend *b, int which, size_t *least, size_t *whole)
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

/* ---- every budget ---- */

static int account_is_exact(runtime *rt, size_t limit)
{
    const budget *b = residency_budget(runtime_residency(rt));
    size_t held = 0;
    for (int k = 0; k < MEMORY_KINDS; k++) held += budget_held(b, (memory_kind)k);
    return CHECK_EQ(held, budget_used(b)) &&
           CHECK_MSG(budget_peak(b) <= limit, "%zu held of %zu", budget_peak(b), limit);
}

static int runs_within(const backend *b, int which, size_t limit, size_t host_limit)
{
    error e = {0};
    float y[ROWS * 512];
    int ok = 1;
    runtime *rt = open_runtime((runtime_setting){.backend = b, .memory = limit, .host_memory = host_limit});
    kiln_program *p = rt ? plan_program(rt, which, &e) : NULL;
    for (int step = 0; step < 3 && p && ok; step++) {
        memset(y, 0, sizeof y);
        ok = CHECK_MSG(run_program(p, which, 0, y, &e) == KILN_OK, "limit %zu: %s", limit, e.message) &&
             CHECK_MSG(!memcmp(y, wanted[which], y_bytes(which)), "limit %zu, run %d: other bytes", limit, step) &&
             account_is_exact(rt, limit);
    }
    program_free(p);
    if (rt)
        CHECK_EQ(budget_held(residency_budget(runtime_residency(rt)), MEMORY_WEIGHTS),
                 residency_bytes(runtime_residency(rt)));
    runtime_free(rt);
    return ok && p != NULL;
}

static void test_same_bytes_at_every_budget_on_the_host(void)
{
    for (int which = 0; which < PROGRAMS; which++) {
        size_t least, whole;
        REQUIRE(limits(&backend_reference, which, &least, &whole));
        for (size_t i = 0; i <= BUDGETS; i++)
            REQUIRE(runs_within(&backend_reference, which, least + (whole - least) * i / BUDGETS, 0));
    }
}

static void test_same_bytes_at_every_budget_on_a_device(void)
{
    size_t host_limits[] = {SIZE_MAX, 200000, 0}; /* all, some, no weights page-locked */
    for (int which = 0; which < PROGRAMS; which++) {
        size_t least, whole;
        fake_device_open(&(fake_setting){.bytes = 1 << 24, .fail_at = -1});
        REQUIRE(limits(&DEVICE, which, &least, &whole));
        fake_device_close();
        for (size_t i = 0; i <= BUDGETS; i++) {
            size_t limit = least + (whole - least) * i / BUDGETS;
            fake_device_open(&(fake_setting){.bytes = limit,
                                             .seed = i + 1,
                                             .graphs = (int)(i % 2),
                                             .fail_at = -1}); /* the device has not a byte more */
            int ok = runs_within(&DEVICE, which, limit, host_limits[i % 3]);
            fake_report r = fake_device_close();
            REQUIRE(CHECK_EQ(r.faults, 0) && CHECK(r.peak <= limit) && ok);
        }
    }
}

static void test_a_byte_less_than_the_least_is_refused(void)
{
    size_t least, whole;
    error e = {0};
    float y[ROWS * 512];
    char number[32];
    REQUIRE(limits(&backend_reference, 0, &least, &whole));
    CHECK(runs_within(&backend_reference, 0, least, 0));
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_reference, .memory = least - 1});
    kiln_program *p = plan_program(rt, 0, &e);
    REQUIRE(p);
    CHECK_EQ(run_program(p, 0, 0, y, &e), KILN_ERR_NOMEM);
    snprintf(number, sizeof number, "(%zu bytes)", least);
    CHECK_MSG(strstr(e.message, number) && strstr(e.message, "'net'"), "%s", e.message);
    CHECK_EQ(budget_used(residency_budget(runtime_residency(rt))), 0);
    program_free(p);
    runtime_free(rt);
}

/* ---- every order ---- */

/* Three steps at 40 % of the weights; returns how many runs gave other bytes. */
static int wrong_runs(uint64_t seed, int deaf, int graphs)
{
    size_t limit = 330000;
    float y[ROWS * 512];
    error e = {0};
    int wrong = 0;
    fake_device_open(&(fake_setting){.bytes = limit, .seed = seed, .deaf = deaf, .graphs = graphs, .fail_at = -1});
    runtime *rt = open_runtime((runtime_setting){.memory = limit, .host_memory = seed % 3 ? SIZE_MAX : 100000});
    kiln_program *p = rt ? plan_program(rt, 0, &e) : NULL;
    for (int step = 0; p && step < 4; step++) {
        memset(y, 0, sizeof y);
        kiln_status status = run_program(p, 0, 0, y, &e);
        CHECK_MSG(status == KILN_OK, "seed %d: %s", (int)seed, e.message);
        wrong += memcmp(y, wanted[0], y_bytes(0)) != 0;
    }
    CHECK_MSG(p != NULL, "%s", e.message);
    program_free(p);
    runtime_free(rt);
    fake_report r = fake_device_close();
    if (!deaf) CHECK_EQ(r.faults, 0);
    return wrong;
}

static void test_same_bytes_in_every_legal_order(void)
{
    uint64_t orders = full ? 1000 : ORDERS;
    int wrong = 0;
    for (uint64_t seed = 1; seed <= orders; seed++) wrong += wrong_runs(seed, 0, (int)(seed % 2));
    CHECK_EQ(wrong, 0);
    if (getenv("KILN_TEST_VERBOSE")) printf("  %d orders of the streams\n", (int)orders);
}

/* That the last test can fail: with waits that do nothing, wrong bytes come out. */
static void test_a_missing_wait_would_be_seen(void)
{
    int wrong = 0;
    for (uint64_t seed = 1; seed <= DEAF; seed++) wrong += wrong_runs(seed, 1, 0);
    CHECK_MSG(wrong > (int)DEAF, "%d of %d runs were wrong", wrong, 4 * (int)DEAF);
}

/* ---- every failure ---- */

/* The k-th call fails: an error with a message, or the right bytes; afterwards (a device that came back) the right
 * bytes. */
static int survives(int64_t k, int for_good, uint64_t *calls)
{
    float y[ROWS * 512] = {0};
    error e = {0}, later = {0};
    fake_device_open(
        &(fake_setting){.bytes = 400000, .seed = (uint64_t)k, .graphs = 1, .fail_at = k, .fail_for_good = for_good});
    runtime *rt = open_runtime((runtime_setting){.memory = 330000, .host_memory = k % 2 ? SIZE_MAX : 100000});
    kiln_program *p = rt ? plan_program(rt, 0, &e) : NULL;
    int ok = 1;
    for (int step = 0; p && step < 3 && ok; step++) {
        e = (error){0};
        kiln_status status = run_program(p, 0, 0, y, &e);
        ok = status == KILN_OK ? CHECK_MSG(!memcmp(y, wanted[0], y_bytes(0)), "call %d fails: other bytes", (int)k)
                               : CHECK_MSG(e.message[0], "call %d fails without a word", (int)k);
    }
    if (rt && !p) CHECK_MSG(e.message[0], "call %d fails without a word", (int)k);
    *calls = fake_device_look().calls;
    fake_device_fail_at(-1, 0);
    if (p && ok)
        ok = CHECK_MSG(run_program(p, 0, 0, y, &later) == KILN_OK, "after call %d failed: %s", (int)k, later.message) &&
             CHECK_MSG(!memcmp(y, wanted[0], y_bytes(0)), "after call %d failed (%s): other bytes", (int)k, e.message);
    program_free(p);
    if (rt) residency_give_up(runtime_residency(rt), SIZE_MAX);
    runtime_free(rt);
    fake_report r = fake_device_close();
    return ok & CHECK_MSG(r.faults == 0, "call %d fails: %u faults", (int)k, r.faults);
}

static void test_every_call_may_fail(void)
{
    uint64_t calls;
    REQUIRE(survives(INT64_MAX, 0, &calls)); /* none fails */
    for (int for_good = 0; for_good < 2; for_good++)
        for (int64_t k = 0; k < (int64_t)calls; k += full ? 1 : 1 + k / SPREAD) {
            uint64_t made;
            REQUIRE(survives(k, for_good, &made));
        }
    CHECK(calls > 300);
    if (getenv("KILN_TEST_VERBOSE")) printf("  %d calls, each failing once and for good\n", (int)calls);
}

/* ---- traffic ---- */

/* With everything resident a step moves its input and its output and nothing else; with less, what is streamed as well;
 * and from the second step on it is one graph. */
static void test_a_step_moves_nothing_but_what_it_must(void)
{
    float y[ROWS * 512];
    for (int tight = 0; tight < 2; tight++) {
        error e = {0};
        size_t limit = tight ? 330000 : 1 << 24;
        fake_device_open(&(fake_setting){.bytes = limit, .seed = 3, .graphs = 1, .fail_at = -1});
        runtime *rt = open_runtime((runtime_setting){.memory = limit, .host_memory = SIZE_MAX});
        kiln_program *p = plan_program(rt, 0, &e);
        REQUIRE(p);
        set_estimating(rt, 1);
        CHECK_EQ(run_program(p, 0, 0, y, &e), KILN_OK);
        set_estimating(rt, 0);
        size_t streamed = runtime_get_estimate(rt).widest.streamed;
        CHECK_EQ(fake_device_look().bytes_in, 0); /* estimating computes nothing */
        CHECK_EQ(streamed > 0, tight);
        for (int step = 0; step < 5; step++) {
            fake_report before = fake_device_look();
            CHECK_EQ(run_program(p, 0, step, y, &e), KILN_OK);
            fake_report after = fake_device_look();
            if (step == 0) continue; /* residents come in */
            size_t input = ((size_t)(ROWS * WIDTH) * sizeof(float) + 255) & ~(size_t)255;
            uint64_t moved = after.bytes_in - before.bytes_in - input;
            CHECK_EQ(after.bytes_out - before.bytes_out, y_bytes(0));
            CHECK_MSG(moved == streamed, "step %d moved %llu bytes of weights, estimated %zu", step,
                      (unsigned long long)moved, streamed);
            if (step > 1) CHECK_EQ(after.launches - before.launches, 1);
        }
        program_free(p);
        runtime_free(rt);
        CHECK_EQ(fake_device_close().faults, 0);
    }
}

/* A captured step takes other inputs each time. */
static void test_a_graph_computes_with_new_inputs(void)
{
    static float y[ROWS * 512], other[6][ROWS * 512];
    error e = {0};
    fake_device_open(&(fake_setting){.bytes = 1 << 24, .fail_at = -1});
    for (int step = 0; step < 6; step++) REQUIRE(expect(0, step, other[step]));
    fake_device_close();
    fake_device_open(&(fake_setting){.bytes = 1 << 24, .graphs = 1, .fail_at = -1});
    runtime *rt = open_runtime((runtime_setting){.host_memory = SIZE_MAX});
    kiln_program *p = plan_program(rt, 0, &e);
    REQUIRE(p);
    for (int step = 0; step < 6; step++) {
        CHECK_EQ(run_program(p, 0, step, y, &e), KILN_OK);
        CHECK(!memcmp(y, other[step], y_bytes(0)));
    }
    CHECK_EQ(fake_device_look().launches, 4); /* residents come in, then one as it is, then captured */
    program_free(p);
    runtime_free(rt);
    CHECK_EQ(fake_device_close().faults, 0);
}

/* ---- several programs ---- */

/* Two programs over one set share packed weights; two that take turns share the room instead of emptying it each time.
 */
static void test_programs_that_take_turns_share(void)
{
    float y[ROWS * 512];
    error e = {0};
    size_t least[2], whole[2];
    REQUIRE(limits(&backend_reference, 0, &least[0], &whole[0]) && limits(&backend_reference, 2, &least[1], &whole[1]));
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_reference, .memory = whole[0] + whole[1]});
    kiln_program *a = plan_program(rt, 0, &e), *b = plan_program(rt, 2, &e);
    REQUIRE(a && b);
    CHECK_EQ(run_program(a, 0, 0, y, &e), KILN_OK);
    uint64_t packed = residency_traffic_get(runtime_residency(rt)).packed;
    CHECK_EQ(run_program(b, 2, 0, y, &e), KILN_OK);
    CHECK_EQ(residency_traffic_get(runtime_residency(rt)).packed, packed); /* b's weights are all a's */
    CHECK(!memcmp(y, wanted[2], y_bytes(2)));
    program_free(a), program_free(b);
    runtime_free(rt);
}

static void test_turns_under_a_budget(void)
{
    float y[ROWS * 512];
    error e = {0};
    size_t least, whole;
    REQUIRE(limits(&backend_reference, 0, &least, &whole));
    for (size_t limit = least; limit < 2 * whole; limit += whole / 5) {
        runtime *rt = open_runtime((runtime_setting){.backend = &backend_reference, .memory = limit});
        kiln_program *p[PROGRAMS];
        for (int i = 0; i < PROGRAMS; i++) REQUIRE((p[i] = plan_program(rt, i, &e)) != NULL);
        for (int turn = 0; turn < 9; turn++) {
            int which = turn % PROGRAMS;
            REQUIRE(CHECK_MSG(run_program(p[which], which, 0, y, &e) == KILN_OK, "limit %zu: %s", limit, e.message));
            REQUIRE(CHECK(!memcmp(y, wanted[which], y_bytes(which))) && account_is_exact(rt, limit));
        }
        for (int i = 0; i < PROGRAMS; i++) program_free(p[i]);

        runtime_free(rt);
    }
}

/* The order was estimated: encoder, sampler often, decoder. When the sampler needs room the encoder goes, not the
 * decoder. */
static void test_what_is_wanted_last_goes_first(void)
{
    float y[ROWS * 512];
    error e = {0};
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_reference, .memory = 1 << 24});
    kiln_program *encoder = program_new(rt, "encoder", 0, &e), *sampler = program_new(rt, "sampler", 0, &e),
                 *decoder = program_new(rt, "decoder", 0, &e);
    int part[4] = {0, 5, 10, LAYERS};
    kiln_program *all[] = {encoder, sampler, decoder};
    for (int i = 0; i < 3; i++) {
        record_layers(program_recording(all[i]), part[i], part[i + 1], 0);
        REQUIRE(program_plan(all[i], &e) == KILN_OK);
    }
    uint64_t packed[2] = {0};
    int order[] = {0, 1, 1, 1, 2};
    for (int rehearsal = 1; rehearsal >= 0; rehearsal--) {
        set_estimating(rt, rehearsal);
        for (int round = 0; round < 2 - rehearsal; round++)
            for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
                float x[ROWS * 512] = {1};
                int k = order[i];
                if (!rehearsal && round == 1 && k == 1 && order[i - 1] == 1)
                    residency_give_up(runtime_residency(rt), 1); /* one weight's worth */
                if (!rehearsal && round == 1 && k == 2) packed[0] = residency_traffic_get(runtime_residency(rt)).packed;
                REQUIRE(run_or_estimate(all[k], (kiln_bind[]){bind_to("x", x, width[part[k]])}, 1,
                                        (kiln_bind[]){bind_to("y", y, width[part[k + 1]])}, 1, NULL, NULL,
                                        &e) == KILN_OK);
            }
    }
    packed[1] = residency_traffic_get(runtime_residency(rt)).packed;
    CHECK_EQ(packed[1], packed[0]); /* the decoder lost nothing */
    for (int i = 0; i < 3; i++) program_free(all[i]);
    runtime_free(rt);
}

/* ---- the next program's weights, ahead ---- */

enum { PARTS = 3, ORDER = 6, LAST_RUN = 3 };
static const int part_at[PARTS + 1] = {0, 5, 10, LAYERS};
static const char *const part_name[PARTS] = {"encoder", "sampler", "decoder"};
static const int in_order[ORDER] = {0, 1, 1, 1, 2, 2}; /* in_order[LAST_RUN] is the sampler's last */

typedef struct {
    runtime *rt;
    kiln_program *p[PARTS];
} ensemble;

static float part_wanted[PARTS][ROWS * 512];

static size_t part_bytes(int k) { return (size_t)(ROWS * width[part_at[k + 1]]) * sizeof(float); }

static kiln_status run_part(const ensemble *s, int k, float *y, int (*cancelled)(void *), error *e)
{
    float x[ROWS * 512];
    dice d = {(uint64_t)k + 11};
    for (int i = 0; i < ROWS * width[part_at[k]]; i++) x[i] = dice_real(&d);
    memset(y, 0, part_bytes(k));
    return run_or_estimate(s->p[k], (kiln_bind[]){bind_to("x", x, width[part_at[k]])}, 1,
                           (kiln_bind[]){bind_to("y", y, width[part_at[k + 1]])}, 1, cancelled, NULL, e);
}

static void close_ensemble(ensemble *s)
{
    for (int k = 0; k < PARTS; k++) program_free(s->p[k]);
    runtime_free(s->rt);
}

static int estimate_ensemble(ensemble *s, error *e)
{
    float y[ROWS * 512];
    kiln_status status = KILN_OK;
    set_estimating(s->rt, 1);
    for (int i = 0; i < ORDER && status == KILN_OK; i++) status = run_part(s, in_order[i], y, NULL, e);
    set_estimating(s->rt, 0);
    return status == KILN_OK;
}

/* Three programs, estimated. 0: e says why not. */
static int open_ensemble(ensemble *s, runtime_setting setting, error *e)
{
    *s = (ensemble){.rt = open_runtime(setting)};
    int ok = s->rt != NULL;
    for (int k = 0; k < PARTS && ok; k++) {
        ok = (s->p[k] = program_new(s->rt, part_name[k], 0, e)) != NULL;
        if (ok) record_layers(program_recording(s->p[k]), part_at[k], part_at[k + 1], 0);
        ok = ok && program_plan(s->p[k], e) == KILN_OK;
    }
    return ok && estimate_ensemble(s, e);
}

/* Largest least limit of the three; and what holds all their weights beside the largest activations, and some more for
 * tensors. */
static int ensemble_limits(size_t *least, size_t *all)
{
    ensemble s;
    error e = {0};
    fake_device_open(&(fake_setting){.bytes = 1 << 24, .fail_at = -1});
    int ok = CHECK_MSG(open_ensemble(&s, (runtime_setting){.host_memory = SIZE_MAX}, &e), "%s", e.message);
    if (ok) {
        *least = runtime_get_estimate(s.rt).least;
        for (int i = 0; i < ORDER && ok; i++)
            ok = CHECK_MSG(run_part(&s, in_order[i], part_wanted[in_order[i]], NULL, &e) == KILN_OK, "%s", e.message);
        *all = budget_used(residency_budget(runtime_residency(s.rt))) * 33 / 32;
        for (int k = 0; k < PARTS; k++) { /* alone, unrehearsed, on a fresh device: the same bytes */
            static float y[ROWS * 512];
            residency_give_up(runtime_residency(s.rt), SIZE_MAX);
            ok = ok && CHECK(run_part(&s, k, y, NULL, &e) == KILN_OK && !memcmp(y, part_wanted[k], part_bytes(k)));
        }
    }
    close_ensemble(&s);
    fake_device_close();
    return ok;
}

/* Two rounds of the order; what had been brought in when the sampler's last run of the first was waited for. */
static ensemble watched;
static uint64_t prefetched_when_waited, evicted_when_waited;
static void look_when_waited(void)
{
    if (!watched.rt) return;
    prefetched_when_waited = residency_traffic_get(runtime_residency(watched.rt)).prefetch_bytes;
    evicted_when_waited = residency_traffic_get(runtime_residency(watched.rt)).evicted;
}

static int rounds_are_right(const ensemble *s, size_t limit, int rounds, uint64_t *ahead, uint64_t *evicted)
{
    float y[ROWS * 512];
    error e = {0};
    watched = (ensemble){0};
    for (int i = 0; i < rounds * ORDER; i++) {
        int k = in_order[i % ORDER];
        uint64_t before = residency_traffic_get(runtime_residency(s->rt)).prefetch_bytes,
                 gone = residency_traffic_get(runtime_residency(s->rt)).evicted;
        prefetched_when_waited = before, evicted_when_waited = gone;
        watched = i == LAST_RUN ? *s : (ensemble){0};
        kiln_status status = run_part(s, k, y, NULL, &e);
        watched = (ensemble){0};
        if (!CHECK_MSG(status == KILN_OK, "limit %zu, run %d: %s", limit, i, e.message) ||
            !CHECK_MSG(!memcmp(y, part_wanted[k], part_bytes(k)), "limit %zu, run %d: other bytes", limit, i))
            return 0;
        if (!account_is_exact(s->rt, limit)) return 0;
        uint64_t after = residency_traffic_get(runtime_residency(s->rt)).prefetch_bytes;
        if ((i % ORDER != 0 && i % ORDER != LAST_RUN) && !CHECK_EQ(after, before))
            return 0; /* only in the last run before another's */
        if (i != LAST_RUN) continue;
        *ahead = prefetched_when_waited - before, *evicted = evicted_when_waited - gone;
        if (!CHECK_EQ(prefetched_when_waited, after)) return 0; /* all of it before the host waited */
    }
    return 1;
}

/* At every budget the same bytes and the account exact; where all fits the decoder's weights are there before the
 * sampler's last run was waited for and its own run moves nothing but its input; where they only fit when others leave,
 * the encoder's and the sampler's do. */
static void test_the_next_programs_weights_are_prefetched(void)
{
    static const size_t host_limits[] = {SIZE_MAX, 200000, 0};
    size_t least, all, partly = 0, by_eviction = 0;
    REQUIRE(ensemble_limits(&least, &all));
    for (size_t i = 0; i <= BUDGETS; i++) {
        ensemble s;
        error e = {0};
        uint64_t ahead = 0, evicted = 0;
        size_t limit = least + (all - least) * i / BUDGETS;
        fake_device_open(&(fake_setting){
            .bytes = limit, .seed = i + 1, .graphs = (int)(i % 2), .at_sync = look_when_waited, .fail_at = -1});
        REQUIRE(CHECK_MSG(open_ensemble(&s, (runtime_setting){.memory = limit, .host_memory = host_limits[i % 3]}, &e),
                          "%s", e.message));
        REQUIRE(rounds_are_right(&s, limit, 2, &ahead, &evicted));
        partly += ahead > 0, by_eviction += ahead > 0 && evicted > 0;
        size_t decoder = 0;
        for (int l = part_at[2]; l < LAYERS; l++) decoder += (size_t)(width[l + 1] * (width[l] + 2)) * sizeof(float);
        if (i == BUDGETS)
            CHECK_MSG(ahead >= decoder && evicted == 0, "%d of %zu bytes came ahead, %d were evicted", (int)ahead,
                      decoder, (int)evicted);
        close_ensemble(&s);
        fake_report r = fake_device_close();
        REQUIRE(CHECK_EQ(r.faults, 0) && CHECK(r.peak <= limit));
    }
    CHECK_MSG(partly * 2 > BUDGETS && by_eviction * 4 > BUDGETS,
              "of %d budgets something came ahead at %zu, by eviction at %zu", (int)BUDGETS, partly, by_eviction);
    if (getenv("KILN_TEST_VERBOSE"))
        printf("  of %d budgets something came ahead at %zu, by eviction at %zu\n", (int)BUDGETS + 1, partly,
               by_eviction);
}

static void test_prefetching_in_every_legal_order(void)
{
    size_t least, all;
    uint64_t orders = full ? 1000 : ORDERS;
    REQUIRE(ensemble_limits(&least, &all));
    for (uint64_t seed = 1; seed <= orders; seed++) {
        ensemble s;
        error e = {0};
        uint64_t ahead, evicted;
        size_t limit = least + (all - least) * (seed % 9 + 1) / 10;
        fake_device_open(&(fake_setting){
            .bytes = limit, .seed = seed, .graphs = (int)(seed % 2), .at_sync = look_when_waited, .fail_at = -1});
        REQUIRE(CHECK_MSG(
            open_ensemble(&s, (runtime_setting){.memory = limit, .host_memory = seed % 3 ? SIZE_MAX : 100000}, &e),
            "%s", e.message));
        REQUIRE(rounds_are_right(&s, limit, 2, &ahead, &evicted));
        close_ensemble(&s);
        REQUIRE(CHECK_EQ(fake_device_close().faults, 0));
    }
}

/* Planted mistakes: a host that does not wait for checkpoints gives memory back that is in use; a stream that does not
 * wait for what comes ahead computes with something else. */
static void test_missing_waits_for_prefetches_would_be_seen(void)
{
    size_t least, all;
    unsigned faults = 0, wrong = 0;
    float y[ROWS * 512];
    REQUIRE(ensemble_limits(&least, &all));
    for (uint64_t seed = 1; seed <= DEAF; seed++)
        for (int deaf = 0; deaf < 2; deaf++) {
            ensemble s;
            error e = {0};
            size_t limit = deaf ? all : least + (all - least) * 3 / 4;
            fake_device_open(&(fake_setting){.bytes = limit, .seed = seed, .hasty = !deaf, .fail_at = -1});
            REQUIRE(open_ensemble(&s, (runtime_setting){.memory = limit, .host_memory = SIZE_MAX}, &e));
            for (int i = 0; i <= LAST_RUN; i++)
                REQUIRE(CHECK_MSG(run_part(&s, in_order[i], y, NULL, &e) == KILN_OK, "%s", e.message));
            int sound = !memcmp(y, part_wanted[1], part_bytes(1));
            CHECK(sound || !deaf);
            fake_device_deaf(deaf);
            if (deaf)
                CHECK(run_part(&s, 2, y, NULL, &e) == KILN_OK), wrong += memcmp(y, part_wanted[2], part_bytes(2)) != 0;
            fake_device_deaf(0);
            close_ensemble(&s);
            unsigned found = fake_device_close().faults;
            if (deaf)
                CHECK_EQ(found, 0);
            else
                faults += found > 0 || !sound;
        }
    CHECK_MSG(faults > DEAF / 2 && wrong > 0, "of %d, %u gave back too early and %u computed too early", (int)DEAF,
              faults, wrong);
    if (getenv("KILN_TEST_VERBOSE"))
        printf("  of %d, %u gave back too early and %u computed too early\n", (int)DEAF, faults, wrong);
}

/* Asked between weights too, so it can tell when the bringing in goes on. */
static struct {
    const ensemble *s;
    uint64_t before;
    int64_t fail_after; /* calls from the first weight that came on; below 0: none */
    int stop, fired;    /* fired: it went on */
    pthread_t freeing;
    kiln_program *freed_program;
    atomic_int freed;
} meddling;

static void *free_it(void *arg)
{
    program_free(arg);
    atomic_store(&meddling.freed, 1);
    return NULL;
}

static int meddle(void *arg)
{
    (void)arg;
    if (meddling.fired || residency_traffic_get(runtime_residency(meddling.s->rt)).prefetch_bytes == meddling.before)
        return meddling.fired && meddling.stop;
    meddling.fired = 1;
    if (meddling.fail_after >= 0) fake_device_fail_at(meddling.fail_after, 0);
    if (meddling.freed_program) {
        pthread_create(&meddling.freeing, NULL, free_it, meddling.freed_program);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        CHECK(!atomic_load(&meddling.freed));
    }
    return meddling.stop;
}

/* Up to the sampler's last run, which is meddled with from the first weight of the decoder on. */
static kiln_status run_to_the_last(ensemble *s, float *y, error *e)
{
    for (int i = 0; i < LAST_RUN; i++) TRY(run_part(s, in_order[i], y, NULL, e));
    meddling.s = s, meddling.fired = 0;
    meddling.before = residency_traffic_get(runtime_residency(s->rt)).prefetch_bytes;
    return run_part(s, in_order[LAST_RUN], y, meddle, e);
}

/* The sampler's last run with the k-th call failing from the decoder's first weight on; and what comes after it. 1: it
 * went well. */
static int prefetch_fails(int64_t k, size_t limit, size_t host_limit, int *unharmed)
{
    static const int after[] = {2, 2, 0, 1};
    ensemble s;
    float y[ROWS * 512];
    error e = {0};
    fake_device_open(&(fake_setting){.bytes = limit, .seed = (uint64_t)k, .fail_at = -1});
    int ok = CHECK_MSG(open_ensemble(&s, (runtime_setting){.memory = limit, .host_memory = host_limit}, &e), "%s",
                       e.message);
    memset(&meddling, 0, sizeof meddling);
    meddling.fail_after = k;
    kiln_status status = ok ? run_to_the_last(&s, y, &e) : KILN_ERR_BUG;
    ok = ok && CHECK(meddling.fired) &&
         CHECK_MSG(status == KILN_OK ? !memcmp(y, part_wanted[1], part_bytes(1)) : e.message[0],
                   "call %d fails: other bytes, or not a word", (int)k);
    *unharmed += status == KILN_OK;
    fake_device_fail_at(-1, 0);
    for (int i = 0; i < 4 && ok; i++) {
        ok = CHECK_MSG(run_part(&s, after[i], y, NULL, &e) == KILN_OK, "after call %d failed: %s", (int)k, e.message) &&
             CHECK_MSG(!memcmp(y, part_wanted[after[i]], part_bytes(after[i])), "after call %d failed: other bytes",
                       (int)k) &&
             account_is_exact(s.rt, limit);
    }
    close_ensemble(&s);
    return CHECK_MSG(fake_device_close().faults == 0, "call %d fails", (int)k) && ok;
}

/* While it is the bringing in that fails, the sampler does not. */
static void test_failures_of_prefetching_are_not_the_runs(void)
{
    size_t least, all;
    int unharmed = 0, tried = 0;
    REQUIRE(ensemble_limits(&least, &all));
    for (int64_t k = 0; k < 60; k += full ? 1 : 1 + k / (4 * SPREAD))
        for (int way = full ? 0 : (int)k % 4, last = full ? 3 : way; way <= last; way++, tried++)
            REQUIRE(
                prefetch_fails(k, way & 1 ? all : least + (all - least) * 3 / 4, way & 2 ? SIZE_MAX : 0, &unharmed));
    CHECK_MSG(unharmed * 3 > tried, "%d of %d runs went well", unharmed, tried);
    if (getenv("KILN_TEST_VERBOSE")) printf("  %d of %d runs went well\n", unharmed, tried);
}

static void test_it_stops_when_cancelled(void)
{
    size_t least, all;
    ensemble s;
    float y[ROWS * 512];
    error e = {0};
    REQUIRE(ensemble_limits(&least, &all));
    fake_device_open(&(fake_setting){.bytes = all, .fail_at = -1});
    REQUIRE(open_ensemble(&s, (runtime_setting){.memory = all, .host_memory = SIZE_MAX}, &e));
    memset(&meddling, 0, sizeof meddling);
    meddling.fail_after = -1, meddling.stop = 1;
    CHECK_EQ(run_to_the_last(&s, y, &e), KILN_OK); /* it was done, all but the waiting */
    CHECK(!memcmp(y, part_wanted[1], part_bytes(1)));
    CHECK_EQ(residency_traffic_get(runtime_residency(s.rt)).prefetch_bytes - meddling.before,
             (uint64_t)(width[part_at[2] + 1] * width[part_at[2]]) * 4); /* one */
    CHECK_EQ(run_part(&s, 2, y, NULL, &e), KILN_OK);
    CHECK(!memcmp(y, part_wanted[2], part_bytes(2)));
    close_ensemble(&s);
    CHECK_EQ(fake_device_close().faults, 0);
}

static void join_before_waiting(void)
{
    if (!meddling.fired || !meddling.freed_program) return;
    pthread_join(meddling.freeing, NULL); /* the fake device is for one at a time */
    meddling.freed_program = NULL;
}

/* Another thread lets go of the decoder while its weights are brought in: it waits, and they go with it. */
static void test_the_next_program_may_be_freed_meanwhile(void)
{
    size_t least, all;
    REQUIRE(ensemble_limits(&least, &all));
    for (int tight = 0; tight < 2; tight++) {
        ensemble s;
        float y[ROWS * 512];
        error e = {0};
        size_t limit = tight ? least + (all - least) * 3 / 4 : all;
        fake_device_open(&(fake_setting){.bytes = limit, .at_sync = join_before_waiting, .fail_at = -1});
        REQUIRE(open_ensemble(&s, (runtime_setting){.memory = limit, .host_memory = SIZE_MAX}, &e));
        memset(&meddling, 0, sizeof meddling);
        meddling.fail_after = -1, meddling.freed_program = s.p[2];
        s.p[2] = NULL;
        CHECK_MSG(run_to_the_last(&s, y, &e) == KILN_OK, "%s", e.message);
        CHECK(atomic_load(&meddling.freed));
        CHECK(!memcmp(y, part_wanted[1], part_bytes(1)));
        CHECK_EQ(run_part(&s, 0, y, NULL, &e), KILN_OK);
        CHECK(!memcmp(y, part_wanted[0], part_bytes(0)));
        account_is_exact(s.rt, limit);
        close_ensemble(&s);
        CHECK_EQ(fake_device_close().faults, 0);
    }
}

/* The order comes otherwise than it was estimated. */
static void test_another_order_than_estimated(void)
{
    static const int orders[][8] = {{0, 1, 1, 1, 1, 1, 2, 0},
                                    {0, 1, 1, 1, 0, 1, 2, 1},
                                    {2, 2, 2, 1, 1, 1, 1, 0},
                                    {0, 0, 0, 1, 2, 1, 2, 1},
                                    {1, 1, 1, 0, 2, 2, 2, 1}};
    size_t least, all;
    REQUIRE(ensemble_limits(&least, &all));
    for (size_t o = 0; o < sizeof orders / sizeof orders[0]; o++)
        for (size_t i = 0; i <= 6; i++) {
            ensemble s;
            float y[ROWS * 512];
            error e = {0};
            size_t limit = least + (all - least) * i / 6;
            fake_device_open(&(fake_setting){.bytes = limit, .seed = i, .graphs = 1, .fail_at = -1});
            REQUIRE(open_ensemble(&s, (runtime_setting){.memory = limit, .host_memory = SIZE_MAX}, &e));
            for (int run = 0; run < 8; run++) {
                int k = orders[o][run];
                REQUIRE(CHECK_MSG(run_part(&s, k, y, NULL, &e) == KILN_OK, "order %zu, limit %zu, run %d: %s", o, limit,
                                  run, e.message));
                REQUIRE(CHECK(!memcmp(y, part_wanted[k], part_bytes(k))) && account_is_exact(s.rt, limit));
            }
            close_ensemble(&s);
            REQUIRE(CHECK_EQ(fake_device_close().faults, 0));
        }
}

/* The decoder's file is away for a while (with its folder: the file itself stays as it was, its times too): the sampler
 * goes on as if nothing were, the decoder says it. */
static void test_what_cannot_be_prefetched_is_reported_by_its_own_run(void)
{
    size_t least, all;
    ensemble s;
    float y[ROWS * 512];
    error e = {0};
    char away[320];
    kiln_weight_info info = {.size = sizeof info};
    snprintf(away, sizeof away, "%s.away", test_folder());
    REQUIRE(ensemble_limits(&least, &all) && weights_find(set, "w.0", &info) == KILN_OK &&
            strncmp(info.file, test_folder(), strlen(test_folder())) == 0);
    fake_device_open(&(fake_setting){.bytes = all, .fail_at = -1});
    REQUIRE(open_ensemble(&s, (runtime_setting){.memory = all, .host_memory = SIZE_MAX}, &e));
    for (int i = 0; i < LAST_RUN; i++) REQUIRE(run_part(&s, in_order[i], y, NULL, &e) == KILN_OK);
    CHECK(rename(test_folder(), away) == 0);
    uint64_t before = residency_traffic_get(runtime_residency(s.rt)).prefetch_bytes;
    CHECK_MSG(run_part(&s, 1, y, NULL, &e) == KILN_OK && !memcmp(y, part_wanted[1], part_bytes(1)), "%s", e.message);
    CHECK_EQ(residency_traffic_get(runtime_residency(s.rt)).prefetch_bytes, before);
    CHECK_EQ(run_part(&s, 2, y, NULL, &e), KILN_ERR_IO);
    CHECK_MSG(strstr(e.message, "cannot be opened again") && strstr(e.message, "'decoder'"), "%s", e.message);
    CHECK(rename(away, test_folder()) == 0);
    CHECK_EQ(run_part(&s, 2, y, NULL, &e), KILN_OK);
    CHECK(!memcmp(y, part_wanted[2], part_bytes(2)));
    close_ensemble(&s);
    CHECK_EQ(fake_device_close().faults, 0);
}

/* ---- others on the device ---- */

/* Others take what is free, all but a little, again and again: each time a twentieth of the device is given up, until
 * only the least is left; then they go. Each budget is run three times, so that a graph of an earlier one would show.
 */
static void test_it_goes_on_with_less_when_others_take_memory(void)
{
    float y[ROWS * 512];
    error e = {0};
    size_t least, whole, most = 0, steps = 0;
    fake_device_open(&(fake_setting){.bytes = 1 << 24, .fail_at = -1});
    REQUIRE(limits(&DEVICE, 0, &least, &whole));
    fake_device_close();
    size_t bytes = whole + whole / 4, held = 0;
    fake_device_open(&(fake_setting){.bytes = bytes, .graphs = 1, .fail_at = -1});
    runtime *rt = open_runtime((runtime_setting){.memory_follow = 1, .host_memory = SIZE_MAX});
    kiln_program *p = plan_program(rt, 0, &e);
    REQUIRE(p);
    for (; steps < 40; steps++) {
        for (int run = 0; run < 3; run++) {
            REQUIRE(CHECK_MSG(run_program(p, 0, 0, y, &e) == KILN_OK, "holding %zu: %s", held, e.message));
            REQUIRE(CHECK_MSG(!memcmp(y, wanted[0], y_bytes(0)), "step %zu, run %d: other bytes", steps, run));
        }
        held = budget_used(residency_budget(runtime_residency(rt)));
        if (held > most) most = held;
        if (held < least + bytes / 10) break;
        fake_device_taken(bytes - held);
    }
    CHECK_MSG(steps > 4 && held < whole, "%zu steps down to %zu of %zu", steps, held, whole);
    fake_device_taken(0);
    for (int run = 0; run < 2; run++)
        REQUIRE(CHECK_EQ(run_program(p, 0, 0, y, &e), KILN_OK) && CHECK(!memcmp(y, wanted[0], y_bytes(0))));
    CHECK_EQ(budget_used(residency_budget(runtime_residency(rt))), most);
    if (getenv("KILN_TEST_VERBOSE"))
        printf("  from %zu down to %zu in %zu steps, the least is %zu\n", most, held, steps, least);
    program_free(p);
    runtime_free(rt);
    CHECK_EQ(fake_device_close().faults, 0);
}

/* The device gives less than the budget says: evict, ask again, plan smaller. */
static void test_it_goes_on_when_the_device_has_less_than_the_budget(void)
{
    float y[ROWS * 512];
    error e = {0};
    for (size_t bytes = 300000; bytes < 900000; bytes += 100000) {
        fake_device_open(&(fake_setting){.bytes = bytes, .seed = bytes, .fail_at = -1});
        runtime *rt = open_runtime((runtime_setting){.memory = 1 << 24, .host_memory = SIZE_MAX});
        kiln_program *p = plan_program(rt, 0, &e);
        REQUIRE(p);
        for (int i = 0; i < 2; i++) {
            CHECK_MSG(run_program(p, 0, 0, y, &e) == KILN_OK, "a device of %zu: %s", bytes, e.message);
            CHECK(!memcmp(y, wanted[0], y_bytes(0)));
        }
        program_free(p);
        runtime_free(rt);
        CHECK_EQ(fake_device_close().faults, 0);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_same_bytes_at_every_budget_on_a_device),
        CASE(test_same_bytes_in_every_legal_order),
        CASE(test_a_missing_wait_would_be_seen),
        CASE(test_every_call_may_fail),
        CASE(test_a_step_moves_nothing_but_what_it_must),
        CASE(test_a_graph_computes_with_new_inputs),
        CASE(test_it_goes_on_with_less_when_others_take_memory),
        CASE(test_it_goes_on_when_the_device_has_less_than_the_budget),
        CASE(test_the_next_programs_weights_are_prefetched),
        CASE(test_prefetching_in_every_legal_order),
        CASE(test_missing_waits_for_prefetches_would_be_seen),
        CASE(test_failures_of_prefetching_are_not_the_runs),
        CASE(test_it_stops_when_cancelled),
        CASE(test_the_next_program_may_be_freed_meanwhile),
        CASE(test_another_order_than_estimated),
        CASE(test_what_cannot_be_prefetched_is_reported_by_its_own_run),
        /* the last five are the host's own */
        CASE(test_same_bytes_at_every_budget_on_the_host),
        CASE(test_a_byte_less_than_the_least_is_refused),
        CASE(test_programs_that_take_turns_share),
        CASE(test_turns_under_a_budget),
        CASE(test_what_is_wanted_last_goes_first),
    };
    static made_tensor list[3 * LAYERS];
    char path[512];
    error e = {0};
    log_level_set(KILN_LOG_ERROR);
    full = getenv("KILN_TEST_FULL") != NULL;
    size_t n = list_weights(list, width);
    snprintf(path, sizeof path, "%s/made.safetensors", test_folder());
    if (!made_write(path, list, n, 1) || !(set = weights_open(path, &e))) return 2;
    for (int which = 0; which < PROGRAMS; which++) {
        fake_device_open(&(fake_setting){.bytes = 1 << 24, .fail_at = -1});
        if (!expect(which, 0, wanted[which])) return 2;
        fake_device_close();
    }
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0] - SKIPPED);
    weights_unref(set);
    return status;
}
