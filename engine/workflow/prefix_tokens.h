/* prefix_tokens.h - what the names of results may refer to, in every parameter called `filename_prefix`:
 *
 *     %NODE.INPUT%          the input's value; NODE by its name, its title, or its type if one node has that
 *     %NODE.INPUT.stem%     of a file: its name without folder and ending
 *     %date:yyyy-MM-dd%     the time when the workflow is read: yyyy yy MM M dd d hh h mm m ss s
 *
 * What a file name cannot hold becomes "_", as in ComfyUI. Other %words% are the node's own.
 */
#ifndef KILN_WORKFLOW_PREFIX_TOKENS_H
#define KILN_WORKFLOW_PREFIX_TOKENS_H

#include "workflow/check.h"

/* Of a checked workflow without faults. What cannot be replaced is a fault. */
void prefix_tokens_replace(workflow *w);

#endif
