/* settable.h - what --set and --over can change in a workflow: for `kiln params` and for completion. */
#ifndef KILN_CLI_SETTABLE_H
#define KILN_CLI_SETTABLE_H

#include "cli/command.h"
#include "run/job.h"

typedef struct {
    const char *name, *value;
    const kiln_param *row; /* NULL: it is not the whole of one input */
    const char *help;      /* or NULL */
} settable;

typedef void (*settable_fn)(void *arg, const settable *one);

/* The parameters of the head. */
void settable_params(const workflow *w, settable_fn fn, void *arg);
/* Every written input of every node, as NODE.INPUT; help is the node's title. */
void settable_inputs(const workflow *w, settable_fn fn, void *arg);

/* `kiln completions settings FILE [NAME]`. */
int complete_settings(const arguments *a, const char *file, const char *name);

#endif
