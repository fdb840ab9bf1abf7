/* node_call.c - see node_call.h. */
#include "run/node_call.h"

#include "base/clock.h"
#include "run/interrupt.h"
#include "run/resume.h"

enum { TRIES_MAX = 8, WAIT_SECONDS = 2, POLL_NS = 2000000 };

static kiln_status call_once(batch *b, const call_environment *env, size_t i, const void *params, kiln_value *const *in,
                             kiln_value **out, error *e)
{
    const graph_node *g = batch_node(b, i);
    void *instance;
    resume_place(b, i);
    TRY(batch_instance(b, i, &instance, e));
    return ctx_call(env, i, g->doc->name, b->info[i]->plugin->id, g->type, instance, params, in, out, e);
}

/* Waits until nodes that run beside this one use less than `in_use` for tensors; 0: they do not. */
static int wait_for_others(const budget *b, size_t in_use)
{
    double until = clock_seconds() + (in_use ? WAIT_SECONDS : 0);
    for (;;) {
        if (budget_held(b, MEMORY_VALUES) < in_use) return 1;
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
        size_t in_use = budget_held(residency_budget(r), MEMORY_VALUES);
        if (tries && !wait_for_others(residency_budget(r), in_use)) break;
        residency_give_up(r, SIZE_MAX);
        first = (error){0};
        status = call_once(b, env, i, params, in, out, &first);
    }
    return status == KILN_OK ? status : error_set(e, status, "%s", first.message);
}
