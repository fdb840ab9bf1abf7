/* sample_state.c - see sample_state.h. */
#include "sample_state.h"

#include "kiln/kit.h"

#include <stdio.h>
#include <string.h>

enum { VERSION = 2, TWISTER_WORDS = 624 };

static const kiln_call *call_of(const kiln_session *s) { return s->call; }

void state_refused(const kiln_session *s, const char *why)
{
    char text[256];
    snprintf(text, sizeof text, "%s: the saved state of this sampling is not used: %s; it starts from the beginning",
             s->row->name, why);
    call_of(s)->host->log(KILN_LOG_WARN, text);
}

/* ---- making one: NULL values mean that there was no memory ---- */

static kiln_value *new_bits(const kiln_session *s, uint64_t bits)
{
    int64_t whole;
    memcpy(&whole, &bits, sizeof whole);
    return kit_values(call_of(s))->new_int(call_of(s)->ctx, whole);
}

static kiln_value *new_tensor(const kiln_session *s, uint32_t dtype, uint32_t rank, const int64_t *dim,
                              const void *data, size_t bytes)
{
    const kiln_call *c = call_of(s);
    kiln_tensor t = {.size = sizeof t};
    kiln_value *v = c->host->tensor_new(c->ctx, dtype, KILN_CPU, rank, dim);
    if (!v) return NULL;
    if (c->host->view(c->ctx, v, &t) != KILN_OK) {
        c->host->unref(v);
        return NULL;
    }
    memcpy(t.data, data, bytes);
    return v;
}

/* How a latent lies in a state: as it is, or, of several streams, as numbers in a row. */
static uint32_t state_dims(const kiln_session *s, int64_t dim[5])
{
    if (!s->space.more) return latent_dims(&s->space.shape, s->space.shape.channels, dim);
    dim[0] = (int64_t)session_count(s);
    return 1;
}

static kiln_value *new_latent(const kiln_session *s, const float *x)
{
    int64_t dim[5];
    uint32_t rank = state_dims(s, dim);
    return new_tensor(s, KILN_F32, rank, dim, x, session_count(s) * sizeof *x);
}

static kiln_value *new_numbers(const kiln_session *s, const double *x, size_t n)
{
    return new_tensor(s, KILN_F64, 1, (const int64_t[]){(int64_t)n}, x, n * sizeof *x);
}

/* A latent as it was kept after the step. */
static kiln_status put_latent(kiln_session *s, kiln_value *map, const char *key, const kiln_latent *x)
{
    TRY(latent_kept(&s->space, x, s->work));
    return kit_set(call_of(s), map, key, new_latent(s, s->work));
}

static kiln_status put_slots(kiln_session *s, kiln_value *map)
{
    for (size_t i = 0; i < s->n_slot; i++)
        if (s->slot[i].latent.kept) TRY(put_latent(s, map, s->slot[i].name, &s->slot[i].latent));
    return KILN_OK;
}

static kiln_status put_scalars(const kiln_session *s, kiln_value *map)
{
    const slot_entry *entry = s->number;
    for (size_t i = 0; i < s->n_number; i++)
        if (entry[i].scalar) TRY(kit_set(call_of(s), map, entry[i].name, new_numbers(s, entry[i].scalar, entry[i].n)));
    return KILN_OK;
}

static kiln_status put_noise(const kiln_session *s, kiln_value *map)
{
    const kiln_call *c = call_of(s);
    const kiln_value_api *v = kit_values(c);
    const noise_stream *g = &s->random.steps;
    TRY(kit_set(c, map, "source", v->new_int(c->ctx, s->random.kind)));
    if (g->cuda) return kit_set(c, map, "offset", new_bits(s, g->gpu.offset));
    TRY(kit_set(c, map, "words",
                new_tensor(s, KILN_I32, 1, (const int64_t[]){TWISTER_WORDS}, g->cpu.word, sizeof g->cpu.word)));
    TRY(kit_set(c, map, "at", v->new_int(c->ctx, g->cpu.at)));
    return g->cpu.has_next ? kit_set(c, map, "spare", new_numbers(s, &g->cpu.next, 1)) : KILN_OK;
}

/* A map under `key`, filled by one of the functions above. */
static kiln_status put_map(kiln_session *s, kiln_value *state, const char *key)
{
    const kiln_call *c = call_of(s);
    kiln_value *map = kit_values(c)->new_map(c->ctx);
    if (!map) return KILN_ERR_NOMEM;
    kiln_status status = strcmp(key, "slots") == 0     ? put_slots(s, map)
                         : strcmp(key, "scalars") == 0 ? put_scalars(s, map)
                                                       : put_noise(s, map);
    if (status == KILN_OK) return kit_set(c, state, key, map);
    c->host->unref(map);
    return status;
}

/* All but the latents: those are kept on the device until the state is saved. */
static kiln_status put_numbers(kiln_session *s, kiln_value *state, size_t next)
{
    const kiln_call *c = call_of(s);
    const kiln_value_api *v = kit_values(c);
    TRY(kit_set(c, state, "version", v->new_int(c->ctx, VERSION)));
    TRY(kit_set(c, state, "sampler", v->new_string(c->ctx, s->row->name, strlen(s->row->name))));
    TRY(kit_set(c, state, "sigmas", new_numbers(s, s->job->sigma, s->job->n + 1)));
    TRY(kit_set(c, state, "seed", new_bits(s, s->job->noise->seed)));
    TRY(kit_set(c, state, "first", v->new_int(c->ctx, (int64_t)next)));
    TRY(kit_set(c, state, "always", v->new_int(c->ctx, s->last.wants_unconditional)));
    TRY(kit_set(c, state, "precision", v->new_int(c->ctx, s->last.precision)));
    TRY(put_map(s, state, "scalars"));
    return put_map(s, state, "noise");
}

static void keep_latents(kiln_session *s)
{
    latent_keep(&s->space, &s->x);
    if (s->denoised.data) latent_keep(&s->space, &s->denoised);
    for (size_t i = 0; i < s->n_slot; i++)
        if (s->slot[i].latent.data) latent_keep(&s->space, &s->slot[i].latent);
}

static kiln_status put_latents(kiln_session *s, kiln_value *state)
{
    TRY(put_latent(s, state, "x", &s->x));
    if (s->denoised.data) TRY(put_latent(s, state, "denoised", &s->denoised));
    return put_map(s, state, "slots");
}

/* The engine tells the user when saving fails, and the run goes on. */
static void save(kiln_session *s)
{
    if (put_latents(s, s->state) == KILN_OK) (void)s->store->state_save(call_of(s)->ctx, s->state);
}

static void forget(kiln_session *s)
{
    call_of(s)->host->unref(s->state);
    s->state = NULL;
}

void state_after_step(kiln_session *s, size_t next)
{
    const kiln_call *c = call_of(s);
    if (!s->store) return;
    forget(s);
    s->state = kit_values(c)->new_map(c->ctx);
    if (s->state && put_numbers(s, s->state, next) != KILN_OK) forget(s); /* no memory: this step leaves none */
    if (!s->state) return;
    keep_latents(s);
    if (s->space.failed != KILN_OK || !s->store->state_due(c->ctx)) return;
    save(s);
    forget(s);
}

void state_finish(kiln_session *s, kiln_status status)
{
    if (s->state && status != KILN_OK && s->space.failed == KILN_OK && s->store->state_due(call_of(s)->ctx)) save(s);
    forget(s);
}

/* ---- taking one up: 1 if it fits, 0 if not ---- */

static int get_int(const kiln_session *s, const kiln_value *map, const char *key, int64_t low, int64_t high,
                   int64_t *out)
{
    const kiln_value_api *v = kit_values(call_of(s));
    return v->get_int(v->map_get(map, key), out) == KILN_OK && *out >= low && *out <= high;
}

/* The data of a tensor with these dimensions; NULL: it is not one. bytes: of an element. */
static const void *get_tensor(const kiln_session *s, const kiln_value *value, uint32_t dtype, uint32_t rank,
                              const int64_t *dim, size_t bytes)
{
    const kiln_call *c = call_of(s);
    kiln_tensor t = {.size = sizeof t};
    if (kit_values(c)->kind(value) != KILN_V_TENSOR || c->host->view(c->ctx, value, &t) != KILN_OK) return NULL;
    if (t.dtype != dtype || t.rank != rank || t.device != KILN_CPU) return NULL;
    int64_t stride = (int64_t)bytes;
    for (uint32_t i = rank; i-- > 0; stride *= dim[i])
        if (t.dim[i] != dim[i] || t.stride[i] != stride) return NULL;
    return t.data;
}

static int get_latent(kiln_session *s, const kiln_value *value, kiln_latent *out)
{
    int64_t dim[5];
    uint32_t rank = state_dims(s, dim);
    const void *data = get_tensor(s, value, KILN_F32, rank, dim, sizeof(float));
    return data && latent_upload(&s->space, out, data) == KILN_OK;
}

static int get_numbers(const kiln_session *s, const kiln_value *value, size_t n, double *out)
{
    const void *data = get_tensor(s, value, KILN_F64, 1, (const int64_t[]){(int64_t)n}, sizeof(double));
    if (data) memcpy(out, data, n * sizeof *out);
    return data != NULL;
}

static int take_slots(kiln_session *s, const kiln_value *map)
{
    const kiln_value_api *v = kit_values(call_of(s));
    if (v->kind(map) != KILN_V_MAP) return 0;
    for (size_t i = 0; i < v->count(map); i++) {
        const char *name;
        const kiln_value *value = v->map_at(map, i, &name);
        slot_entry *e = session_entry(s->slot, &s->n_slot, name);
        if (!e || latent_init(&s->space, &e->latent, &s->space.shape) != KILN_OK || !get_latent(s, value, &e->latent))
            return 0;
    }
    return 1;
}

static int take_scalars(kiln_session *s, const kiln_value *map)
{
    const kiln_call *c = call_of(s);
    const kiln_value_api *v = kit_values(c);
    if (v->kind(map) != KILN_V_MAP) return 0;
    for (size_t i = 0; i < v->count(map); i++) {
        const char *name;
        const kiln_value *value = v->map_at(map, i, &name);
        slot_entry *e = session_entry(s->number, &s->n_number, name);
        kiln_tensor t = {.size = sizeof t};
        if (!e || v->kind(value) != KILN_V_TENSOR || c->host->view(c->ctx, value, &t) != KILN_OK || t.rank != 1)
            return 0;
        e->n = (size_t)t.dim[0];
        e->scalar = c->host->scratch(c->ctx, (e->n ? e->n : 1) * sizeof *e->scalar, KILN_CPU);
        if (!e->scalar || !get_numbers(s, value, e->n, e->scalar)) return 0;
    }
    return 1;
}

static int take_noise(kiln_session *s, const kiln_value *map)
{
    const kiln_value_api *v = kit_values(call_of(s));
    noise_stream *g = &s->random.steps;
    int64_t at, source;
    if (!get_int(s, map, "source", s->random.kind, s->random.kind, &source)) return 0;
    if (g->cuda) {
        if (!get_int(s, map, "offset", INT64_MIN, INT64_MAX, &at)) return 0;
        memcpy(&g->gpu.offset, &at, sizeof at);
        return 1;
    }
    const void *words =
        get_tensor(s, v->map_get(map, "words"), KILN_I32, 1, (const int64_t[]){TWISTER_WORDS}, sizeof(int32_t));
    const kiln_value *spare = v->map_get(map, "spare");
    if (!words || !get_int(s, map, "at", 0, TWISTER_WORDS, &at) || (spare && !get_numbers(s, spare, 1, &g->cpu.next)))
        return 0;
    memcpy(g->cpu.word, words, sizeof g->cpu.word);
    g->cpu.at = (uint32_t)at;
    g->cpu.has_next = spare != NULL;
    return 1;
}

/* NULL if it belongs to this run, else why not. */
static const char *other_run(const kiln_session *s, const kiln_value *state)
{
    const kiln_value_api *v = kit_values(call_of(s));
    int64_t number, seed;
    const char *name = v->get_string(v->map_get(state, "sampler"), NULL);
    const void *sigma = get_tensor(s, v->map_get(state, "sigmas"), KILN_F64, 1,
                                   (const int64_t[]){(int64_t)s->job->n + 1}, sizeof(double));
    memcpy(&seed, &s->job->noise->seed, sizeof seed);
    if (!get_int(s, state, "version", VERSION, VERSION, &number)) return "it is of another version";
    if (!name || strcmp(name, s->row->name) != 0) return "it is another sampler's";
    if (!sigma || memcmp(sigma, s->job->sigma, (s->job->n + 1) * sizeof(double)) != 0)
        return "it has other noise levels";
    if (!get_int(s, state, "seed", seed, seed, &number)) return "it has another seed";
    return NULL;
}

/* A sampler that changes the size on the way goes on at the size its state has. */
static int take_size(kiln_session *s, const kiln_value *x)
{
    const kiln_call *c = call_of(s);
    const int64_t times = 64; /* more than any sampler makes of a size: a damaged state asks for no more than that */
    kiln_tensor t = {.size = sizeof t};
    if (!(s->row->flags & KILN_SAMPLER_RESIZES)) return 1;
    if (kit_values(c)->kind(x) != KILN_V_TENSOR || c->host->view(c->ctx, x, &t) != KILN_OK || t.rank < 3) return 0;
    int64_t h = t.rank > 3 ? t.dim[t.rank - 3] : 1, w = t.dim[t.rank - 2];
    if (h == s->space.shape.height && w == s->space.shape.width) return 1;
    return h > 0 && w > 0 && h / times <= s->first_height && w / times <= s->first_width &&
           session_set_size(s, h, w) == KILN_OK;
}

static int take_all(kiln_session *s, const kiln_value *state)
{
    const kiln_value_api *v = kit_values(call_of(s));
    int64_t first, always, precision;
    if (!get_int(s, state, "first", 1, INT32_MAX, &first) || !get_int(s, state, "always", 0, 1, &always) ||
        !get_int(s, state, "precision", 0, KILN_F32, &precision))
        return 0;
    if (!take_size(s, v->map_get(state, "x")) || !get_latent(s, v->map_get(state, "x"), &s->x)) return 0;
    if (s->denoised.data && !get_latent(s, v->map_get(state, "denoised"), &s->denoised)) return 0;
    if (!take_slots(s, v->map_get(state, "slots")) || !take_scalars(s, v->map_get(state, "scalars")) ||
        !take_noise(s, v->map_get(state, "noise")))
        return 0;
    s->last.wants_unconditional |= (int)always;
    s->last.precision = (uint32_t)precision;
    s->api.first = (size_t)first;
    return 1;
}

static void tell_where(const kiln_session *s)
{
    char text[160];
    snprintf(text, sizeof text, "%s: goes on after step %zu of %zu, where an earlier run stopped", s->row->name,
             s->api.first, s->job->n);
    call_of(s)->host->log(KILN_LOG_INFO, text);
}

int state_take_up(kiln_session *s)
{
    const kiln_call *c = call_of(s);
    const kiln_store_api *store = c->host->ability(KILN_STORE_ABILITY);
    if (kit_estimating(c) || !store || !KILN_HAS(kiln_store_api, store, state_save) || !store->state_load ||
        !store->state_due || !store->state_save)
        return STATE_NONE;
    s->store = store;
    kiln_value *state = store->state_load(c->ctx);
    if (!state) return STATE_NONE;
    const char *why = kit_values(c)->kind(state) == KILN_V_MAP ? other_run(s, state) : "it is no map";
    if (!why && !take_all(s, state)) why = "it is damaged";
    c->host->unref(state);
    if (!why) {
        tell_where(s);
        return STATE_TAKEN;
    }
    state_refused(s, why);
    return STATE_UNUSABLE;
}
