/* network_hooks.h - hooks of a network that entries of a CONDITIONING bring along (kiln/hook.h), on the models of a
 * sampling. Entries without an area take what the prompt's have, where none of theirs has any. */
#ifndef KILN_SAMPLER_NETWORK_HOOKS_H
#define KILN_SAMPLER_NETWORK_HOOKS_H

#include "guider_registry.h"
#include "kiln/model.h"

enum { NETWORK_HOOKS_CARRIED = 16 };

/* Models with the hooks that a sampling's entries bring; memory is the call's scratch. */
typedef struct {
    const kiln_hook *hook[NETWORK_HOOKS_CARRIED];
    size_t n;
    struct {
        const kiln_model *of, *with;
    } model[16];
    size_t n_model;
} carried_hooks;

/* Of all conditionings of a guider and of the guidance on its first model, before any of them is read: those of one
 * model are evaluated together, so all of them know all hooks. */
kiln_status carried_hooks_collect(const kiln_call *c, const guider_parts *by, const kiln_model *first,
                                  carried_hooks *all);
/* *out = m with them on it: the same pointer each time, m itself where there are none. */
kiln_status carried_hooks_model(const kiln_call *c, carried_hooks *all, const kiln_model *m, const kiln_model **out);
/* The values for a hook in an entry's list, which may be NULL; NULL: it has none. */
const kiln_value *carried_hook_values(const kiln_value_api *v, const kiln_value *list, const kiln_hook *hook);

#endif
