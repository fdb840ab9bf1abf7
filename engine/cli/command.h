/* command.h - the table of commands, and the options each declares. */
#ifndef KILN_CLI_COMMAND_H
#define KILN_CLI_COMMAND_H

#include <stddef.h>

/* Exit statuses, the same for every command. */
enum {
    EXIT_DONE = 0,
    EXIT_RUN_FAILED = 1,   /* it could not be done                          */
    EXIT_BAD_INPUT = 2,    /* workflow, arguments or files given are wrong  */
    EXIT_PARTLY = 3,       /* some branches failed, others were finished    */
    EXIT_INTERRUPTED = 130 /* Ctrl-C                                        */
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
    const char *operand[64]; /* what is no option */
    size_t n_operand;
    given given[256];
    size_t n_given;
    int help;
} arguments;

/* What a command's help shows. */
typedef struct {
    const char *usage, *about;
    const option *options;
    size_t n_options;
    const char *examples; /* lines */
} manual;

/* 0 after printing what is wrong (with the nearest option) to stderr. */
int arguments_read(arguments *a, const manual *m, int argc, char **argv);
const char *argument(const arguments *a, const char *name); /* its last value, "" for a flag, NULL when absent */
void manual_print(const manual *m);

/* A name below workflows/ that is not there is looked for among what kiln ships: *name then points to `path`. */
enum { SHIPPED_PATH_MAX = 4096 };
void take_shipped(const char **name, char path[SHIPPED_PATH_MAX]);

int cmd_run(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_graph(int argc, char **argv);
int cmd_plugins(int argc, char **argv);
int cmd_nodes(int argc, char **argv);
int cmd_samplers(int argc, char **argv);
int cmd_inspect(int argc, char **argv);
int cmd_check_plugin(int argc, char **argv);
int cmd_cache(int argc, char **argv);

#endif
