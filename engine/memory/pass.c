/* pass.c - a program's weights while it runs: see pass.h and residency.h.
 *
 * On an asynchronous device copies run on a stream of their own, as far before the ops that need them as slots allow.
 * Two events per op tie it to the compute stream: `ready` says that the op's weights have arrived, `done` that its
 * slots may be filled again. A weight without a host copy is packed into one of two stages on the way, and the host
 * waits until the stage's last copy is over; that is only done for the next few ops.
 */
#include "base/clock.h"
#include "base/lock.h"
#include "base/memory_alloc.h"
#include "memory/manager.h"
#include "memory/packed_weight.h"
#include "memory/pass.h"

#include <assert.h>
#include <string.h>

enum { PACK_LOOKAHEAD = 2 }; /* ops whose weights are packed before the device is given the op before them */

#ifndef NDEBUG
/* Uses in the order of ops; every number in its table. */
static int is_sound(const residency *r, const residency_demand *d)
{
    for (size_t u = 0; u < d->n_use; u++)
        if (d->use[u].op >= d->n_op || d->use[u].weight >= d->n_weight || (u && d->use[u - 1].op > d->use[u].op))
            return 0;
    for (size_t w = 0; w < d->n_weight; w++)
        if (d->maker[w] >= d->n_use || d->use[d->maker[w]].weight != w || d->weight[w]->owner != r ||
            d->weight[w]->bytes != d->bytes[w])
            return 0;
    return 1;
}
#endif

kiln_status residency_pass_new(residency *r, const residency_demand *d, residency_pass **out, error *e)
{
    assert(is_sound(r, d));
    residency_pass *p = mem_calloc(1, sizeof *p);
    if (!p) return error_set(e, KILN_ERR_NOMEM, "out of memory for a program");
    *p = (residency_pass){.r = r, .d = *d};
    p->data = mem_calloc(d->n_use + 1, sizeof *p->data);
    p->ready = mem_calloc(d->n_op + 1, sizeof *p->ready);
    p->done = mem_calloc(d->n_op + 1, sizeof *p->done);
    p->arriving = mem_calloc(d->n_op + 1, 1);
    pthread_mutex_lock(&r->lock);
    p->next = r->passes;
    r->passes = p;
    pthread_mutex_unlock(&r->lock);
    if (p->data && p->ready && p->done && p->arriving) {
        *out = p;
        return KILN_OK;
    }
    residency_pass_free(p);
    return error_set(e, KILN_ERR_NOMEM, "out of memory for a program");
}

static void free_events(residency_pass *p, device_event **event)
{
    for (size_t i = 0; event && i < p->d.n_op; i++)
        if (event[i]) p->r->call->event_free(p->r->device, event[i]);
    mem_free(event);
}

void residency_pass_free(residency_pass *p)
{
    if (!p) return;
    residency *r = p->r;
    pthread_mutex_lock(&r->lock);
    assert(r->running != p);
    p->leaves = 1;
    while (p->guards) pthread_cond_wait(&r->prefetch.unguarded, &r->lock);
    for (residency_pass **at = &r->passes; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    order_forget(&r->order, p);
    if (r->last == p) r->last = NULL;
    if (r->block_user == p) r->block_user = NULL;
    pthread_mutex_unlock(&r->lock);
    free_events(p, p->ready);
    free_events(p, p->done);
    for (int i = 0; i < CHECKPOINTS; i++)
        if (p->check[i]) r->call->event_free(r->device, p->check[i]);
    weight_plan_free(&p->place);
    mem_free(p->data);
    mem_free(p->arriving);
    mem_free(p);
}

/* ---- memory to run in ---- */

static void use_block(residency *r, const residency_pass *p)
{
    pthread_mutex_lock(&r->lock);
    r->block_user = p;
    pthread_mutex_unlock(&r->lock);
}

/* A block of exactly `bytes` where memory is short, else one that is large enough. */
static kiln_status fit_block(residency *r, memory_kind kind, size_t bytes, int exact, error *e)
{
    int activations = kind == MEMORY_ACTIVATIONS;
    char **block = activations ? &r->block : &r->ring;
    size_t *have = activations ? &r->block_bytes : &r->ring_bytes;
    if (*have == bytes || (*have > bytes && bytes && !exact)) return KILN_OK;
    manager_release(r, kind, *have, *block);
    *block = NULL, *have = 0;
    manager_new_generation(r);
    if (activations) use_block(r, NULL);
    if (!bytes) return KILN_OK;
    void *data = NULL;
    const char *what = activations ? "activations and working memory" : "the slots of streamed weights";
    TRY(manager_alloc(r, kind, bytes, what, &data, e));
    *block = data, *have = bytes;
    return KILN_OK;
}

/* Evicts until everything this run will take fits beside what stays; 1: blocks must be no larger than it
 * needs. */
static int make_way(residency_pass *p)
{
    residency *r = p->r;
    size_t limit = placement_limit(r), block = placement_block(p),
           temporary = r->call->asynchronous ? 0 : p->d.temporary;
    if (!limit) return 0;
    size_t held = budget_used(r->budget) - r->block_bytes - r->ring_bytes + placement_missing(p) + temporary;
    size_t larger = (r->block_bytes > block ? r->block_bytes : block) +
                    (r->ring_bytes > p->place.ring ? r->ring_bytes : p->place.ring);
    int exact = held + larger > limit;
    if (held + block + p->place.ring > limit) residency_give_up(r, held + block + p->place.ring - limit);
    return exact;
}

static kiln_status take_workspace(residency_pass *p, error *e)
{
    residency *r = p->r;
    int exact = make_way(p);
    if (r->ring_bytes > p->place.ring)
        TRY(fit_block(r, MEMORY_WEIGHTS, p->place.ring, exact, e)); /* what shrinks first */
    TRY(fit_block(r, MEMORY_ACTIVATIONS, placement_block(p), exact, e));
    return fit_block(r, MEMORY_WEIGHTS, p->place.ring, exact, e);
}

/* ---- begin and end ---- */

/* Pins what this run keeps. Weights that it streams, and that are still on the device from a larger placement, may be
 * evicted. */
static void pin_residents(residency_pass *p)
{
    pthread_mutex_lock(&p->r->lock);
    for (size_t w = 0; w < p->d.n_weight; w++) {
        p->d.weight[w]->used = p->clock;
        if (placement_keeps(p, w)) weight_pin(p->d.weight[w], PIN_RUN);
    }
    pthread_mutex_unlock(&p->r->lock);
}

/* The device failed: nobody knows whether what this run sent has arrived, so it counts as failed. */
static void fail_copies(residency_pass *p)
{
    for (size_t w = 0; w < p->d.n_weight; w++) {
        const packed_weight *x = p->d.weight[w];
        if (x->state == WEIGHT_COPYING && !x->batch) weight_fail(p->d.weight[w]);
    }
}

/* What this run sent has arrived, and it keeps nothing any more. */
static void unpin_all(residency_pass *p)
{
    pthread_mutex_lock(&p->r->lock);
    for (size_t w = 0; w < p->d.n_weight; w++) {
        packed_weight *x = p->d.weight[w];
        if (x->state == WEIGHT_COPYING && !x->batch) weight_arrived(x);
        weight_unpin(x, PIN_RUN);
    }
    pthread_mutex_unlock(&p->r->lock);
}

/* 1: the run needs nothing but the streams. Then everything it finds on the device is pinned: a captured graph reads it
 * there without asking again. */
static int is_steady(const residency_pass *p)
{
    residency *r = p->r;
    if (!r->call->asynchronous) return 0;
    int steady = 1;
    pthread_mutex_lock(&r->lock);
    for (size_t w = 0; w < p->d.n_weight && steady; w++)
        steady = placement_keeps(p, w) ? weight_on_device(p->d.weight[w]) : p->d.weight[w]->host != NULL;
    for (size_t w = 0; w < p->d.n_weight && steady; w++)
        if (weight_on_device(p->d.weight[w])) weight_pin(p->d.weight[w], PIN_RUN);
    pthread_mutex_unlock(&r->lock);
    return steady;
}

static kiln_status begin(residency_pass *p, error *e)
{
    residency *r = p->r;
    TRY(placement_find(p, e));
    pthread_mutex_lock(&r->lock);
    p->streak = r->last == p ? p->streak + 1 : 1;
    r->last = p;
    p->clock = ++r->clock;
    order_find(&r->order, p);
    order_set_wanted(&r->order, r->passes, 0);
    pthread_mutex_unlock(&r->lock);
    pin_residents(p);
    manager_give_up_over(r);
    TRY(prefetch_wait(r, e));
    TRY(take_workspace(p, e));
    return residency_restart(p, e);
}

static void start(residency *r, int starting)
{
    pthread_mutex_lock(&r->lock);
    assert(!r->running);
    r->starting = starting;
    pthread_mutex_unlock(&r->lock);
}

kiln_status residency_begin(residency_pass *p, residency_workspace *space, error *e)
{
    residency *r = p->r;
    error why = {0};
    start(r, 1);
    kiln_status status = begin(p, &why);
    if (status == KILN_ERR_NOMEM && r->granted) { /* less than we thought: once more, with what the device gave */
        unpin_all(p);
        p->placed = 0;
        weight_plan_free(&p->place);
        why = (error){0};
        status = begin(p, &why);
    }
    if (status != KILN_OK) {
        unpin_all(p);
        start(r, 0);
        return error_set(e, status, "%s", why.message);
    }
    pthread_mutex_lock(&r->lock);
    r->running = p, r->starting = 0;
    pthread_mutex_unlock(&r->lock);
    int steady = is_steady(p);
    prefetch_begin(p);
    size_t arena = manager_round(r, p->d.arena), scratch = manager_round(r, p->d.scratch);
    pthread_mutex_lock(&r->lock);
    *space = (residency_workspace){.arena = r->block,
                                   .scratch = r->block ? r->block + arena : NULL,
                                   .io = r->block ? r->block + arena + scratch : NULL,
                                   .stream = r->compute,
                                   .generation = r->generation,
                                   .kept = r->block_user == p,
                                   .steady = steady,
                                   .checkpoints = p->n_check > 0};
    r->block_user = NULL;
    pthread_mutex_unlock(&r->lock);
    return KILN_OK;
}

void residency_skip(residency_pass *p, const uint8_t *skip) { p->skip = skip; }

void residency_end(residency_pass *p, int failed)
{
    residency *r = p->r;
    assert(r->running == p);
    int sound = 1;
    if (failed && r->call->asynchronous) { /* nothing may still be on its way when memory is given back */
        sound &= r->call->sync(r->device, r->copy, NULL) == KILN_OK;
        sound &= r->call->sync(r->device, r->compute, NULL) == KILN_OK;
    }
    if (sound) prefetch_seen(r, failed ? r->prefetch.recorded : r->prefetch.waited);
    pthread_mutex_lock(&r->lock);
    r->running = NULL;
    r->block_user = failed ? NULL : p;
    pthread_mutex_unlock(&r->lock);
    p->skip = NULL;
    if (!sound) fail_copies(p);
    unpin_all(p);
    if (!sound) residency_give_up(r, SIZE_MAX); /* whether older copies have arrived is not known either */
}

kiln_status residency_restart(residency_pass *p, error *e)
{
    residency *r = p->r;
    memset(p->arriving, 0, p->d.n_op);
    p->issued = 0;
    p->n_checked = 0;
    if (!r->call->asynchronous) return KILN_OK;
    /* Copies of this run come after what was computed before; in a graph they become part of it. */
    TRY(manager_event(r, &r->fork, e));
    TRY(r->call->record(r->device, r->fork, r->compute, e));
    return r->call->wait(r->device, r->copy, r->fork, e);
}

const void *residency_data(const residency_pass *p, size_t use)
{
    assert(p->r->running == p && use < p->issued);
    return p->data[use];
}

/* ---- one weight ---- */

kiln_status pass_pack_weight(residency_pass *p, uint32_t w, void *dst, error *e)
{
    residency *r = p->r;
    assert(w < p->d.n_weight);
    double start = clock_seconds();
    TRY(p->d.pack(p->d.arg, p->d.maker[w], dst, e));
    r->traffic.seconds += clock_seconds() - start;
    r->traffic.packed++;
    r->traffic.packed_bytes += p->d.bytes[w];
    return KILN_OK;
}

kiln_status pass_host_copy(residency_pass *p, uint32_t w, error *e)
{
    packed_weight *x = p->d.weight[w];
    residency *r = p->r;
    void *host = x->host ? NULL : weight_host_alloc(x);
    if (!host) return KILN_OK;
    kiln_status status = pass_pack_weight(p, w, host, e);
    if (status == KILN_OK) {
        pthread_mutex_lock(&r->lock);
        status = weight_transition(x, &(weight_change){.event = WEIGHT_IS_PACKED, .memory = host}, e);
        pthread_mutex_unlock(&r->lock);
    }
    if (status != KILN_OK) weight_host_free(x, host);
    return status;
}

/* The next stage, empty again and large enough. */
static kiln_status take_stage(residency *r, size_t bytes, stage **out, error *e)
{
    stage *s = *out = &r->stage[r->next_stage++ % STAGES];
    if (s->busy) TRY(r->call->sync_event(r->device, s->copied, e));
    s->busy = 0;
    if (s->bytes >= bytes) return KILN_OK;
    if (s->data) r->call->host_release(r->device, s->data);
    s->bytes = 0, s->data = NULL;
    TRY(r->call->host_alloc(r->device, bytes, &s->data, e));
    s->bytes = bytes;
    return KILN_OK;
}

kiln_status pass_copy_weight(residency_pass *p, uint32_t w, void *dst, error *e)
{
    residency *r = p->r;
    packed_weight *x = p->d.weight[w];
    stage *s;
    assert(w < p->d.n_weight && r->call->asynchronous);
    r->traffic.copied_bytes += x->bytes;
    TRY(pass_host_copy(p, w, e));
    if (x->host) return r->call->copy_in(r->device, dst, x->host, x->bytes, r->copy, e);
    TRY(take_stage(r, x->capacity, &s, e));
    TRY(pass_pack_weight(p, w, s->data, e));
    TRY(r->call->copy_in(r->device, dst, s->data, x->bytes, r->copy, e));
    s->busy = 1;
    return r->call->record(r->device, s->copied, r->copy, e);
}

/* Where the weight of this use goes: its own memory, or its slot; *fresh: its bytes still have to come. */
static kiln_status find_space(residency_pass *p, size_t use, void **out, int *fresh, error *e)
{
    residency *r = p->r;
    uint32_t w = p->d.use[use].weight;
    packed_weight *x = p->d.weight[w];
    pthread_mutex_lock(&r->lock);
    if (weight_on_device(x) && !(x->pins & PIN_RUN)) weight_pin(x, PIN_RUN); /* from a larger placement: it stays */
    *out = x->data;
    pthread_mutex_unlock(&r->lock);
    *fresh = !*out;
    if (*out) return KILN_OK;
    if (!placement_keeps(p, w)) {
        *out = r->ring + p->place.slot[use];
        return KILN_OK;
    }
    TRY(weight_place(x, e));
    *out = x->data;
    return KILN_OK;
}

/* A weight that was to stay and could not be filled gives its memory back; a copy to it may be under way. */
static kiln_status undo(residency_pass *p, uint32_t w, kiln_status status)
{
    residency *r = p->r;
    if (status == KILN_OK || !placement_keeps(p, w)) return status;
    if (r->call->asynchronous) r->call->sync(r->device, r->copy, NULL);
    weight_fail(p->d.weight[w]);
    return status;
}

/* ---- on a host device: packed where they stay, when they are needed ---- */

static int runs(const residency_pass *p, uint32_t op) { return !p->skip || !p->skip[op]; }

static kiln_status fill(residency_pass *p, uint32_t w, void *data, error *e)
{
    TRY(undo(p, w, pass_pack_weight(p, w, data, e)));
    if (!placement_keeps(p, w)) return KILN_OK;
    pthread_mutex_lock(&p->r->lock);
    weight_arrived(p->d.weight[w]);
    pthread_mutex_unlock(&p->r->lock);
    return KILN_OK;
}

static kiln_status fill_now(residency_pass *p, uint32_t op, error *e)
{
    for (; p->issued < p->d.n_use && p->d.use[p->issued].op <= op; p->issued++) {
        void *data;
        int fresh;
        if (!runs(p, p->d.use[p->issued].op)) continue;
        TRY(find_space(p, p->issued, &data, &fresh, e));
        if (fresh) TRY(fill(p, p->d.use[p->issued].weight, data, e));
        p->data[p->issued] = data;
    }
    return KILN_OK;
}

/* ---- on an asynchronous device: sent before they are needed ---- */

/* Sends the weights of one op on their way. */
static kiln_status issue(residency_pass *p, uint32_t op, error *e)
{
    residency *r = p->r;
    int waited = p->place.after[op] == WEIGHT_PLAN_NONE, sent = 0;
    for (; p->issued < p->d.n_use && p->d.use[p->issued].op == op; p->issued++) {
        void *data;
        int fresh;
        uint32_t w = p->d.use[p->issued].weight;
        if (!runs(p, op)) continue;
        TRY(find_space(p, p->issued, &data, &fresh, e));
        p->data[p->issued] = data;
        if (!fresh) continue;
        if (!waited) TRY(undo(p, w, r->call->wait(r->device, r->copy, p->done[p->place.after[op]], e)));
        waited = 1;
        TRY(undo(p, w, pass_copy_weight(p, w, data, e)));
        sent = 1;
    }
    if (!sent) return KILN_OK;
    TRY(manager_event(r, &p->ready[op], e));
    p->arriving[op] = 1;
    return r->call->record(r->device, p->ready[op], r->copy, e);
}

/* Does sending them need the host to pack? */
static int needs_packing(const residency_pass *p, uint32_t op)
{
    for (size_t u = p->issued; runs(p, op) && u < p->d.n_use && p->d.use[u].op == op; u++) {
        packed_weight *x = p->d.weight[p->d.use[u].weight];
        pthread_mutex_lock(&p->r->lock);
        weight_state state = x->state;
        pthread_mutex_unlock(&p->r->lock);
        if (state == WEIGHT_ABSENT) return 1;
    }
    return 0;
}

/* The op's own weights, and those of later ops as far as slots and packing allow. */
static kiln_status issue_up_to(residency_pass *p, uint32_t op, error *e)
{
    while (p->issued < p->d.n_use) {
        uint32_t next = p->d.use[p->issued].op, after = p->place.after[next];
        if (next > op && after != WEIGHT_PLAN_NONE && after >= op)
            break; /* its slots are in use until an op that has not been given yet */
        if (next > op + PACK_LOOKAHEAD && needs_packing(p, next)) break;
        TRY(issue(p, next, e));
    }
    return KILN_OK;
}

kiln_status residency_before(residency_pass *p, uint32_t op, error *e)
{
    residency *r = p->r;
    assert(r->running == p && op < p->d.n_op && runs(p, op));
    if (!r->call->asynchronous) return fill_now(p, op, e);
    TRY(issue_up_to(p, op, e));
    return p->arriving[op] ? r->call->wait(r->device, r->compute, p->ready[op], e) : KILN_OK;
}

/* Has this op slots that later ops fill again? */
static int uses_slots(const residency_pass *p, uint32_t op)
{
    size_t low = 0, high = p->d.n_use;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (p->d.use[middle].op < op)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < p->d.n_use && p->d.use[low].op == op; low++)
        if (!placement_keeps(p, p->d.use[low].weight)) return 1;
    return 0;
}

kiln_status residency_after(residency_pass *p, uint32_t op, error *e)
{
    residency *r = p->r;
    assert(r->running == p && op < p->d.n_op);
    prefetch_checkpoint(p, op);
    if (!r->call->asynchronous || !p->place.n_streamed || !uses_slots(p, op)) return KILN_OK;
    TRY(manager_event(r, &p->done[op], e));
    return r->call->record(r->device, p->done[op], r->compute, e);
}
