/* residency.c - see residency.h: the table of packed weights with reference counts, the device's memory on the account,
 * and who is evicted when somebody needs memory. */
#include "memory/residency.h"

#include "base/lock.h"
#include "base/memory_alloc.h"
#include "memory/manager.h"
#include "memory/packed_weight.h"
#include "memory/pass.h"

#include <assert.h>
#include <string.h>

static kiln_status make_streams(residency *r, error *e)
{
    if (!r->call->asynchronous) return KILN_OK;
    TRY(r->call->stream_new(r->device, &r->compute, e));
    TRY(r->call->stream_new(r->device, &r->copy, e));
    for (int i = 0; i < STAGES; i++) TRY(r->call->event_new(r->device, &r->stage[i].copied, e));
    return KILN_OK;
}

/* The block, while no program runs in it. On a device where work goes on behind a run it stays. */
static void give_block(residency *r)
{
    if (r->call->asynchronous) return;
    pthread_mutex_lock(&r->lock);
    char *block = r->running || r->starting ? NULL : r->block;
    size_t bytes = r->block_bytes;
    if (block) r->block = NULL, r->block_bytes = 0, r->block_user = NULL, r->generation++;
    pthread_mutex_unlock(&r->lock);
    manager_release(r, MEMORY_ACTIVATIONS, bytes, block);
}

/* Somebody wants so many bytes: weights go first, which a run can do without. */
static void give_up(void *arg, size_t bytes)
{
    residency *r = arg;
    size_t used = budget_used(r->budget);
    residency_give_up(r, bytes);
    if (budget_used(r->budget) + bytes > used) give_block(r);
}

residency *residency_new(const residency_setting *setting, error *e)
{
    residency *r = mem_calloc(1, sizeof *r);
    if (!r) return error_set(e, KILN_ERR_NOMEM, "out of memory"), NULL;
    r->setting = *setting;
    r->device = setting->device;
    r->call = setting->device->table;
    r->budget = budget_new(setting->limit);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->prefetch.unguarded, NULL);
    pthread_cond_init(&r->read_ahead.noted, NULL);
    if (!r->budget) error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (!r->budget || make_streams(r, e) != KILN_OK) {
        residency_free(r);
        return NULL;
    }
    budget_on_pressure(r->budget, give_up, r);
    return r;
}

/* References that nobody gave back. */
static void free_weights(residency *r)
{
    for (size_t i = 0; i < BUCKETS; i++)
        while (r->bucket[i]) {
            packed_weight *x = r->bucket[i];
            r->bucket[i] = x->next;
            r->call->release(r->device, x->data);
            if (x->host) r->call->host_release(r->device, x->host);
            mem_free(x);
        }
}

void residency_free(residency *r)
{
    if (!r) return;
    assert(!r->running && !r->passes);
    read_ahead_end(r);
    for (int i = 0; i < STAGES; i++) {
        if (r->stage[i].data) r->call->host_release(r->device, r->stage[i].data);
        if (r->stage[i].copied) r->call->event_free(r->device, r->stage[i].copied);
    }
    manager_release(r, MEMORY_ACTIVATIONS, r->block_bytes, r->block);
    manager_release(r, MEMORY_WEIGHTS, r->ring_bytes, r->ring);
    if (r->fork) r->call->event_free(r->device, r->fork);
    if (r->prefetch.arrived) r->call->event_free(r->device, r->prefetch.arrived);
    if (r->compute) r->call->stream_free(r->device, r->compute);
    if (r->copy) r->call->stream_free(r->device, r->copy);
    free_weights(r);
    budget_free(r->budget);
    mem_free(r->order.entry);
    pthread_cond_destroy(&r->prefetch.unguarded);
    pthread_cond_destroy(&r->read_ahead.noted);
    pthread_mutex_destroy(&r->lock);
    mem_free(r);
}

budget *residency_budget(const residency *r) { return r->budget; }
memory_device *residency_device(const residency *r) { return r->device; }

/* ---- the device's memory ---- */

static void count_weights(residency *r, memory_kind kind, size_t bytes)
{
    if (kind != MEMORY_WEIGHTS) return;
    pthread_mutex_lock(&r->lock);
    r->bytes += bytes;
    if (r->bytes > r->peak) r->peak = r->bytes;
    pthread_mutex_unlock(&r->lock);
}

static kiln_status device_alloc(residency *r, memory_kind kind, size_t bytes, void **out, error *e)
{
    const int own = kind == MEMORY_WEIGHTS && r->call->alloc_weight; /* weights have a way of their own there */
    return (own ? r->call->alloc_weight : r->call->alloc)(r->device, bytes, out, e);
}

kiln_status manager_alloc(residency *r, memory_kind kind, size_t bytes, const char *what, void **out, error *e)
{
    TRY(budget_take(r->budget, kind, bytes, what, e));
    error why = {0};
    kiln_status status = device_alloc(r, kind, bytes, out, &why);
    if (status == KILN_ERR_NOMEM) { /* the device is fuller than the budget says: others are on it */
        residency_give_up(r, bytes);
        why = (error){0};
        status = device_alloc(r, kind, bytes, out, &why);
    }
    if (status == KILN_OK) {
        count_weights(r, kind, bytes);
        return KILN_OK;
    }
    budget_give(r->budget, kind, bytes);
    if (status == KILN_ERR_NOMEM) r->granted = budget_used(r->budget), r->refused = bytes;
    return error_set(e, status, "%s: %s", what, why.message);
}

kiln_status manager_alloc_free(residency *r, memory_kind kind, size_t bytes, void **out)
{
    TRY(budget_take(r->budget, kind, bytes, "a weight", NULL));
    kiln_status status = device_alloc(r, kind, bytes, out, NULL);
    if (status == KILN_OK)
        count_weights(r, kind, bytes);
    else
        budget_give(r->budget, kind, bytes);
    return status;
}

void manager_release(residency *r, memory_kind kind, size_t bytes, void *data)
{
    if (!data) return;
    r->call->release(r->device, data);
    budget_give(r->budget, kind, bytes);
    if (kind != MEMORY_WEIGHTS) return;
    pthread_mutex_lock(&r->lock);
    assert(r->bytes >= bytes);
    r->bytes -= bytes;
    pthread_mutex_unlock(&r->lock);
}

kiln_status manager_event(residency *r, device_event **event, error *e)
{
    return *event ? KILN_OK : r->call->event_new(r->device, event, e);
}

void manager_new_generation(residency *r)
{
    pthread_mutex_lock(&r->lock);
    r->generation++;
    pthread_mutex_unlock(&r->lock);
}

/* ---- the table of weights ---- */

static kiln_status key_of(const char *identity, const char *tensor, const char *form, digest *out, error *e)
{
    hasher *h = hasher_new();
    if (!h) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    hash_text(h, identity);
    hash_text(h, tensor);
    hash_text(h, form);
    *out = hasher_digest(h);
    hasher_free(h);
    return KILN_OK;
}

static packed_weight **place_in_table(residency *r, digest key)
{
    assert(mutex_held(&r->lock));
    packed_weight **at = &r->bucket[key.lo % BUCKETS];
    while (*at && !digest_equal((*at)->key, key)) at = &(*at)->next;
    return at;
}

kiln_status residency_intern(residency *r, const char *set_identity, const char *tensor, const char *pack_form,
                             size_t bytes, packed_weight **out, error *e)
{
    digest key;
    TRY(key_of(set_identity, tensor, pack_form, &key, e));
    pthread_mutex_lock(&r->lock);
    packed_weight **at = place_in_table(r, key);
    if (!*at && (*at = mem_calloc(1, sizeof **at)))
        **at = (packed_weight){.owner = r,
                               .key = key,
                               .state = WEIGHT_ABSENT,
                               .bytes = bytes,
                               .capacity = manager_round(r, bytes ? bytes : 1),
                               .wanted = UINT64_MAX};
    if (*at) (*at)->refs++;
    *out = *at;
    pthread_mutex_unlock(&r->lock);
    assert(!*out || (*out)->bytes == bytes); /* one form of one tensor has one size */
    return *out ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory for the weight '%s'", tensor);
}

void packed_weight_release(packed_weight *x)
{
    if (!x) return;
    residency *r = x->owner;
    pthread_mutex_lock(&r->lock);
    assert(x->refs > 0);
    int last = --x->refs == 0;
    void *host = x->host;
    weight_memory m = {0};
    if (last) {
        *place_in_table(r, x->key) = x->next;
        m = weight_detach(x, WEIGHT_IS_RELEASED);
    }
    pthread_mutex_unlock(&r->lock);
    if (!last) return;
    weight_memory_release(r, &m);
    if (host) weight_host_free(x, host);
    mem_free(x);
}

/* ---- eviction ---- */

/* RESIDENT, or prefetched for a program that has not come. */
static int may_be_evicted(const packed_weight *x) { return weight_on_device(x) && !x->pins; }

static packed_weight *first_to_go(residency *r)
{
    assert(mutex_held(&r->lock));
    packed_weight *best = NULL;
    for (size_t i = 0; i < BUCKETS; i++)
        for (packed_weight *x = r->bucket[i]; x; x = x->next)
            if (may_be_evicted(x) && (!best || weight_goes_before(x, best))) best = x;
    return best;
}

void residency_give_up(residency *r, size_t bytes)
{
    for (size_t given = 0; given < bytes;) {
        pthread_mutex_lock(&r->lock);
        packed_weight *x = first_to_go(r);
        weight_memory m = x ? weight_detach(x, WEIGHT_IS_EVICTED) : (weight_memory){0};
        pthread_mutex_unlock(&r->lock);
        if (!m.data) return;
        weight_memory_release(r, &m);
        given += m.bytes;
    }
}

void manager_give_up_over(residency *r)
{
    for (int more = !r->call->asynchronous; more;) {
        weight_memory m = {0};
        pthread_mutex_lock(&r->lock);
        for (size_t i = 0; i < BUCKETS && !m.data; i++)
            for (packed_weight *x = r->bucket[i]; x && !m.data; x = x->next)
                if (x->over && may_be_evicted(x)) m = weight_detach(x, WEIGHT_IS_EVICTED);
        pthread_mutex_unlock(&r->lock);
        more = m.data != NULL;
        if (more) weight_memory_release(r, &m);
    }
}

kiln_status residency_take(residency *r, memory_kind kind, size_t bytes, const char *what, void **out, error *e)
{
    return manager_alloc(r, kind, manager_round(r, bytes ? bytes : 1), what, out, e);
}
void residency_give(residency *r, memory_kind kind, size_t bytes, void *data)
{
    manager_release(r, kind, manager_round(r, bytes ? bytes : 1), data);
}
device_stream *residency_stream(const residency *r) { return r->compute; }

void residency_set_limit(residency *r, size_t bytes)
{
    pthread_mutex_lock(&r->lock);
    r->setting.limit = bytes;
    pthread_mutex_unlock(&r->lock);
}
int residency_limited(const residency *r) { return r->setting.limit != 0 || r->granted != 0; }

/* ---- figures ---- */

static size_t read_size(const residency *r, const size_t *member)
{
    residency *own = (residency *)(uintptr_t)r; /* the lock is no part of what a reader sees */
    pthread_mutex_lock(&own->lock);
    size_t value = *member;
    pthread_mutex_unlock(&own->lock);
    return value;
}
size_t residency_bytes(const residency *r) { return read_size(r, &r->bytes); }
size_t residency_peak(const residency *r) { return read_size(r, &r->peak); }
residency_traffic residency_traffic_get(const residency *r) { return r->traffic; }

void residency_order_is_whole(residency *r)
{
    pthread_mutex_lock(&r->lock);
    r->order.once = 1;
    pthread_mutex_unlock(&r->lock);
}

kiln_status residency_note_run(residency_pass *p, error *e)
{
    pthread_mutex_lock(&p->r->lock);
    kiln_status status = order_note(&p->r->order, p, e);
    if (status == KILN_OK) read_ahead_noted(p->r);
    pthread_mutex_unlock(&p->r->lock);
    return status;
}
