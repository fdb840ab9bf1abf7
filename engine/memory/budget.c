/* budget.c - see budget.h. */
#include "memory/budget.h"

#include "base/memory_alloc.h"
#include "base/str.h"

#include <assert.h>
#include <pthread.h>

const char *const memory_kind_name[MEMORY_KINDS] = {"weights", "activations", "staging", "values"};

struct budget {
    pthread_mutex_t lock;
    size_t limit, used, peak, held[MEMORY_KINDS];
    void (*give_up)(void *arg, size_t bytes);
    void *arg;
};

budget *budget_new(size_t limit)
{
    budget *b = mem_calloc(1, sizeof *b);
    if (!b) return NULL;
    b->limit = limit;
    pthread_mutex_init(&b->lock, NULL);
    return b;
}

void budget_free(budget *b)
{
    if (!b) return;
    pthread_mutex_destroy(&b->lock);
    mem_free(b);
}

void budget_on_pressure(budget *b, void (*give_up)(void *, size_t), void *arg)
{
    pthread_mutex_lock(&b->lock);
    b->give_up = give_up;
    b->arg = arg;
    pthread_mutex_unlock(&b->lock);
}

/* 0: taken; otherwise how many bytes are missing. */
static size_t try_to_take(budget *b, memory_kind kind, size_t bytes)
{
    assert(kind < MEMORY_KINDS);
    pthread_mutex_lock(&b->lock);
    size_t available = !b->limit ? SIZE_MAX - b->used : b->limit > b->used ? b->limit - b->used : 0;
    if (bytes <= available) {
        b->used += bytes;
        b->held[kind] += bytes;
        if (b->used > b->peak) b->peak = b->used;
    }
    pthread_mutex_unlock(&b->lock);
    return bytes <= available ? 0 : bytes - available;
}

static kiln_status refuse(const budget *b, size_t bytes, const char *what, error *e)
{
    char wanted[16], limit[16], part[MEMORY_KINDS][16];
    for (int k = 0; k < MEMORY_KINDS; k++) str_bytes(part[k], b->held[k]);
    return error_set(e, KILN_ERR_NOMEM,
                     "%s (%s) does not fit into the memory budget of %s, of which weights hold %s, activations %s, "
                     "staging %s, values %s; give more with --memory",
                     what, str_bytes(wanted, bytes), str_bytes(limit, b->limit), part[MEMORY_WEIGHTS],
                     part[MEMORY_ACTIVATIONS], part[MEMORY_STAGING], part[MEMORY_VALUES]);
}

kiln_status budget_take(budget *b, memory_kind kind, size_t bytes, const char *what, error *e)
{
    size_t missing = try_to_take(b, kind, bytes);
    if (!missing) return KILN_OK;
    pthread_mutex_lock(&b->lock);
    void (*give_up)(void *, size_t) = b->give_up;
    void *arg = b->arg;
    pthread_mutex_unlock(&b->lock);
    if (give_up) {
        give_up(arg, missing);
        if (!try_to_take(b, kind, bytes)) return KILN_OK;
    }
    pthread_mutex_lock(&b->lock);
    kiln_status status = refuse(b, bytes, what, e);
    pthread_mutex_unlock(&b->lock);
    return status;
}

void budget_give(budget *b, memory_kind kind, size_t bytes)
{
    assert(kind < MEMORY_KINDS);
    pthread_mutex_lock(&b->lock);
    assert(b->used >= bytes && b->held[kind] >= bytes); /* what was taken is given back once, and as the same kind */
    b->used -= bytes;
    b->held[kind] -= bytes;
    pthread_mutex_unlock(&b->lock);
}

void budget_set_limit(budget *b, size_t limit)
{
    pthread_mutex_lock(&b->lock);
    b->limit = limit;
    pthread_mutex_unlock(&b->lock);
}

void budget_peak_reset(budget *b)
{
    pthread_mutex_lock(&b->lock);
    b->peak = b->used;
    pthread_mutex_unlock(&b->lock);
}

static size_t read_locked(const budget *b, const size_t *member)
{
    budget *own = (budget *)(uintptr_t)b; /* the lock is no part of what a reader sees */
    pthread_mutex_lock(&own->lock);
    size_t value = *member;
    pthread_mutex_unlock(&own->lock);
    return value;
}
size_t budget_limit(const budget *b) { return read_locked(b, &b->limit); }
size_t budget_used(const budget *b) { return read_locked(b, &b->used); }
size_t budget_held(const budget *b, memory_kind kind) { return read_locked(b, &b->held[kind]); }
size_t budget_peak(const budget *b) { return read_locked(b, &b->peak); }
