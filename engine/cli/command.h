/* command.h - the table of commands, and the options that each declares. */
#ifndef KILN_CLI_COMMAND_H
#define KILN_CLI_COMMAND_H

#include <stddef.h>

/* Exit statuses, the same for every command. */
enum {
    EXIT_DONE = 0,
    EXIT_RUN_FAILED = 1,   /* it could not be done                             */
    EXIT_BAD_INPUT = 2,    /* the workflow, arguments or input files are wrong */
    EXIT_PARTLY = 3,       /* some branches failed, others were finished       */
    EXIT_INTERRUPTED = 130 /* Ctrl-C                                           */
};

typedef struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv); /* argv[0] is the command's name */
} command;

extern const command commands[];
extern const size_t n_commands;

/* One option of a command: "--out DIR". */
typedef struct {
    const char *name;  /* "--out"                     */
    char letter;       /* 'v' for -v, or 0            */
    const char *value; /* "DIR"; NULL: takes no value */
    const char *help;
    int many; /* may be given several times  */
} option;

typedef struct {
    const option *option;
    const char *value;
} given;

typedef struct {
    const char *operand[64]; /* arguments that are not options */
    size_t n_operand;
    given given[256];
    size_t n_given;
    int help;
} arguments;

/* What a command takes, and what its help shows. */
typedef struct {
    const char *usage, *about;
    const option *options;
    size_t n_options;
    const char *examples; /* lines */
} manual;

/* 0: something is wrong, and was printed to stderr with the nearest option. */
int arguments_read(arguments *a, const manual *m, int argc, char **argv);
/* The last value given for an option; "" for a flag, NULL when it was not given. */
const char *argument(const arguments *a, const char *name);
void manual_print(const manual *m);

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
int cmd_plugins(int argc, char **argv);
int cmd_nodes(int argc, char **argv);
int cmd_types(int argc, char **argv);
int cmd_ops(int argc, char **argv);
int cmd_samplers(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_quantize(int argc, char **argv);
int cmd_check_plugin(int argc, char **argv);
int cmd_cache(int argc, char **argv);

#endif
