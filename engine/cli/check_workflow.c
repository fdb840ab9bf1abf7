/* check_workflow.c - see check_workflow.h. */
#include "cli/check_workflow.h"

#include "base/file.h"
#include "base/memory_alloc.h"
#include "base/str.h"
#include "cli/command.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOG_MAX = 1 << 20, FILE_MAX = 1 << 30, SAID_MAX = 400 };

static const char ASKED[] = "KILN_CHECK_AGAIN"; /* plugin/call_again.h */

extern char **environ;

/* ---- one run ---- */

/* With --validate where events are asked for; out NULL: --dry-run. The wait status, or -1 with errno; what it printed
 * goes to the file `log`. */
static int run(const workflow_trial *t, const char *out, const char *log, const char *threads, const char *events)
{
    const char *argv[24] = {"kiln",       "run",       t->workflow, "--plugins", t->plugin,
                            "--no-cache", "--threads", threads,     "--quiet"};
    size_t n = 9;
    pid_t pid;
    int status = -1;
    posix_spawn_file_actions_t actions;
    if (out) argv[n++] = "--out", argv[n++] = out;
    if (!out) argv[n++] = "--dry-run";
    if (events) argv[n++] = "--validate", argv[n++] = "--events", argv[n++] = events;
    if (t->models) argv[n++] = "--models", argv[n++] = t->models;
    if (t->input) argv[n++] = "--input", argv[n++] = t->input;
    str again = {0};
    if (events) str_printf(&again, "%s:%s", t->own->id, t->folder);
    if (events && !again.failed) setenv(ASKED, again.data, 1);
    str_free(&again);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    int failed = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    unsetenv(ASKED);
    if (failed) return errno = failed, -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    return status;
}

/* The line of a log that says why; "" when there is none. */
static void reason(const char *log, char said[SAID_MAX])
{
    char *text;
    size_t n;
    error e = {0};
    said[0] = 0;
    if (file_read(log, LOG_MAX, &text, &n, &e) != KILN_OK) return;
    const char *at = strstr(text, "error: ");
    if (!at) at = text;
    snprintf(said, SAID_MAX, "%.*s", (int)strcspn(at, "\n"), at);
    mem_free(text);
}

static int judge_run(check_counts *c, int status, const char *log, const char *how)
{
    char said[SAID_MAX];
    reason(log, said);
    if (status < 0) return check_found(c, 0, "process", "no process for it: %s", strerror(errno));
    if (WIFSIGNALED(status))
        return check_found(c, 0, "crash", "the run ended by SIG%s, %s: %s", sigabbrev_np(WTERMSIG(status)), how, said);
    if (WEXITSTATUS(status) == EXIT_BAD_INPUT) /* nothing of the plugin has run */
        return check_found(c, 0, "unfit",
                           "the workflow cannot be run: %s; mend it, name another with --workflow, its models' folder "
                           "with --models, or its input files' with --input",
                           said);
    return check_found(c, WEXITSTATUS(status) == 0, "workflow", "the run ended with status %d, %s: %s",
                       WEXITSTATUS(status), how, said);
}

/* ---- what was written ---- */

static int same_bytes(const char *one, const char *two)
{
    char *a = NULL, *b = NULL;
    size_t n = 0, m = 0;
    error e = {0};
    int same = file_read(one, FILE_MAX, &a, &n, &e) == KILN_OK && file_read(two, FILE_MAX, &b, &m, &e) == KILN_OK &&
               n == m && memcmp(a, b, n) == 0;
    mem_free(a), mem_free(b);
    return same;
}

/* Files of `one`, and in how far `two` has the same; folders within are gone through. */
static size_t compare(check_counts *c, const char *one, const char *two)
{
    size_t files = 0;
    DIR *d = opendir(one);
    for (struct dirent *x; d && (x = readdir(d));) {
        struct stat s;
        str a = {0}, b = {0};
        str_printf(&a, "%s/%s", one, x->d_name), str_printf(&b, "%s/%s", two, x->d_name);
        if (x->d_name[0] != '.' && !a.failed && !b.failed && stat(a.data, &s) == 0) {
            if (S_ISDIR(s.st_mode))
                files += compare(c, a.data, b.data);
            else if (files++, 1)
                check_found(c, same_bytes(a.data, b.data), "threads",
                            "'%s' has other bytes, or is not there, with three threads than with one", x->d_name);
        }
        str_free(&a), str_free(&b);
    }
    if (d) closedir(d);
    return files;
}

/* Whether a node of the plugin stands in the events. */
static int ran(const workflow_trial *t, const char *events)
{
    char *text;
    size_t size;
    error e = {0};
    int found = 0;
    if (file_read(events, LOG_MAX, &text, &size, &e) != KILN_OK) return 1; /* too long to be read: nothing is said */
    for (size_t i = 0; i < catalog_nodes(t->plugins); i++) {
        const node_info *n = catalog_node(t->plugins, i);
        str type = {0};
        if (n->plugin != t->own) continue;
        str_append(&type, "\"type\": \""), str_append(&type, n->node->type), str_append(&type, "\"");
        int acted = !type.failed && strstr(text, type.data) != NULL;
        if (acted) check_was_tried(n->node->type);
        found |= acted;
        str_free(&type);
    }
    mem_free(text);
    return found;
}

/* "family example-dit was used" */
static void take_used(check_counts *c, const char *row, const char *text)
{
    const char *name = strchr(row, ' ');
    check_holds(c, "workflow", "%s %s", row, text);
    if (name) check_was_tried(name + 1);
}

/* What calls with the workflow's own inputs have shown. Returns how many rows that are no nodes were used. */
static size_t take_again(check_counts *c, const char *folder)
{
    size_t used = 0;
    char line[1500];
    str path = {0};
    str_printf(&path, "%s/again", folder);
    FILE *f = path.failed ? NULL : fopen(path.data, "re");
    while (f && fgets(line, sizeof line, f)) {
        char *test = strtok(line, "\t\n"), *node = strtok(NULL, "\t\n"), *text = strtok(NULL, "\t\n");
        if (!test || !node || !text) continue;
        if (strcmp(test, "used") == 0)
            take_used(c, node, text), used++;
        else if (strcmp(test, "tried") == 0)
            check_holds(c, "again", "%s: %s", node, text);
        else
            check_found(c, 0, test, "%s %s", node, text);
    }
    if (f) fclose(f);
    str_free(&path);
    return used;
}

check_counts check_workflow(const workflow_trial *t, int *took_part)
{
    enum { ONE, ONE_LOG, EVENTS, TWO, TWO_LOG, ESTIMATE_LOG, PATHS };
    static const char *const name[PATHS] = {"one", "one.txt", "events.jsonl", "two", "two.txt", "estimate.txt"};
    check_counts c = {0};
    str s[PATHS] = {{0}};
    const char *path[PATHS] = {0};
    int named = 1;
    for (int i = 0; i < PATHS; i++) {
        str_printf(&s[i], "%s/workflow-%s", t->folder, name[i]);
        path[i] = s[i].data, named &= !s[i].failed;
    }
    *took_part = 1;
    if (named && judge_run(&c, run(t, path[ONE], path[ONE_LOG], "1", path[EVENTS]), path[ONE_LOG],
                           "with one thread and --validate")) {
        const int nodes_ran = ran(t, path[EVENTS]);
        *took_part = take_again(&c, t->folder) > 0 || nodes_ran || t->own->n_node == 0;
        judge_run(&c, run(t, NULL, path[ESTIMATE_LOG], "1", NULL), path[ESTIMATE_LOG],
                  "in an estimate (--dry-run), where tensors have no data");
        if (judge_run(&c, run(t, path[TWO], path[TWO_LOG], "3", NULL), path[TWO_LOG], "with three threads"))
            check_found(&c, compare(&c, path[ONE], path[TWO]) > 0, "workflow", "it ended well and wrote no file");
    }
    for (int i = 0; i < PATHS; i++) str_free(&s[i]);
    return c;
}
