/* placement.c - which of a program's weights stay on the device and which stream through the ring: see pass.h.
 *
 * A program takes what the limit leaves beside the tensors that nodes hold. One that runs only a few times before
 * others come takes a share of that, in proportion to its weights: so programs that take turns do not evict each other
 * every time, and a text encoder does not empty the memory that the sampler needs again. The placement is made again
 * only when it no longer fits, or when much more could be resident than is.
 */
#include "base/lock.h"
#include "memory/manager.h"
#include "memory/packed_weight.h"
#include "memory/pass.h"

#include <assert.h>

enum { SHORT_STREAK = 3 }; /* runs in a row up to which a program shares memory with those that come between */

size_t placement_block(const residency_pass *p)
{
    return manager_round(p->r, p->d.arena) + manager_round(p->r, p->d.scratch) + manager_round(p->r, p->d.io);
}

static weight_demand demand_of(const residency_pass *p)
{
    const residency_demand *d = &p->d;
    const residency *r = p->r;
    size_t fixed = placement_block(p);
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

/* ---- the limit ---- */

static size_t less(size_t a, size_t b) { return a > b ? a - b : 0; }

/* Where the limit follows the device: what is free there and what we have of it, less a twentieth of all. */
size_t placement_limit(residency *r)
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

/* The limit less the tensors that nodes hold, and less some for those that they make meanwhile, if it leaves any. */
static size_t beside_values(const residency_pass *p, size_t limit, size_t least)
{
    size_t mine = less(limit, budget_held(p->r->budget, MEMORY_VALUES)),
           slack = limit / 32 < 64u << 20 ? limit / 32 : 64u << 20;
    return less(mine, slack) >= least ? less(mine, slack) : mine;
}

/* What this program may use, its fixed part included. */
static size_t share_of(const residency_pass *p, size_t limit)
{
    assert(mutex_held(&p->r->lock));
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

kiln_status placement_find(residency_pass *p, error *e)
{
    residency *r = p->r;
    size_t whole = placement_limit(r);
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
    manager_new_generation(r);
    return KILN_OK;
}

size_t placement_missing(const residency_pass *p)
{
    size_t bytes = 0;
    assert(p->placed);
    pthread_mutex_lock(&p->r->lock);
    for (size_t w = 0; w < p->d.n_weight; w++)
        if (placement_keeps(p, w) && !weight_on_device(p->d.weight[w])) bytes += p->d.weight[w]->capacity;
    pthread_mutex_unlock(&p->r->lock);
    return bytes;
}

/* ---- the estimate ---- */

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

int residency_fits(const residency_pass *p, size_t more)
{
    weight_demand d = demand_of(p);
    size_t limit = placement_limit(p->r);
    return !limit || weight_plan_least(&d) + budget_held(p->r->budget, MEMORY_VALUES) + more <= limit;
}
