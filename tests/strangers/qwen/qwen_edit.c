/* qwen_edit.c - ExampleTextEncodeQwenImageEdit: a prompt and the picture that it is about. It stands for other nodes:
 * the picture is scaled, seen by the text encoder, and encoded by the autoencoder as kiln's VAEEncode does it, which
 * keeps the memory budget; each has a key and is kept. Nothing computes twice when the prompt changes.
 */
#include "qwen.h"

#include "kiln/graph.h"
#include "kiln/resize.h"

/* ---- ExampleQwenScale ---- */

enum { MULTIPLE = 32, BAND = 16 };

typedef struct {
    int64_t side;
} scale_params;

static const kiln_port image_in[] = {{.name = "image", .type = "IMAGE", .doc = "The picture."}};
static const kiln_port image_out[] = {{.name = "IMAGE", .type = "IMAGE", .doc = "Of about side x side pixels."}};
static const kiln_param scale_param[] = {
    KIT_INT(scale_params, side, 1024, 32, 2048, "It gets about as many pixels as a square of this side has.")};

static int64_t rounded(double pixels) { return (int64_t)fmax(1, rint(pixels / MULTIPLE)) * MULTIPLE; }

/* Band by band, so that a run can be cancelled. */
static kiln_status scale(const kiln_call *c, const kiln_tensor *from, const kiln_tensor *to)
{
    const int64_t h = to->dim[1], w = to->dim[2], channels = from->dim[3];
    for (int64_t i = 0; i < from->dim[0]; i++)
        for (int64_t row = 0; row < h; row += BAND) {
            const resize_source source = {.data =
                                              (const float *)from->data + i * from->dim[1] * from->dim[2] * channels,
                                          .h = from->dim[1],
                                          .w = from->dim[2],
                                          .c = channels,
                                          .row = from->dim[2] * channels};
            TRY(c->host->progress(c->ctx, (uint64_t)(i * h + row), (uint64_t)(from->dim[0] * h), "scaling"));
            resize_rows(source, (float *)to->data + i * h * w * channels, h, w, RESIZE_AREA, row,
                        row + BAND < h ? row + BAND : h);
        }
    return KILN_OK;
}

static kiln_status scale_run(const kiln_call *c)
{
    const double side = (double)((const scale_params *)c->params)->side;
    kiln_tensor from, to;
    TRY(kit_f32(c, c->in[0], 4, "the picture", &from));
    const double ratio = (double)from.dim[2] / (double)from.dim[1], width = sqrt(side * side * ratio);
    TRY(kit_new_f32(c, 4, KILN_DIMS(from.dim[0], rounded(width / ratio), rounded(width), from.dim[3]), &c->out[0],
                    &to));
    return kit_estimating(c) ? KILN_OK : scale(c, &from, &to);
}

const kiln_node qwen_scale_node = {KIT_NODE("ExampleQwenScale", "Qwen: scale", "examples",
                                            "A picture by averages, in its proportions; sides become multiples of 32."),
                                   KILN_ARRAY(in, image_in), KILN_ARRAY(out, image_out),
                                   KIT_PARAMS(scale_params, scale_param), .run = scale_run};

/* ---- ExampleQwenEncode ---- */

typedef struct {
    const char *prompt;
} encode_params;

static const kiln_port encode_in[] = {
    {.name = "clip", .type = "CLIP", .doc = "Qwen2.5-VL."},
    {.name = "picture", .type = "QWEN_PICTURE", .flags = KILN_PORT_OPTIONAL, .doc = "What the prompt is about."}};
static const kiln_port conditioning_out[] = {
    {.name = "CONDITIONING", .type = "CONDITIONING", .doc = "What the sampler is steered by."}};
static const kiln_param encode_param[] = {{.name = "prompt",
                                           .type = KILN_P_STRING,
                                           .flags = KILN_PARAM_REQUIRED | KILN_PARAM_MULTILINE,
                                           .offset = offsetof(encode_params, prompt),
                                           .doc = "The prompt."}};

static kiln_status picture_of(const kiln_call *c, const kiln_value *map, qwen_picture *out)
{
    const kiln_value_api *v = kit_values(c);
    kiln_tensor t;
    if (!map) return KILN_OK;
    TRY(kit_f32(c, v->map_get(map, "image_embeds"), 2, "the picture's rows", &t));
    if (v->get_int(v->map_get(map, "rows"), &out->rows) != KILN_OK ||
        v->get_int(v->map_get(map, "columns"), &out->columns) != KILN_OK || out->rows * out->columns != t.dim[0])
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "picture: rows and columns are not those of its image_embeds");
    const qwen_clip *q = qwen_clip_of(c, c->in[0]);
    if (!q) return KILN_ERR_INVALID;
    if (t.dim[1] != q->text.width)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "the picture was seen by another encoder: its rows are %lld wide, the text's %lld",
                             (long long)t.dim[1], (long long)q->text.width);
    out->vectors = kit_estimating(c) ? c->host->scratch(c->ctx, kit_count(&t) * sizeof(float), KILN_CPU) : t.data;
    return out->vectors ? KILN_OK : KILN_ERR_NOMEM;
}

static kiln_status encode_run(const kiln_call *c)
{
    qwen_picture picture = {0};
    TRY(picture_of(c, c->in[1], &picture));
    return qwen_encode(c, c->in[0], ((const encode_params *)c->params)->prompt, &picture, &c->out[0]);
}

const kiln_node qwen_encode_node = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1,
                   "ExampleQwenEncode", "Qwen: encode", "examples", "A prompt, and a picture that was seen."),
    KILN_ARRAY(in, encode_in), KILN_ARRAY(out, conditioning_out), KIT_PARAMS(encode_params, encode_param),
    .run = encode_run};

/* ---- ExampleReferenceLatent ---- */

static const kiln_port reference_in[] = {
    {.name = "conditioning", .type = "CONDITIONING", .doc = "To which it is added."},
    {.name = "latent", .type = "LATENT", .doc = "A picture to draw from: the next after those that are there."}};

static kiln_status reference_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *result = v->new_list(c->ctx);
    kiln_status status = result ? KILN_OK : KILN_ERR_NOMEM;
    for (size_t i = 0; status == KILN_OK && i < v->count(c->in[0]); i++) {
        const kiln_value *old = v->map_get(v->list_at(c->in[0], i), "reference_latents");
        kiln_value *entry = v->map_copy(c->ctx, v->list_at(c->in[0], i));
        kiln_value *list = old ? v->list_copy(c->ctx, old) : v->new_list(c->ctx);
        status = entry && list ? v->list_push(list, c->in[1]) : KILN_ERR_NOMEM;
        if (status == KILN_OK) status = v->map_set(entry, "reference_latents", list);
        if (status == KILN_OK) status = v->list_push(result, entry);
        c->host->unref(list), c->host->unref(entry);
    }
    if (status == KILN_OK)
        c->out[0] = result;
    else
        c->host->unref(result);
    return status;
}

const kiln_node qwen_reference_node = {
    KIT_NODE("ExampleReferenceLatent", "Reference Latent", "examples", "One more picture to draw from."),
    KILN_ARRAY(in, reference_in), KILN_ARRAY(out, conditioning_out), .run = reference_run};

/* ---- ExampleTextEncodeQwenImageEdit ---- */

typedef struct {
    const char *prompt;
    int64_t side;
} edit_params;

static const kiln_port edit_in[] = {
    {.name = "clip", .type = "CLIP", .doc = "Qwen2.5-VL."},
    {.name = "vae", .type = "VAE", .flags = KILN_PORT_OPTIONAL, .doc = "Encodes the picture to draw from."},
    {.name = "image", .type = "IMAGE", .flags = KILN_PORT_OPTIONAL, .doc = "The picture that the prompt is about."}};
static const kiln_param edit_param[] = {{.name = "prompt",
                                         .type = KILN_P_STRING,
                                         .flags = KILN_PARAM_REQUIRED | KILN_PARAM_MULTILINE | KILN_PARAM_PASSED,
                                         .offset = offsetof(edit_params, prompt),
                                         .doc = "What is to become of the picture."},
                                        {.name = "side",
                                         .type = KILN_P_INT,
                                         .flags = KILN_PARAM_PASSED,
                                         .offset = offsetof(edit_params, side),
                                         .def = 1024,
                                         .min = 32,
                                         .max = 2048,
                                         .step = 1,
                                         .doc = "The picture gets as many pixels as a square of this side has."}};

static kiln_status edit_expand(const kiln_call *c, kiln_graph *g)
{
    const kiln_graph_api *b = c->host->ability(KILN_GRAPH_ABILITY);
    if (!b) return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, "this kiln has no %s", KILN_GRAPH_ABILITY);
    int picture = b->wires(g, "image") > 0, latent = picture && b->wires(g, "vae") > 0;
    if (picture) {
        b->node(g, "scaled", "ExampleQwenScale");
        b->pass(g, "scaled", "image", "image"), b->pass(g, "scaled", "side", "side");
        b->node(g, "seen", "ExampleQwenSee");
        b->pass(g, "seen", "clip", "clip"), b->wire(g, "seen", "image", "scaled", "IMAGE");
    }
    b->node(g, "text", "ExampleQwenEncode");
    b->pass(g, "text", "clip", "clip"), b->pass(g, "text", "prompt", "prompt");
    if (picture) b->wire(g, "text", "picture", "seen", "picture");
    if (!latent) return b->output(g, "CONDITIONING", "text", "CONDITIONING");
    b->node(g, "latent", "VAEEncode");
    b->wire(g, "latent", "pixels", "scaled", "IMAGE"), b->pass(g, "latent", "vae", "vae");
    b->node(g, "reference", "ExampleReferenceLatent");
    b->wire(g, "reference", "conditioning", "text", "CONDITIONING");
    b->wire(g, "reference", "latent", "latent", "LATENT");
    return b->output(g, "CONDITIONING", "reference", "CONDITIONING");
}

const kiln_node qwen_edit_node = {
    KIT_NODE_FLAGS(KILN_NODE_EXPANDS, 1, "ExampleTextEncodeQwenImageEdit", "Text Encode (Qwen-Image-Edit)", "examples",
                   "A prompt about a picture: the text encoder sees it, and with a VAE the model draws from it."),
    KILN_ARRAY(in, edit_in), KILN_ARRAY(out, conditioning_out), KIT_PARAMS(edit_params, edit_param),
    .expand = edit_expand};

/* ---- ExampleConditioningTokens ---- */

static const kiln_port tokens_in[] = {{.name = "conditioning", .type = "CONDITIONING", .doc = "Of one entry."}};
static const kiln_port tokens_out[] = {{.name = "tokens", .type = "*", .doc = "f32 [1,T,D]."}};

static kiln_status tokens_run(const kiln_call *c)
{
    const kiln_value_api *v = kit_values(c);
    kiln_value *tokens = v->map_get(v->list_at(c->in[0], 0), "tokens");
    if (!tokens) return c->host->fail(c->ctx, KILN_ERR_INVALID, "the conditioning has no tokens");
    c->out[0] = c->host->ref(tokens);
    return KILN_OK;
}

const kiln_node qwen_tokens_node = {
    KIT_NODE("ExampleConditioningTokens", "Tokens", "examples", "What a text encoder made of a prompt."),
    KILN_ARRAY(in, tokens_in), KILN_ARRAY(out, tokens_out), .run = tokens_run};
