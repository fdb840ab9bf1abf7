/* control_loader.c - ControlNetLoader and DiffControlNetLoader: a control of a file or folder, by kiln.loading/1.
 *
 * A difference is a ControlNet whose weights were written as what they are more than its denoiser's: the ones that both
 * have, by diffusers' names, are added up as they are packed.
 */
#include "control_nodes.h"
#include "control_value.h"
#include "kiln/loading.h"

#include <stdlib.h>

typedef struct {
    const char *path;
} loader_params;

static const kiln_port control_out[] = {{.name = "CONTROL_NET", .type = "CONTROL_NET", .doc = "The control."}};
static const kiln_port model_in[] = {{.name = "model", .type = "MODEL", .doc = "The denoiser it was made for."}};
static const kiln_param loader_param[] = {
    {.name = "control_net_name",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(loader_params, path),
     .from = "controlnet",
     .doc = "A .safetensors file or a diffusers folder with a ControlNet or a T2I-Adapter."}};

static kiln_status open_control(const kiln_call *c, kiln_value **out)
{
    return kiln_load_one(c, ((const loader_params *)c->params)->path, KILN_FAMILY_CONTROL, out);
}

static const kiln_net *net_of(const kiln_call *c, const kiln_value *control)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    return models->net(c->ctx, control, "CONTROL_NET");
}

static kiln_status load(const kiln_call *c)
{
    kiln_value *control = NULL;
    TRY(open_control(c, &control));
    const kiln_net *net = net_of(c, control);
    if (net && !control_fact(c, net, "difference")) {
        c->out[0] = control;
        return KILN_OK;
    }
    c->host->unref(control);
    if (!net) return KILN_ERR_INVALID;
    return c->host->fail(
        c->ctx, KILN_ERR_UNSUPPORTED,
        "%s: it is a difference to a denoiser's weights; take DiffControlNetLoader, which is given the "
        "denoiser",
        ((const loader_params *)c->params)->path);
}

/* ---- differences ---- */

/* A patch for each tensor that both have; *n of them. NULL: no memory. */
static kiln_weight_patch *list_patches(const kiln_weights_api *w, const kiln_weights *own, kiln_weights *base,
                                       size_t *n)
{
    kiln_weight_patch *patch = calloc(w->count(own) + 1, sizeof *patch);
    kiln_weight_info mine = {.size = sizeof mine}, other = {.size = sizeof other};
    *n = 0;
    for (size_t i = 0; patch && i < w->count(own); i++)
        if (w->at(own, i, &mine) == KILN_OK && w->find(base, mine.name, &other) == KILN_OK)
            patch[(*n)++] = (kiln_weight_patch){.size = sizeof *patch,
                                                .name = mine.name,
                                                .strength = 1,
                                                .scale = 1,
                                                .from = base,
                                                .difference = mine.name};
    return patch;
}

static kiln_status add_up(const kiln_call *c, const kiln_net *net, kiln_weights *base, kiln_weights **out)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    size_t n = 0;
    kiln_weight_patch *patch = list_patches(w, net->weights, base, &n);
    kiln_status status = patch ? KILN_OK : KILN_ERR_NOMEM;
    if (status == KILN_OK && n == 0)
        status =
            c->host->fail(c->ctx, KILN_ERR_INVALID,
                          "%s: it is a difference to a denoiser's weights, and this model has none of its tensors; "
                          "it was made for another family of models",
                          ((const loader_params *)c->params)->path);
    if (status == KILN_OK && !(*out = w->patch(c->ctx, net->weights, patch, n))) status = KILN_ERR_INVALID;
    free(patch);
    return status;
}

static kiln_status add_difference(const kiln_call *c, kiln_value *control, const kiln_net *net)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *model = models->model(c->ctx, c->in[0]);
    kiln_weights *sum = NULL;
    if (!model) return KILN_ERR_INVALID;
    TRY(add_up(c, net, model->weights, &sum));
    kiln_status status = control_with_fact(c, control, sum, "difference", NULL, &c->out[0]);
    w->unref(sum);
    return status;
}

static kiln_status load_difference(const kiln_call *c)
{
    kiln_value *control = NULL;
    TRY(open_control(c, &control));
    const kiln_net *net = net_of(c, control);
    if (!net) {
        c->host->unref(control);
        return KILN_ERR_INVALID;
    }
    if (!control_fact(c, net, "difference")) { /* whole as it is, which the node takes as well */
        c->out[0] = control;
        return KILN_OK;
    }
    kiln_status status = add_difference(c, control, net);
    c->host->unref(control);
    return status;
}

#define LOADER                                                                                                         \
    .size = sizeof(kiln_node), .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES,                    \
    .devices = KILN_CPU, .revision = 1, .category = "loaders"

const kiln_node node_control_net_loader = {
    LOADER,
    .type = "ControlNetLoader",
    .title = "Load ControlNet",
    .doc = "Opens a ControlNet or a T2I-Adapter.",
    KILN_ARRAY(out, control_out),
    KIT_PARAMS(loader_params, loader_param),
    .run = load,
};
const kiln_node node_diff_control_net_loader = {
    LOADER,
    .type = "DiffControlNetLoader",
    .title = "Load ControlNet (Difference)",
    .doc =
        "Opens a ControlNet whose file holds its difference to a denoiser's weights; one that is whole is opened as it "
        "is.",
    KILN_ARRAY(in, model_in),
    KILN_ARRAY(out, control_out),
    KIT_PARAMS(loader_params, loader_param),
    .run = load_difference,
};
