/* test_reading.c - how weights of a device come from their file: by reads alone, the map is never touched (it is taken
 * away); straight into page-locked memory where packing copies; stacked, turned and cut ones too; whatever reads
 * return. A read that fails, a file that changes and a number that is none are errors with file, tensor and program,
 * and the next run is whole.
 */
#include "../memory/fake_device.h"
#include "../pread_kit.h"
#include "run_or_estimate.h"
#include "graph_kit.h"

#include "backend/runtime.h"
#include "base/log.h"
#include "base/memory_alloc.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* tests/cuda_emu/test_cuda_reading.c includes this file with the CUDA backend in place of plain kernels. */
#ifndef DEVICE
#define DEVICE fake_backend
#define CLOSENESS 0 /* the same kernels */
#define PACKED(precision) ((void)(precision), KILN_F32)
#endif

enum { TOKENS = 6, WIDTH = 64, INNER = 100 }; /* INNER is no multiple of eight: rows are padded */

/* One file a stored type: q, k, v and o of attention, a matrix that is used turned, one of which rows are used, one
 * with rows that are padded, a norm. */
static const made_tensor shapes[] = {
    {"q", KILN_F32, 2, {WIDTH, WIDTH}, .spread = 0.2f},
    {"k", KILN_F32, 2, {WIDTH, WIDTH}, .spread = 0.2f},
    {"v", KILN_F32, 2, {WIDTH, WIDTH}, .spread = 0.2f},
    {"turned", KILN_F32, 2, {WIDTH, INNER}, .spread = 0.2f},
    {"long", KILN_F32, 2, {3 * WIDTH, INNER}, .spread = 0.2f},
    {"last", KILN_F32, 2, {WIDTH, WIDTH}, .spread = 0.2f},
    {"bias", KILN_F32, 1, {WIDTH}, .spread = 0.2f},
    {"norm", KILN_F32, 1, {WIDTH}, .spread = 0.2f, .centre = 1},
};
enum { TENSORS = sizeof shapes / sizeof shapes[0] };

static char path[512];

static int write_file(uint32_t dtype)
{
    made_tensor t[TENSORS];
    memcpy(t, shapes, sizeof t);
    for (int i = 0; i < TENSORS; i++) t[i].dtype = dtype;
    return CHECK(made_write(path, t, TENSORS, 7));
}

/* The view the program reads: names of the file, `turned` turned, `rows` the middle of `long`. turn_k: one of those
 * that are stacked too. */
static kiln_weights *view_of(kiln_weights *w, int turn_k)
{
    const kiln_weight_rule rules[] = {KILN_RULE(.from = "turned", .to = "turned", .transpose = 1),
                                      KILN_RULE(.from = "long", .to = "rows", .row = WIDTH, .rows = WIDTH),
                                      KILN_RULE(.from = "k", .to = "k", .transpose = (uint32_t)turn_k),
                                      KILN_RULE(.from = "*", .to = "*")};
    return weights_view(w, rules, 4, NULL);
}

static kiln_t linear(recording *r, kiln_weights *set, kiln_t x, const char *name, int64_t out, int64_t in, int bias)
{
    kiln_t operands[] = {x, record_weight(r, set, name, 2, (const int64_t[]){out, in}, 0),
                         bias ? record_weight(r, set, "bias", 1, (const int64_t[]){out}, 0) : (kiln_t){0}};
    return record_op(r, OP_LINEAR, &(op_attr){0}, operands, 3);
}

static kiln_program *plan_net(runtime *rt, kiln_weights *set, error *e)
{
    kiln_program *p = program_new(rt, "net", 0, e);
    if (!p) return NULL;
    recording *r = program_recording(p);
    kiln_t x = record_input(r, "x", KILN_F32, 3, (const int64_t[]){1, TOKENS, WIDTH});
    kiln_t qkv[] = {linear(r, set, x, "q", WIDTH, WIDTH, 0),
                    linear(r, set, x, "k", WIDTH, WIDTH, 0),
                    linear(r, set, x, "v", WIDTH, WIDTH, 0),
                    {0}};
    x = record_op(r, OP_ATTENTION, &(op_attr){.attention = {.heads = 2, .scale = 0.2f}}, qkv, 4);
    x = linear(r, set, x, "turned", INNER, WIDTH, 0);
    x = linear(r, set, x, "rows", WIDTH, INNER, 1);
    x = linear(r, set, x, "last", WIDTH, WIDTH, 0);
    kiln_t norm[] = {x, record_weight(r, set, "norm", 1, (const int64_t[]){WIDTH}, 0), {0}};
    record_output(r, "y", record_op(r, OP_LAYER_NORM, &(op_attr){.norm = {0, 1e-5f}}, norm, 3));
    if (program_plan(p, e) == KILN_OK) return p;
    program_free(p);
    return NULL;
}

static kiln_status run_net(kiln_program *p, float *y, error *e)
{
    float x[TOKENS * WIDTH];
    dice d = {9};
    for (int i = 0; i < TOKENS * WIDTH; i++) x[i] = dice_real(&d);
    static const int64_t dim[] = {1, TOKENS, WIDTH};
    kiln_tensor window = {.size = sizeof window, .dtype = KILN_F32, .device = KILN_CPU, .rank = 3, .dim = dim};
    kiln_bind b[2] = {KILN_BIND("x", window), KILN_BIND("y", window)};
    b[0].tensor.data = x, b[1].tensor.data = y;
    return run_or_estimate(p, b, 1, b + 1, 1, NULL, NULL, e);
}

enum { Y_BYTES = TOKENS * WIDTH * 4 };

typedef struct {
    kiln_weights *file, *set;
    runtime *rt;
    kiln_program *p;
} rig;

static int rig_open(rig *r, const backend *b, uint32_t precision, int turn_k, size_t host_memory)
{
    error e = {0};
    *r = (rig){.file = weights_open(path, &e)};
    r->set = r->file ? view_of(r->file, turn_k) : NULL;
    r->rt =
        r->set ? runtime_new(
                     &(runtime_setting){.backend = b, .threads = 2, .precision = precision, .host_memory = host_memory},
                     &e)
               : NULL;
    r->p = r->rt ? plan_net(r->rt, r->set, &e) : NULL;
    if (r->p) { /* so that the file's content is known, which takes reads of its own */
        float y[TOKENS * WIDTH];
        set_estimating(r->rt, 1);
        run_net(r->p, y, &e);
        set_estimating(r->rt, 0);
    }
    return CHECK_MSG(r->p != NULL, "%s", e.message);
}

static unsigned rig_close(rig *r, int device)
{
    program_free(r->p);
    runtime_free(r->rt);
    weights_unref(r->set), weights_unref(r->file);
    return device ? fake_device_close().faults : 0;
}

static void open_device(uint64_t seed)
{
    fake_device_open(&(fake_setting){.bytes = 1 << 22, .seed = seed, .graphs = 1, .fail_at = -1});
}

/* From here on a touch of the map ends the program. */
static void *take_map_away(const kiln_weights *file, size_t *size)
{
    struct stat st;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)weights_bytes(file, "bias", NULL) / page * page;
    CHECK(stat(path, &st) == 0);
    *size = ((size_t)st.st_size + page - 1) / page * page;
    uintptr_t first = (uintptr_t)weights_bytes(file, "q", NULL);
    for (size_t i = 0; i < TENSORS; i++)
        if ((uintptr_t)weights_bytes(file, shapes[i].name, NULL) < first)
            first = (uintptr_t)weights_bytes(file, shapes[i].name, NULL);
    void *begin = (void *)(first / page * page); /* the header lies before, in the first page */
    CHECK((uintptr_t)begin <= at && mprotect(begin, *size, PROT_NONE) == 0);
    return begin;
}

static size_t to_locked, to_other;
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static void note_target(void *to, size_t bytes)
{
    pthread_mutex_lock(&counting);
    *(fake_device_locked(to, bytes) ? &to_locked : &to_other) += bytes;
    pthread_mutex_unlock(&counting);
}

static const struct {
    uint32_t stored, precision;
    int turn_k;
} kinds[] = {
    {KILN_F32, KILN_F32, 0},   {KILN_F16, KILN_F32, 0},  {KILN_BF16, KILN_F32, 1},
    {KILN_BF16, KILN_BF16, 0}, {KILN_F32, KILN_BF16, 0}, {KILN_F16, KILN_BF16, 1},
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static int wanted_of(int kind, float *y)
{
    rig r;
    error e = {0};
    int ok = rig_open(&r, &backend_reference, kinds[kind].precision, kinds[kind].turn_k, 0) &&
             CHECK_MSG(run_net(r.p, y, &e) == KILN_OK, "%s", e.message);
    rig_close(&r, 0);
    return ok;
}

/* What the host makes of the map, made of the file with the map taken away; again and again as the weights leave; with
 * and without host copies; with reads that are cut short and interrupted. */
static void test_the_map_is_not_touched(void)
{
    for (int kind = 0; kind < KINDS; kind++) {
        float want[TOKENS * WIDTH], y[TOKENS * WIDTH], first[TOKENS * WIDTH] = {0};
        REQUIRE(write_file(kinds[kind].stored) && wanted_of(kind, want));
        for (int way = 0; way < 4; way++) {
            rig r;
            error e = {0};
            size_t size;
            open_device((uint64_t)way + 1);
            REQUIRE(rig_open(&r, &DEVICE, kinds[kind].precision, kinds[kind].turn_k, way & 1 ? SIZE_MAX : 0));
            void *map = take_map_away(r.file, &size);
            preads_reset();
            preads.stutter = way >> 1, preads.seen = note_target;
            to_locked = to_other = 0;
            for (int run = 0; run < 3; run++) {
                memset(y, 0, sizeof y);
                CHECK_MSG(run_net(r.p, y, &e) == KILN_OK, "%s", e.message);
                if (run == 0) {
                    if (CLOSENESS > 0)
                        CHECK_ARRAY(y, want, TOKENS * WIDTH, kinds[kind].precision == KILN_F32 ? CLOSENESS : 2e-2);
                    else
                        CHECK_MSG(!memcmp(y, want, Y_BYTES), "kind %d: other numbers", kind);
                    if (way == 0) memcpy(first, y, Y_BYTES);
                }
                CHECK(!memcmp(y, first, Y_BYTES));
                residency_give_up(runtime_residency(r.rt), SIZE_MAX);
            }
            /* q, k, v and last go straight where they are stored as they are packed, whatever is done with the others
             */
            size_t straight = 4u * WIDTH * WIDTH * (kinds[kind].stored == KILN_F32 ? 4 : 2), once = way & 1 ? 1 : 3;
            if (kinds[kind].stored == PACKED(kinds[kind].precision) && !kinds[kind].turn_k)
                CHECK_MSG(to_locked >= straight * once, "kind %d: %zu bytes went straight, of %zu", kind, to_locked,
                          straight * once);
            CHECK(to_other > 0); /* what is turned */
            preads_reset();
            mprotect(map, size, PROT_READ);
            CHECK_EQ(rig_close(&r, 1), 0);
        }
    }
}

/* Each read of a run failing in turn. */
static void test_each_read_may_fail(void)
{
    for (int end = 0; end < 2; end++) {
        float want[TOKENS * WIDTH], y[TOKENS * WIDTH];
        long k = 0;
        REQUIRE(write_file(KILN_BF16));
        for (kiln_status status = KILN_ERR_IO; status != KILN_OK && k < 100; k++) {
            rig r;
            error e = {0};
            open_device((uint64_t)k);
            REQUIRE(rig_open(&r, &DEVICE, KILN_F32, 0, SIZE_MAX));
            if (k == 0) {
                REQUIRE(run_net(r.p, want, &e) == KILN_OK);
                residency_give_up(runtime_residency(r.rt), SIZE_MAX);
                rig_close(&r, 1);
                open_device(1);
                REQUIRE(rig_open(&r, &DEVICE, KILN_F32, 0, SIZE_MAX));
            }
            preads_reset();
            preads.fail_at = k, preads.error = end ? 0 : EIO;
            status = run_net(r.p, y, &e);
            CHECK_MSG(status == KILN_OK || (status == KILN_ERR_IO && strstr(e.message, path) &&
                                            strstr(e.message, "tensor '") && strstr(e.message, "program 'net'") &&
                                            strstr(e.message, end ? "the file ends there" : "Input/output error")),
                      "read %ld: %s", k, e.message);
            preads_reset();
            CHECK_EQ(run_net(r.p, y, NULL), KILN_OK);
            CHECK(!memcmp(y, want, Y_BYTES));
            CHECK_EQ(rig_close(&r, 1), 0);
        }
        CHECK_MSG(k > 7 && k < 100, "%ld reads", k);
    }
}

static void test_every_allocation_may_fail(void)
{
    float want[TOKENS * WIDTH], y[TOKENS * WIDTH];
    int64_t k = 0;
    REQUIRE(write_file(KILN_F16));
    for (kiln_status status = KILN_ERR_NOMEM; status != KILN_OK && k < 400; k++) {
        rig r;
        error e = {0};
        open_device((uint64_t)k);
        REQUIRE(rig_open(&r, &DEVICE, KILN_F32, 1, 0));
        if (k == 0) CHECK_EQ(run_net(r.p, want, NULL), KILN_OK), residency_give_up(runtime_residency(r.rt), SIZE_MAX);
        mem_fail_at(k, 0);
        status = run_net(r.p, y, &e);
        mem_fail_at(-1, 0);
        CHECK_MSG(status == KILN_OK || (status == KILN_ERR_NOMEM && e.message[0]), "allocation %d: %s", (int)k,
                  e.message);
        CHECK_EQ(run_net(r.p, y, NULL), KILN_OK);
        CHECK(!memcmp(y, want, Y_BYTES));
        CHECK_EQ(rig_close(&r, 1), 0);
    }
    CHECK_MSG(k > 3 && k < 400, "%d allocations", (int)k);
}

static void cut_short(void) { CHECK(truncate(path, 9000) == 0); }

static void test_a_file_that_changes_is_an_error(void)
{
    for (int during = 0; during < 2; during++) {
        float y[TOKENS * WIDTH];
        rig r;
        error e = {0};
        REQUIRE(write_file(KILN_F32));
        open_device(1);
        REQUIRE(rig_open(&r, &DEVICE, KILN_F32, 0, SIZE_MAX));
        preads_reset();
        if (during)
            preads.fail_at = 5, preads.during = cut_short;
        else
            cut_short();
        CHECK_EQ(run_net(r.p, y, &e), KILN_ERR_IO);
        CHECK_MSG(strstr(e.message, path) && strstr(e.message, "changed since it was opened") &&
                      strstr(e.message, "tensor '"),
                  "%s", e.message);
        preads_reset();
        CHECK_EQ(rig_close(&r, 1), 0);
    }
}

/* Straight, through the buffer, and in one that is stacked. */
static void test_a_number_that_is_none_is_found(void)
{
    static const char *const names[] = {"last", "turned", "v"};
    for (int i = 0; i < 3; i++) {
        static const uint32_t infinity = 0x7f800000u;
        rig r;
        error e = {0};
        float y[TOKENS * WIDTH];
        char said[64];
        REQUIRE(write_file(KILN_F32));
        kiln_weights *w = weights_open(path, NULL);
        REQUIRE(w);
        /* its place in the file: the tensors lie in the order of the list, the last one ends the file */
        struct stat st;
        CHECK(stat(path, &st) == 0);
        off_t place = st.st_size;
        for (int t = TENSORS - 1; t >= 0 && strcmp(shapes[t].name, names[i]) != 0; t--)
            place -= (off_t)(made_count(&shapes[t]) * 4);
        weights_unref(w);
        int fd = open(path, O_WRONLY);
        CHECK(fd >= 0 && pwrite(fd, &infinity, 4, place - 4) == 4);
        close(fd);
        open_device(1);
        REQUIRE(rig_open(&r, &DEVICE, KILN_F32, 0, SIZE_MAX));
        CHECK_EQ(run_net(r.p, y, &e), KILN_ERR_INVALID);
        snprintf(said, sizeof said, "tensor '%s' holds a NaN or infinity", names[i]);
        CHECK_MSG(strstr(e.message, said) && strstr(e.message, path), "%s", e.message);
        CHECK_EQ(rig_close(&r, 1), 0);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_the_map_is_not_touched), CASE(test_each_read_may_fail),
                                      CASE(test_every_allocation_may_fail), CASE(test_a_file_that_changes_is_an_error),
                                      CASE(test_a_number_that_is_none_is_found)};
    log_level_set(KILN_LOG_ERROR);
    snprintf(path, sizeof path, "%s/made.safetensors", test_folder());
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
