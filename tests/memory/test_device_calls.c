/* test_device_calls.c - states, their forks and vector operations on a device of which every call fails, once or for
 * good, and without host memory: the same numbers or a sentence, nothing left on the device or the account, and the
 * next run is whole. On a device that is none; tests/cuda_emu/test_cuda_calls.c has the CUDA backend's own.
 */
#include "graph_kit.h"
#include "no_memory_kit.h"

#include "../memory/fake_device.h"
#include "backend/rates.h"
#include "backend/runtime.h"
#include "backend/states.h"
#include "base/log.h"
#include "base/memory_alloc.h"

#ifndef DEVICE
#define DEVICE fake_backend
#endif

enum { PLACES = 5, WIDTH = 3, STEPS = 3, N = 2 * 3 * 4 * 2 }; /* N: two pictures of 3 x 4 x 2 */

static runtime *open_device(error *e)
{
    return runtime_new(
        &(runtime_setting){.backend = &DEVICE, .threads = 1, .precision = KILN_F32, .host_memory = SIZE_MAX}, e);
}

static kiln_bind numbers(const char *name, void *data, uint32_t dtype, uint32_t rank, const int64_t *dim)
{
    return (kiln_bind)KILN_BIND(
        name,
        {.size = sizeof(kiln_tensor), .dtype = dtype, .device = KILN_CPU, .rank = rank, .dim = dim, .data = data});
}

/* ---- states ---- */

/* "rows": x goes to place `at`; "y" is all of it afterwards. */
static kiln_status plan_writer(kiln_program *p, error *e)
{
    recording *r = program_recording(p);
    kiln_t s = record_state(r, "rows", KILN_F32, 2, DIMS(PLACES, WIDTH)),
           at = record_input(r, "at", KILN_I32, 1, DIMS(1));
    kiln_t x = record_input(r, "x", KILN_F32, 2, DIMS(1, WIDTH));
    kiln_t after = record_op(r, OP_STATE_WRITE, &(op_attr){.state_write = {.axis = 0}}, (kiln_t[]){s, at, x}, 3);
    record_output(r, "y", record_op(r, OP_AFFINE, &(op_attr){.affine = {2, 0}}, &after, 1));
    return program_plan(p, e);
}

static kiln_status write_row(kiln_program *p, kiln_states *s, int32_t at, float first, float *y, error *e)
{
    float x[WIDTH];
    for (int i = 0; i < WIDTH; i++) x[i] = first + (float)i;
    kiln_bind in[] = {numbers("at", &at, KILN_I32, 1, DIMS(1)), numbers("x", x, KILN_F32, 2, DIMS(1, WIDTH))};
    kiln_bind out[] = {numbers("y", y, KILN_F32, 2, DIMS(PLACES, WIDTH))};
    return program_run_with(p, &(program_binds){.states = s, .in = in, .n_in = 2, .out = out, .n_out = 1}, NULL, NULL,
                            e);
}

/* A state made where nothing computes, brought to the device, written by a program, forked, both written, read. */
static kiln_status use_states(kiln_states *s, kiln_program *p, runtime *rt, yield *out, error *e)
{
    float y[PLACES * WIDTH], start[PLACES * WIDTH];
    const state_info info = {.name = "rows", .dtype = KILN_F32, .shape = {2, {PLACES, WIDTH}}};
    for (int i = 0; i < PLACES * WIDTH; i++) start[i] = 100 + (float)i;
    TRY(states_write(s, &info, start, e));
    kiln_states *fork = states_fork(s, e);
    if (!fork) return e->status;
    kiln_status status = states_place(s, rt, e);
    for (int i = 0; i < STEPS && status == KILN_OK; i++) {
        status = write_row(p, s, i, (float)(10 * i), y, e);
        if (status == KILN_OK) yield_bytes(out, y, sizeof y);
    }
    kiln_states *second = status == KILN_OK ? states_fork(s, e) : NULL;
    if (status == KILN_OK && !second) status = e->status;
    if (second) status = write_row(p, second, 4, 7, y, e);
    if (status == KILN_OK) yield_bytes(out, y, sizeof y), yield_number(out, (int64_t)states_bytes(second));
    if (status == KILN_OK) status = states_read(s, "rows", y, e);
    if (status == KILN_OK) yield_bytes(out, y, sizeof y);
    if (status == KILN_OK) status = states_read(fork, "rows", y, e);
    if (status == KILN_OK) CHECK(memcmp(y, start, sizeof y) == 0), states_clear(second, "rows");
    if (status == KILN_OK) status = write_row(p, second, 1, 5, y, e); /* from zeros */
    if (status == KILN_OK) yield_bytes(out, y, sizeof y);
    states_unref(second);
    states_unref(fork);
    return status;
}

static kiln_status with_states(yield *out, error *e)
{
    runtime *rt = open_device(e);
    kiln_program *p = rt ? program_new(rt, "writer", 0, e) : NULL;
    kiln_states *s = p ? states_new(NULL, "a cache", 0, e) : NULL;
    kiln_status status = s ? plan_writer(p, e) : e->status;
    if (status == KILN_OK) status = use_states(s, p, rt, out, e);
    states_unref(s);
    program_free(p);
    if (rt) CHECK_EQ(budget_held(residency_budget(runtime_residency(rt)), MEMORY_VALUES), 0);
    runtime_free(rt);
    return status;
}

/* ---- vector operations ---- */

typedef struct {
    runtime *rt;
    float *v[6];
    int far;
} vectors;

static kiln_status open_vectors(vectors *m, error *e)
{
    float host[N];
    m->far = runtime_vector_device(m->rt) != KILN_CPU;
    for (size_t k = 0; k < 6; k++) {
        void *data = NULL;
        if (m->far)
            TRY(runtime_vector_new(m->rt, sizeof host, &data, e));
        else if (!(data = mem_alloc(sizeof host)))
            return error_set(e, KILN_ERR_NOMEM, "no memory for a vector");
        m->v[k] = data;
        for (int i = 0; i < N; i++) host[i] = k == 5 ? 1 + (float)(i % 3) : (float)((i * 7 + (int)k * 5) % 11) / 8;
        TRY(runtime_upload(m->rt, m->v[k], host, N, e));
    }
    return KILN_OK;
}

static void close_vectors(vectors *m)
{
    for (size_t k = 0; k < 6; k++) {
        if (m->far && m->v[k]) runtime_vector_free(m->rt, N * sizeof(float), m->v[k]);
        if (!m->far) mem_free(m->v[k]);
    }
}

static kiln_status yield_vector(const vectors *m, const float *v, yield *out, error *e)
{
    float host[N];
    TRY(runtime_download(m->rt, host, v, N, e));
    yield_bytes(out, host, sizeof host);
    return KILN_OK;
}

static kiln_status use_vectors(const vectors *m, yield *out, error *e)
{
    const double a[] = {1, -0.5}, b[] = {0.25, 2};
    const kiln_area area = {
        .size = sizeof area, .pictures = 2, .height = 3, .width = 4, .channels = 2, .y = 1, .x = 1, .h = 2, .w = 3};
    double numbers[3];
    TRY(runtime_combine(m->rt, m->v[2], N, 2, a, (const float *[]){m->v[0], m->v[1]}, e));
    TRY(runtime_add_difference(
        m->rt,
        &(kiln_difference){.size = sizeof(kiln_difference), .n = N, .x = m->v[2], .a = m->v[0], .b = m->v[1], .t = 0.5},
        m->v[3], e));
    kiln_dot d = {
        .size = sizeof d, .terms = 2, .n = N, .a = a, .b = b, .shift = 0.125, .x = (const float *[]){m->v[0], m->v[1]}};
    TRY(runtime_dot(m->rt, &d, &numbers[0], e));
    d.b = NULL;
    TRY(runtime_dot(m->rt, &d, &numbers[1], e));
    TRY(runtime_norm(m->rt, m->v[3], N, &numbers[2], e));
    for (int i = 0; i < 3; i++) yield_number(out, (int64_t)(numbers[i] * 1e9));
    TRY(runtime_blend(m->rt,
                      &(kiln_blend){.size = sizeof(kiln_blend),
                                    .pictures = 2,
                                    .cells = N / 4,
                                    .channels = 2,
                                    .masks = 1,
                                    .a = m->v[0],
                                    .b = m->v[1],
                                    .mask = m->v[5]},
                      m->v[4], e));
    TRY(yield_vector(m, m->v[4], out, e));
    TRY(runtime_crop(m->rt, &area, m->v[3], m->v[4], e));
    TRY(runtime_accumulate(m->rt, &area,
                           &(kiln_part){.size = sizeof(kiln_part), .data = m->v[4], .weight = m->v[0], .weights = 1},
                           m->v[2], m->v[5], e));
    TRY(runtime_accumulate(m->rt, &area, &(kiln_part){.size = sizeof(kiln_part), .data = m->v[4]}, m->v[2], m->v[5],
                           e));
    TRY(runtime_divide(m->rt, m->v[2], m->v[5], N / 2, 2, e));
    for (int k = 2; k < 6; k++) TRY(yield_vector(m, m->v[k], out, e));
    return KILN_OK;
}

static kiln_status with_vectors(yield *out, error *e)
{
    vectors m = {.rt = open_device(e)};
    if (!m.rt) return e->status;
    kiln_status status = open_vectors(&m, e);
    if (status == KILN_OK) status = use_vectors(&m, out, e);
    close_vectors(&m);
    runtime_free(m.rt);
    return status;
}

/* What is empty is nothing to do, wherever it is. */
static void test_nothing_is_nothing(void)
{
    error e = {0};
    double sum = 7;
    fake_device_open(&(fake_setting){.bytes = 1 << 22, .fail_at = -1});
    runtime *rt = open_device(&e);
    REQUIRE(CHECK_MSG(rt != NULL, "%s", e.message));
    const double one = 1;
    const float *none = NULL;
    const kiln_area area = {.size = sizeof area, .pictures = 2, .height = 3, .width = 4, .channels = 2, .h = 0, .w = 3};
    float host = 3;
    CHECK_EQ(runtime_upload(rt, NULL, &host, 0, &e), KILN_OK);
    CHECK_EQ(runtime_download(rt, &host, NULL, 0, &e), KILN_OK);
    CHECK_EQ(runtime_combine(rt, NULL, 0, 1, &one, &none, &e), KILN_OK);
    CHECK_EQ(runtime_add_difference(rt, &(kiln_difference){.size = sizeof(kiln_difference)}, NULL, &e), KILN_OK);
    CHECK_EQ(runtime_dot(rt, &(kiln_dot){.size = sizeof(kiln_dot), .terms = 1, .a = &one, .x = &none}, &sum, &e),
             KILN_OK);
    CHECK(sum == 0);
    CHECK_EQ(runtime_norm(rt, NULL, 0, &sum, &e), KILN_OK);
    CHECK(sum == 0);
    for (int which = 0; which < 3; which++) {
        kiln_blend b = {
            .size = sizeof b, .pictures = which != 0, .cells = which != 1, .channels = which != 2, .masks = 1};
        CHECK_EQ(runtime_blend(rt, &b, NULL, &e), KILN_OK);
    }
    for (int which = 0; which < 4; which++) {
        kiln_area a = area;
        a.h = which != 0, a.w = which != 1, a.channels = which != 2, a.pictures = which != 3;
        CHECK_EQ(runtime_crop(rt, &a, NULL, NULL, &e), KILN_OK);
        CHECK_EQ(runtime_accumulate(rt, &a, &(kiln_part){.size = sizeof(kiln_part)}, NULL, NULL, &e), KILN_OK);
    }
    CHECK_EQ(runtime_divide(rt, NULL, NULL, 0, 2, &e), KILN_OK);
    CHECK_EQ(runtime_divide(rt, NULL, NULL, 2, 0, &e), KILN_OK);
    CHECK_MSG(host == 3 && !e.message[0], "%s", e.message);
    runtime_free(rt);
    CHECK_EQ(fake_device_close().faults, 0);
}

/* ---- faults ---- */

/* The k-th call fails. Returns how many calls were made. */
static uint64_t device_fails(const char *name, piece_of_work run, const yield *sound, int64_t k, int for_good)
{
    error e = {0};
    yield out = {0};
    fake_device_open(
        &(fake_setting){.bytes = 1 << 22, .seed = (uint64_t)k, .graphs = 1, .fail_at = k, .fail_for_good = for_good});
    kiln_status status = run(&out, &e);
    if (status == KILN_OK && sound)
        CHECK_MSG(out.hash == sound->hash && out.n == sound->n, "%s: call %d fails: other numbers", name, (int)k);
    if (status != KILN_OK) CHECK_MSG(e.message[0] != 0, "%s: call %d fails without a word", name, (int)k);
    if (!for_good && sound) {
        fake_device_fail_at(-1, 0);
        out = (yield){0}, e = (error){0};
        status = run(&out, &e);
        CHECK_MSG(status == KILN_OK && out.hash == sound->hash, "%s: after call %d had failed: %s", name, (int)k,
                  e.message);
    }
    uint64_t calls = fake_device_look().calls;
    fake_report r = fake_device_close();
    CHECK_MSG(r.faults == 0, "%s: call %d fails: %u faults", name, (int)k, r.faults);
    return calls;
}

static void every_call(const char *name, piece_of_work run)
{
    error e = {0};
    yield sound = {0};
    fake_device_open(&(fake_setting){.bytes = 1 << 22, .fail_at = -1});
    REQUIRE(CHECK_MSG(run(&sound, &e) == KILN_OK, "%s: %s", name, e.message));
    int64_t calls = (int64_t)fake_device_look().calls;
    CHECK_EQ(fake_device_close().faults, 0);
    CHECK_MSG(calls > 3, "%s makes %d calls", name, (int)calls);
    for (int for_good = 0; for_good < 2; for_good++)
        for (int64_t k = 0; k < calls; k++) device_fails(name, run, &sound, k, for_good);
    fake_device_open(&(fake_setting){.bytes = 1 << 22, .fail_at = -1});
    fail_everywhere(name, run);
    CHECK_EQ(fake_device_close().faults, 0);
}

static void test_states_survive_every_failing_call(void) { every_call("states", with_states); }
static void test_vectors_survive_every_failing_call(void) { every_call("vectors", with_vectors); }

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_nothing_is_nothing),
        CASE(test_states_survive_every_failing_call),
        CASE(test_vectors_survive_every_failing_call),
    };
    log_level_set(KILN_LOG_ERROR);
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
