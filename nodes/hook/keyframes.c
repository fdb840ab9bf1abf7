/* keyframes.c - how strong hooks are on the way: CreateHookKeyframe, CreateHookKeyframesInterpolated,
 * CreateHookKeyframesFromFloats, and SetHookKeyframes, which puts them on hooks. Names, defaults and ranges are
 * ComfyUI's; numbers between two others are computed in f32, as torch does. */
#include "hook_nodes.h"

#include <math.h>
#include <stdio.h>

enum { KEYFRAMES_MAX = 4096 };

static const kiln_port keyframes_in[] = {{.name = "prev_hook_kf",
                                          .type = "HOOK_KEYFRAMES",
                                          .flags = KILN_PORT_OPTIONAL,
                                          .doc = "Keyframes that stay; these come among them."}};
static const kiln_port keyframes_out[] = {
    {.name = "HOOK_KF", .type = "HOOK_KEYFRAMES", .doc = "For SetHookKeyframes."}};

/* ---- lists in their order ---- */

typedef struct {
    double strength, start;
    int64_t guarantee;
} keyframe;

static double start_of(const kiln_value_api *v, const kiln_value *map)
{
    double start = 0;
    return v->get_float(v->map_get(map, "start_percent"), &start) == KILN_OK ? start : 0;
}

static kiln_value *map_of(const kiln_call *c, const keyframe *k)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *map = v->new_map(c->ctx);
    kiln_status status = map ? kit_set(c, map, "strength", v->new_float(c->ctx, k->strength)) : KILN_ERR_NOMEM;
    if (status == KILN_OK) status = kit_set(c, map, "start_percent", v->new_float(c->ctx, k->start));
    if (status == KILN_OK) status = kit_set(c, map, "guarantee_steps", v->new_int(c->ctx, k->guarantee));
    if (status != KILN_OK) c->host->unref(map);
    return status == KILN_OK ? map : NULL;
}

/* Moves those of `from` from *at on that begin at `most` or before. */
static kiln_status take_until(const kiln_call *c, const kiln_value *from, double most, size_t *at, kiln_value *list)
{
    const kiln_value_api *v = kit_values(c);
    for (; *at < v->count(from) && start_of(v, v->list_at(from, *at)) <= most; ++*at)
        TRY(v->list_push(list, v->list_at(from, *at)));
    return KILN_OK;
}

/* out[0] = the keyframes of in[which] and these, which are in order; of equal starts these come last. */
static kiln_status put_among(const kiln_call *c, size_t which, const keyframe *k, size_t n)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *before = c->in[which], *list = v->new_list(c->ctx);
    kiln_status status = list ? KILN_OK : KILN_ERR_NOMEM;
    size_t at = 0;
    for (size_t i = 0; status == KILN_OK && i < n; i++) {
        if (before) status = take_until(c, before, k[i].start, &at, list);
        kiln_value *map = status == KILN_OK ? map_of(c, &k[i]) : NULL;
        if (status == KILN_OK) status = map ? v->list_push(list, map) : KILN_ERR_NOMEM;
        c->host->unref(map);
    }
    if (status == KILN_OK && before) status = take_until(c, before, INFINITY, &at, list);
    if (status == KILN_OK)
        c->out[0] = list;
    else
        c->host->unref(list);
    return status;
}

/* ---- one ---- */

typedef struct {
    double strength_mult, start_percent;
} one_params;
static const kiln_param one_param[] = {
    KIT_FLOAT(one_params, strength_mult, 1, -20, 20, 0.01, "Times the hook's own strength, from here on."),
    KIT_FLOAT(one_params, start_percent, 0, 0, 1, 0.001, "From this share of the way on."),
};

static kiln_status run_one(const kiln_call *c)
{
    const one_params *p = c->params;
    return put_among(c, 0, &(keyframe){p->strength_mult, p->start_percent, 1}, 1);
}

/* ---- several ---- */

enum { LINEAR, EASE_IN, EASE_OUT, EASE_IN_OUT };
static const kiln_choice interpolation_choice[] = {
    {.name = "linear", .value = LINEAR, .doc = "Evenly."},
    {.name = "ease_in", .value = EASE_IN, .doc = "Slowly at first."},
    {.name = "ease_out", .value = EASE_OUT, .doc = "Slowly at last."},
    {.name = "ease_in_out", .value = EASE_IN_OUT, .doc = "Slowly at first and at last."},
    {0},
};

/* Number i of n from `from` to `to`, as torch.linspace has it. */
static float between(float from, float to, size_t i, size_t n)
{
    if (n < 2) return from;
    float step = (to - from) / (float)(n - 1);
    return i < n / 2 ? from + step * (float)i : to - step * (float)(n - 1 - i);
}

static float eased(int32_t how, float from, float to, size_t i, size_t n)
{
    float at = between(0, 1, i, n), rest = 1 - at;
    switch (how) {
    case EASE_IN: return (to - from) * (at * at) + from;
    case EASE_OUT: return (to - from) * (1 - rest * rest) + from;
    case EASE_IN_OUT: return (to - from) * ((1 - cosf(at * (float)M_PI)) / 2) + from;
    default: return between(from, to, i, n);
    }
}

static void say(const kiln_call *c, const keyframe *k, size_t n)
{
    char text[120];
    for (size_t i = 0; i < n; i++) {
        snprintf(text, sizeof text, "hook keyframe: start_percent %g, strength %g", k[i].start, k[i].strength);
        c->host->log(KILN_LOG_INFO, text);
    }
}

typedef struct {
    double strength_start, strength_end;
    int32_t interpolation;
    double start_percent, end_percent;
    int64_t keyframes_count;
    int32_t print_keyframes;
} several_params;
static const kiln_param several_param[] = {
    KIT_FLOAT(several_params, strength_start, 1, 0, 10, 0.001, "Of the first."),
    KIT_FLOAT(several_params, strength_end, 1, 0, 10, 0.001, "Of the last."),
    KIT_ENUM(several_params, interpolation, interpolation_choice, LINEAR, "How strengths lie between."),
    KIT_FLOAT(several_params, start_percent, 0, 0, 1, 0.001, "Where the first begins."),
    KIT_FLOAT(several_params, end_percent, 1, 0, 1, 0.001, "Where the last does."),
    KIT_INT(several_params, keyframes_count, 5, 2, 100, "How many, evenly."),
    KIT_BOOL(several_params, print_keyframes, 0, "They are logged (kiln run -v)."),
};

/* The first stays for one evaluation. Those that fall are put in order. */
static kiln_status put_several(const kiln_call *c, size_t which, keyframe *k, size_t n, int print)
{
    if (print) say(c, k, n);
    if (n && k[0].start > k[n - 1].start)
        for (size_t i = 0; i < n / 2; i++) {
            keyframe last = k[n - 1 - i];
            k[n - 1 - i] = k[i], k[i] = last;
        }
    return put_among(c, which, k, n);
}

static kiln_status run_several(const kiln_call *c)
{
    const several_params *p = c->params;
    keyframe k[100];
    size_t n = (size_t)p->keyframes_count;
    for (size_t i = 0; i < n; i++)
        k[i] = (keyframe){(double)eased(p->interpolation, (float)p->strength_start, (float)p->strength_end, i, n),
                          (double)between((float)p->start_percent, (float)p->end_percent, i, n), i == 0};
    return put_several(c, 0, k, n, p->print_keyframes);
}

typedef struct {
    double start_percent, end_percent;
    int32_t print_keyframes;
} floats_params;
static const kiln_param floats_param[] = {
    KIT_FLOAT(floats_params, start_percent, 0, 0, 1, 0.001, "Where the first begins."),
    KIT_FLOAT(floats_params, end_percent, 1, 0, 1, 0.001, "Where the last does."),
    KIT_BOOL(floats_params, print_keyframes, 0, "They are logged (kiln run -v)."),
};
static const kiln_port floats_in[] = {
    {.name = "floats_strength", .type = "FLOATS", .doc = "The strengths in order."},
    {.name = "prev_hook_kf",
     .type = "HOOK_KEYFRAMES",
     .flags = KILN_PORT_OPTIONAL,
     .doc = "Keyframes that stay; these come among them."},
};

static kiln_status run_floats(const kiln_call *c)
{
    const floats_params *p = c->params;
    const kiln_value_api *v = kit_values(c);
    size_t n = v->count(c->in[0]);
    if (!n || n > KEYFRAMES_MAX)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "floats_strength has %zu numbers; 1 to %d are possible", n,
                             (int)KEYFRAMES_MAX);
    keyframe *k = c->host->scratch(c->ctx, n * sizeof *k, KILN_CPU);
    if (!k) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < n; i++) {
        k[i] = (keyframe){.start = (double)between((float)p->start_percent, (float)p->end_percent, i, n),
                          .guarantee = i == 0};
        TRY(v->get_float(v->list_at(c->in[0], i), &k[i].strength));
    }
    return put_several(c, 1, k, n, p->print_keyframes);
}

/* ---- onto hooks ---- */

static const kiln_port set_in[] = {
    {.name = "hooks", .type = "HOOKS", .doc = "What is to be as strong as they say."},
    {.name = "hook_kf", .type = "HOOK_KEYFRAMES", .flags = KILN_PORT_OPTIONAL, .doc = "In place of those they have."}};
static const kiln_port set_out[] = {{.name = "HOOKS", .type = "HOOKS", .doc = "The same hooks with keyframes."}};

static kiln_status run_set(const kiln_call *c)
{
    static const char *const key[] = {"keyframes"};
    if (c->in[1]) return kit_entries_with(c, c->in[0], 1, key, &c->in[1], &c->out[0]);
    c->out[0] = c->host->ref(c->in[0]);
    return KILN_OK;
}

#define KEYFRAME_NODE(type_, title_, doc_, in_, params_, param_, run_)                                                 \
    {                                                                                                                  \
        KIT_NODE(type_, title_, "advanced/hooks/scheduling", doc_), KILN_ARRAY(in, in_),                               \
            KILN_ARRAY(out, keyframes_out), KIT_PARAMS(params_, param_), .run = run_                                   \
    }
const kiln_node node_create_hook_keyframe =
    KEYFRAME_NODE("CreateHookKeyframe", "Create Hook Keyframe", "A strength from a share of the way on.", keyframes_in,
                  one_params, one_param, run_one);
const kiln_node node_create_hook_keyframes_interpolated = KEYFRAME_NODE(
    "CreateHookKeyframesInterpolated", "Create Hook Keyframes Interp.",
    "Strengths from one to another, evenly on the way.", keyframes_in, several_params, several_param, run_several);
const kiln_node node_create_hook_keyframes_from_floats =
    KEYFRAME_NODE("CreateHookKeyframesFromFloats", "Create Hook Keyframes From Floats",
                  "A list of strengths, evenly on the way.", floats_in, floats_params, floats_param, run_floats);
const kiln_node node_set_hook_keyframes = {
    KIT_NODE("SetHookKeyframes", "Set Hook Keyframes", "advanced/hooks/scheduling",
             "Makes hooks as strong as keyframes say."),
    KILN_ARRAY(in, set_in),
    KILN_ARRAY(out, set_out),
    .run = run_set,
};
