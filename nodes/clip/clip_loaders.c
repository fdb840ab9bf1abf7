/* clip_loaders.c - CLIPLoader and DualCLIPLoader: text encoders from files of their own, over kiln.loading/1.
 *
 * The choices are ComfyUI's, so that its workflows are understood; what is not there yet is refused by name.
 */
#include "clip_loaders.h"

#include "clip_encoder.h"
#include "kiln/kit.h"
#include "kiln/loading.h"
#include "kiln/model.h"
#include "kiln/ops.h"

#define LOADER                                                                                                         \
    .size = sizeof(kiln_node), .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES,                    \
    .devices = KILN_CPU, .revision = 1, .category = "loaders"
#define ENCODER_FILE(struct_, name_, field_)                                                                           \
    {                                                                                                                  \
        .name = name_, .type = KILN_P_FILE, .flags = KILN_PARAM_REQUIRED, .offset = offsetof(struct_, field_),         \
        .from = "text_encoders", .doc = "A .safetensors file or a folder with a text encoder."                         \
    }

enum { DEVICE_DEFAULT, DEVICE_CPU };
static const kiln_choice device[] = {
    {.name = "default", .value = DEVICE_DEFAULT}, {.name = "cpu", .value = DEVICE_CPU}, {0}};
static const kiln_port clip_out[] = {{.name = "CLIP", .type = "CLIP", .doc = "The text encoder."}};

/* A run computes on one device. */
static void say_device(const kiln_call *c, int32_t wanted)
{
    const kiln_ops *ops = c->host->ability(KILN_OPS_ABILITY);
    if (wanted == DEVICE_CPU && ops && ops->device(c->ctx) != KILN_CPU)
        c->host->log(KILN_LOG_WARN, "a CLIP loader's device 'cpu' is not followed: all of a run computes on one device "
                                    "(--device cpu: on the processor)");
}

static kiln_status refuse_choice(const kiln_call *c, const kiln_choice *choice, int32_t value, const char *why)
{
    while (choice->name && choice->value != value) choice++;
    return kit_at_param(c,
                        c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                                      "type '%s' is the text encoder of a model that kiln does not read yet; %s",
                                      choice->name ? choice->name : "?", why),
                        "type");
}

/* ---- CLIPLoader ---- */

typedef struct {
    const char *path;
    int32_t type, device;
} clip_params;

static const kiln_choice clip_type[] = {
    {.name = "stable_diffusion", .doc = "SD1, SD2, SDXL or its refiner: the file says which", .value = 0},
    {.name = "stable_cascade", .value = 1},
    {.name = "sd3", .value = 2},
    {.name = "stable_audio", .value = 3},
    {.name = "mochi", .value = 4},
    {.name = "ltxv", .value = 5},
    {.name = "pixart", .value = 6},
    {.name = "cosmos", .value = 7},
    {.name = "lumina2", .value = 8},
    {.name = "wan", .value = 9},
    {.name = "hidream", .value = 10},
    {.name = "chroma", .value = 11},
    {.name = "ace", .value = 12},
    {.name = "omnigen2", .value = 13},
    {.name = "qwen_image", .value = 14},
    {.name = "hunyuan_image", .value = 15},
    {.name = "flux2", .value = 16},
    {.name = "ovis", .value = 17},
    {.name = "longcat_image", .value = 18},
    {.name = "cogvideox", .value = 19},
    {.name = "lens", .value = 20},
    {.name = "pixeldit", .value = 21},
    {.name = "ideogram4", .value = 22},
    {.name = "boogu", .value = 23},
    {.name = "krea2", .value = 24},
    {.name = "joyimage", .value = 25},
    {.name = "mage", .value = 26},
    {.name = "minimax", .value = 27},
    {0},
};
static const kiln_param clip_param[] = {
    ENCODER_FILE(clip_params, "clip_name", path),
    KIT_ENUM(clip_params, type, clip_type, 0, "What it is to condition."),
    KIT_ENUM(clip_params, device, device, 0,
             "ComfyUI's choice; --device decides for the whole run, and a warning says so."),
};

/* NULL: the file says which. */
static const char *type_of(const kiln_call *c)
{
    int32_t type = ((const clip_params *)c->params)->type;
    return type ? clip_type[type].name : NULL;
}

/* 1: a family that a plugin brought is asked for by that type. */
static int is_known(const kiln_call *c, const char *type)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    for (size_t i = 0; models && i < models->family_count(KILN_FAMILY_TEXT_ENCODER); i++) {
        const kiln_model_family *f = models->family_at(KILN_FAMILY_TEXT_ENCODER, i);
        for (size_t k = 0; KILN_HAS(kiln_model_family, f, type) && f->type && f->type[k]; k++)
            if (strcmp(f->type[k], type) == 0) return 1;
    }
    return 0;
}

static kiln_status check_clip(const kiln_call *c)
{
    const char *type = type_of(c);
    if (!type || is_known(c, type)) return KILN_OK;
    return refuse_choice(c, clip_type, ((const clip_params *)c->params)->type,
                         "stable_diffusion takes those of SD1, SD2, SDXL and the refiner");
}

static kiln_status load_clip(const kiln_call *c)
{
    const clip_params *p = c->params;
    static const char *const kind = KILN_FAMILY_TEXT_ENCODER;
    TRY(check_clip(c)); /* a link may have brought the choice */
    say_device(c, p->device);
    return kiln_load_parts(
        c, &(kiln_load){.size = sizeof(kiln_load), .path = p->path, .kind = &kind, .n = 1, .type = type_of(c)},
        &c->out[0]);
}

const kiln_node node_clip_loader = {
    LOADER,
    .type = "CLIPLoader",
    .title = "Load CLIP",
    .doc = "Opens a text encoder.",
    KILN_ARRAY(out, clip_out),
    KIT_PARAMS(clip_params, clip_param),
    .run = load_clip,
    .check = check_clip,
};

/* ---- DualCLIPLoader ---- */

typedef struct {
    const char *path[2];
    int32_t type, device;
} dual_params;

static const kiln_choice dual_type[] = {
    {.name = "sdxl", .doc = "CLIP L and OpenCLIP bigG, in any order", .value = 0},
    {.name = "sd3", .value = 1},
    {.name = "flux", .value = 2},
    {.name = "hunyuan_video", .value = 3},
    {.name = "hidream", .value = 4},
    {.name = "hunyuan_image", .value = 5},
    {.name = "hunyuan_video_15", .value = 6},
    {.name = "kandinsky5", .value = 7},
    {.name = "kandinsky5_image", .value = 8},
    {.name = "ltxv", .value = 9},
    {.name = "newbie", .value = 10},
    {.name = "ace", .value = 11},
    {0},
};
static const kiln_param dual_param[] = {
    ENCODER_FILE(dual_params, "clip_name1", path[0]),
    ENCODER_FILE(dual_params, "clip_name2", path[1]),
    KIT_ENUM(dual_params, type, dual_type, 0, "What they are to condition."),
    KIT_ENUM(dual_params, device, device, 0,
             "ComfyUI's choice; --device decides for the whole run, and a warning says so."),
};

static kiln_status check_dual(const kiln_call *c)
{
    int32_t type = ((const dual_params *)c->params)->type;
    return type == 0 ? KILN_OK : refuse_choice(c, dual_type, type, "sdxl takes CLIP L and OpenCLIP bigG");
}

static kiln_status load_dual(const kiln_call *c)
{
    const dual_params *p = c->params;
    kiln_value *one[2] = {NULL};
    TRY(check_dual(c));
    say_device(c, p->device);
    kiln_status status = kiln_load_one(c, p->path[0], KILN_FAMILY_TEXT_ENCODER, &one[0]);
    if (status == KILN_OK) status = kiln_load_one(c, p->path[1], KILN_FAMILY_TEXT_ENCODER, &one[1]);
    if (status == KILN_OK && !(c->out[0] = clip_pair(c->host, c->ctx, one[0], one[1]))) status = KILN_ERR_INVALID;
    c->host->unref(one[0]), c->host->unref(one[1]);
    return status;
}

const kiln_node node_dual_clip_loader = {
    LOADER,
    .type = "DualCLIPLoader",
    .title = "Load CLIP (Two Files)",
    .doc = "Opens two text encoders as one CLIP.",
    KILN_ARRAY(out, clip_out),
    KIT_PARAMS(dual_params, dual_param),
    .run = load_dual,
    .check = check_dual,
};
