/* check_elsewhere.c - see check_elsewhere.h. */
#include "cli/check_elsewhere.h"

#include "base/arena.h"
#include "base/print.h"
#include "plugin/process_state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWER_SECONDS = 5, LINE_MAX_BYTES = 256 };
static const char ASKED[] = "KILN_CHECK_ELSEWHERE";

int elsewhere_is_asked(void)
{
    static int asked = -1;
    if (asked < 0) asked = getenv(ASKED) != NULL, unsetenv(ASKED);
    return asked;
}

/* ---- who is asked ---- */

/* In a child process: the node may crash, or wait. */
static void answer_one(const check_context *of, const node_info *n)
{
    char hex[33];
    digest made;
    int fd[2];
    if (pipe(fd) != 0) return;
    pid_t pid = fork();
    if (pid == 0) {
        static const int deaths[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
        for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) signal(deaths[i], SIG_DFL);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        alarm(ANSWER_SECONDS);
        _exit(check_node_made(of, n, &made) && write(fd[1], &made, sizeof made) == sizeof made ? 0 : 1);
    }
    close(fd[1]);
    if (pid > 0 && read(fd[0], &made, sizeof made) == sizeof made)
        print_text(stdout, "made %s %s\n", digest_hex(made, hex), n->node->type);
    close(fd[0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
}

void elsewhere_answer(const check_context *of)
{
    char why[256];
    process_state_keep_output(); /* what the plugin prints is no answer */
    for (size_t i = 0; i < of->plugin->n_node; i++) {
        const node_info *n = catalog_find(of->plugins, of->plugin->table->node[i]->type);
        if (!n || n->plugin != of->plugin || n->node->expand || !(n->node->flags & KILN_NODE_PURE) ||
            check_node_needs(of, n->node, why))
            continue;
        answer_one(of, n);
    }
    print_flush(stdout);
}

/* ---- who asks ---- */

static void take_line(check_elsewhere *e, const char *line)
{
    unsigned long long high, low;
    char type[160];
    if (e->n < ELSEWHERE_MAX && sscanf(line, "made %16llx%16llx %159[^\n]", &high, &low, type) == 3) {
        e->node[e->n].made = (digest){.lo = low, .hi = high};
        snprintf(e->node[e->n].type, sizeof e->node[e->n].type, "%s", type);
        e->n++;
    }
}

static void take_answers(check_elsewhere *e, int fd)
{
    char line[LINE_MAX_BYTES];
    FILE *f = fdopen(fd, "r");
    if (!f) {
        close(fd);
        return;
    }
    while (fgets(line, sizeof line, f)) take_line(e, line);
    fclose(f);
}

/* The command line of this process's check, for one file: NULL: no memory. */
static const char **command(const check_context *of, const char *path, arena *memory)
{
    size_t n = 0;
    const char **argv = arena_alloc(memory, (of->n_setting * 2 + 4) * sizeof *argv);
    if (!argv) return NULL;
    argv[n++] = "kiln", argv[n++] = "check-plugin", argv[n++] = path;
    for (size_t i = 0; i < of->n_setting; i++) {
        argv[n++] = "--set";
        argv[n] = arena_printf(memory, "%s=%s", of->setting[i].name, of->setting[i].value);
        if (!argv[n++]) return NULL;
    }
    argv[n] = NULL;
    return argv;
}

check_elsewhere *elsewhere_ask(const check_context *of, const char *path)
{
    check_elsewhere *e = calloc(1, sizeof *e);
    arena memory = {0};
    const char **argv = command(of, path, &memory);
    int fd[2];
    pid_t pid;
    posix_spawn_file_actions_t actions;
    if (e && argv && pipe2(fd, O_CLOEXEC) == 0) {
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, fd[1], 1);
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
        setenv(ASKED, "1", 1);
        int failed = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, (char *const *)(uintptr_t)argv, environ);
        unsetenv(ASKED);
        posix_spawn_file_actions_destroy(&actions);
        close(fd[1]);
        take_answers(e, fd[0]);
        while (!failed && waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
    }
    arena_free(&memory);
    return e;
}

int elsewhere_made(const check_elsewhere *e, const char *type, digest *made)
{
    for (size_t i = 0; e && i < e->n; i++)
        if (strcmp(e->node[i].type, type) == 0) return *made = e->node[i].made, 1;
    return 0;
}
