/* combine_hooks.c - CombineHooks2, 4 and 8: several HOOKS as one, in their order. */
#include "hook_nodes.h"

/* 1: the list has a map with this hook. */
static int has_hook(const kiln_value_api *v, const kiln_value *list, const kiln_value *hook)
{
    for (size_t i = 0; i < v->count(list); i++)
        if (v->map_get(v->list_at(list, i), "hook") == hook) return 1;
    return 0;
}

kiln_value *hooks_joined(const kiln_call *c, kiln_value *a, kiln_value *b)
{
    const kiln_value_api *v = kit_values(c);
    if (!a || !b) return a || b ? c->host->ref(a ? a : b) : v->new_list(c->ctx);
    kiln_value *list = v->list_copy(c->ctx, a);
    kiln_status status = list ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < v->count(b); i++) {
        kiln_value *map = v->list_at(b, i);
        if (!has_hook(v, list, v->map_get(map, "hook"))) status = v->list_push(list, map);
    }
    if (status != KILN_OK) c->host->unref(list);
    return status == KILN_OK ? list : NULL;
}

#define HOOKS_IN(name_)                                                                                                \
    {                                                                                                                  \
        .name = name_, .type = "HOOKS", .flags = KILN_PORT_OPTIONAL, .doc = "Some of them."                            \
    }
static const kiln_port in[] = {HOOKS_IN("hooks_A"), HOOKS_IN("hooks_B"), HOOKS_IN("hooks_C"), HOOKS_IN("hooks_D"),
                               HOOKS_IN("hooks_E"), HOOKS_IN("hooks_F"), HOOKS_IN("hooks_G"), HOOKS_IN("hooks_H")};
static const kiln_port out[] = {{.name = "HOOKS", .type = "HOOKS", .doc = "All of them, each once."}};

static kiln_status combine(const kiln_call *c, size_t n)
{
    kiln_value *all = kit_values(c)->new_list(c->ctx);
    for (size_t i = 0; i < n && all; i++) {
        if (!c->in[i]) continue;
        kiln_value *more = hooks_joined(c, all, c->in[i]);
        c->host->unref(all);
        all = more;
    }
    c->out[0] = all;
    return all ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_status combine2(const kiln_call *c) { return combine(c, 2); }
static kiln_status combine4(const kiln_call *c) { return combine(c, 4); }
static kiln_status combine8(const kiln_call *c) { return combine(c, 8); }

#define COMBINE_NODE(n_, run_)                                                                                         \
    {                                                                                                                  \
        KIT_NODE("CombineHooks" #n_, "Combine Hooks [" #n_ "]", "advanced/hooks/combine",                              \
                 "Several hooks as one, in their order."),                                                             \
            .in = in, .n_in = n_, .in_stride = sizeof *in, KILN_ARRAY(out, out), .run = run_                           \
    }
const kiln_node node_combine_hooks2 = COMBINE_NODE(2, combine2);
const kiln_node node_combine_hooks4 = COMBINE_NODE(4, combine4);
const kiln_node node_combine_hooks8 = COMBINE_NODE(8, combine8);
