/* pass.c - a program's weights while it runs: see residency.h.
 *
 * Placement. A program takes what the limit leaves after the tensors that nodes hold. One that runs only a few times
 * before others come takes a share of that, in proportion to its weights: so programs that take turns do not throw each
 * other out every time, and a text encoder does not empty the memory that the sampler wants back. The placement is made
 * again only when it no longer fits, or when much more could be resident than is.
 *
 * Asynchronous devices. Copies run on their own stream, as far ahead of the ops as slots allow: `ready` of an op says
 * that its weights have arrived, `done` that its slots may be filled again. A weight without a host copy is packed into
 * one of two stages on the way, which makes the host wait for the copy before; that is only done for the next few ops.
 */
#include "base/memory_alloc.h"
#include "base/str.h"
#include "memory/residency_parts.h"

#include <string.h>
#include <time.h>

enum {
    PACK_AHEAD = 2,  /* ops whose weights are packed before the device is given the op before them */
    SHORT_STREAK = 3 /* runs in a row up to which a program shares the room with those that come between */
};

size_t pass_block(const residency_pass *p)
{
    return residency_round(p->r, p->d.arena) + residency_round(p->r, p->d.scratch) + residency_round(p->r, p->d.io);
}

static weight_demand demand_of(const residency_pass *p)
{
    const residency_demand *d = &p->d;
    const residency *r = p->r;
    size_t fixed = pass_block(p);
    if (!r->call->asynchronous) fixed += d->temporary;
    return (weight_demand){.n_op = d->n_op,
                           .n_weight = d->n_weight,
                           .n_use = d->n_use,
                           .work = d->work,
                           .bytes = d->bytes,
                           .use = d->use,
                           .fixed = fixed,
                           .alignment = r->call->alignment,
                           .overlap = (int)r->call->asynchronous};
}

kiln_status residency_pass_new(residency *r, const residency_demand *d, residency_pass **out, error *e)
{
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
    while (p->guards) pthread_cond_wait(&r->unguarded, &r->lock);
    for (residency_pass **at = &r->passes; *at; at = &(*at)->next)
        if (*at == p) {
            *at = p->next;
            break;
        }
    order_forget(r, p);
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

/* ---- the limit ---- */

static size_t less(size_t a, size_t b) { return a > b ? a - b : 0; }

/* The limit as it is now: where it follows the device, what is free there and what we hold, less a twentieth of all. 0:
 * none. */
size_t pass_limit(residency *r)
{
    size_t limit = r->setting.limit, free_bytes = 0, total = 0;
    if (!r->granted && !r->setting.follow) return limit;
    if (r->call->memory(r->device, &free_bytes, &total, NULL) != KILN_OK) return r->granted ? r->granted : limit;
    if (r->granted && free_bytes > 2 * r->refused) r->granted = 0;
    if (r->granted && (!limit || r->granted < limit)) limit = r->granted;
    if (!r->setting.follow) return limit;
    size_t could = less(budget_used(r->budget) + free_bytes, total / 20);
    return !limit || could < limit ? (could ? could : 1) : limit;
}

/* Bytes of the weights of all programs that have run since this one's last run, its own included; and the largest of
 * their fixed parts. Only its own when it is not one that takes turns. */
static size_t weights_in_turn(const residency_pass *p, size_t *fixed)
{
    size_t all = 0;
    for (const residency_pass *q = p->r->passes; q; q = q->next) {
        int in_turn = p->clock && p->streak <= SHORT_STREAK && q->clock > p->clock;
        if (q != p && !in_turn) continue;
        size_t own = demand_of(q).fixed;
        if (own > *fixed) *fixed = own;
        for (size_t w = 0; w < q->d.n_weight; w++) all += q->d.weight[w]->capacity;
    }
    return all;
}

/* The limit less the tensors that are there, and less some room for those that nodes make meanwhile, if there is any.
 */
static size_t beside_values(const residency_pass *p, size_t limit, size_t least)
{
    size_t mine = less(limit, budget_held(p->r->budget, MEMORY_VALUES)),
           slack = limit / 32 < 64u << 20 ? limit / 32 : 64u << 20;
    return less(mine, slack) >= least ? less(mine, slack) : mine;
}

/* What this program may use, its fixed part included. Called with the lock held. */
static size_t share_of(const residency_pass *p, size_t limit)
{
    weight_demand d = demand_of(p);
    size_t fixed = d.fixed, own = weight_plan_whole(&d) - d.fixed, all = weights_in_turn(p, &fixed),
           least = weight_plan_least(&d);
    size_t mine = beside_values(p, limit, least);
    size_t capacity = less(mine, fixed);
    if (all <= own || all <= capacity) return mine;
    size_t part = d.fixed + (size_t)((double)capacity * ((double)own / (double)all));
    return part > least ? part : least < mine ? least : mine;
}

static int fits_well(const residency_pass *p, size_t limit)
{
    if (!p->placed) return 0;
    if (!limit) return p->place.n_streamed == 0;
    if (p->place.peak > limit) return 0;
    return p->place.n_streamed == 0 || limit <= p->limit + p->limit / 20;
}

kiln_status pass_find_placement(residency_pass *p, error *e)
{
    residency *r = p->r;
    size_t whole = pass_limit(r);
    pthread_mutex_lock(&r->lock);
    size_t limit = whole ? share_of(p, whole) : 0;
    pthread_mutex_unlock(&r->lock);
    if (fits_well(p, limit)) return KILN_OK;
    weight_demand d = demand_of(p);
    weight_plan place;
    kiln_status status = weight_plan_make(&d, whole && !limit ? 1 : limit, &place, e);
    if (status != KILN_OK) {
        error_prefix(e, "program '%s'", p->d.name);
        return status;
    }
    if (p->placed) weight_plan_free(&p->place);
    p->place = place;
    p->placed = 1;
    p->limit = limit;
    r->generation++;
    return KILN_OK;
}

/* ---- room ---- */

/* A block of exactly `bytes` where memory is short, else one that is large enough. */
static kiln_status fit_block(residency *r, memory_kind kind, const char *what, char **block, size_t *have, size_t bytes,
                             int exact, error *e)
{
    if (*have == bytes || (*have > bytes && bytes && !exact)) return KILN_OK;
    residency_drop(r, kind, *have, *block);
    *block = NULL, *have = 0;
    r->generation++;
    if (kind == MEMORY_ACTIVATIONS) r->block_user = NULL;
    if (!bytes) return KILN_OK;
    void *data = NULL;
    TRY(residency_alloc(r, kind, bytes, what, &data, e));
    *block = data, *have = bytes;
    return KILN_OK;
}

/* Holds in place what this run keeps; what of its own is to be streamed now may go. */
static void step_invariant(residency_pass *p)
{
    residency *r = p->r;
    pthread_mutex_lock(&r->lock);
    for (size_t w = 0; w < p->d.n_weight; w++) {
        resident *x = p->d.weight[w];
        x->used = p->clock;
        x->in = p->place.streamed[w] ? NULL : p;
    }
    pthread_mutex_unlock(&r->lock);
}

static void let_go(residency_pass *p)
{
    pthread_mutex_lock(&p->r->lock);
    for (size_t w = 0; w < p->d.n_weight; w++) p->d.weight[w]->in = NULL;
    pthread_mutex_unlock(&p->r->lock);
}

size_t pass_missing(const residency_pass *p)
{
    size_t bytes = 0;
    for (size_t w = 0; w < p->d.n_weight; w++)
        if (!p->place.streamed[w] && !p->d.weight[w]->data) bytes += p->d.weight[w]->capacity;
    return bytes;
}

/* Evicts until everything this run will take fits beside what stays; 1: then there is no room for blocks larger than it
 * needs. */
static int make_way(residency_pass *p)
{
    residency *r = p->r;
    size_t limit = pass_limit(r), block = pass_block(p), temporary = r->call->asynchronous ? 0 : p->d.temporary;
    if (!limit) return 0;
    size_t held = budget_used(r->budget) - r->block_bytes - r->ring_bytes + pass_missing(p) + temporary;
    size_t larger = (r->block_bytes > block ? r->block_bytes : block) +
                    (r->ring_bytes > p->place.ring ? r->ring_bytes : p->place.ring);
    int exact = held + larger > limit;
    if (held + block + p->place.ring > limit) residency_give_up(r, held + block + p->place.ring - limit);
    return exact;
}

static kiln_status take_capacity(residency_pass *p, error *e)
{
    residency *r = p->r;
    size_t block = pass_block(p);
    int exact = make_way(p);
    if (r->ring_bytes > p->place.ring) /* what shrinks goes first */
        TRY(fit_block(r, MEMORY_WEIGHTS, "the slots of streamed weights", &r->ring, &r->ring_bytes, p->place.ring,
                      exact, e));
    TRY(fit_block(r, MEMORY_ACTIVATIONS, "activations and working memory", &r->block, &r->block_bytes, block, exact,
                  e));
    return fit_block(r, MEMORY_WEIGHTS, "the slots of streamed weights", &r->ring, &r->ring_bytes, p->place.ring, exact,
                     e);
}

static int is_steady(const residency_pass *p)
{
    if (!p->r->call->asynchronous) return 0;
    for (size_t w = 0; w < p->d.n_weight; w++)
        if (!(p->place.streamed[w] ? p->d.weight[w]->host : p->d.weight[w]->data)) return 0;
    return 1;
}

static kiln_status begin(residency_pass *p, error *e)
{
    residency *r = p->r;
    TRY(pass_find_placement(p, e));
    pthread_mutex_lock(&r->lock);
    p->streak = r->last == p ? p->streak + 1 : 1;
    r->last = p;
    p->clock = ++r->clock;
    order_find(r, p);
    if (r->n_order) order_set_wanted(r, r->at);
    pthread_mutex_unlock(&r->lock);
    step_invariant(p);
    TRY(prefetch_wait(r, e));
    TRY(take_capacity(p, e));
    return residency_restart(p, e);
}

kiln_status residency_begin(residency_pass *p, residency_workspace *capacity, error *e)
{
    residency *r = p->r;
    error why = {0};
    kiln_status status = begin(p, &why);
    if (status == KILN_ERR_NOMEM && r->granted) { /* less than we thought: once more, with what the device gave */
        let_go(p);
        p->placed = 0;
        weight_plan_free(&p->place);
        why = (error){0};
        status = begin(p, &why);
    }
    if (status != KILN_OK) {
        let_go(p);
        return error_set(e, status, "%s", why.message);
    }
    r->running = p;
    prefetch_begin(p);
    size_t arena = residency_round(r, p->d.arena), scratch = residency_round(r, p->d.scratch);
    *capacity = (residency_workspace){.arena = r->block,
                                      .scratch = r->block ? r->block + arena : NULL,
                                      .io = r->block ? r->block + arena + scratch : NULL,
                                      .stream = r->compute,
                                      .generation = r->generation,
                                      .kept = r->block_user == p,
                                      .steady = is_steady(p),
                                      .checkpoints = p->n_check > 0};
    r->block_user = NULL;
    return KILN_OK;
}

void residency_skip(residency_pass *p, const uint8_t *skip) { p->skip = skip; }
static int runs(const residency_pass *p, uint32_t op) { return !p->skip || !p->skip[op]; }

void residency_end(residency_pass *p, int failed)
{
    residency *r = p->r;
    int sound = 1;
    if (failed && r->call->asynchronous) { /* nothing may still be on its way when memory is given back */
        sound &= r->call->sync(r->device, r->copy, NULL) == KILN_OK;
        sound &= r->call->sync(r->device, r->compute, NULL) == KILN_OK;
    }
    if (sound) prefetch_seen(r, failed ? r->prefetch_recorded : r->prefetch_waited);
    r->running = NULL;
    r->block_user = failed ? NULL : p;
    p->skip = NULL;
    let_go(p);
    if (!sound) residency_give_up(r, SIZE_MAX); /* whether what was sent has arrived is not known */
}

kiln_status pass_event(residency *r, device_event **event, error *e)
{
    return *event ? KILN_OK : r->call->event_new(r->device, event, e);
}

kiln_status residency_restart(residency_pass *p, error *e)
{
    residency *r = p->r;
    memset(p->arriving, 0, p->d.n_op);
    p->issued = 0;
    p->n_checked = 0;
    if (!r->call->asynchronous) return KILN_OK;
    TRY(pass_event(r, &r->fork,
                   e)); /* copies of this run come after what was computed before; in a graph they become part of it */
    TRY(r->call->record(r->device, r->fork, r->compute, e));
    return r->call->wait(r->device, r->copy, r->fork, e);
}

const void *residency_data(const residency_pass *p, size_t use) { return p->data[use]; }

/* ---- weights as they are wanted ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

kiln_status pass_pack_weight(residency_pass *p, uint32_t weight, void *dst, error *e)
{
    residency *r = p->r;
    double start = now();
    TRY(p->d.pack(p->d.arg, p->d.maker[weight], dst, e));
    r->traffic.seconds += now() - start;
    r->traffic.packed++;
    r->traffic.packed_bytes += p->d.bytes[weight];
    return KILN_OK;
}

/* Where the weight of this use goes: its own place, or its slot; *fresh: nothing is there yet. */
static kiln_status find_space(residency_pass *p, size_t use, void **out, int *fresh, error *e)
{
    residency *r = p->r;
    uint32_t w = p->d.use[use].weight;
    resident *x = p->d.weight[w];
    pthread_mutex_lock(&r->lock);
    if (x->data) x->in = p; /* perhaps left from a larger placement: it stays for this run */
    *out = x->data;
    pthread_mutex_unlock(&r->lock);
    *fresh = !*out;
    if (*out) return KILN_OK;
    if (p->place.streamed[w]) {
        *out = r->ring + p->place.slot[use];
        return KILN_OK;
    }
    TRY(resident_place(x, "a weight", e));
    *out = x->data;
    r->generation++;
    return KILN_OK;
}

/* A weight that was to stay and could not be filled has no bytes to keep; a copy to it may be under way. */
static kiln_status undo(residency_pass *p, uint32_t w, kiln_status status)
{
    residency *r = p->r;
    if (status == KILN_OK || p->place.streamed[w] || !p->d.weight[w]->data) return status;
    if (r->call->asynchronous) r->call->sync(r->device, r->copy, NULL);
    resident_evict(p->d.weight[w]);
    return status;
}

static kiln_status fill_now(residency_pass *p, uint32_t op, error *e)
{
    for (; p->issued < p->d.n_use && p->d.use[p->issued].op <= op; p->issued++) {
        void *data;
        int fresh;
        uint32_t w = p->d.use[p->issued].weight;
        if (!runs(p, p->d.use[p->issued].op)) continue;
        TRY(find_space(p, p->issued, &data, &fresh, e));
        if (fresh) TRY(undo(p, w, pass_pack_weight(p, w, data, e)));
        p->data[p->issued] = data;
    }
    return KILN_OK;
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
    resident *x = p->d.weight[w];
    int had = x->host != NULL;
    r->traffic.copied_bytes += x->bytes;
    if (resident_host(x)) {
        if (!had) {
            kiln_status status = pass_pack_weight(p, w, x->host, e);
            if (status != KILN_OK) {
                resident_unhost(x);
                return status;
            }
        }
        return r->call->copy_in(r->device, dst, x->host, x->bytes, r->copy, e);
    }
    stage *s;
    TRY(take_stage(r, x->capacity, &s, e));
    TRY(pass_pack_weight(p, w, s->data, e));
    TRY(r->call->copy_in(r->device, dst, s->data, x->bytes, r->copy, e));
    s->busy = 1;
    return r->call->record(r->device, s->copied, r->copy, e);
}

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
    TRY(pass_event(r, &p->ready[op], e));
    p->arriving[op] = 1;
    return r->call->record(r->device, p->ready[op], r->copy, e);
}

/* Does sending them need the host to pack? */
static int needs_packing(const residency_pass *p, uint32_t op)
{
    for (size_t u = p->issued; runs(p, op) && u < p->d.n_use && p->d.use[u].op == op; u++) {
        const resident *x = p->d.weight[p->d.use[u].weight];
        if (!x->data && !x->host) return 1;
    }
    return 0;
}

/* As far ahead as slots and packing allow, but this op in any case. */
static kiln_status issue_prefetch(residency_pass *p, uint32_t op, error *e)
{
    while (p->issued < p->d.n_use) {
        uint32_t next = p->d.use[p->issued].op, after = p->place.after[next];
        if (next > op && after != WEIGHT_PLAN_NONE && after >= op)
            break; /* its slots are in use until an op that has not been given yet */
        if (next > op + PACK_AHEAD && needs_packing(p, next)) break;
        TRY(issue(p, next, e));
    }
    return KILN_OK;
}

kiln_status residency_before(residency_pass *p, uint32_t op, error *e)
{
    residency *r = p->r;
    if (!r->call->asynchronous) return fill_now(p, op, e);
    TRY(issue_prefetch(p, op, e));
    return p->arriving[op] ? r->call->wait(r->device, r->compute, p->ready[op], e) : KILN_OK;
}

/* Has this op slots that others will want? */
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
        if (p->place.streamed[p->d.use[low].weight]) return 1;
    return 0;
}

kiln_status residency_after(residency_pass *p, uint32_t op, error *e)
{
    residency *r = p->r;
    prefetch_checkpoint(p, op);
    if (!r->call->asynchronous || !p->place.n_streamed || !uses_slots(p, op)) return KILN_OK;
    TRY(pass_event(r, &p->done[op], e));
    return r->call->record(r->device, p->done[op], r->compute, e);
}

/* ---- outlook ---- */

kiln_status residency_get_estimate(const residency_pass *p, residency_estimate *out, error *e)
{
    weight_demand d = demand_of(p);
    size_t values = budget_held(p->r->budget, MEMORY_VALUES), limit = p->r->setting.limit;
    weight_plan place;
    *out = (residency_estimate){.fixed = d.fixed,
                                .least = weight_plan_least(&d) + values,
                                .whole = weight_plan_whole(&d) + values,
                                .n_weight = (uint32_t)d.n_weight};
    if (limit) limit = beside_values(p, limit, weight_plan_least(&d));
    TRY(weight_plan_make(&d, p->r->setting.limit && !limit ? 1 : limit, &place, e));
    out->resident = place.resident, out->ring = place.ring, out->peak = place.peak + values;
    for (size_t u = 0; p->d.seldom && u < p->d.n_use; u++)
        if (p->d.seldom[p->d.use[u].op] && place.streamed[p->d.use[u].weight])
            out->once += p->d.bytes[p->d.use[u].weight];
    out->streamed = place.streamed_bytes - out->once, out->n_streamed = place.n_streamed;
    weight_plan_free(&place);
    return KILN_OK;
}
