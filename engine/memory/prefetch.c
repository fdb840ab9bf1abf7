/* prefetch.c - the next program's weights on their way before this one is done: see prefetch.h and residency.h.
 *
 * In the last of a program's runs in a row, once all of it has been enqueued, the host has nothing to do but wait. It
 * uses that time to read and pack the weights that the next program keeps on the device, and gives them to the copy
 * stream. Memory for them is what the limit leaves, and what the next begin would evict anyway: weights of programs
 * that do not run are evicted at once, the running program's own when a checkpoint behind their last use has been
 * passed.
 */
#include "base/lock.h"
#include "base/memory_alloc.h"
#include "memory/manager.h"
#include "memory/packed_weight.h"
#include "memory/pass.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- the program after this one ---- */

/* The program after the last of p's runs in a row, which cannot be freed until release_next; NULL: this is not the last
 * one, nothing is known to come, or prefetch is switched off. */
static residency_pass *guard_next(residency *r, const residency_pass *p)
{
    if (r->setting.no_prefetch) return NULL;
    pthread_mutex_lock(&r->lock);
    residency_pass *q = order_next(&r->order, p);
    if (q) q->guards++;
    pthread_mutex_unlock(&r->lock);
    return q;
}

static void release_next(residency_pass *q)
{
    residency *r = q->r;
    pthread_mutex_lock(&r->lock);
    assert(q->guards > 0);
    for (size_t w = 0; w < q->d.n_weight; w++) weight_unpin(q->d.weight[w], PIN_NEXT);
    if (--q->guards == 0) pthread_cond_broadcast(&r->prefetch.unguarded);
    pthread_mutex_unlock(&r->lock);
}

/* ---- what is evicted for it ---- */

/* Bytes too many when q will begin: its begin would evict as many. early: p's own weights are still to come. */
static size_t too_many(const residency_pass *p, const residency_pass *q, size_t limit, int early)
{
    const residency *r = p->r;
    size_t held = budget_used(r->budget) - r->block_bytes - r->ring_bytes + placement_missing(q) + placement_block(q) +
                  q->place.ring + (early ? placement_missing(p) : 0);
    return limit && held > limit ? held - limit : 0;
}

static int by_next_use(const void *a, const void *b)
{
    const packed_weight *x = *(packed_weight *const *)a, *y = *(packed_weight *const *)b;
    return weight_goes_before(x, y) ? -1 : weight_goes_before(y, x);
}

static int may_go(const packed_weight *x, int early)
{
    return !(x->pins & PIN_NEXT) && (weight_on_device(x) || (early && x->pins & PIN_RUN));
}

/* The weights that may go: their number, and themselves in out, if that is not NULL. */
static size_t gather(const residency *r, int early, packed_weight **out)
{
    size_t n = 0;
    for (size_t i = 0; i < BUCKETS; i++)
        for (packed_weight *x = r->bucket[i]; x; x = x->next) {
            if (!may_go(x, early)) continue;
            if (out) out[n] = x;
            n++;
        }
    return n;
}

/* Pins what q keeps, and marks what q's begin would evict as the batch's victims. 1: weights of p are among them. */
static int choose_victims(const residency_pass *p, const residency_pass *q, uint64_t batch, size_t limit, int early)
{
    residency *r = p->r;
    size_t over = too_many(p, q, limit, early), n = 0;
    int own = 0;
    pthread_mutex_lock(&r->lock);
    order_set_wanted(&r->order, r->passes, 1);
    for (size_t w = 0; w < q->d.n_weight; w++)
        if (placement_keeps(q, w)) weight_pin(q->d.weight[w], PIN_NEXT);
    packed_weight **all = over ? mem_alloc((gather(r, early, NULL) + 1) * sizeof *all) : NULL;
    if (all) n = gather(r, early, all);
    if (n) qsort(all, n, sizeof *all, by_next_use);
    for (size_t i = 0, bytes = 0; i < n && bytes < over; bytes += all[i++]->capacity) {
        all[i]->victim = batch;
        own |= (all[i]->pins & PIN_RUN) != 0;
    }
    pthread_mutex_unlock(&r->lock);
    mem_free(all);
    return own;
}

/* ---- checkpoints ---- */

/* Where an eighth of the work, two eighths, ... are done. */
static void place_checkpoints(residency_pass *p)
{
    double all = 0, so_far = 0;
    unsigned n = 0, part = 1;
    for (size_t i = 0; i < p->d.n_op; i++) all += p->d.work[i];
    for (size_t i = 0; i < p->d.n_op; i++) {
        so_far += p->d.work[i];
        if (part > CHECKPOINTS || so_far * (CHECKPOINTS + 1) < all * part) continue;
        p->check_op[n++] = (uint32_t)i;
        while (part <= CHECKPOINTS && so_far * (CHECKPOINTS + 1) >= all * part) part++;
    }
    for (unsigned i = 0; i < n; i++)
        if (manager_event(p->r, &p->check[i], NULL) != KILN_OK) n = i;
    p->n_check = n;
}

void prefetch_checkpoint(residency_pass *p, uint32_t op)
{
    for (residency *r = p->r; p->n_checked < p->n_check && op >= p->check_op[p->n_checked]; p->n_checked++)
        if (r->call->record(r->device, p->check[p->n_checked], r->compute, NULL) != KILN_OK) {
            p->n_check = p->n_checked; /* what lies behind it does not make way */
            return;
        }
}

void prefetch_begin(residency_pass *p)
{
    residency *r = p->r;
    error why = {0};
    assert(r->running == p);
    p->n_check = 0;
    pthread_mutex_lock(&r->lock);
    order_count(&r->order, p);
    pthread_mutex_unlock(&r->lock);
    residency_pass *q = guard_next(r, p);
    if (!q) return;
    if (!r->call->asynchronous)
        read_ahead_of(q);
    else if (placement_find(q, &why) == KILN_OK && placement_missing(q) &&
             choose_victims(p, q, ++r->prefetch.begun, placement_limit(r), 1))
        place_checkpoints(p);
    release_next(q);
}

/* ---- memory for the next program's weights ---- */

/* One batch: p runs, q's weights are sent. */
typedef struct {
    residency *r;
    residency_pass *p, *q;
    uint64_t batch;
    size_t limit, weights, bytes;
    uint32_t *last;  /* [p's weights] the op that reads it last; NULL: no checkpoints */
    unsigned passed; /* checkpoints that the host knows are passed */
    int (*stop)(void *);
    void *arg;
} prefetch_batch;

/* A victim that nobody needs in place. */
static int evict_other(const prefetch_batch *b)
{
    residency *r = b->r;
    weight_memory m = {0};
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < BUCKETS && !m.data; i++)
        for (packed_weight *x = r->bucket[i]; x && !m.data; x = x->next)
            if (x->victim == b->batch && weight_on_device(x) && !x->pins) m = weight_detach(x, WEIGHT_IS_EVICTED);
    pthread_mutex_unlock(&r->lock);
    if (!m.data) return 0;
    weight_memory_release(r, &m);
    return 1;
}

/* A victim of p's own that no op after the last checkpoint passed reads. */
static int evict_own(const prefetch_batch *b)
{
    for (size_t w = 0; b->last && b->passed && w < b->p->d.n_weight; w++) {
        packed_weight *x = b->p->d.weight[w];
        if (x->victim != b->batch || x->pins != PIN_RUN || !weight_on_device(x) ||
            b->last[w] > b->p->check_op[b->passed - 1])
            continue;
        pthread_mutex_lock(&b->r->lock);
        if (x->state == WEIGHT_COPYING) weight_arrived(x); /* the ops that waited for it are done */
        pthread_mutex_unlock(&b->r->lock);
        weight_evict(x);
        return 1;
    }
    return 0;
}

static int pass_checkpoint(prefetch_batch *b)
{
    if (!b->last || b->passed == b->p->n_checked ||
        b->r->call->sync_event(b->r->device, b->p->check[b->passed], NULL) != KILN_OK)
        return 0;
    b->passed++;
    return 1;
}

static int make_space(prefetch_batch *b, size_t bytes, int waiting)
{
    while (b->limit && budget_used(b->r->budget) + bytes > b->limit)
        if (!evict_other(b) && !evict_own(b) && !(waiting && pass_checkpoint(b))) return 0;
    return 1;
}

/* ---- sending ---- */

static kiln_status place_weight(const prefetch_batch *b, packed_weight *x)
{
    residency *r = b->r;
    void *data = NULL;
    TRY(manager_alloc_free(r, MEMORY_WEIGHTS, x->capacity, &data));
    pthread_mutex_lock(&r->lock);
    kiln_status status =
        weight_transition(x, &(weight_change){.event = WEIGHT_IS_PLACED, .memory = data, .batch = b->batch}, NULL);
    r->generation++;
    pthread_mutex_unlock(&r->lock);
    if (status != KILN_OK) manager_release(r, MEMORY_WEIGHTS, x->capacity, data);
    return status;
}

static kiln_status send_weight(prefetch_batch *b, uint32_t w)
{
    residency *r = b->r;
    packed_weight *x = b->q->d.weight[w];
    error why = {0};
    TRY(place_weight(b, x));
    kiln_status status = pass_copy_weight(b->q, w, x->data, &why);
    if (status != KILN_OK) {
        r->call->sync(r->device, r->copy, NULL); /* a copy to it may be under way */
        weight_fail(x);
        return status;
    }
    b->weights++, b->bytes += x->bytes;
    r->traffic.prefetch_bytes += x->bytes;
    return KILN_OK;
}

/* In the order of use. First what there is memory for now, while the rest gets its host copies; then, if waiting, what
 * checkpoints give memory for. */
static kiln_status send_weights(prefetch_batch *b, int waiting)
{
    const residency_demand *d = &b->q->d;
    error why = {0};
    for (size_t u = 0; u < d->n_use; u++) {
        uint32_t w = d->use[u].weight;
        if (!placement_keeps(b->q, w) || weight_on_device(d->weight[w])) continue;
        if (b->stop && b->stop(b->arg)) return KILN_CANCELLED;
        if (make_space(b, d->weight[w]->capacity, waiting))
            TRY(send_weight(b, w));
        else if (waiting)
            return KILN_ERR_NOMEM;
        else
            TRY(pass_host_copy(b->q, w, &why));
    }
    return KILN_OK;
}

/* Records `arrived` behind what was sent. If that fails the host waits for the copies; if that fails too, the weights
 * count as failed. */
static void conclude(const prefetch_batch *b)
{
    residency *r = b->r;
    int recorded = r->call->record(r->device, r->prefetch.arrived, r->copy, NULL) == KILN_OK,
        sound = recorded || r->call->sync(r->device, r->copy, NULL) == KILN_OK;
    pthread_mutex_lock(&r->lock);
    r->prefetch.recorded = b->batch;
    pthread_mutex_unlock(&r->lock);
    if (recorded) return;
    for (size_t w = 0; !sound && w < b->q->d.n_weight; w++)
        if (b->q->d.weight[w]->state == WEIGHT_COPYING && b->q->d.weight[w]->batch == b->batch)
            weight_fail(b->q->d.weight[w]);
    prefetch_seen(r, b->batch);
}

static void note_last_uses(prefetch_batch *b)
{
    const residency_demand *d = &b->p->d;
    if (!b->p->n_checked || !(b->last = mem_calloc(d->n_weight + 1, sizeof *b->last))) return;
    for (size_t u = 0; u < d->n_use; u++) b->last[d->use[u].weight] = d->use[u].op;
}

static void send_batch(prefetch_batch *b)
{
    error why = {0};
    if (placement_find(b->q, &why) != KILN_OK || !placement_missing(b->q) ||
        manager_event(b->r, &b->r->prefetch.arrived, NULL) != KILN_OK)
        return;
    b->limit = placement_limit(b->r);
    b->batch = ++b->r->prefetch.begun;
    choose_victims(b->p, b->q, b->batch, b->limit, 0);
    note_last_uses(b);
    if (send_weights(b, 0) == KILN_OK) send_weights(b, 1);
    if (b->weights) conclude(b);
    mem_free(b->last);
}

residency_prefetched residency_prefetch_next(residency_pass *p, int (*stop)(void *), void *arg)
{
    residency *r = p->r;
    assert(r->running == p);
    residency_pass *q = r->call->asynchronous ? guard_next(r, p) : NULL;
    if (!q) return (residency_prefetched){0};
    prefetch_batch b = {.r = r, .p = p, .q = q, .stop = stop, .arg = arg};
    send_batch(&b);
    snprintf(r->prefetch.name, sizeof r->prefetch.name, "%s", q->d.name);
    release_next(q);
    return (residency_prefetched){.name = b.weights ? r->prefetch.name : NULL, .weights = b.weights, .bytes = b.bytes};
}

/* ---- whether it has arrived ---- */

void prefetch_seen(residency *r, uint64_t batch)
{
    pthread_mutex_lock(&r->lock);
    int more = batch > r->prefetch.seen;
    if (more) r->prefetch.seen = batch;
    for (size_t i = 0; more && i < BUCKETS; i++)
        for (packed_weight *x = r->bucket[i]; x; x = x->next)
            if (x->state == WEIGHT_COPYING && x->batch && x->batch <= batch) weight_arrived(x);
    pthread_mutex_unlock(&r->lock);
}

void prefetch_settle(residency *r, uint64_t batch)
{
    pthread_mutex_lock(&r->lock);
    uint64_t seen = r->prefetch.seen, recorded = r->prefetch.recorded;
    pthread_mutex_unlock(&r->lock);
    if (batch <= seen) return;
    assert(batch <= recorded);
    r->call->sync_event(r->device, r->prefetch.arrived, NULL); /* a device that fails here does nothing any more */
    prefetch_seen(r, recorded);
}

kiln_status prefetch_wait(residency *r, error *e)
{
    pthread_mutex_lock(&r->lock);
    uint64_t seen = r->prefetch.seen, recorded = r->prefetch.recorded;
    pthread_mutex_unlock(&r->lock);
    if (recorded > seen) TRY(r->call->wait(r->device, r->compute, r->prefetch.arrived, e));
    r->prefetch.waited = recorded;
    return KILN_OK;
}
