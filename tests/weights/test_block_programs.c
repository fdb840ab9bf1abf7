/* test_block_programs.c - programs over weights that are stored by blocks: they stay so in packed form, one copy for
 * all ops that read one, and results are those of the numbers that the blocks stand for; stacked weights and kernels
 * that take f32 too.
 */
#include "gguf_kit.h"
#include "rig.h"

#include "tensor/dtype.h"
#include "weights/quantize.h"

#include <math.h>

enum { O = 24, I = 512, ROWS = 20 };
static float w[3][O * I];

static kiln_status to_text(void *self, const void *bytes, size_t n)
{
    str_append_n(self, bytes, n);
    return KILN_OK;
}
static kiln_status go_on(void *self, uint64_t done, uint64_t total)
{
    (void)self, (void)done, (void)total;
    return KILN_OK;
}

/* q, k and v [24,512] in blocks of the type. */
static kiln_weights *blocks_of(uint32_t type)
{
    static int made;
    static str bytes[4];
    char name[32];
    quantize_report report;
    error e = {0};
    safetensors_source t[] = {{.name = "q", .dtype = KILN_F32, DIMS(O, I), .data = w[0]},
                              {.name = "k", .dtype = KILN_F32, DIMS(O, I), .data = w[1]},
                              {.name = "v", .dtype = KILN_F32, DIMS(O, I), .data = w[2]}};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < O * I; i++) w[k][i] = sinf((float)((i + 77 * k) * 7919 % 10007)) * 0.05f;
    kiln_weights *wide = opened(put_tensors("wide.safetensors", t, 3));
    weights_sink sink = {to_text, go_on, &bytes[made], NULL};
    kiln_status status = weights_quantize(&sink, wide, &(quantize_setting){.dtype = type}, &report, &e);
    CHECK_MSG(status == KILN_OK, "%s", e.message);
    snprintf(name, sizeof name, "blocks%d.safetensors", made);
    kiln_weights *set = opened(put_bytes(name, bytes[made].data, bytes[made].len));
    made++;
    for (int k = 0; k < 3; k++) CHECK_EQ(weights_read_f32(set, k == 0 ? "q" : k == 1 ? "k" : "v", w[k], &e), KILN_OK);
    weights_unref(wide);
    return set;
}

static double product(const float *a, const float *b, int n, int step)
{
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)a[i] * (double)b[i * step];
    return sum;
}

static kiln_bind bound(const char *name, uint32_t dtype, void *data, const int64_t *dim)
{
    return (kiln_bind)KILN_BIND(
        name, {.size = sizeof(kiln_tensor), .dtype = dtype, .device = KILN_CPU, .rank = 2, .dim = dim, .data = data});
}

static int near(float got, double want) { return fabs((double)got - want) <= 2e-5 * fmax(1, fabs(want)); }

static int rig_is_cpu(void)
{
    const char *name = getenv("KILN_TEST_BACKEND");
    return !name || strcmp(name, "cpu") == 0;
}

#define MATRIX(type, is_weight, a, b)                                                                                  \
    {                                                                                                                  \
        .dtype = type, .weight = is_weight, .ld = b, .shape = {.rank = 2, .dim = {a, b} }                              \
    }

/* Equal texts: the ops share a packed copy. A vocabulary of f16 is kept once, too. */
static void test_forms_are_equal(void)
{
    static const struct {
        uint32_t type;
        int64_t rows, columns;
    } tables[] = {{KILN_Q8_0, 24, 512}, {KILN_F16, 32768, 64}, {KILN_F32, 32768, 64}};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        int64_t r = tables[i].rows, n = tables[i].columns;
        uint32_t t = tables[i].type;
        const op_desc ops[] = {{.kind = OP_LINEAR,
                                .n_in = 3,
                                .in = {MATRIX(KILN_BF16, 0, 2, n), MATRIX(t, 1, r, n)},
                                .out = MATRIX(KILN_BF16, 0, 2, r),
                                .precision = KILN_BF16},
                               {.kind = OP_LINEAR_T,
                                .n_in = 3,
                                .in = {MATRIX(KILN_BF16, 0, 2, r), MATRIX(t, 1, r, n)},
                                .out = MATRIX(KILN_BF16, 0, 2, n),
                                .precision = KILN_BF16},
                               {.kind = OP_EMBEDDING,
                                .n_in = 2,
                                .in = {MATRIX(t, 1, r, n), MATRIX(KILN_I32, 0, 1, 4)},
                                .out = MATRIX(KILN_BF16, 0, 4, n),
                                .precision = KILN_BF16}};
        kernel *k[3] = {0};
        error e = {0};
        for (int o = 0; o < 3; o++) REQUIRE(backend_cpu.prepare(&ops[o], &k[o], &e) == KILN_OK);
        CHECK(strcmp(k[0]->pack_form[1], k[1]->pack_form[1]) == 0 &&
              strcmp(k[0]->pack_form[1], k[2]->pack_form[0]) == 0);
        CHECK(k[0]->packed_bytes[1] == k[1]->packed_bytes[1] && k[0]->packed_bytes[1] == k[2]->packed_bytes[0]);
        for (int o = 0; o < 3; o++) k[o]->free(k[o]);
    }
}

/* linear, embedding and linear_transposed of one weight: three results, one copy, as many bytes as the file's. */
static void three_of(uint32_t type)
{
    const kiln_ops *o = rig_host()->ability(KILN_OPS_ABILITY);
    static float x[ROWS * I], y[ROWS * O], z[ROWS * I], row[ROWS * I];
    static int32_t id[ROWS];
    kiln_weights *set = blocks_of(type);
    kiln_ctx *c = rig_ctx();
    kiln_program_info info = {.size = sizeof info};
    for (int i = 0; i < ROWS * I; i++) x[i] = cosf((float)i);
    for (int i = 0; i < ROWS; i++) id[i] = i * 5 % O;
    kiln_program *p = o->program_new(c, &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "three"});
    kiln_t q = o->weight(p, set, "q", 2, KILN_DIMS(O, I));
    kiln_t h = o->linear(p, o->input(p, "x", KILN_F32, 2, KILN_DIMS(ROWS, I)), q, (kiln_t){0});
    o->output(p, "y", h);
    o->output(p, "z", o->linear_transposed(p, h, q, (kiln_t){0}));
    o->output(p, "row", o->embedding(p, q, o->input(p, "id", KILN_I32, 2, KILN_DIMS(1, ROWS))));
    CHECK_MSG(o->plan(c, p, &info) == KILN_OK, "%s", rig_message());
    size_t bytes = 0;
    CHECK(dtype_bytes(type, O * I, &bytes));
    if (!rig_is_cpu()) bytes = O * I * sizeof(float); /* others take f32 */
    CHECK_MSG(info.weight_bytes == bytes, "%llu bytes of weights, %zu in the file",
              (unsigned long long)info.weight_bytes, bytes); /* one copy, counted once */
    kiln_bind in[] = {bound("x", KILN_F32, x, KILN_DIMS(ROWS, I)), bound("id", KILN_I32, id, KILN_DIMS(1, ROWS))};
    kiln_bind out[] = {bound("y", KILN_F32, y, KILN_DIMS(ROWS, O)), bound("z", KILN_F32, z, KILN_DIMS(ROWS, I)),
                       bound("row", KILN_F32, row, KILN_DIMS(1, ROWS, I))};
    out[2].tensor.rank = 3;
    CHECK_MSG(o->run(c, p, in, 2, out, 3) == KILN_OK, "%s", rig_message());
    for (int r = 0; r < ROWS; r++) {
        for (int k = 0; k < O; k++) CHECK(near(y[r * O + k], product(x + r * I, w[0] + k * I, I, 1)));
        for (int i = 0; i < I; i += 37) CHECK(near(z[r * I + i], product(y + r * O, w[0] + i, O, I)));
        CHECK(memcmp(row + r * I, w[0] + id[r] * I, sizeof(float) * I) == 0);
    }
    o->program_free(p);
    weights_unref(set);
}

static void test_Q2_one_copy_in_blocks(void)
{
    three_of(KILN_Q8_0);
    three_of(KILN_Q4_K);
}

/* q, k and v of one x are stacked: still blocks; the gain of a norm is not. */
static void test_stacked_blocks(void)
{
    const kiln_ops *o = rig_host()->ability(KILN_OPS_ABILITY);
    static float x[ROWS * I], y[ROWS * O];
    kiln_weights *set = blocks_of(KILN_Q6_K);
    kiln_ctx *c = rig_ctx();
    kiln_program_info info = {.size = sizeof info};
    for (int i = 0; i < ROWS * I; i++) x[i] = 1;
    kiln_program *p = o->program_new(c, &(kiln_program_options){.size = sizeof(kiln_program_options), .name = "qkv"});
    kiln_t in = o->input(p, "x", KILN_F32, 3, KILN_DIMS(1, ROWS, I)), t[3];
    for (int k = 0; k < 3; k++)
        t[k] = o->linear(p, in, o->weight(p, set, k == 0 ? "q" : k == 1 ? "k" : "v", 2, KILN_DIMS(O, I)), (kiln_t){0});
    o->output(p, "y", o->attention(p, t[0], t[1], t[2], &(kiln_attention){.size = sizeof(kiln_attention), .heads = 2}));
    CHECK_MSG(o->plan(c, p, &info) == KILN_OK, "%s", rig_message());
    size_t bytes = 0;
    CHECK(dtype_bytes(KILN_Q6_K, 3 * O * I, &bytes));
    if (rig_is_cpu()) CHECK(info.n_planned == 2 && info.weight_bytes == bytes);
    kiln_bind from = bound("x", KILN_F32, x, KILN_DIMS(1, ROWS, I)),
              to = bound("y", KILN_F32, y, KILN_DIMS(1, ROWS, O));
    from.tensor.rank = to.tensor.rank = 3;
    CHECK_MSG(o->run(c, p, &from, 1, &to, 1) == KILN_OK, "%s", rig_message());
    for (int k = 0; k < O; k++) CHECK(near(y[k], product(x, w[2] + k * I, I, 1))); /* equal rows: v's */
    o->program_free(p);
    weights_unref(set);
}

int main(int argc, char **argv)
{
    static const test_case tests[] = {CASE(test_forms_are_equal), CASE(test_Q2_one_copy_in_blocks),
                                      CASE(test_stacked_blocks)};
    return test_main(argc, argv, tests, sizeof tests / sizeof tests[0]);
}
