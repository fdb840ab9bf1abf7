/* test_graph_mistakes.c - expanding nodes (kiln/graph.h): the first mistake stays what is said, whatever is called
 * after it; each mistake by name. */
#include "harness.h"

#include "param/subgraph.h"

#include <math.h>
#include <string.h>

static const kiln_port in[] = {{.name = "images", .type = "IMAGE"}}, out[] = {{.name = "IMAGE", .type = "IMAGE"}};
static const kiln_node row = {.size = sizeof row, .type = "Expanding", KILN_ARRAY(in, in), KILN_ARRAY(out, out)};
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

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        CASE(test_each_mistake_is_said_and_the_first_stays),
        CASE(test_nothing_is_added_after_a_mistake),
        CASE(test_an_output_is_given_once),
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
