/* process_state.c - see process_state.h. */
#include "plugin/process_state.h"

#include "base/clock.h"
#include "base/descriptors.h"
#include "base/log.h"
#include "base/map_fault.h"
#include "base/memory_alloc.h"
#include "base/print.h"
#include "plugin/crash_report.h"
#include "plugin/supervised.h"
#include "plugin/thread_owner.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { PLUGINS_MAX = 256, SPARE_FROM = 64, THREAD_WAITS = 50, THREADS_MAX = 4096, FEW_THREADS = 64 };

static const char *watched[PLUGINS_MAX];
static size_t n_watched;
static atomic_int said_output[PLUGINS_MAX];
static int home = -1;              /* the working folder */
static int stream[STREAMS];        /* copies of descriptors 0 to 2 */
static atomic_uint running, begun; /* calls of watched plugins that are looked at, and how many ever were */
static atomic_uint looked_at;      /* calls of either kind, now */
static atomic_uint hosts;          /* calls of kiln's own nodes that are: code that a plugin lends may run in them */
static const char *lender[PLUGINS_MAX];
static size_t n_lender;
static int printed = -1;           /* the file in memory; -1: standard output is everybody's */
static _Atomic off_t printed_seen; /* of what was written there */

static const int signals[WATCHED_SIGNALS] = {SIGINT, SIGTERM, SIGHUP,  SIGSEGV, SIGBUS, SIGFPE,
                                             SIGILL, SIGABRT, SIGPIPE, SIGXFSZ, SIGCHLD};

/* The environment as it was when a watched call began, for putting it back. */
static pthread_mutex_t environment_lock = PTHREAD_MUTEX_INITIALIZER;
static digest environment_kept;
static char *environment_text; /* each variable with its NUL, and a NUL behind the last; NULL: none is kept */

static const int limits[WATCHED_LIMITS] = {RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_AS,    RLIMIT_DATA,
                                           RLIMIT_CPU,    RLIMIT_STACK, RLIMIT_NPROC, RLIMIT_MEMLOCK};

/* Of 40 variables of 60 bytes it takes less than a microsecond. */
static digest environment_digest(void)
{
    digest d = {0};
    for (char **v = environ; v && *v; v++) {
        digest one = digest_of(*v, strlen(*v));
        d.lo = d.lo * 31 + one.lo, d.hi = d.hi * 31 + one.hi;
    }
    return d;
}

static void keep_environment(digest d)
{
    size_t n = 1;
    for (char **v = environ; v && *v; v++) n += strlen(*v) + 1;
    char *text = mem_alloc(n), *at = text;
    for (char **v = environ; text && v && *v; v++) at = stpcpy(at, *v) + 1;
    if (text) *at = '\0';
    mem_free(environment_text);
    environment_text = text, environment_kept = d;
}

/* Beside another such call it is what that one began with: what it has changed since is no beginning. */
static digest take_environment(int alone)
{
    pthread_mutex_lock(&environment_lock);
    digest d = alone || !environment_text ? environment_digest() : environment_kept;
    if (!environment_text || !digest_equal(d, environment_kept)) keep_environment(d);
    pthread_mutex_unlock(&environment_lock);
    return d;
}

void process_state_watch(const char *plugin, int lends)
{
    if (n_watched == PLUGINS_MAX) return;
    if (home < 0) {
        home = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
        for (int i = 0; i < STREAMS; i++) stream[i] = fcntl(i, F_DUPFD_CLOEXEC, SPARE_FROM);
    }
    watched[n_watched++] = plugin;
    if (lends) lender[n_lender++] = plugin;
    take_environment(1);
}

void process_state_forget(void)
{
    if (home >= 0) close(home);
    for (int i = 0; n_watched && i < STREAMS; i++)
        if (stream[i] >= 0) close(stream[i]);
    home = -1;
    n_watched = n_lender = 0;
    mem_free(environment_text);
    environment_text = NULL;
}

void process_state_keep_output(void)
{
    if (printed >= 0 || print_own_output() < 0) return;
    printed = memfd_create("standard output of plugins", MFD_CLOEXEC);
    if (printed >= 0) dup2(printed, STDOUT_FILENO);
}

static size_t index_of(const char *plugin)
{
    for (size_t i = 0; plugin && i < n_watched; i++)
        if (strcmp(watched[i], plugin) == 0) return i;
    return PLUGINS_MAX;
}

int process_state_is_watched(const char *plugin) { return index_of(plugin) < PLUGINS_MAX; }

/* ---- /proc/thread-self/status ---- */

enum { STATUS_BYTES = 4096 };

/* errno where it cannot be read. */
static int read_status(char text[STATUS_BYTES])
{
    int fd = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, STATUS_BYTES - 1) : -1;
    int why = errno;
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = '\0';
    errno = why;
    return n > 0;
}

/* umask(2) tells it only while it changes it. */
static mode_t umask_in(const char *status)
{
    const char *at = strstr(status, "\nUmask:");
    return at ? (mode_t)strtoul(at + 7, NULL, 8) : (mode_t)-1;
}

/* What no process gets back once it is lost. */
static digest rights_in(const char *status)
{
    static const char *const line[] = {
        "\nUid:", "\nGid:", "\nGroups:", "\nCapEff:", "\nSeccomp:", "\nSeccomp_filters:"};
    digest d = {0};
    for (size_t i = 0; i < sizeof line / sizeof *line; i++) {
        const char *at = strstr(status, line[i]);
        digest one = at ? digest_of(at, 1 + strcspn(at + 1, "\n")) : (digest){0};
        d.lo = d.lo * 31 + one.lo, d.hi = d.hi * 31 + one.hi;
    }
    return d;
}

/* ---- timers ---- */

static const int timers[WATCHED_TIMERS] = {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF};

/* -1: it goes off again and again, so that its time says nothing. */
static double seconds_left(int timer)
{
    struct itimerval v;
    if (getitimer(timer, &v) != 0) return 0;
    if (v.it_interval.tv_sec || v.it_interval.tv_usec) return -1;
    return (double)v.it_value.tv_sec + (double)v.it_value.tv_usec * 1e-6;
}

/* Numbers of what timer_create() made, where the kernel lists them. */
static int posix_timers(int id[POSIX_TIMERS])
{
    char text[STATUS_BYTES];
    int n = 0, fd = open("/proc/self/timers", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) close(fd);
    text[got > 0 ? got : 0] = '\0';
    for (const char *at = text; n < POSIX_TIMERS && (at = strstr(at, "ID: ")); at++) id[n++] = atoi(at + 4);
    return n;
}

/* ---- threads ---- */

/* Those that ran when no call was looked at: what is new since is of the calls that were. Some 10 us a call. */
static struct {
    pthread_mutex_t lock;
    pid_t tid[THREADS_MAX]; /* more are not told apart */
    size_t n;
} before = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void know_threads(void)
{
    pthread_mutex_lock(&before.lock);
    before.n = thread_list(before.tid, THREADS_MAX);
    pthread_mutex_unlock(&before.lock);
}

/* Lock held. How many of a plugin's threads are new, and the first one's plugin. *more: others are, which do not say
 * yet whose they are. */
static size_t new_threads(char id[PLACE_MAX], int *more)
{
    static pid_t now[THREADS_MAX];
    char one[PLACE_MAX];
    size_t n = thread_list(now, THREADS_MAX), found = 0;
    *more = 0;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < before.n && before.tid[k] != now[i]) k++;
        int plugins = k < before.n ? 0 : thread_owner(now[i], one, sizeof one);
        *more |= plugins < 0;
        if (plugins <= 0 || !process_state_is_watched(one)) continue;
        if (!found++) snprintf(id, PLACE_MAX, "%s", one);
    }
    return found;
}

static size_t count_all(void)
{
    pid_t tid[THREADS_MAX];
    return thread_list(tid, THREADS_MAX);
}

void process_state_take(process_state *s, const char *plugin, int count_threads)
{
    char status[STATUS_BYTES];
    s->watched = process_state_is_watched(plugin);
    s->lent = !s->watched && n_lender;
    if (!s->watched && !s->lent) return;
    const int first = atomic_fetch_add(&looked_at, 1) == 0;
    s->alone = atomic_fetch_add(s->lent ? &hosts : &running, 1) == 0;
    s->begun = s->lent ? atomic_load(&begun) : atomic_fetch_add(&begun, 1);
    s->beside = s->lent && atomic_load(&running) > 0;
    pthread_sigmask(SIG_BLOCK, NULL, &s->mask);
    for (int i = 0; i < WATCHED_SIGNALS; i++) sigaction(signals[i], NULL, &s->action[i]);
    if (stat(".", &s->folder) != 0) s->folder.st_ino = 0;
    for (int i = 0; i < STREAMS; i++) {
        if (fstat(i, &s->stream[i]) != 0) s->stream[i].st_ino = 0;
        s->flags[i] = fcntl(i, F_GETFL);
    }
    for (int i = 0; i < WATCHED_LIMITS; i++) getrlimit(limits[i], &s->limit[i]);
    s->has_status = read_status(status);
    s->umask = umask_in(status);
    s->rights = rights_in(status);
    s->priority = getpriority(PRIO_PROCESS, 0);
    s->own_locale = uselocale((locale_t)0);
    s->n_posix_timer = supervision ? 0 : posix_timers(s->posix_timer); /* kiln has none; a program with libkiln may */
    for (int i = 0; i < WATCHED_TIMERS; i++) s->timer[i] = seconds_left(timers[i]);
    s->began = clock_seconds();
    const char *locale = setlocale(LC_ALL, NULL);
    snprintf(s->locale, sizeof s->locale, "%s", locale ? locale : "C");
    s->threads = count_threads && !s->lent ? count_all() : 0; /* kiln's own nodes begin those of libraries */
    if (first && !s->threads) know_threads();
    s->environment = take_environment(s->alone && !s->beside);
}

typedef struct {
    const process_state *s;
    const char *node, *type, *plugin, *owner;   /* owner: of what was found, where that is known and another */
    void (*found)(void *arg, const char *what); /* NULL: a warning is */
    void *arg;
} blame;

__attribute__((format(printf, 2, 3))) static void say(const blame *b, const char *fmt, ...)
{
    char what[600];
    va_list args;
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    if (b->found) {
        b->found(b->arg, what);
        return;
    }
    const char *beside = b->s->alone ? "" : ", or one that ran beside it,";
    if (b->owner) {
        log_warn("node '%s' (%s)%s with code of plugin %s %s", b->node, b->type, beside, b->owner, what);
    } else if (b->s->lent) {
        char others[32] = "";
        if (n_lender > 1) snprintf(others, sizeof others, " or %zu more", n_lender - 1);
        log_warn("node '%s' (%s)%s with code of plugin %s%s %s", b->node, b->type, beside, lender[0], others, what);
    } else {
        log_warn("node '%s' (%s) of plugin %s%s %s", b->node, b->type, b->plugin, beside, what);
    }
}

static void compare_signals(const blame *b)
{
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    int same = 1;
    for (int i = 1; i < SIGRTMIN; i++) same &= sigismember(&mask, i) == sigismember(&b->s->mask, i);
    if (!same) {
        pthread_sigmask(SIG_SETMASK, &b->s->mask, NULL);
        say(b, "changed the signal mask of its thread; it was put back. Block signals in threads of your own alone");
    }
    for (int i = 0; i < WATCHED_SIGNALS; i++) {
        struct sigaction now;
        if (sigaction(signals[i], NULL, &now) != 0 || now.sa_handler == b->s->action[i].sa_handler) continue;
        if (b->s->action[i].sa_flags & (int)SA_RESETHAND || map_guard_is(&now)) continue;
        sigaction(signals[i], &b->s->action[i], NULL);
        say(b, "changed what SIG%s does; it was put back. A plugin handles no signals", sigabbrev_np(signals[i]));
    }
}

static int same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static void compare_folder(const blame *b)
{
    struct stat now;
    if (!b->s->folder.st_ino || (stat(".", &now) == 0 && same_file(&now, &b->s->folder))) return;
    int back = home >= 0 && fchdir(home) == 0;
    say(b, "changed the working folder of the process; it was %sput back. Open files by their path, or with openat()",
        back ? "" : "not ");
}

static void compare_streams(const blame *b)
{
    static const char *const name[STREAMS] = {"standard input", "standard output", "standard error"};
    for (int i = 0; i < STREAMS; i++) {
        struct stat now;
        if (!b->s->stream[i].st_ino || (fstat(i, &now) == 0 && same_file(&now, &b->s->stream[i]))) continue;
        int from = i == STDOUT_FILENO && printed >= 0 ? printed : stream[i];
        if (from >= 0) dup2(from, i);
        say(b, "closed or replaced %s (descriptor %d); it was put back. Close only what you have opened", name[i], i);
    }
    for (int i = 0; i < STREAMS; i++) { /* they stay so when this process has ended: a shell has them too */
        int now = fcntl(i, F_GETFL);
        if (now < 0 || b->s->flags[i] < 0 || now == b->s->flags[i] || fcntl(i, F_SETFL, b->s->flags[i]) != 0) continue;
        say(b, "changed the flags of %s (O_NONBLOCK?); they were put back", name[i]);
    }
}

static void compare_limits(const blame *b)
{
    static const char *const name[WATCHED_LIMITS] = {"open files", "the size of files", "address space",
                                                     "data",       "processor time",    "the stack",
                                                     "processes",  "locked memory"};
    for (int i = 0; i < WATCHED_LIMITS; i++) {
        struct rlimit now;
        if (getrlimit(limits[i], &now) != 0 || now.rlim_cur == b->s->limit[i].rlim_cur) continue;
        int back = setrlimit(limits[i], &b->s->limit[i]) == 0 ||
                   setrlimit(limits[i], &(struct rlimit){b->s->limit[i].rlim_cur, now.rlim_max}) == 0;
        if (!back) crash_report_give_up("lowered a limit of the process for good");
        say(b, "changed the limit on %s; it was %sput back", name[i], back ? "" : "not ");
    }
}

/* Copies that nobody but this file has, and the store's files: who closes them closes what is others' too, and no one
 * can open those again with the locks they had. */
static void compare_descriptors(const blame *b)
{
    int closed = home >= 0 && fcntl(home, F_GETFD) < 0;
    for (int i = 0; i < STREAMS; i++) closed |= stream[i] >= 0 && fcntl(stream[i], F_GETFD) < 0;
    if (closed) {
        home = -1;
        for (int i = 0; i < STREAMS; i++) stream[i] = -1;
    }
    closed |= descriptors_lost();
    if (!closed) return;
    crash_report_give_up("closed descriptors that it had not opened");
    say(b, "closed descriptors that it had not opened; close only your own");
}

/* ---- the environment ---- */

static size_t name_length(const char *variable) { return strcspn(variable, "="); }

/* The variable of that name among those that were kept; NULL: there was none. */
static const char *kept_variable(const char *variable)
{
    size_t n = name_length(variable);
    for (const char *at = environment_text; *at; at += strlen(at) + 1)
        if (strncmp(at, variable, n) == 0 && at[n] == '=') return at;
    return NULL;
}

static void note(char names[200], size_t *n, const char *variable)
{
    size_t used = strlen(names);
    if ((*n)++ < 3) snprintf(names + used, 200 - used, "%s%.60s", used ? ", " : "", variable);
}

/* Lock held. Sets what is another now, takes away what is new, and names them; *bad counts what could not be put back.
 */
static size_t put_environment_back(char names[200], int *bad)
{
    char name[1024];
    size_t n = 0;
    for (size_t i = 0; environ && environ[i];) {
        snprintf(name, sizeof name, "%.*s", (int)name_length(environ[i]), environ[i]);
        if (name_length(environ[i]) >= sizeof name || !strchr(environ[i], '=') || kept_variable(environ[i])) {
            i++;
            continue;
        }
        note(names, &n, name);
        if (unsetenv(name) != 0) (*bad)++, i++;
    }
    for (const char *at = environment_text; *at; at += strlen(at) + 1) {
        snprintf(name, sizeof name, "%.*s", (int)name_length(at), at);
        const char *now = at[strlen(name)] == '=' ? getenv(name) : at;
        const char *was = at + strlen(name) + 1;
        if (now == at || (now && strcmp(now, was) == 0)) continue;
        note(names, &n, name);
        *bad += setenv(name, was, 1) != 0;
    }
    return n;
}

static void compare_environment(const blame *b)
{
    char names[200] = "";
    int bad = 0;
    size_t n = 0;
    pthread_mutex_lock(&environment_lock);
    int same = digest_equal(environment_digest(), b->s->environment);
    if (!same && environment_text && digest_equal(environment_kept, b->s->environment)) {
        n = put_environment_back(names, &bad);
        keep_environment(environment_digest()); /* in another order, and so on */
    }
    pthread_mutex_unlock(&environment_lock);
    if (n)
        say(b,
            "changed the environment (%s%s); it was %sput back. Other threads read it meanwhile: hand settings on as "
            "arguments",
            names, n > 3 ? ", ..." : "", bad ? "not " : "");
}

/* What cannot be put back: no other node could work in such a process. */
static void compare_rights(const blame *b, int has_status, int why, digest rights)
{
    const char *what = NULL;
    if (b->s->has_status && !has_status)
        what = why == EMFILE || why == ENFILE ? "left no descriptor free"
               : why == ENOENT                ? "changed the root folder of the process"
                                              : "took from the process the right to open files";
    else if (has_status && b->s->has_status && !digest_equal(rights, b->s->rights))
        what = "changed the user, groups, capabilities or permitted system calls of the process";
    if (!what) return;
    crash_report_give_up(what);
    say(b, "%s", what);
}

static void compare_numbers(const blame *b)
{
    char status[STATUS_BYTES];
    int has_status = read_status(status), why = errno, priority = getpriority(PRIO_PROCESS, 0);
    compare_rights(b, has_status, why, rights_in(status));
    mode_t mask = umask_in(status);
    if (has_status && mask != b->s->umask && b->s->umask != (mode_t)-1) {
        umask(b->s->umask);
        say(b, "changed the umask from %03o to %03o; it was put back. Use fchmod() on the file", b->s->umask, mask);
    }
    if (priority != b->s->priority) {
        int back = setpriority(PRIO_PROCESS, 0, b->s->priority) == 0;
        say(b, "changed the priority of its thread from %d to %d; it was %sput back", b->s->priority, priority,
            back ? "" : "not ");
    }
    if (uselocale((locale_t)0) != b->s->own_locale) {
        uselocale(b->s->own_locale);
        say(b, "changed the locale of its thread with uselocale(); it was put back");
    }
    const char *locale = setlocale(LC_ALL, NULL);
    if (locale && strcmp(locale, b->s->locale) != 0) {
        say(b,
            "changed the locale to %.100s; it was put back. Numbers in files would get commas: use newlocale() and "
            "uselocale() in threads of your own",
            locale);
        setlocale(LC_ALL, b->s->locale);
    }
}

/* How many were running that were not, or were set anew; they are not any more. */
static int stop_timers(const process_state *was)
{
    int now[POSIX_TIMERS], n = posix_timers(now), left = 0;
    const double passed = clock_seconds() - was->began;
    for (int i = 0; i < n; i++) {
        int known = 0;
        for (int k = 0; k < was->n_posix_timer; k++) known |= was->posix_timer[k] == now[i];
        left += !known && syscall(SYS_timer_delete, now[i]) == 0;
    }
    for (int i = 0; i < WATCHED_TIMERS; i++) {
        double is = seconds_left(timers[i]), had = was->timer[i], should = had > passed ? had - passed : 0;
        if (had < 0 || (had > 0 ? is <= had && is > should - 1 : is == 0)) continue;
        struct itimerval v = {.it_value = {.tv_sec = (time_t)should, .tv_usec = had > 0}};
        left += setitimer(timers[i], &v, NULL) == 0;
    }
    return left;
}

static const char left_timer[] = "left a timer running (alarm(), setitimer(), timer_create()), whose signal would have "
                                 "ended the process; it was stopped";

static void compare_timers(const blame *b)
{
    if (stop_timers(b->s)) say(b, "%s", left_timer);
}

void process_state_loaded(const char *path)
{
    static const process_state none;
    if (supervision && stop_timers(&none)) log_warn("%s: loading it %s", path, left_timer);
}

static void print_lines(char *text, size_t n)
{
    for (char *end; n > 0; n -= (size_t)(end - text), text = end) {
        end = memchr(text, '\n', n);
        size_t length = end ? (size_t)(end - text) : n;
        print_text(stderr, "%.*s\n", (int)length, text);
        end = text + length + (end != NULL);
    }
}

/* What was written to standard output since the last look goes to standard error; said once a plugin. b NULL: of no
 * call. */
static void compare_output(const blame *b)
{
    struct stat now;
    char text[4096];
    if (printed < 0) return;
    fflush(stdout);
    off_t seen = atomic_load(&printed_seen);
    if (fstat(printed, &now) != 0 || now.st_size <= seen ||
        !atomic_compare_exchange_strong(&printed_seen, &seen, now.st_size))
        return;
    size_t which = b ? index_of(b->s->lent ? lender[0] : b->plugin) : PLUGINS_MAX;
    if (which < PLUGINS_MAX && (b->found || !atomic_exchange(&said_output[which], 1)))
        say(b, "wrote to standard output, which is for the paths of results; what it writes goes to standard error "
               "instead. Use "
               "host->log()");
    for (ssize_t n; seen < now.st_size && (n = pread(printed, text, sizeof text, seen)) > 0; seen += n)
        print_lines(text, (size_t)n);
}

void process_state_last_output(void) { compare_output(NULL); }

static void say_threads(const blame *b, size_t n)
{
    say(b, "left %zu thread%s running; join them before the call ends, or use host->parallel_for()", n,
        n == 1 ? "" : "s");
}

/* A thread that was told to end may take a moment. */
static void wait_a_little(void) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }

static void compare_all_threads(const blame *b)
{
    size_t now = 0;
    for (int i = 0; i < THREAD_WAITS && (now = count_all()) > b->s->threads; i++) wait_a_little();
    if (now > b->s->threads) say_threads(b, now - b->s->threads);
}

/* No other call is looked at. */
static void compare_threads(blame b)
{
    char owner[PLACE_MAX] = "";
    pthread_mutex_lock(&before.lock);
    int more = 0;
    size_t left = new_threads(owner, &more);
    for (int i = 0; i < THREAD_WAITS && (left || more) && left < FEW_THREADS; i++)
        wait_a_little(), left = new_threads(owner, &more);
    pthread_mutex_unlock(&before.lock);
    if (!left) return;
    if (b.s->lent || strcmp(owner, b.plugin) != 0) b.owner = owner;
    say_threads(&b, left);
}

static void put_back(const blame *b)
{
    compare_descriptors(b);
    compare_streams(b);
    compare_limits(b);
    compare_timers(b);
    compare_signals(b);
    compare_folder(b);
    compare_numbers(b);
    compare_environment(b);
    compare_output(b);
}

static void compare(blame b, const process_state *s)
{
    process_state was = *s;
    if (atomic_fetch_sub(s->lent ? &hosts : &running, 1) != 1) was.alone = 0;
    const int last = atomic_fetch_sub(&looked_at, 1) == 1;
    const int others = s->lent && (s->beside || atomic_load(&begun) != s->begun); /* which look for themselves */
    b.s = &was;
    if (!others) put_back(&b);
    if (s->threads)
        compare_all_threads(&b);
    else if (last && !b.found)
        compare_threads(b);
}

void process_state_compare(const process_state *s, const char *node, const char *type, const char *plugin)
{
    if (s->watched || s->lent) compare((blame){.node = node, .type = type, .plugin = plugin}, s);
}

void process_state_find(const process_state *s, const char *plugin, void (*found)(void *arg, const char *what),
                        void *arg)
{
    if (s->watched) compare((blame){.plugin = plugin, .found = found, .arg = arg}, s);
}
