/* test_record.c - recording: every mistake a recorder can make is a sentence with its place; shapes of every op. */
#include "graph_kit.h"

#include "base/memory_alloc.h"

static kiln_weights *set;

static recorder start(recording *r)
{
    error e = {0};
    CHECK_EQ(recording_init(r, "p", KILN_F32, &e), KILN_OK);
    return (recorder){.r = r, .w = set};
}

static kiln_t picture(recorder *c) { return record_input(c->r, "x", KILN_F32, 4, DIMS(2, 6, 4, 8)); }
static kiln_t tokens(recorder *c, const char *name, int64_t n, int64_t width)
{
    return record_input(c->r, name, KILN_F32, 3, DIMS(2, n, width));
}

/* ---- mistakes ---- */

static void no_name(recorder *c) { record_input(c->r, NULL, KILN_F32, 1, DIMS(1)); }
static void no_dim(recorder *c) { record_input(c->r, "x", KILN_F32, 2, NULL); }
static void empty(recorder *c) { record_input(c->r, "x", KILN_F32, 2, DIMS(3, 0)); }
static void negative(recorder *c) { record_input(c->r, "x", KILN_F32, 2, DIMS(3, -1)); }
static void huge(recorder *c) { record_input(c->r, "x", KILN_F32, 2, DIMS(INT64_MAX, 3)); }
static void rank9(recorder *c) { record_input(c->r, "x", KILN_F32, 9, DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1)); }
static void odd_type(recorder *c) { record_input(c->r, "x", KILN_U8, 1, DIMS(1)); }
static void twice(recorder *c) { picture(c), picture(c); }
static void output_twice(recorder *c)
{
    kiln_t x = put_act(c, picture(c), KILN_ACT_SILU);
    record_output(c->r, "y", x), record_output(c->r, "y", x);
}
static void output_of_weight(recorder *c) { record_output(c->r, "y", put_bias(c, 8, 1)); }
static void output_of_nothing(recorder *c) { record_output(c->r, "y", (kiln_t){0}); }
static void weight_missing(recorder *c) { record_weight(c->r, set, "bias.88", 1, DIMS(8), 0); }
static void weight_shape(recorder *c) { record_weight(c->r, set, "bias.8", 1, DIMS(9), 0); }
static void weight_no_size(recorder *c) { record_weight(c->r, set, "bias.8", 2, DIMS(8, 0), 0); }
static void weight_no_set(recorder *c) { record_weight(c->r, NULL, "bias.8", 1, DIMS(8), 0); }
static void constant_null(recorder *c) { record_constant(c->r, KILN_F32, NULL, 1, DIMS(8)); }
static void foreign(recorder *c) { put_act(c, (kiln_t){77}, KILN_ACT_SILU); }
static void act_none(recorder *c) { put_act(c, picture(c), 99); }
static void conv_channels(recorder *c)
{
    op_attr a = {.conv2d = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1}};
    record_op(c->r, OP_CONV2D, &a,
              (const kiln_t[]){picture(c), put_weight(c, 4, DIMS(8, 16, 3, 3), "conv.%d.%d.%d", 8, 16, 3), {0}}, 3);
}
static void conv_with(recorder *c, conv2d_attr t)
{
    record_op(c->r, OP_CONV2D, &(op_attr){.conv2d = t},
              (const kiln_t[]){picture(c), put_weight(c, 4, DIMS(8, 8, 3, 3), "conv.%d.%d.%d", 8, 8, 3), {0}}, 3);
}
static void conv_stride(recorder *c)
{
    conv_with(c, (conv2d_attr){.stride = {-1, 1}, .dilation = {1, 1}, .groups = 1});
}
static void conv_groups(recorder *c) { conv_with(c, (conv2d_attr){.stride = {1, 1}, .dilation = {1, 1}, .groups = 2}); }
static void conv_small(recorder *c) { conv_with(c, (conv2d_attr){.stride = {1, 1}, .dilation = {9, 9}, .groups = 1}); }
static void linear_columns(recorder *c)
{
    record_op(c->r, OP_LINEAR, NULL,
              (const kiln_t[]){tokens(c, "x", 3, 8), put_weight(c, 2, DIMS(8, 16), "lin.%d.%d.%d", 8, 16, 0), {0}}, 3);
}
static void linear_bias(recorder *c)
{
    record_op(c->r, OP_LINEAR, NULL,
              (const kiln_t[]){tokens(c, "x", 3, 8), put_weight(c, 2, DIMS(8, 8), "lin.%d.%d.%d", 8, 8, 0),
                               put_bias(c, 16, 1)},
              3);
}
static void linear_computed(recorder *c)
{
    kiln_t x = record_input(c->r, "x", KILN_F32, 2, DIMS(8, 8));
    record_op(c->r, OP_LINEAR, NULL, (const kiln_t[]){x, x, {0}}, 3);
}
static void attention_widths(recorder *c)
{
    put_attention(c, tokens(c, "q", 3, 8), tokens(c, "k", 3, 16), tokens(c, "v", 3, 16));
}
static void attention_kv(recorder *c)
{
    put_attention(c, tokens(c, "q", 3, 8), tokens(c, "k", 3, 8), tokens(c, "v", 4, 8));
}
static void attention_heads(recorder *c)
{
    kiln_t q = tokens(c, "q", 3, 8);
    record_op(c->r, OP_ATTENTION, &(op_attr){.attention = {.heads = 3}}, (const kiln_t[]){q, q, q, {0}}, 4);
}
static void attention_mask(recorder *c)
{
    kiln_t q = tokens(c, "q", 3, 8), mask = record_input(c->r, "mask", KILN_F32, 4, DIMS(1, 1, 3, 4));
    record_op(c->r, OP_ATTENTION, &(op_attr){.attention = {.heads = 2}}, (const kiln_t[]){q, q, q, mask}, 4);
}
static void norm_groups(recorder *c) { put_norm(c, picture(c), 3); }
static void norm_eps(recorder *c)
{
    record_op(c->r, OP_LAYER_NORM, &(op_attr){.norm = {.eps = -1}}, (const kiln_t[]){picture(c), {0}, {0}}, 3);
}
static void add_shapes(recorder *c)
{
    record_scope_push(c->r, "unet"), record_scope_push(c->r, "down.0");
    put_add(c, picture(c), tokens(c, "t", 4, 4));
}
static void add_ids(recorder *c) { put_add(c, picture(c), record_input(c->r, "ids", KILN_I32, 1, DIMS(8))); }
static void embed_ids(recorder *c)
{
    put2(c, OP_EMBEDDING, (op_attr){0}, record_constant(c->r, KILN_I32, (int32_t[8]){0}, 2, DIMS(4, 2)),
         record_input(c->r, "ids", KILN_I32, 1, DIMS(3)));
}
static void geglu_odd(recorder *c) { put1(c, OP_GEGLU, (op_attr){0}, tokens(c, "x", 3, 7)); }
static void upsample_zero(recorder *c) { put1(c, OP_UPSAMPLE, (op_attr){.upsample = {0, 4}}, picture(c)); }
static void upsample_huge(recorder *c) { put1(c, OP_UPSAMPLE, (op_attr){.upsample = {1 << 30, 1 << 30}}, picture(c)); }
static void concat_axis(recorder *c)
{
    put2(c, OP_CONCAT, (op_attr){.concat = {3}}, picture(c), record_input(c->r, "y", KILN_F32, 4, DIMS(2, 6, 5, 8)));
}
static void concat_far(recorder *c)
{
    kiln_t x = picture(c);
    put2(c, OP_CONCAT, (op_attr){.concat = {4}}, x, x);
}
static void concat_none(recorder *c) { record_op(c->r, OP_CONCAT, &(op_attr){.concat = {0}}, NULL, 0); }
static void concat_many(recorder *c)
{
    kiln_t x[OP_MAX_IN + 1];
    x[0] = picture(c);
    for (int i = 1; i <= OP_MAX_IN; i++) x[i] = x[0];
    record_op(c->r, OP_CONCAT, &(op_attr){.concat = {3}}, x, OP_MAX_IN + 1);
}
static void slice_far(recorder *c) { put_slice(c, picture(c), 3, 4, 5); }
static void slice_wraps(recorder *c) { put_slice(c, picture(c), 3, INT64_MAX, INT64_MAX); }
static void reshape_count(recorder *c) { record_reshape(c->r, picture(c), 2, DIMS(5, 5)); }
static void permute_twice(recorder *c) { put1(c, OP_PERMUTE, (op_attr){.permute = {{0, 1, 1, 3}}}, picture(c)); }
static void gather_ids(recorder *c) { put2(c, OP_GATHER, (op_attr){0}, tokens(c, "x", 3, 8), tokens(c, "i", 1, 1)); }
static void gather_count(recorder *c)
{
    put2(c, OP_GATHER, (op_attr){0}, tokens(c, "x", 3, 8), record_input(c->r, "i", KILN_I32, 1, DIMS(3)));
}
static void embedding_table(recorder *c)
{
    put2(c, OP_EMBEDDING, (op_attr){0}, put_bias(c, 8, 1), record_input(c->r, "i", KILN_I32, 1, DIMS(3)));
}
static void times_bf16(recorder *c)
{
    put1(c, OP_TIMESTEP, (op_attr){.timestep = {.dim = 8}}, record_input(c->r, "t", KILN_BF16, 1, DIMS(2)));
}
static void scope_pop(recorder *c) { record_scope_pop(c->r); }
static void scope_deep(recorder *c)
{
    for (int i = 0; i < 40; i++) record_scope_push(c->r, "scope");
}
static void scope_long(recorder *c)
{
    char name[600];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    record_scope_push(c->r, name), record_scope_push(c->r, name), record_scope_pop(c->r), record_scope_pop(c->r);
    act_none(c);
}
static void own_words(recorder *c) { record_fail(c->r, KILN_ERR_INVALID, "%d levels", 9); }

static const struct {
    const char *name;
    void (*record)(recorder *);
    const char *says, *and_says;
} mistakes[] = {
    {"no_name", no_name, "an input without a name", ""},
    {"no_dim", no_dim, "input 'x'", ""},
    {"empty", empty, "each 1 or more", ""},
    {"negative", negative, "each 1 or more", ""},
    {"huge", huge, "input 'x'", ""},
    {"rank9", rank9, "dimensions at most", ""},
    {"odd_type", odd_type, "inputs are f32, bf16, f16 or i32", ""},
    {"twice", twice, "two inputs are called 'x'", ""},
    {"output_twice", output_twice, "two outputs are called 'y'", ""},
    {"output_of_weight", output_of_weight, "output 'y'", "computed"},
    {"output_of_nothing", output_of_nothing, "output 'y'", ""},
    {"weight_missing", weight_missing, "made.safetensors", "'bias.8'"},
    {"weight_shape", weight_shape, "'bias.8' is [8]", "wants [9]"},
    {"weight_no_size", weight_no_size, "asked for as [8,0], which is no shape", "misspelt"},
    {"weight_no_set", weight_no_set, "of no set", ""},
    {"constant_null", constant_null, "constant without data", ""},
    {"foreign", foreign, "operand 0 is missing", "act"},
    {"act_none", act_none, "no activation has number 99", ""},
    {"conv_channels", conv_channels, "[2,6,4,8]", "[8,16,3,3]"},
    {"conv_stride", conv_stride, "stride", ""},
    {"conv_groups", conv_groups, "several groups", "conv"},
    {"conv_small", conv_small, "smaller than the kernel", ""},
    {"linear_columns", linear_columns, "[2,3,8]", "[8,16]"},
    {"linear_bias", linear_bias, "bias", "[16]"},
    {"linear_computed", linear_computed, "operand 1 must be a weight", ""},
    {"attention_widths", attention_widths, "batch or width", ""},
    {"attention_kv", attention_kv, "k and v differ", "[2,4,8]"},
    {"attention_heads", attention_heads, "3 heads", ""},
    {"attention_mask", attention_mask, "mask must be", "[1,1,3,4]"},
    {"norm_groups", norm_groups, "3 groups", "8 channels"},
    {"norm_eps", norm_eps, "eps", "layer_norm"},
    {"add_shapes", add_shapes, "at unet/down.0: add:", "[2,6,4,8] and [2,4,4]"},
    {"add_ids", add_ids, "must not be i32", ""},
    {"embed_ids", embed_ids, "embedding: operand 0 must not be i32", ""},
    {"geglu_odd", geglu_odd, "[2,3,7]", ""},
    {"upsample_zero", upsample_zero, "size of 1 or more", ""},
    {"upsample_huge", upsample_huge, "too large", ""},
    {"concat_axis", concat_axis, "[2,6,5,8]", "outside the axis"},
    {"concat_far", concat_far, "an axis of its operands", "[2,6,4,8]"},
    {"concat_none", concat_none, "concat of nothing", ""},
    {"concat_many", concat_many, "at most 12", ""},
    {"slice_far", slice_far, "reaches outside", "[2,6,4,8]"},
    {"slice_wraps", slice_wraps, "reaches outside", ""},
    {"reshape_count", reshape_count, "[2,6,4,8] to [5,5]", ""},
    {"permute_twice", permute_twice, "each axis once", ""},
    {"gather_ids", gather_ids, "must be i32", ""},
    {"gather_count", gather_count, "[2,3,8] and [3]", ""},
    {"embedding_table", embedding_table, "table [V,D]", ""},
    {"times_bf16", times_bf16, "must be f32", "timestep_embedding"},
    {"scope_pop", scope_pop, "without a scope_push", ""},
    {"scope_deep", scope_deep, "deeper than 32", ""},
    {"scope_long", scope_long, "no activation", ""},
    {"own_words", own_words, "9 levels", ""},
};

static void test_every_mistake_is_a_sentence(void)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        recording r;
        recorder c = start(&r);
        mistakes[i].record(&c);
        const char *said = r.failure.message;
        CHECK_MSG(r.failure.status == KILN_ERR_INVALID || r.failure.status == KILN_ERR_UNSUPPORTED, "%s: status %s",
                  mistakes[i].name, status_name(r.failure.status));
        CHECK_MSG(strstr(said, "program 'p'") && strstr(said, mistakes[i].says) && strstr(said, mistakes[i].and_says),
                  "%s said: %s", mistakes[i].name, said);
        recording_free(&r);
    }
}

static void test_the_first_mistake_stays_and_nothing_is_recorded_after_it(void)
{
    recording r;
    recorder c = start(&r);
    kiln_t x = picture(&c);
    put_norm(&c, x, 3);
    size_t n = r.n;
    CHECK_EQ(put_act(&c, x, 99).id, 0);
    CHECK_EQ(put_act(&c, x, KILN_ACT_SILU).id, 0);
    CHECK_EQ(put_bias(&c, 8, 1).id, 0);
    record_output(&r, "y", x);
    CHECK_EQ(r.n, n);
    CHECK_EQ(r.n_output, 0);
    CHECK(strstr(r.failure.message, "3 groups") != NULL);
    recording_free(&r);
}

/* ---- shapes ---- */

static void expect(recorder *c, kiln_t t, const char *text)
{
    char have[80];
    CHECK_STR(shape_text(put_shape(c, t), have), text);
}

static void test_shapes(void)
{
    recording r;
    recorder c = start(&r);
    kiln_t x = picture(&c), s = tokens(&c, "s", 5, 8), ids = record_input(&r, "ids", KILN_I32, 2, DIMS(2, 7)),
           one = record_input(&r, "i", KILN_I32, 1, DIMS(2));
    kiln_t t = record_input(&r, "t", KILN_F32, 1, DIMS(2)),
           w3 = put_weight(&c, 4, DIMS(16, 8, 3, 3), "conv.%d.%d.%d", 16, 8, 3);
    op_attr odd = {.conv2d = {.stride = {2, 1}, .pad = {0, 0, 1, 1}, .dilation = {1, 2}, .groups = 1}};
    expect(&c, put_conv(&c, x, 16, 3, 1), "[2,6,4,16]");
    expect(&c, put_conv(&c, x, 16, 3, 2), "[2,3,2,16]");
    /* h: (6 + 0 + 1 - 3) / 2 + 1, w: (4 + 0 + 1 - 5) / 1 + 1 */
    expect(&c, record_op(&r, OP_CONV2D, &odd, (const kiln_t[]){x, w3, {0}}, 3), "[2,3,1,16]");
    expect(&c, put_linear(&c, x, 32, 0, 1), "[2,6,4,32]");
    expect(&c, put_attention(&c, s, tokens(&c, "k", 9, 8), tokens(&c, "v", 9, 8)), "[2,5,8]");
    expect(&c, put_norm(&c, x, 4), "[2,6,4,8]");
    expect(&c, put_add(&c, x, tokens(&c, "b", 1, 8)), "[]"),
        r.failure = (error){0}; /* [2,1,8] has no place in [2,6,4,8] */
    expect(&c, put_add(&c, x, record_input(&r, "b2", KILN_F32, 2, DIMS(4, 1))), "[2,6,4,8]");
    expect(&c, put1(&c, OP_GEGLU, (op_attr){0}, s), "[2,5,4]");
    expect(&c, put1(&c, OP_UPSAMPLE, (op_attr){.upsample = {7, 3}}, x), "[2,7,3,8]");
    expect(&c, put2(&c, OP_CONCAT, (op_attr){.concat = {1}}, x, x), "[2,12,4,8]");
    expect(&c, put_slice(&c, x, 1, 5, 1), "[2,1,4,8]");
    expect(&c, record_reshape(&r, x, 2, DIMS(48, 8)), "[48,8]");
    expect(&c, put1(&c, OP_PERMUTE, (op_attr){.permute = {{3, 0, 2, 1}}}, x), "[8,2,4,6]");
    expect(&c, put2(&c, OP_EMBEDDING, (op_attr){0}, put_weight(&c, 2, DIMS(16, 8), "lin.%d.%d.%d", 16, 8, 0), ids),
           "[2,7,8]");
    expect(&c, put2(&c, OP_GATHER, (op_attr){0}, s, one), "[2,8]");
    expect(&c, put1(&c, OP_TIMESTEP, (op_attr){.timestep = {.dim = 6, .max_period = 10000}}, t), "[2,6]");
    kiln_t frames = record_input(c.r, "frames", KILN_F32, 2, DIMS(2, 3)); /* a time for each frame */
    expect(&c, put1(&c, OP_TIMESTEP, (op_attr){.timestep = {.dim = 6, .max_period = 10000}}, frames), "[2,3,6]");
    CHECK_MSG(r.failure.status == KILN_OK, "%s", r.failure.message);
    recording_free(&r);
}

static void test_optional_weight_is_silent(void)
{
    recording r;
    recorder c = start(&r);
    CHECK_EQ(record_weight(&r, set, "no.such", 1, DIMS(8), 1).id, 0);
    CHECK(record_weight(&r, set, "bias.8", 1, DIMS(8), 1).id != 0);
    CHECK_EQ(c.r->failure.status, KILN_OK);
    recording_free(&r);
}

/* Every allocation of a recording fails once: the program says so, nothing leaks (the sanitizer looks). */
static void test_every_allocation_may_fail(void)
{
    int64_t k = 0;
    for (int failed = 1; failed && k < 100000; k++) {
        recording r;
        error e = {0};
        mem_fail_at(k, 0);
        kiln_status status = recording_init(&r, "p", KILN_F32, &e);
        if (status == KILN_OK) record_random_program(&r, set, 3, 12);
        failed = status != KILN_OK || r.failure.status != KILN_OK;
        mem_fail_at(-1, 0);
        if (failed) CHECK_EQ(status != KILN_OK ? status : r.failure.status, KILN_ERR_NOMEM);
        recording_free(&r);
    }
    CHECK_MSG(k > 5 && k < 100000, "%lld allocations were made to fail", (long long)k);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_every_mistake_is_a_sentence),
        CASE(test_the_first_mistake_stays_and_nothing_is_recorded_after_it),
        CASE(test_shapes),
        CASE(test_optional_weight_is_silent),
        CASE(test_every_allocation_may_fail),
    };
    return made_test_main(argc, argv, cases, sizeof cases / sizeof cases[0], &set);
}
