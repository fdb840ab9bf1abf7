/* editor.h - a workflow as ComfyUI's editor saves it, turned into the API form, so that one reader and one checker do
 * for both.
 *
 *     editor_file.c     the file as it is: graphs of nodes and links
 *     editor_widgets.c  which parameter each of a node's values belongs to, by the rows of the node types
 *     editor_scope.c    instances of subgraphs, and the values they have of their own
 *     editor_wires.c    what an input is joined to, through reroutes, bypassed nodes, subgraphs
 *     editor_made.c     the nodes of the API form, and which of them go with a muted one
 *     editor_unknown.c  node types and model files that there are not
 *
 * Left out: what the editor does when it queues a prompt, such as choosing one of {a|b} or replacing %tokens%.
 */
#ifndef KILN_WORKFLOW_EDITOR_H
#define KILN_WORKFLOW_EDITOR_H

#include "workflow/document.h"

/* What the API form has no place for; by node. */
typedef struct {
    const char *where;       /* " "Title" in subgraph "Name"" */
    const yaml_node *models; /* properties.models, or NULL    */
} editor_note;

int editor_is_saved(const yaml_node *root);
/* The tree in API form, with the places of the file; (*notes)[i] is about its i-th node. In subgraphs a node is called
 * OUTER:INNER. Settings of an instance's promoted widgets are taken over here (d->set_taken). NULL after faults, or
 * without memory (d->failed). */
const yaml_node *editor_to_api(document *d, const yaml_node *root, const document_source *from,
                               const editor_note **notes);

#endif
