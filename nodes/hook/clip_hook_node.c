/* clip_hook_node.c - SetClipHooks: prompts are encoded over the weights that hooks make of a CLIP's. */
#include "hook_nodes.h"
#include "kiln/model.h"

#include <stdlib.h>

typedef struct {
    int32_t apply_to_conds, schedule_clip;
} clip_params;

static const kiln_port in[] = {
    {.name = "clip", .type = "CLIP", .doc = "The text encoder."},
    {.name = "hooks", .type = "HOOKS", .flags = KILN_PORT_OPTIONAL, .doc = "What changes its weights."}};
static const kiln_port out[] = {{.name = "CLIP", .type = "CLIP", .doc = "The text encoder with them."}};
static const kiln_param param[] = {
    KIT_BOOL(clip_params, apply_to_conds, 1, "What it encodes gets the hooks for the denoiser as well."),
    KIT_BOOL(clip_params, schedule_clip, 0,
             "A prompt is encoded once for each stretch between keyframes, and each counts for its own; off: once, "
             "with the hooks at full strength."),
};

typedef struct {
    const kiln_host *host;
    kiln_value *hooks;
} owned_hooks;

static void release(void *self)
{
    owned_hooks *o = self;
    o->host->unref(o->hooks);
    free(o);
}

static kiln_status run(const kiln_call *c)
{
    const clip_params *p = c->params;
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_clip *clip = models->clip(c->ctx, c->in[0]);
    if (!clip) return KILN_ERR_INVALID;
    if (!c->in[1]) {
        c->out[0] = c->host->ref(c->in[0]);
        return KILN_OK;
    }
    owned_hooks *o = calloc(1, sizeof *o);
    if (!o) return KILN_ERR_NOMEM;
    *o = (owned_hooks){c->host, c->host->ref(c->in[1])};
    kiln_clip m = *clip;
    m.hooks = o->hooks;
    m.hook_flags =
        (p->apply_to_conds ? KILN_CLIP_HOOKS_ON_ENTRIES : 0u) | (p->schedule_clip ? KILN_CLIP_HOOKS_SCHEDULED : 0u);
    m.owned = o, m.release = release, m.base = c->in[0];
    c->out[0] = models->clip_new(c->ctx, &m);
    if (!c->out[0]) release(o);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

const kiln_node node_set_clip_hooks = {
    KIT_NODE("SetClipHooks", "Set CLIP Hooks", "advanced/hooks/clip",
             "Encodes prompts over weights that hooks change (CreateHookLora)."),
    KILN_ARRAY(in, in),
    KILN_ARRAY(out, out),
    KIT_PARAMS(clip_params, param),
    .run = run,
};
