/* test_custom_op.c - ops of a plugin's own through kiln.ops/1: a scan with two results, one by expression, operands
 * whose rows lie apart, and what is refused.
 */
#include "harness.h"
#include "rig.h"

#include <math.h>
#include <string.h>

static const kiln_ops *ops(void) { return rig_host()->ability(KILN_OPS_ABILITY); }

/* ---- y[n,t,c] = decay y[n,t-1,c] + x[n,t,c], and the last row ---- */

typedef struct {
    float decay;
} scan_attributes;

static kiln_status scan_shape(const kiln_op_call *c, kiln_op_result *out)
{
    const kiln_tensor *x = &c->in[0];
    if (c->n_in != 1 || x->rank != 3) return c->fail(c->engine, "scan takes x [N,T,C], not a rank of %u", x->rank);
    if (c->attribute_bytes != sizeof(scan_attributes)) return c->fail(c->engine, "scan without its decay");
    out[0].rank = 3, memcpy(out[0].dim, x->dim, 3 * sizeof *x->dim);
    out[1].rank = 2, out[1].dtype = KILN_F32;
    out[1].dim[0] = x->dim[0], out[1].dim[1] = x->dim[2];
    return KILN_OK;
}

static uint64_t scan_flops(const kiln_op_call *c)
{
    return 2 * (uint64_t)(c->in[0].dim[0] * c->in[0].dim[1] * c->in[0].dim[2]);
}

static void scan_row(const kiln_op_call *c, int64_t n, int64_t column)
{
    const int64_t *d = c->in[0].dim;
    const float *x = c->in[0].data;
    float *y = c->out[0].data, *last = c->out[1].data, h = 0;
    for (int64_t t = 0; t < d[1]; t++) {
        int64_t at = (n * d[1] + t) * d[2] + column;
        y[at] = h = ((const scan_attributes *)c->attributes)->decay * h + x[at];
    }
    if (last) last[n * d[2] + column] = h;
}

static kiln_status scan_reference(const kiln_op_call *c)
{
    for (int64_t n = 0; n < c->in[0].dim[0]; n++)
        for (int64_t k = 0; k < c->in[0].dim[2]; k++) scan_row(c, n, k);
    return KILN_OK;
}

static uint64_t scan_tiles(const kiln_op_call *c) { return (uint64_t)c->in[0].dim[0]; }
static size_t scan_workspace(const kiln_op_call *c) { return (size_t)c->in[0].dim[2] * sizeof(float); }
static void scan_tile(const kiln_op_call *c, uint64_t tile, void *workspace)
{
    memset(workspace, 0xff, scan_workspace(c)); /* it is ours */
    for (int64_t k = 0; k < c->in[0].dim[2]; k++) scan_row(c, (int64_t)tile, k);
}

static const kiln_op_kind scan = {.size = sizeof scan,
                                  .version = 1,
                                  .name = "org.example.scan",
                                  .doc = "A decaying sum along T.",
                                  .n_in = 1,
                                  .n_out = 2,
                                  .types = 1u << KILN_F32,
                                  .shape = scan_shape,
                                  .flops = scan_flops,
                                  .reference = scan_reference,
                                  .tiles = scan_tiles,
                                  .workspace = scan_workspace,
                                  .tile = scan_tile};

static kiln_status same_shape(const kiln_op_call *c, kiln_op_result *out)
{
    out[0].rank = c->in[0].rank;
    memcpy(out[0].dim, c->in[0].dim, c->in[0].rank * sizeof(int64_t));
    return KILN_OK;
}
static kiln_status no_reference(const kiln_op_call *c) { return c->fail(c->engine, "never called"); }
static const kiln_op_kind squared_relu = {.size = sizeof squared_relu,
                                          .version = 1,
                                          .name = "org.example.squared_relu",
                                          .doc = "RWKV's activation.",
                                          .n_in = 1,
                                          .n_out = 1,
                                          .expression = "relu(a) * relu(a)",
                                          .shape = same_shape,
                                          .reference = no_reference};

enum { N = 2, T = 5, C = 3, WIDE = 7 };

static kiln_program *fresh(uint32_t precision)
{
    return ops()->program_new(
        rig_ctx(), &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "p", .precision = precision});
}

/* The scan of columns 2.. of a wider tensor, squared. */
static void run_scan(uint32_t precision, int want_last, double tolerance)
{
    const kiln_ops *o = ops();
    float x[N * T * WIDE], y[N * T * C], last[N * C];
    for (int i = 0; i < N * T * WIDE; i++) x[i] = (float)((i * 37) % 17 - 8) / 8;
    kiln_program *p = fresh(precision);
    kiln_t in = o->input(p, "x", KILN_F32, 3, KILN_DIMS(N, T, WIDE)), h = {0};
    kiln_t some = o->slice(p, o->affine(p, in, 2, 0), 2, 2, C);
    kiln_t out = o->custom(p, &scan, &some, 1, &(scan_attributes){.decay = 0.5f}, sizeof(scan_attributes), &h);
    o->output(p, "y", o->custom(p, &squared_relu, &out, 1, NULL, 0, NULL));
    if (want_last) o->output(p, "last", h);
    kiln_program_info info = {.size = sizeof info};
    CHECK_MSG(o->plan(rig_ctx(), p, &info) == KILN_OK, "%s", rig_message());
    CHECK_EQ(info.flops, 2 * N * T * C);
    kiln_bind from = KILN_BIND("x", {.size = sizeof(kiln_tensor),
                                     .dtype = KILN_F32,
                                     .device = KILN_CPU,
                                     .rank = 3,
                                     .dim = KILN_DIMS(N, T, WIDE),
                                     .data = x});
    kiln_bind to[] = {KILN_BIND("y", {.size = sizeof(kiln_tensor),
                                      .dtype = KILN_F32,
                                      .device = KILN_CPU,
                                      .rank = 3,
                                      .dim = KILN_DIMS(N, T, C),
                                      .data = y}),
                      KILN_BIND("last", {.size = sizeof(kiln_tensor),
                                         .dtype = KILN_F32,
                                         .device = KILN_CPU,
                                         .rank = 2,
                                         .dim = KILN_DIMS(N, C),
                                         .data = last})};
    CHECK_MSG(o->run(rig_ctx(), p, &from, 1, to, want_last ? 2 : 1) == KILN_OK, "%s", rig_message());
    for (int n = 0; n < N; n++)
        for (int c = 0; c < C; c++) {
            double sum = 0;
            for (int t = 0; t < T; t++) {
                sum = 0.5 * sum + 2 * (double)x[(n * T + t) * WIDE + 2 + c];
                double wanted = sum > 0 ? sum * sum : 0;
                CHECK(fabs((double)y[(n * T + t) * C + c] - wanted) <= tolerance * fmax(1, wanted));
            }
            if (want_last) CHECK(fabs((double)last[n * C + c] - sum) <= tolerance);
        }
    o->program_free(p);
}

static void test_an_op_runs_by_its_tiles(void)
{
    run_scan(KILN_F32, 1, 1e-6);
    run_scan(KILN_F32, 0, 1e-6); /* nobody wants the second result */
}
static void test_an_op_of_f32_in_a_program_of_bf16(void) { run_scan(KILN_BF16, 1, 2e-2); }

static void refused(const kiln_op_kind *k, uint32_t rank, size_t bytes, const char *says)
{
    kiln_program *p = fresh(KILN_F32);
    kiln_t x = ops()->input(p, "x", KILN_F32, rank, KILN_DIMS(2, 3, 4));
    ops()->scope_push(p, "block.1");
    ops()->custom(p, k, &x, 1, &(scan_attributes){0}, bytes, NULL);
    CHECK(ops()->plan(rig_ctx(), p, NULL) != KILN_OK);
    CHECK_MSG(strstr(rig_message(), says) && strstr(rig_message(), "block.1"), "%s", rig_message());
    ops()->program_free(p);
}

static void test_what_is_wrong_is_a_sentence(void)
{
    kiln_op_kind bad = scan;
    refused(&scan, 2, sizeof(scan_attributes), "org.example.scan: scan takes x [N,T,C], not a rank of 2");
    refused(&scan, 3, 1, "scan without its decay");
    bad.reference = NULL, refused(&bad, 3, sizeof(scan_attributes), "it has no reference()");
    bad = scan, bad.types = 1u << KILN_BF16, refused(&bad, 3, sizeof(scan_attributes), "its types leave out f32");
    bad = scan, bad.tiles = NULL, refused(&bad, 3, sizeof(scan_attributes), "tiles() and tile() go together");
    bad = squared_relu, bad.expression = "relu(", refused(&bad, 3, 0, "expression 'relu('");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_an_op_runs_by_its_tiles),
        CASE(test_an_op_of_f32_in_a_program_of_bf16),
        CASE(test_what_is_wrong_is_a_sentence),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
