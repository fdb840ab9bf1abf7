/* entry_properties.c - hooks, a mask and a range of the way on conditionings, one or a positive and a negative one, and
 * conditionings for what others leave. Names, defaults and ranges are ComfyUI's. */
#include "hook_nodes.h"

typedef struct {
    double strength;
    int32_t set_cond_area;
} properties_params;

static const kiln_choice area_choice[] = {
    {.name = "default", .value = 0, .doc = "The whole picture is computed."},
    {.name = "mask bounds", .value = 1, .doc = "Only the box round the mask is."},
    {0},
};
static const kiln_param properties_param[] = {
    KIT_FLOAT(properties_params, strength, 1, 0, 10, 0.01, "Times the mask; without a mask it does nothing."),
    KIT_ENUM(properties_params, set_cond_area, area_choice, 0, "What part is computed where there is a mask."),
};

/* What a node sets; NULL: it leaves that. */
typedef struct {
    kiln_value *mask, *hooks, *range;
    double strength;
    int32_t bounds, is_default;
} properties;

/* ---- entries ---- */

static kiln_status set_mask(const kiln_call *c, const properties *p, kiln_value *entry)
{
    const kiln_value_api *v = kit_values(c);
    if (!p->mask) return KILN_OK;
    TRY(v->map_set(entry, "mask", p->mask));
    TRY(kit_set(c, entry, "set_area_to_bounds", v->new_bool(c->ctx, p->bounds)));
    return kit_set(c, entry, "mask_strength", v->new_float(c->ctx, p->strength));
}

static kiln_status set_range(const kiln_call *c, const properties *p, kiln_value *entry)
{
    const kiln_value_api *v = kit_values(c);
    if (!p->range) return KILN_OK;
    if (v->count(p->range) != 2)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "timesteps has %zu numbers, and a range of the way has two",
                             v->count(p->range));
    TRY(v->map_set(entry, "start_percent", v->list_at(p->range, 0)));
    return v->map_set(entry, "end_percent", v->list_at(p->range, 1));
}

static kiln_status set_all(const kiln_call *c, const properties *p, kiln_value *entry)
{
    const kiln_value_api *v = kit_values(c);
    if (p->hooks) TRY(kit_set(c, entry, "hooks", hooks_joined(c, v->map_get(entry, "hooks"), p->hooks)));
    TRY(set_mask(c, p, entry));
    TRY(set_range(c, p, entry));
    return p->is_default ? kit_set(c, entry, "default", v->new_bool(c->ctx, 1)) : KILN_OK;
}

/* *out = the entries of `before` as they are (NULL: none), then those of `list` with the properties. */
static kiln_status with_properties(const kiln_call *c, const properties *p, const kiln_value *before,
                                   const kiln_value *list, kiln_value **out)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *all = before ? v->list_copy(c->ctx, before) : v->new_list(c->ctx);
    kiln_status status = all ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < v->count(list); i++) {
        kiln_value *entry = v->map_copy(c->ctx, v->list_at(list, i));
        status = entry ? set_all(c, p, entry) : KILN_ERR_NOMEM;
        if (status == KILN_OK) status = v->list_push(all, entry);
        c->host->unref(entry);
    }
    if (status == KILN_OK)
        *out = all;
    else
        c->host->unref(all);
    return status;
}

/* ---- ports ---- */

#define CONDITIONING_IN(name_, doc_)                                                                                   \
    {                                                                                                                  \
        .name = name_, .type = "CONDITIONING", .doc = doc_                                                             \
    }
#define MAY_BE(name_, type_, doc_)                                                                                     \
    {                                                                                                                  \
        .name = name_, .type = type_, .flags = KILN_PORT_OPTIONAL, .doc = doc_                                         \
    }
#define HOOKS_PORT MAY_BE("hooks", "HOOKS", "What changes the model's weights for it.")
#define FURTHER                                                                                                        \
    MAY_BE("mask", "MASK", "Where it holds, 0..1."), HOOKS_PORT,                                                       \
        MAY_BE("timesteps", "TIMESTEPS_RANGE", "From when to when it holds.")

static const kiln_port one_in[] = {CONDITIONING_IN("cond_NEW", "What to change."), FURTHER};
static const kiln_port one_combine_in[] = {CONDITIONING_IN("cond", "What stays as it is."),
                                           CONDITIONING_IN("cond_NEW", "What is changed and put behind it."), FURTHER};
static const kiln_port pair_in[] = {CONDITIONING_IN("positive_NEW", "What to change."),
                                    CONDITIONING_IN("negative_NEW", "The same of the other side."), FURTHER};
static const kiln_port pair_combine_in[] = {CONDITIONING_IN("positive", "What stays as it is."),
                                            CONDITIONING_IN("negative", "The same of the other side."),
                                            CONDITIONING_IN("positive_NEW", "What is changed and put behind it."),
                                            CONDITIONING_IN("negative_NEW", "The same of the other side."), FURTHER};
static const kiln_port one_default_in[] = {
    CONDITIONING_IN("cond", "What stays as it is."),
    CONDITIONING_IN("cond_DEFAULT", "For what that does not speak for, by its masks and areas."), HOOKS_PORT};
static const kiln_port pair_default_in[] = {
    CONDITIONING_IN("positive", "What stays as it is."), CONDITIONING_IN("negative", "The same of the other side."),
    CONDITIONING_IN("positive_DEFAULT", "For what that does not speak for, by its masks and areas."),
    CONDITIONING_IN("negative_DEFAULT", "The same of the other side."), HOOKS_PORT};
static const kiln_port two_pairs_in[] = {
    CONDITIONING_IN("positive_A", "One."), CONDITIONING_IN("negative_A", "Its other side."),
    CONDITIONING_IN("positive_B", "Another."), CONDITIONING_IN("negative_B", "Its other side.")};
static const kiln_port one_out[] = {CONDITIONING_IN("CONDITIONING", "The changed conditioning.")};
static const kiln_port pair_out[] = {CONDITIONING_IN("positive", "The changed conditioning."),
                                     CONDITIONING_IN("negative", "The same of the other side.")};

/* ---- runs ---- */

/* The properties of a node whose optional inputs begin at `first`. */
static properties given(const kiln_call *c, size_t first)
{
    const properties_params *p = c->params;
    return (properties){.mask = c->in[first],
                        .hooks = c->in[first + 1],
                        .range = c->in[first + 2],
                        .strength = p->strength,
                        .bounds = p->set_cond_area};
}

/* Conditionings in[at..at + n) with properties, behind those of in[before..] (-1: behind none). */
static kiln_status each_side(const kiln_call *c, const properties *p, int before, size_t at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        TRY(with_properties(c, p, before < 0 ? NULL : c->in[(size_t)before + i], c->in[at + i], &c->out[i]));
    return KILN_OK;
}

static kiln_status run_one(const kiln_call *c)
{
    properties p = given(c, 1);
    return each_side(c, &p, -1, 0, 1);
}
static kiln_status run_one_combine(const kiln_call *c)
{
    properties p = given(c, 2);
    return each_side(c, &p, 0, 1, 1);
}
static kiln_status run_pair(const kiln_call *c)
{
    properties p = given(c, 2);
    return each_side(c, &p, -1, 0, 2);
}
static kiln_status run_pair_combine(const kiln_call *c)
{
    properties p = given(c, 4);
    return each_side(c, &p, 0, 2, 2);
}
static kiln_status run_one_default(const kiln_call *c)
{
    return each_side(c, &(properties){.hooks = c->in[2], .is_default = 1}, 0, 1, 1);
}
static kiln_status run_pair_default(const kiln_call *c)
{
    return each_side(c, &(properties){.hooks = c->in[4], .is_default = 1}, 0, 2, 2);
}
static kiln_status run_two_pairs(const kiln_call *c) { return each_side(c, &(properties){0}, 0, 2, 2); }

/* ---- ConditioningTimestepsRange ---- */

typedef struct {
    double start_percent, end_percent;
} range_params;
static const kiln_param range_param[] = {
    KIT_FLOAT(range_params, start_percent, 0, 0, 1, 0.001, "Share of the way where it begins."),
    KIT_FLOAT(range_params, end_percent, 1, 0, 1, 0.001, "Share of the way where it ends."),
};
static const kiln_port range_out[] = {
    {.name = "TIMESTEPS_RANGE", .type = "TIMESTEPS_RANGE", .doc = "From the one to the other."},
    {.name = "BEFORE_RANGE", .type = "TIMESTEPS_RANGE", .doc = "From the beginning to it."},
    {.name = "AFTER_RANGE", .type = "TIMESTEPS_RANGE", .doc = "From it to the end."},
};

static kiln_status put_range(const kiln_call *c, double from, double to, kiln_value **out)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *list = v->new_list(c->ctx), *a = v->new_float(c->ctx, from), *b = v->new_float(c->ctx, to);
    kiln_status status = list && a && b ? v->list_push(list, a) : KILN_ERR_NOMEM;
    if (status == KILN_OK) status = v->list_push(list, b);
    c->host->unref(a);
    c->host->unref(b);
    if (status == KILN_OK)
        *out = list;
    else
        c->host->unref(list);
    return status;
}

static kiln_status run_range(const kiln_call *c)
{
    const range_params *p = c->params;
    TRY(put_range(c, p->start_percent, p->end_percent, &c->out[0]));
    TRY(put_range(c, 0, p->start_percent, &c->out[1]));
    return put_range(c, p->end_percent, 1, &c->out[2]);
}

/* ---- rows ---- */

#define PROPERTIES_NODE(type_, title_, side_, doc_, in_, out_, run_)                                                   \
    {                                                                                                                  \
        KIT_NODE(type_, title_, "advanced/hooks/cond " side_, doc_), KILN_ARRAY(in, in_), KILN_ARRAY(out, out_),       \
            KIT_PARAMS(properties_params, properties_param), .run = run_                                               \
    }
#define COMBINE_NODE(type_, title_, side_, doc_, in_, out_, run_)                                                      \
    {                                                                                                                  \
        KIT_NODE(type_, title_, "advanced/hooks/cond " side_, doc_), KILN_ARRAY(in, in_), KILN_ARRAY(out, out_),       \
            .run = run_                                                                                                \
    }
const kiln_node node_conditioning_set_properties =
    PROPERTIES_NODE("ConditioningSetProperties", "Cond Set Props", "single",
                    "Hooks, a mask and a range of the way on a conditioning.", one_in, one_out, run_one);
const kiln_node node_conditioning_set_properties_and_combine = PROPERTIES_NODE(
    "ConditioningSetPropertiesAndCombine", "Cond Set Props Combine", "single",
    "ConditioningSetProperties, and the result behind another one.", one_combine_in, one_out, run_one_combine);
const kiln_node node_pair_conditioning_set_properties =
    PROPERTIES_NODE("PairConditioningSetProperties", "Cond Pair Set Props", "pair",
                    "ConditioningSetProperties on a positive and a negative one.", pair_in, pair_out, run_pair);
const kiln_node node_pair_conditioning_set_properties_and_combine = PROPERTIES_NODE(
    "PairConditioningSetPropertiesAndCombine", "Cond Pair Set Props Combine", "pair",
    "PairConditioningSetProperties, and the results behind others.", pair_combine_in, pair_out, run_pair_combine);
const kiln_node node_conditioning_set_default_combine =
    COMBINE_NODE("ConditioningSetDefaultCombine", "Cond Set Default Combine", "single",
                 "A further conditioning for what the others' masks leave.", one_default_in, one_out, run_one_default);
const kiln_node node_pair_conditioning_set_default_combine = COMBINE_NODE(
    "PairConditioningSetDefaultCombine", "Cond Pair Set Default Combine", "pair",
    "ConditioningSetDefaultCombine on a positive and a negative one.", pair_default_in, pair_out, run_pair_default);
const kiln_node node_pair_conditioning_combine =
    COMBINE_NODE("PairConditioningCombine", "Cond Pair Combine", "pair",
                 "Two positives as one and two negatives as one, each with its own prediction.", two_pairs_in, pair_out,
                 run_two_pairs);
const kiln_node node_conditioning_timesteps_range = {
    KIT_NODE("ConditioningTimestepsRange", "Timesteps Range", "advanced/hooks",
             "A range of the way, and what is before and after it."),
    KILN_ARRAY(out, range_out),
    KIT_PARAMS(range_params, range_param),
    .run = run_range,
};
