/* prefetch.c - the order of programs, and the next one's weights on their way before this one is done: see residency.h.
 *
 * The rehearsal notes which program comes after which, and how often in a row. In the last of a program's runs in a
 * row, when all of it has been enqueued, the host has nothing to do but wait; meanwhile it reads and packs what the
 * next program will keep and gives it to the copy stream. Room for that is what the limit leaves, and what the next
 * begin would evict anyway: weights of programs that do not run go at once, the running program's own when a checkpoint
 * behind their last use has been passed.
 *
 * Bytes that are brought in so belong to a batch, and `arrived` is recorded behind it on the copy stream: the compute
 * stream waits for it when the next program begins, and whoever evicts one of them before waits for it too.
 */
#include "base/memory_alloc.h"
#include "memory/residency_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the order of programs ---- */

kiln_status residency_note_run(residency_pass *p, error *e)
{
    residency *r = p->r;
    kiln_status status = KILN_OK;
    pthread_mutex_lock(&r->lock);
    r->at = 0, r->ran = 0;
    if (r->n_order && r->order[r->n_order - 1].pass == p) {
        r->order[r->n_order - 1].runs++;
        pthread_mutex_unlock(&r->lock);
        return KILN_OK;
    }
    if (r->n_order == r->order_capacity) {
        size_t capacity = r->order_capacity ? 2 * r->order_capacity : 16;
        order_entry *more = mem_realloc(r->order, capacity * sizeof *more);
        if (more)
            r->order = more, r->order_capacity = capacity;
        else
            status = error_set(e, KILN_ERR_NOMEM, "out of memory");
    }
    if (status == KILN_OK) r->order[r->n_order++] = (order_entry){.pass = p, .runs = 1};
    pthread_mutex_unlock(&r->lock);
    return status;
}

/* Here, while runs of it in a row are left; else its next place, round the end if need be. Twice is as once. */
void order_find(residency *r, const residency_pass *p)
{
    if (r->n_order && r->order[r->at].pass == p && r->ran < r->order[r->at].runs) return;
    for (size_t i = 1; i <= r->n_order; i++) {
        size_t at = (r->at + i) % r->n_order;
        if (r->order[at].pass != p) continue;
        r->at = at, r->ran = 0;
        return;
    }
}

/* Gives every weight the distance of its next use, for a program that stands at `from`. */
void order_set_wanted(residency *r, size_t from)
{
    for (residency_pass *q = r->passes; q; q = q->next)
        for (size_t w = 0; w < q->d.n_weight; w++) q->d.weight[w]->wanted = UINT64_MAX;
    for (size_t i = r->n_order; i-- > 0;) {
        const residency_pass *q = r->order[(from + i) % r->n_order].pass;
        for (size_t w = 0; w < q->d.n_weight; w++) q->d.weight[w]->wanted = i;
    }
}

void order_forget(residency *r, const residency_pass *p)
{
    size_t kept = 0, at = 0;
    for (size_t i = 0; i < r->n_order; i++) {
        if (i == r->at) {
            at = kept;
            if (r->order[i].pass == p) r->ran = 0;
        }
        if (r->order[i].pass != p) r->order[kept++] = r->order[i];
    }
    r->n_order = kept;
    r->at = at < kept ? at : 0;
}

/* The program after the last of p's runs in a row, which is not freed until it is let go; NULL: this is not the last,
 * or nothing comes. Past the end of the order nothing is known to come. */
static residency_pass *invariant_next(residency *r, const residency_pass *p)
{
    residency_pass *q = NULL;
    pthread_mutex_lock(&r->lock);
    if (r->at + 1 < r->n_order && r->order[r->at].pass == p && r->ran == r->order[r->at].runs)
        q = r->order[r->at + 1].pass;
    if (q == p) q = NULL;
    if (q) q->guards++;
    pthread_mutex_unlock(&r->lock);
    return q;
}

static void let_next_go(residency_pass *q)
{
    residency *r = q->r;
    pthread_mutex_lock(&r->lock);
    for (size_t w = 0; w < q->d.n_weight; w++) q->d.weight[w]->kept_for = NULL;
    if (--q->guards == 0) pthread_cond_broadcast(&r->unguarded);
    pthread_mutex_unlock(&r->lock);
}

/* ---- what makes way ---- */

static int keeps(const residency_pass *q, size_t w) { return !q->place.streamed[w]; }

/* Bytes too many when q will begin, of which its begin would evict as many. early: p's own weights are still to come.
 */
static size_t too_many(const residency_pass *p, const residency_pass *q, size_t limit, int early)
{
    const residency *r = p->r;
    size_t held = budget_used(r->budget) - r->block_bytes - r->ring_bytes + pass_missing(q) + pass_block(q) +
                  q->place.ring + (early ? pass_missing(p) : 0);
    return limit && held > limit ? held - limit : 0;
}

static int by_next_use(const void *a, const void *b)
{
    const resident *x = *(resident *const *)a, *y = *(resident *const *)b;
    return resident_goes_before(x, y) ? -1 : resident_goes_before(y, x);
}

static int may_go(const resident *x, const residency_pass *p, int early)
{
    return !x->kept_for && (x->in == p ? x->data || early : x->data && !x->in);
}

/* With the lock held. */
static size_t gather(const residency *r, const residency_pass *p, int early, resident **out)
{
    size_t n = 0;
    for (size_t i = 0; i < BUCKETS; i++)
        for (resident *x = r->bucket[i]; x; x = x->next) {
            if (!may_go(x, p, early)) continue;
            if (out) out[n] = x;
            n++;
        }
    return n;
}

/* Marks what q's begin would evict, as the batch's victims. 1: weights of p are among them. */
static int choose_victims(const residency_pass *p, const residency_pass *q, uint64_t batch, size_t limit, int early)
{
    residency *r = p->r;
    size_t over = too_many(p, q, limit, early), n = 0;
    int own = 0;
    pthread_mutex_lock(&r->lock);
    order_set_wanted(r, (r->at + 1) % r->n_order);
    for (size_t w = 0; w < q->d.n_weight; w++) q->d.weight[w]->kept_for = keeps(q, w) ? q : NULL;
    resident **all = over ? mem_alloc((gather(r, p, early, NULL) + 1) * sizeof(resident *)) : NULL;
    if (all) n = gather(r, p, early, all);
    if (n) qsort(all, n, sizeof *all, by_next_use);
    for (size_t i = 0, bytes = 0; i < n && bytes < over; bytes += all[i++]->capacity) {
        all[i]->victim = batch;
        own |= all[i]->in == p;
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
        if (pass_event(p->r, &p->check[i], NULL) != KILN_OK) n = i;
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

/* Its files are read meanwhile, as far as the system has room for that. */
static void ask_for_files(const residency_pass *q)
{
    size_t free_bytes = 0, total = 0, asked = 0;
    if (!q->d.will_need || q->r->call->memory(q->r->device, &free_bytes, &total, NULL) != KILN_OK) return;
    for (size_t u = 0; u < q->d.n_use; u++) {
        uint32_t w = q->d.use[u].weight;
        if (q->d.maker[w] != u || q->d.weight[w]->data) continue;
        asked += q->d.bytes[w];
        if (asked > free_bytes / 2) return;
        q->d.will_need(q->d.arg, u);
    }
}

void prefetch_begin(residency_pass *p)
{
    residency *r = p->r;
    error why = {0};
    p->n_check = 0;
    pthread_mutex_lock(&r->lock);
    if (r->n_order && r->order[r->at].pass == p) r->ran++;
    pthread_mutex_unlock(&r->lock);
    residency_pass *q = invariant_next(r, p);
    if (!q) return;
    if (!r->call->asynchronous)
        ask_for_files(q);
    else if (pass_find_placement(q, &why) == KILN_OK && pass_missing(q) &&
             choose_victims(p, q, ++r->prefetch_batch, pass_limit(r), 1))
        place_checkpoints(p);
    let_next_go(q);
}

/* ---- bringing in ---- */

typedef struct {
    residency *r;
    residency_pass *p, *q;
    uint64_t batch;
    size_t limit, weights, bytes;
    uint32_t *last;  /* [p's weights] the op that reads it last */
    unsigned passed; /* checkpoints */
    int (*stop)(void *);
    void *arg;
} bringing;

/* A victim that no run holds. */
static int evict_other(const bringing *b)
{
    residency *r = b->r;
    resident *x = NULL;
    size_t capacity = 0;
    void *data = NULL;
    uint64_t prefetch_batch = 0;
    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < BUCKETS && !x; i++)
        for (x = r->bucket[i]; x && !(x->victim == b->batch && x->data && !x->in && !x->kept_for);) x = x->next;
    if (x)
        data = x->data, capacity = x->capacity, prefetch_batch = x->prefetch_batch, x->data = NULL,
        r->traffic.evicted += capacity, r->generation++;
    pthread_mutex_unlock(&r->lock);
    if (!data) return 0;
    prefetch_settle(r, prefetch_batch);
    residency_drop(r, MEMORY_WEIGHTS, capacity, data);
    return 1;
}

/* A victim of p's own that no op behind the last checkpoint reads. */
static int evict_own(const bringing *b)
{
    for (size_t w = 0; b->last && b->passed && w < b->p->d.n_weight; w++) {
        resident *x = b->p->d.weight[w];
        if (x->victim != b->batch || !x->data || x->in != b->p || b->last[w] > b->p->check_op[b->passed - 1]) continue;
        resident_evict(x);
        return 1;
    }
    return 0;
}

static int pass_checkpoint(bringing *b)
{
    if (!b->last || b->passed == b->p->n_checked ||
        b->r->call->sync_event(b->r->device, b->p->check[b->passed], NULL) != KILN_OK)
        return 0;
    b->passed++;
    return 1;
}

static int make_capacity(bringing *b, size_t bytes, int waiting)
{
    while (b->limit && budget_used(b->r->budget) + bytes > b->limit)
        if (!evict_other(b) && !evict_own(b) && !(waiting && pass_checkpoint(b))) return 0;
    return 1;
}

/* As residency_alloc, but nothing goes for it and a device that is full says nothing about the limit. */
static kiln_status take_place(const bringing *b, resident *x)
{
    residency *r = b->r;
    void *data = NULL;
    TRY(budget_take(r->budget, MEMORY_WEIGHTS, x->capacity, "a weight", NULL));
    kiln_status status = r->call->alloc(r->device, x->capacity, &data, NULL);
    if (status != KILN_OK) {
        budget_give(r->budget, MEMORY_WEIGHTS, x->capacity);
        return status;
    }
    pthread_mutex_lock(&r->lock);
    x->data = data, x->prefetch_batch = b->batch;
    r->bytes += x->capacity, r->generation++;
    if (r->bytes > r->peak) r->peak = r->bytes;
    pthread_mutex_unlock(&r->lock);
    return KILN_OK;
}

static void take_back(const bringing *b, resident *x)
{
    b->r->call->sync(b->r->device, b->r->copy, NULL); /* a copy to it may be under way */
    x->prefetch_batch = 0;
    resident_evict(x);
}

static kiln_status bring_weight(bringing *b, uint32_t w)
{
    resident *x = b->q->d.weight[w];
    error why = {0};
    TRY(take_place(b, x));
    kiln_status status = pass_copy_weight(b->q, w, x->data, &why);
    if (status != KILN_OK) {
        take_back(b, x);
        return status;
    }
    b->weights++, b->bytes += x->bytes;
    b->r->traffic.prefetch_bytes += x->bytes;
    return KILN_OK;
}

/* Packed and page-locked until there is room for it. */
static kiln_status make_ready(bringing *b, uint32_t w)
{
    resident *x = b->q->d.weight[w];
    error why = {0};
    if (x->host || !resident_host(x)) return KILN_OK;
    kiln_status status = pass_pack_weight(b->q, w, x->host, &why);
    if (status != KILN_OK) resident_unhost(x);
    return status;
}

/* In the order of use: first what there is room for now, the rest made ready; then, if waiting, what checkpoints give
 * room for. */
static kiln_status bring_weights(bringing *b, int waiting)
{
    const residency_demand *d = &b->q->d;
    for (size_t u = 0; u < d->n_use; u++) {
        uint32_t w = d->use[u].weight;
        if (!keeps(b->q, w) || d->weight[w]->data) continue;
        if (b->stop && b->stop(b->arg)) return KILN_CANCELLED;
        if (make_capacity(b, d->weight[w]->capacity, waiting))
            TRY(bring_weight(b, w));
        else if (waiting)
            return KILN_ERR_NOMEM;
        else
            TRY(make_ready(b, w));
    }
    return KILN_OK;
}

/* What was sent is known by `arrived`; where that cannot be, it is waited for, and goes again if that fails too. */
static void conclude(const bringing *b)
{
    residency *r = b->r;
    int recorded = r->call->record(r->device, r->arrived, r->copy, NULL) == KILN_OK,
        sound = recorded || r->call->sync(r->device, r->copy, NULL) == KILN_OK;
    pthread_mutex_lock(&r->lock);
    r->prefetch_recorded = b->batch;
    pthread_mutex_unlock(&r->lock);
    if (recorded) return;
    prefetch_seen(r, b->batch);
    for (size_t w = 0; !sound && w < b->q->d.n_weight; w++)
        if (b->q->d.weight[w]->data && b->q->d.weight[w]->prefetch_batch == b->batch) resident_evict(b->q->d.weight[w]);
}

static void note_last_uses(bringing *b)
{
    const residency_demand *d = &b->p->d;
    if (!b->p->n_checked || !(b->last = mem_calloc(d->n_weight + 1, sizeof *b->last))) return;
    for (size_t u = 0; u < d->n_use; u++) b->last[d->use[u].weight] = d->use[u].op;
}

static void bring(bringing *b)
{
    error why = {0};
    if (pass_find_placement(b->q, &why) != KILN_OK || !pass_missing(b->q) ||
        pass_event(b->r, &b->r->arrived, NULL) != KILN_OK)
        return;
    b->limit = pass_limit(b->r);
    b->batch = ++b->r->prefetch_batch;
    choose_victims(b->p, b->q, b->batch, b->limit, 0);
    note_last_uses(b);
    if (bring_weights(b, 0) == KILN_OK) bring_weights(b, 1);
    if (b->weights) conclude(b);
    mem_free(b->last);
}

residency_prefetched residency_prefetch_next(residency_pass *p, int (*stop)(void *), void *arg)
{
    residency *r = p->r;
    residency_pass *q = r->call->asynchronous ? invariant_next(r, p) : NULL;
    if (!q) return (residency_prefetched){0};
    bringing b = {.r = r, .p = p, .q = q, .stop = stop, .arg = arg};
    bring(&b);
    snprintf(r->prefetch_name, sizeof r->prefetch_name, "%s", q->d.name);
    let_next_go(q);
    return (residency_prefetched){.name = b.weights ? r->prefetch_name : NULL, .weights = b.weights, .bytes = b.bytes};
}

/* ---- whether it is there ---- */

void prefetch_seen(residency *r, uint64_t batch)
{
    pthread_mutex_lock(&r->lock);
    if (batch > r->prefetch_seen) r->prefetch_seen = batch;
    pthread_mutex_unlock(&r->lock);
}

void prefetch_settle(residency *r, uint64_t batch)
{
    pthread_mutex_lock(&r->lock);
    uint64_t seen = r->prefetch_seen, recorded = r->prefetch_recorded;
    pthread_mutex_unlock(&r->lock);
    if (batch <= seen) return;
    r->call->sync_event(r->device, r->arrived, NULL); /* a device that fails here does nothing any more */
    prefetch_seen(r, recorded);
}

kiln_status prefetch_wait(residency *r, error *e)
{
    pthread_mutex_lock(&r->lock);
    uint64_t seen = r->prefetch_seen, recorded = r->prefetch_recorded;
    pthread_mutex_unlock(&r->lock);
    if (recorded > seen) TRY(r->call->wait(r->device, r->compute, r->arrived, e));
    r->prefetch_waited = recorded;
    return KILN_OK;
}
