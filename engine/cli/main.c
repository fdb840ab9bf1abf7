/* main.c - the kiln command: finds the subcommand in the table and runs it. */
#include "base/str.h"
#include "cli/command.h"
#include "plugin/crash_report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *command_name(void *arg, size_t i) { return (void)arg, commands[i].name; }

static int help(FILE *to)
{
    fprintf(to, "kiln %s - runs diffusion workflows from files, without a server\n\nusage: kiln COMMAND [options]\n\ncommands:\n", KILN_VERSION);
    for (size_t i = 0; i < n_commands; i++) fprintf(to, "  %-14s %s\n", commands[i].name, commands[i].summary);
    fprintf(to, "\n`kiln COMMAND --help` tells more. Exit status: 0 done, 1 the run failed, 2 the workflow or the\n"
                "arguments are wrong, 3 some branches failed and others were finished, 130 interrupted.\n");
    return to == stdout ? EXIT_DONE : EXIT_BAD_INPUT;
}

/* A process may be started with 0, 1 or 2 closed: the next files opened would be taken for them. */
static int open_standard_streams(void)
{
    int fd;
    do fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= 2);
    if (fd > 2) close(fd);
    return fd > 2;
}

/* What was printed and could not be written is not passed over in silence. */
static int close_output(int status)
{
    int lost = ferror(stdout);
    errno = 0;
    if (fflush(stdout) == 0 && !lost) return status;
    if (errno == EPIPE) return status; /* the reader has had enough */
    fprintf(stderr, "kiln: error: what was printed could not all be written: %s\n", errno ? strerror(errno) : "an earlier write failed");
    return status == EXIT_DONE ? EXIT_RUN_FAILED : status;
}

static int run_command(int argc, char **argv)
{
    if (argc < 2) return help(stderr);
    const char *name = argv[1];
    int is_version = strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0, is_help = strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0;
    if ((is_version && argc > 2) || (is_help && argc > 3)) return fprintf(stderr, "kiln: %s: what is '%s'?\n", name, argv[is_version ? 2 : 3]), EXIT_BAD_INPUT;
    if (is_version) return printf("kiln %s\n", KILN_VERSION) < 0;
    if (is_help && argc == 2) return help(stdout);
    if (is_help) name = argv[2];
    char *manual_of[] = {argv[is_help ? 2 : 1], "--help"};
    for (size_t i = 0; i < n_commands; i++)
        if (strcmp(commands[i].name, name) == 0) return is_help ? commands[i].run(2, manual_of) : commands[i].run(argc - 1, argv + 1);
    const char *near = nearest_name(name, command_name, n_commands, NULL);
    fprintf(stderr, "kiln: no command is called '%s'%s%s%s\n", name, near ? "; did you mean '" : "; see `kiln help`", near ? near : "", near ? "'?" : "");
    return EXIT_BAD_INPUT;
}

int main(int argc, char **argv)
{
    if (!open_standard_streams()) return EXIT_RUN_FAILED;
    crash_report_begin();
    int status = close_output(run_command(argc, argv));
    crash_report_end();
    return status;
}
