/* interrupt.c - see interrupt.h. The store bears an end at any moment; unfinished output files are removed. timeout(1)
 * signals a process and then its group, so what follows within a fifth of a second is the same request. All of a
 * handler is async-signal-safe.
 */
#include "run/interrupt.h"

#include "base/clock.h"
#include "base/terminal.h"
#include "base/unfinished.h"
#include "plugin/supervised.h"

#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define SAME_REQUEST_MS 200

enum { INTERRUPTED_STATUS = 130 };

atomic_int interrupted;
static _Atomic int64_t asked;  /* monotonic milliseconds; 0: not yet */
static int on_terminal, moves; /* moves: it can clear the line of the progress */

static int64_t milliseconds(void) { return clock_ns() / 1000000 + 1; }

/* Where a process watches this one, requests come from it, a terminal or a person: what comes from within is a
 * plugin's. */
static int is_own(const siginfo_t *info)
{
    return supervision && info &&
           (info->si_code == SI_USER || info->si_code == SI_TKILL || info->si_code == SI_QUEUE) &&
           info->si_pid == getpid();
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    static const char clears[] = "\r\033[K", says[] = "kiln: stopping within the step; once more ends it at once\n";
    int before_it = errno;
    int64_t now = milliseconds(), first = 0;
    (void)signal, (void)context;
    if (is_own(info)) {
        static const char ignored[] = "kiln: a plugin has sent the process a signal that asks it to stop; it goes on\n";
        if (write(STDERR_FILENO, ignored, sizeof ignored - 1) < 0) errno = before_it;
        errno = before_it;
        return;
    }
    if (supervision) atomic_fetch_add(&supervision->asked, 1);
    if (atomic_compare_exchange_strong(&asked, &first, now)) {
        atomic_store(&interrupted, 1);
        if (moves && write(STDERR_FILENO, clears, sizeof clears - 1) < 0) errno = before_it;
        if (on_terminal && write(STDERR_FILENO, says, sizeof says - 1) < 0) errno = before_it;
    } else if (now - first > SAME_REQUEST_MS) {
        unfinished_remove();
        if (supervision) atomic_store(&supervision->ended_at_once, 1);
        _exit(INTERRUPTED_STATUS);
    }
    errno = before_it;
}

static const int asks[] = {SIGINT, SIGTERM, SIGHUP};
enum { N_ASKS = sizeof asks / sizeof asks[0] };
static struct sigaction before[N_ASKS];
static int watching[N_ASKS];

/* nohup(1) has SIGHUP ignored, and that stays. */
void interrupt_watch(void)
{
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    on_terminal = isatty(STDERR_FILENO), moves = terminal_moves();
    for (size_t i = 0; i < N_ASKS; i++) {
        if (watching[i] || sigaction(asks[i], NULL, &before[i]) != 0) continue;
        if (asks[i] == SIGHUP && before[i].sa_handler == SIG_IGN) continue;
        watching[i] = sigaction(asks[i], &action, NULL) == 0;
    }
}

static int kept;

void interrupt_keep(void) { kept = 1; }

void interrupt_unwatch(void)
{
    if (kept) return;
    /* What is still the same request would do what it did before, and end the process by the signal. */
    for (int64_t first = atomic_load(&asked); first && milliseconds() - first <= SAME_REQUEST_MS;)
        nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
    for (size_t i = 0; i < N_ASKS; i++)
        if (watching[i]) watching[i] = sigaction(asks[i], &before[i], NULL) != 0;
}

void interrupt_request(void) { atomic_store(&interrupted, 1); }

void interrupt_reset(void)
{
    atomic_store(&interrupted, 0);
    atomic_store(&asked, 0);
}

int interrupt_asked(void *arg) { return (void)arg, atomic_load(&interrupted) > 0; }
