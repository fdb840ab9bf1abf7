/* test_record.c - what a recorder can get wrong, each with a sentence that names program, scope, op and shapes; the first
 * one stays.
 */
#include "graph/program.h"
#include "harness.h"

#include "base/memory_alloc.h"

#include <stdio.h>
#include <string.h>

static float zeros[4096];

static void start(recording *r)
{
    error e = {0};
    CHECK_EQ(recording_init(r, "net", KILN_F32, &e), KILN_OK);
    record_scope_push(r, "down.0");
    record_scope_push(r, "attn1");
}

static kiln_t input(recording *r, uint32_t rank, const int64_t *dim)
{
    char name[16];
    snprintf(name, sizeof name, "i%zu", r->n);
    return record_input(r, name, KILN_F32, rank, dim);
}
static kiln_t constant(recording *r, uint32_t rank, const int64_t *dim) { return record_constant(r, zeros, rank, dim); }
#define D(...) ((const int64_t[]){__VA_ARGS__})
#define IN(...) ((const kiln_t[]){__VA_ARGS__})

static void check_failed(recording *r, const char *what, const char *part)
{
    const char *m = r->failure.message;
    CHECK_MSG(r->failure.status != KILN_OK && strncmp(m, "program 'net', at down.0/attn1: ", 32) == 0 && strstr(m, part), "%s: wanted '%s', got '%s'", what, part, m);
}

typedef struct {
    const char *what;
    op_kind kind;
    op_attr attr;
    struct {
        int leaf; /* 0: absent, 1: input, 2: constant */
        uint32_t rank;
        int64_t dim[KILN_MAX_RANK];
    } in[4];
    uint32_t n;
    const char *part;
} row;

#define CONV(...) {.conv2d = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 1, __VA_ARGS__}}

static const row rows[] = {
    {"conv2d of tokens", OP_CONV2D, CONV(), {{1, 3, {1, 4, 8}}, {2, 4, {8, 8, 3, 3}}}, 3, "conv2d takes x [N,H,W,I] and w [O,I,kh,kw], got [1,4,8] and [8,8,3,3]"},
    {"conv2d of other channels", OP_CONV2D, CONV(), {{1, 4, {1, 4, 4, 8}}, {2, 4, {8, 4, 3, 3}}}, 3, "channels differ, got [1,4,4,8] and [8,4,3,3]"},
    {"conv2d's bias", OP_CONV2D, CONV(), {{1, 4, {1, 4, 4, 8}}, {2, 4, {6, 8, 3, 3}}, {2, 1, {8}}}, 3, "conv2d: bias must have one number an output channel, got [6,8,3,3] and [8]"},
    {"conv2d too small", OP_CONV2D, CONV(), {{1, 4, {1, 2, 2, 8}}, {2, 4, {6, 8, 3, 3}}}, 3, "smaller than the kernel, got [1,2,2,8]"},
    {"conv2d's stride", OP_CONV2D, {.conv2d = {.dilation = {1, 1}, .groups = 1}}, {{1, 4, {1, 4, 4, 8}}, {2, 4, {6, 8, 3, 3}}}, 3, "conv2d: stride"},
    {"conv2d's groups", OP_CONV2D, {.conv2d = {.stride = {1, 1}, .dilation = {1, 1}, .groups = 2}}, {{1, 4, {1, 4, 4, 8}}, {2, 4, {6, 8, 3, 3}}}, 3, "grouped convolution is not supported"},
    {"conv2d's padding", OP_CONV2D, CONV(.pad = {-1, 0, 0, 0}), {{1, 4, {1, 4, 4, 8}}, {2, 4, {6, 8, 3, 3}}}, 3, "padding 0 or more"},
    {"conv2d with a computed weight", OP_CONV2D, CONV(), {{1, 4, {1, 4, 4, 8}}, {1, 4, {6, 8, 3, 3}}}, 3, "conv2d: operand 1 must be a weight"},
    {"conv2d without a weight", OP_CONV2D, CONV(), {{1, 4, {1, 4, 4, 8}}}, 3, "conv2d: operand 1 is missing"},
    {"linear's width", OP_LINEAR, {.concat = {0}}, {{1, 2, {4, 8}}, {2, 2, {8, 4}}}, 3, "linear takes x [...,I] and w [O,I], got [4,8] and [8,4]"},
    {"linear's bias", OP_LINEAR, {.concat = {0}}, {{1, 2, {4, 8}}, {2, 2, {4, 8}}, {2, 1, {8}}}, 3, "linear: bias must have one number an output, got [4,8] and [8]"},
    {"attention's rank", OP_ATTENTION, {.attention = {.heads = 2}}, {{1, 2, {4, 8}}, {1, 2, {4, 8}}, {1, 2, {4, 8}}}, 4, "attention takes q, k, v [N,T,heads*D], got [4,8]"},
    {"attention's k and v", OP_ATTENTION, {.attention = {.heads = 2}}, {{1, 3, {1, 4, 8}}, {1, 3, {1, 5, 8}}, {1, 3, {1, 6, 8}}}, 4, "k and v differ in shape, got [1,5,8] and [1,6,8]"},
    {"attention's widths", OP_ATTENTION, {.attention = {.heads = 2}}, {{1, 3, {1, 4, 8}}, {1, 3, {1, 5, 6}}, {1, 3, {1, 5, 6}}}, 4, "q and k differ in batch or width, got [1,4,8] and [1,5,6]"},
    {"attention's heads", OP_ATTENTION, {.attention = {.heads = 3}}, {{1, 3, {1, 4, 8}}, {1, 3, {1, 5, 8}}, {1, 3, {1, 5, 8}}}, 4, "a width of 8 does not divide into 3 heads"},
    {"attention's no heads", OP_ATTENTION, {.attention = {.heads = 0}}, {{1, 3, {1, 4, 8}}, {1, 3, {1, 5, 8}}, {1, 3, {1, 5, 8}}}, 4, "into 0 heads"},
    {"attention's mask", OP_ATTENTION, {.attention = {.heads = 2}}, {{1, 3, {1, 4, 8}}, {1, 3, {1, 5, 8}}, {1, 3, {1, 5, 8}}, {1, 4, {1, 2, 5, 4}}}, 4, "mask must be [1 or N, 1 or heads, Tq, Tk], got [1,4,8] and [1,2,5,4]"},
    {"group_norm's rank", OP_GROUP_NORM, {.norm = {2, 1e-5f}}, {{1, 1, {8}}, {2, 1, {8}}, {2, 1, {8}}}, 3, "group_norm takes x [N,...,C], got [8]"},
    {"group_norm's groups", OP_GROUP_NORM, {.norm = {3, 1e-5f}}, {{1, 3, {1, 4, 8}}, {2, 1, {8}}, {2, 1, {8}}}, 3, "8 channels do not divide into 3 groups"},
    {"group_norm's gamma", OP_GROUP_NORM, {.norm = {2, 1e-5f}}, {{1, 3, {1, 4, 8}}, {2, 1, {4}}, {2, 1, {8}}}, 3, "gamma and beta must have one number a channel, got [1,4,8] and [4]"},
    {"group_norm's beta", OP_GROUP_NORM, {.norm = {2, 1e-5f}}, {{1, 3, {1, 4, 8}}, {2, 1, {8}}, {2, 1, {3}}}, 3, "gamma and beta must have one number a channel, got [1,4,8] and [3]"},
    {"layer_norm's beta", OP_LAYER_NORM, {.norm = {0, 1e-5f}}, {{1, 3, {1, 4, 8}}, {0}, {2, 1, {3}}}, 3, "layer_norm: gamma and beta must have one number a channel, got [1,4,8] and [3]"},
    {"add", OP_ADD, {.concat = {0}}, {{1, 3, {1, 4, 8}}, {1, 3, {1, 4, 7}}}, 2, "add: the second operand does not broadcast to the first, got [1,4,8] and [1,4,7]"},
    {"add the wrong way", OP_ADD, {.concat = {0}}, {{1, 1, {8}}, {1, 3, {1, 4, 8}}}, 2, "add: the second operand does not broadcast"},
    {"mul", OP_MUL, {.concat = {0}}, {{1, 2, {4, 8}}, {1, 2, {3, 8}}}, 2, "mul: the second operand does not broadcast to the first, got [4,8] and [3,8]"},
    {"add's operand", OP_ADD, {.concat = {0}}, {{1, 1, {8}}}, 2, "add: operand 1 is missing"},
    {"act of nothing", OP_ACT, {.act = {0}}, {{1, 1, {8}}}, 1, "act: no activation has number 0"},
    {"act beyond", OP_ACT, {.act = {99}}, {{1, 1, {8}}}, 1, "act: no activation has number 99"},
    {"geglu's columns", OP_GEGLU, {.concat = {0}}, {{1, 2, {2, 7}}}, 1, "geglu takes an even number of columns, got [2,7]"},
    {"upsample's rank", OP_UPSAMPLE, {.upsample = {8, 8}}, {{1, 3, {1, 4, 8}}}, 1, "upsample_nearest takes x [N,H,W,C] and a size of 1 or more, got [1,4,8]"},
    {"upsample's size", OP_UPSAMPLE, {.upsample = {0, 8}}, {{1, 4, {1, 4, 4, 8}}}, 1, "upsample_nearest takes"},
    {"upsample's hugeness", OP_UPSAMPLE, {.upsample = {INT64_C(1) << 40, INT64_C(1) << 40}}, {{1, 4, {1, 4, 4, 8}}}, 1, "upsample_nearest: the result"},
    {"concat's axis", OP_CONCAT, {.concat = {3}}, {{1, 3, {1, 4, 8}}, {1, 3, {1, 4, 8}}}, 2, "concat takes an axis of its operands, got [1,4,8]"},
    {"concat's ranks", OP_CONCAT, {.concat = {1}}, {{1, 3, {1, 4, 8}}, {1, 2, {4, 8}}}, 2, "concat: operands differ in rank, got [1,4,8] and [4,8]"},
    {"concat's other axes", OP_CONCAT, {.concat = {2}}, {{1, 3, {1, 4, 8}}, {1, 3, {1, 5, 8}}}, 2, "concat: operands differ outside the axis, got [1,4,8] and [1,5,8]"},
    {"slice's end", OP_SLICE, {.slice = {1, 3, 2}}, {{1, 3, {1, 4, 8}}}, 1, "slice reaches outside its operand, got [1,4,8]"},
    {"slice's start", OP_SLICE, {.slice = {1, -1, 2}}, {{1, 3, {1, 4, 8}}}, 1, "slice reaches outside"},
    {"slice's hugeness", OP_SLICE, {.slice = {1, 1, INT64_MAX}}, {{1, 3, {1, 4, 8}}}, 1, "slice reaches outside"},
    {"slice of nothing", OP_SLICE, {.slice = {1, 1, 0}}, {{1, 3, {1, 4, 8}}}, 1, "slice reaches outside"},
    {"slice's axis", OP_SLICE, {.slice = {3, 0, 1}}, {{1, 3, {1, 4, 8}}}, 1, "slice reaches outside"},
    {"permute twice", OP_PERMUTE, {.permute = {{0, 0, 1}}}, {{1, 3, {1, 4, 8}}}, 1, "permute takes each axis once, got [1,4,8]"},
    {"permute beyond", OP_PERMUTE, {.permute = {{0, 1, 3}}}, {{1, 3, {1, 4, 8}}}, 1, "permute takes each axis once"},
    {"slice of a weight", OP_SLICE, {.slice = {0, 0, 1}}, {{2, 3, {1, 4, 8}}}, 1, "slice of a weight; use a view"},
    {"act of a weight", OP_ACT, {.act = {1}}, {{2, 3, {1, 4, 8}}}, 1, "must be computed, not a weight"},
    {"embedding by numbers", OP_EMBEDDING, {.concat = {0}}, {{2, 2, {9, 8}}, {1, 1, {4}}}, 2, "embedding: operand 1 must be an i32 input"},
    {"gather by numbers", OP_GATHER, {.concat = {0}}, {{1, 3, {1, 4, 8}}, {1, 1, {1}}}, 2, "gather: operand 1 must be an i32 input"},
    {"timestep's rank", OP_TIMESTEP, {.timestep = {.dim = 8}}, {{1, 2, {1, 4}}}, 1, "timestep_embedding takes t [N] and 2 columns or more, got [1,4]"},
    {"timestep's columns", OP_TIMESTEP, {.timestep = {.dim = 1}}, {{1, 1, {4}}}, 1, "timestep_embedding takes"},
    {"too many operands", OP_CONCAT, {.concat = {0}}, {{1, 1, {4}}}, 9, "concat of 9 operands; at most 8"},
};

static void test_each_mistake(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        recording r;
        kiln_t in[16] = {{0}};
        start(&r);
        for (uint32_t k = 0; k < 4; k++)
            if (rows[i].in[k].leaf) in[k] = (rows[i].in[k].leaf == 1 ? input : constant)(&r, rows[i].in[k].rank, rows[i].in[k].dim);
        CHECK_MSG(r.failure.status == KILN_OK, "%s: %s", rows[i].what, r.failure.message);
        kiln_t t = record_op(&r, rows[i].kind, &rows[i].attr, in, rows[i].n);
        CHECK_EQ(t.id, 0);
        check_failed(&r, rows[i].what, rows[i].part);
        recording_free(&r);
    }
}

static void test_leaves_and_outputs(void)
{
    static const int64_t negative[] = {2, -1}, none[] = {2, 0}, huge[] = {INT64_C(1) << 30, INT64_C(1) << 30};
    for (int i = 0; i < 13; i++) {
        recording r;
        start(&r);
        kiln_t x = record_input(&r, "x", KILN_F32, 2, D(2, 8));
        const char *part = "";
        switch (i) {
        case 0: record_input(&r, "x", KILN_F32, 1, D(1)), part = "two inputs are called 'x'"; break;
        case 1: record_input(&r, "y", KILN_F16, 1, D(1)), part = "input 'y': type f16; inputs are f32, bf16 or i32"; break;
        case 2: record_input(&r, "y", KILN_F32, 2, negative), part = "input 'y': impossible shape"; break;
        case 3: record_input(&r, "y", KILN_F32, 2, none), part = "input 'y': impossible shape"; break;
        case 4: record_input(&r, "y", KILN_F32, 2, huge), part = "input 'y': impossible shape"; break;
        case 5: record_input(&r, "y", KILN_F32, 7, D(1, 1, 1, 1, 1, 1, 1)), part = "input 'y': impossible shape"; break;
        case 6: record_constant(&r, zeros, 2, none), part = "a constant of impossible shape"; break;
        case 7: record_output(&r, "o", (kiln_t){0}), part = "output 'o' is not something that was computed"; break;
        case 8: record_output(&r, "o", (kiln_t){77}), part = "output 'o' is not something that was computed"; break;
        case 9: record_output(&r, "o", constant(&r, 1, D(1))), part = "output 'o' is not something that was computed"; break;
        case 10: record_output(&r, "o", x), record_output(&r, "o", x), part = "two outputs are called 'o'"; break;
        case 11: record_reshape(&r, x, 1, D(15)), part = "reshape of [2,8] to [15], which has another number of elements"; break;
        case 12: record_reshape(&r, (kiln_t){9}, 1, D(15)), part = "reshape: the operand is missing"; break;
        default: break;
        }
        check_failed(&r, part, part);
        recording_free(&r);
    }
}

static void test_the_first_error_stays(void)
{
    recording r;
    start(&r);
    kiln_t x = input(&r, 2, D(2, 8)), bad = record_op(&r, OP_GEGLU, NULL, IN(input(&r, 2, D(2, 7))), 1);
    size_t n = r.n;
    record_scope_pop(&r);
    CHECK_EQ(record_op(&r, OP_ADD, NULL, IN(x, bad), 2).id, 0);
    CHECK_EQ(record_op(&r, OP_ADD, NULL, IN(x, x), 2).id, 0);
    CHECK_EQ(input(&r, 1, D(1)).id, 0);
    record_output(&r, "o", x);
    record_fail(&r, KILN_ERR_INVALID, "something else");
    CHECK_EQ(r.n, n);
    CHECK_EQ(r.n_output, 0);
    check_failed(&r, "sticky", "geglu takes an even number");
    recording_free(&r);
}

static void test_scopes(void)
{
    recording r;
    start(&r);
    kiln_t x = input(&r, 1, D(8));
    CHECK_STR(recorded(&r, x)->scope, "down.0/attn1");
    record_scope_pop(&r);
    CHECK_STR(recorded(&r, input(&r, 1, D(8)))->scope, "down.0");
    record_scope_pop(&r);
    record_fail(&r, KILN_ERR_INVALID, "no scope");
    CHECK_STR(r.failure.message, "program 'net': no scope");
    recording_free(&r);
    start(&r);
    for (int i = 0; i < 3; i++) record_scope_pop(&r);
    CHECK_MSG(strstr(r.failure.message, "scope_pop without a scope_push"), "%s", r.failure.message);
    recording_free(&r);
    start(&r);
    for (int i = 0; i < 40; i++) record_scope_push(&r, "a_scope_with_quite_a_long_name");
    CHECK_MSG(strstr(r.failure.message, "scopes nested deeper than 32"), "%s", r.failure.message);
    recording_free(&r);
}

static void test_no_memory(void)
{
    int done = 0;
    for (int64_t k = 0; k < 100 && !done; k++) {
        recording r;
        error e = {0};
        mem_fail_at(k, 0);
        kiln_status status = recording_init(&r, "net", KILN_F32, &e);
        if (status == KILN_OK) {
            kiln_t x = record_input(&r, "x", KILN_F32, 2, D(2, 8));
            for (int i = 0; i < 40; i++) record_scope_push(&r, i % 2 ? "a" : "b"), x = record_op(&r, OP_ADD, NULL, IN(x, x), 2), record_scope_pop(&r);
            record_output(&r, "o", record_op(&r, OP_LINEAR, NULL, IN(x, constant(&r, 2, D(4, 8)), {0}), 3));
            status = r.failure.status;
        }
        done = mem_count() <= k;
        mem_fail_at(-1, 0);
        CHECK_EQ(status, done ? KILN_OK : KILN_ERR_NOMEM);
        recording_free(&r);
    }
    CHECK(done);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_each_mistake), CASE(test_leaves_and_outputs), CASE(test_the_first_error_stays), CASE(test_scopes), CASE(test_no_memory)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
