/* conditioning.c - the Conditioning* nodes: lists of maps in, lists of maps out.
 *
 * An entry keeps whatever it holds; each node sets the keys it is about. What the keys mean to a sampler is
 * said in the sampler plugin's conditions.h. Names, defaults and ranges are ComfyUI's.
 */
#include "conditioning.h"

#include "kiln/kit.h"

#include <math.h>
#include <string.h>

static const kiln_port out[] = {{.name = "CONDITIONING", .type = "CONDITIONING", .doc = "The changed conditioning."}};
static const kiln_port in_one[] = {{.name = "conditioning", .type = "CONDITIONING", .doc = "What to change."}};

/* ---- entries ---- */

/* out = a list of copies of in's entries, each given to `change` while it is still ours to write. */
static kiln_status each_entry(const kiln_call *c, const kiln_value *list,
                              kiln_status (*change)(const kiln_call *, kiln_value *entry))
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *result = v->new_list(c->ctx);
    kiln_status status = result ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < v->count(list); i++) {
        kiln_value *entry = v->map_copy(c->ctx, v->list_at(list, i));
        status = entry ? change(c, entry) : KILN_ERR_NOMEM;
        if (status == KILN_OK) status = v->list_push(result, entry);
        c->host->unref(entry);
    }
    if (status == KILN_OK)
        c->out[0] = result;
    else
        c->host->unref(result);
    return status;
}

/* Puts a value that was just made into a map and lets go of it; NULL: there was no memory for it. */
static kiln_status set_new(const kiln_call *c, kiln_value *map, const char *key, kiln_value *item)
{
    if (!item) return KILN_ERR_NOMEM;
    kiln_status status = kit_values(c)->map_set(map, key, item);
    c->host->unref(item);
    return status;
}

static kiln_status set_float(const kiln_call *c, kiln_value *map, const char *key, double number)
{
    return set_new(c, map, key, kit_values(c)->new_float(c->ctx, number));
}

static kiln_status push_new(const kiln_call *c, kiln_value *list, kiln_value *item)
{
    if (!item) return KILN_ERR_NOMEM;
    kiln_status status = kit_values(c)->list_push(list, item);
    c->host->unref(item);
    return status;
}

/* Replaces a tensor of the entry by `gain` times itself, when it is there. */
static kiln_status scale_tensor(const kiln_call *c, kiln_value *entry, const char *key, double gain)
{
    const kiln_value *old = kit_values(c)->map_get(entry, key);
    kiln_tensor a = {.size = sizeof a}, b;
    kiln_value *fresh;
    if (!old) return KILN_OK;
    TRY(c->host->view(c->ctx, old, &a));
    TRY(kit_f32(c, old, a.rank, key, &a));
    TRY(kit_new_f32(c, a.rank, a.dim, &fresh, &b));
    for (size_t i = 0; !kit_estimating(c) && i < kit_count(&a); i++)
        ((float *)b.data)[i] = (float)((double)((const float *)a.data)[i] * gain);
    return set_new(c, entry, key, fresh);
}

/* ---- combine, zero out, multiply ---- */

static const kiln_port combine_in[] = {
    {.name = "conditioning_1", .type = "CONDITIONING", .doc = "One."},
    {.name = "conditioning_2", .type = "CONDITIONING", .doc = "The other."},
};

static kiln_status combine_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *list = v->list_copy(c->ctx, c->in[0]);
    kiln_status status = list ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < v->count(c->in[1]); i++)
        status = v->list_push(list, v->list_at(c->in[1], i));
    if (status == KILN_OK)
        c->out[0] = list;
    else
        c->host->unref(list);
    return status;
}

static kiln_status zero_entry(const kiln_call *c, kiln_value *entry)
{
    TRY(scale_tensor(c, entry, "tokens", 0));
    return scale_tensor(c, entry, "pooled", 0);
}

static kiln_status zero_out_run(const kiln_call *c) { return each_entry(c, c->in[0], zero_entry); }

typedef struct {
    double multiplier;
} multiply_params;
static const kiln_param multiply_param[] = {
    KIT_FLOAT(multiply_params, multiplier, 1, -100, 100, 0.01, "Factor on tokens and pooled vector.")};

static kiln_status multiply_entry(const kiln_call *c, kiln_value *entry)
{
    const multiply_params *p = c->params;
    TRY(scale_tensor(c, entry, "tokens", p->multiplier));
    return scale_tensor(c, entry, "pooled", p->multiplier);
}

static kiln_status multiply_run(const kiln_call *c) { return each_entry(c, c->in[0], multiply_entry); }

/* ---- average, concat: with the first entry of the second input ---- */

static const kiln_port pair_in[] = {
    {.name = "conditioning_to", .type = "CONDITIONING", .doc = "What is changed."},
    {.name = "conditioning_from", .type = "CONDITIONING", .doc = "Its first entry is brought in."},
};

typedef struct {
    double strength;
} average_params;
static const kiln_param average_param[] = {
    {.name = "conditioning_to_strength",
     .type = KILN_P_FLOAT,
     .offset = offsetof(average_params, strength),
     .def = 1,
     .min = 0,
     .max = 1,
     .step = 0.01,
     .doc = "Share of conditioning_to; the rest is the other's."},
};

static const kiln_value *first_entry(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    return v->count(c->in[1]) ? v->list_at(c->in[1], 0) : NULL;
}

static kiln_status read_pair(const kiln_call *c, const kiln_value *entry, kiln_tensor *to, kiln_tensor *from)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_value *first = first_entry(c);
    if (!first) return c->host->fail(c->ctx, KILN_ERR_INVALID, "conditioning_from is empty");
    TRY(kit_f32(c, v->map_get(entry, "tokens"), 3, "conditioning_to's tokens", to));
    TRY(kit_f32(c, v->map_get(first, "tokens"), 3, "conditioning_from's tokens", from));
    if (to->dim[2] != from->dim[2])
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "conditionings of different text encoders (%lld and %lld wide) do not mix",
                             (long long)to->dim[2], (long long)from->dim[2]);
    return KILN_OK;
}

/* to * s + from * (1 - s); what `from` has too little of counts as zeros, what it has too much of is dropped. */
static kiln_status average_tokens(const kiln_call *c, kiln_value *entry, double s)
{
    kiln_tensor to, from, mixed;
    kiln_value *fresh;
    TRY(read_pair(c, entry, &to, &from));
    TRY(kit_new_f32(c, 3, to.dim, &fresh, &mixed));
    int64_t row = to.dim[1] * to.dim[2], have = from.dim[1] * from.dim[2];
    for (int64_t n = 0; !kit_estimating(c) && n < to.dim[0]; n++)
        for (int64_t i = 0; i < row; i++) {
            double a = (double)((const float *)to.data)[n * row + i];
            double b = i < have ? (double)((const float *)from.data)[(n % from.dim[0]) * have + i] : 0;
            ((float *)mixed.data)[n * row + i] = (float)(a * s + b * (1 - s));
        }
    return set_new(c, entry, "tokens", fresh);
}

static kiln_status average_pooled(const kiln_call *c, kiln_value *entry, double s)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_value *own = v->map_get(entry, "pooled"), *other = v->map_get(first_entry(c), "pooled");
    kiln_tensor to, from, mixed;
    kiln_value *fresh;
    if (!own || !other) return KILN_OK;
    TRY(kit_f32(c, own, 2, "conditioning_to's pooled", &to));
    TRY(kit_f32(c, other, 2, "conditioning_from's pooled", &from));
    if (kit_count(&to) != kit_count(&from))
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "pooled vectors of different sizes do not mix");
    TRY(kit_new_f32(c, 2, to.dim, &fresh, &mixed));
    for (size_t i = 0; !kit_estimating(c) && i < kit_count(&to); i++)
        ((float *)mixed.data)[i] =
            (float)((double)((const float *)to.data)[i] * s + (double)((const float *)from.data)[i] * (1 - s));
    return set_new(c, entry, "pooled", fresh);
}

static kiln_status average_entry(const kiln_call *c, kiln_value *entry)
{
    const average_params *p = c->params;
    TRY(average_tokens(c, entry, p->strength));
    return average_pooled(c, entry, p->strength);
}

static kiln_status average_run(const kiln_call *c) { return each_entry(c, c->in[0], average_entry); }

static kiln_status concat_entry(const kiln_call *c, kiln_value *entry)
{
    kiln_tensor to, from, both;
    kiln_value *fresh;
    TRY(read_pair(c, entry, &to, &from));
    TRY(kit_new_f32(c, 3, (const int64_t[]){to.dim[0], to.dim[1] + from.dim[1], to.dim[2]}, &fresh, &both));
    size_t a = (size_t)(to.dim[1] * to.dim[2]), b = (size_t)(from.dim[1] * from.dim[2]);
    for (int64_t n = 0; !kit_estimating(c) && n < to.dim[0]; n++) {
        float *at = (float *)both.data + (size_t)n * (a + b);
        memcpy(at, (const float *)to.data + (size_t)n * a, a * sizeof(float));
        memcpy(at + a, (const float *)from.data + (size_t)(n % from.dim[0]) * b, b * sizeof(float));
    }
    return set_new(c, entry, "tokens", fresh);
}

static kiln_status concat_run(const kiln_call *c) { return each_entry(c, c->in[0], concat_entry); }

/* ---- area ---- */

typedef struct {
    int64_t width, height, x, y;
    double strength;
} area_params;
#define STRENGTH(type_)                                                                                                \
    {                                                                                                                  \
        .name = "strength", .type = KILN_P_FLOAT, .offset = offsetof(type_, strength), .def = 1, .min = 0, .max = 10,  \
        .step = 0.01, .doc = "How much it counts where several overlap."                                               \
    }
#define PIXELS(field, least, text)                                                                                     \
    {                                                                                                                  \
        .name = #field, .type = KILN_P_INT, .offset = offsetof(area_params, field), .def = least, .min = least,        \
        .max = 16384, .step = 8, .flags = KILN_PARAM_FLOORED, .doc = text                                              \
    }
static const kiln_param area_param[] = {
    PIXELS(width, 64, "Pixels."),      PIXELS(height, 64, "Pixels."), PIXELS(x, 0, "Left edge, pixels."),
    PIXELS(y, 0, "Top edge, pixels."), STRENGTH(area_params),
};

static kiln_status set_four(const kiln_call *c, kiln_value *entry, const char *key, const char *drop, const double n[4],
                            int whole)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *list = v->new_list(c->ctx);
    kiln_status status = list ? KILN_OK : KILN_ERR_NOMEM;
    for (int i = 0; status == KILN_OK && i < 4; i++)
        status = push_new(c, list, whole ? v->new_int(c->ctx, (int64_t)n[i]) : v->new_float(c->ctx, n[i]));
    if (status == KILN_OK) status = v->map_set(entry, key, list);
    c->host->unref(list);
    return status == KILN_OK ? v->map_set(entry, drop, NULL) : status;
}

static kiln_status area_entry(const kiln_call *c, kiln_value *entry)
{
    const area_params *p = c->params;
    const double cells[4] = {(double)(p->height / 8), (double)(p->width / 8), (double)(p->y / 8), (double)(p->x / 8)};
    TRY(set_four(c, entry, "area", "area_percent", cells, 1));
    return set_float(c, entry, "strength", p->strength);
}

static kiln_status set_area_run(const kiln_call *c) { return each_entry(c, c->in[0], area_entry); }

typedef struct {
    double width, height, x, y, strength;
} percent_params;
#define SHARE(field, def_, text)                                                                                       \
    {                                                                                                                  \
        .name = #field, .type = KILN_P_FLOAT, .offset = offsetof(percent_params, field), .def = def_, .min = 0,        \
        .max = 1, .step = 0.01, .doc = text                                                                            \
    }
static const kiln_param percent_param[] = {
    SHARE(width, 1, "Share of the picture's width."),
    SHARE(height, 1, "Share of its height."),
    SHARE(x, 0, "Left edge."),
    SHARE(y, 0, "Top edge."),
    STRENGTH(percent_params),
};

static kiln_status percent_entry(const kiln_call *c, kiln_value *entry)
{
    const percent_params *p = c->params;
    TRY(set_four(c, entry, "area_percent", "area", (const double[4]){p->height, p->width, p->y, p->x}, 0));
    return set_float(c, entry, "strength", p->strength);
}

static kiln_status set_area_percentage_run(const kiln_call *c) { return each_entry(c, c->in[0], percent_entry); }

typedef struct {
    double strength;
} strength_params;
static const kiln_param strength_param[] = {STRENGTH(strength_params)};

static kiln_status strength_entry(const kiln_call *c, kiln_value *entry)
{
    return set_float(c, entry, "strength", ((const strength_params *)c->params)->strength);
}

static kiln_status set_area_strength_run(const kiln_call *c) { return each_entry(c, c->in[0], strength_entry); }

/* ---- mask, timestep range ---- */

static const kiln_port mask_in[] = {
    {.name = "conditioning", .type = "CONDITIONING", .doc = "What to change."},
    {.name = "mask", .type = "MASK", .doc = "Where it holds, 0..1."},
};
typedef struct {
    double strength;
    int32_t bounds;
} mask_params;
static const kiln_choice bounds_choice[] = {
    {.name = "default", .value = 0, .doc = "The whole picture is computed."},
    {.name = "mask bounds", .value = 1, .doc = "Only the box round the mask is."},
    {0},
};
static const kiln_param mask_param[] = {
    STRENGTH(mask_params),
    {.name = "set_cond_area",
     .type = KILN_P_ENUM,
     .offset = offsetof(mask_params, bounds),
     KILN_CHOICES(bounds_choice),
     .doc = "What part is computed."},
};

static kiln_status mask_entry(const kiln_call *c, kiln_value *entry)
{
    const mask_params *p = c->params;
    TRY(kit_values(c)->map_set(entry, "mask", c->in[1]));
    TRY(set_new(c, entry, "set_area_to_bounds", kit_values(c)->new_bool(c->ctx, p->bounds)));
    return set_float(c, entry, "mask_strength", p->strength);
}

static kiln_status set_mask_run(const kiln_call *c) { return each_entry(c, c->in[0], mask_entry); }

typedef struct {
    double start, end;
} range_params;
static const kiln_param range_param[] = {
    KIT_FLOAT(range_params, start, 0, 0, 1, 0.001, "Share of the denoising after which it holds."),
    KIT_FLOAT(range_params, end, 1, 0, 1, 0.001, "Share up to which it holds."),
};

static kiln_status range_entry(const kiln_call *c, kiln_value *entry)
{
    const range_params *p = c->params;
    TRY(set_float(c, entry, "start_percent", p->start));
    return set_float(c, entry, "end_percent", p->end);
}

static kiln_status set_timestep_range_run(const kiln_call *c) { return each_entry(c, c->in[0], range_entry); }

/* ---- model range ---- */

typedef struct {
    const char *model_range;
} bind_params;
static const kiln_param bind_param[] = {
    {.name = "model_range",
     .type = KILN_P_STRING,
     .offset = offsetof(bind_params, model_range),
     .def_str = "refiner",
     .doc = "The range's name as ModelRange has it; 'base' is what the model begins with."},
};

static kiln_status bind_entry(const kiln_call *c, kiln_value *entry)
{
    const char *range = ((const bind_params *)c->params)->model_range;
    return set_new(c, entry, "model_range", kit_values(c)->new_string(c->ctx, range, strlen(range)));
}

static kiln_status set_model_range_run(const kiln_call *c)
{
    if (!*((const bind_params *)c->params)->model_range)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "model_range is empty; write a range's name, such as 'refiner'");
    return each_entry(c, c->in[0], bind_entry);
}

/* ---- rows ---- */

const kiln_node node_conditioning_combine = {
    KIT_NODE("ConditioningCombine", "ConditioningCombine", "conditioning",
             "Both conditionings, each with its own prediction, averaged."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, combine_in),
    .run = combine_run,
};
const kiln_node node_conditioning_zero_out = {
    KIT_NODE("ConditioningZeroOut", "ConditioningZeroOut", "conditioning", "Sets tokens and pooled vector to zero."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, in_one),
    .run = zero_out_run,
};
const kiln_node node_conditioning_multiply = {
    KIT_NODE("ConditioningMultiply", "ConditioningMultiply", "conditioning", "Multiplies tokens and pooled vector."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, in_one),
    KIT_PARAMS(multiply_params, multiply_param),
    .run = multiply_run,
};
const kiln_node node_conditioning_average = {
    KIT_NODE("ConditioningAverage", "ConditioningAverage", "conditioning", "Mixes two prompts in one conditioning."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, pair_in),
    KIT_PARAMS(average_params, average_param),
    .run = average_run,
};
const kiln_node node_conditioning_concat = {
    KIT_NODE("ConditioningConcat", "ConditioningConcat", "conditioning",
             "Appends the tokens of one conditioning to another's."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, pair_in),
    .run = concat_run,
};
const kiln_node node_conditioning_set_area = {
    KIT_NODE("ConditioningSetArea", "ConditioningSetArea", "conditioning",
             "Restricts a conditioning to a rectangle, in pixels."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, in_one),
    KIT_PARAMS(area_params, area_param),
    .run = set_area_run,
};
const kiln_node node_conditioning_set_area_percentage = {
    KIT_NODE("ConditioningSetAreaPercentage", "ConditioningSetAreaPercentage", "conditioning",
             "Restricts a conditioning to a rectangle, in shares of the picture."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, in_one),
    KIT_PARAMS(percent_params, percent_param),
    .run = set_area_percentage_run,
};
const kiln_node node_conditioning_set_area_strength = {
    KIT_NODE("ConditioningSetAreaStrength", "ConditioningSetAreaStrength", "conditioning",
             "How much a conditioning counts where several overlap."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, in_one),
    KIT_PARAMS(strength_params, strength_param),
    .run = set_area_strength_run,
};
const kiln_node node_conditioning_set_mask = {
    KIT_NODE("ConditioningSetMask", "ConditioningSetMask", "conditioning", "Restricts a conditioning to a mask."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, mask_in),
    KIT_PARAMS(mask_params, mask_param),
    .run = set_mask_run,
};
const kiln_node node_conditioning_set_timestep_range = {
    KIT_NODE("ConditioningSetTimestepRange", "ConditioningSetTimestepRange", "conditioning",
             "Restricts a conditioning to a part of the denoising."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, in_one),
    KIT_PARAMS(range_params, range_param),
    .run = set_timestep_range_run,
};
const kiln_node node_conditioning_set_model_range = {
    KIT_NODE("ConditioningSetModelRange", "ConditioningSetModelRange", "conditioning",
             "Restricts a conditioning to one model of several: a base or its refiner (ModelRange)."),
    KILN_ARRAY(out, out),
    KILN_ARRAY(in, in_one),
    KIT_PARAMS(bind_params, bind_param),
    .run = set_model_range_run,
};
