/* lora_control.c - LoraLoaderControlNet: the same control over weights with a patch on top. */
#include "kiln/kit.h"
#include "kiln/model.h"
#include "lora.h"
#include "lora_file.h"

typedef struct {
    const char *path;
    double strength;
} control_params;

static const kiln_port control_in[] = {{.name = "control_net", .type = "CONTROL_NET", .doc = "The ControlNet."}};
static const kiln_port control_out[] = {
    {.name = "CONTROL_NET", .type = "CONTROL_NET", .doc = "The ControlNet with the LoRA on it."}};
static const kiln_param control_param[] = {
    {.name = "lora_name",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(control_params, path),
     .from = "loras",
     .doc = "A .safetensors file below a loras folder, whose keys name modules of a ControlNet, or of the UNet that it "
            "is a copy of."},
    KIT_FLOAT(control_params, strength, 1, -100, 100, 0.01,
              "How much of it; 0 is the ControlNet as it was, below 0 the other way."),
};

static kiln_status run(const kiln_call *c)
{
    const control_params *p = c->params;
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_net *net = models->net(c->ctx, c->in[0], "CONTROL_NET");
    kiln_weights *made = NULL, *text[LORA_TEXTS_MAX] = {NULL};
    if (!net) return KILN_ERR_INVALID;
    if (KILN_HAS(kiln_network, net->network, over) && net->network->over)
        return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                             "this control is a Control-LoRA, which is a change of the denoiser's weights and has none "
                             "of its own to put a LoRA on; take the whole ControlNet");
    lora_request r = {.path = p->path, .unet = net->weights, .unet_strength = p->strength, .control = 1};
    TRY(lora_apply(c->host, c->ctx, &r, &made, text));
    kiln_net m = *net;
    m.weights = made, m.owned = NULL, m.release = NULL, m.base = c->in[0];
    c->out[0] = made == net->weights ? c->host->ref(c->in[0]) : models->net_new(c->ctx, "CONTROL_NET", &m);
    w->unref(made);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

const kiln_node node_lora_loader_control_net = {
    KIT_NODE("LoraLoaderControlNet", "Load LoRA (ControlNet)", "loaders",
             "Puts a LoRA on a ControlNet. Several in a row add up; the one it came from is not changed."),
    KILN_ARRAY(in, control_in),
    KILN_ARRAY(out, control_out),
    KIT_PARAMS(control_params, control_param),
    .run = run,
};
