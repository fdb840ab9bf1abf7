/* clip_vision_nodes.c - CLIPVisionLoader and CLIPVisionEncode: a vision encoder of a file or folder, by kiln.loading/1,
 * and pictures through it.
 */
#include "kiln/kit.h"
#include "kiln/loading.h"
#include "kiln/model.h"
#include "vision_encode.h"
#include "vision_nodes.h"

/* ---- CLIPVisionLoader ---- */

typedef struct {
    const char *path;
} loader_params;

static const kiln_port vision_out[] = {{.name = "CLIP_VISION", .type = "CLIP_VISION", .doc = "The encoder."}};
static const kiln_param loader_param[] = {{.name = "clip_name",
                                           .type = KILN_P_FILE,
                                           .flags = KILN_PARAM_REQUIRED,
                                           .offset = offsetof(loader_params, path),
                                           .from = "clip_vision",
                                           .doc = "A .safetensors file or a folder with CLIP's vision encoder."}};

static kiln_status load(const kiln_call *c)
{
    return kiln_load_one(c, ((const loader_params *)c->params)->path, KILN_FAMILY_VISION, c->out);
}

const kiln_node node_clip_vision_loader = {
    KIT_NODE("CLIPVisionLoader", "Load CLIP Vision", "loaders", "Opens CLIP's vision encoder."),
    KILN_ARRAY(out, vision_out),
    KIT_PARAMS(loader_params, loader_param),
    .run = load,
};

/* ---- CLIPVisionEncode ---- */

typedef struct {
    int32_t crop;
} encode_params;

static const kiln_port encode_in[] = {
    {.name = "clip_vision", .type = "CLIP_VISION", .doc = "The encoder."},
    {.name = "image", .type = "IMAGE", .doc = "What to encode: one picture, or several."},
};
static const kiln_port encode_out[] = {
    {.name = "CLIP_VISION_OUTPUT", .type = "CLIP_VISION_OUTPUT", .doc = "What the encoder makes of each picture."}};
static const kiln_choice crops[] = {
    {.name = "center", .doc = "the middle square counts", .value = 1},
    {.name = "none", .doc = "all of it, squeezed into a square", .value = 0},
    {0},
};
static const kiln_param encode_param[] = {
    KIT_ENUM(encode_params, crop, crops, 1, "Which part of a picture that is no square is looked at.")};

static kiln_status encode(const kiln_call *c)
{
    return vision_encode(c, c->in[0], c->in[1], ((const encode_params *)c->params)->crop, &c->out[0]);
}

const kiln_node node_clip_vision_encode = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1, "CLIPVisionEncode",
                   "CLIP Vision Encode", "conditioning", "What a vision encoder makes of pictures."),
    KILN_ARRAY(in, encode_in),
    KILN_ARRAY(out, encode_out),
    KIT_PARAMS(encode_params, encode_param),
    .run = encode,
};
