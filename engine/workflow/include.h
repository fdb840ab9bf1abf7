/* include.h - a workflow file as a part of another: NAME: {include: FILE, inputs: {...}, set: {...}} among the nodes.
 *
 * The file's nodes become NAME/node. Its head says what may be wired from outside: `inputs` names an input of a node
 * (or several) that the includer's wire or value replaces, `outputs` names an output that [NAME, name] stands for.
 * `set` is --set for that file. FILE is relative to the file that includes it. Limits: 8 levels, 1,000 files and 64 MiB
 * in all, and the document's own.
 *
 * For document.c alone.
 */
#ifndef KILN_WORKFLOW_INCLUDE_H
#define KILN_WORKFLOW_INCLUDE_H

#include "workflow/document.h"

/* The document's own file becomes its first. */
void include_root(document *d);
/* After the nodes and ports of a file: puts the nodes of what it includes in the place of the entries, and ties the
 * wires. */
void include_files(document *d);

/* What document.c does for it: reads a file's tree into an empty document; a scalar with its ${references} replaced,
 * and as doc_input.source; NULL: nobody can say it anew, since it decides what there is. */
void document_read_included(document *d, const yaml_node *root, const set_option *set, size_t n_set);
const char *document_expand(document *d, const doc_node *owner, const yaml_node *scalar, const char **source);

#endif
