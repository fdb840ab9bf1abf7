/* check_options.c - see check_options.h. */
#include "cli/check_options.h"

#include "base/memory_guard.h"
#include "cli/check_report.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* For the signal's handler. */
static struct {
    size_t params_size;
    const char *what;
} watched;

static void say(guard_place place, int number, check_counts *lost)
{
    if (place == GUARD_READ_ONLY)
        check_found(lost, 0, "options", "crashed with SIG%s: it writes to its %s, which are only read",
                    sigabbrev_np(number), watched.what);
    else if (place != GUARD_NOTHING)
        check_found(lost, 0, "options", "crashed with SIG%s: it goes beyond the %zu bytes of its %s",
                    sigabbrev_np(number), watched.params_size, watched.what);
    else
        check_found(lost, 0, "options",
                    "crashed with SIG%s at a NULL pointer; its row has no params_size, and so s->options is NULL: "
                    "KILN_ARRAY(param, rows), .params_size = sizeof of their struct",
                    sigabbrev_np(number));
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    enum { LOW = 4096 };
    const guard_place place = mem_guard_place(info->si_addr);
    const int low = (uintptr_t)info->si_addr < LOW;
    check_counts lost = {0};
    (void)context;
    if ((!low || watched.params_size) && place == GUARD_NOTHING) {
        signal(number, SIG_DFL);
        return; /* to the same fault, which ends the process */
    }
    say(place, number, &lost);
    _exit(1);
}

void check_watch_options(size_t params_size, const char *what)
{
    struct sigaction a = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    watched.params_size = params_size, watched.what = what;
    sigaction(SIGSEGV, &a, NULL);
    sigaction(SIGBUS, &a, NULL);
}

void check_watch_end(void) { signal(SIGSEGV, SIG_DFL), signal(SIGBUS, SIG_DFL); }
