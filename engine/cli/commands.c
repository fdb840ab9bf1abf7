/* commands.c - the table of commands. */
#include "cli/command.h"

const command commands[] = {
    {"run", "run a workflow file, or the workflow a picture carries", cmd_run},
    {"check", "report every fault of workflow files without running them", cmd_check},
    {"params", "list what --set can change in a workflow: names, defaults, help", cmd_params},
    {"graph", "draw a workflow's wiring", cmd_graph},
    {"convert", "write a workflow in kiln's own form, or in ComfyUI's API form", cmd_convert},
    {"nodes", "list the node types, or one with its inputs and parameters", cmd_nodes},
    {"types", "list the types of values, or one with what its values are made of", cmd_types},
    {"ops", "list the ops of tensor programs, or one with its formula and kernels", cmd_ops},
    {"samplers", "list the samplers, or one with its options", cmd_samplers},
    {"cache", "show and maintain the results kept between runs", cmd_cache},
    {"plugins", "list which plugins loaded, from where, and which did not and why", cmd_plugins},
    {"models", "list the models that workflows here can name: kind, size, family, place", cmd_models},
    {"inspect", "list the tensors of a model file or folder", cmd_inspect},
    {"quantize", "store a model's weights in fewer bits, as .gguf or .safetensors", cmd_quantize},
    {"check-plugin", "try to catch a plugin breaking the contract", cmd_check_plugin},
};
const size_t n_commands = sizeof commands / sizeof commands[0];
