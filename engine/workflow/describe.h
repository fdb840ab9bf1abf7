/* describe.h - a checked workflow as texts that go into its pictures. */
#ifndef KILN_WORKFLOW_DESCRIBE_H
#define KILN_WORKFLOW_DESCRIBE_H

#include "base/str.h"
#include "workflow/check.h"

/* ComfyUI's API-format JSON of what is executed: every parameter's value as it was resolved, wires as [node, number].
 * ASCII. Only nodes that `node` depends on, or all needed ones when node is SOURCE_NONE. The caller frees with
 * mem_free; NULL: no memory. */
char *describe_prompt(const workflow *w, int32_t node);
/* The lines A1111-style readers know, for the picture that `node` writes:
 *   PROMPT \n Negative prompt: ... \n Steps: 20, Sampler: Euler, Schedule type: Normal, CFG scale: 7, Seed: 1, Size:
 * 512x512, Model: x found by walking from the node to the sampler that feeds it; "" when there is none. NULL: no
 * memory. */
char *describe_parameters(const workflow *w, int32_t node);
/* kiln's own form, as JSON in ASCII, of what is executed: the head's `params` with the values they had, and the nodes
 * with their ${references}, so that --set reaches in a picture what it reached in the file. Included files stand in it,
 * names of files are as the workflow has them. A parameter that decides more than values (which node is wired, which
 * file is included) has become its value and is no parameter any more. "" where there are no such parameters: then
 * describe_prompt says as much. NULL: no memory. describe_source.c. */
char *describe_source(const workflow *w, int32_t node);

/* ---- for the three above ---- */

/* The value that was resolved; json: with the quotes JSON wants. */
void describe_value(str *s, const graph_node *g, const kiln_param *p, int json);
/* What the document has for an input that is not wired: a file's name and not the path it was found at. NULL: nothing.
 */
const char *describe_literal(const graph_node *g, const char *name);
/* Calls fn(arg, name, from, n) for each wired input of the node as the file names it: `inputs.input0` of a list input
 * is an input of its own, and what a lazy input is wired to is there also where it is not wanted. */
void describe_wires(const graph_node *g, void (*fn)(void *arg, const char *name, const source *from, size_t n),
                    void *arg);
/* wanted[w->n]: 1 for `node` and what it depends on; for SOURCE_NONE what any output depends on. */
void describe_mark(const workflow *w, int32_t node, unsigned char *wanted);

#endif
