/* map_fault.c - see map_fault.h.
 *
 * The handler may run on any thread at any moment, so it takes no lock, makes one system call (mmap) and stores to
 * atomics. A slot's `begin` is set last and cleared first. A slot that changes while the handler reads it belongs to
 * another map: the faulting map is in use, so nobody is adding or removing it.
 */
#include "base/map_fault.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SLOTS = 4096 };

typedef struct {
    atomic_uintptr_t begin, end; /* begin 0: free */
    atomic_size_t torn;
    atomic_uchar taken;
} slot;

static slot slots[SLOTS];
static atomic_size_t used; /* slots from here on were never taken */
static uintptr_t page;
static struct sigaction before;

/* Maps zeros from the page of address `at` to the end of the slot's map. 1: done, the faulting read can be retried. */
static int mend(slot *s, uintptr_t begin, uintptr_t end, uintptr_t at)
{
    uintptr_t from = at & ~(page - 1), to = (end + page - 1) & ~(page - 1);
    long got =
        syscall(SYS_mmap, from, to - from, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0L);
    if (got != (long)from) return 0;
    size_t first = from > begin ? from - begin : 0, known = atomic_load(&s->torn);
    while (first < known && !atomic_compare_exchange_weak(&s->torn, &known, first)) {
    }
    return 1;
}

/* 1: the address was in a guarded map, which now reads as zeros from there on. */
static int mend_slot_of(uintptr_t at)
{
    size_t n = atomic_load(&used);
    for (size_t i = 0; i < n; i++) {
        slot *s = &slots[i];
        uintptr_t begin = atomic_load(&s->begin), end = atomic_load(&s->end);
        if (!begin || at < begin || at >= ((end + page - 1) & ~(page - 1)) || atomic_load(&s->begin) != begin) continue;
        return mend(s, begin, end, at);
    }
    return 0;
}

/* Restores the default action. A real fault then strikes again when the handler returns and ends the process; a signal
 * sent by kill() is raised again. */
static void end_by_default(int signal, const siginfo_t *info)
{
    sigaction(signal, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    if (info->si_code <= 0) raise(signal);
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    int kept = errno;
    int mended = info->si_code == BUS_ADRERR && mend_slot_of((uintptr_t)info->si_addr);
    errno = kept;
    if (mended) return;
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(signal, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(signal);
    else
        end_by_default(signal, info);
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    page = (uintptr_t)sysconf(_SC_PAGESIZE);
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before);
}

int map_guard_is(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_fault;
}

size_t map_guard(const void *data, size_t bytes)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!data || !bytes) return 0;
    pthread_once(&once, install);
    for (size_t i = 0; i < SLOTS; i++) {
        slot *s = &slots[i];
        if (atomic_exchange(&s->taken, 1)) continue;
        size_t n = atomic_load(&used);
        while (n < i + 1 && !atomic_compare_exchange_weak(&used, &n, i + 1)) {
        }
        atomic_store(&s->torn, MAP_WHOLE);
        atomic_store(&s->end, (uintptr_t)data + bytes);
        atomic_store(&s->begin, (uintptr_t)data);
        return i + 1;
    }
    return 0;
}

void map_unguard(size_t guard)
{
    if (!guard) return;
    assert(guard <= SLOTS && atomic_load(&slots[guard - 1].begin));
    atomic_store(&slots[guard - 1].begin, 0);
    atomic_store(&slots[guard - 1].taken, 0);
}

size_t map_torn(size_t guard)
{
    assert(guard <= SLOTS);
    return guard ? atomic_load(&slots[guard - 1].torn) : MAP_WHOLE;
}
