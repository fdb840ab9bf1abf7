/* text_state.c - see text_state.h. */
#include "text_state.h"

#include <stdio.h>
#include <stdlib.h>

enum { CAPACITY_STEP = 256 };

static const kiln_value_api *values(void) { return td_host->ability(KILN_VALUE_ABILITY); }

int64_t text_capacity(int64_t tokens) { return (tokens + CAPACITY_STEP - 1) / CAPACITY_STEP * CAPACITY_STEP; }

void text_state_free(void *state)
{
    text_state *s = state;
    if (!s) return;
    if (s->states) td_ops->states_free(s->states);
    td_host->unref(s->saved);
    free(s);
}

text_state *text_state_new(kiln_ctx *ctx, const text_diffusion_model *m, int64_t capacity, int64_t longest)
{
    text_state *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->capacity = capacity, s->longest = longest;
    memcpy(s->model, m->identity, sizeof s->model);
    if ((s->states = td_ops->states_new(ctx, "a prompt"))) return s;
    free(s);
    return NULL;
}

/* A buffer [1,capacity,..] with more places, zeros behind. A reference. */
static kiln_value *grown(kiln_ctx *ctx, const kiln_value *item, int64_t capacity)
{
    kiln_tensor from = {.size = sizeof from}, to = {.size = sizeof to};
    if (td_host->view(ctx, item, &from) != KILN_OK || from.rank != 3 || from.dim[0] != 1 || from.dim[1] > capacity)
        return NULL;
    kiln_value *v = td_host->tensor_new(ctx, from.dtype, KILN_CPU, 3, KILN_DIMS(1, capacity, from.dim[2]));
    if (!v || td_host->view(ctx, v, &to) != KILN_OK) return v;
    const size_t row = (size_t)from.stride[1], had = row * (size_t)from.dim[1];
    memcpy(to.data, from.data, had);
    memset((char *)to.data + had, 0, row * (size_t)(capacity - from.dim[1]));
    return v;
}

static kiln_value *with_capacity(kiln_ctx *ctx, const text_diffusion_model *m, const kiln_value *saved,
                                 int64_t capacity)
{
    kiln_value *map = values()->map_copy(ctx, saved);
    kiln_status status = map ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < values()->count(saved); i++) {
        const char *name = NULL;
        const kiln_value *item = values()->map_at(saved, i, &name);
        if (!m->family->grows(m, name)) continue;
        kiln_value *more = grown(ctx, item, capacity);
        status = more ? values()->map_set(map, name, more) : KILN_ERR_NOMEM;
        td_host->unref(more);
    }
    if (status == KILN_OK) return map;
    td_host->unref(map);
    td_host->fail(ctx, KILN_ERR_NOMEM, "no memory for a prompt with room for %lld tokens", (long long)capacity);
    return NULL;
}

static kiln_status load_grown(const kiln_call *c, const text_diffusion_model *m, const text_state *s, text_state *fork)
{
    kiln_value *saved = s->states ? td_ops->states_save(c->ctx, s->states) : td_host->ref(s->saved);
    kiln_value *map = saved ? with_capacity(c->ctx, m, saved, fork->capacity) : NULL;
    kiln_status status = map ? td_ops->states_load(c->ctx, fork->states, map) : KILN_ERR_NOMEM;
    td_host->unref(saved);
    td_host->unref(map);
    return status;
}

text_state *text_state_fork(const kiln_call *c, const text_diffusion_model *m, const text_state *s, int64_t capacity)
{
    text_state *fork = malloc(sizeof *fork);
    if (!fork) return NULL;
    *fork = *s, fork->saved = NULL, fork->capacity = capacity > s->capacity ? capacity : s->capacity;
    const int as_it_is = s->states && fork->capacity == s->capacity;
    fork->states = as_it_is ? td_ops->states_fork(c->ctx, s->states) : td_ops->states_new(c->ctx, "a prompt");
    kiln_status status = fork->states ? KILN_OK : KILN_ERR_NOMEM;
    if (status == KILN_OK && !as_it_is && !kit_estimating(c)) status = load_grown(c, m, s, fork);
    if (status == KILN_OK) return fork;
    text_state_free(fork);
    return NULL;
}

kiln_value *text_state_value(kiln_ctx *ctx, text_state *s)
{
    kiln_value *v = values()->new_object(ctx, "TEXT_PROMPT", s, text_state_free, NULL);
    if (!v) text_state_free(s);
    return v;
}

/* ---- the stored form: {"capacity", "longest", "length", "model", "states": map}. There is no device where the store
 * asks for the object, so buffers are made by the first fork. ---- */

static int put(kiln_value *map, const char *key, kiln_value *item)
{
    int done = map && item && values()->map_set(map, key, item) == KILN_OK;
    td_host->unref(item);
    return done;
}

static kiln_value *to_plain(kiln_ctx *ctx, const kiln_value *object)
{
    const text_state *s = values()->object(object, "TEXT_PROMPT");
    kiln_value *map = s ? values()->new_map(ctx) : NULL;
    int done = s && put(map, "capacity", values()->new_int(ctx, s->capacity));
    done = done && put(map, "longest", values()->new_int(ctx, s->longest));
    done = done && put(map, "length", values()->new_int(ctx, s->length));
    done = done && put(map, "model", values()->new_string(ctx, s->model, strlen(s->model)));
    done = done && put(map, "states", s->states ? td_ops->states_save(ctx, s->states) : td_host->ref(s->saved));
    if (done) return map;
    td_host->unref(map);
    return NULL;
}

static int number_in(const kiln_value *map, const char *key, int64_t most, int64_t *out)
{
    return values()->get_int(values()->map_get(map, key), out) == KILN_OK && *out >= 1 && *out <= most;
}

static kiln_value *from_plain(kiln_ctx *ctx, const kiln_value *plain)
{
    text_state *s = calloc(1, sizeof *s);
    const char *model = values()->get_string(values()->map_get(plain, "model"), NULL);
    kiln_value *states = values()->map_get(plain, "states");
    if (!s) return NULL;
    if (!model || values()->kind(states) != KILN_V_MAP ||
        !number_in(plain, "capacity", 2 * CONTEXT_MAX, &s->capacity) ||
        !number_in(plain, "longest", CANVAS_MAX, &s->longest) || !number_in(plain, "length", s->capacity, &s->length)) {
        free(s);
        return td_host->fail(ctx, KILN_ERR_INVALID, "this is no prompt that a model has read"), NULL;
    }
    snprintf(s->model, sizeof s->model, "%s", model);
    s->saved = td_host->ref(states);
    return text_state_value(ctx, s);
}

const kiln_stored_type stored_prompt = {.size = sizeof stored_prompt,
                                        .revision = 1,
                                        .type = "TEXT_PROMPT",
                                        .doc = "Keys and values of a prompt.",
                                        .to_plain = to_plain,
                                        .from_plain = from_plain};
