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
#include "run/supervisor_messages.h"

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
enum {
    IDLE_LEAST = 3,
    FILES_TIMES = 10, /* large models are read for their keys */
    STOPPED_SECONDS = 1,
    CONTINUED_MAX = 3
};
enum { MUCH = 128 << 10 };
#define TICK 0.5 /* seconds */
#define BUSY_TICK 0.01

/* What a process left in the shared memory when it ended. */
typedef struct {
    supervised_call call[CALLS_MAX];
    int crashed, signal, overflow, unfit, of; /* of: the call that did it, or -1 */
    char how[100], place[300], culprit[PLACE_MAX];
    int ended_at_once, unwatched;
} last_words;

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
    double calm, still;  /* those of `idle` since it has read or written, and since it has computed too */
    used_so_far used;    /* what it had used when that was looked at last */
    int cut;             /* it has closed the pipe */
    int ended_here;      /* this process ended it, and it had not crashed before */
    int named_idle;
    int ended_silent; /* number of the call that was ended for it, or -1 */
    double stopped;   /* seconds that the child is, and this process is not */
    int continued;    /* how often it was made to go on */
    int hung;         /* it was ended because nothing happened outside of calls */
    unsigned alive;   /* signs of life outside of calls when they were looked at last */
    uint32_t attempt; /* what the shared memory begins with */
    int alone, takes_part;
    double began;
    uint64_t entropy, secret;
    char store[512];
    size_t total;
    supervisor_messages messages; /* what the child said through the pipe */
    last_words last;
    int believed; /* the shared memory of the child that has ended was as kiln wrote it */
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
    /* One plugin after the other, when it cannot be seen which one ends processes. */
    known_plugin *turn[MESSAGE_PLUGINS];
    size_t n_turn, at_turn; /* at_turn 0: without any of them; i: with turn[i - 1] alone */
    int in_turns, was_in_turns;
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

static void become_child(supervisor *s, pid_t parent, int line)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(RUN_FAILED);
    sigprocmask(SIG_SETMASK, &s->before, NULL);
    if (s->input >= 0) lseek(s->input, 0, SEEK_SET);
    messages_close(&s->messages);
    supervised_line_open(line, s->secret);
    supervisor_hide(parent);
    crash_report_watched();
    process_state_keep_output();
    supervised_attempt_begin();
}

void supervisor_finished(int status)
{
    if (!supervision) return;
    process_state_last_output();
    const message_end end = {.status = status, .files = supervisor_files()};
    supervised_send(MESSAGE_END, &end, sizeof end, NULL, 0);
}

/* ---- while it runs ---- */

static int is_whole(const supervisor *s)
{
    const supervised_page *p = supervision;
    return p->whole == s->secret && p->whole_calls == s->secret && p->whole_end == s->secret;
}

static void clear_line(void)
{
    if (terminal_moves()) print_raw(stderr, "\r\033[K");
}

/* Of calls within each other on one thread the last is the one that runs. */
static int is_innermost(const supervised_call *calls, int i)
{
    const supervised_call *c = &calls[i];
    for (int k = 0; k < CALLS_MAX; k++) {
        const supervised_call *o = &calls[k];
        if (k != i && atomic_load(&o->state) == CALL_RUNS && o->thread == c->thread && o->order > c->order) return 0;
    }
    return 1;
}

static int runs(const supervised_call *calls, int i)
{
    return atomic_load(&calls[i].state) == CALL_RUNS && is_innermost(calls, i);
}

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
        if (!runs(supervision->calls, i) || signs != s->signs[i] || c->order != s->order[i]) {
            s->silent[i] = 0, s->named[i] = 0, s->signs[i] = signs, s->order[i] = c->order;
            continue;
        }
        s->silent[i] += seconds;
        if (s->silent[i] >= name_after && !s->named[i]) s->named[i] = 1, name_silent(s, i, s->silent[i]);
        if (limit > 0 && s->silent[i] >= limit) s->ended_silent = i;
    }
}

/* A hang where no call is: in the release of an object, in a lock that a plugin's thread holds, or in what runs at the
 * end of the process. Who computes there has twice the time, and who reads or writes has more: kiln may be it. 1: it is
 * ended. */
static int look_outside_calls(supervisor *s, double seconds)
{
    int any = 0;
    for (int i = 0; i < CALLS_MAX; i++) any |= atomic_load(&supervision->calls[i].state) == CALL_RUNS;
    const unsigned alive = atomic_load(&supervision->alive) + (unsigned)s->messages.n_note;
    if (any || alive != s->alive) s->alive = alive, s->idle = s->calm = s->still = 0, s->named_idle = 0;
    s->idle += seconds, s->calm += seconds, s->still += seconds;
    if (s->messages.finished && (s->ending += seconds) > ENDING_SECONDS) {
        clear_line();
        print_text(stderr, "kiln: error: a plugin keeps the process from ending; it was ended after %d s\n",
                   ENDING_SECONDS);
        return 1;
    }
    double limit = s->setting->silent_limit;
    if (limit > 0 && limit < IDLE_LEAST) limit = IDLE_LEAST; /* to load plugins takes that long on a busy machine */
    const double after = limit > 0 && limit < 2 * NAME_AFTER ? limit / 2 : NAME_AFTER;
    if (s->idle < after || s->messages.finished) return 0;
    const used_so_far used = supervisor_used(s->child);
    if (used.files != s->used.files) s->calm = s->still = 0;
    if (used.processor != s->used.processor) s->still = 0;
    s->used = used;
    if (!s->named_idle) {
        s->named_idle = 1;
        clear_line();
        print_text(stderr, "kiln: no node has run for %.0f s; large files are read, or a plugin does not come back\n",
                   after);
    }
    return s->hung = limit > 0 && (s->still >= limit || s->calm >= 2 * limit || s->idle >= FILES_TIMES * limit);
}

/* What this process needs to go on was written over, or the pipe was closed: the child is of no use any more. */
static int is_ruined(supervisor *s)
{
    siginfo_t info = {0};
    if (!is_whole(s) || s->messages.broken) return 1;
    if (!s->messages.closed) return 0;
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* it closes the pipe when it ends, too */
    return s->cut = waitid(P_PID, (id_t)s->child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
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
    int much = 0; /* it has sent so much that the pipe may soon be full */
    for (;;) {
        siginfo_t info = {0}, state = {0};
        struct timespec tick = {.tv_nsec = (long)((much ? BUSY_TICK : TICK) * 1e9)};
        int got = sigtimedwait(waited, &info, &tick);
        if (got > 0 && got != SIGCHLD) pass_on(s, &info);
        pid_t ended = waitpid(s->child, &status, WNOHANG);
        if (ended == s->child) return status;
        if (ended < 0 && errno == ECHILD) return 0;
        double now = clock_seconds(), passed = now - last;
        last = now;
        if (passed > 2 * TICK) passed = 2 * TICK; /* this process may have been stopped itself */
        much = messages_read(&s->messages) > MUCH;
        int is_stopped = waitid(P_PID, (id_t)s->child, &state, WSTOPPED | WNOHANG | WNOWAIT) == 0 && state.si_pid;
        int ends = is_stopped && look_at_stop(s, passed);
        if (!is_stopped) s->stopped = 0, look_at_calls(s, passed), ends = look_outside_calls(s, passed);
        if (ends || s->ended_silent >= 0 || is_ruined(s)) {
            s->ended_here = !atomic_load(&supervision->crashed);
            end_child(s->child);
            while (waitpid(s->child, &status, 0) < 0 && errno == EINTR) continue;
            return status;
        }
    }
}

/* ---- whose fault it was ---- */

enum { NOBODY = -1, SEVERAL = -2 };

static int call_of_plugin(const supervisor *s, const char *id)
{
    int found = NOBODY;
    for (int i = 0; i < CALLS_MAX; i++)
        if (runs(s->last.call, i) && strncmp(s->last.call[i].plugin, id, PLACE_MAX) == 0)
            found = found == NOBODY ? i : SEVERAL;
    return found;
}

static int only_call(const supervisor *s)
{
    int found = NOBODY;
    for (int i = 0; i < CALLS_MAX; i++)
        if (runs(s->last.call, i)) found = found == NOBODY ? i : SEVERAL;
    return found;
}

/* A call's number, NOBODY or SEVERAL. On a thread of a pool, or one that a plugin has started, no call runs; then the
 * plugin on its stack tells. */
static int culprit(const supervisor *s)
{
    const last_words *l = &s->last;
    if (s->believed && s->ended_silent >= 0) return s->ended_silent;
    if (s->hung) return NOBODY;
    if (l->crashed && l->of >= 0 && l->of < CALLS_MAX) return l->of;
    if (l->crashed && l->culprit[0]) {
        int found = call_of_plugin(s, l->culprit);
        return found >= 0 ? found : NOBODY;
    }
    return only_call(s);
}

/* "crashed with SIGSEGV in its run(), at name.so+0x1234". */
static void say_end(const supervisor *s, int wait_status, const supervised_call *c, char *text, size_t capacity)
{
    const last_words *l = &s->last;
    char in[40] = "", whose[PLACE_MAX + 20] = "";
    int crashed = l->crashed;
    if (c) snprintf(in, sizeof in, " in its %.15s()", strcmp(c->function, "estimate") == 0 ? "run" : c->function);
    if (crashed && c && l->culprit[0] && strncmp(l->culprit, c->plugin, PLACE_MAX) != 0)
        snprintf(whose, sizeof whose, " of plugin %s", l->culprit);
    const char *at = l->place[0] ? ", at " : "";
    if (!s->believed || s->messages.broken) {
        snprintf(text, capacity, "wrote over what the watching process shares with it%s; such a process is ended", in);
        return;
    }
    if (s->ended_silent >= 0)
        snprintf(
            text, capacity,
            "gave no sign of life for %.0f s%s and was ended; a node that takes long calls host->progress() now and "
            "then, and --node-timeout allows more",
            s->setting->silent_limit, in);
    else if (s->hung)
        snprintf(text, capacity, "%s for %.0f s and was ended",
                 s->still < s->idle ? "did not come back" : "did nothing", s->idle);
    else if (crashed && l->signal)
        snprintf(text, capacity, "crashed with %s%s%s%s%s%s", l->how, l->overflow ? " (stack overflow)" : "", in, at,
                 l->place, whose);
    else if (crashed && l->unfit)
        snprintf(text, capacity, "%s%s; nothing else can run in such a process, so it was ended", l->how, in);
    else if (crashed)
        snprintf(text, capacity, "ended the process with %s%s%s%s%s; a plugin must never exit", l->how, in, at,
                 l->place, whose);
    else if (s->cut)
        snprintf(text, capacity, "closed the pipe to the watching process%s; such a process is ended", in);
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

static const supervised_note *note(supervisor *s, supervised_note n, const char *text)
{
    const supervised_note *kept = supervised_note_add(n, text);
    return kept && messages_keep(&s->messages, kept) ? kept : NULL;
}

/* Notes that this call is not to be made again. 0: there is no room. */
static int blame_call(supervisor *s, const supervised_call *c, const char *text)
{
    char whole[1000], type[PLACE_MAX];
    int is_run = strncmp(c->function, "run", sizeof c->function) == 0;
    uint64_t of = supervised_name(bounded(type, c->type));
    const supervised_note *n =
        is_run ? note(s, (supervised_note){.kind = NOTE_CRASHED, .row = c->row, .node = c->node, .detail = of}, text)
               : note(s, (supervised_note){.kind = NOTE_FUNCTION, .node = supervised_function_of(c->node, c->function)},
                      text);
    if (!n) return 0;
    memcpy(&s->blamed[s->n_blamed].call, c, sizeof *c);
    s->blamed[s->n_blamed++].note = n;
    if (is_run && (c->key.lo | c->key.hi) &&
        !note(s, (supervised_note){.kind = NOTE_KEY, .node = c->key.lo, .index = c->key.hi}, text))
        return 0;
    if (!is_run || crashes_of(of) < CRASHES_OF_A_TYPE) return 1;
    snprintf(whole, sizeof whole,
             "nodes of this type have ended %d processes of this run and are not called any more; the "
             "last %s",
             CRASHES_OF_A_TYPE, text);
    return note(s, (supervised_note){.kind = NOTE_TYPE, .node = of}, whole) != NULL;
}

/* The last word about an end that no further process can report. `outside`: id of the plugin, or "". */
static void say_now(const supervised_call *c, const char *outside, const char *text)
{
    char name[PLACE_MAX], type[PLACE_MAX], plugin[PLACE_MAX];
    if (c && c->type[0])
        print_text(stderr, "kiln: error: node '%s' (%s): plugin %s: %s\n", bounded(name, c->name),
                   bounded(type, c->type), bounded(plugin, c->plugin), text);
    else if (c)
        print_text(stderr, "kiln: error: %s %s\n", bounded(name, c->name), text);
    else if (outside && outside[0])
        print_text(stderr, "kiln: error: plugin %s: outside of its nodes: %s\n", outside, text);
    else
        print_text(stderr, "kiln: error: outside of any node, kiln or a thread that a plugin left behind %s\n", text);
}

/* Whether a node or plugin of kiln's own may have met what a plugin has left behind (a timer, a thread, a damaged
 * heap): once each it is called again, in a new process. */
static int spare(supervisor *s, const supervised_call *c, const char *text)
{
    char name[PLACE_MAX], type[PLACE_MAX];
    if (c->foreign || s->n_spared == SPARED_MAX) return 0;
    for (size_t i = 0; i < s->n_spared; i++)
        if (s->spared[i].row == c->row && s->spared[i].node == c->node) return 0;
    s->spared[s->n_spared].row = c->row, s->spared[s->n_spared++].node = c->node;
    if (c->type[0])
        print_text(stderr,
                   "kiln: error: node '%s' (%s), which is kiln's own, %s; a plugin that ran before it in the same "
                   "process may have caused that, so it runs once more in a new one\n",
                   bounded(name, c->name), bounded(type, c->type), text);
    else
        print_text(stderr,
                   "kiln: error: %s, which is kiln's own, %s; a plugin that was loaded before it in the same process "
                   "may have caused that, so it is loaded once more in a new one\n",
                   bounded(name, c->name), text);
    return 1;
}

/* ---- plugins that are left out ---- */

/* From here on the plugin is not loaded; `said`: it did something. */
static int leave_out(supervisor *s, known_plugin *p, const char *text, int said)
{
    char why[1000];
    const char *slash = strrchr(p->what.path, '/');
    snprintf(why, sizeof why, said ? "is left out of this run: outside of its nodes it %.900s" : "%s", text);
    if (said) print_text(stderr, "kiln: error: plugin %s (%s) %s\n", p->what.id, slash ? slash + 1 : p->what.path, why);
    p->left_out = 1;
    return note(s, (supervised_note){.kind = NOTE_LEFT_OUT, .node = p->what.file}, why) != NULL;
}

static int was_there(const known_plugin *p) { return p->loaded && !p->left_out; }

static size_t were_there(const supervisor *s, int needed)
{
    size_t n = 0;
    for (size_t i = 0; i < s->messages.n_plugin; i++)
        n += (size_t)(was_there(&s->messages.plugin[i]) &&
                      (!needed || !s->messages.read || s->messages.plugin[i].needed));
    return n;
}

/* Leaves out the plugins that were in the process. needless: those alone that the workflow does not need. */
static int leave_out_those_there(supervisor *s, const char *text, int needless)
{
    for (size_t i = 0; i < s->messages.n_plugin; i++) {
        known_plugin *p = &s->messages.plugin[i];
        if (!was_there(p) || (needless && p->needed)) continue;
        if (!leave_out(s, p, needless ? "is left out of this run, which does not need it" : text, !needless)) return 0;
    }
    return 1;
}

/* Those whose own turn a process ended in. 0: there are none. */
static int leave_out_suspects(supervisor *s, const char *text)
{
    int any = 0;
    for (size_t i = 0; i < s->messages.n_plugin; i++) {
        known_plugin *p = &s->messages.plugin[i];
        if (was_there(p) && p->ended_turn) any |= leave_out(s, p, text, 1);
    }
    return any;
}

static known_plugin *plugin_of_id(supervisor *s, const char *id)
{
    for (size_t i = 0; i < s->messages.n_plugin; i++)
        if (strncmp(s->messages.plugin[i].what.id, id, PLACE_MAX) == 0) return &s->messages.plugin[i];
    return NULL;
}

static void begin_turns(supervisor *s, const char *text)
{
    s->n_turn = s->at_turn = 0, s->in_turns = s->was_in_turns = 1;
    for (size_t i = 0; i < s->messages.n_plugin; i++)
        if (was_there(&s->messages.plugin[i])) s->turn[s->n_turn++] = &s->messages.plugin[i];
    print_text(stderr,
               "kiln: error: something outside of a node that could be blamed %s; now kiln's own nodes run without "
               "the plugins that were in it (%zu), and then each plugin's without the others'\n",
               text, s->n_turn);
}

static void next_turn(supervisor *s)
{
    if (s->at_turn++ == s->n_turn) s->in_turns = 0;
}

/* A process ended and no node of a plugin's is to blame, for the second time: the plugins in it are. 0: there were
 * none, or no memory. */
static int isolate(supervisor *s, const char *text)
{
    if (!were_there(s, 0)) return 0;
    if (s->messages.read && !leave_out_those_there(s, text, 1)) return 0;
    size_t n = were_there(s, 1);
    if (!s->in_turns && s->was_in_turns && leave_out_suspects(s, text)) return 1;
    if (s->in_turns) return leave_out_those_there(s, text, 0) && (next_turn(s), 1);
    if (n < 2 || s->was_in_turns) return leave_out_those_there(s, text, 0);
    begin_turns(s, text);
    return 1;
}

/* The same while a plugin was being loaded, with one that was there before it. */
static int isolate_one(supervisor *s, const char *text)
{
    if (s->was_in_turns) return !s->in_turns && leave_out_suspects(s, text);
    if (were_there(s, 0) != 1) return 0;
    begin_turns(s, text);
    return 1;
}

/* ---- the verdict ---- */

/* A plugin ended it outside of its nodes, by its place on the stack. */
static int blame_plugin(supervisor *s, const char *text)
{
    char whole[1000];
    known_plugin *p = plugin_of_id(s, s->last.culprit);
    const uint64_t id = supervised_name(s->last.culprit);
    for (const supervised_note *n = supervised_next(NULL); n; n = supervised_next(n))
        if (n->kind == NOTE_PLUGIN && n->node == id && p) return leave_out(s, p, text, 1);
    say_now(NULL, s->last.culprit, text);
    snprintf(whole, sizeof whole, "it is not called any more, since outside of its nodes it %s", text);
    return note(s, (supervised_note){.kind = NOTE_PLUGIN, .node = id}, whole) != NULL;
}

/* An end that no call is blamed for. */
static int blame_nobody(supervisor *s, const char *text)
{
    int turn = s->in_turns && were_there(s, 0);
    if ((turn || s->unknown || s->hung) && isolate(s, text)) return 1;
    say_now(NULL, s->last.culprit, text);
    return s->unknown++ < UNKNOWN_MAX;
}

static int is_load(const supervised_call *c) { return strncmp(c->function, "load", sizeof c->function) == 0; }

/* 1: the run is begun again. */
static int judge(supervisor *s, int wait_status)
{
    char text[900], outside[900];
    int i = culprit(s), by_plugin = s->last.crashed && s->last.culprit[0];
    const supervised_call *c = i >= 0 ? &s->last.call[i] : NULL;
    int again = s->setting->executes && !s->once && !s->asked && s->attempt < RESTARTS_MAX;
    s->crashed = 1;
    clear_line();
    say_end(s, wait_status, c, text, sizeof text);
    say_end(s, wait_status, NULL, outside, sizeof outside);
    if (i == SEVERAL && again && !s->alone) {
        print_text(stderr, "kiln: error: one of several nodes that ran %s; now they run one by one\n", text);
        return s->alone = 1;
    }
    if (c && !c->foreign && again && (spare(s, c, text) || isolate(s, outside))) return 1;
    /* A thread of one plugin may have done it while a node of another ran. */
    if (c && c->foreign && again && (!s->last.crashed || s->last.unfit) && !s->was_in_turns && were_there(s, 1) > 1 &&
        isolate(s, outside))
        return 1;
    if (c && c->foreign && again && !s->last.crashed && is_load(c) && isolate_one(s, outside)) return 1;
    if (c && c->foreign && s->in_turns && s->at_turn) s->turn[s->at_turn - 1]->ended_turn = 1;
    if (c && again && blame_call(s, c, text)) return 1;
    if (!c && by_plugin && again && blame_plugin(s, text)) return 1;
    if (!c && !by_plugin && again && blame_nobody(s, text)) return 1;
    if (!c && !again) say_now(NULL, s->last.culprit, text);
    if (c) say_now(c, NULL, text);
    if (s->attempt >= RESTARTS_MAX)
        print_text(stderr, "kiln: error: %d processes of this run were ended by plugins; what is left is not run\n",
                   RESTARTS_MAX);
    return 0;
}

/* Failures that no process has reported: of nodes that the last one had no more use for. */
static void say_the_rest(const supervisor *s)
{
    for (size_t i = 0; i < s->n_blamed; i++)
        if (!atomic_load(&s->blamed[i].note->said.what)) say_now(&s->blamed[i].call, NULL, s->blamed[i].note->text);
}

/* ---- the whole ---- */

/* The shared memory as the next process finds it. 0: it cannot be had. */
static int begin_page(supervisor *s)
{
    supervised_page *p = supervision;
    if (!supervised_renew(s->messages.notes, s->messages.n_note)) return 0;
    p->whole = p->whole_calls = p->whole_end = s->secret;
    p->attempt = s->attempt, p->alone = s->alone, p->entropy = s->entropy, p->began = s->began;
    memcpy(p->store, s->store, sizeof p->store);
    p->holds = s->in_turns, p->exempt = s->in_turns && s->at_turn ? s->turn[s->at_turn - 1]->what.file : 0;
    atomic_store(&p->takes_part, s->takes_part);
    atomic_store(&p->total, s->total);
    return 1;
}

static void forget_attempt(supervisor *s)
{
    for (int i = 0; i < CALLS_MAX; i++) s->silent[i] = 0, s->named[i] = 0;
    s->idle = s->calm = s->still = s->ending = s->stopped = 0, s->named_idle = s->hung = s->cut = s->ended_here = 0;
    s->alive = 0;
    s->ended_silent = -1;
}

static void copy_call(supervised_call *to, const supervised_call *from)
{
    memcpy(to, from, sizeof *to);
    to->name[PLACE_MAX - 1] = to->type[PLACE_MAX - 1] = to->plugin[PLACE_MAX - 1] = '\0';
    to->function[sizeof to->function - 1] = '\0';
}

/* What was sent of a plugin's call is what the shared memory says of it. */
static int calls_agree(const supervisor *s)
{
    for (int i = 0; i < CALLS_MAX; i++) {
        const supervised_call *sent = &s->messages.call[i], *c = &supervision->calls[i];
        if (atomic_load(&sent->state) != CALL_RUNS || atomic_load(&c->state) != CALL_RUNS || sent->order != c->order)
            continue;
        if (sent->row != c->row || sent->node != c->node || !c->foreign ||
            strncmp(sent->plugin, c->plugin, PLACE_MAX) != 0)
            return 0;
    }
    return 1;
}

/* Takes what the child has left, before its memory is given to the next one. */
static void look_back(supervisor *s)
{
    const supervised_page *p = supervision;
    last_words *l = &s->last;
    messages_read(&s->messages);
    messages_close(&s->messages);
    memset(l, 0, sizeof *l);
    s->believed = is_whole(s) && (s->messages.broken || calls_agree(s));
    if (s->believed) messages_take_shared(&s->messages);
    messages_take_said(&s->messages, s->believed);
    for (int i = 0; i < CALLS_MAX; i++) copy_call(&l->call[i], s->believed ? &p->calls[i] : &s->messages.call[i]);
    l->of = -1;
    if (!s->believed) return;
    s->takes_part = atomic_load(&p->takes_part), s->total = atomic_load(&p->total);
    l->ended_at_once = atomic_load(&p->ended_at_once), l->unwatched = atomic_load(&p->unwatched);
    l->crashed = !s->ended_here && atomic_load(&p->crashed);
    if (!l->crashed) return;
    l->signal = p->signal, l->overflow = p->overflow, l->unfit = p->unfit, l->of = p->call;
    memcpy(l->how, p->how, sizeof l->how - 1);
    memcpy(l->place, p->place, sizeof l->place - 1);
    memcpy(l->culprit, p->culprit, sizeof l->culprit - 1);
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

/* main() was about to return. */
static int last_status(supervisor *s, int wait_status)
{
    const char *lost;
    int status = s->messages.end.status, by = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
    if (status == 0 && !by) status = WEXITSTATUS(wait_status); /* a sanitizer's last word */
    if (by && s->ending < ENDING_SECONDS) {
        char text[900];
        say_end(s, wait_status, NULL, text, sizeof text);
        say_now(NULL, s->last.culprit, text);
    }
    if (by && status == 0) status = RUN_FAILED;
    if (!digest_equal(supervisor_files(), s->messages.end.files)) {
        print_text(stderr, "kiln: error: while the process of the run ended, a file that it had written was changed or "
                           "taken away; a plugin has asked to be called then (atexit()), or left a thread behind. "
                           "Run it again: what was finished is in the cache\n");
        status = RUN_FAILED;
    } else if (!s->last.unwatched && (lost = supervisor_lost_file())) {
        print_text(stderr,
                   "kiln: error: %s was written, and is gone or changed since; a plugin may have done that. Run it "
                   "again: what was finished is in the cache\n",
                   lost);
        if (status == 0) status = RUN_FAILED;
    }
    say_the_rest(s);
    return status == 0 && s->crashed ? RUN_FAILED : status;
}

/* 1: it is begun again; 0: *status. */
static int after_child(supervisor *s, int wait_status, int *status)
{
    int by = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0, again;
    *status = RUN_FAILED;
    look_back(s);
    const int keeps_page = s->messages.finished && s->believed; /* nobody needs another one */
    if (!keeps_page && !begin_page(s)) return print_text(stderr, "kiln: error: no memory to go on with\n"), 0;
    if (s->messages.finished) return *status = last_status(s, wait_status), 0;
    if (s->last.ended_at_once) return *status = INTERRUPTED, 0;
    if (is_request(by) && s->asked) return *status = die_alike(by, s), 0;
    if (s->last.unwatched) return *status = by ? die_alike(by, s) : WEXITSTATUS(wait_status), 0;
    if (s->messages.held && s->in_turns && !s->asked)
        next_turn(s), again = 1;
    else
        again = judge(s, wait_status);
    if (again) return s->attempt++, begin_page(s);
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
    if (getrandom(&s->entropy, sizeof s->entropy, 0) != sizeof s->entropy ||
        getrandom(&s->secret, sizeof s->secret, 0) != sizeof s->secret)
        return supervised_end(), 0;
    s->entropy |= 1, s->secret |= UINT64_C(1) << 63;
    s->began = supervision->began;
    s->may_have_children = supervisor_adopt();
    supervisor_terminal_keep();
    for (unsigned i = 0; i < s->setting->n_read; i++) keep_input(s, s->setting->read[i]);
    if (s->setting->keeps_nothing && s->setting->executes) supervisor_store_make(s->store, sizeof s->store);
    watched_signals(waited);
    if (!begin_page(s)) return supervised_end(), 0;
    return sigprocmask(SIG_BLOCK, waited, &s->before) == 0 || (supervised_end(), 0);
}

static volatile sig_atomic_t late_status;

static void on_late_signal(int number)
{
    (void)number;
    _exit(late_status);
}

/* Who asked for the end has it: what comes once more ends the process with the status that it has, and not by the
 * signal. What has come already is dropped. */
static void keep_status(int status)
{
    static const int number[] = {SIGINT, SIGTERM, SIGHUP};
    late_status = status;
    fflush(NULL);
    for (size_t i = 0; i < sizeof number / sizeof number[0]; i++)
        if (signal(number[i], SIG_IGN) != SIG_IGN) signal(number[i], on_late_signal);
}

int supervisor_begin(const supervisor_setting *setting, int *status)
{
    static supervisor s; /* one a process, and zeros: it is large, and little of it is touched */
    s.setting = setting, s.input = s.messages.fd = s.ended_silent = -1;
    sigset_t waited;
    if (!prepare(&s, &waited)) return 1;
    pid_t parent = getpid();
    int again;
    do {
        forget_attempt(&s);
        int line = messages_open(&s.messages, s.secret);
        fflush(NULL);
        s.child = fork();
        if (s.child == 0) return become_child(&s, parent, line), 1;
        if (line >= 0) close(line);
        if (s.child < 0) {
            log_warn("no second process (%s), so a plugin that crashes ends the run", strerror(errno));
            sigprocmask(SIG_SETMASK, &s.before, NULL);
            supervised_end();
            return 1;
        }
        int ended = wait_for_child(&s, &waited);
        if (s.may_have_children) supervisor_end_helpers();
        supervisor_terminal_put_back();
        again = after_child(&s, ended, status);
    } while (again);
    supervisor_store_remove();
    if (s.asked) keep_status(*status);
    sigprocmask(SIG_SETMASK, &s.before, NULL);
    supervised_end();
    return 0;
}
