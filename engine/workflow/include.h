/* include.h - a workflow file as a part of another: NAME: {include: FILE, inputs: {...}, set: {...}} among the nodes.
 *
 * The file's nodes are called NAME/node. Its head says what can be wired from outside: an entry of `inputs` names an
 * input of a node (or several), which the includer's wire or value replaces; an entry of `outputs` names the output
 * that the wire [NAME, name] comes from. `set` is --set for that file. FILE is relative to the including file. Limits:
 * 8 levels, 1,000 files and 64 MiB in all, and those of a document. Used by document.c only.
 */
#ifndef KILN_WORKFLOW_INCLUDE_H
#define KILN_WORKFLOW_INCLUDE_H

#include "workflow/document.h"

/* Enters the document's own file as the first. */
void include_root(document *d);
/* Called when the nodes and ports of a file are read: replaces entries by the nodes of the files they include, and
 * connects the wires. */
void include_files(document *d);

/* Provided by document.c. Reads a file's tree into an empty document. */
void document_read_included(document *d, const yaml_node *root, const set_option *set, size_t n_set);
/* A scalar with its ${references} replaced. *source: as doc_input.source; `source` NULL: the scalar decides more than a
 * value, such as which file is included. */
const char *document_expand(document *d, const doc_node *owner, const yaml_node *scalar, const char **source);

#endif
