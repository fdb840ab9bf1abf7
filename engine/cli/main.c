/* main.c - the kiln command: finds the subcommand in the table and runs it. */
#include "base/file.h"
#include "base/names.h"
#include "base/print.h"
#include "base/str.h"
#include "cli/command.h"
#include "plugin/crash_report.h"
#include "run/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char *command_name(void *arg, size_t i) { return (void)arg, commands[i].name; }

static int help(FILE *to)
{
    print_text(to,
               "kiln %s - runs diffusion workflows from files, without a server\n\nusage: kiln COMMAND "
               "[options]\n\ncommands:\n",
               KILN_VERSION);
    for (size_t i = 0; i < n_commands; i++) {
        print_text(to, "  %-14s ", commands[i].name);
        text_fill(to, commands[i].summary, 17, 17);
    }
    print_text(to, "\n`kiln COMMAND --help` tells more. ");
    text_fill(to, exit_statuses, 34, 0);
    return to == stdout ? EXIT_DONE : EXIT_BAD_INPUT;
}

/* A process may be started with descriptor 0, 1 or 2 closed; then the next file opened would become standard output. */
static int open_standard_streams(void)
{
    int fd;
    do fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= 2);
    if (fd > 2) close(fd);
    return fd > 2;
}

/* 1: standard output is a pipe or socket whose reader has closed it. */
static int reader_is_gone(void)
{
    struct pollfd p = {.fd = print_descriptor(), .events = POLLOUT};
    return poll(&p, 1, 0) == 1 && (p.revents & (POLLERR | POLLHUP)) != 0;
}

/* Reports output that could not be written, unless its reader is gone. */
static int close_output(int status)
{
    int earlier = print_lost() || ferror(stdout);
    if (print_flush(stdout) == 0 && !earlier) return status;
    if (print_lost() == EPIPE || reader_is_gone()) return status;
    print_text(stderr, "kiln: error: what was printed could not all be written: %s\n",
               print_lost() ? strerror(print_lost()) : "an earlier write failed");
    return status == EXIT_DONE ? EXIT_RUN_FAILED : status;
}

static int run_command(int argc, char **argv)
{
    if (argc < 2) return help(stderr);
    const char *name = argv[1];
    int is_version = strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0,
        is_help = strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0;
    if ((is_version && argc > 2) || (is_help && argc > 3))
        return print_text(stderr, "kiln: %s: what is '%s'?\n", name, argv[is_version ? 2 : 3]), EXIT_BAD_INPUT;
    if (is_version) return print_text(stdout, "kiln %s\n", KILN_VERSION) < 0;
    if (is_help && argc == 2) return help(stdout);
    if (is_help) name = argv[2];
    char *manual_of[] = {argv[is_help ? 2 : 1], "--help"};
    for (size_t i = 0; i < n_commands; i++)
        if (strcmp(commands[i].name, name) == 0)
            return is_help ? commands[i].run(2, manual_of) : commands[i].run(argc - 1, argv + 1);
    if (file_exists(name)) {
        print_text(stderr, "kiln: '%s' is a file and no command; `kiln run %s` runs a workflow\n", name, name);
        return EXIT_BAD_INPUT;
    }
    const char *near = nearest_name(name, command_name, n_commands, NULL);
    print_text(stderr, "kiln: no command is called '%s'%s%s%s\n", name, near ? "; did you mean '" : "; see `kiln help`",
               near ? near : "", near ? "'?" : "");
    return EXIT_BAD_INPUT;
}

/* glibc reserves 64 MB of address space per thread for malloc. Where address space is limited (ulimit -v), threads
 * share one arena. */
static void share_the_heap(void)
{
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY) mallopt(M_ARENA_MAX, 1);
}

/* SIGPIPE and SIGXFSZ are ignored: a closed pipe and a limit on file sizes (ulimit -f) make the write fail, which is
 * reported with the file's name. */
int main(int argc, char **argv)
{
    share_the_heap();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (!open_standard_streams()) return EXIT_RUN_FAILED;
    crash_report_begin();
    int status = close_output(run_command(argc, argv));
    supervisor_finished(status);
    crash_report_end();
    return status;
}
