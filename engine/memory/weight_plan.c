/* weight_plan.c - see weight_plan.h. */
#include "memory/weight_plan.h"

#include "base/memory_alloc.h"
#include "base/str.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { TINY = 64 * 1024 };

static size_t aligned(const weight_demand *d, uint32_t weight)
{
    return (d->bytes[weight] + d->alignment - 1) & ~(d->alignment - 1);
}

/* Most bytes that one op needs at once, of the weights that are streamed (all of them when `streamed` is NULL). */
static size_t largest_group(const weight_demand *d, const uint8_t *streamed)
{
    size_t largest = 0, group = 0;
    for (size_t u = 0; u < d->n_use; u++) {
        if (u && d->use[u].op != d->use[u - 1].op) group = 0;
        if (!streamed || streamed[d->use[u].weight]) group += aligned(d, d->use[u].weight);
        if (group > largest) largest = group;
    }
    return largest;
}

static size_t sum_of(const weight_demand *d, const uint8_t *streamed, uint8_t which)
{
    size_t sum = 0;
    for (uint32_t w = 0; w < d->n_weight; w++)
        if (streamed[w] == which) sum += aligned(d, w);
    return sum;
}

size_t weight_plan_least(const weight_demand *d) { return d->fixed + largest_group(d, NULL); }

size_t weight_plan_whole(const weight_demand *d)
{
    size_t sum = d->fixed;
    for (uint32_t w = 0; w < d->n_weight; w++) sum += aligned(d, w);
    return sum;
}

/* ---- who is streamed ---- */

/* Weights larger than tiny in the order of first use, with the share of the program's time that has passed by then. */
typedef struct {
    uint32_t weight;
    double passed;
} candidate;

static size_t find_candidates(const weight_demand *d, size_t tiny, candidate *out)
{
    size_t n = 0, u = 0;
    double all = 0, passed = 0;
    for (size_t i = 0; i < d->n_op; i++) all += d->work[i];
    for (uint32_t i = 0; i < d->n_op; passed += d->work[i++])
        for (; u < d->n_use && d->use[u].op == i; u++) {
            int seen = d->bytes[d->use[u].weight] <= tiny;
            for (size_t k = 0; k < n && !seen; k++) seen = out[k].weight == d->use[u].weight;
            if (!seen)
                out[n++] = (candidate){.weight = d->use[u].weight,
                                       .passed = all > 0 ? passed / all : (double)i / (double)d->n_op};
        }
    return n;
}

static int larger_first(const void *a, const void *b, void *arg)
{
    const weight_demand *d = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (d->bytes[x] != d->bytes[y]) return d->bytes[x] > d->bytes[y] ? -1 : 1;
    return (x > y) - (x < y);
}

/* Streams about `wanted` bytes of the candidates, so that at each moment of the run the bytes that have streamed keep
 * step with the time that has passed; then takes further ones, spread the same way, until the resident ones fit. */
static void spread(const weight_demand *d, const candidate *c, size_t n, size_t capacity, uint8_t *streamed)
{
    size_t kept = 0, gone = 0;
    for (size_t i = 0; i < n; i++) kept += aligned(d, c[i].weight);
    size_t wanted = kept > capacity ? kept - capacity : 0;
    for (size_t i = 0; i < n && gone < wanted; i++) {
        if ((double)gone > (double)wanted * c[i].passed) continue;
        streamed[c[i].weight] = 1;
        gone += aligned(d, c[i].weight);
    }
    for (size_t i = n; i-- > 0 && gone < wanted;) {
        if (streamed[c[i].weight]) continue;
        streamed[c[i].weight] = 1;
        gone += aligned(d, c[i].weight);
    }
}

/* Makes the largest that still fit resident again. */
static void fill_up(const weight_demand *d, size_t capacity, uint32_t *order, uint8_t *streamed)
{
    size_t n = 0, kept = sum_of(d, streamed, 0);
    for (uint32_t w = 0; w < d->n_weight; w++)
        if (streamed[w]) order[n++] = w;
    qsort_r(order, n, sizeof *order, larger_first, (void *)(uintptr_t)d);
    for (size_t i = 0; i < n; i++)
        if (kept + aligned(d, order[i]) <= capacity) {
            streamed[order[i]] = 0;
            kept += aligned(d, order[i]);
        }
}

/* A choice for a ring of `ring` bytes beside residents; 0 when even that does not fit. */
static int choose(const weight_demand *d, size_t capacity, size_t ring, candidate *c, uint32_t *order,
                  uint8_t *streamed)
{
    if (ring > capacity) return 0;
    memset(streamed, 0, d->n_weight);
    size_t tiny = TINY;
    for (;; tiny = 0) { /* tiny ones stay, unless even they do not fit */
        size_t n = find_candidates(d, tiny, c), small = sum_of(d, streamed, 0);
        for (size_t i = 0; i < n; i++) small -= aligned(d, c[i].weight);
        if (small > capacity - ring && tiny) continue;
        spread(d, c, n, capacity - ring > small ? capacity - ring - small : 0, streamed);
        break;
    }
    fill_up(d, capacity - ring, order, streamed);
    return 1;
}

/* ---- the ring ---- */

/* Slots of an op lie beside one another, each op's behind those of the one before, from the front again at the end. An
 * op's slots may be filled when the last op whose slots they overlap is done. */
static void lay_out(const weight_demand *d, weight_plan *p)
{
    size_t at = 0;
    for (size_t u = 0, next; u < d->n_use; u = next) {
        uint32_t op = d->use[u].op;
        size_t group = 0;
        for (next = u; next < d->n_use && d->use[next].op == op; next++)
            if (p->streamed[d->use[next].weight]) group += aligned(d, d->use[next].weight);
        if (!group) continue;
        if (at + group > p->ring) at = 0;
        assert(group <= p->ring);
        for (size_t i = u, place = at; i < next; i++) {
            if (!p->streamed[d->use[i].weight]) continue;
            p->slot[i] = place;
            place += aligned(d, d->use[i].weight);
            p->streamed_bytes += d->bytes[d->use[i].weight];
        }
        for (size_t i = u; i-- > 0;) { /* the nearest earlier op whose slots lie there */
            if (!p->streamed[d->use[i].weight]) continue;
            assert(p->slot[i] + aligned(d, d->use[i].weight) <= p->ring);
            size_t from = p->slot[i], to = from + aligned(d, d->use[i].weight);
            if (from < at + group && at < to) {
                p->after[op] = d->use[i].op;
                break;
            }
        }
        at += group;
    }
}

static kiln_status make_tables(const weight_demand *d, weight_plan *p, candidate **c, uint32_t **order, error *e)
{
    p->streamed = mem_calloc(d->n_weight + 1, sizeof *p->streamed);
    p->slot = mem_calloc(d->n_use + 1, sizeof *p->slot);
    p->after = mem_alloc((d->n_op + 1) * sizeof *p->after);
    *c = mem_alloc((d->n_weight + 1) * sizeof **c);
    *order = mem_alloc((d->n_weight + 1) * sizeof **order);
    if (!p->streamed || !p->slot || !p->after || !*c || !*order)
        return error_set(e, KILN_ERR_NOMEM, "out of memory for planning");
    for (size_t i = 0; i <= d->n_op; i++) p->after[i] = WEIGHT_PLAN_NONE;
    return KILN_OK;
}

static kiln_status too_small(const weight_demand *d, size_t limit, error *e)
{
    char has[16], fixed[16], least[16];
    return error_set(e, KILN_ERR_NOMEM,
                     "a memory budget of %s is too small: activations and working memory take %s, and with the weights "
                     "of one op at a time the least that works is %s (%zu bytes)",
                     str_bytes(has, limit), str_bytes(fixed, d->fixed), str_bytes(least, weight_plan_least(d)),
                     weight_plan_least(d));
}

static kiln_status place(const weight_demand *d, size_t limit, weight_plan *p, candidate *c, uint32_t *order, error *e)
{
    size_t least = weight_plan_least(d), group = largest_group(d, NULL);
    if (limit && limit < least) return too_small(d, limit, e);
    if (limit && limit < weight_plan_whole(d)) {
        size_t capacity = limit - d->fixed;
        size_t ring = d->overlap && 2 * group <= capacity / 2 ? 2 * group : group;
        choose(d, capacity, ring, c, order, p->streamed);
        /* When the largest op's weights became resident the ring may shrink, and what it leaves holds more. */
        size_t needed = largest_group(d, p->streamed) * (ring == group ? 1 : 2);
        if (needed < ring) {
            fill_up(d, capacity - needed, order, p->streamed);
            ring = needed;
        }
        p->ring = ring;
    }
    p->resident = sum_of(d, p->streamed, 0);
    for (uint32_t w = 0; w < d->n_weight; w++) p->n_streamed += p->streamed[w];
    if (!p->n_streamed) p->ring = 0;
    p->peak = d->fixed + p->resident + p->ring;
    lay_out(d, p);
    return KILN_OK;
}

kiln_status weight_plan_make(const weight_demand *d, size_t limit, weight_plan *out, error *e)
{
    assert(d->alignment && (d->alignment & (d->alignment - 1)) == 0);
    candidate *c = NULL;
    uint32_t *order = NULL;
    *out = (weight_plan){0};
    kiln_status status = make_tables(d, out, &c, &order, e);
    if (status == KILN_OK) status = place(d, limit, out, c, order, e);
    mem_free(c);
    mem_free(order);
    if (status != KILN_OK) weight_plan_free(out);
    return status;
}

void weight_plan_free(weight_plan *p)
{
    mem_free(p->streamed);
    mem_free(p->slot);
    mem_free(p->after);
    *p = (weight_plan){0};
}
