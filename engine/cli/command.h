/* command.h - the table of commands, and the options that each declares. */
#ifndef KILN_CLI_COMMAND_H
#define KILN_CLI_COMMAND_H

#include <stddef.h>
#include <stdio.h>

/* Exit statuses, the same for every command. */
enum {
    EXIT_DONE = 0,
    EXIT_RUN_FAILED = 1,   /* it could not be done                             */
    EXIT_BAD_INPUT = 2,    /* the workflow, arguments or input files are wrong */
    EXIT_PARTLY = 3,       /* some branches failed, others were finished       */
    EXIT_INTERRUPTED = 130 /* Ctrl-C                                           */
};

/* One option of a command: "--out DIR". */
typedef struct {
    const char *name;  /* "--out"                                                                              */
    char letter;       /* 'v' for -v, or 0                                                                     */
    const char *value; /* "DIR"; "a|b|c": one of these; NULL: takes no value. Completions know FILE and folders */
    const char *help;
    int many; /* may be given several times */
} option;

typedef struct {
    const option *option;
    const char *value;
    int by_config; /* the configuration file has it, and not the command line */
} given;

typedef struct {
    const char *operand[64]; /* arguments that are not options */
    size_t n_operand;
    given given[256];
    size_t n_given;
    int help;
} arguments;

/* What an operand is: what completions offer. */
typedef enum { OPERAND_NONE, OPERAND_WORKFLOW, OPERAND_FILE, OPERAND_NAME, OPERAND_WORD } operand_kind;

/* What a command takes: its help, its man page and its completions are made of this. */
typedef struct {
    const char *usage;
    const char *about; /* plain lines are filled; those with two blanks somewhere stand as they are, in 80 columns */
    const option *options;
    size_t n_options;
    const char *examples; /* lines, two blanks before each; " \\" at the end goes on in the next */
    operand_kind operand;
    const char *words; /* OPERAND_WORD: which, a blank between */
} manual;

typedef struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
    const manual *manual;
} command;

extern const command commands[];
extern const size_t n_commands;
extern const char *const exit_statuses; /* one sentence */

/* 0: something is wrong, and was printed to stderr with the nearest option. */
int arguments_read(arguments *a, const manual *m, int argc, char **argv);
/* The last value given for an option; "" for a flag, NULL when it was not given. */
const char *argument(const arguments *a, const char *name);
/* 1: it was given on the command line. */
int argument_typed(const arguments *a, const char *name);
/* Forgets what the configuration file says of it. */
void argument_drop(arguments *a, const char *name);
/* What `kiln COMMAND --help` prints. */
void manual_print(const manual *m);
/* The man page in troff, of kiln itself for NULL. */
void manual_print_page(const command *c);
/* Text filled to 80 columns, from column `at` on, with `indent` blanks before further lines. */
void text_fill(FILE *to, const char *text, int at, int indent);

/* When *name is a path below workflows/ that does not exist, but kiln ships that file: writes the shipped file's path
 * to `path`, and points *name there. */
enum { SHIPPED_PATH_MAX = 4096 };
void take_shipped(const char **name, char path[SHIPPED_PATH_MAX]);

int cmd_run(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_params(int argc, char **argv);
int cmd_models(int argc, char **argv);
int cmd_graph(int argc, char **argv);
int cmd_convert(int argc, char **argv);
int cmd_plugin(int argc, char **argv);
int cmd_plugins(int argc, char **argv);
int cmd_nodes(int argc, char **argv);
int cmd_types(int argc, char **argv);
int cmd_ops(int argc, char **argv);
int cmd_samplers(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_quantize(int argc, char **argv);
int cmd_check_plugin(int argc, char **argv);
int cmd_cache(int argc, char **argv);
int cmd_completions(int argc, char **argv);
int cmd_manual(int argc, char **argv);

extern const manual manual_run, manual_check, manual_params, manual_models, manual_graph, manual_convert, manual_plugin,
    manual_plugins, manual_nodes, manual_types, manual_ops, manual_samplers, manual_inspect, manual_quantize,
    manual_check_plugin, manual_cache, manual_completions, manual_manual;

#endif
