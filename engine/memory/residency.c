/* residency.c - see residency.h. A hash table of packed weights with reference counts; what is not needed by the
 * running pass leaves when somebody needs its room: what is wanted again last goes first.
 */
#include "memory/residency.h"

#include "base/memory_alloc.h"
#include "memory/residency_parts.h"

#include <string.h>

static kiln_status make_streams(residency *r, error *e)
{
    if (!r->call->asynchronous) return KILN_OK;
    TRY(r->call->stream_new(r->device, &r->compute, e));
    TRY(r->call->stream_new(r->device, &r->copy, e));
    for (int i = 0; i < STAGES; i++) TRY(r->call->event_new(r->device, &r->stage[i].copied, e));
    return KILN_OK;
}

static void give_up(void *arg, size_t bytes) { residency_give_up(arg, bytes); }

residency *residency_new(const residency_setting *setting, error *e)
{
    residency *r = mem_calloc(1, sizeof *r);
    if (!r) return error_set(e, KILN_ERR_NOMEM, "out of memory"), NULL;
    r->setting = *setting;
    r->device = setting->device;
    r->call = setting->device->table;
    r->budget = budget_new(setting->limit);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->unguarded, NULL);
    if (!r->budget) error_set(e, KILN_ERR_NOMEM, "out of memory");
    if (!r->budget || make_streams(r, e) != KILN_OK) {
        residency_free(r);
        return NULL;
    }
    budget_on_pressure(r->budget, give_up, r);
    return r;
}

void residency_free(residency *r)
{
    if (!r) return;
    for (int i = 0; i < STAGES; i++) {
        if (r->stage[i].data) r->call->host_release(r->device, r->stage[i].data);
        if (r->stage[i].copied) r->call->event_free(r->device, r->stage[i].copied);
    }
    if (r->block) residency_drop(r, MEMORY_ACTIVATIONS, r->block_bytes, r->block);
    if (r->ring) residency_drop(r, MEMORY_WEIGHTS, r->ring_bytes, r->ring);
    if (r->fork) r->call->event_free(r->device, r->fork);
    if (r->arrived) r->call->event_free(r->device, r->arrived);
    if (r->compute) r->call->stream_free(r->device, r->compute);
    if (r->copy) r->call->stream_free(r->device, r->copy);
    for (size_t i = 0; i < BUCKETS; i++)
        while (r->bucket[i]) { /* references that nobody gave back */
            resident *x = r->bucket[i];
            r->bucket[i] = x->next;
            r->call->release(r->device, x->data);
            if (x->host) r->call->host_release(r->device, x->host);
            mem_free(x);
        }
    budget_free(r->budget);
    mem_free(r->order);
    pthread_cond_destroy(&r->unguarded);
    pthread_mutex_destroy(&r->lock);
    mem_free(r);
}

budget *residency_budget(const residency *r) { return r->budget; }
memory_device *residency_device(const residency *r) { return r->device; }

/* ---- the device's memory ---- */

static void count(residency *r, memory_kind kind, size_t bytes)
{
    if (kind != MEMORY_WEIGHTS) return;
    pthread_mutex_lock(&r->lock);
    r->bytes += bytes;
    if (r->bytes > r->peak) r->peak = r->bytes;
    pthread_mutex_unlock(&r->lock);
}

kiln_status residency_alloc(residency *r, memory_kind kind, size_t bytes, const char *what, void **out, error *e)
{
    TRY(budget_take(r->budget, kind, bytes, what, e));
    error why = {0};
    kiln_status status = r->call->alloc(r->device, bytes, out, &why);
    if (status == KILN_ERR_NOMEM) { /* the device is fuller than the budget says: others are on it */
        residency_give_up(r, bytes);
        why = (error){0};
        status = r->call->alloc(r->device, bytes, out, &why);
    }
    if (status == KILN_OK) {
        count(r, kind, bytes);
        return KILN_OK;
    }
    budget_give(r->budget, kind, bytes);
    if (status == KILN_ERR_NOMEM) r->granted = budget_used(r->budget), r->refused = bytes;
    return error_set(e, status, "%s: %s", what, why.message);
}

void residency_drop(residency *r, memory_kind kind, size_t bytes, void *data)
{
    if (!data) return;
    r->call->release(r->device, data);
    budget_give(r->budget, kind, bytes);
    if (kind != MEMORY_WEIGHTS) return;
    pthread_mutex_lock(&r->lock);
    r->bytes -= bytes;
    pthread_mutex_unlock(&r->lock);
}

/* ---- weights ---- */

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

kiln_status residency_intern(residency *r, const char *set_identity, const char *tensor, const char *pack_form,
                             size_t bytes, resident **out, error *e)
{
    digest key;
    TRY(key_of(set_identity, tensor, pack_form, &key, e));
    pthread_mutex_lock(&r->lock);
    resident **bucket = &r->bucket[key.lo % BUCKETS], *x = *bucket;
    while (x && !digest_equal(x->key, key)) x = x->next;
    if (!x && (x = mem_calloc(1, sizeof *x))) {
        *x = (resident){.next = *bucket,
                        .owner = r,
                        .key = key,
                        .bytes = bytes,
                        .capacity = residency_round(r, bytes ? bytes : 1),
                        .wanted = UINT64_MAX};
        *bucket = x;
    }
    if (x) x->refs++;
    pthread_mutex_unlock(&r->lock);
    *out = x;
    return x ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory for the weight '%s'", tensor);
}

static void take_out(residency *r, resident *x)
{
    for (resident **at = &r->bucket[x->key.lo % BUCKETS]; *at; at = &(*at)->next)
        if (*at == x) {
            *at = x->next;
            return;
        }
}

void resident_release(resident *x)
{
    if (!x) return;
    residency *r = x->owner;
    pthread_mutex_lock(&r->lock);
    int last = --x->refs == 0;
    if (last) take_out(r, x);
    pthread_mutex_unlock(&r->lock);
    if (!last) return;
    prefetch_settle(r, x->prefetch_batch);
    residency_drop(r, MEMORY_WEIGHTS, x->capacity, x->data);
    resident_unhost(x);
    mem_free(x);
}

const void *resident_data(const resident *x) { return x->data; }

kiln_status resident_place(resident *x, const char *what, error *e)
{
    return residency_alloc(x->owner, MEMORY_WEIGHTS, x->capacity, what, &x->data, e);
}

void resident_evict(resident *x)
{
    residency *r = x->owner;
    prefetch_settle(r, x->prefetch_batch);
    void *data = x->data;
    x->data = NULL;
    r->traffic.evicted += x->capacity;
    r->generation++;
    residency_drop(r, MEMORY_WEIGHTS, x->capacity, data);
}

int resident_host(resident *x)
{
    residency *r = x->owner;
    if (x->host) return 1;
    pthread_mutex_lock(&r->lock);
    int fits = r->host_bytes + x->capacity <= r->setting.host_limit;
    if (fits) r->host_bytes += x->capacity;
    pthread_mutex_unlock(&r->lock);
    if (fits && r->call->host_alloc(r->device, x->capacity, &x->host, NULL) == KILN_OK) return 1;
    x->host = NULL;
    pthread_mutex_lock(&r->lock);
    if (fits) r->host_bytes -= x->capacity;
    pthread_mutex_unlock(&r->lock);
    return 0;
}

void resident_unhost(resident *x)
{
    residency *r = x->owner;
    if (!x->host) return;
    r->call->host_release(r->device, x->host);
    x->host = NULL;
    pthread_mutex_lock(&r->lock);
    r->host_bytes -= x->capacity;
    pthread_mutex_unlock(&r->lock);
}

int resident_goes_before(const resident *x, const resident *y)
{
    if (x->wanted != y->wanted) return x->wanted > y->wanted;
    if (x->used != y->used) return x->used < y->used;
    return x->capacity > y->capacity;
}

/* Called with the lock held. */
static resident *first_to_go(residency *r)
{
    resident *best = NULL;
    for (size_t i = 0; i < BUCKETS; i++)
        for (resident *x = r->bucket[i]; x; x = x->next)
            if (x->data && !x->in && !x->kept_for && (!best || resident_goes_before(x, best))) best = x;
    return best;
}

void residency_give_up(residency *r, size_t bytes)
{
    for (size_t given = 0; given < bytes;) {
        pthread_mutex_lock(&r->lock);
        resident *x = first_to_go(r);
        void *data = x ? x->data : NULL;
        size_t capacity = x ? x->capacity : 0;
        uint64_t batch = x ? x->prefetch_batch : 0;
        if (x) x->data = NULL;                                  /* nobody else can take it now */
        if (x) r->traffic.evicted += capacity, r->generation++; /* graphs that know its place are none any more */
        pthread_mutex_unlock(&r->lock);
        if (!data) return;
        prefetch_settle(r, batch);
        residency_drop(r, MEMORY_WEIGHTS, capacity, data);
        given += capacity;
    }
}

kiln_status residency_take(residency *r, memory_kind kind, size_t bytes, const char *what, void **out, error *e)
{
    return residency_alloc(r, kind, residency_round(r, bytes ? bytes : 1), what, out, e);
}
void residency_give(residency *r, memory_kind kind, size_t bytes, void *data)
{
    residency_drop(r, kind, residency_round(r, bytes ? bytes : 1), data);
}
device_stream *residency_stream(const residency *r) { return r->compute; }

int residency_limited(const residency *r) { return r->setting.limit != 0 || r->granted != 0; }

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
