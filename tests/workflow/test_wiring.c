/* test_wiring.c - what a check finds out about wires: types behind outputs of any type, wires that a lazy input does
 * not want, and which nodes run once for each item of a list.
 */
#include "workflow/open_kit.h"

#define SAVE(from) "  o: {class_type: Save, inputs: {images: " from "}}\n"
#define BLANK "nodes:\n  a: {class_type: Blank}\n  b: {class_type: Blank, inputs: {width: 32}}\n"

/* ---- types ---- */

static void test_a_type_is_found_behind_a_switch(void)
{
    SOUND(BLANK "  s: {class_type: Switch, inputs: {on: true, off: [a, 0], yes: [b, 0]}}\n" SAVE("[s, 0]"));
    FAULTS(BLANK "  n: {class_type: Number}\n  s: {class_type: Switch, inputs: {on: true, off: [n, 0], yes: [n, 0]}}\n"
                 "  t: {class_type: Switch, inputs: {on: true, off: [s, 0], yes: [s, 0]}}\n" SAVE("[t, 0]"),
           1, "node 'o' (Save): input 'images' takes IMAGE, but output 'out' of 't' (Switch) is INT");
    FAULTS(BLANK "  n: {class_type: Words, inputs: {text: x}}\n  l: {class_type: List, inputs: {items: [n, 0]}}\n"
                 "  c: {class_type: Blank, inputs: {width: [l, 0]}}\n" SAVE("[c, 0]"),
           1, "node 'c' (Blank): input 'width' takes INT, but output 'list' of 'l' (List) is STRING");
}

static void test_inputs_of_one_type_agree(void)
{
    FAULTS(BLANK
           "  n: {class_type: Number}\n  s: {class_type: Switch, inputs: {off: [a, 0], yes: [n, 0]}}\n" SAVE("[s, 0]"),
           1, "node 's' (Switch): input 'yes' takes IMAGE, as 'off' does, but output 'INT' of 'n' (Number) is INT");
    FAULTS(BLANK "  n: {class_type: Number}\n  l: {class_type: List, inputs: {items: [[a, 0], [b, 0], [n, 0]]}}\n" SAVE(
               "[l, 0]"),
           1, "node 'l' (List): input 'items' takes IMAGE, as 'items' does, but output 'INT' of 'n' (Number) is INT");
    /* What is of any type says nothing, and takes what others say. */
    SOUND(BLANK "  x: {class_type: Any, inputs: {any: [a, 0]}}\n  s: {class_type: Switch, inputs: {off: [x, 0], yes: "
                "[b, 0]}}\n" SAVE("[s, 0]"));
}

static void test_types_in_a_cycle_are_looked_at_too(void)
{
    FAULTS(
        "nodes:\n  n: {class_type: Number}\n  s: {class_type: Switch, inputs: {on: true, off: [s, 0], yes: [s, 0]}}\n"
        "  d: {class_type: Decode, inputs: {images: [n, 0]}}\n" SAVE("[d, 0]"),
        2, "input 'images' takes IMAGE, but output 'INT' of 'n' (Number) is INT");
}

/* ---- inputs that grow ---- */

static const char *source_of(const opened *o, const char *name, uint32_t k)
{
    const graph_node *g = node_of(o, name);
    return k < g->in[0].n ? o->w.node[g->in[0].from[k].node].doc->name : "";
}

static void test_parts_of_a_list_input_follow_their_numbers(void)
{
    opened *o = open_text(
        BLANK "  l: {class_type: List, inputs: {items.input10: [c, 0], items.input2: [b, 0], items: [[a, 0], "
              "[b, 0]], items.input1: [a, 0]}}\n  c: {class_type: Blank, inputs: {width: 48}}\n" SAVE("[l, 0]"));
    CHECK_MSG(o->d.n_fault == 0, "%s", o->faults);
    CHECK_EQ(node_of(o, "l")->in[0].n, 5);
    const char *const wanted[] = {"a", "b", "a", "b", "c"};
    for (uint32_t i = 0; i < 5; i++) CHECK_STR(source_of(o, "l", i), wanted[i]);
    document_free(&o->d);
    FAULTS(BLANK "  d: {class_type: Decode, inputs: {images.x: [a, 0], images: [a, 0]}}\n" SAVE("[d, 0]"), 1,
           "node 'd' (Decode): has no input 'images.x'; did you mean 'images'?");
    FAULTS(BLANK "  l: {class_type: List, inputs: {items.x: 5}}\n" SAVE("[l, 0]"), 1,
           "input 'items.x' takes a wire of type *T");
}

/* ---- lazy inputs ---- */

#define SWITCH(on, width)                                                                                              \
    "nodes:\n  a: {class_type: Blank}\n"                                                                               \
    "  b: {class_type: Blank, inputs: {width: " width "}}\n  d: {class_type: Decode, inputs: {images: [b, 0]}}\n"      \
    "  s: {class_type: Switch, inputs: {on: " on ", off: [a, 0], yes: [d, 0]}}\n" SAVE("[s, 0]")

static void test_what_parameters_do_not_want_is_not_needed(void)
{
    opened *o = open_text(SWITCH("false", "32"));
    CHECK_MSG(o->d.n_fault == 0 && !o->warnings[0], "%s%s", o->faults, o->warnings);
    CHECK(node_of(o, "a")->needed && !node_of(o, "b")->needed && !node_of(o, "d")->needed);
    const graph_node *s = node_of(o, "s");
    CHECK(s->in[0].n == 1 && s->in[1].n == 0 && s->left && s->left[1].n == 1 && s->left[0].n == 0);
    document_free(&o->d);
    o = open_text(SWITCH("true", "32"));
    CHECK(!node_of(o, "a")->needed && node_of(o, "b")->needed && node_of(o, "d")->needed);
    document_free(&o->d);
}

static void test_the_other_branch_is_not_in_the_key(void)
{
    CHECK(digest_equal(key_of(SWITCH("false", "32"), "s"), key_of(SWITCH("false", "48"), "s")));
    CHECK(!digest_equal(key_of(SWITCH("true", "32"), "s"), key_of(SWITCH("true", "48"), "s")));
    CHECK(!digest_equal(key_of(SWITCH("false", "32"), "s"), key_of(SWITCH("true", "32"), "s")));
}

#define WIRED(type)                                                                                                    \
    "nodes:\n  n: {class_type: " type ", inputs: {amount: 3}}\n  a: {class_type: Blank}\n"                             \
    "  c: {class_type: Chain, inputs: {amount: [n, 0], images: [a, 0]}}\n" SAVE("[c, 0]")

static void test_only_constants_are_known_before_a_run(void)
{
    opened *o = open_text(WIRED("Constant"));
    CHECK_MSG(o->d.n_fault == 0 && !o->warnings[0], "%s%s", o->faults, o->warnings);
    CHECK(has_node(o, "c/decode3") && !has_node(o, "c/decode4"));
    document_free(&o->d);
    FAULTS(WIRED("Number"), 1,
           "node 'c' (Chain): input 'amount' decides which nodes it expands into, so it cannot be wired to what a run "
           "computes; write the value, or wire it to a constant like PrimitiveInt");
    FAULTS("nodes:\n  n: {class_type: Constant, inputs: {amount: -3}}\n  a: {class_type: Blank}\n"
           "  c: {class_type: Chain, inputs: {amount: [n, 0], images: [a, 0]}}\n" SAVE("[c, 0]"),
           1, "node 'c' (Chain): wired input 'amount': '-3' is not a whole number from 0 to 1000000");
}

/* wants() of these says what the test is about. */
static uint64_t said;
static int asked;
static kiln_status say(void *self, const char *node, const kiln_node *t, const void *params, uint64_t *inputs, error *e)
{
    (void)self, (void)node, (void)t, (void)params, (void)e;
    asked++;
    *inputs = said;
    return said == 4 ? error_set(e, KILN_ERR_BUG, "node '%s' (Switch): broken", node) : KILN_OK;
}

static void test_an_answer_that_may_change_leaves_all_wires(void)
{
    catalog_view c = fake_catalog();
    c.wants = say;
    said = 1 | KILN_WANTS_AGAIN;
    opened *o = open_with(SWITCH("false", "32"), &c);
    CHECK(node_of(o, "s")->in[0].n == 1 && node_of(o, "s")->in[1].n == 1 && node_of(o, "b")->needed);
    document_free(&o->d);
    said = 4;
    o = open_with(SWITCH("false", "32"), &c);
    CHECK_STR(o->faults, "f:5:3: error: node 's' (Switch): broken\n");
    document_free(&o->d);
}

static void test_a_computed_parameter_leaves_all_wires(void)
{
    catalog_view c = fake_catalog();
    c.wants = say;
    asked = 0;
    opened *o = open_with("nodes:\n  n: {class_type: Any, inputs: {any: [a, 0]}}\n  a: {class_type: Blank}\n"
                          "  s: {class_type: Switch, inputs: {on: [n, 0], off: [a, 0], yes: [a, 0]}}\n" SAVE("[s, 0]"),
                          &c);
    CHECK_MSG(o->d.n_fault == 0, "%s", o->faults);
    CHECK(asked == 0 && node_of(o, "s")->in[0].n == 1 && node_of(o, "s")->in[1].n == 1);
    document_free(&o->d);
}

/* ---- lists ---- */

static void test_nodes_behind_a_list_are_mapped(void)
{
    opened *o = open_text("nodes:\n  m: {class_type: Batches, inputs: {amount: 3}}\n  d: {class_type: Decode, inputs: "
                          "{images: [m, 0]}}\n  e: {class_type: Decode, inputs: {images: [d, 0]}}\n"
                          "  j: {class_type: Join, inputs: {images: [[e, 0], [m, 0]]}}\n" SAVE("[j, 0]"));
    CHECK_MSG(o->d.n_fault == 0, "%s", o->faults);
    CHECK(!node_of(o, "m")->mapped && makes_list(node_of(o, "m"), 0));
    CHECK(node_of(o, "d")->mapped && makes_list(node_of(o, "d"), 0) && node_of(o, "e")->mapped);
    CHECK(!node_of(o, "j")->mapped && !makes_list(node_of(o, "j"), 0) && !node_of(o, "o")->mapped);
    document_free(&o->d);
}

static void test_a_list_for_a_parameter_maps(void)
{
    opened *o =
        open_text("nodes:\n  n: {class_type: Number, inputs: {amount: 32}}\n  l: {class_type: List, inputs: "
                  "{items: [[n, 0], [n, 0]]}}\n  b: {class_type: Blank, inputs: {width: [l, 0]}}\n" SAVE("[b, 0]"));
    CHECK_MSG(o->d.n_fault == 0, "%s", o->faults);
    CHECK(node_of(o, "b")->mapped && node_of(o, "o")->mapped);
    document_free(&o->d);
}

static void test_an_unwanted_list_maps_nothing(void)
{
    opened *o = open_text("nodes:\n  m: {class_type: Batches, inputs: {amount: 3}}\n  a: {class_type: Blank}\n"
                          "  s: {class_type: Switch, inputs: {on: false, off: [a, 0], yes: [m, 0]}}\n" SAVE("[s, 0]"));
    CHECK_MSG(o->d.n_fault == 0, "%s", o->faults);
    CHECK(!node_of(o, "s")->mapped && !node_of(o, "o")->mapped);
    document_free(&o->d);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_a_type_is_found_behind_a_switch),
        CASE(test_inputs_of_one_type_agree),
        CASE(test_types_in_a_cycle_are_looked_at_too),
        CASE(test_parts_of_a_list_input_follow_their_numbers),
        CASE(test_what_parameters_do_not_want_is_not_needed),
        CASE(test_the_other_branch_is_not_in_the_key),
        CASE(test_only_constants_are_known_before_a_run),
        CASE(test_an_answer_that_may_change_leaves_all_wires),
        CASE(test_a_computed_parameter_leaves_all_wires),
        CASE(test_nodes_behind_a_list_are_mapped),
        CASE(test_a_list_for_a_parameter_maps),
        CASE(test_an_unwanted_list_maps_nothing),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
