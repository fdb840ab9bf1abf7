/* test_fused_numbers.c - each rule of fuse.h: it fires where it should, keeps away where it must, and what is left
 * computes the same.
 *
 * The numbers: f32 programs by the reference kernels, fused and not. A fused op rounds once where two rounded twice;
 * these programs are a few ops long, so that 1e-6 of the whole is ten times what was seen.
 */
#include "graph/fuse.h"
#include "random_program.h"
#include "weights/tiny_weights.h"

#include <stdio.h>

static const op_attr silu = {.act = {KILN_ACT_SILU}},
                     conv3x3 = {.conv2d = {.stride = {1, 1}, .pad = {1, 1, 1, 1}, .dilation = {1, 1}, .groups = 1}},
                     norm8 = {.norm = {.groups = 4, .eps = 1e-5f}},
                     two_heads = {.attention = {.heads = 2, .scale = 0.5f}};
#define IN(...) ((const kiln_t[]){__VA_ARGS__})
#define DIM(...) ((const int64_t[]){__VA_ARGS__})

typedef struct {
    kiln_t x, t; /* picture, tokens */
    dice d;
} leaves;

static kiln_t conv(recording *r, leaves *l)
{
    return record_op(r, OP_CONV2D, &conv3x3,
                     IN(l->x, random_constant(r, &l->d, 4, DIM(8, 8, 3, 3)), random_constant(r, &l->d, 1, DIM(8))), 3);
}
static kiln_t linear(recording *r, leaves *l, kiln_t x, int64_t out)
{
    int64_t in = recorded(r, x)->shape.dim[recorded(r, x)->shape.rank - 1];
    return record_op(r, OP_LINEAR, NULL,
                     IN(x, random_constant(r, &l->d, 2, DIM(out, in)), random_constant(r, &l->d, 1, &out)), 3);
}
static kiln_t norm(recording *r, leaves *l, op_kind kind)
{
    return record_op(r, kind, &norm8,
                     IN(l->x, random_constant(r, &l->d, 1, DIM(8)), random_constant(r, &l->d, 1, DIM(8))), 3);
}
static kiln_t act(recording *r, kiln_t x) { return record_op(r, OP_ACT, &silu, &x, 1); }
static kiln_t add(recording *r, kiln_t a, kiln_t b) { return record_op(r, OP_ADD, NULL, IN(a, b), 2); }

static kiln_t group_norm_act(recording *r, leaves *l) { return act(r, norm(r, l, OP_GROUP_NORM)); }
static kiln_t layer_norm_act(recording *r, leaves *l) { return act(r, norm(r, l, OP_LAYER_NORM)); }
static kiln_t conv_act(recording *r, leaves *l) { return act(r, conv(r, l)); }
static kiln_t linear_act(recording *r, leaves *l) { return act(r, linear(r, l, l->t, 16)); }
static kiln_t linear_geglu(recording *r, leaves *l)
{
    kiln_t x = linear(r, l, l->t, 32);
    return record_op(r, OP_GEGLU, NULL, &x, 1);
}
static kiln_t conv_add(recording *r, leaves *l) { return add(r, conv(r, l), l->x); }
static kiln_t add_conv(recording *r, leaves *l) { return add(r, l->x, conv(r, l)); }
static kiln_t linear_add(recording *r, leaves *l) { return add(r, linear(r, l, l->t, 8), act(r, l->t)); }
static kiln_t self_attention(recording *r, leaves *l)
{
    kiln_t q = linear(r, l, l->t, 8), k = linear(r, l, l->t, 8), v = linear(r, l, l->t, 8);
    return record_op(r, OP_ATTENTION, &two_heads, IN(q, k, v, {0}), 4);
}
static kiln_t cross_attention(recording *r, leaves *l)
{
    kiln_t other = act(r, l->t), v = linear(r, l, other, 8), q = linear(r, l, l->t, 8), k = linear(r, l, other, 8);
    return record_op(r, OP_ATTENTION, &two_heads, IN(q, k, v, {0}), 4);
}
static kiln_t unused(recording *r, leaves *l)
{
    act(r, act(r, conv(r, l)));
    return act(r, l->t);
}
/* ---- where a rule must keep away ---- */
static kiln_t conv_read_twice(recording *r, leaves *l)
{
    kiln_t c = conv(r, l);
    return add(r, act(r, c), act(r, c));
}
static kiln_t conv_is_output(recording *r, leaves *l)
{
    kiln_t c = conv(r, l);
    record_output(r, "also", c);
    return act(r, c);
}
static kiln_t add_broadcasts(recording *r, leaves *l)
{
    return add(r, linear(r, l, l->t, 8), random_constant(r, &l->d, 1, DIM(8)));
}
static kiln_t add_itself(recording *r, leaves *l)
{
    kiln_t c = linear(r, l, l->t, 8);
    return add(r, c, c);
}
static kiln_t act_then_add(recording *r, leaves *l)
{
    return add(r, act(r, conv(r, l)), l->x);
} /* act in, the sum not: one epilogue each */
static kiln_t shared_weight(recording *r, leaves *l)
{
    kiln_t w = random_constant(r, &l->d, 2, DIM(8, 8));
    kiln_t q = record_op(r, OP_LINEAR, NULL, IN(l->t, w, {0}), 3),
           k = record_op(r, OP_LINEAR, NULL, IN(l->t, w, {0}), 3);
    return record_op(r, OP_ATTENTION, &two_heads, IN(q, k, k, {0}), 4);
}

static kiln_t map_of(recording *r, const char *text, kiln_t a, kiln_t b, uint32_t n)
{
    return record_map(r, text, (const kiln_t[]){a, b}, n, NULL, NULL);
}
/* gate * (x * sigmoid(x) + 1) with its parts as ops, then as expressions */
static kiln_t map_of_maps(recording *r, leaves *l)
{
    op_attr plus = {.affine = {.scale = 1, .shift = 1}};
    kiln_t gate = map_of(r, "exp(a) / (1 + exp(a))", l->t, l->t, 1);
    kiln_t h = record_op(r, OP_AFFINE, &plus, IN(record_op(r, OP_ACT, &silu, IN(l->t), 1)), 1);
    return map_of(r, "a * b - a", gate, record_op(r, OP_ADD, NULL, IN(h, l->t), 2), 2);
}
/* A rounding that somebody asked for stays: no fusing over it. */
static kiln_t map_over_a_cast(recording *r, leaves *l)
{
    kiln_map whole = {.size = sizeof whole, .dtype = KILN_I32};
    kiln_t n = record_map(r, "a * 4", (const kiln_t[]){l->t}, 1, &whole, NULL);
    return map_of(r, "a + b", l->t, n, 2);
}
static kiln_t map_read_twice(recording *r, leaves *l)
{
    kiln_t h = map_of(r, "a + 1", l->t, l->t, 1);
    record_output(r, "also", h);
    return map_of(r, "a * b", h, map_of(r, "a - 1", h, h, 1), 2);
}

typedef struct {
    const char *name;
    kiln_t (*make)(recording *, leaves *);
    uint32_t unfused, fused; /* ops that are left, leaves not counted */
    op_kind last;            /* makes the output                      */
    op_epilogue epilogue;
} row;

static const row rows[] = {
    {"group_norm + act", group_norm_act, 2, 1, OP_GROUP_NORM, {.act = KILN_ACT_SILU}},
    {"layer_norm + act", layer_norm_act, 2, 1, OP_LAYER_NORM, {.act = KILN_ACT_SILU}},
    {"conv2d + act", conv_act, 2, 1, OP_CONV2D, {.act = KILN_ACT_SILU}},
    {"linear + act", linear_act, 2, 1, OP_LINEAR, {.act = KILN_ACT_SILU}},
    {"linear + geglu", linear_geglu, 2, 1, OP_LINEAR, {.geglu = 1}},
    {"conv2d + x", conv_add, 2, 1, OP_CONV2D, {.residual = 1}},
    {"x + conv2d", add_conv, 2, 1, OP_CONV2D, {.residual = 1}},
    {"linear + later x", linear_add, 3, 2, OP_LINEAR, {.residual = 1}},
    {"self-attention of constants", self_attention, 4, 4, OP_ATTENTION, {0}}, /* stacking is for weights of files */
    {"cross-attention of constants", cross_attention, 5, 5, OP_ATTENTION, {0}},
    {"what nothing reads", unused, 1, 1, OP_ACT, {0}},
    {"a conv2d that two read", conv_read_twice, 4, 4, OP_ADD, {0}},
    {"a conv2d that is an output", conv_is_output, 2, 2, OP_ACT, {0}},
    {"a sum that broadcasts", add_broadcasts, 2, 2, OP_ADD, {0}},
    {"x + x", add_itself, 2, 2, OP_ADD, {0}},
    {"act, then a sum", act_then_add, 3, 2, OP_ADD, {0}},
    {"map of maps, add, affine and act", map_of_maps, 5, 1, OP_MAP, {0}},
    {"map over a cast", map_over_a_cast, 2, 2, OP_MAP, {0}},
    {"map of what two read", map_read_twice, 3, 2, OP_MAP, {0}},
    {"one weight for two", shared_weight, 3, 3, OP_ATTENTION, {0}},
};

static void make(const row *c, recording *r)
{
    leaves l = {.d = {7}};
    l.x = record_input(r, "x", KILN_F32, 4, picture_dim);
    l.t = record_input(r, "t", KILN_F32, 3, tokens_dim);
    record_output(r, "o", c->make(r, &l));
    CHECK_MSG(r->failure.status == KILN_OK, "%s: %s", c->name, r->failure.message);
}

static uint32_t ops_left(const recording *r)
{
    uint32_t n = 0;
    for (size_t i = 0; i < r->n; i++) n += r->op[i].kind > OP_CONSTANT && r->op[i].kind != OP_SLICE;
    return n;
}

/* Leaves first, operands before their users, nothing dead, every id there. */
static void check_form(const recording *r, const char *name)
{
    int past_leaves = 0;
    for (size_t i = 0; i < r->n; i++) {
        const op *o = &r->op[i];
        CHECK_MSG(!o->dead, "%s: op %zu is dead", name, i);
        CHECK_MSG(o->kind > OP_CONSTANT || !past_leaves, "%s: a leaf after an op", name);
        past_leaves |= o->kind > OP_CONSTANT;
        for (uint32_t k = 0; k < o->n_in; k++) CHECK_MSG(o->in[k] <= i, "%s: op %zu reads a later one", name, i);
    }
    for (size_t i = 0; i < r->n_output; i++) CHECK(r->output[i].id >= 1 && r->output[i].id <= r->n);
}

static void test_each_rule(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int fusing = 0; fusing < 2; fusing++) {
            recording r;
            error e = {0};
            REQUIRE(recording_init(&r, "p", KILN_F32, &e) == KILN_OK);
            make(&rows[i], &r);
            CHECK_EQ(fusing ? fuse(&r, &e) : fuse_nothing(&r, &e), KILN_OK);
            check_form(&r, rows[i].name);
            uint32_t want = fusing ? rows[i].fused : rows[i].unfused;
            CHECK_MSG(ops_left(&r) == want, "%s: %u ops after %s, wanted %u", rows[i].name, ops_left(&r),
                      fusing ? "fusing" : "dropping", want);
            const op *last = &r.op[r.output[r.n_output - 1].id - 1];
            if (fusing)
                CHECK_MSG(last->kind == rows[i].last && last->epilogue.act == rows[i].epilogue.act &&
                              last->epilogue.geglu == rows[i].epilogue.geglu &&
                              last->epilogue.residual == rows[i].epilogue.residual,
                          "%s: it ends in %s", rows[i].name, op_name(last->kind));
            recording_free(&r);
        }
}

static size_t result(const row *c, int unfused, float *out)
{
    error e = {0};
    float x[PICTURE], t[TOKENS];
    random_inputs(x, t);
    runtime *rt = runtime_new(
        &(runtime_setting){.backend = &backend_reference, .threads = 1, .precision = KILN_F32, .unfused = unfused}, &e);
    kiln_program *p = rt ? program_new(rt, "p", 0, &e) : NULL;
    size_t n = 0;
    if (p) {
        recording *r = program_recording(p);
        make(c, r);
        shape s = r->op[r->output[r->n_output - 1].id - 1].shape;
        n = (size_t)shape_count(&s);
        kiln_bind in[] = {bind_f32("x", x, 4, picture_dim), bind_f32("t", t, 3, tokens_dim)},
                  o = bind_f32("o", out, s.rank, s.dim);
        CHECK_MSG(program_plan(p, &e) == KILN_OK && program_run(p, in, 2, &o, 1, NULL, NULL, &e) == KILN_OK, "%s: %s",
                  c->name, e.message);
    }
    program_free(p);
    runtime_free(rt);
    return n;
}

static void test_each_computes_the_same(void)
{
    static float fused[4096], plain[4096];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t n = result(&rows[i], 0, fused);
        CHECK_EQ(result(&rows[i], 1, plain), n);
        CHECK(n > 0);
        check_array(fused, plain, n, 1e-6, rows[i].name, __FILE__, __LINE__);
    }
}

/* ---- q, k, v of a file ---- */

static int write_qkv(char path[300])
{
    char header[1024];
    float data[3 * 64 + 3 * 8];
    size_t used = 0, at = 0;
    dice d = {11};
    for (size_t i = 0; i < sizeof data / sizeof *data; i++) data[i] = roll_number(&d);
    for (int i = 0; i < 3; i++, at += 256)
        used += (size_t)snprintf(header + used, sizeof header - used,
                                 "%s\"%c\":{\"dtype\":\"F32\",\"shape\":[8,8],\"data_offsets\":[%zu,%zu]}",
                                 i ? "," : "{", "qkv"[i], at, at + 256);
    for (int i = 0; i < 3; i++, at += 32)
        used += (size_t)snprintf(header + used, sizeof header - used,
                                 ",\"%cb\":{\"dtype\":\"F32\",\"shape\":[8],\"data_offsets\":[%zu,%zu]}", "qkv"[i], at,
                                 at + 32);
    snprintf(header + used, sizeof header - used, "}");
    snprintf(path, 300, "%s/qkv.safetensors", test_folder());
    return tiny_write(path, header, data, sizeof data);
}

/* cross: k and v read another tensor than q; bias: 0 none, 1 all, 2 only q. */
static void record_qkv(recording *r, kiln_weights *w, int cross, int bias)
{
    static const char *const name[] = {"q", "k", "v"}, *const bias_name[] = {"qb", "kb", "vb"};
    kiln_t t = record_input(r, "t", KILN_F32, 3, tokens_dim), other = cross ? act(r, t) : t, in[4] = {{0}};
    for (int i = 0; i < 3; i++) {
        kiln_t b = bias == 1 || (bias == 2 && i == 0) ? record_weight(r, w, bias_name[i], 1, DIM(8), 0) : (kiln_t){0};
        in[i] = record_op(r, OP_LINEAR, NULL, IN(i ? other : t, record_weight(r, w, name[i], 2, DIM(8, 8), 0), b), 3);
    }
    record_output(r, "o", record_op(r, OP_ATTENTION, &two_heads, in, 4));
}

static void test_qkv_of_a_file(void)
{
    static const struct {
        int cross, bias;
        uint32_t linears; /* after fusing */
    } cases[] = {{0, 0, 1}, {0, 1, 1}, {0, 2, 2}, {1, 0, 2}, {1, 1, 2}};
    char path[300];
    error e = {0};
    REQUIRE(write_qkv(path));
    kiln_weights *w = weights_open(path, &e);
    REQUIRE(CHECK_MSG(w != NULL, "%s", e.message));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        float x[PICTURE], t[TOKENS], got[2][TOKENS] = {{0}};
        random_inputs(x, t);
        for (int unfused = 0; unfused < 2; unfused++) {
            runtime *rt = runtime_new(
                &(runtime_setting){
                    .backend = &backend_reference, .threads = 1, .precision = KILN_F32, .unfused = unfused},
                &e);
            kiln_program *p = program_new(rt, "p", 0, &e);
            REQUIRE(p);
            recording *r = program_recording(p);
            record_qkv(r, w, cases[i].cross, cases[i].bias);
            CHECK_MSG(r->failure.status == KILN_OK, "%s", r->failure.message);
            kiln_bind in = bind_f32("t", t, 3, tokens_dim), out = bind_f32("o", got[unfused], 3, tokens_dim);
            CHECK_MSG(program_plan(p, &e) == KILN_OK && program_run(p, &in, 1, &out, 1, NULL, NULL, &e) == KILN_OK,
                      "%s", e.message);
            uint32_t linears = 0;
            for (size_t k = 0; k < r->n; k++) linears += r->op[k].kind == OP_LINEAR;
            CHECK_MSG(linears == (unfused ? 3 : cases[i].linears), "case %zu: %u linears", i, linears);
            program_free(p);
            runtime_free(rt);
        }
        CHECK_ARRAY(got[0], got[1], TOKENS, 1e-6);
    }
    weights_unref(w);
}

static void test_no_memory(void)
{
    int done = 0;
    for (int64_t k = 0; k < 20 && !done; k++) {
        recording r;
        error e = {0};
        REQUIRE(recording_init(&r, "p", KILN_F32, &e) == KILN_OK);
        make(&rows[8], &r);
        mem_fail_at(k, 0);
        kiln_status status = fuse(&r, &e);
        done = mem_count() <= k;
        mem_fail_at(-1, 0);
        CHECK_EQ(status, done ? KILN_OK : KILN_ERR_NOMEM);
        recording_free(&r);
    }
    CHECK(done);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_each_rule), CASE(test_each_computes_the_same), CASE(test_qkv_of_a_file),
                                      CASE(test_no_memory)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
