/* test_cuda_custom.c - an op of a plugin's own with a launch for CUDA, in a program on the emulated device: what its
 * cuda() enqueues on the stream is captured with the rest of the program and happens at each launch of the graph, its
 * workspace is the device's, and one without cuda() runs by its reference, outside of graphs.
 */
#include "../memory/fake_device.h"
#include "cu_emu.h"
#include "fake_cuda.h"
#include "graph_kit.h"

#include "backend/cuda_load.h"
#include "backend/runtime.h"
#include "graph/custom.h"

#include <math.h>

extern const cuda_library kiln_cuda_library;
enum { ROWS = 7, WIDTH = 33, WIDE = 40, RUNS = 6, LAUNCHES = 16 };

/* ---- y = x summed up along the rows; a copy of x in the workspace is what it reads ---- */

typedef struct {
    const float *x;
    float *y, *workspace;
} launch;
static launch launches[LAUNCHES];
static int n_launches, n_references;

static void sum_up(void *arg)
{
    const launch *l = arg;
    memcpy(l->workspace, l->x, sizeof(float) * ROWS * WIDTH);
    for (int i = 0; i < ROWS * WIDTH; i++) l->y[i] = l->workspace[i] + (i >= WIDTH ? l->y[i - WIDTH] : 0);
}
static kiln_status sum_shape(const kiln_op_call *c, kiln_op_result *out)
{
    out[0].rank = 2, out[0].dtype = KILN_F32;
    memcpy(out[0].dim, c->in[0].dim, 2 * sizeof *c->in[0].dim);
    return KILN_OK;
}
static kiln_status sum_reference(const kiln_op_call *c)
{
    float workspace[ROWS * WIDTH];
    n_references++;
    sum_up(&(launch){c->in[0].data, c->out[0].data, workspace});
    return KILN_OK;
}
static size_t sum_workspace(const kiln_op_call *c)
{
    return sizeof(float) * (size_t)(c->in[0].dim[0] * c->in[0].dim[1]);
}
static kiln_status sum_cuda(const kiln_op_call *c, void *stream, void *workspace)
{
    if (n_launches == LAUNCHES || c->device != KILN_CUDA || !fake_device_holds(workspace, sum_workspace(c)) ||
        !fake_device_holds(c->in[0].data, sum_workspace(c)) || !fake_device_holds(c->out[0].data, sum_workspace(c)))
        return c->fail(c->engine, "not on the device");
    launch *l = &launches[n_launches++];
    *l = (launch){c->in[0].data, c->out[0].data, workspace};
    return fake_cuda_call(stream, sum_up, l) == cudaSuccess ? KILN_OK : c->fail(c->engine, "not enqueued");
}

static const kiln_op_kind sum_rows = {.size = sizeof sum_rows,
                                      .version = 1,
                                      .name = "org.example.sum_rows",
                                      .doc = "A sum along the rows.",
                                      .n_in = 1,
                                      .n_out = 1,
                                      .types = 1u << KILN_F32,
                                      .shape = sum_shape,
                                      .reference = sum_reference,
                                      .cuda_workspace = sum_workspace,
                                      .cuda = sum_cuda};

/* The op between two of kiln's own, of a part of the columns: its rows lie apart. */
static kiln_program *plan(runtime *rt, const kiln_op_kind *kind, error *e)
{
    kiln_program *p = program_new(rt, "sums", 0, e);
    if (!p) return NULL;
    recording *r = program_recording(p);
    kiln_t x = record_input(r, "x", KILN_F32, 2, (const int64_t[]){ROWS, WIDE});
    x = record_op(r, OP_AFFINE, &(op_attr){.affine = {0.5f, 0.25f}}, &x, 1);
    x = record_op(r, OP_SLICE, &(op_attr){.slice = {1, 3, WIDTH}}, &x, 1);
    x = record_custom(r, &(custom_what){.kind = kind}, &x, 1, NULL);
    record_output(r, "y", record_op(r, OP_AFFINE, &(op_attr){.affine = {2, 0}}, &x, 1));
    if (program_plan(p, e) == KILN_OK) return p;
    program_free(p);
    return NULL;
}

static kiln_status run(kiln_program *p, int step, float *y, error *e)
{
    static const int64_t in[2] = {ROWS, WIDE}, out[2] = {ROWS, WIDTH};
    float x[ROWS * WIDE];
    for (int i = 0; i < ROWS * WIDE; i++) x[i] = (float)((i * 37 + step * 11) % 17 - 8) / 8;
    kiln_bind from = KILN_BIND(
        "x", {.size = sizeof(kiln_tensor), .dtype = KILN_F32, .device = KILN_CPU, .rank = 2, .dim = in, .data = x});
    kiln_bind to = KILN_BIND(
        "y", {.size = sizeof(kiln_tensor), .dtype = KILN_F32, .device = KILN_CPU, .rank = 2, .dim = out, .data = y});
    kiln_status status = program_run(p, &from, 1, &to, 1, NULL, NULL, e);
    double sum[WIDTH] = {0};
    for (int r = 0; r < ROWS && status == KILN_OK; r++)
        for (int c = 0; c < WIDTH; c++) { /* exact */
            sum[c] += 0.5 * (double)x[r * WIDE + 3 + c] + 0.25;
            CHECK(fabs((double)y[r * WIDTH + c] - 2 * sum[c]) < 1e-6);
        }
    return status;
}

/* Several runs over a fresh device; how many graphs were launched. */
static uint64_t runs(const kiln_op_kind *kind, uint64_t seed, int graphs)
{
    static float y[ROWS * WIDTH];
    error e = {0};
    n_launches = n_references = 0;
    fake_device_open(&(fake_setting){.bytes = 16 << 20, .seed = seed, .graphs = graphs, .fail_at = -1});
    runtime *rt =
        runtime_new(&(runtime_setting){.backend = kiln_cuda_library.backend, .threads = 1, .precision = KILN_F32}, &e);
    kiln_program *p = rt ? plan(rt, kind, &e) : NULL;
    CHECK_MSG(p != NULL, "%s", e.message);
    kiln_program_info info = {.size = sizeof info};
    if (p) CHECK(program_info(p, &info) == KILN_OK && info.scratch_bytes >= sizeof(float) * ROWS * WIDTH);
    for (int step = 0; step < RUNS && p; step++) {
        memset(y, 0xff, sizeof y);
        CHECK_MSG(run(p, step, y, &e) == KILN_OK, "%s", e.message);
    }
    program_free(p);
    runtime_free(rt);
    fake_report r = fake_device_close();
    CHECK_EQ(r.faults, 0);
    cu_emu_forget();
    CHECK_EQ(cu_emu_faults(), 0);
    return r.launches;
}

static void test_its_launch_is_part_of_the_graph(void)
{
    for (uint64_t seed = 1; seed <= 8; seed++) {
        CHECK(runs(&sum_rows, seed, 1) > 0);
        CHECK_MSG(n_launches > 0 && n_launches < RUNS, "%d calls of cuda() in %d runs", n_launches, RUNS);
        CHECK_EQ(n_references, 0);
    }
}

static void test_without_graphs_it_is_called_each_time(void)
{
    CHECK_EQ(runs(&sum_rows, 3, 0), 0);
    CHECK_EQ(n_launches, RUNS);
}

static void test_without_a_launch_the_reference_runs(void)
{
    kiln_op_kind plain = sum_rows;
    plain.cuda = NULL;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        CHECK_EQ(runs(&plain, seed, 1), 0);
        CHECK_EQ(n_references, RUNS);
    }
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_its_launch_is_part_of_the_graph),
                                      CASE(test_without_graphs_it_is_called_each_time),
                                      CASE(test_without_a_launch_the_reference_runs)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
