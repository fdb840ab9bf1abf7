/* graph.h - "kiln.graph/1": the nodes that a node with KILN_NODE_EXPANDS stands for.
 *
 *     static kiln_status expand(const kiln_call *c, kiln_graph *g)
 *     {
 *         const kiln_graph_api *b = c->host->ability(KILN_GRAPH_ABILITY);
 *         b->node(g, "decode", "VAEDecode");
 *         b->pass(g, "decode", "samples", "latent");        // what is wired to our own input `latent`
 *         b->pass(g, "decode", "vae", "vae");
 *         b->node(g, "half", "ImageScaleBy");
 *         b->wire(g, "half", "image", "decode", "IMAGE");
 *         b->set_text(g, "half", "upscale_method", "area");
 *         b->set_float(g, "half", "scale_by", 0.5);
 *         return b->output(g, "image", "half", "IMAGE");    // our own output `image`
 *     }
 *
 * The result takes the node's place when the workflow is checked: nodes are called OUTER/NAME in messages, events and
 * pictures, their keys say what they compute and not where they come from, and each is checked, kept and shared as if
 * it stood in the file. They may expand in turn, 16 levels deep; a workflow has 100,000 nodes at most.
 *
 * Names of nodes are [A-Za-z0-9_.+-]{1,128}. The first mistake is kept and later calls return its status, so the last
 * one's is enough to look at; the engine looks too. All functions are [run], on the thread of the call; texts are
 * copied.
 */
#ifndef KILN_GRAPH_H
#define KILN_GRAPH_H

#include "plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define KILN_GRAPH_ABILITY "kiln.graph/1"

typedef struct {
    uint32_t size;
    /* Adds a node of a type there is, of any plugin, with its parameters at their defaults. */
    kiln_status (*node)(kiln_graph *, const char *name, const char *type);
    /* Writes a parameter of a node added before. set_seed is for numbers from 2^63 on; set_text also for ENUM, NAME and
     * FILE. */
    kiln_status (*set_int)(kiln_graph *, const char *node, const char *input, int64_t value);
    kiln_status (*set_seed)(kiln_graph *, const char *node, const char *input, uint64_t value);
    kiln_status (*set_float)(kiln_graph *, const char *node, const char *input, double value);
    kiln_status (*set_bool)(kiln_graph *, const char *node, const char *input, int value);
    kiln_status (*set_text)(kiln_graph *, const char *node, const char *input, const char *value);
    /* Wires an input or a parameter of `node` to an output of `from`. Both were added before, `from` before `node`: so
     * there is no circle. Several wires to one input follow one another (KILN_PORT_LIST). */
    kiln_status (*wire)(kiln_graph *, const char *node, const char *input, const char *from, const char *output);
    /* Gives `input` of `node` what stands at the expanding node's own input or parameter `own`: all its wires, the
     * value that was written, or a parameter's default. An own input that is not wired gives nothing. */
    kiln_status (*pass)(kiln_graph *, const char *node, const char *input, const char *own);
    /* The expanding node's own output is this one. Every own output is given once. */
    kiln_status (*output)(kiln_graph *, const char *own, const char *node, const char *output);
    /* The expanding node's own output is what is wired to its own input `in`. */
    kiln_status (*output_passed)(kiln_graph *, const char *own, const char *in);
    /* How many wires the expanding node's own input has; 0 also for a name it has not. */
    uint32_t (*wires)(const kiln_graph *, const char *own);
} kiln_graph_api;

#ifdef __cplusplus
}
#endif
#endif
