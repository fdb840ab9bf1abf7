/* document.h - a workflow file as nodes and inputs, before anyone knows what the node types are.
 *
 * Two forms, told apart by what is at the top: the native one (nodes: ..., with an optional head kiln:, name:,
 * description:, params:, inputs:, outputs:, matrix:) and ComfyUI's API-format JSON (a map of id -> {class_type,
 * inputs}). Faults are gathered, not thrown: reading goes on after each. Everything lives in the document's arena.
 */
#ifndef KILN_WORKFLOW_DOCUMENT_H
#define KILN_WORKFLOW_DOCUMENT_H

#include "workflow/yaml_tree.h"

enum {
    DOCUMENT_NODES_MAX = 100000,
    DOCUMENT_EDGES_MAX = 1000000,
    DOCUMENT_EXPANDED_MAX = 16 << 20 /* bytes that ${references} may make in all */
};

/* One thing wrong with a workflow, or (warning) odd about it. */
typedef struct fault {
    struct fault *next;
    place at;
    int warning;
    const char *text; /* "node 'x' (Type): what is wrong; what would be right" */
} fault;

typedef struct {
    place at;
    const char *node;   /* where the wire comes from      */
    const char *output; /* output's name or number, as text */
} doc_wire;

typedef struct {
    const char *name;
    place at;       /* of the name  */
    place value_at; /* of the value */
    int is_wire;
    doc_wire *wires; /* one, or several for an input that takes a list */
    size_t n_wire;
    const char *text;   /* literal: after ${} substitution */
    const char *source; /* literal: before it, as a text of the root's parameters; NULL: there were no ${references} */
    int quoted;
    int not_scalar; /* literal list or map: no parameter takes one */
} doc_input;

typedef struct {
    const char *name;
    place at;
    const char *type; /* class_type; NULL when it is missing */
    place type_at;
    const char *title;
    doc_input *input;
    size_t n_input;
    const yaml_node *include; /* while reading: the entry, when it takes another file (include.h) */
} doc_node;

typedef struct {
    const char *name;
    place at;
    const char *text;   /* default or what --set gave */
    const char *source; /* of an included file: `text` before its ${references} were replaced (doc_input.source); NULL:
                           there were none */
    int quoted, used, set;
    const char *help;
} workflow_param;

typedef struct {
    arena memory;
    const char *path;  /* as the user gave it */
    const char **file; /* place.file: the files read, the first is path */
    size_t n_file, included_bytes;
    int included;                      /* while reading: a part of another file */
    const struct include_chain *chain; /* while reading: the file that is read and those that include it */
    const char *name;                  /* head's name, or NULL */
    int api_format;
    doc_node *node;
    size_t n_node;
    workflow_param *param;
    size_t n_param;
    doc_input *in_port,
        *out_port; /* the head's inputs: and outputs: for who includes the file; wires say node and input, or output */
    size_t n_in_port, n_out_port;
    fault *faults;             /* sorted by place once reading and checking are done */
    size_t n_fault, n_warning; /* how many there are; `faults` keeps the first 1,000 of each */
    size_t expanded;           /* bytes made by ${references} so far                        */
    struct source_text
        *structural; /* sources that decide more than a value: wires, names of included files (describe_source.c) */
    const yaml_node *matrix;       /* the head's rows of a sweep, as they stand; NULL: none */
    place set_at;                  /* where settings come from: nowhere for --set, the place of `set:` in an include */
    const char *set_word;          /* "--set" or "`set`" */
    const char *const *set_source; /* by setting: as doc_input.source; NULL: all are plain */
    int failed;                    /* memory ran out: nothing else is to be believed */
} document;

typedef struct source_text {
    struct source_text *next;
    const char *text;
} source_text;

/* One --set NAME=VALUE: a parameter of the head, or NODE.INPUT. */
typedef struct {
    const char *name, *value;
} set_option;

/* Reads a workflow's text; `name` is what messages call it. KILN_OK also when there are faults (look at n_fault); an
 * error only when nothing could be read. */
kiln_status document_parse(document *d, const char *name, const char *data, size_t size, const set_option *set,
                           size_t n_set, error *e);
void document_free(document *d);

/* Adds a fault. `n` may be NULL: the message then names no node. */
void document_fault(document *d, place at, const doc_node *n, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void document_warn(document *d, place at, const doc_node *n, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void document_sort_faults(document *d);
/* Whether looking for the nearest right name is still worth it: it costs much, and after many faults nobody reads it.
 */
int document_may_suggest(const document *d, size_t n_candidates);
const char *document_file(const document *d, place at); /* the path of the file a place is in */
/* Every fault as "path:line:column: error: text", one a line. */
void document_print_faults(const document *d, void (*line)(void *arg, const char *text, int is_warning), void *arg);
void document_print_warnings(const document *d, void (*line)(void *arg, const char *text, int is_warning), void *arg);
doc_node *document_node(const document *d, const char *name); /* NULL: none; linear */

#endif
