/* residency.c - see residency.h. A hash table of packed weights with reference counts, under one lock that is not
 * held while packing: a second asker of the same weight waits for the first.
 */
#include "memory/residency.h"

#include "base/hash.h"
#include "base/memory_alloc.h"

#include <pthread.h>
#include <string.h>

enum { BUCKETS = 4096 };

struct resident {
    resident *next;
    residency *owner;
    digest key;
    void *data;
    size_t bytes;
    unsigned refs;
    int ready; /* 0: being packed */
};

struct residency {
    pthread_mutex_t lock;
    pthread_cond_t packed;
    resident *bucket[BUCKETS];
    size_t bytes, peak;
};

residency *residency_new(void)
{
    residency *r = mem_calloc(1, sizeof *r);
    if (!r) return NULL;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->packed, NULL);
    return r;
}

void residency_free(residency *r)
{
    if (!r) return;
    for (size_t i = 0; i < BUCKETS; i++)
        while (r->bucket[i]) {
            resident *x = r->bucket[i];
            r->bucket[i] = x->next;
            mem_free(x->data);
            mem_free(x);
        }
    pthread_cond_destroy(&r->packed);
    pthread_mutex_destroy(&r->lock);
    mem_free(r);
}

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

static resident *find(residency *r, digest key)
{
    for (resident *x = r->bucket[key.lo % BUCKETS]; x; x = x->next)
        if (digest_equal(x->key, key)) return x;
    return NULL;
}

static void take_out(residency *r, resident *x)
{
    for (resident **at = &r->bucket[x->key.lo % BUCKETS]; *at; at = &(*at)->next)
        if (*at == x) {
            *at = x->next;
            break;
        }
    r->bytes -= x->bytes;
    mem_free(x->data);
    mem_free(x);
}

static resident *put_in(residency *r, digest key, size_t bytes)
{
    resident *x = mem_calloc(1, sizeof *x);
    void *data = x ? mem_aligned(64, bytes) : NULL;
    if (!data) {
        mem_free(x);
        return NULL;
    }
    *x = (resident){.next = r->bucket[key.lo % BUCKETS], .owner = r, .key = key, .data = data, .bytes = bytes, .refs = 1};
    r->bucket[key.lo % BUCKETS] = x;
    r->bytes += bytes;
    if (r->bytes > r->peak) r->peak = r->bytes;
    return x;
}

/* Waits until somebody else's packing is over; NULL when it failed. Called with the lock held and a reference taken. */
static resident *wait_for(residency *r, resident *x, digest key)
{
    while (x && !x->ready) {
        pthread_cond_wait(&r->packed, &r->lock);
        x = find(r, key);
    }
    return x;
}

kiln_status residency_get(residency *r, const char *set_identity, const char *tensor, const char *pack_form, size_t bytes,
                          kiln_status (*pack)(void *arg, void *dst, error *e), void *arg, resident **out, error *e)
{
    digest key;
    TRY(key_of(set_identity, tensor, pack_form, &key, e));
    pthread_mutex_lock(&r->lock);
    resident *x = wait_for(r, find(r, key), key);
    if (x) {
        x->refs++;
        pthread_mutex_unlock(&r->lock);
        *out = x;
        return KILN_OK;
    }
    x = put_in(r, key, bytes);
    pthread_mutex_unlock(&r->lock);
    if (!x) return error_set(e, KILN_ERR_NOMEM, "out of memory for the weight '%s' (%zu bytes)", tensor, bytes);
    kiln_status status = pack(arg, x->data, e);
    pthread_mutex_lock(&r->lock);
    if (status == KILN_OK)
        x->ready = 1;
    else
        take_out(r, x);
    pthread_cond_broadcast(&r->packed);
    pthread_mutex_unlock(&r->lock);
    *out = status == KILN_OK ? x : NULL;
    return status;
}

const void *resident_data(const resident *x) { return x->data; }

void resident_release(resident *x)
{
    if (!x) return;
    residency *r = x->owner;
    pthread_mutex_lock(&r->lock);
    if (--x->refs == 0) take_out(r, x);
    pthread_mutex_unlock(&r->lock);
}

size_t residency_bytes(const residency *r) { return r->bytes; }
size_t residency_peak(const residency *r) { return r->peak; }
