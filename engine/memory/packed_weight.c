/* packed_weight.c - see packed_weight.h: the one function that changes a weight's state, and what goes with it. */
#include "memory/packed_weight.h"

#include "base/lock.h"
#include "base/memory_alloc.h"
#include "memory/manager.h"
#include "memory/prefetch.h"

#include <assert.h>

enum {
    ABSENT = 1 << WEIGHT_ABSENT,
    HOST = 1 << WEIGHT_HOST,
    COPYING = 1 << WEIGHT_COPYING,
    RESIDENT = 1 << WEIGHT_RESIDENT,
    PINNED = 1 << WEIGHT_PINNED
};

/* The states in which an event may happen. */
static const uint8_t legal[WEIGHT_EVENTS] = {
    [WEIGHT_IS_PACKED] = ABSENT | COPYING,
    [WEIGHT_IS_PLACED] = ABSENT | HOST,
    [WEIGHT_HAS_ARRIVED] = COPYING,
    [WEIGHT_HAS_FAILED] = COPYING,
    [WEIGHT_IS_EVICTED] = COPYING | RESIDENT | PINNED,
    [WEIGHT_IS_PINNED] = ABSENT | HOST | COPYING | RESIDENT | PINNED,
    [WEIGHT_IS_UNPINNED] = ABSENT | HOST | COPYING | RESIDENT | PINNED,
    [WEIGHT_IS_RELEASED] = ABSENT | HOST | COPYING | RESIDENT,
};

static int is_legal(const packed_weight *x, const weight_change *c)
{
    if (!(legal[c->event] >> x->state & 1)) return 0;
    switch (c->event) {
    case WEIGHT_IS_PACKED: return c->memory && !x->host;
    case WEIGHT_IS_PLACED: return c->memory != NULL;
    case WEIGHT_IS_EVICTED: /* what somebody waits for stays; but the running program's own may go after its last use */
        return x->state == WEIGHT_COPYING ? x->batch && !x->pins : !(x->pins & PIN_NEXT);
    case WEIGHT_IS_PINNED:
    case WEIGHT_IS_UNPINNED: return c->pin == PIN_RUN || c->pin == PIN_NEXT;
    case WEIGHT_IS_RELEASED: return !x->pins && !x->refs;
    default: return 1;
    }
}

static weight_state state_after(const packed_weight *x, int copying)
{
    if (!x->data) return x->host ? WEIGHT_HOST : WEIGHT_ABSENT;
    if (copying) return WEIGHT_COPYING;
    return x->pins ? WEIGHT_PINNED : WEIGHT_RESIDENT;
}

kiln_status weight_transition(packed_weight *x, const weight_change *c, error *e)
{
    assert(mutex_held(&x->owner->lock));
    assert(is_legal(x, c));
    if (!is_legal(x, c))
        return error_set(e, KILN_ERR_BUG, "a packed weight in state %d: event %d", (int)x->state, (int)c->event);
    int copying = x->state == WEIGHT_COPYING;
    switch (c->event) {
    case WEIGHT_IS_PACKED: x->host = c->memory; break;
    case WEIGHT_IS_PLACED: x->data = c->memory, x->batch = c->batch, copying = 1; break;
    case WEIGHT_HAS_ARRIVED: x->batch = 0, copying = 0; break;
    case WEIGHT_HAS_FAILED:
    case WEIGHT_IS_EVICTED: x->data = NULL, x->batch = 0; break;
    case WEIGHT_IS_RELEASED: x->data = x->host = NULL, x->batch = 0; break;
    case WEIGHT_IS_PINNED: x->pins |= c->pin; break;
    case WEIGHT_IS_UNPINNED: x->pins &= ~c->pin; break;
    case WEIGHT_EVENTS: break;
    }
    x->state = state_after(x, copying);
    return KILN_OK;
}

weight_memory weight_detach(packed_weight *x, weight_event event)
{
    residency *r = x->owner;
    weight_memory m = {.data = x->data, .bytes = x->capacity, .batch = x->batch};
    if (event == WEIGHT_HAS_FAILED) m.batch = 0; /* it has been waited for */
    if (weight_transition(x, &(weight_change){.event = event}, NULL) != KILN_OK) return (weight_memory){0};
    if (event != WEIGHT_IS_RELEASED) {
        r->traffic.evicted += m.bytes;
        r->generation++; /* graphs that read it there end */
    }
    return m;
}

void weight_memory_release(residency *r, const weight_memory *m)
{
    if (!m->data) return;
    prefetch_settle(r, m->batch);
    manager_release(r, MEMORY_WEIGHTS, m->bytes, m->data);
}

kiln_status weight_place(packed_weight *x, error *e)
{
    residency *r = x->owner;
    void *data = NULL;
    TRY(manager_alloc(r, MEMORY_WEIGHTS, x->capacity, "a weight", &data, e));
    pthread_mutex_lock(&r->lock);
    kiln_status status = weight_transition(x, &(weight_change){.event = WEIGHT_IS_PLACED, .memory = data}, e);
    r->generation++;
    pthread_mutex_unlock(&r->lock);
    if (status != KILN_OK) manager_release(r, MEMORY_WEIGHTS, x->capacity, data);
    return status;
}

static void detach_and_release(packed_weight *x, weight_event event)
{
    residency *r = x->owner;
    pthread_mutex_lock(&r->lock);
    weight_memory m = weight_detach(x, event);
    pthread_mutex_unlock(&r->lock);
    weight_memory_release(r, &m);
}

void weight_evict(packed_weight *x) { detach_and_release(x, WEIGHT_IS_EVICTED); }
void weight_fail(packed_weight *x) { detach_and_release(x, WEIGHT_HAS_FAILED); }

void *weight_host_alloc(packed_weight *x)
{
    residency *r = x->owner;
    void *host = NULL;
    pthread_mutex_lock(&r->lock);
    int fits = r->host_bytes + x->capacity <= r->setting.host_limit;
    if (fits) r->host_bytes += x->capacity;
    pthread_mutex_unlock(&r->lock);
    if (!fits) return NULL;
    if (r->call->host_alloc(r->device, x->capacity, &host, NULL) == KILN_OK) return host;
    weight_host_free(x, NULL);
    return NULL;
}

void weight_host_free(packed_weight *x, void *host)
{
    residency *r = x->owner;
    if (host) r->call->host_release(r->device, host);
    pthread_mutex_lock(&r->lock);
    assert(r->host_bytes >= x->capacity);
    r->host_bytes -= x->capacity;
    pthread_mutex_unlock(&r->lock);
}

int weight_goes_before(const packed_weight *x, const packed_weight *y)
{
    if (x->wanted != y->wanted) return x->wanted > y->wanted;
    if (x->used != y->used) return x->used < y->used;
    return x->capacity > y->capacity;
}
