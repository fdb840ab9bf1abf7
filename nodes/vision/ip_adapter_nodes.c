/* ip_adapter_nodes.c - IPAdapterModelLoader, IPAdapter and IPAdapterAdvanced, under the names, defaults and ranges that
 * people know from ComfyUI_IPAdapter_plus. Its unified loader is not there, so that clip_vision is wired.
 */
#include "ip_adapter_hook.h"
#include "ip_adapter_layers.h"
#include "kiln/kit.h"
#include "kiln/loading.h"
#include "vision_nodes.h"

/* ---- IPAdapterModelLoader ---- */

typedef struct {
    const char *path;
} loader_params;

static const kiln_port adapter_out[] = {{.name = "IPADAPTER", .type = IP_ADAPTER_TYPE, .doc = "The adapter."}};
static const kiln_param loader_param[] = {
    {.name = "ipadapter_file",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(loader_params, path),
     .from = "ipadapter",
     .doc = "A .safetensors file with image_proj.* and ip_adapter.*: IP-Adapter, Plus, Plus Face or Full Face."}};

/* The files of these adapters were published as pickles of maps in a map, which the way for checkpoints would lose. */
static kiln_status refuse_pickle(const kiln_call *c, const char *path)
{
    const char *dot = strrchr(path, '.');
    if (!dot ||
        (strcmp(dot, ".bin") != 0 && strcmp(dot, ".pt") != 0 && strcmp(dot, ".pth") != 0 && strcmp(dot, ".ckpt") != 0))
        return KILN_OK;
    return c->host->fail(
        c->ctx, KILN_ERR_UNSUPPORTED,
        "%s: a pickle, which can run any code when it is read, so kiln never opens one; take the .safetensors that is "
        "published beside it, or convert it where you trust it: python3 -c 'import sys, torch; from safetensors.torch "
        "import save_file; d = torch.load(sys.argv[1], map_location=\"cpu\", weights_only=True); save_file({p + \".\" "
        "+ "
        "k: v.contiguous() for p in d for k, v in d[p].items()}, sys.argv[2])' FILE.bin FILE.safetensors",
        path);
}

static kiln_status load(const kiln_call *c)
{
    const char *path = ((const loader_params *)c->params)->path;
    TRY(refuse_pickle(c, path));
    return kiln_load_one(c, path, IP_ADAPTER_KIND, c->out);
}

const kiln_node node_ip_adapter_model_loader = {
    KIT_NODE("IPAdapterModelLoader", "IPAdapter Model Loader", "ipadapter", "Opens an IP-Adapter."),
    KILN_ARRAY(out, adapter_out),
    KIT_PARAMS(loader_params, loader_param),
    .run = load,
};

/* ---- both appliers ---- */

static const kiln_port model_out[] = {{.name = "MODEL", .type = "MODEL", .doc = "The denoiser that sees the picture."}};
#define FIRST_PORTS                                                                                                    \
    {.name = "model", .type = "MODEL", .doc = "The denoiser, a UNet."},                                                \
        {.name = "ipadapter", .type = IP_ADAPTER_TYPE, .doc = "An adapter that was made for it."},                     \
    {                                                                                                                  \
        .name = "image", .type = "IMAGE", .doc = "What is to be seen: one picture, or several."                        \
    }
#define MASK_PORT                                                                                                      \
    {                                                                                                                  \
        .name = "attn_mask", .type = "MASK", .flags = KILN_PORT_OPTIONAL,                                              \
        .doc = "Where it is seen (1) and where not (0): for all, or one for each picture that is drawn."               \
    }
#define VISION_PORT                                                                                                    \
    {                                                                                                                  \
        .name = "clip_vision", .type = "CLIP_VISION", .doc = "The vision encoder that the adapter was made with."      \
    }

static kiln_status apply(const kiln_call *c, const ip_adapter_use *use, const ip_adapter_pictures *given)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    ip_adapter_pictures pictures = *given;
    ip_adapter_tokens tokens;
    TRY(ip_adapter_fits(c, use));
    if (ip_adapter_is_idle(use)) {
        c->out[0] = c->host->ref(use->model);
        return KILN_OK;
    }
    pictures.adapter = models->net(c->ctx, use->adapter, IP_ADAPTER_TYPE);
    kiln_status status = ip_adapter_make_tokens(c, &pictures, &tokens);
    if (status == KILN_OK) status = ip_adapter_put(c, use, &tokens, &c->out[0]);
    c->host->unref(tokens.positive);
    c->host->unref(tokens.negative);
    return status;
}

#define APPLY_FLAGS KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES

/* ---- IPAdapter ---- */

typedef struct {
    double weight, start_at, end_at;
    int32_t weight_type;
} simple_params;

enum { SIMPLE_MODEL, SIMPLE_ADAPTER, SIMPLE_IMAGE, SIMPLE_MASK, SIMPLE_VISION };

static const kiln_port simple_in[] = {FIRST_PORTS, MASK_PORT, VISION_PORT};
static const kiln_choice simple_types[] = {
    {.name = "standard", .doc = "the same at every layer", .value = IP_WEIGHT_LINEAR},
    {.name = "prompt is more important", .doc = "less at the first layers", .value = IP_WEIGHT_EASE_OUT},
    {.name = "style transfer", .doc = "at the layers that draw style", .value = IP_WEIGHT_STYLE},
    {0},
};
static const kiln_param simple_param[] = {
    KIT_FLOAT(simple_params, weight, 1, -1, 3, 0.05, "Times this what is seen is added."),
    KIT_FLOAT(simple_params, start_at, 0, 0, 1, 0.001, "It acts from this share of the way on."),
    KIT_FLOAT(simple_params, end_at, 1, 0, 1, 0.001, "It acts up to this share of the way."),
    KIT_ENUM(simple_params, weight_type, simple_types, IP_WEIGHT_LINEAR, "How the weight differs from layer to layer."),
};

static kiln_status run_simple(const kiln_call *c)
{
    const simple_params *p = c->params;
    const ip_adapter_use use = {.model = c->in[SIMPLE_MODEL],
                                .adapter = c->in[SIMPLE_ADAPTER],
                                .mask = c->in[SIMPLE_MASK],
                                .weight = p->weight,
                                .start = p->start_at,
                                .end = p->end_at,
                                .type = (uint32_t)p->weight_type};
    const ip_adapter_pictures pictures = {.clip_vision = c->in[SIMPLE_VISION], .image = c->in[SIMPLE_IMAGE]};
    return apply(c, &use, &pictures);
}

const kiln_node node_ip_adapter = {
    KIT_NODE_FLAGS(APPLY_FLAGS, 1, "IPAdapter", "IPAdapter", "ipadapter",
                   "Lets a denoiser see a picture beside the prompt (Ye et al. 2023)."),
    KILN_ARRAY(in, simple_in),
    KILN_ARRAY(out, model_out),
    KIT_PARAMS(simple_params, simple_param),
    .run = run_simple,
};

/* ---- IPAdapterAdvanced ---- */

typedef struct {
    double weight, start_at, end_at;
    int32_t weight_type, combine_embeds, embeds_scaling;
} advanced_params;

enum { ADVANCED_MODEL, ADVANCED_ADAPTER, ADVANCED_IMAGE, ADVANCED_NEGATIVE, ADVANCED_MASK, ADVANCED_VISION };

static const kiln_port advanced_in[] = {
    FIRST_PORTS,
    {.name = "image_negative",
     .type = "IMAGE",
     .flags = KILN_PORT_OPTIONAL,
     .doc = "What the negative side sees; without it nothing, or a black picture for a Plus."},
    MASK_PORT,
    VISION_PORT,
};
static const kiln_choice weight_types[] = {
    {.name = "linear", .doc = "the same at every layer", .value = IP_WEIGHT_LINEAR},
    {.name = "ease in", .doc = "less at the last layers", .value = IP_WEIGHT_EASE_IN},
    {.name = "ease out", .doc = "less at the first layers", .value = IP_WEIGHT_EASE_OUT},
    {.name = "ease in-out", .doc = "less at either end", .value = IP_WEIGHT_EASE_IN_OUT},
    {.name = "reverse in-out", .doc = "less in the middle", .value = IP_WEIGHT_REVERSE_IN_OUT},
    {.name = "weak input", .doc = "a fifth on the way down", .value = IP_WEIGHT_WEAK_INPUT},
    {.name = "weak output", .doc = "a fifth on the way up", .value = IP_WEIGHT_WEAK_OUTPUT},
    {.name = "weak middle", .doc = "a fifth at the bottom", .value = IP_WEIGHT_WEAK_MIDDLE},
    {.name = "strong middle", .doc = "a fifth on the way down and up", .value = IP_WEIGHT_STRONG_MIDDLE},
    {.name = "style transfer", .doc = "at the layers that draw style", .value = IP_WEIGHT_STYLE},
    {.name = "composition", .doc = "at the layers that draw where things are", .value = IP_WEIGHT_COMPOSITION},
    {.name = "strong style transfer", .doc = "at all but those of composition", .value = IP_WEIGHT_STRONG_STYLE},
    {.name = "style and composition", .doc = "at both", .value = IP_WEIGHT_STYLE_AND_COMPOSITION},
    {.name = "style transfer precise",
     .doc = "style, with the picture's composition on the negative side",
     .value = IP_WEIGHT_STYLE_PRECISE},
    {.name = "composition precise",
     .doc = "composition, with the picture's style on the negative side",
     .value = IP_WEIGHT_COMPOSITION_PRECISE},
    {0},
};
static const kiln_choice combinings[] = {
    {.name = "concat", .doc = "all are seen side by side", .value = IP_COMBINE_CONCAT},
    {.name = "add", .doc = "the sum of their features", .value = IP_COMBINE_ADD},
    {.name = "subtract", .doc = "the first less the mean of the others", .value = IP_COMBINE_SUBTRACT},
    {.name = "average", .doc = "the mean of their features", .value = IP_COMBINE_AVERAGE},
    {.name = "norm average", .doc = "the mean, each number by its norm over all", .value = IP_COMBINE_NORM_AVERAGE},
    {0},
};
static const kiln_choice scalings[] = {
    {.name = "V only", .doc = "what is attended to", .value = IP_SCALE_V},
    {.name = "K+V", .doc = "keys too", .value = IP_SCALE_KV},
    {.name = "K+V w/ C penalty", .doc = "both, less at narrow layers", .value = IP_SCALE_KV_C},
    {.name = "K+mean(V) w/ C penalty",
     .doc = "keys and the mean of values, less at narrow layers",
     .value = IP_SCALE_K_MEAN_V_C},
    {0},
};
static const kiln_param advanced_param[] = {
    KIT_FLOAT(advanced_params, weight, 1, -1, 5, 0.05, "Times this what is seen is added."),
    KIT_ENUM(advanced_params, weight_type, weight_types, IP_WEIGHT_LINEAR,
             "How the weight differs from layer to layer."),
    KIT_ENUM(advanced_params, combine_embeds, combinings, IP_COMBINE_CONCAT, "What becomes of several pictures."),
    KIT_FLOAT(advanced_params, start_at, 0, 0, 1, 0.001, "It acts from this share of the way on."),
    KIT_FLOAT(advanced_params, end_at, 1, 0, 1, 0.001, "It acts up to this share of the way."),
    KIT_ENUM(advanced_params, embeds_scaling, scalings, IP_SCALE_V, "What the weight is a factor of."),
};

static kiln_status run_advanced(const kiln_call *c)
{
    const advanced_params *p = c->params;
    const ip_adapter_use use = {.model = c->in[ADVANCED_MODEL],
                                .adapter = c->in[ADVANCED_ADAPTER],
                                .mask = c->in[ADVANCED_MASK],
                                .weight = p->weight,
                                .start = p->start_at,
                                .end = p->end_at,
                                .type = (uint32_t)p->weight_type,
                                .scaling = (uint32_t)p->embeds_scaling};
    const ip_adapter_pictures pictures = {.clip_vision = c->in[ADVANCED_VISION],
                                          .image = c->in[ADVANCED_IMAGE],
                                          .negative = c->in[ADVANCED_NEGATIVE],
                                          .combine = (uint32_t)p->combine_embeds};
    return apply(c, &use, &pictures);
}

const kiln_node node_ip_adapter_advanced = {
    KIT_NODE_FLAGS(
        APPLY_FLAGS, 1, "IPAdapterAdvanced", "IPAdapter Advanced", "ipadapter",
        "Lets a denoiser see pictures beside the prompt: which layers, which share of the way, which cells."),
    KILN_ARRAY(in, advanced_in),
    KILN_ARRAY(out, model_out),
    KIT_PARAMS(advanced_params, advanced_param),
    .run = run_advanced,
};
