/* supervisor.c - see supervisor.h. */
#include "run/supervisor.h"

#include "base/file.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/print.h"
#include "base/terminal.h"
#include "plugin/crash_report.h"
#include "plugin/process_state.h"
#include "plugin/supervised.h"
#include "run/supervisor_reach.h"
#include "run/supervisor_store.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RUN_FAILED = 1, INTERRUPTED = 130 };
enum {
    NAME_AFTER = 30,
    ENDING_SECONDS = 5,
    CRASHES_OF_A_TYPE = 8,
    UNKNOWN_MAX = 3,
    RESTARTS_MAX = 64,
    SPARED_MAX = 16
};
enum { STOPPED_SECONDS = 1, CONTINUED_MAX = 3 };
#define TICK 0.5 /* seconds */

typedef struct {
    const supervisor_setting *setting;
    pid_t child;
    sigset_t before;   /* the mask that the child gets back */
    int asked, signal; /* how often a signal asked to stop, and the last of them */
    int once;          /* what it reads cannot be read again */
    int input;         /* descriptor of what standard input held, or -1 */
    unsigned unknown;  /* ends that no node was found for */
    int crashed;       /* some attempt was */
    double silent[CALLS_MAX];
    unsigned signs[CALLS_MAX], order[CALLS_MAX];
    int named[CALLS_MAX];
    double idle, ending; /* seconds without any call, and since main() was about to return */
    int named_idle;
    int ended_silent; /* number of the call that was ended for it, or -1 */
    double stopped;   /* seconds that the child is, and this process is not */
    int continued;    /* how often it was made to go on */
    int hung;         /* it was ended because nothing happened outside of calls */
    uint64_t busy;    /* what the child had used when that was looked at last */
    uint32_t attempt; /* these three as the shared memory had them */
    int alone;
    uint64_t secret;
    struct {
        uint64_t row, node;
    } spared[SPARED_MAX]; /* kiln's own nodes that were called once more */
    size_t n_spared;
    int may_have_children; /* this process had none before, so whatever is left is the run's */
    struct {
        supervised_call call;
        const supervised_note *note;
    } blamed[RESTARTS_MAX + 1];
    size_t n_blamed;
} supervisor;

/* ---- what is read once ---- */

static void keep_input(supervisor *s, const char *path)
{
    struct stat st;
    int fd = strcmp(path, "-") == 0 ? STDIN_FILENO : file_descriptor_of(path);
    if (fd < 0) {
        if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) s->once = 1;
        return;
    }
    if (lseek(fd, 0, SEEK_CUR) >= 0) return; /* a file */
    if (!file_keep_pipe(fd)) s->once = 1;
    if (fd == STDIN_FILENO) s->input = fd;
}

/* ---- the child ---- */

static void become_child(supervisor *s, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(RUN_FAILED);
    sigprocmask(SIG_SETMASK, &s->before, NULL);
    if (s->input >= 0) lseek(s->input, 0, SEEK_SET);
    supervisor_hide(parent);
    crash_report_watched();
    process_state_keep_output();
    supervised_attempt_begin();
}

static uint64_t secret; /* of this run; the child has it from the fork */

void supervisor_finished(int status)
{
    if (!supervision) return;
    process_state_last_output();
    supervision->files = supervisor_files();
    atomic_store(&supervision->status, status);
    atomic_store(&supervision->finished, secret);
}

static int has_finished(void) { return atomic_load(&supervision->finished) == secret; }

/* ---- while it runs ---- */

static void clear_line(void)
{
    if (terminal_moves()) print_raw(stderr, "\r\033[K");
}

/* Of calls within each other on one thread the last is the one that runs. */
static int is_innermost(int i)
{
    const supervised_call *c = &supervision->calls[i];
    for (int k = 0; k < CALLS_MAX; k++) {
        const supervised_call *o = &supervision->calls[k];
        if (k != i && atomic_load(&o->state) == CALL_RUNS && o->thread == c->thread && o->order > c->order) return 0;
    }
    return 1;
}

static int runs(int i) { return atomic_load(&supervision->calls[i].state) == CALL_RUNS && is_innermost(i); }

/* The shared names end somewhere, whatever has become of them. */
static const char *bounded(char to[PLACE_MAX], const char from[PLACE_MAX])
{
    memcpy(to, from, PLACE_MAX);
    to[PLACE_MAX - 1] = '\0';
    return to;
}

static void name_silent(const supervisor *s, int i, double after)
{
    const supervised_call *c = &supervision->calls[i];
    char name[PLACE_MAX], type[PLACE_MAX], plugin[PLACE_MAX], limit[100] = "";
    if (s->setting->silent_limit > 0)
        snprintf(limit, sizeof limit, "; it is ended after %.0f s (--node-timeout)", s->setting->silent_limit);
    clear_line();
    print_text(stderr, "kiln: node '%s' (%s) of plugin %s has given no sign of life for %.0f s%s\n",
               bounded(name, c->name), bounded(type, c->type), bounded(plugin, c->plugin), after, limit);
    print_flush(stderr);
}

/* Progress, a look at cancellation and every use of an ability are signs of life. */
static void look_at_calls(supervisor *s, double seconds)
{
    double limit = s->setting->silent_limit, name_after = limit > 0 && limit < 2 * NAME_AFTER ? limit / 2 : NAME_AFTER;
    for (int i = 0; i < CALLS_MAX && s->ended_silent < 0; i++) {
        const supervised_call *c = &supervision->calls[i];
        unsigned signs = atomic_load(&c->signs);
        if (!runs(i) || signs != s->signs[i] || c->order != s->order[i]) {
            s->silent[i] = 0, s->named[i] = 0, s->signs[i] = signs, s->order[i] = c->order;
            continue;
        }
        s->silent[i] += seconds;
        if (s->silent[i] >= name_after && !s->named[i]) s->named[i] = 1, name_silent(s, i, s->silent[i]);
        if (limit > 0 && s->silent[i] >= limit) s->ended_silent = i;
    }
}

/* A hang where no call is: in the release of an object, or in what runs at the end of the process. 1: it is ended. */
static int look_outside_calls(supervisor *s, double seconds)
{
    int any = 0;
    for (int i = 0; i < CALLS_MAX; i++) any |= atomic_load(&supervision->calls[i].state) == CALL_RUNS;
    s->idle = any ? 0 : s->idle + seconds;
    if (any) s->named_idle = 0;
    if (has_finished() && (s->ending += seconds) > ENDING_SECONDS) {
        clear_line();
        print_text(stderr, "kiln: error: a plugin keeps the process from ending; it was ended after %d s\n",
                   ENDING_SECONDS);
        return 1;
    }
    const double limit = s->setting->silent_limit, after = limit > 0 && limit < 2 * NAME_AFTER ? limit / 2 : NAME_AFTER;
    if (s->idle < after || has_finished()) return 0;
    const uint64_t busy = supervisor_busy(s->child);
    if (busy != s->busy) s->busy = busy, s->idle = s->named_idle ? after : s->idle;
    if (!s->named_idle) {
        s->named_idle = 1;
        clear_line();
        print_text(stderr, "kiln: no node has run for %.0f s; large files are read, or a plugin does not come back\n",
                   after);
    }
    return s->hung = limit > 0 && s->idle >= limit;
}

/* A child that is stopped alone (by Ctrl-Z both are) was stopped by a plugin. 1: it has to be ended. */
static int look_at_stop(supervisor *s, double seconds)
{
    if ((s->stopped += seconds) < STOPPED_SECONDS) return 0;
    s->stopped = 0;
    clear_line();
    if (s->continued++ == CONTINUED_MAX) return 1;
    print_text(stderr, "kiln: the process of the run was stopped (SIGSTOP), and this one was not; it goes on\n");
    kill(s->child, SIGCONT);
    return 0;
}

/* The child's handler removes unfinished files first; who blocks the signal is killed. */
static void end_child(pid_t child)
{
    kill(child, SIGABRT);
    kill(child, SIGCONT);
    for (int i = 0; i < 100; i++) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child) return;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    kill(child, SIGKILL);
}

/* A terminal signals both processes, and so does who signals the group: then the child has had it. */
static void pass_on(supervisor *s, const siginfo_t *info)
{
    s->asked++;
    s->signal = info->si_signo;
    if (info->si_code == SI_KERNEL && getpgid(s->child) == getpgrp()) return;
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    if (atomic_load(&supervision->asked) < s->asked) kill(s->child, info->si_signo);
}

/* Waits for the end of the child; its wait status. */
static int wait_for_child(supervisor *s, const sigset_t *waited)
{
    int status = 0;
    double last = clock_seconds();
    for (;;) {
        siginfo_t info = {0}, state = {0};
        struct timespec tick = {.tv_nsec = (long)(TICK * 1e9)};
        int got = sigtimedwait(waited, &info, &tick);
        if (got > 0 && got != SIGCHLD) pass_on(s, &info);
        pid_t ended = waitpid(s->child, &status, WNOHANG);
        if (ended == s->child) return status;
        if (ended < 0 && errno == ECHILD) return 0;
        double now = clock_seconds(), passed = now - last;
        last = now;
        if (passed > 2 * TICK) passed = 2 * TICK; /* this process may have been stopped itself */
        int is_stopped = waitid(P_PID, (id_t)s->child, &state, WSTOPPED | WNOHANG | WNOWAIT) == 0 && state.si_pid;
        int ends = is_stopped && look_at_stop(s, passed);
        if (!is_stopped) s->stopped = 0, look_at_calls(s, passed), ends = look_outside_calls(s, passed);
        if (ends || s->ended_silent >= 0) {
            end_child(s->child);
            while (waitpid(s->child, &status, 0) < 0 && errno == EINTR) continue;
            return status;
        }
    }
}

/* ---- whose fault it was ---- */

enum { NOBODY = -1, SEVERAL = -2 };

static int call_of_plugin(const char *id)
{
    int found = NOBODY;
    for (int i = 0; i < CALLS_MAX; i++)
        if (runs(i) && strncmp(supervision->calls[i].plugin, id, PLACE_MAX) == 0) found = found == NOBODY ? i : SEVERAL;
    return found;
}

static int only_call(void)
{
    int found = NOBODY;
    for (int i = 0; i < CALLS_MAX; i++)
        if (runs(i)) found = found == NOBODY ? i : SEVERAL;
    return found;
}

/* A call's number, NOBODY or SEVERAL. On a thread of a pool, or one that a plugin has started, no call runs; then the
 * plugin on its stack tells. */
static int culprit(const supervisor *s)
{
    const supervised_page *p = supervision;
    if (s->ended_silent >= 0) return s->ended_silent;
    if (s->hung) return NOBODY;
    if (atomic_load(&p->crashed) && p->call >= 0 && p->call < CALLS_MAX) return p->call;
    if (atomic_load(&p->crashed) && p->culprit[0]) {
        int found = call_of_plugin(p->culprit);
        return found >= 0 ? found : NOBODY;
    }
    return only_call();
}

/* "crashed with SIGSEGV in its run(), at name.so+0x1234". */
static void say_end(const supervisor *s, int wait_status, const supervised_call *c, char *text, size_t capacity)
{
    const supervised_page *p = supervision;
    char in[40] = "", how[sizeof p->how], place[sizeof p->place], plugin[PLACE_MAX], whose[PLACE_MAX + 20] = "";
    memcpy(how, p->how, sizeof how), how[sizeof how - 1] = '\0';
    memcpy(place, p->place, sizeof place), place[sizeof place - 1] = '\0';
    bounded(plugin, p->culprit);
    int crashed = atomic_load(&p->crashed);
    if (c) snprintf(in, sizeof in, " in its %.15s()", strcmp(c->function, "estimate") == 0 ? "run" : c->function);
    if (crashed && c && plugin[0] && strncmp(plugin, c->plugin, PLACE_MAX) != 0)
        snprintf(whose, sizeof whose, " of plugin %s", plugin);
    if (!crashed) place[0] = '\0';
    const char *at = place[0] ? ", at " : "";
    if (s->ended_silent >= 0)
        snprintf(
            text, capacity,
            "gave no sign of life for %.0f s%s and was ended; a node that takes long calls host->progress() now and "
            "then, and --node-timeout allows more",
            s->setting->silent_limit, in);
    else if (s->hung)
        snprintf(text, capacity, "did nothing for %.0f s and was ended", s->setting->silent_limit);
    else if (crashed && p->signal)
        snprintf(text, capacity, "crashed with %s%s%s%s%s%s", how, p->overflow ? " (stack overflow)" : "", in, at,
                 place, whose);
    else if (crashed && p->unfit)
        snprintf(text, capacity, "%s%s; nothing else can run in such a process, so it was ended", how, in);
    else if (crashed)
        snprintf(text, capacity, "ended the process with %s%s%s%s%s; a plugin must never exit", how, in, at, place,
                 whose);
    else if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL)
        snprintf(
            text, capacity,
            "was killed%s (SIGKILL), as the system does when memory runs out; give --memory, or less to do at once",
            in);
    else if (WIFSIGNALED(wait_status))
        snprintf(text, capacity, "was ended by SIG%s%s", sigabbrev_np(WTERMSIG(wait_status)), in);
    else
        snprintf(text, capacity,
                 "ended the process with status %d%s, past every handler (_exit()); a plugin must never exit",
                 WEXITSTATUS(wait_status), in);
}

static unsigned crashes_of(uint64_t type)
{
    unsigned n = 0;
    for (const supervised_note *i = supervised_next(NULL); i; i = supervised_next(i))
        n += i->kind == NOTE_CRASHED && i->index == 0 && i->detail == type;
    return n;
}

static const supervised_note *note(supervised_note n, const char *text) { return supervised_note_add(n, text); }

/* Notes that this call is not to be made again. 0: there is no room. */
static int blame_call(supervisor *s, const supervised_call *c, const char *text)
{
    char whole[1000], type[PLACE_MAX];
    int is_run = strncmp(c->function, "run", sizeof c->function) == 0;
    uint64_t of = supervised_name(bounded(type, c->type));
    const supervised_note *n =
        is_run ? note((supervised_note){.kind = NOTE_CRASHED, .row = c->row, .node = c->node, .detail = of}, text)
               : note((supervised_note){.kind = NOTE_FUNCTION, .node = supervised_function_of(c->node, c->function)},
                      text);
    if (!n) return 0;
    memcpy(&s->blamed[s->n_blamed].call, c, sizeof *c);
    s->blamed[s->n_blamed++].note = n;
    if (is_run && (c->key.lo | c->key.hi) &&
        !note((supervised_note){.kind = NOTE_KEY, .node = c->key.lo, .index = c->key.hi}, text))
        return 0;
    if (!is_run || crashes_of(of) < CRASHES_OF_A_TYPE) return 1;
    snprintf(whole, sizeof whole,
             "nodes of this type have ended %d processes of this run and are not called any more; the "
             "last %s",
             CRASHES_OF_A_TYPE, text);
    return note((supervised_note){.kind = NOTE_TYPE, .node = of}, whole) != NULL;
}

/* The last word about an end that no further process can report. */
static void say_now(const supervised_call *c, const char *text)
{
    char name[PLACE_MAX], type[PLACE_MAX], plugin[PLACE_MAX];
    if (c && c->type[0])
        print_text(stderr, "kiln: error: node '%s' (%s): plugin %s: %s\n", bounded(name, c->name),
                   bounded(type, c->type), bounded(plugin, c->plugin), text);
    else if (c)
        print_text(stderr, "kiln: error: %s %s\n", bounded(name, c->name), text);
    else if (supervision->culprit[0])
        print_text(stderr, "kiln: error: plugin %s: outside of its nodes: %s\n", bounded(plugin, supervision->culprit),
                   text);
    else
        print_text(stderr, "kiln: error: outside of any node, kiln or a thread that a plugin left behind %s\n", text);
}

/* Whether a node of kiln's own may have met what a plugin has left behind (a timer, a thread, a damaged heap): once
 * each it is called again, in a process where that plugin is not. */
static int spare(supervisor *s, const supervised_call *c, const char *text)
{
    char name[PLACE_MAX], type[PLACE_MAX];
    if (c->foreign || s->n_spared == SPARED_MAX) return 0;
    for (size_t i = 0; i < s->n_spared; i++)
        if (s->spared[i].row == c->row && s->spared[i].node == c->node) return 0;
    s->spared[s->n_spared].row = c->row, s->spared[s->n_spared++].node = c->node;
    print_text(
        stderr,
        "kiln: error: node '%s' (%s), which is kiln's own, %s; a plugin that ran before it in the same process may "
        "have caused that, so it runs once more in a new one\n",
        bounded(name, c->name), bounded(type, c->type), text);
    return 1;
}

/* 1: the run is begun again. */
static int judge(supervisor *s, int wait_status)
{
    supervised_page *p = supervision;
    char text[900];
    int i = culprit(s), crashed = atomic_load(&p->crashed), by_plugin = crashed && p->culprit[0];
    const supervised_call *c = i >= 0 ? &p->calls[i] : NULL;
    int again = s->setting->executes && !s->once && !s->asked && s->attempt < RESTARTS_MAX;
    s->crashed = 1;
    clear_line();
    say_end(s, wait_status, c, text, sizeof text);
    if (i == SEVERAL && again && !s->alone) {
        print_text(stderr, "kiln: error: one of several nodes that ran %s; now they run one by one\n", text);
        return p->alone = s->alone = 1;
    }
    if (c && again && spare(s, c, text)) return 1;
    if (c && again && blame_call(s, c, text)) return 1;
    if (!c && by_plugin && again && s->unknown++ < UNKNOWN_MAX) {
        char whole[1000], plugin[PLACE_MAX];
        say_now(NULL, text);
        snprintf(whole, sizeof whole, "it is not called any more, since outside of its nodes it %s", text);
        return note((supervised_note){.kind = NOTE_PLUGIN, .node = supervised_name(bounded(plugin, p->culprit))},
                    whole) != NULL;
    }
    if (!c) say_now(NULL, text);
    if (!c && again && s->unknown++ < UNKNOWN_MAX) return 1;
    if (c) say_now(c, text);
    if (s->attempt >= RESTARTS_MAX)
        print_text(stderr, "kiln: error: %d processes of this run were ended by plugins; what is left is not run\n",
                   RESTARTS_MAX);
    return 0;
}

/* Failures that no process has reported: of nodes that the last one had no more use for. */
static void say_the_rest(const supervisor *s)
{
    for (size_t i = 0; i < s->n_blamed; i++)
        if (!atomic_load(&s->blamed[i].note->said)) say_now(&s->blamed[i].call, s->blamed[i].note->text);
}

/* ---- the whole ---- */

static void forget_attempt(supervisor *s)
{
    supervised_page *p = supervision;
    for (int i = 0; i < CALLS_MAX; i++) {
        atomic_store(&p->calls[i].state, CALL_FREE);
        s->silent[i] = 0, s->named[i] = 0;
    }
    atomic_store(&p->crashed, 0);
    p->unfit = 0;
    s->idle = s->ending = s->stopped = 0, s->named_idle = s->hung = 0;
    atomic_store(&p->finished, 0);
    p->culprit[0] = p->place[0] = '\0';
    s->ended_silent = -1;
}

/* Ends as the child did. */
static int die_alike(int signal_number, const supervisor *s)
{
    supervisor_store_remove();
    signal(signal_number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &s->before, NULL);
    raise(signal_number);
    return 128 + signal_number;
}

static int is_request(int number) { return number == SIGINT || number == SIGTERM || number == SIGHUP; }

/* 1: it was begun again; 0: *status. */
static int after_child(supervisor *s, int wait_status, int *status)
{
    supervised_page *p = supervision;
    int by = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
    *status = RUN_FAILED;
    if (p->whole != s->secret) {
        print_text(stderr,
                   "kiln: error: a plugin has written over what this process and the run share; what was finished "
                   "before is in the cache, and the same command goes on from there\n");
        return 0;
    }
    if (has_finished()) {
        *status = atomic_load(&p->status);
        if (*status == 0 && !by) *status = WEXITSTATUS(wait_status); /* a sanitizer's last word */
        if (by && s->ending < ENDING_SECONDS) {
            char text[900];
            say_end(s, wait_status, NULL, text, sizeof text);
            say_now(NULL, text);
        }
        if (by && *status == 0) *status = RUN_FAILED;
        if (!digest_equal(supervisor_files(), p->files)) {
            print_text(stderr,
                       "kiln: error: while the process of the run ended, a file that it had written was changed or "
                       "taken away; a plugin has asked to be called then (atexit()). Run it again: what was "
                       "finished is in the cache\n");
            *status = RUN_FAILED;
        }
        say_the_rest(s);
        if (*status == 0 && s->crashed) *status = RUN_FAILED;
        return 0;
    }
    if (atomic_load(&p->ended_at_once)) return *status = INTERRUPTED, 0;
    if (is_request(by) && s->asked) return *status = die_alike(by, s), 0;
    if (atomic_load(&p->unwatched)) return *status = by ? die_alike(by, s) : WEXITSTATUS(wait_status), 0;
    if (judge(s, wait_status)) return p->attempt = ++s->attempt, 1;
    if (s->asked) *status = INTERRUPTED;
    return 0;
}

static void watched_signals(sigset_t *set)
{
    static const int number[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
    struct sigaction now;
    sigemptyset(set);
    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++) /* nohup(1) has SIGHUP ignored, and that stays */
        if (number[i] == SIGCHLD || (sigaction(number[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN))
            sigaddset(set, number[i]);
}

static int prepare(supervisor *s, sigset_t *waited)
{
    if (!supervised_begin()) return 0;
    if (getrandom(&supervision->entropy, sizeof supervision->entropy, 0) != sizeof supervision->entropy)
        return supervised_end(), 0;
    supervision->entropy |= 1;
    if (getrandom(&secret, sizeof secret, 0) != sizeof secret) return supervised_end(), 0;
    supervision->whole = s->secret = secret |= UINT64_C(1) << 63;
    s->may_have_children = supervisor_adopt();
    for (unsigned i = 0; i < s->setting->n_read; i++) keep_input(s, s->setting->read[i]);
    if (s->setting->keeps_nothing && s->setting->executes)
        supervisor_store_make(supervision->store, sizeof supervision->store);
    watched_signals(waited);
    return sigprocmask(SIG_BLOCK, waited, &s->before) == 0 || (supervised_end(), 0);
}

int supervisor_begin(const supervisor_setting *setting, int *status)
{
    static supervisor s; /* one a process */
    s = (supervisor){.setting = setting, .input = -1, .ended_silent = -1};
    sigset_t waited;
    if (!prepare(&s, &waited)) return 1;
    pid_t parent = getpid();
    int again;
    do {
        forget_attempt(&s);
        fflush(NULL);
        s.child = fork();
        if (s.child == 0) return become_child(&s, parent), 1;
        if (s.child < 0) {
            log_warn("no second process (%s), so a plugin that crashes ends the run", strerror(errno));
            sigprocmask(SIG_SETMASK, &s.before, NULL);
            supervised_end();
            return 1;
        }
        int ended = wait_for_child(&s, &waited);
        if (s.may_have_children) supervisor_end_helpers();
        again = after_child(&s, ended, status);
    } while (again);
    supervisor_store_remove();
    sigprocmask(SIG_SETMASK, &s.before, NULL);
    supervised_end();
    return 0;
}
