/* test_invariant.c - inputs that seldom change (record_step_invariant): what hangs on them alone is computed once, at
 * every budget, on the host and on a device that is none, as a graph or op by op; and again when they change, when
 * another program was there meanwhile, when a run failed.
 */
#include "../memory/fake_device.h"
#include "run_or_estimate.h"
#include "graph_kit.h"

#include "backend/runtime.h"
#include "base/log.h"

/* tests/cuda_emu/test_cuda_invariant.c includes this file with the CUDA backend in place of plain kernels. */
#ifndef DEVICE
#define DEVICE fake_backend
#define TRUTH backend_reference
#define BUDGETS 24
#define SEEDS 40
#endif

enum { LAYERS = 5, ROWS = 3, WIDTH = 48, N = ROWS * WIDTH };

static kiln_weights *set;

static kiln_t weight(recording *r, const char *kind, int i)
{
    char name[32];
    snprintf(name, sizeof name, "%s.%d", kind, i);
    return record_weight(r, set, name, 2, DIMS(WIDTH, WIDTH), 0);
}
static kiln_t linear(recording *r, kiln_t x, const char *kind, int i)
{
    return record_op(r, OP_LINEAR, &(op_attr){0}, (kiln_t[]){x, weight(r, kind, i), {0}}, 3);
}
static kiln_t add(recording *r, kiln_t a, kiln_t b) { return record_op(r, OP_ADD, &(op_attr){0}, (kiln_t[]){a, b}, 2); }

/* Each layer: x = gelu(W x + K), K = V k held; k itself goes on; one layer reads the held input as it is, one a slice
 * of a concatenation of held and other columns. */
static void record_net(recording *r, int step_invariant)
{
    kiln_t x = record_input(r, "x", KILN_F32, 2, DIMS(ROWS, WIDTH)),
           c = record_input(r, "c", KILN_F32, 2, DIMS(ROWS, WIDTH)), k = c;
    if (step_invariant) record_step_invariant(r, c);
    for (int i = 0; i < LAYERS; i++) {
        k = linear(r, k, "v", i);
        if (i % 2) k = record_op(r, OP_ACT, &(op_attr){.act = {KILN_ACT_TANH}}, &k, 1);
        x = add(r, linear(r, x, "w", i), k);
        x = record_op(r, OP_ACT, &(op_attr){.act = {KILN_ACT_GELU}}, &x, 1);
        if (i == 1) x = add(r, x, c);
        if (i == 2) {
            kiln_t both =
                record_op(r, OP_CONCAT, &(op_attr){.concat = {.axis = 1}}, (kiln_t[]){x, linear(r, c, "v", i)}, 2);
            x = record_op(r, OP_SLICE, &(op_attr){.slice = {.axis = 1, .start = WIDTH / 2, .length = WIDTH}}, &both, 1);
        }
    }
    record_output(r, "y", x);
    record_output(r, "k", k);
}

static kiln_program *plan_net(runtime *rt, int step_invariant, error *e)
{
    kiln_program *p = program_new(rt, step_invariant ? "held" : "plain", 0, e);
    if (!p) return NULL;
    record_net(program_recording(p), step_invariant);
    if (program_plan(p, e) == KILN_OK) return p;
    program_free(p);
    return NULL;
}

static kiln_bind bound(const char *name, float *data)
{
    static const int64_t dim[] = {ROWS, WIDTH};
    return (kiln_bind)KILN_BIND(
        name,
        {.size = sizeof(kiln_tensor), .dtype = KILN_F32, .device = KILN_CPU, .rank = 2, .dim = dim, .data = data});
}

typedef struct {
    float y[N], k[N];
} result;

static kiln_status run_net(kiln_program *p, int step, int prompt, result *out, error *e)
{
    float x[N], c[N];
    dice a = {(uint64_t)step + 3}, b = {(uint64_t)prompt + 1000};
    for (int i = 0; i < N; i++) x[i] = dice_real(&a), c[i] = dice_real(&b);
    *out = (result){{0}, {0}};
    return run_or_estimate(p, (kiln_bind[]){bound("x", x), bound("c", c)}, 2,
                           (kiln_bind[]){bound("y", out->y), bound("k", out->k)}, 2, NULL, NULL, e);
}

/* step, prompt; other: the plain program runs between. Five equal prompts in a row, so that a graph is captured; then
 * it changes, comes back, and so on. */
static const struct {
    int step, prompt, other;
} order[] = {{0, 0, 0}, {1, 0, 0}, {2, 0, 0}, {3, 0, 0},  {4, 0, 0},  {5, 1, 0}, {6, 1, 0},
             {7, 0, 0}, {8, 0, 1}, {9, 0, 0}, {10, 0, 0}, {11, 1, 1}, {12, 1, 0}};
enum { RUNS = sizeof order / sizeof order[0] };
static result wanted[RUNS];

static runtime *open_runtime(runtime_setting s)
{
    error e = {0};
    if (!s.backend) s.backend = &DEVICE;
    s.threads = 1;
    s.precision = KILN_F32;
    runtime *rt = runtime_new(&s, &e);
    CHECK_MSG(rt != NULL, "%s", e.message);
    return rt;
}

static int expect(void)
{
    error e = {0};
    runtime *rt = open_runtime((runtime_setting){.backend = &TRUTH});
    kiln_program *p = rt ? plan_net(rt, 0, &e) : NULL;
    int ok = CHECK_MSG(p != NULL, "%s", e.message);
    for (int i = 0; i < RUNS && ok; i++)
        ok = CHECK_EQ(run_net(p, order[i].step, order[i].prompt, &wanted[i], &e), KILN_OK);
    program_free(p);
    runtime_free(rt);
    return ok;
}

static void limits(const backend *b, size_t *least, size_t *whole)
{
    error e = {0};
    result y;
    runtime *rt = open_runtime((runtime_setting){.backend = b});
    kiln_program *p = plan_net(rt, 1, &e);
    set_estimating(rt, 1);
    CHECK_EQ(run_net(p, 0, 0, &y, &e), KILN_OK);
    set_estimating(rt, 0);
    *least = runtime_get_estimate(rt).least, *whole = runtime_get_estimate(rt).whole;
    program_free(p);
    runtime_free(rt);
}

static int goes_through(runtime *rt)
{
    error e = {0};
    kiln_program *p = plan_net(rt, 1, &e), *other = plan_net(rt, 0, &e);
    int ok = CHECK_MSG(p && other, "%s", e.message);
    for (int i = 0; i < RUNS && ok; i++) {
        result y;
        if (order[i].other) ok = CHECK_EQ(run_net(other, 77, 7, &y, &e), KILN_OK);
        ok = ok &&
             CHECK_MSG(run_net(p, order[i].step, order[i].prompt, &y, &e) == KILN_OK, "run %d: %s", i, e.message) &&
             CHECK_MSG(!memcmp(y.y, wanted[i].y, sizeof y.y), "run %d: other bytes", i) &&
             CHECK_MSG(!memcmp(y.k, wanted[i].k, sizeof y.k), "run %d: other bytes of what is kept", i);
    }
    program_free(p);
    program_free(other);
    return ok;
}

static void test_the_same_bytes_on_the_host(void)
{
    size_t least, whole;
    limits(&backend_reference, &least, &whole);
    for (int i = 0; i <= BUDGETS; i++) {
        runtime *rt = open_runtime((runtime_setting){
            .backend = &backend_reference, .memory = least + (whole - least) * (size_t)i / BUDGETS + (i ? 8192 : 0)});
        int ok = goes_through(rt);
        runtime_free(rt);
        REQUIRE(ok);
    }
}

static void test_the_same_bytes_on_a_device(void)
{
    size_t least, whole;
    fake_device_open(&(fake_setting){.bytes = 1 << 24, .fail_at = -1});
    limits(&DEVICE, &least, &whole);
    fake_device_close();
    for (int i = 0; i < SEEDS; i++) {
        size_t limit = least + (whole - least) * (size_t)(i % BUDGETS) / BUDGETS + 16384;
        fake_device_open(&(fake_setting){.bytes = limit, .seed = (uint64_t)i + 1, .graphs = i % 3 != 0, .fail_at = -1});
        runtime *rt = open_runtime((runtime_setting){.memory = limit, .host_memory = i % 2 ? SIZE_MAX : 20000});
        int ok = goes_through(rt);
        runtime_free(rt);
        REQUIRE(ok && CHECK_EQ(fake_device_close().faults, 0));
    }
}

static int counted;
static void count_op(void *arg, const op_trace *t) { (void)arg, counted += strcmp(t->program, "held") == 0; }

static int ops_of(kiln_program *p, int step, int prompt)
{
    error e = {0};
    result y;
    counted = 0;
    CHECK_EQ(run_net(p, step, prompt, &y, &e), KILN_OK);
    return counted;
}

static void test_what_is_kept_does_not_run(void)
{
    error e = {0};
    result y;
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_reference, .trace = count_op});
    kiln_program *p = plan_net(rt, 1, &e), *other = plan_net(rt, 0, &e);
    REQUIRE(p && other);
    int all = ops_of(p, 0, 0), some = ops_of(p, 1, 0);
    uint64_t flops = runtime_usage_get(rt).flops;
    CHECK_MSG(all - some == LAYERS + 1, "%d ops, then %d", all,
              some); /* the V products, activations in their epilogues */
    CHECK_EQ(ops_of(p, 2, 0), some);
    CHECK_EQ(runtime_usage_get(rt).flops - flops, (uint64_t)2 * N * WIDTH * LAYERS);
    CHECK_EQ(ops_of(p, 3, 1), all);
    CHECK_EQ(ops_of(p, 4, 1), some);
    CHECK_EQ(run_net(other, 0, 1, &y, &e), KILN_OK);
    CHECK_EQ(ops_of(p, 5, 1), all);
    program_free(p);
    program_free(other);
    runtime_free(rt);
}

/* On a device a run in which nothing changed but x moves x in and the results out. */
static void test_a_run_moves_only_what_changed(void)
{
    error e = {0};
    result y;
    fake_device_open(&(fake_setting){.bytes = 1 << 24, .graphs = 1, .fail_at = -1});
    runtime *rt = open_runtime((runtime_setting){.host_memory = SIZE_MAX});
    kiln_program *p = plan_net(rt, 1, &e);
    REQUIRE(p);
    size_t one = (sizeof y.y + 255) & ~(size_t)255;
    for (int i = 0; i < 6; i++) {
        fake_report before = fake_device_look();
        CHECK_EQ(run_net(p, i, i < 5 ? 0 : 1, &y, &e), KILN_OK);
        fake_report after = fake_device_look();
        if (i) CHECK_EQ(after.bytes_in - before.bytes_in, i < 5 ? one : 2 * one);
        CHECK_EQ(after.launches - before.launches, i > 1 && i < 5); /* captured the second time it goes so */
    }
    program_free(p);
    runtime_free(rt);
    CHECK_EQ(fake_device_close().faults, 0);
}

/* Weights of what does not run stay where they are: nothing is packed or copied for it. */
static void test_nothing_is_streamed_for_what_is_kept(void)
{
    error e = {0};
    result y;
    size_t least, whole;
    limits(&backend_reference, &least, &whole);
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_reference, .memory = least});
    kiln_program *p = plan_net(rt, 1, &e);
    uint64_t packed[3];
    REQUIRE(p);
    set_estimating(rt, 1);
    for (int i = 0; i < 3; i++) CHECK_EQ(run_net(p, i, 0, &y, &e), KILN_OK);
    set_estimating(rt, 0);
    runtime_estimate estimated = runtime_get_estimate(rt);
    for (int i = 0; i < 3; i++) {
        uint64_t before = residency_traffic_get(runtime_residency(rt)).packed_bytes;
        CHECK_EQ(run_net(p, i, 0, &y, &e), KILN_OK);
        packed[i] = residency_traffic_get(runtime_residency(rt)).packed_bytes - before;
    }
    CHECK_EQ(packed[0] - packed[1], (uint64_t)(LAYERS + 1) * WIDTH * WIDTH * 4); /* V of layer 2 is read twice */
    CHECK_EQ(packed[2], packed[1]);
    CHECK_EQ(estimated.widest.streamed, packed[1]);
    CHECK_EQ(estimated.streamed, packed[0] + packed[1] + packed[2]);
    program_free(p);
    runtime_free(rt);
}

/* After a run that failed, what was kept is computed anew. */
static void test_a_failed_run_keeps_nothing(void)
{
    for (int64_t k = 0; k < 60; k++) {
        error e = {0}, why = {0};
        result y;
        fake_device_open(&(fake_setting){.bytes = 1 << 24, .seed = (uint64_t)k, .fail_at = -1});
        runtime *rt = open_runtime((runtime_setting){.host_memory = SIZE_MAX});
        kiln_program *p = plan_net(rt, 1, &e);
        REQUIRE(p);
        CHECK_EQ(run_net(p, 0, 0, &y, &e), KILN_OK);
        fake_device_fail_at(k, 0);
        kiln_status status = run_net(p, 5, 1, &y, &why);
        fake_device_fail_at(-1, 0);
        if (status == KILN_OK) CHECK(!memcmp(y.y, wanted[5].y, sizeof y.y));
        CHECK_MSG(run_net(p, 6, 1, &y, &e) == KILN_OK, "%s", e.message);
        CHECK_MSG(!memcmp(y.y, wanted[6].y, sizeof y.y), "after call %d failed (%s)", (int)k, why.message);
        program_free(p);
        runtime_free(rt);
        REQUIRE(CHECK_EQ(fake_device_close().faults, 0));
    }
}

static void test_only_inputs_are_step_invariant(void)
{
    error e = {0};
    runtime *rt = open_runtime((runtime_setting){.backend = &backend_reference});
    kiln_program *p = program_new(rt, "wrong", 0, &e);
    REQUIRE(p);
    record_step_invariant(program_recording(p), weight(program_recording(p), "w", 0));
    CHECK_EQ(program_plan(p, &e), KILN_ERR_INVALID);
    CHECK_MSG(strstr(e.message, "step_invariant()"), "%s", e.message);
    program_free(p);
    runtime_free(rt);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_the_same_bytes_on_a_device),
        CASE(test_a_run_moves_only_what_changed),
        CASE(test_a_failed_run_keeps_nothing),
        /* the last four are the host's own */
        CASE(test_the_same_bytes_on_the_host),
        CASE(test_what_is_kept_does_not_run),
        CASE(test_nothing_is_streamed_for_what_is_kept),
        CASE(test_only_inputs_are_step_invariant),
    };
    static made_tensor list[2 * LAYERS];
    char path[512];
    error e = {0};
    log_level_set(KILN_LOG_ERROR);
    for (int i = 0; i < 2 * LAYERS; i++) {
        list[i] =
            (made_tensor){.dtype = i % 2 ? KILN_F32 : KILN_BF16, .rank = 2, .dim = {WIDTH, WIDTH}, .spread = 0.3f};
        snprintf(list[i].name, sizeof list[i].name, "%c.%d", i % 2 ? 'v' : 'w', i / 2);
    }
    snprintf(path, sizeof path, "%s/made.safetensors", test_folder());
    if (!made_write(path, list, 2 * LAYERS, 1) || !(set = weights_open(path, &e))) return 2;
    fake_device_open(&(fake_setting){.bytes = 1 << 24, .fail_at = -1});
    if (!expect()) return 2;
    fake_device_close();
#ifdef SKIPPED
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0] - SKIPPED);
#else
    int status = test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
#endif
    weights_unref(set);
    return status;
}
