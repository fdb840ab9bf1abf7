/* read_ahead.c - see read_ahead.h. */
#include "memory/read_ahead.h"

#include "base/lock.h"
#include "memory/manager.h"
#include "memory/packed_weight.h"
#include "memory/pass.h"

#include <assert.h>

/* Nobody wants p's files any more. */
static int is_over(void *arg)
{
    const residency_pass *p = arg;
    pthread_mutex_lock(&p->r->lock);
    int yes = p->leaves || p->r->read_ahead.stop;
    pthread_mutex_unlock(&p->r->lock);
    return yes;
}

static int is_on_device(packed_weight *x) /* now: weights come and go meanwhile */
{
    pthread_mutex_lock(&x->owner->lock);
    int yes = weight_on_device(x);
    pthread_mutex_unlock(&x->owner->lock);
    return yes;
}

/* Half of what memory is free. */
static size_t room(const residency *r)
{
    size_t free_bytes = 0, total = 0;
    return r->call->memory(r->device, &free_bytes, &total, NULL) == KILN_OK ? free_bytes / 2 : 0;
}

/* Asks for the files of p's weights, in the order of use. */
static void ask(residency_pass *p, page_reader *reader)
{
    const residency_demand *d = &p->d;
    size_t left = d->will_need ? room(p->r) : 0;
    for (size_t u = 0; u < d->n_use && left && !is_over(p); u++) {
        uint32_t w = d->use[u].weight;
        if (d->maker[w] != u || is_on_device(d->weight[w])) continue;
        if (d->bytes[w] > left) return;
        left -= d->bytes[w];
        d->will_need(d->arg, u, reader);
    }
}

/* The first program of the order that is due and was not asked for; NULL: there is none yet. */
static residency_pass *next_of(residency *r)
{
    assert(mutex_held(&r->lock));
    for (size_t i = 0; i < r->order.n; i++) {
        residency_pass *p = r->order.entry[i].pass;
        if (!p->asked && (p->due || r->read_ahead.all)) return p;
    }
    return NULL;
}

static void *follow_order(void *arg)
{
    residency *r = arg;
    page_reader reader = {.stop = is_over};
    pthread_mutex_lock(&r->lock);
    while (!r->read_ahead.stop) {
        residency_pass *p = next_of(r);
        if (!p) {
            pthread_cond_wait(&r->read_ahead.noted, &r->lock);
            continue;
        }
        p->asked = 1, p->guards++;
        pthread_mutex_unlock(&r->lock);
        reader.arg = p;
        ask(p, &reader);
        pthread_mutex_lock(&r->lock);
        if (--p->guards == 0) pthread_cond_broadcast(&r->prefetch.unguarded);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

static void begin(residency *r)
{
    if (r->call->asynchronous || r->setting.no_prefetch || r->read_ahead.begun) return;
    r->read_ahead.begun = pthread_create(&r->read_ahead.thread, NULL, follow_order, r) == 0;
}

void residency_read_ahead(residency *r)
{
    pthread_mutex_lock(&r->lock);
    r->read_ahead.all = 1;
    pthread_mutex_unlock(&r->lock);
    begin(r);
}

void read_ahead_of(residency_pass *p)
{
    residency *r = p->r;
    begin(r);
    pthread_mutex_lock(&r->lock);
    p->due = 1;
    if (!r->read_ahead.all) p->asked = 0;
    pthread_cond_signal(&r->read_ahead.noted);
    pthread_mutex_unlock(&r->lock);
}

void read_ahead_noted(residency *r)
{
    assert(mutex_held(&r->lock));
    pthread_cond_signal(&r->read_ahead.noted);
}

void read_ahead_end(residency *r)
{
    pthread_mutex_lock(&r->lock);
    r->read_ahead.stop = 1;
    pthread_cond_signal(&r->read_ahead.noted);
    pthread_mutex_unlock(&r->lock);
    if (r->read_ahead.begun) pthread_join(r->read_ahead.thread, NULL);
    r->read_ahead.begun = 0;
}
