/* command_faults.h - commands of kiln with a fault at each place of the code that can pass one on.
 *
 * A place is a return address inside the engine that stands on the stack when memory is allocated, or the system or a
 * library is called. One sound run finds the places; then the command runs once for each that no run has failed at yet,
 * and the first request with it on its stack fails. That is far fewer runs than requests, and none is left out. The
 * command runs in a child; what it starts shares the board, and one request fails in all of them together.
 *
 * Asked of each run: it ends by itself, with a status that the manual names; what it could not do it says in words; and
 * a file that it makes is as without a fault, or is not there (a sheet shows which rows failed), or a warning says what
 * is missing in it. By itself PLACES_TRIED places of each command; KILN_TEST_SAMPLE=N of so many, KILN_TEST_FULL=1
 * tries each.
 */
#ifndef KILN_TESTS_COMMAND_FAULTS_H
#define KILN_TESTS_COMMAND_FAULTS_H

#include "harness.h"

#include "base/file.h"
#include "base/memory_fault.h"
#include "cli/command.h"
#include "plugin/crash_report.h"
#include "plugin/loader.h"
#include "run/supervisor.h"

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    PLACES = 1 << 15,
    DEEP = 48,
    BASE = 16,
    PLACES_TRIED = 4,
    FAULT_LIMIT_S = 60,
    FAULT_TICK_MS = 120,
    FAULT_TEXT = 1 << 16
};

typedef struct {
    _Atomic uintptr_t at;
    atomic_int found_by, done; /* the number of a command; 1: a run has failed here */
} place;

/* Shared by every process of a run. */
typedef struct {
    place table[PLACES];
    atomic_int command;       /* not 0: a sound run of this number is looking for places */
    _Atomic uintptr_t wanted; /* not 0: the first request with this place on its stack fails */
    atomic_int failed, with;
    uintptr_t base[BASE], stack[DEEP]; /* what is below the command; where it failed */
} fault_board;

static fault_board *board;
static int faults_are_calls; /* they come by the functions that stand before the libraries' */

/* Their order, and so which are tried, is the same in each run of a program. */
static inline place *place_of(uintptr_t at)
{
    extern const char __executable_start[];
    size_t i = (size_t)(((at - (uintptr_t)__executable_start) * 0x9e3779b97f4a7c15u) >> 49);
    for (size_t n = 0; n < PLACES; n++, i = (i + 1) % PLACES) {
        uintptr_t there = 0;
        if (atomic_compare_exchange_strong(&board->table[i].at, &there, at) || there == at) return &board->table[i];
    }
    return NULL;
}

/* The engine lies behind this program's own functions; of what is below the command there is nothing to learn. */
static inline int is_place(uintptr_t at)
{
    extern const char etext[];
    if (at <= (uintptr_t)test_main || at >= (uintptr_t)etext) return 0;
    for (int i = 0; i < BASE && board->base[i]; i++)
        if (board->base[i] == at) return 0;
    return 1;
}

static inline int request_fails(void)
{
    static _Thread_local int inside;
    uintptr_t wanted = board ? atomic_load(&board->wanted) : 0;
    int number = board ? atomic_load(&board->command) : 0, here = 0;
    if (inside || (!wanted && !number) || (wanted && atomic_load(&board->failed))) return 0;
    inside = 1;
    void *frames[DEEP] = {NULL};
    int n = backtrace(frames, DEEP), before = errno;
    for (int i = 0; i < n; i++) {
        uintptr_t at = (uintptr_t)frames[i];
        if (!is_place(at)) continue;
        place *p = number ? place_of(at) : NULL;
        if (p) atomic_store(&p->found_by, number);
        here |= wanted && at == wanted;
    }
    if (here && atomic_exchange(&board->failed, 1)) here = 0;
    if (here) memcpy(board->stack, frames, sizeof board->stack);
    errno = here ? atomic_load(&board->with) : before;
    inside = 0;
    return here;
}

typedef struct {
    int status; /* of waitpid */
    char out[FAULT_TEXT], log[FAULT_TEXT];
} fault_outcome;

typedef struct {
    const char *name, *before, *product; /* a line of the shell that makes things as they were; a file that it makes */
    int status;                          /* how it ends without a fault */
    int shows_failures;                  /* with another status, the file shows what failed */
    const char *touched;                 /* a file that changes meanwhile; then somebody presses Ctrl-C */
    char **argv;
} faulty_command;

static char fault_folder[400], fault_out[600];

static inline const char *fault_path(const char *name)
{
    static char path[16][600];
    static int next;
    char *p = path[next++ % 16];
    snprintf(p, sizeof path[0], "%s/%s", fault_folder, name);
    return p;
}

static inline void fault_read(const char *path, char *to)
{
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(to, 1, FAULT_TEXT - 1, f) : 0;
    to[n] = 0;
    if (f) fclose(f);
}

static inline int fault_run_named(char **words)
{
    int argc = 0;
    static char *argv[32]; /* writable, as a process has them, and for its whole life */
    memset(argv, 0, sizeof argv);
    for (; words[argc] && argc < 31; argc++) argv[argc] = strdup(words[argc]);
    for (size_t i = 0; i < n_commands; i++)
        if (strcmp(commands[i].name, argv[0]) == 0) return commands[i].run(argc, argv);
    return 99;
}

/* What a user does while the command runs, by the clock: the calls are the kernel's own, so that none fails. */
static const char *fault_touched;

static inline void fault_tick(int signal_number)
{
    static atomic_int ticks;
    int n = atomic_fetch_add(&ticks, 1), before = errno;
    if (n == 1) syscall(SYS_utimensat, AT_FDCWD, fault_touched, NULL, 0);
    if (n == 5) syscall(SYS_kill, getpid(), SIGINT);
    if (n * FAULT_TICK_MS > FAULT_LIMIT_S * 1000) syscall(SYS_kill, getpid(), SIGKILL);
    errno = before;
    (void)signal_number;
}

static inline void fault_clock(void)
{
    const struct sigaction act = {.sa_handler = fault_tick, .sa_flags = SA_RESTART};
    const struct itimerval each = {{0, FAULT_TICK_MS * 1000}, {0, FAULT_TICK_MS * 1000}};
    sigaction(SIGALRM, &act, NULL);
    setitimer(ITIMER_REAL, &each, NULL);
}

static inline void fault_run(const faulty_command *c, fault_outcome *is)
{
    static int n_run;
    snprintf(fault_out, sizeof fault_out, "%s/out/%06d", fault_folder, n_run++);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        static const char *const all[] = {"all"};
        void *below[BASE] = {NULL};
        loader_trust(all, 1,
                     0); /* what is counted is this process: check and inspect fork for plugins from elsewhere */
        fault_touched = c->touched;
        if (c->touched)
            fault_clock();
        else
            alarm(FAULT_LIMIT_S);
        if (!freopen(fault_path("stdout"), "w", stdout) || !freopen(fault_path("stderr"), "w", stderr)) _exit(98);
        backtrace(below, BASE - 1);
        memcpy(board->base, below, sizeof below);
        if (!faults_are_calls) mem_fail_when(request_fails), mem_count_pieces(1);
        crash_report_begin();
        int status = fault_run_named(c->argv);
        supervisor_finished(status);
        crash_report_end();
        mem_fail_when(NULL);
        atomic_store(&board->command, 0), atomic_store(&board->wanted, 0);
        fflush(stdout), fflush(stderr);
        _exit(status);
    }
    is->status = -1;
    if (pid < 0 || waitpid(pid, &is->status, 0) != pid) return;
    fault_read(fault_path("stdout"), is->out), fault_read(fault_path("stderr"), is->log);
}

static inline uint64_t fault_digest(const char *path)
{
    FILE *f = path ? fopen(path, "rb") : NULL;
    uint64_t h = 0xcbf29ce484222325u;
    if (!f) return 0;
    for (int c; (c = getc(f)) != EOF;) h = (h ^ (uint64_t)c) * 0x100000001b3u;
    fclose(f);
    return h | 1;
}

/* Where it failed, for addr2line -e of this program. */
static inline void fault_show_stack(void)
{
    extern const char __executable_start[];
    printf("  stack:");
    for (int i = 0; i < DEEP && board->stack[i]; i++)
        if (is_place(board->stack[i])) printf(" 0x%zx", (size_t)(board->stack[i] - (uintptr_t)__executable_start - 1));
    printf("\n");
}

static inline int fault_warnings(const fault_outcome *is)
{
    int n = 0;
    for (const char *p = is->log; (p = strstr(p, "warning:")); p++) n++;
    return n;
}

static inline void fault_judge(const faulty_command *c, const fault_outcome *is, const fault_outcome *sound,
                               uint64_t product)
{
    int exited = WIFEXITED(is->status), status = exited ? WEXITSTATUS(is->status) : -1;
    uint64_t made = fault_digest(c->product);
    int well = CHECK_MSG(exited, "%s: ended by signal %d: %s", c->name,
                         WIFSIGNALED(is->status) ? WTERMSIG(is->status) : 0, is->log);
    if (exited && status != 0)
        well &= CHECK_MSG((status <= EXIT_PARTLY || status == c->status) && (is->log[0] || is->out[0]),
                          "%s: status %d: \"%s\"", c->name, status, is->log);
    if (c->product && exited)
        well &= CHECK_MSG(made == product || (status != 0 && (made == 0 || c->shows_failures)) ||
                              fault_warnings(is) > fault_warnings(sound),
                          "%s: status %d, and what it made is not whole: %s", c->name, status, is->log);
    if (!well) fault_show_stack();
}

/* A fault that the command passes on to its end has been passed on by everything on the stack. */
static inline void fault_settle(place *p, int passed_on)
{
    atomic_store(&p->done, 1);
    for (int i = 0; passed_on && i < DEEP && board->stack[i]; i++)
        if (is_place(board->stack[i])) {
            place *also = place_of(board->stack[i]);
            if (also) atomic_store(&also->done, 1);
        }
}

static inline int fault_prepare(const faulty_command *c)
{
    if (c->product) unlink(c->product);
    return !c->before || system(c->before) == 0;
}

static inline void fault_try(const faulty_command *c, place *p, int turn, const fault_outcome *sound, uint64_t product)
{
    static const int with[] = {EIO, ENOSPC, EMFILE, EACCES, EINTR, ENOENT};
    static fault_outcome is;
    if (!CHECK_MSG(fault_prepare(c), "%s: %s", c->name, c->before)) return;
    memset(board->stack, 0, sizeof board->stack);
    atomic_store(&board->failed, 0), atomic_store(&board->with, with[turn % 6]);
    atomic_store(&board->wanted, atomic_load(&p->at));
    fault_run(c, &is);
    atomic_store(&board->wanted, 0);
    fault_judge(c, &is, sound, product);
    fault_settle(p, atomic_load(&board->failed) && WIFEXITED(is.status) && WEXITSTATUS(is.status) != c->status);
}

static inline void fault_command(const faulty_command *c)
{
    static fault_outcome sound;
    static int number;
    const char *word = getenv("KILN_TEST_SAMPLE"), *first = getenv("KILN_TEST_SEED");
    int most = getenv("KILN_TEST_FULL") ? PLACES : word ? atoi(word) : PLACES_TRIED, tried = 0, found = 0;
    REQUIRE(CHECK_MSG(fault_prepare(c), "%s: %s", c->name, c->before));
    atomic_store(&board->command, ++number);
    fault_run(c, &sound);
    atomic_store(&board->command, 0);
    int status = WIFEXITED(sound.status) ? WEXITSTATUS(sound.status) : -1;
    REQUIRE(CHECK_MSG(status == c->status, "%s: status %d, and not %d: %s%s", c->name, status, c->status, sound.log,
                      sound.out));
    uint64_t product = fault_digest(c->product);
    REQUIRE(!c->product || CHECK_MSG(product != 0, "%s makes no %s", c->name, c->product));
    size_t from = first ? strtoull(first, NULL, 10) * 4099 % PLACES : 0;
    for (size_t i = 0; i < PLACES; i++) {
        place *p = &board->table[(from + i) % PLACES];
        if (atomic_load(&p->found_by) != number) continue;
        found++;
        if (atomic_load(&p->done) || tried >= most) continue;
        fault_try(c, p, tried++, &sound, product);
    }
    CHECK_MSG(found > 0, "%s asks for nothing", c->name);
    if (getenv("KILN_TEST_VERBOSE")) printf("  %s: %d places, %d tried\n", c->name, found, tried), fflush(stdout);
}

static inline int fault_begin(void)
{
    void *frames[4];
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) return 0;
    backtrace(frames, 4); /* the first call loads a library */
    snprintf(fault_folder, sizeof fault_folder, "%s", getenv("KILN_TEST_COMMANDS"));
    return 1;
}

#endif
