/* hook_create.c - CreateHookLora, CreateHookModelAsLora and the same for the model alone: a LoRA, or a checkpoint's
 * difference, that acts on the conditionings it is put on. Names, defaults and ranges are ComfyUI's. */
#include "kiln/kit.h"
#include "kiln/loading.h"
#include "lora.h"
#include "lora_hook.h"

typedef struct {
    const char *path;
    double strength_model, strength_clip;
} create_params;

static const kiln_port hooks_in[] = {{.name = "prev_hooks",
                                      .type = "HOOKS",
                                      .flags = KILN_PORT_OPTIONAL,
                                      .doc = "Hooks that stay; this one comes behind them."}};
static const kiln_port hooks_out[] = {
    {.name = "HOOKS", .type = "HOOKS", .doc = "For ConditioningSetProperties, SetClipHooks and their like."}};

#define HOOK_FILE(name_, from_, doc_)                                                                                  \
    {                                                                                                                  \
        .name = name_, .type = KILN_P_FILE, .flags = KILN_PARAM_REQUIRED, .offset = offsetof(create_params, path),     \
        .from = from_, .doc = doc_                                                                                     \
    }
#define ON_MODEL                                                                                                       \
    KIT_FLOAT(create_params, strength_model, 1, -20, 20, 0.01, "How much of it on the denoiser, times the keyframe's.")
#define ON_CLIP                                                                                                        \
    KIT_FLOAT(create_params, strength_clip, 1, -20, 20, 0.01, "How much of it on the text encoder (SetClipHooks).")
#define LORA_FILE                                                                                                      \
    HOOK_FILE("lora_name", "loras",                                                                                    \
              "A .safetensors file below a loras folder, as kohya's scripts, diffusers or peft write it.")
#define CHECKPOINT_FILE                                                                                                \
    HOOK_FILE("ckpt_name", "checkpoints",                                                                              \
              "A .safetensors file or a folder in diffusers' layout, of the hooked model's family.")

static const kiln_param lora_param[] = {LORA_FILE, ON_MODEL, ON_CLIP}, lora_model_param[] = {LORA_FILE, ON_MODEL},
                        checkpoint_param[] = {CHECKPOINT_FILE, ON_MODEL, ON_CLIP},
                        checkpoint_model_param[] = {CHECKPOINT_FILE, ON_MODEL};

/* The hook behind those there are. Takes the reference to it; NULL is a failure with a message, or no memory. */
static kiln_status put_behind(const kiln_call *c, kiln_value *hook)
{
    const kiln_value_api *v = kit_values(c);
    if (!hook) return KILN_ERR_INVALID;
    kiln_value *list = c->in[0] ? v->list_copy(c->ctx, c->in[0]) : v->new_list(c->ctx), *map = v->new_map(c->ctx);
    kiln_status status = list && map ? v->map_set(map, "hook", hook) : KILN_ERR_NOMEM;
    if (status == KILN_OK) status = v->list_push(list, map);
    c->host->unref(map);
    c->host->unref(hook);
    if (status == KILN_OK)
        c->out[0] = list;
    else
        c->host->unref(list);
    return status;
}

/* Without a strength nothing comes behind the others. */
static kiln_status put_nothing(const kiln_call *c)
{
    c->out[0] = c->in[0] ? c->host->ref(c->in[0]) : kit_values(c)->new_list(c->ctx);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

/* The struct ends before strength_clip in nodes for the model alone. */
static hook_strengths strengths_of(const kiln_call *c, int with_clip)
{
    const create_params *p = c->params;
    return (hook_strengths){p->strength_model, with_clip ? p->strength_clip : 0};
}

static kiln_status create_lora(const kiln_call *c, int with_clip)
{
    hook_strengths s = strengths_of(c, with_clip);
    if (s.model == 0 && s.clip == 0) return put_nothing(c);
    return put_behind(c, lora_hook_new(c, ((const create_params *)c->params)->path, &s));
}

static kiln_status create_checkpoint(const kiln_call *c, int with_clip)
{
    static const char *const text[] = {KILN_FAMILY_TEXT_ENCODER};
    hook_strengths s = strengths_of(c, with_clip);
    const char *path = ((const create_params *)c->params)->path;
    const kiln_load encoder = {.size = sizeof encoder, .flags = KILN_LOAD_OPTIONAL, .path = path, .kind = text, .n = 1};
    kiln_value *part[2] = {NULL};
    TRY(kiln_load_one(c, path, KILN_FAMILY_DENOISER, part));
    kiln_status status = with_clip ? kiln_load_parts(c, &encoder, part + 1) : KILN_OK; /* it may have none */
    if (status != KILN_OK) {
        c->host->unref(part[0]);
        return status;
    }
    kiln_value *hook = checkpoint_hook_new(c, part[0], part[1], &s);
    c->host->unref(part[0]);
    c->host->unref(part[1]);
    return put_behind(c, hook);
}

static kiln_status run_lora(const kiln_call *c) { return create_lora(c, 1); }
static kiln_status run_lora_model(const kiln_call *c) { return create_lora(c, 0); }
static kiln_status run_checkpoint(const kiln_call *c) { return create_checkpoint(c, 1); }
static kiln_status run_checkpoint_model(const kiln_call *c) { return create_checkpoint(c, 0); }

#define CREATE_NODE(type_, title_, doc_, params_, run_)                                                                \
    {                                                                                                                  \
        KIT_NODE(type_, title_, "advanced/hooks/create", doc_), KILN_ARRAY(in, hooks_in), KILN_ARRAY(out, hooks_out),  \
            KIT_PARAMS(create_params, params_), .run = run_                                                            \
    }

const kiln_node node_create_hook_lora =
    CREATE_NODE("CreateHookLora", "Create Hook LoRA",
                "A LoRA for some conditionings alone, as strong as keyframes say.", lora_param, run_lora);
const kiln_node node_create_hook_lora_model_only =
    CREATE_NODE("CreateHookLoraModelOnly", "Create Hook LoRA (MO)", "As CreateHookLora, without the text encoder.",
                lora_model_param, run_lora_model);
const kiln_node node_create_hook_model_as_lora = CREATE_NODE(
    "CreateHookModelAsLora", "Create Hook Model as LoRA",
    "What a checkpoint has and the model has not, for some conditionings alone.", checkpoint_param, run_checkpoint);
const kiln_node node_create_hook_model_as_lora_model_only =
    CREATE_NODE("CreateHookModelAsLoraModelOnly", "Create Hook Model as LoRA (MO)",
                "As CreateHookModelAsLora, without the text encoder.", checkpoint_model_param, run_checkpoint_model);
