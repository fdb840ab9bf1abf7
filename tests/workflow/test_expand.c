/* test_expand.c - nodes that stand for others: what takes their place, under which names, with which keys, wires and
 * values; and what is refused, of workflows and of expand().
 */
#include "workflow/describe.h"
#include "workflow/open_kit.h"

#define SAVE(from) "  o: {class_type: Save, inputs: {images: " from "}}\n"
#define A "nodes:\n  a: {class_type: Blank, inputs: {width: 32}}\n"

/* ---- what it becomes ---- */

static void test_inner_nodes_take_the_place(void)
{
    opened *o = open_text(A "  c: {class_type: Chain, inputs: {amount: 3, images: [a, 0]}}\n" SAVE("[c, IMAGE]"));
    CHECK_MSG(o->d.n_fault == 0 && !o->warnings[0], "%s%s", o->faults, o->warnings);
    CHECK_EQ(o->w.n, 5);
    CHECK(!has_node(o, "c"));
    CHECK_STR(o->w.node[o->w.node[4].in[0].from[0].node].doc->name, "c/decode3");
    CHECK_STR(o->w.node[node_of(o, "c/decode1")->in[0].from[0].node].doc->name, "a");
    CHECK_STR(node_of(o, "c/decode2")->doc->part_of->type, "Chain");
    document_free(&o->d);
}

static void test_keys_are_those_of_the_nodes_written_out(void)
{
    digest flat = key_of(A "  x: {class_type: Decode, inputs: {images: [a, 0]}}\n"
                           "  y: {class_type: Decode, inputs: {images: [x, 0]}}\n" SAVE("[y, 0]"),
                         "y");
    CHECK(digest_equal(flat,
                       key_of(A "  c: {class_type: Chain, inputs: {images: [a, 0]}}\n" SAVE("[c, 0]"), "c/decode2")));
    CHECK(digest_equal(flat, key_of(A "  e: {class_type: Nest, inputs: {amount: 0, images: [d, 0]}}\n"
                                      "  d: {class_type: Nest, inputs: {amount: 4, images: [a, 0]}}\n" SAVE("[e, 0]"),
                                    "e/in")));
}

static void test_nodes_expand_in_turn(void)
{
    opened *o = open_text(A "  e: {class_type: Nest, inputs: {amount: 3, images: [a, 0]}}\n" SAVE("[e, 0]"));
    CHECK_MSG(o->d.n_fault == 0, "%s", o->faults);
    CHECK_EQ(o->w.n, 3);
    CHECK_EQ(node_of(o, "e/in/in/in/in")->doc->part_of->depth, 4);
    document_free(&o->d);
}

static void test_an_output_may_be_an_input(void)
{
    opened *o = open_text(A "  c: {class_type: Chain, inputs: {amount: 0, images: [d, 0]}}\n"
                            "  d: {class_type: Chain, inputs: {amount: 0, images: [e, 0]}}\n"
                            "  e: {class_type: Chain, inputs: {amount: 1, images: [a, 0]}}\n" SAVE("[c, 0]"));
    CHECK_MSG(o->d.n_fault == 0, "%s", o->faults);
    CHECK_EQ(o->w.n, 3);
    CHECK_STR(o->w.node[node_of(o, "o")->in[0].from[0].node].doc->name, "e/decode1");
    document_free(&o->d);
}

static int64_t width_of(const opened *o, const char *name)
{
    return ((const fake_blank_params *)node_of(o, name)->params)->width;
}

static void test_parameters_are_passed_on(void)
{
    opened *o = open_text("params: {w: 96}\nnodes:\n  c: {class_type: Chain, inputs: {amount: 1, width: \"${w}\"}}\n"
                          "  d: {class_type: Chain, inputs: {amount: 1}}\n  n: {class_type: Number, inputs: {amount: "
                          "48}}\n  e: {class_type: Chain, inputs: {amount: 1, width: [n, 0]}}\n"
                          "  j: {class_type: Join, inputs: {images: [[c, 0], [d, 0], [e, 0]]}}\n" SAVE("[j, 0]"));
    CHECK_MSG(o->d.n_fault == 0, "%s", o->faults);
    CHECK_EQ(width_of(o, "c/decode0"), 96);
    CHECK_EQ(width_of(o, "d/decode0"), 64); /* the Chain's default, not the Blank's 512 */
    CHECK_STR(o->w.node[node_of(o, "e/decode0")->param_in[0].node].doc->name, "n");
    char *text = describe_source(&o->w, SOURCE_NONE);
    CHECK_MSG(text && strstr(text, "\"params\": {\"w\": 96}") && strstr(text, "\"width\": \"${w}\""), "%s",
              text ? text : "no memory"); /* it is a parameter of pictures too */
    mem_free(text);
    document_free(&o->d);
}

static void test_a_parameter_that_makes_nodes_is_a_value_in_pictures(void)
{
    opened *o =
        open_text("params: {n: 16, w: 96}\nnodes:\n  a: {class_type: Blank, inputs: {width: \"${w}\", height: "
                  "\"${n}\"}}\n  c: {class_type: Chain, inputs: {amount: \"${n}\", images: [a, 0]}}\n" SAVE("[c, 0]"));
    char *text = describe_source(&o->w, SOURCE_NONE);
    CHECK_MSG(text && strstr(text, "\"params\": {\"w\": 96}") && !strstr(text, "${n}"), "%s",
              text ? text : "no memory");
    mem_free(text);
    document_free(&o->d);
}

static void test_a_list_goes_through(void)
{
    opened *o =
        open_text(A "  m: {class_type: Batches, inputs: {amount: 3}}\n  c: {class_type: Chain, inputs: {images: "
                    "[m, 0]}}\n" SAVE("[c, 0]"));
    CHECK_MSG(o->d.n_fault == 0, "%s", o->faults);
    CHECK(node_of(o, "c/decode1")->mapped && node_of(o, "o")->mapped); /* a list goes through it */
    document_free(&o->d);
}

/* ---- faults of workflows ---- */

static void test_inputs_are_checked_on_the_outer_node(void)
{
    FAULTS(A "  c: {class_type: Chain, inputs: {amount: x, images: [a, 0]}}\n" SAVE("[c, 0]"), 1,
           "f:3:43: error: node 'c' (Chain): input 'amount': 'x' is not a whole number");
    FAULTS(A "  n: {class_type: Number}\n  c: {class_type: Chain, inputs: {images: [n, 0]}}\n" SAVE("[c, 0]"), 1,
           "node 'c' (Chain): input 'images' takes IMAGE, but output 'INT' of 'n' (Number) is INT");
    FAULTS(A "  c: {class_type: Nest}\n" SAVE("[c, 0]"), 1, "node 'c' (Nest): input 'images' is missing");
    FAULTS(A "  c: {class_type: Chain, inputs: {images: [a, 0]}}\n" SAVE("[c, MASK]"), 1,
           "node 'o' (Save): input 'images': 'c' (Chain) has no output 'MASK'; it has 0 IMAGE");
    FAULTS(A "  c: {class_type: Chain, inputs: {images: [a, 0], width: 7}}\n" SAVE("[c, 0]"), 1,
           "node 'c' (Chain): input 'width': '7' is not a whole number from 16 to 16384");
}

static void test_circles_are_found(void)
{
    FAULTS("nodes:\n  c: {class_type: Chain, inputs: {amount: 0, images: [d, 0]}}\n"
           "  d: {class_type: Chain, inputs: {amount: 0, images: [c, 0]}}\n" SAVE("[c, 0]"),
           1, "node 'o' (Save): input 'images' is part of a cycle through 'd' (Chain)");
    FAULTS("nodes:\n  c: {class_type: Chain, inputs: {amount: 1, images: [c, 0]}}\n" SAVE("[c, 0]"), 1,
           "'c/decode1' <- 'c/decode1'; a node cannot wait for itself");
}

static void test_depth_and_number_have_limits(void)
{
    SOUND(A "  e: {class_type: Nest, inputs: {amount: 15, images: [a, 0]}}\n" SAVE("[e, 0]"));
    FAULTS(A "  e: {class_type: Nest, inputs: {amount: 16, images: [a, 0]}}\n" SAVE("[e, 0]"), 1,
           "nodes expand into nodes that expand, more than 16 deep");
    FAULTS(A "  e: {class_type: Chain, inputs: {amount: 10001, images: [a, 0]}}\n" SAVE("[e, 0]"), 1,
           "node 'e' (Chain): expand(): more than 10000 nodes");
    char many[4000] = A;
    for (int i = 0; i < 11; i++)
        snprintf(many + strlen(many), sizeof many - strlen(many),
                 "  c%d: {class_type: Chain, inputs: {amount: 9999, images: [a, 0]}}\n", i);
    FAULTS(many, 1, "more than 100000 nodes with what they expand into");
}

static void test_a_name_within_is_taken(void)
{
    FAULTS(
        A "  c: {class_type: Chain, inputs: {images: [a, 0]}}\n  c/decode2: {class_type: Blank}\n" SAVE("[c, 0]"), 1,
        "f:4:3: error: node 'c/decode2' (Blank): has a name that 'c' (Chain) gives to a node it expands into; call it "
        "otherwise");
}

/* ---- faults of expand() ---- */

static kiln_status (*broken)(kiln_graph *g);

static kiln_status call_broken(void *self, const char *node, const kiln_node *t, const void *params, kiln_graph *g,
                               error *e)
{
    (void)self, (void)params;
    broken(g);
    return g->e->status == KILN_OK
               ? KILN_OK
               : error_set(e, g->e->status, "node '%s' (%s): expand(): %s", node, t->type, g->e->message);
}

static void check_broken(kiln_status (*what)(kiln_graph *), size_t n, const char *words)
{
    catalog_view c = fake_catalog();
    c.expand = call_broken;
    broken = what;
    opened *o = open_with(A "  c: {class_type: Chain, inputs: {images: [a, 0]}}\n" SAVE("[c, 0]"), &c);
    CHECK_MSG(strstr(o->faults, words) != NULL, "%s not in: %s", words, o->faults);
    CHECK_MSG(o->d.n_fault == n, "%zu faults: %s", o->d.n_fault, o->faults);
    document_free(&o->d);
}

static kiln_status no_output(kiln_graph *g) { return graph_api.node(g, "x", "Blank"); }
static kiln_status other_output(kiln_graph *g) { return graph_api.output(g, "MASK", "x", "IMAGE"); }
static kiln_status output_twice(kiln_graph *g)
{
    graph_api.node(g, "x", "Blank");
    graph_api.output(g, "IMAGE", "x", "IMAGE");
    return graph_api.output(g, "IMAGE", "x", "IMAGE");
}
static kiln_status output_of_nothing(kiln_graph *g) { return graph_api.output(g, "IMAGE", "x", "IMAGE"); }
static kiln_status inner_output(kiln_graph *g)
{
    graph_api.node(g, "x", "Blank");
    return graph_api.output(g, "IMAGE", "x", "picture");
}
static kiln_status inner_type(kiln_graph *g)
{
    graph_api.node(g, "x", "Number");
    return graph_api.output(g, "IMAGE", "x", "INT");
}
static kiln_status no_type(kiln_graph *g)
{
    graph_api.node(g, "x", "Blnk");
    return graph_api.output(g, "IMAGE", "x", "IMAGE");
}
static kiln_status same_name(kiln_graph *g)
{
    graph_api.node(g, "x", "Blank");
    return graph_api.node(g, "x", "Blank");
}
static kiln_status bad_name(kiln_graph *g) { return graph_api.node(g, "x/y", "Blank"); }
static kiln_status later(kiln_graph *g)
{
    graph_api.node(g, "x", "Decode");
    graph_api.node(g, "y", "Blank");
    return graph_api.wire(g, "x", "images", "y", "IMAGE");
}
static kiln_status itself(kiln_graph *g)
{
    graph_api.node(g, "x", "Decode");
    return graph_api.wire(g, "x", "images", "x", "IMAGE");
}
static kiln_status unknown_source(kiln_graph *g)
{
    graph_api.node(g, "x", "Decode");
    return graph_api.wire(g, "x", "images", "y", "IMAGE");
}
static kiln_status unknown_own(kiln_graph *g)
{
    graph_api.node(g, "x", "Decode");
    return graph_api.pass(g, "x", "images", "pictures");
}
static kiln_status unknown_node(kiln_graph *g) { return graph_api.set_int(g, "x", "width", 3); }
static kiln_status value_twice(kiln_graph *g)
{
    graph_api.node(g, "x", "Blank");
    graph_api.set_int(g, "x", "width", 32);
    return graph_api.set_int(g, "x", "width", 32);
}
static kiln_status not_finite(kiln_graph *g)
{
    graph_api.node(g, "x", "Blank");
    return graph_api.set_float(g, "x", "width", 1e308 * 10);
}
static kiln_status bad_value(kiln_graph *g)
{
    graph_api.node(g, "x", "Blank");
    graph_api.set_int(g, "x", "width", 3);
    graph_api.set_text(g, "x", "colour", "red");
    return graph_api.output(g, "IMAGE", "x", "IMAGE");
}
static kiln_status bad_wire(kiln_graph *g)
{
    graph_api.node(g, "n", "Number");
    graph_api.node(g, "x", "Decode");
    graph_api.wire(g, "x", "images", "n", "number");
    return graph_api.output(g, "IMAGE", "x", "IMAGE");
}

static void test_mistakes_of_expand_are_named(void)
{
#define OF "node 'c' (Chain): expand(): "
#define FAULT_OF "node 'c' (Chain): its plugin has a fault: "
#define INNER "node 'c/x' (Blank), which 'c' (Chain) expands into: "
    check_broken(no_output, 1, FAULT_OF "expand() does not say what output 'IMAGE' is");
    check_broken(other_output, 1, OF "gives an output 'MASK', which the node does not have");
    check_broken(output_twice, 1, OF "gives output 'IMAGE' twice");
    check_broken(output_of_nothing, 1, OF "output 'IMAGE' comes from 'x', which has not been added");
    check_broken(inner_output, 1,
                 FAULT_OF "output 'IMAGE' comes from 'x' (Blank), which has no output 'picture'; it has 0 IMAGE");
    check_broken(inner_type, 1,
                 FAULT_OF "output 'IMAGE' is IMAGE, but comes from 'x' (Number), whose output 'INT' is INT");
    check_broken(
        no_type, 1,
        "node 'c/x' (Blnk), which 'c' (Chain) expands into: no node type is called 'Blnk'; did you mean 'Blank'?");
    check_broken(same_name, 1, OF "two nodes are called 'x'; every name once");
    check_broken(bad_name, 1, OF "a node has no usable name ('x/y')");
    check_broken(later, 1, OF "node 'x' is wired to 'y', which was not added before it; add it first");
    check_broken(itself, 1, OF "node 'x' is wired to 'x', which was not added before it; add it first");
    check_broken(unknown_source, 1, OF "node 'x': input 'images' is wired to 'y', which has not been added");
    check_broken(unknown_own, 1,
                 OF "node 'x': input 'images' is given 'pictures', which is no input of the expanding node");
    check_broken(unknown_node, 1, OF "there is no node 'x' to give an input; add it first");
    check_broken(value_twice, 1, OF "node 'x': input 'width' is given twice");
    check_broken(not_finite, 1, OF "node 'x': input 'width' is given a number that is not finite");
    check_broken(bad_value, 2, INNER "input 'width': '3' is not a whole number from 16 to 16384");
    check_broken(bad_value, 2, INNER "has no input 'colour'");
    check_broken(bad_wire, 1,
                 "node 'c/x' (Decode), which 'c' (Chain) expands into: input 'images': 'c/n' (Number) has no output "
                 "'number'; it has 0 INT");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_inner_nodes_take_the_place), CASE(test_keys_are_those_of_the_nodes_written_out),
        CASE(test_nodes_expand_in_turn),       CASE(test_an_output_may_be_an_input),
        CASE(test_parameters_are_passed_on),   CASE(test_a_parameter_that_makes_nodes_is_a_value_in_pictures),
        CASE(test_a_list_goes_through),        CASE(test_inputs_are_checked_on_the_outer_node),
        CASE(test_circles_are_found),          CASE(test_depth_and_number_have_limits),
        CASE(test_a_name_within_is_taken),     CASE(test_mistakes_of_expand_are_named),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
