/* hook_effect.c - see hook_effect.h. */
#include "hook_effect.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- one hook, while it is recorded ---- */

static kiln_t at(const kiln_hook *h, const kiln_recording *r, kiln_t x, const kiln_place_info *info)
{
    watched_hook *w = h->self;
    kiln_t y = w->of->at(w->of, r, x, info);
    w->acts |= y.id != x.id;
    return y;
}

static void before_attention(const kiln_hook *h, const kiln_recording *r, kiln_attention_info *a)
{
    watched_hook *w = h->self;
    kiln_attention_info old = {0};
    size_t n = a->size < sizeof old ? a->size : sizeof old;
    memcpy(&old, a, n);
    w->of->before_attention(w->of, r, a);
    w->acts |= memcmp(&old, a, n) != 0;
}

static kiln_t attention(const kiln_hook *h, const kiln_recording *r, const kiln_attention_info *a)
{
    watched_hook *w = h->self;
    kiln_t y = w->of->attention(w->of, r, a);
    w->acts |= y.id != 0;
    return y;
}

static int leaves_out(const kiln_hook *h, const char *place)
{
    watched_hook *w = h->self;
    int left = w->of->leaves_out(w->of, place);
    w->acts |= left;
    return left;
}

const kiln_hook *hook_watch(watched_hook *w, const kiln_hook *of)
{
    memset(w, 0, sizeof *w);
    w->of = of;
    w->acts = KILN_HAS(kiln_hook, of, output) && of->output && of->output[0]; /* it gives something beside */
    w->hook = (kiln_hook){.size = sizeof w->hook,
                          .self = w,
                          .identity = of->identity,
                          .place = of->place,
                          .start = of->start,
                          .end = of->end,
                          .at = of->at ? at : NULL,
                          .before_attention = of->before_attention ? before_attention : NULL,
                          .attention = of->attention ? attention : NULL,
                          .leaves_out = of->leaves_out ? leaves_out : NULL};
    return &w->hook;
}

/* ---- what recordings found ---- */

/* By a hash of the program's key and the hook's identity. What came later takes the place of what was there. */
enum { REMEMBERED = 1024 };
static struct {
    uint64_t hash;
    int acts;
} remembered[REMEMBERED];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* FNV-1a */
static uint64_t hash_on(uint64_t h, const char *text)
{
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 1099511628211u;
    return h;
}

static uint64_t hash_of(const char *key, const kiln_hook *hook)
{
    return hash_on(hash_on(hash_on(14695981039346656037u, key), " "), hook->identity) | 1;
}

static void remember(const char *key, const kiln_hook *hook, int acts)
{
    uint64_t hash = hash_of(key, hook);
    pthread_mutex_lock(&lock);
    remembered[hash / 2 % REMEMBERED].hash = hash, remembered[hash / 2 % REMEMBERED].acts = acts;
    pthread_mutex_unlock(&lock);
}

static int recall(const char *key, const kiln_hook *hook)
{
    uint64_t hash = hash_of(key, hook);
    pthread_mutex_lock(&lock);
    int acts = remembered[hash / 2 % REMEMBERED].hash != hash || remembered[hash / 2 % REMEMBERED].acts;
    pthread_mutex_unlock(&lock);
    return acts;
}

/* ---- all of a sampling ---- */

static int is_own(const kiln_model *m, const kiln_hook *hook)
{
    for (size_t i = 0; i < m->n_hook; i++)
        if (m->hook[i] == hook) return 1;
    return 0; /* guidance's: gone with the guess that it is for */
}

static size_t find(const hook_effects *all, const kiln_hook *hook)
{
    size_t i = 0;
    while (i < all->n && strcmp(all->hook[i].identity, hook->identity) != 0) i++;
    return i;
}

static void note(hook_effects *all, const kiln_model *m, const kiln_hook *hook, int acts)
{
    size_t i = find(all, hook);
    if (i == HOOK_EFFECTS_MAX || !is_own(m, hook)) return;
    if (i == all->n) {
        all->hook[i].identity = hook->identity, all->hook[i].family = m->denoiser->family, all->hook[i].acts = 0;
        all->n++;
    }
    all->hook[i].acts |= acts;
}

/* A patch of several hooks has one identity, and acts when one of them does. */
static int any_acts(const watched_hook *w, size_t n, const char *identity)
{
    int acts = 0;
    for (size_t i = 0; i < n; i++) acts |= w[i].acts && strcmp(w[i].of->identity, identity) == 0;
    return acts;
}

void hook_effects_recorded(hook_effects *all, const char *key, const kiln_model *m, const watched_hook *w, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        remember(key, w[i].of, any_acts(w, n, w[i].of->identity));
        note(all, m, w[i].of, w[i].acts);
    }
}

void hook_effects_met(hook_effects *all, const char *key, const kiln_model *m, const kiln_hook *const *hook, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = find(all, hook[i]);
        if (k == all->n || !all->hook[k].acts) note(all, m, hook[i], recall(key, hook[i]));
    }
}

void hook_effects_say(hook_effects *all, const kiln_host *host)
{
    char text[400];
    for (size_t i = 0; i < all->n; i++) {
        if (all->hook[i].acts) continue;
        all->hook[i].acts = 1;
        snprintf(text, sizeof text,
                 "the patch '%.*s' acts at no place of this model (%.*s) at this size: the result is what it would be "
                 "without it",
                 (int)strcspn(all->hook[i].identity, "/"), all->hook[i].identity,
                 (int)strcspn(all->hook[i].family, "/"), all->hook[i].family);
        host->log(KILN_LOG_WARN, text);
    }
}
