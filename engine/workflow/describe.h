/* describe.h - a checked workflow as texts that go into its pictures. */
#ifndef KILN_WORKFLOW_DESCRIBE_H
#define KILN_WORKFLOW_DESCRIBE_H

#include "workflow/check.h"

/* ComfyUI's API-format JSON of what is executed: every parameter's value as it was resolved, wires as [node, number].
 * ASCII. Only nodes that `node` hangs on, or all needed ones when node is SOURCE_NONE. The caller frees with mem_free;
 * NULL: no memory. */
char *describe_prompt(const workflow *w, int32_t node);
/* The lines A1111-style readers know, for the picture that `node` writes:
 *   PROMPT \n Negative prompt: ... \n Steps: 20, Sampler: Euler, Schedule type: Normal, CFG scale: 7, Seed: 1, Size: 512x512, Model: x
 * found by walking from the node to the sampler that feeds it; "" when there is none. NULL: no memory. */
char *describe_parameters(const workflow *w, int32_t node);

#endif
