/* check_elsewhere.c - see check_elsewhere.h. */
#include "cli/check_elsewhere.h"

#include "base/arena.h"
#include "base/file.h"
#include "base/memory_alloc.h"
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
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_SECONDS = 5, LINE_MAX_BYTES = 256, FAILED_THERE = 77, FILE_MAX = 256 << 20 };
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
        if (!check_node_made(of, n, &made)) _exit(FAILED_THERE);
        _exit(write(fd[1], &made, sizeof made) == sizeof made ? 0 : 1);
    }
    close(fd[1]);
    int answered = pid > 0 && read(fd[0], &made, sizeof made) == sizeof made, status = 0;
    close(fd[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (answered)
        print_text(stdout, "made %s %s\n", digest_hex(made, hex), n->node->type);
    else if (WIFEXITED(status) && WEXITSTATUS(status) == FAILED_THERE)
        print_text(stdout, "made - %s\n", n->node->type);
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
    unsigned long long high = 0, low = 0;
    char type[160];
    int made = sscanf(line, "made %16llx%16llx %159[^\n]", &high, &low, type) == 3;
    if (e->n == ELSEWHERE_MAX || (!made && sscanf(line, "made - %159[^\n]", type) != 1)) return;
    e->node[e->n].failed = !made;
    e->node[e->n].made = (digest){.lo = low, .hi = high};
    snprintf(e->node[e->n].type, sizeof e->node[e->n].type, "%s", type);
    e->n++;
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

/* A path that means the same in another working folder. */
static const char *from_anywhere(const char *text, arena *memory)
{
    char *real = file_exists(text) ? path_real(text) : NULL;
    const char *kept = real ? arena_strdup(memory, real) : text;
    mem_free(real);
    return kept;
}

/* The command line of this process's check, for one file: NULL: no memory. */
static const char **command(const check_context *of, arena *memory)
{
    size_t n = 0;
    const char **argv = arena_alloc(memory, (of->n_setting * 2 + 4) * sizeof *argv);
    if (!argv) return NULL;
    argv[n++] = "kiln", argv[n++] = "check-plugin", argv[n++] = of->plugin->path;
    for (size_t i = 0; i < of->n_setting; i++) {
        const char *value = from_anywhere(of->setting[i].value, memory);
        argv[n++] = "--set";
        argv[n] = value ? arena_printf(memory, "%s=%s", of->setting[i].name, value) : NULL;
        if (!argv[n++]) return NULL;
    }
    argv[n] = NULL;
    return argv;
}

/* ---- another environment ---- */

typedef struct {
    char **variable; /* "NAME=value", NULL behind the last */
    size_t n, capacity;
    arena *memory;
} variables;

static size_t name_length(const char *variable) { return strcspn(variable, "="); }

static void put(variables *v, const char *name, const char *value)
{
    char *text = arena_printf(v->memory, "%s=%s", name, value);
    size_t at = 0, n = strlen(name);
    while (at < v->n && (name_length(v->variable[at]) != n || strncmp(v->variable[at], name, n) != 0)) at++;
    if (!text || at + 1 >= v->capacity) return;
    v->variable[at] = text;
    if (at == v->n) v->n++;
}

/* Where kiln and the loader look for what belongs to the user, which stays where it is. */
static void put_own_folder(variables *v, const char *name, const char *in_home)
{
    const char *home = getenv("HOME");
    if (!getenv(name) && home) put(v, name, arena_printf(v->memory, "%s/%s", home, in_home));
}

/* Not those that say where programs and libraries are, how much they print and compute, or what kiln is to do. */
static int may_change(const char *name)
{
    static const char *const kept[] = {"PATH",   "LD_",    "KILN_", "XDG_",  "GLIBC_", "MALLOC_",
                                       "ASAN_",  "UBSAN_", "TSAN_", "LSAN_", "CUDA",   "NVIDIA",
                                       "PYTHON", "GCOV_",  "LLVM_", "HOME",  "TMPDIR"};
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strncmp(name, kept[i], strlen(kept[i])) == 0) return 0;
    return 1;
}

static int is_name_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

/* Texts of the file that look like a variable's name. Most are none; setting them does no harm. */
static void put_named(variables *v, const char *text, size_t size, check_elsewhere *e)
{
    for (size_t i = 1; i + 1 < size; i++) {
        size_t n = 0;
        char name[64];
        if (text[i - 1] || text[i] < 'A' || text[i] > 'Z') continue;
        while (i + n < size && is_name_letter(text[i + n])) n++;
        if (n >= 2 && n < sizeof name && i + n < size && !text[i + n]) {
            memcpy(name, text + i, n), name[n] = '\0';
            const char *now = getenv(name);
            size_t used = strlen(e->names);
            if (may_change(name)) {
                put(v, name, now && strcmp(now, "7") == 0 ? "8" : "7");
                snprintf(e->names + used, sizeof e->names - used, "%s%s", used ? ", " : "", name);
            }
        }
        i += n;
    }
}

enum { NAMED_MAX = 1024 };

/* NULL: no memory. *clock: the plugin calls what tells the time. */
static char **another_environment(const check_context *of, arena *memory, check_elsewhere *e, int *clock)
{
    static const char *const calls[] = {"clock_gettime", "gettimeofday", "timespec_get", "system_clock",
                                        "steady_clock"};
    size_t n = 0, size = 0;
    char *text = NULL;
    error ignored = {0};
    while (environ[n]) n++;
    variables v = {.memory = memory, .capacity = n + NAMED_MAX};
    if (!(v.variable = arena_alloc(memory, v.capacity * sizeof *v.variable))) return NULL;
    for (v.n = 0; v.n < n; v.n++) v.variable[v.n] = environ[v.n];
    put_own_folder(&v, "XDG_DATA_HOME", ".local/share"), put_own_folder(&v, "XDG_CACHE_HOME", ".cache");
    put_own_folder(&v, "XDG_CONFIG_HOME", ".config");
    if (file_read(of->plugin->path, FILE_MAX, &text, &size, &ignored) == KILN_OK) {
        if (memmem(text, size, "getenv", 6)) put_named(&v, text, size, e);
        *clock = memmem(text, size, "\0time\0", 6) != NULL;
        for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
            *clock |= memmem(text, size, calls[i], strlen(calls[i])) != NULL;
    }
    mem_free(text);
    put(&v, "HOME", of->folder), put(&v, "TMPDIR", of->folder), put(&v, "PWD", of->folder);
    put(&v, "USER", "another"), put(&v, "LOGNAME", "another"), put(&v, "HOSTNAME", "another");
    put(&v, "LANG", "C"), put(&v, "LC_ALL", "C"), put(&v, "TZ", "XXX-11");
    v.variable[v.n] = NULL;
    return v.variable;
}

static void next_second(void) { nanosleep(&(struct timespec){.tv_sec = 1, .tv_nsec = 50000000}, NULL); }

check_elsewhere *elsewhere_ask(const check_context *of, elsewhere_kind kind)
{
    check_elsewhere *e = calloc(1, sizeof *e);
    arena memory = {0};
    const char **argv = command(of, &memory);
    int fd[2], clock = 0;
    pid_t pid;
    posix_spawn_file_actions_t actions;
    setenv(ASKED, "1", 1); /* which may move environ */
    char **surroundings = environ;
    if (e && kind == ELSEWHERE_CHANGED) surroundings = another_environment(of, &memory, e, &clock);
    if (e && argv && surroundings && pipe2(fd, O_CLOEXEC) == 0) {
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, fd[1], 1);
        posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
        if (kind == ELSEWHERE_CHANGED) posix_spawn_file_actions_addchdir_np(&actions, of->folder);
        mode_t mask = kind == ELSEWHERE_CHANGED ? umask(077) : 0;
        int failed = posix_spawn(&pid, "/proc/self/exe", &actions, NULL, (char *const *)(uintptr_t)argv, surroundings);
        if (kind == ELSEWHERE_CHANGED) umask(mask);
        posix_spawn_file_actions_destroy(&actions);
        close(fd[1]);
        take_answers(e, fd[0]);
        while (!failed && waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
        if (clock) next_second();
    }
    unsetenv(ASKED);
    arena_free(&memory);
    return e;
}

int elsewhere_made(const check_elsewhere *e, const char *type, digest *made)
{
    for (size_t i = 0; e && i < e->n; i++)
        if (strcmp(e->node[i].type, type) == 0) return *made = e->node[i].made, e->node[i].failed ? -1 : 1;
    return 0;
}
