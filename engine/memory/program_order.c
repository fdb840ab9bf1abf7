/* program_order.c - see program_order.h. */
#include "memory/program_order.h"

#include "base/array.h"
#include "base/lock.h"
#include "memory/manager.h"
#include "memory/packed_weight.h"
#include "memory/pass.h"

#include <assert.h>

kiln_status order_note(program_order *o, residency_pass *p, error *e)
{
    assert(mutex_held(&p->r->lock));
    o->at = 0, o->ran = 0;
    if (o->n && o->entry[o->n - 1].pass == p) {
        o->entry[o->n - 1].runs++;
        return KILN_OK;
    }
    if (!array_reserve(&o->entry, &o->capacity, o->n + 1, sizeof *o->entry))
        return error_set(e, KILN_ERR_NOMEM, "out of memory");
    o->entry[o->n++] = (order_entry){.pass = p, .runs = 1};
    return KILN_OK;
}

void order_find(program_order *o, const residency_pass *p)
{
    assert(mutex_held(&p->r->lock));
    if (o->n && o->entry[o->at].pass == p && o->ran < o->entry[o->at].runs) return;
    for (size_t i = 1; i <= o->n; i++) {
        size_t at = (o->at + i) % o->n;
        if (o->entry[at].pass != p) continue;
        o->at = at, o->ran = 0;
        return;
    }
}

void order_count(program_order *o, const residency_pass *p)
{
    assert(mutex_held(&p->r->lock) && (!o->n || o->at < o->n));
    if (o->n && o->entry[o->at].pass == p) o->ran++;
}

residency_pass *order_next(const program_order *o, const residency_pass *p)
{
    assert(mutex_held(&p->r->lock));
    if (o->at + 1 >= o->n || o->entry[o->at].pass != p || o->ran != o->entry[o->at].runs) return NULL;
    residency_pass *next = o->entry[o->at + 1].pass;
    return next == p ? NULL : next;
}

static void set_wanted(const residency_pass *p, uint64_t wanted, uint8_t over)
{
    for (size_t w = 0; w < p->d.n_weight; w++) p->d.weight[w]->wanted = wanted, p->d.weight[w]->over = over;
}

static int is_in(const program_order *o, const residency_pass *p)
{
    for (size_t i = 0; i < o->n; i++)
        if (o->entry[i].pass == p) return 1;
    return 0;
}

/* Last come those that say more of a weight that several have: who is not in the order may want it at any time. */
void order_set_wanted(const program_order *o, residency_pass *passes, size_t steps)
{
    assert(!passes || mutex_held(&passes->r->lock));
    if (!o->n) return;
    for (residency_pass *q = passes; q; q = q->next) set_wanted(q, UINT64_MAX, o->once != 0);
    for (residency_pass *q = passes; q && o->once; q = q->next)
        if (!is_in(o, q)) set_wanted(q, UINT64_MAX, 0);
    for (size_t i = o->n; i-- > 0;)
        if (!o->once || o->at + steps + i < o->n) set_wanted(o->entry[(o->at + steps + i) % o->n].pass, i, 0);
}

void order_forget(program_order *o, const residency_pass *p)
{
    assert(mutex_held(&p->r->lock));
    size_t kept = 0, at = 0;
    for (size_t i = 0; i < o->n; i++) {
        if (i == o->at) {
            at = kept;
            if (o->entry[i].pass == p) o->ran = 0;
        }
        if (o->entry[i].pass != p) o->entry[kept++] = o->entry[i];
    }
    o->n = kept;
    o->at = at < kept ? at : 0;
}
