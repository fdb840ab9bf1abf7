/* result_cache.c - see result_cache.h. */
#include "run/result_cache.h"

#include "base/array.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory_alloc.h"
#include "plugin/value_types.h"
#include "run/node_args.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATE_SECONDS = 30 };

typedef struct {
    double state_at;      /* when the last state was written, or the call began */
    unsigned char found;  /* when the run began, the store had it */
    unsigned char taken;  /* another process had computed it while we were about to */
    unsigned char stated; /* a state of this key may lie in the store           */
    unsigned char called; /* of a mapped node: `call` is the key of one call    */
    digest call;
    size_t kept; /* calls whose values are in the store */
} node_mark;

struct result_cache {
    store *store;
    result_cache_setting setting;
    const workflow *w;
    node_mark *mark;
    digest rates_key;
    kiln_value *rates; /* map: node type -> [flops, seconds]; ours to change */
    int rates_changed;
    pthread_mutex_t rates_lock;
    atomic_int complained; /* one warning about what cannot be kept is enough */
    pthread_mutex_t not_kept_lock;
    digest *not_kept; /* nodes' keys: result_cache_not_kept, and all that hangs on them */
    size_t n_not_kept, not_kept_capacity;
};

kiln_status result_cache_open(const result_cache_setting *setting, result_cache **out, error *e)
{
    error why = {0};
    *out = NULL;
    if (setting->off || store_folder_is_off(setting->folder)) return KILN_OK;
    store *s = store_open(&(store_setting){.folder = setting->folder,
                                           .limit = setting->limit,
                                           .types = setting->types,
                                           .short_lived = setting->short_lived},
                          &why);
    if (!s) {
        log_warn("%s. The run goes on, and its results are not kept", why.message);
        return KILN_OK;
    }
    result_cache *k = mem_calloc(1, sizeof *k);
    if (!k) {
        store_close(s);
        return error_set(e, KILN_ERR_NOMEM, "out of memory");
    }
    *k = (result_cache){.store = s, .setting = *setting};
    pthread_mutex_init(&k->rates_lock, NULL);
    pthread_mutex_init(&k->not_kept_lock, NULL);
    if (k->setting.state_seconds == 0) k->setting.state_seconds = STATE_SECONDS;
    store_remember_digests(s);
    *out = k;
    return KILN_OK;
}

/* ---- what can be kept ---- */

/* Types whose values are plain data; "*" and "*NAME" may be. Others are objects, kept when their plugin has said how.
 */
static int may_be_kept(const result_cache *k, const char *type)
{
    const codec_types *t = k->setting.types;
    if (type[0] == '*' || value_type_is_plain(type)) return 1;
    return t && t->revision && t->revision(t->self, type) != 0;
}

static int keeps(const result_cache *k, size_t node)
{
    const graph_node *g = &k->w->node[node];
    if (!g->cacheable || (g->type->flags & KILN_NODE_OUTPUT) || g->type->n_out == 0) return 0;
    for (uint32_t i = 0; i < g->type->n_out; i++)
        if (!may_be_kept(k, node_out(g->type, i)->type)) return 0;
    return 1;
}

static digest key_of(const result_cache *k, size_t node)
{
    return k->mark[node].called ? k->mark[node].call : k->w->node[node].key;
}

/* One transaction for all: one for each node would cost more than most nodes do. */
static kiln_status find_all(result_cache *k, error *e)
{
    const workflow *w = k->w;
    digest *keys = mem_calloc(w->n + 1, sizeof *keys);
    uint8_t *found = mem_calloc(w->n + 1, 1);
    size_t n = 0;
    if (keys && found) {
        for (size_t i = 0; i < w->n; i++)
            if (w->node[i].needed && keeps(k, i)) keys[n++] = w->node[i].key;
        store_find_many(k->store, keys, n, found);
        for (size_t i = 0, at = 0; i < w->n; i++)
            if (w->node[i].needed && keeps(k, i)) k->mark[i].found = found[at++];
    }
    mem_free(keys), mem_free(found);
    return keys && found ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory");
}

kiln_status result_cache_watch(result_cache *k, const workflow *w, error *e)
{
    if (!k) return KILN_OK;
    node_mark *mark = mem_calloc(w->n + 1, sizeof *mark);
    if (!mark) return error_set(e, KILN_ERR_NOMEM, "out of memory");
    mem_free(k->mark);
    k->mark = mark;
    k->w = w;
    return find_all(k, e);
}

const char *result_cache_folder(const result_cache *k) { return k ? store_folder(k->store) : NULL; }

void result_cache_close(result_cache *k)
{
    error e = {0};
    if (!k) return;
    if (k->rates_changed) store_state_put(k->store, k->rates_key, k->rates, NULL); /* only an estimate is lost */
    if (store_flush(k->store, &e) != KILN_OK && !atomic_exchange(&k->complained, 1))
        log_warn("%s; the results are not kept", e.message);
    store_close(k->store);
    value_unref(k->rates);
    pthread_mutex_destroy(&k->rates_lock);
    pthread_mutex_destroy(&k->not_kept_lock);
    mem_free(k->not_kept);
    mem_free(k->mark);
    mem_free(k);
}

/* Keys are kept as texts: a value has no unsigned numbers. */
static kiln_status read_key(const kiln_value *list, size_t i, digest *key, error *e)
{
    unsigned long long hi, lo;
    const char *text = value_api.get_string(value_api.list_at(list, i), NULL);
    if (!text || strlen(text) != 32 || sscanf(text, "%16llx%16llx", &hi, &lo) != 2)
        return error_set(e, KILN_ERR_IO, "a kept list of results is damaged");
    *key = (digest){.hi = hi, .lo = lo};
    return KILN_OK;
}

/* Of a mapped node's result: what the values of all its calls are. */
static void add_calls(result_cache *k, size_t node, store_entry *out)
{
    kiln_value *keys = NULL;
    store_entry one;
    digest key;
    if (store_get(k->store, k->w->node[node].key, 1, &keys, NULL) != KILN_OK) return;
    for (size_t i = 0; i < value_api.count(keys); i++)
        if (read_key(keys, i, &key, NULL) == KILN_OK && store_find(k->store, key, &one)) out->bytes += one.bytes;
    value_unref(keys);
}

int result_cache_look(result_cache *k, size_t node, store_entry *out)
{
    store_entry found;
    if (!k || !keeps(k, node) || !store_find(k->store, k->w->node[node].key, &found)) return 0;
    if (out) *out = found;
    if (out && k->w->node[node].mapped) add_calls(k, node, out);
    return k->w->node[node].mapped || found.n_value == k->w->node[node].type->n_out;
}

int result_cache_known(result_cache *k, size_t node) { return k && k->mark[node].found; }

/* The values as the node's ports declare them: a store is not believed blindly. */
static kiln_status fits(const graph_node *g, kiln_value *const *out, error *e)
{
    for (uint32_t i = 0; i < g->type->n_out; i++)
        if (out[i]) TRY(value_fits_port(out[i], node_out(g->type, i), e));
    return KILN_OK;
}

static void drop(const graph_node *g, kiln_value **out)
{
    for (uint32_t i = 0; i < g->type->n_out; i++) {
        value_unref(out[i]);
        out[i] = NULL;
    }
}

/* The values of one call. */
static kiln_status fetch_key(result_cache *k, size_t node, digest key, kiln_value **out, error *e)
{
    const graph_node *g = &k->w->node[node];
    TRY(store_get(k->store, key, g->type->n_out, out, e));
    kiln_status status = fits(g, out, e);
    if (status != KILN_OK) drop(g, out);
    return status;
}

/* ---- mapped nodes ---- */

static kiln_status fetch_call(result_cache *k, size_t node, const kiln_value *keys, size_t i, kiln_value **lists,
                              error *e)
{
    const graph_node *g = &k->w->node[node];
    digest key;
    TRY(read_key(keys, i, &key, e));
    kiln_value **one = mem_calloc(g->type->n_out + 1u, sizeof *one);
    kiln_status status = one ? fetch_key(k, node, key, one, e) : error_set(e, KILN_ERR_NOMEM, "out of memory");
    for (uint32_t o = 0; status == KILN_OK && o < g->type->n_out; o++)
        if (one[o]) value_publish(one[o]);
    if (status == KILN_OK) {
        outputs_set_origin(g->type, key, one);
        status = outputs_append(g->type, lists, one, e);
    }
    if (one) drop(g, one);
    mem_free(one);
    return status;
}

static kiln_status fetch_calls(result_cache *k, size_t node, kiln_value **out, error *e)
{
    const graph_node *g = &k->w->node[node];
    kiln_value *keys = NULL;
    TRY(store_get(k->store, g->key, 1, &keys, e));
    kiln_status status = value_kind(keys) == KILN_V_LIST ? outputs_lists(g->type, out, e)
                                                         : error_set(e, KILN_ERR_IO, "no list of results");
    for (size_t i = 0; status == KILN_OK && i < value_api.count(keys); i++)
        status = fetch_call(k, node, keys, i, out, e);
    if (status != KILN_OK) drop(g, out);
    value_unref(keys);
    return status;
}

void result_cache_item(result_cache *k, size_t node, digest key)
{
    if (!k) return;
    node_mark *m = &k->mark[node];
    if (!m->called) m->kept = 0;
    m->called = 1, m->call = key;
    m->taken = m->stated = 0;
}

int result_cache_item_fetch(result_cache *k, size_t node, kiln_value **out)
{
    error gone = {0};
    if (!k || !keeps(k, node) || fetch_key(k, node, key_of(k, node), out, &gone) != KILN_OK) return 0;
    k->mark[node].kept++;
    return 1;
}

void result_cache_items(result_cache *k, size_t node, size_t n, const digest *key)
{
    error e = {0};
    char text[33];
    if (!k) return;
    size_t kept = k->mark[node].called ? k->mark[node].kept : 0;
    k->mark[node].called = 0;
    if (!keeps(k, node) || kept != n) return; /* an estimate says SIZE_MAX */
    kiln_value *keys = value_list();
    int whole = keys != NULL;
    for (size_t i = 0; i < n && whole; i++) {
        kiln_value *one = value_string(digest_hex(key[i], text), 32);
        whole = one && value_api.list_push(keys, one) == KILN_OK;
        value_unref(one);
    }
    const graph_node *g = &k->w->node[node];
    snprintf(text, sizeof text, "list of %zu", n);
    if (whole) store_put(k->store, g->key, &(store_note){.type = g->type->type, .what = text}, 1, &keys, &e);
    value_unref(keys);
}

kiln_status result_cache_fetch(result_cache *k, size_t node, kiln_value **out, error *e)
{
    const graph_node *g = &k->w->node[node];
    return g->mapped ? fetch_calls(k, node, out, e) : fetch_key(k, node, g->key, out, e);
}

/* ---- what its key does not say everything about ---- */

static int has_key(const result_cache *k, digest key)
{
    for (size_t i = 0; i < k->n_not_kept; i++)
        if (digest_equal(k->not_kept[i], key)) return 1;
    return 0;
}

static void add_key(result_cache *k, digest key)
{
    if (has_key(k, key)) return;
    if (array_reserve(&k->not_kept, &k->not_kept_capacity, k->n_not_kept + 1, sizeof *k->not_kept))
        k->not_kept[k->n_not_kept++] = key;
    else
        k->setting.off = 1; /* which results they are is lost: none is kept any more */
}

void result_cache_not_kept(result_cache *k, size_t node)
{
    if (!k) return;
    pthread_mutex_lock(&k->not_kept_lock);
    add_key(k, k->w->node[node].key);
    pthread_mutex_unlock(&k->not_kept_lock);
}

static int hangs_on_such(const result_cache *k, const graph_node *g)
{
    for (uint32_t p = 0; p < g->type->n_in + g->type->n_param; p++) {
        int port = p < g->type->n_in;
        const source *from = port ? g->in[p].from : &g->param_in[p - g->type->n_in];
        uint32_t n = port ? g->in[p].n : from->node != SOURCE_NONE;
        for (uint32_t i = 0; i < n; i++)
            if (has_key(k, k->w->node[from[i].node].key)) return 1;
    }
    return 0;
}

/* Before a node is computed: what it is made of is there, and whether that may be kept is known. */
static void inherit(result_cache *k, size_t node)
{
    const graph_node *g = &k->w->node[node];
    pthread_mutex_lock(&k->not_kept_lock);
    if (k->n_not_kept && hangs_on_such(k, g)) add_key(k, g->key);
    pthread_mutex_unlock(&k->not_kept_lock);
}

static int is_not_kept(result_cache *k, size_t node)
{
    pthread_mutex_lock(&k->not_kept_lock);
    int found = k->setting.off || has_key(k, k->w->node[node].key);
    pthread_mutex_unlock(&k->not_kept_lock);
    return found;
}

/* ---- computing ---- */

static void keep(result_cache *k, size_t node, double seconds, kiln_value *const *out)
{
    const graph_node *g = &k->w->node[node];
    error e = {0};
    if (is_not_kept(k, node)) return;
    for (uint32_t i = 0; i < g->type->n_out; i++)
        if (!codec_can_encode(out[i], k->setting.types)) return;
    kiln_status status = store_put(k->store, key_of(k, node), &(store_note){.type = g->type->type, .seconds = seconds},
                                   g->type->n_out, out, &e);
    if (status == KILN_OK) k->mark[node].kept++;
    if (status == KILN_OK || status == KILN_ERR_UNSUPPORTED) return;
    if (!atomic_exchange(&k->complained, 1)) log_warn("%s; the run goes on, but not all results are kept", e.message);
}

typedef struct {
    result_cache *k;
    size_t node;
} waiter;

static int waiter_cancelled(void *arg)
{
    const result_cache_setting *s = &((waiter *)arg)->k->setting;
    return s->cancelled && s->cancelled(s->arg);
}

static void waiter_waiting(void *arg)
{
    const waiter *w = arg;
    if (w->k->setting.waiting) w->k->setting.waiting(w->k->setting.arg, w->node);
}

kiln_status result_cache_compute(result_cache *k, size_t node,
                                 kiln_status (*compute)(void *arg, kiln_value **out, error *e), void *arg,
                                 kiln_value **out, int *fetched, error *e)
{
    *fetched = 0;
    if (k) inherit(k, node);
    if (!k || !keeps(k, node) || is_not_kept(k, node)) return compute(arg, out, e);
    digest key = key_of(k, node);
    store_claim *claim = NULL;
    waiter w = {.k = k, .node = node};
    error gone = {0};
    store_turn turn = k->mark[node].called
                          ? store_claim_key(k->store, key, waiter_cancelled, waiter_waiting, &w, &claim)
                          : store_claim_unseen(k->store, key, waiter_cancelled, waiter_waiting, &w, &claim);
    if (turn == STORE_STOPPED) return error_set(e, KILN_CANCELLED, "cancelled");
    if (turn == STORE_IS_THERE && fetch_key(k, node, key, out, &gone) == KILN_OK) {
        *fetched = k->mark[node].taken = 1;
        k->mark[node].kept++;
        store_release(claim);
        return KILN_OK;
    }
    k->mark[node].state_at = clock_seconds();
    double start = clock_seconds();
    kiln_status status = compute(arg, out, e);
    if (status == KILN_OK) keep(k, node, clock_seconds() - start, out);
    if (status == KILN_OK && k->mark[node].stated) store_state_drop(k->store, key);
    store_release(claim);
    return status;
}

int result_cache_taken(result_cache *k, size_t node) { return k && k->mark[node].taken; }

/* ---- states ---- */

static int has_states(result_cache *k, size_t node)
{
    return k && k->setting.state_seconds > 0 && k->w->node[node].cacheable && !is_not_kept(k, node);
}

kiln_value *result_cache_state_load(result_cache *k, size_t node)
{
    if (!has_states(k, node)) return NULL;
    kiln_value *state = store_state_get(k->store, key_of(k, node));
    if (state) k->mark[node].stated = 1;
    return state;
}

int result_cache_state_due(result_cache *k, size_t node, int stopping)
{
    return has_states(k, node) && (stopping || clock_seconds() - k->mark[node].state_at >= k->setting.state_seconds);
}

kiln_status result_cache_state_save(result_cache *k, size_t node, const kiln_value *state, error *e)
{
    if (!has_states(k, node)) return KILN_OK;
    k->mark[node].state_at = clock_seconds();
    kiln_status status = store_state_put(k->store, key_of(k, node), state, e);
    if (status == KILN_OK)
        k->mark[node].stated = 1;
    else if (!atomic_exchange(&k->complained, 1))
        log_warn("%s; the run goes on, but could not be taken up again", e ? e->message : "a state could not be kept");
    return status;
}

/* ---- rates ---- */

enum { RATE_SECONDS_MAX = 600 }; /* beyond it the past counts half: machines change */

void result_cache_rates_for(result_cache *k, const char *setting)
{
    if (!k) return;
    hasher *h = hasher_new();
    if (!h) return;
    hash_text(h, "kiln-rates/1");
    hash_text(h, setting);
    k->rates_key = hasher_digest(h);
    hasher_free(h);
    kiln_value *known = store_state_get(k->store, k->rates_key);
    k->rates = known && value_kind(known) == KILN_V_MAP ? value_api.map_copy(NULL, known) : value_map();
    value_unref(known);
}

static int read_rate(const result_cache *k, const char *type, double *flops, double *seconds)
{
    const kiln_value *pair = k->rates ? value_api.map_get(k->rates, type) : NULL;
    *flops = *seconds = 0;
    return pair && value_kind(pair) == KILN_V_LIST && value_api.count(pair) == 2 &&
           value_api.get_float(value_api.list_at(pair, 0), flops) == KILN_OK &&
           value_api.get_float(value_api.list_at(pair, 1), seconds) == KILN_OK;
}

double result_cache_rate(result_cache *k, const char *type)
{
    double flops, seconds;
    if (!k) return 0;
    pthread_mutex_lock(&k->rates_lock);
    int known = read_rate(k, type, &flops, &seconds);
    pthread_mutex_unlock(&k->rates_lock);
    return known && seconds > 0 ? flops / seconds : 0;
}

void result_cache_learn(result_cache *k, const char *type, double flops, double seconds)
{
    double old_flops, old_seconds;
    if (!k || !(flops > 0) || !(seconds > 0.01)) return;
    pthread_mutex_lock(&k->rates_lock);
    read_rate(k, type, &old_flops, &old_seconds);
    double share = old_seconds > RATE_SECONDS_MAX ? 0.5 : 1;
    kiln_value *pair = value_list(), *a = value_float(old_flops * share + flops),
               *b = value_float(old_seconds * share + seconds);
    if (k->rates && pair && a && b && value_api.list_push(pair, a) == KILN_OK &&
        value_api.list_push(pair, b) == KILN_OK)
        k->rates_changed |= value_api.map_set(k->rates, type, pair) == KILN_OK;
    value_unref(pair), value_unref(a), value_unref(b);
    pthread_mutex_unlock(&k->rates_lock);
}
