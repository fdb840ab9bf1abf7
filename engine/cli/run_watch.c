/* run_watch.c - see run_watch.h. */
#include "cli/run_watch.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "base/str.h"
#include "cli/open_workflow.h"
#include "plugin/catalog.h"
#include "plugin/plugin_data.h"
#include "run/job.h"
#include "workflow/check.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    QUIET_MS = 200,     /* so long nothing may happen before a change is taken to be whole */
    PATIENCE_MS = 5000, /* but no longer than this */
    LIST_BYTES_MAX = 16 << 20
};

typedef struct {
    char *path, *real; /* as it is named; what that is, NULL: it is not there */
    file_identity is;
    int there;
} watched;

typedef struct {
    watched *item;
    size_t n, capacity;
    char **folder; /* [n_folder] that inotify looks at */
    size_t n_folder, folder_capacity;
    int notify, signals;
    int ended; /* a signal came */
    int sent;  /* by kill(), to this process alone */
    int quiet;
} watch;

/* ---- which files: in a child process, which writes one a line ---- */

static void put(int fd, const char *path)
{
    str s = {0};
    if (!path || !*path || strchr(path, '\n')) return;
    str_printf(&s, "%s\n", path);
    for (size_t done = 0; !s.failed && done < s.len;) {
        ssize_t n = write(fd, s.data + done, s.len - done);
        if (n < 0 && errno != EINTR) break;
        done += n > 0 ? (size_t)n : 0;
    }
    str_free(&s);
}

static void say_nothing(void *arg, const char *text, int is_warning) { (void)arg, (void)text, (void)is_warning; }

/* Of each folder in a list with ':' between, this file in it. */
static void put_below(int fd, const char *folders, const char *name)
{
    char path[PATH_MAX];
    while (folders && *folders) {
        size_t n = strcspn(folders, ":");
        if (n && snprintf(path, sizeof path, "%.*s/%s", (int)n, folders, name) < (int)sizeof path) put(fd, path);
        folders += n + (folders[n] == ':');
    }
}

/* Where a file that a faulty workflow names might come to lie: what looks like a file's name, wherever inputs are
 * looked for. */
static void put_missing(int fd, const arguments *a, const document *d)
{
    const char *slash = d->path ? strrchr(d->path, '/') : NULL;
    char folder[PATH_MAX], input[PATH_MAX + 8];
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - d->path) : 1, slash ? d->path : ".");
    snprintf(input, sizeof input, "%s/input", folder);
    for (size_t i = 0; i < d->n_node; i++)
        for (size_t k = 0; k < d->node[i].n_input; k++) {
            const char *text = d->node[i].input[k].text, *dot = text ? strrchr(text, '.') : NULL;
            if (!dot || strlen(dot) > 12 || strlen(text) > 255 || strpbrk(text, "\n:*?")) continue;
            put(fd, text);
            if (*text == '/') continue;
            put_below(fd, folder, text), put_below(fd, input, text);
            put_below(fd, argument(a, "--input"), text), put_below(fd, getenv("KILN_INPUT"), text);
        }
}

/* A folder and what is in it. */
static void put_folder(int fd, const char *folder, int depth)
{
    DIR *d = depth < DATA_DEPTH_MAX ? opendir(folder) : NULL;
    if (d) put(fd, folder);
    for (struct dirent *x; d && (x = readdir(d));) {
        char path[PATH_MAX];
        if (x->d_name[0] == '.' || snprintf(path, sizeof path, "%s/%s", folder, x->d_name) >= (int)sizeof path)
            continue;
        if (x->d_type == DT_DIR)
            put_folder(fd, path, depth + 1);
        else
            put(fd, path);
    }
    if (d) closedir(d);
}

/* The file, and the data folder of one that did not come with kiln. */
static void put_plugin(int fd, const plugin_info *p)
{
    char folder[PATH_MAX];
    size_t n = strlen(p->path);
    put(fd, p->path);
    if (!p->shipped && n > 3 &&
        snprintf(folder, sizeof folder, "%.*s.data", (int)(n - 3), p->path) < (int)sizeof folder)
        put_folder(fd, folder, 0);
}

static void put_files(int fd, const arguments *a, const job *j, size_t faults)
{
    const workflow *w = job_workflow(j);
    const catalog *c = job_catalog(j);
    for (size_t i = 0; c && i < catalog_plugins(c); i++) put_plugin(fd, catalog_plugin(c, i));
    for (size_t i = 0; w && w->doc && i < w->doc->n_file; i++) put(fd, w->doc->file[i]);
    if (w && w->doc && faults) put_missing(fd, a, w->doc);
    for (size_t i = 0; w && !faults && i < w->n; i++) {
        const graph_node *g = &w->node[i];
        for (uint32_t k = 0; g->file && k < g->type->n_param; k++) put(fd, g->file[k]);
        for (size_t k = 0; k < g->n_named; k++) put(fd, g->named[k].path);
    }
}

static void list_files(arguments *a, int fd)
{
    workflow_arguments with = {.from = {.console = 0}};
    set_option set[SETTINGS_MAX];
    error e = {0};
    size_t faults = 0;
    const char *path = a->operand[0];
    print_silence(1, 1);
    log_level_set(KILN_LOG_ERROR);
    take_shipped(&path, with.shipped);
    put(fd, path);
    put(fd, argument(a, "--over-file"));
    if (!read_settings(a, with.set, &with.from.n_set)) return;
    for (uint32_t i = 0; i < with.from.n_set; i++)
        set[i] = (set_option){.name = with.set[i].name, .value = with.set[i].value, .here = 1};
    job *j = job_open(&(job_source){.path = path,
                                    .set = set,
                                    .n_set = with.from.n_set,
                                    .plugins = argument(a, "--plugins"),
                                    .models = argument(a, "--models"),
                                    .input = argument(a, "--input"),
                                    .over = argument(a, "--over") || argument(a, "--over-file"),
                                    .line = say_nothing},
                      &faults, &e);
    if (j) put_files(fd, a, j, faults);
}

/* ---- what is watched ---- */

static void look(watched *f)
{
    struct stat s;
    mem_free(f->real);
    f->real = path_real(f->path);
    f->there = stat(f->path, &s) == 0;
    f->is = f->there ? file_identity_of(&s) : (file_identity){0};
}

static int has_changed(const watched *f)
{
    struct stat s;
    if (stat(f->path, &s) != 0) return f->there;
    file_identity now = file_identity_of(&s);
    return !f->there || !file_identity_same(&now, &f->is);
}

/* The folder of a file, by a name or what it is: a file that is replaced by a rename is another file in the same
 * folder. 0: no memory. */
static int watch_folder(watch *w, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = !slash ? mem_strdup(".") : mem_strndup(path, slash == path ? 1 : (size_t)(slash - path));
    for (size_t i = 0; folder && i < w->n_folder; i++)
        if (strcmp(w->folder[i], folder) == 0) return mem_free(folder), 1;
    if (!folder || !array_reserve(&w->folder, &w->folder_capacity, w->n_folder + 1, sizeof *w->folder))
        return mem_free(folder), 0;
    if (inotify_add_watch(w->notify, folder,
                          IN_CLOSE_WRITE | IN_MODIFY | IN_MOVED_TO | IN_MOVED_FROM | IN_CREATE | IN_DELETE |
                              IN_ATTRIB) < 0) {
        if (errno == ENOSPC)
            print_text(stderr,
                       "kiln: --watch: '%s' cannot be watched: this system's limit of watches is reached "
                       "(fs.inotify.max_user_watches)\n",
                       folder);
        mem_free(folder);
        return 1;
    }
    w->folder[w->n_folder++] = folder;
    return 1;
}

/* A file that is named already keeps what was known of it. */
static int add(watch *w, const char *path, size_t n)
{
    for (size_t i = 0; i < w->n; i++)
        if (strlen(w->item[i].path) == n && strncmp(w->item[i].path, path, n) == 0) return 1;
    if (!array_reserve(&w->item, &w->capacity, w->n + 1, sizeof *w->item)) return 0;
    watched f = {.path = mem_strndup(path, n)};
    if (!f.path) return 0;
    look(&f);
    w->item[w->n++] = f;
    return watch_folder(w, f.path) && (!f.real || watch_folder(w, f.real));
}

/* Runs the listing child and takes what it says. A workflow with faults names what it could: what was known before
 * stays. */
static int find_files(watch *w, arguments *a)
{
    int fd[2];
    char *text = mem_alloc(LIST_BYTES_MAX);
    size_t n = 0;
    sigset_t none;
    if (!text || pipe(fd) != 0) return mem_free(text), print_text(stderr, "kiln: --watch: %s\n", strerror(errno)), 0;
    pid_t pid = fork();
    if (pid < 0) print_text(stderr, "kiln: --watch: no process to list the files: %s\n", strerror(errno));
    if (pid == 0) {
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fd[0]);
        list_files(a, fd[1]);
        _exit(0);
    }
    close(fd[1]);
    while (pid > 0 && n + 1 < LIST_BYTES_MAX) {
        ssize_t got = read(fd[0], text + n, LIST_BYTES_MAX - 1 - n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        n += (size_t)got;
    }
    close(fd[0]);
    while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR) continue;
    text[n] = '\0';
    int done = pid > 0;
    for (const char *line = text; done && *line; line += strcspn(line, "\n") + 1) {
        size_t length = strcspn(line, "\n");
        if (line[length] != '\n') break;
        if (!(done = add(w, line, length))) print_text(stderr, "kiln: --watch: out of memory\n");
    }
    mem_free(text);
    return done;
}

/* ---- waiting ---- */

static void read_signals(watch *w)
{
    struct signalfd_siginfo s;
    while (read(w->signals, &s, sizeof s) == sizeof s)
        if (s.ssi_signo != SIGCHLD) w->ended = (int)s.ssi_signo, w->sent |= s.ssi_code <= 0;
}

/* 1: something happened in a folder that is watched. */
static int read_events(watch *w)
{
    char events[16384];
    int any = 0;
    while (read(w->notify, events, sizeof events) > 0) any = 1;
    return any;
}

/* Waits for a signal or an event, `ms` at most (-1: for ever). 1: there were events. */
static int wait_for(watch *w, int ms)
{
    struct pollfd p[2] = {{.fd = w->signals, .events = POLLIN}, {.fd = w->notify, .events = POLLIN}};
    if (poll(p, 2, ms) > 0 && p[0].revents) read_signals(w);
    return p[1].revents ? read_events(w) : 0;
}

static const watched *first_changed(const watch *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (has_changed(&w->item[i])) return &w->item[i];
    return NULL;
}

/* Until a watched file is another one and nothing was written for a moment. NULL: a signal came. */
static const watched *wait_for_change(watch *w)
{
    const watched *changed;
    while (!w->ended && !(changed = first_changed(w))) wait_for(w, -1);
    int64_t begin = clock_ns();
    while (!w->ended && clock_ns() - begin < (int64_t)PATIENCE_MS * 1000000 && wait_for(w, QUIET_MS)) continue;
    return w->ended ? NULL : changed;
}

/* Until the run has ended. What the terminal sends reaches it by itself, what was sent to this process alone is handed
 * on. */
static int wait_for_run(watch *w, pid_t pid)
{
    int status = 0;
    pid_t got;
    int handed_on = 0;
    while ((got = waitpid(pid, &status, WNOHANG)) == 0 || (got < 0 && errno == EINTR)) {
        if (w->sent && !handed_on) kill(pid, w->ended), handed_on = 1;
        struct pollfd p = {.fd = w->signals, .events = POLLIN};
        if (poll(&p, 1, -1) > 0) read_signals(w);
    }
    return got == pid ? status : 0;
}

static void forget(watch *w)
{
    for (size_t i = 0; i < w->n; i++) mem_free(w->item[i].path), mem_free(w->item[i].real);
    for (size_t i = 0; i < w->n_folder; i++) mem_free(w->folder[i]);
    mem_free(w->item), mem_free(w->folder);
    if (w->notify >= 0) close(w->notify);
    if (w->signals >= 0) close(w->signals);
}

/* ---- the whole ---- */

/* Files below `out` that a run has written anew are its own doing. */
static void take_own_results(watch *w, const char *out)
{
    char *real = path_real(out ? out : "out");
    size_t n = real ? strlen(real) : 0;
    for (size_t i = 0; real && i < w->n; i++)
        if (w->item[i].real && strncmp(w->item[i].real, real, n) == 0 && w->item[i].real[n] == '/') look(&w->item[i]);
    mem_free(real);
}

static int begin(watch *w, const arguments *a, sigset_t *before)
{
    sigset_t block;
    if (a->n_operand != 1 || strcmp(a->operand[0], "-") == 0) {
        print_text(stderr, a->n_operand != 1 ? "kiln: --watch: name one workflow file\n"
                                             : "kiln: --watch: standard input cannot be read again; name a file\n");
        return 0;
    }
    sigemptyset(&block);
    sigaddset(&block, SIGINT), sigaddset(&block, SIGTERM), sigaddset(&block, SIGHUP), sigaddset(&block, SIGCHLD);
    sigprocmask(SIG_BLOCK, &block, before);
    w->signals = signalfd(-1, &block, SFD_NONBLOCK | SFD_CLOEXEC);
    w->notify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    w->quiet = argument(a, "--quiet") != NULL;
    if (w->signals >= 0 && w->notify >= 0) return 1;
    print_text(stderr, "kiln: --watch: files cannot be watched here: %s\n", strerror(errno));
    return 0;
}

static int is_child(const watch *w, const sigset_t *before, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(EXIT_INTERRUPTED);
    close(w->signals), close(w->notify);
    sigprocmask(SIG_SETMASK, before, NULL);
    return 1;
}

int run_watch(arguments *a, int *status)
{
    watch w = {.notify = -1, .signals = -1};
    sigset_t before;
    pid_t parent = getpid();
    *status = EXIT_BAD_INPUT;
    if (!begin(&w, a, &before)) return forget(&w), 0;
    while (!w.ended) {
        for (size_t i = 0; i < w.n; i++) look(&w.item[i]);
        read_events(&w);
        if (!find_files(&w, a)) break;
        print_flush(stdout);
        pid_t pid = fork();
        if (pid == 0) return is_child(&w, &before, parent);
        if (pid < 0) {
            print_text(stderr, "kiln: --watch: no process for the run: %s\n", strerror(errno));
            break;
        }
        int ended = wait_for_run(&w, pid);
        if (WIFEXITED(ended) && WEXITSTATUS(ended) == EXIT_INTERRUPTED) w.ended = SIGINT;
        if (WIFSIGNALED(ended)) print_text(stderr, "kiln: the run ended with SIG%s\n", sigabbrev_np(WTERMSIG(ended)));
        take_own_results(&w, argument(a, "--out"));
        if (w.ended) break;
        if (!w.quiet) print_text(stderr, "kiln: watching %zu files; Ctrl-C ends it\n", w.n);
        const watched *changed = wait_for_change(&w);
        if (changed && !w.quiet)
            print_text(stderr, "kiln: %s %s; running again\n", changed->path,
                       changed->there ? "has changed" : "has come");
    }
    *status = w.ended ? EXIT_INTERRUPTED : EXIT_RUN_FAILED;
    forget(&w);
    return 0;
}
