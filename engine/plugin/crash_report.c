/* crash_report.c - see crash_report.h. Signal handlers here call what is async-signal-safe: no locks, no heap, no
 * stdio. The exception is backtrace(), which was called before, so that it loads nothing; a second crash in there ends
 * the process after all that matters was written.
 */
#include "plugin/crash_report.h"

#include "base/unfinished.h"
#include "plugin/ctx.h"
#include "plugin/supervised.h"

#include <assert.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { ACTIVE_MAX = 64, STACK_BYTES = 64 << 10, FRAMES = 64, NEAR_THE_STACK = 64 << 10 };

static atomic_int armed;
static _Atomic(const kiln_ctx *) active[ACTIVE_MAX]; /* running calls, for a crash on a thread that has none itself */
static _Thread_local const kiln_ctx *current;

/* ---- words ---- */

typedef struct {
    char text[1024];
    size_t n;
} line;

/* Appends text; control characters in names become '?'. */
static void say(line *l, const char *text)
{
    for (; text && *text && l->n < sizeof l->text - 1; text++)
        l->text[l->n++] = (unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text;
}

static void say_number(line *l, int value)
{
    char digits[12];
    size_t i = sizeof digits - 1;
    unsigned rest = value < 0 ? 0u - (unsigned)value : (unsigned)value;
    digits[i] = '\0';
    do digits[--i] = (char)('0' + rest % 10), rest /= 10;
    while (rest);
    say(l, value < 0 ? "-" : "");
    say(l, digits + i);
}

static void say_call(line *l, const kiln_ctx *c)
{
    say(l, "node '"), say(l, c->node_name), say(l, "' ("), say(l, c->node_type), say(l, ") of plugin "),
        say(l, c->plugin);
}

/* Appends "node 'x' (T) of plugin p" for this thread's call, or else for every running call. 0: none runs. */
static int say_who(line *l)
{
    int n = 0;
    if (current) return say_call(l, current), 1;
    for (size_t i = 0; i < ACTIVE_MAX; i++) {
        const kiln_ctx *c = atomic_load(&active[i]);
        if (!c) continue;
        say(l, n++ ? ", or " : "");
        say_call(l, c);
    }
    return n > 0;
}

static void put(line *l)
{
    l->text[l->n++] = '\n';
    for (size_t done = 0; done < l->n;) {
        ssize_t wrote = write(STDERR_FILENO, l->text + done, l->n - done);
        if (wrote <= 0) return;
        done += (size_t)wrote;
    }
}

/* ---- for the process that watches ---- */

static int is_watched(void) { return supervision && !atomic_load(&supervision->unwatched); }

/* What is known of the end of this process. What matters least comes last: looking for the place may crash again. */
static void tell_watcher(int signal, const char *how, int overflow)
{
    void *frame[FRAMES];
    supervised_page *p = supervision;
    size_t n = 0;
    if (atomic_load(&p->crashed)) return;
    p->signal = signal;
    p->overflow = overflow;
    p->call = current ? current->call - 1 : -1;
    for (; how[n] && n + 1 < sizeof p->how; n++) p->how[n] = how[n];
    p->how[n] = '\0';
    p->place[0] = p->culprit[0] = '\0';
    atomic_store(&p->crashed, 1);
    int depth = backtrace(frame, FRAMES);
    supervised_plugin_at(frame, depth, p->place, sizeof p->place, p->culprit, sizeof p->culprit);
}

/* ---- crashes ---- */

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ /* sanitizers report more */
static const struct {
    int number;
    const char *name;
} signals[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
               {SIGILL, "SIGILL"},   {SIGABRT, "SIGABRT"}, {SIGSYS, "SIGSYS"}};

/* The address lies where the stack would go next. */
static int is_overflow(int number, const siginfo_t *info, const void *context)
{
#ifdef __x86_64__
    uintptr_t at = (uintptr_t)info->si_addr,
              stack = (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RSP];
    return number == SIGSEGV && at + NEAR_THE_STACK > stack && at < stack + NEAR_THE_STACK;
#else
    return (void)number, (void)info, (void)context, 0;
#endif
}

static _Thread_local int crashing;
static atomic_flag one_crash = ATOMIC_FLAG_INIT;

static void on_crash(int number, siginfo_t *info, void *context)
{
    line l = {.n = 0};
    const char *name = "a signal";
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (signals[i].number == number) name = signals[i].name;
    if (crashing) { /* in looking for the place */
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    crashing = 1;
    if (atomic_flag_test_and_set(&one_crash)) /* of several threads at once the first speaks */
        nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    else if (is_watched()) {
        alarm(5); /* should looking for the place hang */
        signal(SIGALRM, SIG_DFL);
        tell_watcher(number, name, is_overflow(number, info, context));
    } else {
        say(&l, "kiln: error: ");
        if (!say_who(&l)) say(&l, "kiln itself");
        say(&l, " crashed with "), say(&l, name);
        say(&l, "; results kept before are intact, and the same command continues from them");
        put(&l);
    }
    unfinished_remove();
    signal(number, SIG_DFL);
    raise(number); /* ends the process by this signal */
}

static void watch_crashes(void)
{
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction a = {.sa_sigaction = on_crash, .sa_flags = SA_ONSTACK | SA_NODEFER | SA_SIGINFO};
        sigaction(signals[i].number, &a, NULL);
    }
}
#else
static void watch_crashes(void) {}
#endif

/* After a stack overflow there is no stack left for the handler: so each thread has an alternate one until it ends. */
static pthread_key_t stack_key;
static pthread_once_t stack_once = PTHREAD_ONCE_INIT;

static void free_stack(void *stack)
{
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    munmap(stack, STACK_BYTES);
}

static void make_key(void) { pthread_key_create(&stack_key, free_stack); }

static void own_stack(void)
{
    stack_t old;
    pthread_once(&stack_once, make_key);
    if (pthread_getspecific(stack_key) || sigaltstack(NULL, &old) != 0 || !(old.ss_flags & SS_DISABLE)) return;
    void *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) return;
    if (pthread_setspecific(stack_key, stack) != 0 ||
        sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = STACK_BYTES}, NULL) != 0) {
        pthread_setspecific(stack_key, NULL);
        munmap(stack, STACK_BYTES);
    }
}

void crash_report_thread(void) { own_stack(); }

/* ---- exit() ---- */

/* `how`: "exit(0)". */
static void on_end(const char *how)
{
    line l = {.n = 0};
    if (is_watched()) {
        tell_watcher(0, how, 0);
    } else {
        say(&l, "kiln: error: ");
        if (!say_who(&l)) say(&l, "a plugin");
        say(&l, " ended the process with "), say(&l, how), say(&l, "; a plugin must never exit");
        put(&l);
    }
    unfinished_remove();
    _exit(1);
}

static void on_exit_called(int status, void *arg)
{
    line l = {.n = 0};
    (void)arg;
    if (!atomic_load(&armed)) return;
    say(&l, "exit("), say_number(&l, status), say(&l, ")");
    l.text[l.n] = '\0';
    on_end(l.text);
}

static void on_quick_exit_called(void)
{
    if (atomic_load(&armed)) on_end("quick_exit()");
}

/* ---- the whole ---- */

void crash_report_begin(void)
{
    own_stack();
    watch_crashes();
    atomic_store(&armed, on_exit(on_exit_called, NULL) == 0 && at_quick_exit(on_quick_exit_called) == 0);
}

void crash_report_end(void) { atomic_store(&armed, 0); }

void crash_report_watched(void)
{
    void *frame[1];
    backtrace(frame, 1); /* loads what it needs */
}

void crash_report_give_up(const char *what)
{
    if (!is_watched()) return;
    supervision->unfit = 1;
    tell_watcher(0, what, 0);
    unfinished_remove();
    _exit(1);
}

const kiln_ctx *crash_report_enter(kiln_ctx *call)
{
    const kiln_ctx *outer = current;
    assert(call && call != outer);
    own_stack();
    call->call = supervised_enter(call->node_name, call->node_type, call->plugin, call->function);
    current = call;
    for (size_t i = 0; i < ACTIVE_MAX; i++) {
        const kiln_ctx *none = NULL;
        if (atomic_compare_exchange_strong(&active[i], &none, call)) break;
    }
    return outer;
}

int crash_report_inside(void) { return current != NULL; }

void crash_report_leave(const kiln_ctx *call, const kiln_ctx *outer)
{
    assert(call && current == call); /* calls of a thread end in the reverse order */
    current = outer;
    supervised_leave(call->call);
    for (size_t i = 0; i < ACTIVE_MAX; i++) {
        const kiln_ctx *own = call;
        if (atomic_compare_exchange_strong(&active[i], &own, NULL)) break;
    }
}
