/* language_state.c - what a model has read, as a value: forked by who goes on from it, kept by the store. */
#include "language.h"

static const kiln_value_api *values(void) { return host->ability(KILN_VALUE_ABILITY); }

void state_free(void *state)
{
    language_state *s = state;
    if (s) ops->states_free(s->states);
    free(s);
}

language_state *state_new(kiln_ctx *ctx, const language_model *m, int64_t n, int64_t room)
{
    language_state *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->n = n, s->room = room;
    memcpy(s->model, m->identity, sizeof s->model);
    s->states = ops->states_new(ctx, m->family->model_type);
    if (s->states) return s;
    free(s);
    return NULL;
}

language_state *state_fork(kiln_ctx *ctx, const language_state *s)
{
    language_state *fork = malloc(sizeof *fork);
    if (!fork) return NULL;
    *fork = *s;
    if ((fork->states = ops->states_fork(ctx, s->states))) return fork;
    free(fork);
    return NULL;
}

kiln_value *state_value(kiln_ctx *ctx, language_state *s)
{
    kiln_value *v = values()->new_object(ctx, "LANGUAGE_STATE", s, state_free, NULL);
    if (!v) state_free(s);
    return v;
}

/* ---- the stored form:
 * {"numbers": i32 [2 + 2 n], "model": text, "states": map} */

static kiln_value *numbers_of(kiln_ctx *ctx, const language_state *s)
{
    kiln_value *v = host->tensor_new(ctx, KILN_I32, KILN_CPU, 1, KILN_DIMS(2 + 2 * s->n));
    kiln_tensor t = {.size = sizeof t};
    if (!v || host->view(ctx, v, &t) != KILN_OK || !t.data) return v;
    int32_t *to = t.data;
    to[0] = (int32_t)s->n, to[1] = (int32_t)s->room;
    memcpy(to + 2, s->length, (size_t)s->n * sizeof *to);
    memcpy(to + 2 + s->n, s->next, (size_t)s->n * sizeof *to);
    return v;
}

static int put(kiln_value *map, const char *key, kiln_value *item)
{
    int done = map && item && values()->map_set(map, key, item) == KILN_OK;
    host->unref(item);
    return done;
}

kiln_value *state_to_map(kiln_ctx *ctx, const language_state *s)
{
    kiln_value *map = values()->new_map(ctx);
    int done = put(map, "numbers", numbers_of(ctx, s));
    done = done && put(map, "model", values()->new_string(ctx, s->model, strlen(s->model)));
    done = done && put(map, "states", ops->states_save(ctx, s->states));
    if (done) return map;
    host->unref(map);
    return NULL;
}

static int numbers_fit(const kiln_tensor *t)
{
    const int32_t *from = t->data;
    return t->dtype == KILN_I32 && t->rank == 1 && from && t->dim[0] >= 4 && from[0] >= 1 && from[0] <= SEQUENCES &&
           t->dim[0] == 2 + 2 * (int64_t)from[0] && from[1] >= 1;
}

language_state *state_from_map(kiln_ctx *ctx, const kiln_value *map)
{
    kiln_tensor t = {.size = sizeof t};
    const kiln_value *numbers = values()->map_get(map, "numbers");
    kiln_value *states = values()->map_get(map, "states");
    const char *model = values()->get_string(values()->map_get(map, "model"), NULL);
    language_state *s = NULL;
    if (!numbers || !states || !model || host->view(ctx, numbers, &t) != KILN_OK || !numbers_fit(&t))
        return host->fail(ctx, KILN_ERR_INVALID, "this is nothing that a language model has read"), NULL;
    if (!(s = calloc(1, sizeof *s))) return NULL;
    s->states = ops->states_new(ctx, "what was read before");
    if (!s->states || ops->states_load(ctx, s->states, states) != KILN_OK) return state_free(s), NULL;
    const int32_t *from = t.data;
    s->n = from[0], s->room = from[1];
    strncpy(s->model, model, sizeof s->model - 1);
    memcpy(s->length, from + 2, (size_t)s->n * sizeof *from);
    memcpy(s->next, from + 2 + s->n, (size_t)s->n * sizeof *from);
    return s;
}

static kiln_value *to_plain(kiln_ctx *ctx, const kiln_value *object)
{
    const language_state *s = values()->object(object, "LANGUAGE_STATE");
    return s ? state_to_map(ctx, s) : NULL;
}
static kiln_value *from_plain(kiln_ctx *ctx, const kiln_value *plain)
{
    language_state *s = state_from_map(ctx, plain);
    return s ? state_value(ctx, s) : NULL;
}

const kiln_stored_type stored_state = {
    .size = sizeof stored_state,
    .revision = 1,
    .type = "LANGUAGE_STATE",
    .doc = "What a language model has read.",
    .to_plain = to_plain,
    .from_plain = from_plain,
};
