/* ability_store.c - "kiln.store/1": object types with a stored form, and saved states of long calls.
 *
 * Where states are stored is the run's decision: it supplies three functions (call_environment.state_*). Without them
 * nothing is kept.
 */
#include "plugin/abilities.h"
#include "plugin/ctx.h"
#include "tensor/value.h"

#include <assert.h>
#include <string.h>

static kiln_value *state_load(kiln_ctx *c)
{
    return ctx_env(c)->state_load ? c->env->state_load(c->env->arg, c->node) : NULL;
}

static int state_due(kiln_ctx *c) { return ctx_env(c)->state_due && c->env->state_due(c->env->arg, c->node); }

static kiln_status state_save(kiln_ctx *c, const kiln_value *state)
{
    error why = {0}; /* not the call's error: the call goes on without the state */
    if (!state) return KILN_ERR_INVALID;
    return ctx_env(c)->state_save ? c->env->state_save(c->env->arg, c->node, state, &why) : KILN_OK;
}

const kiln_store_api store_api = {
    .size = sizeof(kiln_store_api),
    .register_type = stored_type_register,
    .state_load = state_load,
    .state_due = state_due,
    .state_save = state_save,
};

/* Calls the row's function with the same precautions as a node's run(). */
static kiln_value *convert(kiln_value *(*function)(kiln_ctx *, const kiln_value *), const char *type, const char *what,
                           const kiln_value *v, error *e)
{
    assert(function && v);
    kiln_ctx c = {.node_name = type, .node_type = type, .plugin = ""};
    uint64_t floats = float_state();
    kiln_value *made = function(&c, v);
    float_state_set(floats);
    files_discard(&c);
    arena_free(&c.scratch);
    if (!made)
        error_set(e, KILN_ERR_UNSUPPORTED, "a %s %s%s%s", type, what, c.failure.message[0] ? ": " : "",
                  c.failure.message);
    return made;
}

kiln_value *stored_type_to_plain(const kiln_stored_type *t, const kiln_value *object, error *e)
{
    return convert(t->to_plain, t->type, "could not be made plain data", object, e);
}

kiln_value *stored_type_from_plain(const kiln_stored_type *t, const kiln_value *plain, error *e)
{
    kiln_value *v = convert(t->from_plain, t->type, "could not be made from what was stored", plain, e);
    const char *type = v ? value_api.object_type(v) : NULL;
    if (v && (!type || strcmp(type, t->type) != 0)) {
        value_unref(v);
        error_set(e, KILN_ERR_BUG, "from_plain of %s made a value of another type", t->type);
        return NULL;
    }
    return v;
}
