/* control_apply.c - ControlNetApply and ControlNetApplyAdvanced: hang a control with its hint on conditionings.
 *
 * An entry's list "control" has a map for each: control_net, strength, start_percent, end_percent, hint, perhaps
 * control_mask, and of a Union control_type. Whatever samples reads it; these nodes compute nothing.
 */
#include "control_nodes.h"
#include "control_value.h"
#include "hint.h"

typedef struct {
    double strength, start_percent, end_percent;
} apply_params;

#define STRENGTH                                                                                                       \
    KIT_FLOAT(apply_params, strength, 1, 0, 10, 0.01, "Times this the control's results are added; 0: as without it.")

static const kiln_param apply_param[] = {STRENGTH};
static const kiln_param advanced_param[] = {
    STRENGTH,
    KIT_FLOAT(apply_params, start_percent, 0, 0, 1, 0.001, "It acts from this share of the way on."),
    KIT_FLOAT(apply_params, end_percent, 1, 0, 1, 0.001, "It acts up to this share of the way."),
};

/* ---- the map of one control ---- */

/* [1,types]: 1 for the kind of hint that SetUnionControlNetType has said. Nothing is set where it has not. */
static kiln_status set_type(const kiln_call *c, const kiln_net *net, kiln_value *use)
{
    int64_t types = control_input_width(net, "control_type"), type = -1;
    kiln_tensor t;
    kiln_value *row = NULL;
    const kiln_value *said = control_fact(c, net, "control_type");
    if (!said || kit_values(c)->get_int(said, &type) != KILN_OK || type < 0 || type >= types) return KILN_OK;
    TRY(kit_new_f32(c, 2, KILN_DIMS(1, types), &row, &t));
    for (int64_t i = 0; i < types && !kit_estimating(c); i++) ((float *)t.data)[i] = i == type ? 1.0f : 0.0f;
    return kit_set(c, use, "control_type", row);
}

static kiln_status set_hint(const kiln_call *c, const kiln_net *net, kiln_value *image, kiln_value *use)
{
    int64_t channels = control_input_width(net, "hint");
    kiln_value *hint = NULL;
    if (!channels) return kit_values(c)->map_set(use, "hint", image); /* a control that says no width takes any */
    TRY(hint_of(c, image, channels, &hint));
    return kit_set(c, use, "hint", hint);
}

/* What a node's inputs say of a control. */
typedef struct {
    kiln_value *control, *image, *mask; /* mask NULL: none */
} control_inputs;

static kiln_status fill_use(const kiln_call *c, const control_inputs *in, kiln_value *use)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_value_api *v = kit_values(c);
    const apply_params *p = c->params;
    const kiln_net *net = models->net(c->ctx, in->control, "CONTROL_NET");
    if (!net) return KILN_ERR_INVALID;
    TRY(v->map_set(use, "control_net", in->control));
    TRY(kit_set(c, use, "strength", v->new_float(c->ctx, p->strength)));
    TRY(kit_set(c, use, "start_percent", v->new_float(c->ctx, p->start_percent)));
    TRY(kit_set(c, use, "end_percent", v->new_float(c->ctx, p->end_percent)));
    if (in->mask) TRY(v->map_set(use, "control_mask", in->mask));
    TRY(set_hint(c, net, in->image, use));
    return set_type(c, net, use);
}

/* ---- on entries ---- */

/* A copy of the entry whose list of controls has one more. `both` 1: entries of other conditionings without a control
 * take it too. */
static kiln_status entry_with(const kiln_call *c, const kiln_value *entry, kiln_value *use, int both, kiln_value **out)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_value *before = v->map_get(entry, "control");
    kiln_value *list = before ? v->list_copy(c->ctx, before) : v->new_list(c->ctx);
    *out = v->map_copy(c->ctx, entry);
    kiln_status status = list && *out ? v->list_push(list, use) : KILN_ERR_NOMEM;
    if (status == KILN_OK) status = v->map_set(*out, "control", list);
    c->host->unref(list);
    return status == KILN_OK ? kit_set(c, *out, "control_apply_to_uncond", v->new_bool(c->ctx, both)) : status;
}

static kiln_status put_on(const kiln_call *c, const kiln_value *conditioning, kiln_value *use, int both,
                          kiln_value **out)
{
    const kiln_value_api *v = kit_values(c);
    kiln_status status = (*out = v->new_list(c->ctx)) ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < v->count(conditioning); i++) {
        kiln_value *entry = NULL;
        status = entry_with(c, v->list_at(conditioning, i), use, both, &entry);
        if (status == KILN_OK) status = v->list_push(*out, entry);
        c->host->unref(entry);
    }
    return status;
}

/* The first n inputs are conditionings. `both`: as in entry_with(). */
static kiln_status apply(const kiln_call *c, size_t n, int both, const control_inputs *in)
{
    kiln_value *use = kit_values(c)->new_map(c->ctx);
    const apply_params *p = c->params;
    kiln_status status = use ? KILN_OK : KILN_ERR_NOMEM;
    if (status == KILN_OK && p->strength != 0) status = fill_use(c, in, use);
    for (size_t i = 0; i < n && status == KILN_OK; i++) {
        if (p->strength == 0)
            c->out[i] = c->host->ref(c->in[i]);
        else
            status = put_on(c, c->in[i], use, both, &c->out[i]);
    }
    c->host->unref(use);
    return status;
}

static kiln_status run_one(const kiln_call *c)
{
    kiln_call whole = *c;
    const apply_params p = {((const apply_params *)c->params)->strength, 0, 1};
    whole.params = &p;
    return apply(&whole, 1, 1, &(control_inputs){c->in[1], c->in[2], c->in[3]});
}

static kiln_status run_two(const kiln_call *c)
{
    return apply(c, 2, 0, &(control_inputs){c->in[2], c->in[3], c->in[5]});
}

/* ComfyUI's node masks the hint of controls that take the mask as a further channel (SD3's and Flux's). No control that
 * is here does, and for the others it is ControlNetApplyAdvanced. */
static kiln_status run_inpainting(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_net *net = models->net(c->ctx, c->in[2], "CONTROL_NET");
    if (!net) return KILN_ERR_INVALID;
    if (control_fact(c, net, "concat_mask"))
        return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                             "this control takes the mask as a further channel of its hint, which is not done yet");
    return apply(c, 2, 0, &(control_inputs){c->in[2], c->in[4], NULL});
}

/* ---- rows ---- */

#define CONTROL_PORTS                                                                                                  \
    {.name = "control_net", .type = "CONTROL_NET", .doc = "The control."},                                             \
    {                                                                                                                  \
        .name = "image", .type = "IMAGE",                                                                              \
        .doc = "Its hint: what it was trained to follow. Another size than the picture is brought to it by nearest "   \
               "pixels, and what is too wide or too high for its proportions is cut off at both edges."                \
    }

#define MASK_PORT                                                                                                      \
    {                                                                                                                  \
        .name = "mask", .type = "MASK", .flags = KILN_PORT_OPTIONAL,                                                   \
        .doc = "Where the control counts, 0 to 1; brought to the picture as the hint is. ComfyUI's node has none."     \
    }

static const kiln_port one_in[] = {
    {.name = "conditioning", .type = "CONDITIONING", .doc = "What to put the control on."}, CONTROL_PORTS, MASK_PORT};
static const kiln_port one_out[] = {{.name = "CONDITIONING", .type = "CONDITIONING", .doc = "With the control."}};
static const kiln_port two_in[] = {
    {.name = "positive", .type = "CONDITIONING", .doc = "What to put the control on."},
    {.name = "negative", .type = "CONDITIONING", .doc = "The same for the other side of the guidance."},
    CONTROL_PORTS,
    {.name = "vae",
     .type = "VAE",
     .flags = KILN_PORT_OPTIONAL,
     .doc = "For controls that see latents. Those of SD1, SD2 and SDXL see pixels and make no use of it."},
    MASK_PORT,
};
static const kiln_port inpainting_in[] = {
    {.name = "positive", .type = "CONDITIONING", .doc = "What to put the control on."},
    {.name = "negative", .type = "CONDITIONING", .doc = "The same for the other side of the guidance."},
    {.name = "control_net", .type = "CONTROL_NET", .doc = "The control."},
    {.name = "vae", .type = "VAE", .doc = "For controls that see latents, which those of SD1, SD2 and SDXL do not."},
    {.name = "image", .type = "IMAGE", .doc = "Its hint."},
    {.name = "mask",
     .type = "MASK",
     .doc = "For controls that take it as a further channel of the hint, which those of SD1, SD2 and SDXL do not."},
};
static const kiln_port two_out[] = {
    {.name = "positive", .type = "CONDITIONING", .doc = "With the control."},
    {.name = "negative", .type = "CONDITIONING", .doc = "With the control."},
};

const kiln_node node_control_net_apply = {
    KIT_NODE(
        "ControlNetApply", "Apply ControlNet (Old)", "conditioning/controlnet",
        "Hangs a control on a conditioning, for all of the way. The guidance's other side gets it too, unless it has "
        "one of its own."),
    KILN_ARRAY(in, one_in), KILN_ARRAY(out, one_out), KIT_PARAMS(apply_params, apply_param), .run = run_one};
const kiln_node node_control_net_apply_advanced = {
    KIT_NODE("ControlNetApplyAdvanced", "Apply ControlNet", "conditioning/controlnet",
             "Hangs a control on both sides of the guidance, for a part of the way. Several in a row add up."),
    KILN_ARRAY(in, two_in), KILN_ARRAY(out, two_out), KIT_PARAMS(apply_params, advanced_param), .run = run_two};
const kiln_node node_control_net_inpainting_alimama_apply = {
    KIT_NODE("ControlNetInpaintingAliMamaApply", "ControlNetInpaintingAliMamaApply", "conditioning/controlnet",
             "ControlNetApplyAdvanced, for inpainting controls that take the mask beside the picture."),
    KILN_ARRAY(in, inpainting_in), KILN_ARRAY(out, two_out), KIT_PARAMS(apply_params, advanced_param),
    .run = run_inpainting};
