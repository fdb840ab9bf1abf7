/* test_graph_mistakes.c - expanding nodes (kiln/graph.h): the first mistake stays what is said, whatever is called
 * after it; each mistake by name. */
#include "harness.h"

#include "param/subgraph.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const kiln_port in[] = {{.name = "images", .type = "IMAGE"}}, out[] = {{.name = "IMAGE", .type = "IMAGE"}};
static const kiln_param param[] = {{.name = "gain", .doc = "Help.", .type = KILN_P_FLOAT, .max = 1}};
static const kiln_node row = {
    .size = sizeof row, .type = "Expanding", KILN_ARRAY(in, in), KILN_ARRAY(out, out), KILN_ARRAY(param, param)};
static const uint32_t wires[] = {1};

typedef struct {
    kiln_graph g;
    arena memory;
    error e;
} graph;

static void begin(graph *g)
{
    memset(g, 0, sizeof *g);
    CHECK_EQ(subgraph_init(&g->g, &row, wires, &g->memory, &g->e), KILN_OK);
    CHECK_EQ(graph_api.node(&g->g, "a", "ImageInvert"), KILN_OK);
    CHECK_EQ(graph_api.node(&g->g, "b", "ImageInvert"), KILN_OK);
}

enum { CALLS = 13 };

/* A call that is wrong, with what is said of it. */
static kiln_status wrong(kiln_graph *g, int i, const char **says)
{
    static const char *const said[CALLS] = {"a node has no usable name ('a b')",
                                            "node 'c' has no usable type ('')",
                                            "two nodes are called 'a'",
                                            "no node 'z' to give an input",
                                            "an input has no usable name ('p q')",
                                            "a number that is not finite",
                                            "is given NULL for a text",
                                            "'z', which has not been added",
                                            "which was not added before it",
                                            "is no input of the expanding node",
                                            "gives an output 'MASK', which the node does not have",
                                            "output 'IMAGE' comes from 'z'",
                                            "output 'IMAGE' is given input 'masks'"};
    *says = said[i];
    switch (i) {
    case 0: return graph_api.node(g, "a b", "ImageInvert");
    case 1: return graph_api.node(g, "c", "");
    case 2: return graph_api.node(g, "a", "ImageInvert");
    case 3: return graph_api.set_int(g, "z", "width", 1);
    case 4: return graph_api.set_bool(g, "a", "p q", 1);
    case 5: return graph_api.set_float(g, "a", "scale", NAN);
    case 6: return graph_api.set_text(g, "a", "text", NULL);
    case 7: return graph_api.wire(g, "b", "image", "z", NULL);
    case 8: return graph_api.wire(g, "a", "image", "b", NULL);
    case 9: return graph_api.pass(g, "a", "image", "masks");
    case 10: return graph_api.output(g, "MASK", "a", NULL);
    case 11: return graph_api.output(g, "IMAGE", "z", NULL);
    default: return graph_api.output_passed(g, "IMAGE", "masks");
    }
}

static void test_each_mistake_is_said_and_the_first_stays(void)
{
    const char *says, *other;
    for (int first = 0; first < CALLS; first++)
        for (int then = 0; then < CALLS; then++) {
            graph g;
            begin(&g);
            CHECK_EQ(wrong(&g.g, first, &says), KILN_ERR_BUG);
            CHECK_MSG(strstr(g.e.message, says) != NULL, "wanted '%s', got '%s'", says, g.e.message);
            CHECK_EQ(wrong(&g.g, then, &other), KILN_ERR_BUG);
            CHECK_MSG(strstr(g.e.message, says) != NULL, "after '%s' it says '%s'", says, g.e.message);
            arena_free(&g.memory);
        }
}

/* What is right is refused too after a mistake, and adds nothing. */
static void test_nothing_is_added_after_a_mistake(void)
{
    const char *says;
    graph g;
    begin(&g);
    CHECK_EQ(wrong(&g.g, 0, &says), KILN_ERR_BUG);
    size_t nodes = g.g.n_node, inputs = g.g.n_input;
    CHECK_EQ(graph_api.node(&g.g, "c", "ImageInvert"), KILN_ERR_BUG);
    CHECK_EQ(graph_api.set_seed(&g.g, "a", "seed", 1), KILN_ERR_BUG);
    CHECK_EQ(graph_api.set_text(&g.g, "a", "text", "x"), KILN_ERR_BUG);
    CHECK_EQ(graph_api.wire(&g.g, "b", "image", "a", "IMAGE"), KILN_ERR_BUG);
    CHECK_EQ(graph_api.pass(&g.g, "a", "image", "images"), KILN_ERR_BUG);
    CHECK_EQ(graph_api.output(&g.g, "IMAGE", "b", "IMAGE"), KILN_ERR_BUG);
    CHECK_EQ(graph_api.output_passed(&g.g, "IMAGE", "images"), KILN_ERR_BUG);
    CHECK(g.g.n_node == nodes && g.g.n_input == inputs && !g.g.output[0].output);
    arena_free(&g.memory);
}

static void test_an_output_is_given_once(void)
{
    graph g;
    begin(&g);
    CHECK_EQ(graph_api.wires(&g.g, "images"), 1);
    CHECK_EQ(graph_api.wires(&g.g, "masks"), 0);
    CHECK_EQ(graph_api.pass(&g.g, "a", "image", "images"), KILN_OK);
    CHECK_EQ(graph_api.wire(&g.g, "b", "image", "a", "IMAGE"), KILN_OK);
    CHECK_EQ(graph_api.output(&g.g, "IMAGE", "b", "IMAGE"), KILN_OK);
    CHECK_EQ(graph_api.output_passed(&g.g, "IMAGE", "images"), KILN_ERR_BUG);
    CHECK_MSG(strstr(g.e.message, "gives output 'IMAGE' twice") != NULL, "%s", g.e.message);
    arena_free(&g.memory);
}

/* ---- a line a case ---- */

typedef struct {
    const char *says; /* NULL: it is allowed */
    enum { NODE, INT, FLOAT, TEXT, WIRE, PASS, OUTPUT, PASSED } call;
    const char *arg[4];
} line;

static kiln_status called(kiln_graph *g, const line *l)
{
    switch (l->call) {
    case NODE: return graph_api.node(g, l->arg[0], l->arg[1]);
    case INT: return graph_api.set_int(g, l->arg[0], l->arg[1], -3);
    case FLOAT: return graph_api.set_float(g, l->arg[0], l->arg[1], l->arg[2] ? 0.5 : INFINITY);
    case TEXT: return graph_api.set_text(g, l->arg[0], l->arg[1], l->arg[2]);
    case WIRE: return graph_api.wire(g, l->arg[0], l->arg[1], l->arg[2], l->arg[3]);
    case PASS: return graph_api.pass(g, l->arg[0], l->arg[1], l->arg[2]);
    case OUTPUT: return graph_api.output(g, l->arg[0], l->arg[1], l->arg[2]);
    default: return graph_api.output_passed(g, l->arg[0], l->arg[1]);
    }
}

static void test_names_that_are_not_given(void)
{
    static const line lines[] = {
        {"a node has no usable name ('')", NODE, {NULL, "ImageInvert"}},
        {"node 'c' has no usable type ('')", NODE, {"c", NULL}},
        {"there is no node '' to give an input", INT, {NULL, "x"}},
        {"node 'a': an input has no usable name ('')", INT, {"a", NULL}},
        {"node '': input '' is given a number that is not finite", FLOAT, {NULL, NULL}},
        {"there is no node '' to give an input", FLOAT, {NULL, "x", "a number"}},
        {"node '': input '' is given NULL for a text", TEXT, {NULL, NULL}},
        {"node 'b': input '' is wired to '', which has not been added", WIRE, {"b", NULL, NULL}},
        {"there is no node 'z' to give an input", WIRE, {"z", "image", "a"}},
        {"there is no node '' to give an input", WIRE, {NULL, "image", NULL}},
        {"node 'a' is wired to 'a', which was not added before it", WIRE, {"a", "image", "a"}},
        {"node 'b': an input has no usable name ('')", WIRE, {"b", NULL, "a"}},
        {"node '': input '' is given '', which is no input of the expanding node", PASS, {NULL, NULL, NULL}},
        {"there is no node '' to give an input", PASS, {NULL, NULL, "images"}},
        {"gives an output '', which the node does not have", OUTPUT, {NULL, "a"}},
        {"output 'IMAGE' comes from '', which has not been added", OUTPUT, {"IMAGE", NULL}},
        {"output 'IMAGE' is given input '', which the node does not have", PASSED, {"IMAGE", NULL}},
        {"gives an output '', which the node does not have", PASSED, {NULL, "images"}},
        {NULL, WIRE, {"b", "image", "a", NULL}},
        {NULL, OUTPUT, {"IMAGE", "a", NULL}},
        {NULL, PASSED, {"IMAGE", "images"}},
        {NULL, FLOAT, {"a", "x", "a number"}},
        {NULL, PASS, {"a", "gain", "gain"}}, /* a parameter of its own */
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        graph g;
        begin(&g);
        CHECK_EQ(called(&g.g, &lines[i]), lines[i].says ? KILN_ERR_BUG : KILN_OK);
        CHECK_MSG(!lines[i].says || strstr(g.e.message, lines[i].says), "line %zu: '%s', wanted '%s'", i, g.e.message,
                  lines[i].says);
        arena_free(&g.memory);
    }
}

static void test_an_input_is_given_once(void)
{
    static const struct {
        line first, then;
        int allowed;
    } pairs[] = {
        {{NULL, INT, {"b", "x"}}, {NULL, INT, {"b", "x"}}, 0},
        {{NULL, INT, {"b", "x"}}, {NULL, WIRE, {"b", "x", "a"}}, 0},
        {{NULL, WIRE, {"b", "x", "a"}}, {NULL, TEXT, {"b", "x", "t"}}, 0},
        {{NULL, PASS, {"b", "x", "images"}}, {NULL, INT, {"b", "x"}}, 0},
        {{NULL, WIRE, {"b", "x", "a"}}, {NULL, WIRE, {"b", "x", "a", "IMAGE"}}, 1}, /* an input of several wires */
        {{NULL, WIRE, {"b", "x", "a"}}, {NULL, PASS, {"b", "x", "images"}}, 1},
        {{NULL, INT, {"b", "x"}}, {NULL, INT, {"b", "y"}}, 1},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        graph g;
        begin(&g);
        CHECK_EQ(called(&g.g, &pairs[i].first), KILN_OK);
        CHECK_EQ(called(&g.g, &pairs[i].then), pairs[i].allowed ? KILN_OK : KILN_ERR_BUG);
        CHECK_MSG(pairs[i].allowed || strstr(g.e.message, "node 'b': input 'x' is given twice"), "%zu: %s", i,
                  g.e.message);
        arena_free(&g.memory);
    }
}

static void test_limits(void)
{
    static const uint32_t two[] = {2};
    char name[32];
    graph g;
    begin(&g);
    for (int i = 2; i < SUBGRAPH_NODES_MAX; i++) {
        snprintf(name, sizeof name, "n%d", i);
        g.g.newest->older = NULL; /* a search for the name takes long */
        if (!CHECK_EQ(graph_api.node(&g.g, name, "ImageInvert"), KILN_OK)) break;
    }
    CHECK_EQ(graph_api.node(&g.g, "last", "ImageInvert"), KILN_ERR_BUG);
    CHECK_MSG(strstr(g.e.message, "more than 10000 nodes"), "%s", g.e.message);
    arena_free(&g.memory);
    begin(&g);
    g.g.n_input = SUBGRAPH_INPUTS_MAX - 1;
    CHECK_EQ(graph_api.set_bool(&g.g, "a", "x", 0), KILN_OK);
    CHECK_EQ(graph_api.set_bool(&g.g, "a", "y", 1), KILN_ERR_BUG);
    CHECK_MSG(strstr(g.e.message, "more than 100000 inputs"), "%s", g.e.message);
    arena_free(&g.memory);
    begin(&g);
    g.g.wires = two;
    CHECK_EQ(graph_api.output_passed(&g.g, "IMAGE", "images"), KILN_ERR_BUG);
    CHECK_MSG(strstr(g.e.message, "input 'images', which has 2 wires and not one"), "%s", g.e.message);
    arena_free(&g.memory);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_each_mistake_is_said_and_the_first_stays),
        CASE(test_nothing_is_added_after_a_mistake),
        CASE(test_an_output_is_given_once),
        CASE(test_names_that_are_not_given),
        CASE(test_an_input_is_given_once),
        CASE(test_limits),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
