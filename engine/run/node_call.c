/* node_call.c - see node_call.h. */
#include "run/node_call.h"

#include "base/clock.h"
#include "run/interrupt.h"

enum { TRIES_MAX = 8, WAIT_SECONDS = 2, POLL_NS = 2000000 };

static kiln_status call_once(batch *b, const call_environment *env, size_t i, const void *params, kiln_value *const *in,
                             kiln_value **out, error *e)
{
    const graph_node *g = batch_node(b, i);
    void *instance;
    TRY(batch_instance(b, i, &instance, e));
    return ctx_call(env, i, g->doc->name, b->info[i]->plugin->id, g->type, instance, params, in, out, e);
}

/* Waits for nodes that run beside this one to let go of tensors; 1: some have. */
static int others_let_go(const budget *b, size_t held)
{
    double until = clock_seconds() + (held ? WAIT_SECONDS : 0);
    for (;;) {
        if (budget_held(b, MEMORY_VALUES) < held) return 1;
        if (clock_seconds() >= until || interrupt_asked(NULL)) return 0;
        nanosleep(&(struct timespec){.tv_nsec = POLL_NS}, NULL);
    }
}

kiln_status node_call(batch *b, const call_environment *env, size_t i, const void *params, kiln_value *const *in,
                      kiln_value **out, error *e)
{
    error first = {0};
    residency *r = runtime_residency(env->runtime);
    kiln_status status = call_once(b, env, i, params, in, out, &first);
    for (int tries = 0; status == KILN_ERR_NOMEM && tries < TRIES_MAX && residency_limited(r); tries++) {
        size_t held = budget_held(residency_budget(r), MEMORY_VALUES);
        if (tries && !others_let_go(residency_budget(r), held)) break;
        residency_give_up(r, SIZE_MAX);
        first = (error){0};
        status = call_once(b, env, i, params, in, out, &first);
    }
    return status == KILN_OK ? status : error_set(e, status, "%s", first.message);
}
