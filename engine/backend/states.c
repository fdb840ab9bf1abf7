/* states.c - see states.h. */
#include "backend/states.h"

#include "backend/runtime_state.h"
#include "base/array.h"
#include "base/lock.h"
#include "base/memory_alloc.h"
#include "tensor/dtype.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 8 << 20 }; /* bytes that go over the link at a time */

/* Shared by an object and its forks. */
typedef struct {
    atomic_uint refs;
    size_t bytes;
    void *data;
    int unplaced; /* in plain host memory, on no account */
} state_memory;

typedef struct {
    char *name;
    uint32_t dtype;
    shape shape;
    state_memory *memory;
} state;

struct kiln_states {
    atomic_uint refs;
    _Atomic(runtime *) rt; /* NULL: unplaced, made where nothing computes */
    int counts;
    char label[64];
    state *state;
    size_t n, capacity;
};

/* What is locked is the runtime, or, for an unplaced object, which has none, all of those. */
static pthread_mutex_t unplaced = PTHREAD_MUTEX_INITIALIZER;

static runtime *lock(const kiln_states *s)
{
    pthread_mutex_lock(&unplaced);
    runtime *rt = s->rt;
    if (!rt) return NULL;
    pthread_mutex_unlock(&unplaced);
    pthread_mutex_lock(&rt->lock);
    return rt;
}
static void unlock(runtime *locked) { pthread_mutex_unlock(locked ? &locked->lock : &unplaced); }

/* ---- memory: with the runtime's lock ---- */

static kiln_status take(const kiln_states *s, size_t bytes, void **out, error *e)
{
    char what[128];
    snprintf(what, sizeof what, "the state of %s", s->label);
    if (!s->counts) return residency_take(s->rt->residency, MEMORY_VALUES, bytes, what, out, e);
    *out = NULL;
    return budget_take(residency_budget(s->rt->residency), MEMORY_VALUES, bytes, what, e);
}

static void give(const kiln_states *s, size_t bytes, void *data)
{
    if (s->counts)
        budget_give(residency_budget(s->rt->residency), MEMORY_VALUES, bytes);
    else
        residency_give(s->rt->residency, MEMORY_VALUES, bytes, data);
}

static void drop(const kiln_states *s, state_memory *m)
{
    if (!m || atomic_fetch_sub(&m->refs, 1) != 1) return;
    if (m->unplaced)
        mem_free(m->data);
    else
        give(s, m->bytes, m->data);
    mem_free(m);
}

static int is_far(const kiln_states *s) { return (int)s->rt->device->table->asynchronous; }

typedef enum { IN, OUT } direction;

/* Between dense host memory (NULL: zeros) and a buffer, by pieces of page-locked memory. */
static kiln_status transfer(const kiln_states *s, state_memory *m, void *host, direction way, error *e)
{
    void *piece = NULL;
    if (s->counts) return KILN_OK;
    if (m->unplaced || !is_far(s)) {
        if (!host)
            memset(m->data, 0, m->bytes);
        else
            memcpy(way == IN ? m->data : host, way == IN ? host : m->data, m->bytes);
        return KILN_OK;
    }
    const device_table *t = s->rt->device->table;
    device_stream *stream = residency_stream(s->rt->residency);
    TRY(t->host_alloc(s->rt->device, m->bytes < PIECE ? m->bytes : PIECE, &piece, e));
    kiln_status status = KILN_OK;
    for (size_t at = 0; at < m->bytes && status == KILN_OK; at += PIECE) {
        size_t n = m->bytes - at < PIECE ? m->bytes - at : PIECE;
        char *there = (char *)m->data + at, *here = host ? (char *)host + at : NULL;
        if (way == IN && here) memcpy(piece, here, n);
        if (way == IN && !here) memset(piece, 0, n);
        status = way == IN ? t->copy_in(s->rt->device, there, piece, n, stream, e)
                           : t->copy_out(s->rt->device, piece, there, n, stream, e);
        if (status == KILN_OK) status = t->sync(s->rt->device, stream, e);
        if (way == OUT && status == KILN_OK) memcpy(here, piece, n);
    }
    if (status != KILN_OK) t->sync(s->rt->device, stream, NULL); /* what was enqueued before it failed uses both */
    t->host_release(s->rt->device, piece);
    return status;
}

static kiln_status take_unplaced(const kiln_states *s, size_t bytes, void **out, error *e)
{
    *out = s->counts ? NULL : mem_alloc(bytes ? bytes : 1);
    return *out || s->counts ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory for the state of %s", s->label);
}

static kiln_status memory_new(const kiln_states *s, size_t bytes, state_memory **out, error *e)
{
    state_memory *m = mem_calloc(1, sizeof *m);
    if (!m) return error_set(e, KILN_ERR_NOMEM, "out of memory for the state of %s", s->label);
    atomic_init(&m->refs, 1);
    m->bytes = bytes;
    m->unplaced = !s->rt;
    kiln_status status = s->rt ? take(s, bytes, &m->data, e) : take_unplaced(s, bytes, &m->data, e);
    if (status == KILN_OK) return *out = m, KILN_OK;
    mem_free(m);
    return status;
}

/* The same contents in memory that nobody else has. */
static kiln_status renew(const kiln_states *s, state *x, error *e)
{
    state_memory *copy = NULL;
    int far = !x->memory->unplaced && s->rt && is_far(s);
    TRY(memory_new(s, x->memory->bytes, &copy, e));
    void *host = s->counts ? NULL : far ? mem_alloc(copy->bytes) : x->memory->data;
    kiln_status status = host || s->counts ? KILN_OK : error_set(e, KILN_ERR_NOMEM, "out of memory for a copied state");
    if (status == KILN_OK && far && host) status = transfer(s, x->memory, host, OUT, e);
    if (status == KILN_OK && host) status = transfer(s, copy, host, IN, e);
    if (far) mem_free(host);
    drop(s, status == KILN_OK ? x->memory : copy);
    if (status == KILN_OK) x->memory = copy;
    return status;
}

/* A buffer that nobody else has: a shared one is copied. */
static kiln_status own(const kiln_states *s, state *x, error *e)
{
    return atomic_load(&x->memory->refs) == 1 ? KILN_OK : renew(s, x, e);
}

/* ---- the object ---- */

kiln_states *states_new(runtime *rt, const char *label, int counts, error *e)
{
    kiln_states *s = mem_calloc(1, sizeof *s);
    if (!s) return error_set(e, KILN_ERR_NOMEM, "out of memory"), NULL;
    atomic_init(&s->refs, 1);
    s->rt = rt;
    s->counts = counts;
    snprintf(s->label, sizeof s->label, "%s", label && label[0] ? label : "a program");
    return s;
}

kiln_states *states_ref(kiln_states *s)
{
    if (s) atomic_fetch_add(&s->refs, 1);
    return s;
}

static void forget(kiln_states *s, size_t i)
{
    drop(s, s->state[i].memory);
    mem_free(s->state[i].name);
    s->state[i] = s->state[--s->n];
}

void states_unref(kiln_states *s)
{
    if (!s || atomic_fetch_sub(&s->refs, 1) != 1) return;
    states_clear(s, NULL);
    mem_free(s->state);
    mem_free(s);
}

void states_clear(kiln_states *s, const char *name)
{
    runtime *locked = lock(s);
    if (s->rt && is_far(s) && !s->counts)
        s->rt->device->table->sync(s->rt->device, residency_stream(s->rt->residency), NULL);
    for (size_t i = s->n; i-- > 0;)
        if (!name || strcmp(s->state[i].name, name) == 0) forget(s, i);
    unlock(locked);
}

kiln_status states_place(kiln_states *s, runtime *rt, error *e)
{
    kiln_status status = KILN_OK;
    if (s->rt) return KILN_OK;
    pthread_mutex_lock(&unplaced);
    if (!s->rt) {
        pthread_mutex_lock(&rt->lock);
        kiln_states there = {.rt = rt, .counts = s->counts};
        snprintf(there.label, sizeof there.label, "%s", s->label);
        for (size_t i = 0; i < s->n && status == KILN_OK; i++)
            if (s->state[i].memory->unplaced) status = renew(&there, &s->state[i], e);
        if (status == KILN_OK) s->rt = rt;
        pthread_mutex_unlock(&rt->lock);
    }
    pthread_mutex_unlock(&unplaced);
    return status;
}

static char *copied(const char *text)
{
    size_t n = strlen(text) + 1;
    char *copy = mem_alloc(n);
    if (copy) memcpy(copy, text, n);
    return copy;
}

kiln_states *states_fork(kiln_states *s, error *e)
{
    kiln_states *f = states_new(s->rt, s->label, s->counts, e);
    if (!f) return NULL;
    runtime *locked = lock(s);
    int whole = array_reserve(&f->state, &f->capacity, s->n, sizeof *f->state);
    for (size_t i = 0; whole && i < s->n; i++) {
        state *x = &f->state[f->n];
        *x = s->state[i];
        if (!(x->name = copied(s->state[i].name))) whole = 0;
        if (!whole) break;
        atomic_fetch_add(&x->memory->refs, 1);
        f->n++;
    }
    unlock(locked);
    if (whole) return f;
    states_unref(f);
    return error_set(e, KILN_ERR_NOMEM, "out of memory for the fork of a state"), NULL;
}

size_t states_bytes(const kiln_states *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n; i++) n += s->state[i].memory->bytes;
    return n;
}

size_t states_count(const kiln_states *s) { return s->n; }
state_info states_at(const kiln_states *s, size_t i)
{
    assert(i < s->n);
    return (state_info){.name = s->state[i].name, .dtype = s->state[i].dtype, .shape = s->state[i].shape};
}

static state *find(const kiln_states *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->state[i].name, name) == 0) return &s->state[i];
    return NULL;
}

static kiln_status make(kiln_states *s, const state_info *info, state **out, error *e)
{
    size_t bytes = (size_t)shape_count(&info->shape) * dtype_size(info->dtype);
    state x = {.dtype = info->dtype, .shape = info->shape};
    if (!array_reserve(&s->state, &s->capacity, s->n + 1, sizeof *s->state) || !(x.name = copied(info->name)))
        return error_set(e, KILN_ERR_NOMEM, "out of memory for the state '%s'", info->name);
    kiln_status status = memory_new(s, bytes, &x.memory, e);
    if (status == KILN_OK) status = transfer(s, x.memory, NULL, IN, e);
    if (status != KILN_OK) {
        drop(s, x.memory);
        mem_free(x.name);
        return status;
    }
    s->state[s->n++] = x;
    *out = &s->state[s->n - 1];
    return KILN_OK;
}

/* The buffer of this name, made where there is none. */
static kiln_status find_or_make(kiln_states *s, const state_info *info, state **out, error *e)
{
    char have[80], want[80];
    state *x = find(s, info->name);
    if (!x) return make(s, info, out, e);
    if (x->dtype != info->dtype || !shape_equal(&x->shape, &info->shape))
        return error_set(e, KILN_ERR_INVALID, "state '%s' is %s %s, recorded as %s %s", info->name,
                         dtype_name(x->dtype), shape_text(&x->shape, have), dtype_name(info->dtype),
                         shape_text(&info->shape, want));
    *out = x;
    return KILN_OK;
}

kiln_status states_read(kiln_states *s, const char *name, void *dst, error *e)
{
    runtime *locked = lock(s);
    state *x = find(s, name);
    kiln_status status =
        x ? transfer(s, x->memory, dst, OUT, e) : error_set(e, KILN_ERR_INVALID, "there is no state '%s'", name);
    unlock(locked);
    return status;
}

kiln_status states_write(kiln_states *s, const state_info *info, const void *src, error *e)
{
    state *x = NULL;
    runtime *locked = lock(s);
    kiln_status status = find_or_make(s, info, &x, e);
    if (status == KILN_OK) status = own(s, x, e);
    if (status == KILN_OK) status = transfer(s, x->memory, (void *)(uintptr_t)src, IN, e);
    unlock(locked);
    return status;
}

/* ---- for a run ---- */

static int is_written(const recording *r, uint32_t id)
{
    for (size_t i = 0; i < r->n; i++) {
        const op *o = &r->op[i];
        if (o->kind != OP_STATE_WRITE) continue;
        uint32_t root = o->in[0];
        while (r->op[root - 1].kind == OP_STATE_WRITE) root = r->op[root - 1].in[0];
        if (root == id) return 1;
    }
    return 0;
}

size_t states_wanted(const recording *r)
{
    size_t bytes = 0;
    for (size_t i = 0; i < r->n; i++)
        if (r->op[i].kind == OP_STATE) bytes += (size_t)shape_count(&r->op[i].shape) * dtype_size(r->op[i].dtype);
    return bytes;
}

kiln_status states_bind(kiln_states *s, const recording *r, void **data, error *e)
{
    for (uint32_t id = 1; id <= r->n; id++) {
        const op *o = &r->op[id - 1];
        state *x = NULL;
        if (o->kind != OP_STATE) continue;
        if (!s)
            return error_set(e, KILN_ERR_INVALID, "program '%s' has the state '%s' and is run without states", r->name,
                             o->name);
        assert(mutex_held(&s->rt->lock));
        TRY(find_or_make(s, &(state_info){.name = o->name, .dtype = o->dtype, .shape = o->shape}, &x, e));
        if (is_written(r, id)) TRY(own(s, x, e));
        data[id] = x->memory->data;
    }
    return KILN_OK;
}
