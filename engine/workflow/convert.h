/* convert.h - a document written anew: in kiln's form, to be read and changed by people, or in ComfyUI's API form. */
#ifndef KILN_WORKFLOW_CONVERT_H
#define KILN_WORKFLOW_CONVERT_H

#include "workflow/document.h"

#include "kiln/plugin.h"

/* The rows of the node types. */
typedef struct {
    const void *self;
    const kiln_node *(*find)(const void *self, const char *type); /* NULL: there is no such type */
} convert_rows;

/* YAML, each node with its title and place above it, and behind those that it takes something from. Outputs have their
 * names where the type is known. The caller frees with mem_free; NULL with a message: there is a value that no
 * parameter takes, or no memory. Parameters of the head stay parameters. */
char *convert_to_yaml(const document *d, const convert_rows *rows, error *e);
/* JSON, indented. Values of the head's parameters have become the nodes' own. Outputs have their numbers: NULL also
 * where a type is not known or has no such output. What the document leaves out is there with its default. */
char *convert_to_api(const document *d, const convert_rows *rows, error *e);

#endif
