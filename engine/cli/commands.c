/* commands.c - the table of commands. */
#include "cli/command.h"

const command commands[] = {
    {"run", "run a workflow file, or the workflow a picture carries", cmd_run, &manual_run},
    {"check", "report every fault of workflow files without running them", cmd_check, &manual_check},
    {"params", "list what --set can change in a workflow", cmd_params, &manual_params},
    {"graph", "draw a workflow's wiring", cmd_graph, &manual_graph},
    {"convert", "write a workflow in kiln's own form, or in ComfyUI's API form", cmd_convert, &manual_convert},
    {"nodes", "list the node types, or one with its inputs and parameters", cmd_nodes, &manual_nodes},
    {"types", "list the types of values, or one with what it is made of", cmd_types, &manual_types},
    {"ops", "list the ops of tensor programs, or one with its formula", cmd_ops, &manual_ops},
    {"samplers", "list the samplers, or one with its options", cmd_samplers, &manual_samplers},
    {"cache", "show and maintain the results kept between runs", cmd_cache, &manual_cache},
    {"plugin", "begin, check, install and look after plugins", cmd_plugin, &manual_plugin},
    {"plugins", "list which plugins loaded, and which did not and why", cmd_plugins, &manual_plugins},
    {"models", "list the models that workflows here can name", cmd_models, &manual_models},
    {"inspect", "say what is in a model file or folder", cmd_inspect, &manual_inspect},
    {"quantize", "store a model's weights in fewer bits", cmd_quantize, &manual_quantize},
    {"check-plugin", "try to catch a plugin breaking the contract", cmd_check_plugin, &manual_check_plugin},
    {"completions", "print what makes a shell complete kiln's words", cmd_completions, &manual_completions},
    {"manual", "print the man page of kiln or of one command", cmd_manual, &manual_manual},
};
const size_t n_commands = sizeof commands / sizeof commands[0];

const char *const exit_statuses = "Exit status: 0 done, 1 the run failed, 2 the workflow or the arguments are wrong, "
                                  "3 some branches failed and others were finished, 130 interrupted.";
