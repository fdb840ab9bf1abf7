/* open_workflow.h - what `kiln run` and `kiln check` take to say which workflow, and opening it. */
#ifndef KILN_CLI_OPEN_WORKFLOW_H
#define KILN_CLI_OPEN_WORKFLOW_H

#include "cli/command.h"
#include "kiln/engine.h"

enum { SETTINGS_MAX = 200 };

#define SOURCE_OPTIONS                                                                                                 \
    {"--set", 0, "NAME=VALUE",                                                                                         \
     "set a parameter of the head, NODE.INPUT of any node, or INPUT where one node has it; the last of a name holds",  \
     1},                                                                                                               \
        {"--plugins", 0, "PATHS", "look for plugins here first (folders or files, ':' between)", 0},                   \
        {"--models", 0, "DIRS",                                                                                        \
         "look for models here first: folders, or an extra_model_paths.yaml (also KILN_MODELS)", 0},                   \
    {                                                                                                                  \
        "--input", 0, "DIRS", "look for input pictures here first (also KILN_INPUT)", 0                                \
    }

/* What a workflow is opened with; lives as long as the workflow. */
typedef struct {
    kiln_setting set[SETTINGS_MAX];
    const char *over[256];
    char shipped[SHIPPED_PATH_MAX];
    kiln_workflow_options from;
} workflow_arguments;

/* 1: there is something to read that may be a workflow. 0: said, with the nearest name. */
int workflow_is_there(const char *path);
/* *text is "NAME=VALUE". 0: said. */
int read_settings(const arguments *a, kiln_setting set[SETTINGS_MAX], uint32_t *n);
/* from.console, from.thorough and the like are the caller's. NULL: said (by *why, when console is 0), *status is the
 * command's. */
kiln_workflow *open_workflow(const arguments *a, const char *path, workflow_arguments *with, kiln_message *why,
                             int *status);

/* A fault or warning as kiln says it, "FILE:LINE:COLUMN: error: TEXT", as members of a JSON object: "file", "line",
 * "column", "severity", "text". Returns text that the caller frees with mem_free; NULL: no memory. */
char *fault_json(const char *line, int is_warning);

#endif
