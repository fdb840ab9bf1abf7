/* test_fuse.c - each rule of fuse.c fires where it may and only there. That a fused program computes the same is in
 * backend/test_executor.c.
 */
#include "graph_kit.h"

#include "base/memory_alloc.h"
#include "graph/fuse.h"

static kiln_weights *set;

typedef struct {
    recording r;
    recorder c;
    kiln_t x; /* [2,4,4,16] */
} bench;

static void start(bench *b)
{
    error e = {0};
    CHECK_EQ(recording_init(&b->r, "p", KILN_F32, &e), KILN_OK);
    b->c = (recorder){.r = &b->r, .w = set};
    b->x = record_input(&b->r, "x", KILN_F32, 4, DIMS(2, 4, 4, 16));
}

static size_t count(const bench *b, op_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < b->r.n; i++) n += b->r.op[i].kind == kind;
    return n;
}

/* Ends the program in `y`, fuses it, and looks for one op of `kind`. */
static const op *fused(bench *b, kiln_t y, op_kind kind)
{
    static const op none;
    error e = {0};
    const op *found = NULL;
    record_output(&b->r, "y", y);
    CHECK_MSG(b->r.failure.status == KILN_OK, "%s", b->r.failure.message);
    CHECK_EQ(fuse(&b->r, &e), KILN_OK);
    for (size_t i = 0; i < b->r.n; i++)
        if (b->r.op[i].kind == kind) found = &b->r.op[i];
    return found ? found : &none;
}

static void test_norm_takes_the_activation(void)
{
    bench b;
    start(&b);
    const op *o = fused(&b, put_act(&b.c, put_norm(&b.c, b.x, 4), KILN_ACT_SILU), OP_GROUP_NORM);
    CHECK_EQ(o->epilogue.act, KILN_ACT_SILU);
    CHECK_EQ(count(&b, OP_ACT), 0);
    recording_free(&b.r);
}

static void test_products_take_the_activation(void)
{
    bench b;
    start(&b);
    kiln_t y = put_act(&b.c, put_linear(&b.c, put_act(&b.c, put_conv(&b.c, b.x, 8, 3, 1), KILN_ACT_GELU), 8, 0, 1),
                       KILN_ACT_QUICK_GELU);
    CHECK_EQ(fused(&b, y, OP_LINEAR)->epilogue.act, KILN_ACT_QUICK_GELU);
    CHECK_EQ(count(&b, OP_ACT), 0);
    recording_free(&b.r);
}

static void test_an_activation_stays_when_others_read_what_is_before_it(void)
{
    bench b;
    start(&b);
    kiln_t h = put_conv(&b.c, b.x, 16, 3, 1);
    const op *o = fused(&b, put_add(&b.c, put_act(&b.c, h, KILN_ACT_SILU), h), OP_CONV2D);
    CHECK_EQ(o->epilogue.act, 0);
    CHECK_EQ(count(&b, OP_ACT), 1);
    recording_free(&b.r);
}

static void test_an_output_is_not_fused_away(void)
{
    bench b;
    start(&b);
    kiln_t h = put_conv(&b.c, b.x, 16, 3, 1);
    record_output(&b.r, "before", h);
    fused(&b, put_act(&b.c, h, KILN_ACT_SILU), OP_CONV2D);
    CHECK_EQ(count(&b, OP_ACT), 1);
    recording_free(&b.r);
}

static void test_a_second_activation_stays(void)
{
    bench b;
    start(&b);
    fused(&b, put_act(&b.c, put_act(&b.c, put_norm(&b.c, b.x, 4), KILN_ACT_SILU), KILN_ACT_TANH), OP_ACT);
    CHECK_EQ(count(&b, OP_ACT), 1);
    recording_free(&b.r);
}

static void test_linear_takes_geglu(void)
{
    bench b;
    start(&b);
    const op *o = fused(&b, put1(&b.c, OP_GEGLU, (op_attr){0}, put_linear(&b.c, b.x, 32, 0, 1)), OP_LINEAR);
    CHECK_EQ(o->epilogue.geglu, 1);
    CHECK_EQ(o->shape.dim[3], 16);
    CHECK_EQ(count(&b, OP_GEGLU), 0);
    recording_free(&b.r);
}

static void test_a_residual_is_taken_on_either_side(void)
{
    for (int side = 0; side < 2; side++) {
        bench b;
        start(&b);
        kiln_t h = put_conv(&b.c, put_act(&b.c, b.x, KILN_ACT_SILU), 16, 3, 1);
        const op *o = fused(&b, side ? put_add(&b.c, b.x, h) : put_add(&b.c, h, b.x), OP_CONV2D);
        CHECK_EQ(o->epilogue.residual, 1);
        CHECK_EQ(o->n_in, 4);
        CHECK(b.r.op[o->in[3] - 1].kind == OP_INPUT);
        CHECK_EQ(count(&b, OP_ADD), 0);
        recording_free(&b.r);
    }
}

/* The residual is recorded after the product: the product moves to where the sum stood. */
static void test_a_later_residual_is_ready_when_it_is_read(void)
{
    bench b;
    start(&b);
    kiln_t h = put_conv(&b.c, b.x, 16, 3, 1), late = put_norm(&b.c, b.x, 4);
    const op *o = fused(&b, put_add(&b.c, h, late), OP_CONV2D);
    CHECK_EQ(o->epilogue.residual, 1);
    CHECK(o->in[3] < (uint32_t)(o - b.r.op) + 1);
    recording_free(&b.r);
}

static void test_a_broadcast_sum_or_a_bias_is_no_residual(void)
{
    bench b;
    start(&b);
    kiln_t h = put_add(&b.c, put_conv(&b.c, b.x, 16, 3, 1), put_bias(&b.c, 16, 1));
    fused(&b, put_add(&b.c, put_conv(&b.c, h, 16, 1, 1), put_slice(&b.c, b.x, 0, 0, 1)), OP_CONV2D);
    CHECK_EQ(count(&b, OP_ADD), 2);
    recording_free(&b.r);
}

static kiln_t attended(bench *b, int from, int v_version)
{
    kiln_t t = record_reshape(&b->r, b->x, 3, DIMS(2, 16, 16)), y = from ? put_act(&b->c, t, KILN_ACT_TANH) : t;
    kiln_t q = put_linear(&b->c, t, 16, 0, 0), k = put_linear(&b->c, y, 16, 1, 0),
           v = put_linear(&b->c, y, 16, 2, v_version);
    return put_attention(&b->c, q, k, v);
}

static void test_q_k_v_become_one_linear(void)
{
    bench b;
    start(&b);
    const op *o = fused(&b, attended(&b, 0, 0), OP_LINEAR);
    CHECK_EQ(count(&b, OP_LINEAR), 1);
    CHECK_EQ(count(&b, OP_SLICE), 3);
    CHECK_EQ(o->shape.dim[2], 48);
    const op *w = &b.r.op[o->in[1] - 1];
    CHECK_EQ(w->n_part, 3);
    CHECK_EQ(w->shape.dim[0], 48);
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "lin.16.16.%d", i);
        CHECK_STR(b.r.op[w->part[i] - 1].name, name);
    }
    recording_free(&b.r);
}

static void test_cross_attention_joins_k_and_v(void)
{
    bench b;
    start(&b);
    fused(&b, attended(&b, 1, 0), OP_LINEAR);
    CHECK_EQ(count(&b, OP_LINEAR), 2);
    CHECK_EQ(count(&b, OP_SLICE), 2);
    recording_free(&b.r);
}

static void test_a_bias_on_one_of_them_leaves_it_out(void)
{
    bench b;
    start(&b);
    fused(&b, attended(&b, 0, 1), OP_LINEAR);
    CHECK_EQ(count(&b, OP_LINEAR), 2); /* q and k; v with its bias */
    recording_free(&b.r);
}

static void test_q_that_others_read_stays_alone(void)
{
    bench b;
    start(&b);
    kiln_t t = record_reshape(&b.r, b.x, 3, DIMS(2, 16, 16)), q = put_linear(&b.c, t, 16, 0, 0);
    kiln_t a = put_attention(&b.c, q, put_linear(&b.c, t, 16, 1, 0), put_linear(&b.c, t, 16, 2, 0));
    fused(&b, put_add(&b.c, a, q), OP_LINEAR);
    CHECK_EQ(count(&b, OP_LINEAR), 2); /* q; k and v */
    recording_free(&b.r);
}

static void test_what_nothing_reads_goes(void)
{
    bench b;
    start(&b);
    put_act(&b.c, put_conv(&b.c, put_norm(&b.c, b.x, 4), 8, 3, 1), KILN_ACT_SILU);
    fused(&b, put_act(&b.c, b.x, KILN_ACT_TANH), OP_ACT);
    CHECK_EQ(b.r.n, 2); /* x and tanh: weights go as well */
    recording_free(&b.r);
}

static void test_operands_stand_before_their_readers_in_random_programs(void)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        recording r;
        error e = {0};
        CHECK_EQ(recording_init(&r, "p", KILN_F32, &e), KILN_OK);
        record_random_program(&r, set, seed, 25);
        CHECK_MSG(r.failure.status == KILN_OK, "seed %llu: %s", (unsigned long long)seed, r.failure.message);
        CHECK_EQ(fuse(&r, &e), KILN_OK);
        int computed = 0, in_order = 1;
        for (uint32_t i = 0; i < r.n; i++) {
            int leaf = r.op[i].kind == OP_INPUT || r.op[i].kind == OP_WEIGHT || r.op[i].kind == OP_CONSTANT;
            computed |= !leaf;
            in_order = in_order && !(leaf && computed && !r.op[i].n_part) &&
                       !r.op[i].dead; /* stacks stand before their linear */
            for (uint32_t k = 0; k < r.op[i].n_in; k++) in_order = in_order && r.op[i].in[k] <= i;
            for (uint32_t k = 0; k < r.op[i].n_part; k++)
                in_order = in_order && r.op[i].part[k] >= 1 && r.op[i].part[k] <= i;
        }
        CHECK_MSG(in_order, "seed %llu", (unsigned long long)seed);
        recording_free(&r);
    }
}

/* ---- upsampled pictures ---- */

static kiln_t upsampled(bench *b, kiln_t x, int64_t h, int64_t w)
{
    return record_op(&b->r, OP_UPSAMPLE, &(op_attr){.upsample = {.h = h, .w = w}}, &x, 1);
}

static int takes_all(const void *self, const recording *r, const op *conv2d)
{
    (void)self;
    return r && conv2d->attr.conv2d.upsampled.rows > 0;
}
static int takes_none(const void *self, const recording *r, const op *conv2d)
{
    (void)self, (void)r, (void)conv2d;
    return 0;
}

/* A conv2d of `y`, as fuse_upsampled() and fuse() leave it. */
static const op *conv_of(bench *b, kiln_t y, fuse_takes takes)
{
    kiln_t out = put_conv(&b->c, y, 8, 3, 1);
    fuse_upsampled(&b->r, takes, NULL);
    return fused(b, out, OP_CONV2D);
}

static void test_a_convolution_reads_what_was_upsampled(void)
{
    bench b;
    start(&b);
    const op *o = conv_of(&b, upsampled(&b, b.x, 8, 8), takes_all);
    CHECK_EQ(count(&b, OP_UPSAMPLE), 0);
    CHECK_EQ(b.r.op[o->in[0] - 1].kind, OP_INPUT);
    CHECK_EQ(o->attr.conv2d.upsampled.first, 0), CHECK_EQ(o->attr.conv2d.upsampled.rows, 8);
    recording_free(&b.r);
}

static void test_a_convolution_reads_some_rows_of_it(void)
{
    bench b;
    start(&b);
    kiln_t rows = put_slice(&b.c, put_slice(&b.c, upsampled(&b, b.x, 8, 8), 1, 1, 6), 1, 2, 3);
    const op *o = conv_of(&b, rows, takes_all);
    CHECK_EQ(count(&b, OP_UPSAMPLE) + count(&b, OP_SLICE), 0);
    CHECK_EQ(o->attr.conv2d.upsampled.first, 3), CHECK_EQ(o->attr.conv2d.upsampled.rows, 3);
    recording_free(&b.r);
}

static void test_others_still_get_the_upsampled_picture(void)
{
    bench b;
    start(&b);
    kiln_t large = upsampled(&b, b.x, 8, 8);
    record_output(&b.r, "large", large);
    const op *o = conv_of(&b, large, takes_all);
    CHECK_EQ(count(&b, OP_UPSAMPLE), 1);
    CHECK_EQ(b.r.op[o->in[0] - 1].kind, OP_INPUT);
    recording_free(&b.r);
}

static void test_what_is_not_upsampled_stays(void)
{
    static const int64_t sizes[][2] = {{12, 12}, {8, 4}, {4, 8}, {7, 8}};
    for (size_t i = 0; i <= sizeof sizes / sizeof sizes[0]; i++) {
        bench b;
        start(&b);
        kiln_t y = i < 4 ? upsampled(&b, b.x, sizes[i][0], sizes[i][1])
                         : put_slice(&b.c, upsampled(&b, b.x, 8, 8), 2, 0, 4); /* columns */
        const op *o = conv_of(&b, y, takes_all);
        CHECK_EQ(count(&b, OP_UPSAMPLE), 1);
        CHECK_EQ(o->attr.conv2d.upsampled.rows, 0);
        recording_free(&b.r);
    }
    bench b;
    start(&b);
    const op *o = conv_of(&b, upsampled(&b, b.x, 8, 8), takes_none);
    CHECK_EQ(count(&b, OP_UPSAMPLE), 1);
    CHECK_EQ(o->attr.conv2d.upsampled.rows, 0);
    recording_free(&b.r);
}

static void test_an_upsampled_state_stays(void)
{
    bench b;
    start(&b);
    kiln_t state = record_state(&b.r, "s", KILN_F32, 4, DIMS(2, 4, 4, 16));
    conv_of(&b, upsampled(&b, state, 8, 8), takes_all);
    CHECK_EQ(count(&b, OP_UPSAMPLE), 1);
    recording_free(&b.r);
}

/* ---- rows that are taken ---- */

static int takes_rows(const void *self, const recording *r, const op *o)
{
    (void)self;
    return r->op[o->in[4] - 1].dtype == KILN_I32;
}

/* A grouped linear of rows that take picked along `axis`, as fuse_taken() and fuse() leave it; x: [2,16]. */
static const op *grouped_of(bench *b, kiln_t x, uint32_t axis, int64_t picked, fuse_takes takes)
{
    kiln_t rows = record_input(&b->r, "rows", KILN_I32, 1, &picked);
    kiln_t offsets = record_input(&b->r, "offsets", KILN_I32, 1, DIMS(5));
    kiln_t taken = record_op(&b->r, OP_TAKE, &(op_attr){.take = {.axis = axis}}, (const kiln_t[]){x, rows}, 2);
    kiln_t w = put_weight(&b->c, 3, DIMS(4, 8, 16), "experts");
    kiln_t y = record_op(&b->r, OP_GROUPED_LINEAR, NULL, (const kiln_t[]){taken, w, {0}, offsets}, 4);
    fuse_taken(&b->r, takes, NULL);
    return fused(b, y, OP_GROUPED_LINEAR);
}

static void test_groups_read_what_was_taken(void)
{
    bench b;
    start(&b);
    const op *o = grouped_of(&b, record_input(&b.r, "m", KILN_F32, 2, DIMS(2, 16)), 0, 6, takes_rows);
    CHECK_EQ(count(&b, OP_TAKE), 0);
    CHECK_EQ(o->n_in, 5), CHECK_EQ(o->shape.dim[0], 6);
    CHECK_EQ(b.r.op[o->in[0] - 1].shape.dim[0], 2), CHECK_EQ(b.r.op[o->in[4] - 1].shape.dim[0], 6);
    recording_free(&b.r);
}

static void test_groups_of_other_things_stay(void)
{
    for (int i = 0; i < 3; i++) {
        bench b;
        start(&b);
        kiln_t m = i == 1 ? record_state(&b.r, "s", KILN_F32, 2, DIMS(2, 16)) /* may be written between */
                          : record_input(&b.r, "m", KILN_F32, 2, i == 2 ? DIMS(6, 2) : DIMS(2, 16));
        const op *o = grouped_of(&b, m, i == 2, i == 2 ? 16 : 6, i ? takes_rows : takes_none); /* i 2: columns */
        CHECK_EQ(count(&b, OP_TAKE), 1), CHECK_EQ(o->n_in, 4);
        recording_free(&b.r);
    }
}

static void test_every_allocation_may_fail(void)
{
    int64_t k = 0;
    for (int failed = 1; failed && k < 1000; k++) {
        recording r;
        error e = {0};
        CHECK_EQ(recording_init(&r, "p", KILN_F32, &e), KILN_OK);
        record_random_program(&r, set, 3, 25);
        mem_fail_at(k, 0);
        kiln_status status = fuse(&r, &e);
        mem_fail_at(-1, 0);
        failed = status != KILN_OK;
        if (failed) CHECK_EQ(status, KILN_ERR_NOMEM);
        recording_free(&r);
    }
    CHECK(k > 3);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_norm_takes_the_activation),
        CASE(test_products_take_the_activation),
        CASE(test_an_activation_stays_when_others_read_what_is_before_it),
        CASE(test_an_output_is_not_fused_away),
        CASE(test_a_second_activation_stays),
        CASE(test_linear_takes_geglu),
        CASE(test_a_residual_is_taken_on_either_side),
        CASE(test_a_later_residual_is_ready_when_it_is_read),
        CASE(test_a_broadcast_sum_or_a_bias_is_no_residual),
        CASE(test_q_k_v_become_one_linear),
        CASE(test_cross_attention_joins_k_and_v),
        CASE(test_a_bias_on_one_of_them_leaves_it_out),
        CASE(test_q_that_others_read_stays_alone),
        CASE(test_what_nothing_reads_goes),
        CASE(test_a_convolution_reads_what_was_upsampled),
        CASE(test_a_convolution_reads_some_rows_of_it),
        CASE(test_others_still_get_the_upsampled_picture),
        CASE(test_what_is_not_upsampled_stays),
        CASE(test_an_upsampled_state_stays),
        CASE(test_groups_read_what_was_taken),
        CASE(test_groups_of_other_things_stay),
        CASE(test_operands_stand_before_their_readers_in_random_programs),
        CASE(test_every_allocation_may_fail),
    };
    return made_test_main(argc, argv, cases, sizeof cases / sizeof cases[0], &set);
}
