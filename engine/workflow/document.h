/* document.h - a workflow file as nodes and inputs, before their types are known.
 *
 * Three forms, recognised by their top level: the native one (nodes: ..., with an optional head kiln:, name:,
 * description:, params:, inputs:, outputs:, matrix:), ComfyUI's API-format JSON (a map of id -> {class_type, inputs}),
 * and what ComfyUI's editor saves (a list `nodes`), which is turned into the second (editor/editor.h). Faults are
 * collected, and reading goes on after each. Everything is allocated in the document's arena.
 */
#ifndef KILN_WORKFLOW_DOCUMENT_H
#define KILN_WORKFLOW_DOCUMENT_H

#include "workflow/yaml_tree.h"

enum {
    DOCUMENT_NODES_MAX = 100000,
    DOCUMENT_EDGES_MAX = 1000000,
    DOCUMENT_EXPANDED_MAX = 16 << 20 /* bytes that all ${references} may expand to */
};

/* Something wrong with a workflow, or (warning) something doubtful. */
typedef struct fault {
    struct fault *next;
    place at;
    int warning;
    const char *text; /* "node 'x' (Type): what is wrong; what would be right" */
} fault;

typedef struct {
    place at;
    const char *node;   /* name of the node it comes from     */
    const char *output; /* the output's name or number, as text */
} doc_wire;

typedef struct doc_input {
    const char *name;
    place at;       /* of the name  */
    place value_at; /* of the value */
    int is_wire;
    doc_wire *wires; /* one, or several for an input that takes a list */
    size_t n_wire;
    const char *text;   /* literal: after ${} substitution */
    const char *source; /* literal: before it, in terms of the root file's parameters; NULL: it had no ${references} */
    int quoted;
    int not_scalar;         /* a literal list or map, which no parameter takes */
    int here;               /* given on the command line: a relative path is of the current folder first */
    struct doc_input *part; /* [n_part] of a map of plain values: each as an input "NAME.KEY" (boxes.h) */
    size_t n_part;
} doc_input;

/* A node that was expanded: the one that its inner nodes are of. */
typedef struct doc_outer {
    const struct doc_outer *outer; /* that this one is itself a part of, or NULL */
    const char *name, *type;
    unsigned depth;
} doc_outer;

typedef struct {
    const char *name;
    place at;
    const char *type; /* class_type; NULL when it is missing */
    place type_at;
    const char *title;
    const char *where;       /* of an editor's file, for faults: " "Title" in subgraph "Name""; NULL: nothing to say */
    const yaml_node *models; /* of an editor's file: where its model files can be had, a list; or NULL               */
    doc_input *input;
    size_t n_input;
    const yaml_node *include; /* while reading: the entry, if it includes a file (include.h) */
    const doc_outer *part_of; /* the node that expanded into this one; NULL: it stands in a file */
    unsigned char stuck;      /* it would expand, but cannot: there has been a fault             */
    unsigned char folded;     /* a constant whose value went into another node's check           */
} doc_node;

typedef struct {
    const char *name;
    place at;
    const char *text;   /* the default, or the value of --set */
    const char *source; /* in an included file: `text` before its ${references} were replaced, as doc_input.source */
    int quoted, used, set, here; /* here: as doc_input */
    const char *help;
} workflow_param;

typedef struct {
    arena memory;
    const char *path;  /* as the user gave it */
    const char **file; /* the files read, by place.file; the first is path */
    size_t n_file, included_bytes;
    int included;                      /* while reading: this file is included by another */
    const struct include_chain *chain; /* while reading: this file and those that include it */
    const char *name;                  /* head's name, or NULL */
    int api_format;
    int is_json;         /* the file begins as JSON does */
    int from_editor;     /* ComfyUI's editor saved it: its prompts leave choices (dynamic_prompt.h) */
    int dynamic_prompts; /* the head says that they do */
    doc_node *node;
    size_t n_node;
    workflow_param *param;
    size_t n_param;
    doc_input *in_port, *out_port; /* the head's inputs: and outputs:, for files that include this one */
    size_t n_in_port, n_out_port;
    fault *faults;                  /* sorted by place once reading and checking are done */
    size_t n_fault, n_warning;      /* all of them; `faults` keeps the first 1,000 of each */
    size_t expanded;                /* bytes that ${references} expanded to so far */
    struct source_text *structural; /* sources of wires and of names of included files (describe_source.c) */
    const yaml_node *matrix;        /* the head's rows of a sweep, unread; NULL: none */
    place set_at;                   /* of settings: nowhere for --set, the place of `set:` in an include */
    const char *set_word;           /* "--set" or "`set`" */
    const char *const *set_source;  /* [setting]: as doc_input.source; NULL: none has references */
    unsigned char *set_taken;       /* [setting]: an editor's file had a place for it; NULL: it is no such file */
    int failed;                     /* memory ran out: the document is incomplete */
} document;

typedef struct source_text {
    struct source_text *next;
    const char *text;
} source_text;

/* One --set NAME=VALUE: a parameter of the head, NODE.INPUT, or INPUT where one node has it. */
typedef struct {
    const char *name, *value;
    const char *word; /* what messages call the option; NULL: document.set_word */
    int here;         /* as doc_input                                           */
    int drawn;        /* it takes the place of `random` (random_seed.h), and lives only as long as the reading */
} set_option;

typedef struct {
    const char *name; /* of the file, in messages */
    const char *data;
    size_t size;
    const set_option *set;
    size_t n_set;
    const struct catalog_view *catalog; /* by which a file of ComfyUI's editor is read; NULL: such a one is refused */
} document_source;

/* Parses a workflow's text. KILN_OK also when there are faults (check n_fault); an error only when nothing could be
 * read. */
kiln_status document_read(document *d, const document_source *from, error *e);
/* The same without a catalogue. */
kiln_status document_parse(document *d, const char *name, const char *data, size_t size, const set_option *set,
                           size_t n_set, error *e);
void document_free(document *d);

/* Adds a fault. `n` may be NULL: the message then names no node. */
void document_fault(document *d, place at, const doc_node *n, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void document_warn(document *d, place at, const doc_node *n, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void document_sort_faults(document *d);
/* 0: too many candidates or too many faults already to search for the nearest name, which is slow. */
/* Says that a value's source (doc_input.source) decides more than values: so it is one in pictures (describe.h). */
void document_note_structural(document *d, const char *source);
int document_may_suggest(const document *d, size_t n_candidates);
const char *document_file(const document *d, place at); /* the path of the file a place is in */
/* Calls line() for every fault, with "path:line:column: error: text". */
void document_print_faults(const document *d, void (*line)(void *arg, const char *text, int is_warning), void *arg);
void document_print_warnings(const document *d, void (*line)(void *arg, const char *text, int is_warning), void *arg);
/* Where the node's input of this name has its value or wire; the node's place where it is not written, or name NULL. */
place doc_node_place(const doc_node *n, const char *name);
doc_node *document_node(const document *d, const char *name);            /* NULL: none; linear */
workflow_param *document_param(document *d, const char *name, size_t n); /* the head's; NULL: none */
/* The parameter that "${name}" refers to; *stem: by "${name.stem}", a file name without folder and ending. */
workflow_param *document_reference(document *d, const char *name, size_t n, int *stem);

#endif
