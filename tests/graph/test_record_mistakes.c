/* test_record_mistakes.c - what a program that is recorded refuses, with its sentence; that a failed program takes
 * nothing more and keeps its first sentence; and rows of a plugin's own ops that are wrong in one member each.
 */
#include "graph/custom.h"
#include "graph/program.h"
#include "graph/shape_rules.h"
#include "graph_kit.h"
#include "harness.h"

#include <stdio.h>
#include <string.h>

static recording r;

static void begin(void)
{
    error e = {0};
    CHECK_EQ(recording_init(&r, "made", KILN_F32, &e), KILN_OK);
}

/* The sentence has these words; whatever is recorded afterwards is nothing and changes neither. */
static void says(const char *words)
{
    char first[sizeof r.failure.message];
    snprintf(first, sizeof first, "%s", r.failure.message);
    CHECK_MSG(r.failure.status != KILN_OK && strstr(first, words), "wanted \"%s\": \"%s\"", words, first);
    size_t n = r.n, outputs = r.n_output;
    const kiln_t seven = {7};
    CHECK_EQ(record_input(&r, "later", KILN_F32, 1, DIMS(3)).id, 0);
    CHECK_EQ(record_constant(&r, KILN_F32, &(float){1}, 1, DIMS(1)).id, 0);
    CHECK_EQ(record_state(&r, "later", KILN_F32, 1, DIMS(3)).id, 0);
    CHECK_EQ(record_random(&r, seven, 0, 1, DIMS(3)).id, 0);
    CHECK_EQ(record_reshape(&r, seven, 1, DIMS(3)).id, 0);
    CHECK_EQ(record_as(&r, seven, KILN_BF16).id, 0);
    CHECK_EQ(record_op(&r, OP_ADD, &(op_attr){0}, (kiln_t[]){seven, seven}, 2).id, 0);
    CHECK_EQ(record_map(&r, "a", &seven, 1, NULL, NULL).id, 0);
    CHECK_EQ(record_weight(&r, NULL, "later", 1, DIMS(3), 0).id, 0);
    record_precision_push(&r, KILN_BF16), record_output(&r, "later", seven), record_step_invariant(&r, seven);
    CHECK(r.n == n && r.n_output == outputs);
    CHECK_STR(r.failure.message, first);
    recording_free(&r);
}

/* A recording of "x" [2,6], "i" [4] of whole numbers and a constant [6]. */
static kiln_t x, whole, fixed;
static void begin_with(void)
{
    static const float six[6] = {1, 2, 3, 4, 5, 6};
    begin();
    x = record_input(&r, "x", KILN_F32, 2, DIMS(2, 6)), whole = record_input(&r, "i", KILN_I32, 1, DIMS(4));
    fixed = record_constant(&r, KILN_F32, six, 1, DIMS(6));
    CHECK(x.id && whole.id && fixed.id);
}

static void test_leaves(void)
{
    int64_t many[KILN_MAX_RANK + 1];
    for (int i = 0; i <= KILN_MAX_RANK; i++) many[i] = 1;
    begin(), record_input(&r, "", KILN_F32, 1, DIMS(3)), says("an input");
    begin(), record_input(&r, NULL, KILN_F32, 1, DIMS(3)), says("an input");
    begin(), record_input(&r, "x", KILN_F64, 1, DIMS(3)), says("input 'x': type f64; inputs are f32, bf16, f16 or i32");
    begin(), record_input(&r, "x", KILN_F32, 2, DIMS(3, 0)), says("input 'x': a shape takes");
    begin(), record_input(&r, "x", KILN_F32, 2, DIMS(3, -2)), says("input 'x': a shape takes");
    begin(), record_input(&r, "x", KILN_F32, KILN_MAX_RANK + 1, many), says("input 'x': a shape takes");
    begin_with(), record_input(&r, "x", KILN_F32, 1, DIMS(3)), says("two inputs are called 'x'");
    begin(), record_state(&r, "", KILN_F32, 1, DIMS(3)), says("a state");
    begin(), record_state(&r, NULL, KILN_F32, 1, DIMS(3)), says("a state");
    begin(), record_state(&r, "s", KILN_F64, 1, DIMS(3)), says("state 's': type f64; states are");
    begin(), record_state(&r, "s", KILN_F32, 1, DIMS(0)), says("state 's': a shape takes");
    begin(), record_state(&r, "s", KILN_I32, 1, DIMS(3)), record_state(&r, "s", KILN_I32, 1, DIMS(3)),
        says("two states are called 's'");
    begin(), record_constant(&r, KILN_F32, NULL, 1, DIMS(3)), says("a constant without data or of impossible shape");
    begin(), record_constant(&r, KILN_F32, &(float){1}, 1, DIMS(-1)),
        says("a constant without data or of impossible shape");
}

static void test_outputs(void)
{
    begin_with(), record_output(&r, "", x), says("an output");
    begin_with(), record_output(&r, NULL, x), says("an output");
    begin_with(), record_output(&r, "y", (kiln_t){99}), says("output 'y' is not something that was computed");
    begin_with(), record_output(&r, "y", (kiln_t){0}), says("output 'y' is not something that was computed");
    begin_with(), record_output(&r, "y", fixed), says("output 'y' is not something that was computed");
    begin_with(), record_output(&r, "y", x), record_output(&r, "y", x), says("two outputs are called 'y'");
    begin_with(), record_step_invariant(&r, fixed), says("");
    begin_with(), record_step_invariant(&r, (kiln_t){99}), says("");
}

static void test_precisions(void)
{
    begin(), record_precision_push(&r, KILN_I32), says("a precision is f32, bf16 or f16");
    begin();
    for (int i = 0; i <= REGIONS_MAX; i++) record_precision_push(&r, i % 2 ? KILN_F16 : KILN_BF16);
    says("precisions nested deeper than 8");
    begin(), record_precision_pop(&r), says("precision");
    begin(), r.precisions = 1u << KILN_F32 | 1u << KILN_BF16;
    record_precision_push(&r, KILN_F16);
    CHECK_EQ(record_precision(&r), KILN_F32); /* the device has none of f16 */
    record_precision_push(&r, KILN_BF16);
    CHECK_EQ(record_precision(&r), KILN_BF16);
    recording_free(&r);
}

static void test_calls(void)
{
    kiln_map own = {0};
    begin_with(), record_reshape(&r, x, 2, DIMS(4, 0)), says("reshape to an impossible shape");
    begin_with(), record_reshape(&r, x, 2, DIMS(5, 2)), says("which has another number of elements");
    begin_with(), record_random(&r, whole, 77, 1, DIMS(3)), says("random: no law has number 77");
    begin_with(), record_random(&r, whole, 0, 1, DIMS(0)), says("random: an impossible shape");
    begin_with(), whole = record_input(&r, "three", KILN_I32, 1, DIMS(3)), record_random(&r, whole, 0, 1, DIMS(3)),
                  says("random: the seed is four numbers");
    begin_with(), record_map(&r, "a", &x, 1, &own, NULL), says("map: a kiln_map that does not say its size");
    begin_with(), record_map(&r, NULL, &x, 1, NULL, NULL), says("map takes an expression and 1 to");
    begin_with(), record_map(&r, "a", NULL, 1, NULL, NULL), says("map takes an expression and 1 to");
    begin_with(), record_map(&r, "a", &x, 0, NULL, NULL), says("map takes an expression and 1 to");
    begin_with(), record_map(&r, "a", &x, KILN_MAP_OPERANDS + 1, NULL, NULL), says("map takes an expression and 1 to");
    own.size = sizeof own, own.dtype = KILN_F64;
    begin_with(), record_map(&r, "a", &x, 1, &own, NULL), says("map: a result of type f64");
    begin_with(), record_map(&r, "a +", &x, 1, NULL, NULL), says("map: ");
    begin_with(), record_op(&r, OP_ADD, &(op_attr){0}, (kiln_t[]){x, {99}}, 2), says("");
    begin_with(), record_op(&r, OP_ADD, &(op_attr){0}, (kiln_t[]){x, {0}}, 2), says("");
    begin_with(), record_op(&r, OP_STATE_WRITE, &(op_attr){0}, (kiln_t[]){x, whole, x}, 3), says("");
}

/* ---- ops of plugins ---- */

static int64_t side = 3;
static uint32_t rank_said = 1, type_said;
static int fails, speaks;

static kiln_status shape_of(const kiln_op_call *c, kiln_op_result *out)
{
    if (fails) return speaks ? c->fail(c->engine, "its own words") : KILN_ERR_INVALID;
    for (uint32_t i = 0; i < c->n_out; i++) out[i].rank = rank_said, out[i].dtype = type_said, out[i].dim[0] = side;
    return KILN_OK;
}
static kiln_status compute(const kiln_op_call *c) { return (void)c, KILN_OK; }
static void tile(const kiln_op_call *c, uint64_t at, void *workspace) { (void)c, (void)at, (void)workspace; }

static const kiln_op_kind right = {.size = sizeof right,
                                   .version = 1,
                                   .name = "org.example.op",
                                   .n_in = 2,
                                   .n_out = 1,
                                   .types = 1u << KILN_F32,
                                   .shape = shape_of,
                                   .reference = compute};

static void refuses(kiln_op_kind k, const char *words)
{
    const kiln_t in[2] = {{1}, {2}};
    begin_with();
    CHECK_EQ(record_custom(&r, &(custom_what){.kind = &k}, in, 2, NULL).id, 0);
    says(words);
}

static void test_rows_of_ops(void)
{
    char long_name[102] = "";
    memset(long_name, 'x', sizeof long_name - 1);
    kiln_op_kind k = right;
    k.size = 0, refuses(k, "an op's row that does not say its size"), k = right;
    k.name = NULL, refuses(k, "an op without a usable name"), k = right;
    k.name = "", refuses(k, "an op without a usable name"), k = right;
    k.name = long_name, refuses(k, "an op without a usable name"), k = right;
    k.n_in = 0, refuses(k, "op 'org.example.op': 0 operands and 1 results"), k = right;
    k.n_in = KILN_OP_OPERANDS + 1, refuses(k, "operands and 1 results; 1 to"), k = right;
    k.n_out = 0, refuses(k, "2 operands and 0 results"), k = right;
    k.n_out = KILN_OP_RESULTS + 1, refuses(k, "2 operands and"), k = right;
    k.reference = NULL, refuses(k, "it has no reference()"), k = right;
    k.shape = NULL, refuses(k, "it has no shape()"), k = right;
    k.expression = "a + b", k.n_out = 2, refuses(k, "an expression has one result"), k = right;
    k.types = 1u << KILN_BF16, refuses(k, "its types leave out f32"), k = right;
    k.types |= 1u << KILN_I32, refuses(k, "its types are f32, bf16 and f16"), k = right;
    k.tile = tile, refuses(k, "tiles() and tile() go together"), k = right;
    k.relative = -1, refuses(k, "a negative bound"), k = right;
    k.absolute = -1, refuses(k, "a negative bound"), k = right;
    fails = 1, refuses(k, "its shape() failed without a word");
    speaks = 1, refuses(k, "its own words"), fails = 0;
    side = 0, refuses(k, "an impossible shape or type");
    side = -4, refuses(k, "an impossible shape or type"), side = 3;
    type_said = KILN_F64, refuses(k, "an impossible shape or type"), type_said = 0;
    rank_said = KILN_MAX_RANK + 1, refuses(k, "gives result 0 an impossible shape or type"), rank_said = 1;
}

static void test_calls_of_ops(void)
{
    kiln_op_kind k = right;
    const custom_what what = {.kind = &k};
    kiln_t more[KILN_OP_RESULTS] = {{77}, {77}}, in[3];
    begin_with(), record_custom(&r, &what, NULL, 1, NULL), says("takes 1 to 2 operands");
    begin_with(), in[0] = x, record_custom(&r, &what, in, 0, NULL), says("takes 1 to 2 operands");
    begin_with(), in[0] = in[1] = in[2] = x, record_custom(&r, &what, in, 3, NULL), says("takes 1 to 2 operands");
    begin_with(), record_custom(&r, &(custom_what){&k, "", (size_t)1 << 40}, in, 1, NULL), says("attributes of up to");
    begin_with(), record_custom(&r, &(custom_what){&k, NULL, 4}, in, 1, NULL), says("attributes of up to");
    begin_with(), in[0] = (kiln_t){99}, record_custom(&r, &what, in, 1, NULL), says("operand 0 is missing");
    k.n_out = 2, k.types = 1u << KILN_F32 | 1u << KILN_BF16;
    begin_with(), record_precision_push(&r, KILN_BF16);
    in[0] = (kiln_t){0}, in[1] = whole;
    kiln_t made = record_custom(&r, &what, in, 2, more);
    REQUIRE(CHECK_MSG(made.id && more[0].id != 77 && more[0].id, "%s", r.failure.message));
    CHECK_EQ(recorded(&r, made)->dtype, KILN_BF16); /* the program's, where the op takes it */
    CHECK_EQ(recorded(&r, made)->in[0], 0);
    CHECK_EQ(r.op[recorded(&r, made)->in[1] - 1].dtype, KILN_I32); /* as they are */
    in[0] = fixed, in[1] = x;
    made = record_custom(&r, &(custom_what){&k, "abc", 3}, in, 2, NULL);
    REQUIRE(CHECK_MSG(made.id != 0, "%s", r.failure.message));
    CHECK_EQ(r.op[recorded(&r, made)->in[1] - 1].dtype, KILN_F32); /* its own, which the op takes */
    k.types = 1u << KILN_F32, k.n_out = 1;
    made = record_custom(&r, &what, in, 2, NULL);
    CHECK_EQ(recorded(&r, made)->dtype, KILN_F32);
    recording_free(&r);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {CASE(test_leaves), CASE(test_outputs),     CASE(test_precisions),
                                      CASE(test_calls),  CASE(test_rows_of_ops), CASE(test_calls_of_ops)};
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
