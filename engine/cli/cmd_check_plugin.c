/* cmd_check_plugin.c - `kiln check-plugin FILE.so ...`: checks a plugin's table, and each node in a process of its own.
 */
#include "backend/choose.h"
#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "base/str.h"
#include "cli/check_node.h"
#include "cli/check_op.h"
#include "cli/command.h"
#include "plugin/abilities.h"
#include "plugin/crash_report.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NODE_SECONDS = 120 };

static const option options[] = {
    {"--device", 0, "NAME", "try its ops on this device too: cuda, cuda:1, reference", 0},
};

const manual manual_check_plugin = {
    .usage = "kiln check-plugin FILE.so ... [--device NAME]",
    .about =
        "Tries to catch a plugin breaking the contract of kiln/plugin.h: its table; then each node, with made-up "
        "inputs, its\n"
        "parameters at their defaults, ends and choices, run twice with poisoned memory, cancelled at each call of\n"
        "progress(), and with each allocation failing. Nodes that need a model or a file are not run.\n"
        "Each op that it registers is tried on its own examples against its own reference: in each of its types, with "
        "1 to 4\n"
        "threads, guards round its results, and operands left out; with --device on that device too, by its cuda().\n"
        "Exit status 1 when something was found.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .examples = "  kiln check-plugin ./image-gain.so\n",
    .operand = OPERAND_FILE,
};

static int remove_one(const char *path, const struct stat *s, int flag, struct FTW *walk)
{
    (void)s, (void)flag, (void)walk;
    return remove(path);
}

/* What a child process tries: a node, or an op. */
typedef struct {
    const node_info *node;
    const kiln_op_kind *op; /* NULL: the node */
    const char *folder;
    const check_device *on; /* of an op */
} trial;

/* In a child process: checks it and sends the counts through the pipe. */
static void child(const trial *t, int fd)
{
    struct rlimit memory = {(rlim_t)8 << 30, (rlim_t)8 << 30};
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    setrlimit(RLIMIT_AS, &memory);
#else
    (void)memory;
#endif
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    alarm(NODE_SECONDS);
    crash_report_end(); /* the parent reports how this process ended */
    check_counts counts = t->op ? check_op(t->op, t->on, stdout) : check_node(t->node, t->folder, stdout);
    print_flush(stdout);
    _exit(write(fd, &counts, sizeof counts) == sizeof counts ? 0 : 2);
}

/* Checks it in a child process and adds its counts to *total. */
static void try_one(const trial *t, check_counts *total)
{
    int fd[2], status = 0;
    check_counts counts = {0, 1};
    if (pipe(fd) != 0) {
        print_text(stderr, "kiln check-plugin: %s\n", strerror(errno));
        total->failed++;
        return;
    }
    print_flush(stdout);
    pid_t pid = fork();
    if (pid == 0) child(t, fd[1]);
    close(fd[1]);
    int whole = pid > 0 && read(fd[0], &counts, sizeof counts) == sizeof counts;
    close(fd[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (!whole) counts = (check_counts){0, 1};
    if (pid < 0)
        print_text(stdout, "  FAIL no process for it: %s\n", strerror(errno));
    else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        print_text(stdout, "  FAIL %-14s did not end within %d s\n", "time", NODE_SECONDS);
    else if (WIFSIGNALED(status))
        print_text(stdout, "  FAIL %-14s crashed with SIG%s\n", "crash", sigabbrev_np(WTERMSIG(status)));
    else if (!whole && WEXITSTATUS(status) != 1)
        print_text(stdout, "  FAIL %-14s ended the process with status %d\n", "exit", WEXITSTATUS(status));
    total->passed += counts.passed;
    total->failed += counts.failed;
}

static const plugin_info *of_file(const catalog *c, const char *path)
{
    char *real = path_real(path);
    const plugin_info *found = NULL;
    for (size_t i = 0; real && !found && i < catalog_plugins(c); i++)
        if (strcmp(catalog_plugin(c, i)->path, real) == 0) found = catalog_plugin(c, i);
    mem_free(real);
    return found;
}

/* Reports what loading the plugin has shown: file and table, open(), the floating-point mode. */
static check_counts check_loaded(const plugin_info *p)
{
    check_counts counts = {.passed = 2};
    print_text(stdout, "  ok   %-14s the rows of %zu nodes\n  ok   %-14s %s\n", "table", p->n_node, "open",
               p->table->open ? "open() succeeded" : "it has none to call");
    for (size_t i = 0; i < p->n_clash; i++)
        counts.failed++, print_text(stdout, "  FAIL %-14s %s\n", "names", p->clash[i]);
    if (!p->changed_floats) return counts.passed++, counts;
    counts.failed++;
    print_text(stdout,
               "  FAIL %-14s loading it changed the floating-point mode of the process; link it without -ffast-math\n",
               "float-mode");
    return counts;
}

static int check_file(const char *path, const char *folder, const check_device *on)
{
    error e = {0};
    check_counts total = {0, 0};
    size_t left = 0, ops = 0;
    catalog *c = catalog_open(path, &e);
    const plugin_info *p = c ? of_file(c, path) : NULL;
    print_text(stdout, "%s\n", path);
    if (!p || !p->table) {
        print_text(stdout, "  FAIL %-14s %s\n", "table", p ? p->why : e.message);
        catalog_close(c);
        return EXIT_RUN_FAILED;
    }
    total = check_loaded(p);
    for (size_t i = 0; i < p->n_node; i++) {
        const node_info *n = catalog_find(c, p->table->node[i]->type);
        char why[256];
        const char *needs = check_node_needs(n->node, why);
        if (needs)
            left++, print_text(stdout, "node %s: not run, because %s\n", n->node->type, needs);
        else
            print_text(stdout, "node %s\n", n->node->type), try_one(&(trial){.node = n, .folder = folder}, &total);
    }
    for (const kiln_op_kind *k; (k = op_kind_of(p->id, ops)) != NULL; ops++)
        print_text(stdout, "op %s\n", k->name), try_one(&(trial){.op = k, .folder = folder, .on = on}, &total);
    print_text(stdout, "  %s: %zu checks passed, %zu failed; %zu of %zu nodes run", p->id, total.passed, total.failed,
               p->n_node - left, p->n_node);
    if (ops) print_text(stdout, ", %zu ops", ops);
    print_text(stdout, "\n");
    if (p->n_node == left && !ops)
        print_text(stdout,
                   "  note: no node of it was run, so only its loading was checked; try the rest in a workflow\n");
    catalog_close(c);
    return total.failed ? EXIT_RUN_FAILED : EXIT_DONE;
}

int cmd_check_plugin(int argc, char **argv)
{
    arguments a;
    int status = EXIT_DONE;
    const char *tmp = getenv("TMPDIR");
    str folder = {0};
    check_device on = {0};
    error e = {0};
    if (!arguments_read(&a, &manual_check_plugin, argc, argv)) return EXIT_BAD_INPUT;
    if (a.help) return manual_print(&manual_check_plugin), EXIT_DONE;
    if (!a.n_operand)
        return print_text(stderr, "kiln check-plugin: which file? usage: %s\n", manual_check_plugin.usage),
               EXIT_BAD_INPUT;
    if ((on.name = argument(&a, "--device")) && backend_choose(on.name, &on.backend, &on.index, &e) != KILN_OK)
        return print_text(stderr, "kiln check-plugin: --device: %s\n", e.message), EXIT_BAD_INPUT;
    for (size_t i = 0; i < a.n_operand; i++)
        if (!file_exists(a.operand[i]))
            return print_text(stderr, "kiln check-plugin: there is no file '%s'\n", a.operand[i]), EXIT_BAD_INPUT;
    str_printf(&folder, "%s/kiln-check-XXXXXX", tmp && tmp[0] == '/' ? tmp : "/tmp");
    if (folder.failed || !mkdtemp(folder.data))
        return print_text(stderr, "kiln check-plugin: no temporary folder: %s\n", strerror(errno)), EXIT_RUN_FAILED;
    for (size_t i = 0; i < a.n_operand; i++)
        if (check_file(a.operand[i], folder.data, on.name ? &on : NULL) != EXIT_DONE) status = EXIT_RUN_FAILED;
    nftw(folder.data, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    str_free(&folder);
    return status;
}
