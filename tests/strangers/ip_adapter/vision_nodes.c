/* vision_nodes.c - the nodes that open a vision encoder and encode pictures with it. Preprocessing happens here, on the
 * host: short side to image_size (bicubic with antialiasing, as PIL and torch have it), the middle square, normalised.
 */
#include "ip_adapter.h"

#include <math.h>
#include <stdlib.h>

/* ---- ExampleCLIPVisionLoader ---- */

typedef struct {
    const char *path;
} loader_params;

static const kiln_port vision_out[] = {{.name = "CLIP_VISION", .type = "CLIP_VISION", .doc = "The encoder."}};
static const kiln_param loader_param[] = {{.name = "clip_name",
                                           .type = KILN_P_FILE,
                                           .flags = KILN_PARAM_REQUIRED,
                                           .offset = offsetof(loader_params, path),
                                           .from = "clip_vision",
                                           .doc = "A folder in transformers' layout."}};

static kiln_status load(const kiln_call *c)
{
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const char *path = ((const loader_params *)c->params)->path;
    kiln_weights *set = w->open(c->ctx, path);
    if (!set) return KILN_ERR_INVALID;
    const kiln_model_family *family = models->detect(KILN_FAMILY_VISION, set);
    if (family)
        c->out[0] = family->open(c->host, c->ctx, set);
    else
        c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, "%s: no loaded plugin knows a vision encoder in it", path);
    w->unref(set);
    return c->out[0] ? KILN_OK : KILN_ERR_INVALID;
}

const kiln_node node_vision_loader = {
    KIT_NODE("ExampleCLIPVisionLoader", "Load a vision encoder", "example", "Opens CLIP's vision encoder."),
    KILN_ARRAY(out, vision_out), KIT_PARAMS(loader_params, loader_param), .run = load};

/* ---- preprocessing ---- */

/* One axis of a picture of rows x n x inner numbers. */
typedef struct {
    int64_t rows, n, inner;
} axis_shape;

static double cubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((x - 5) * x + 8) * x * a - 4 * a : 0;
}

/* out [rows, to, inner] = x [rows, n, inner] scaled along the middle axis; what overshoots is cut, as bytes are. */
static void resize_axis_antialiased(const float *x, axis_shape s, int64_t to, float *out)
{
    double scale = (double)s.n / (double)to, wide = scale > 1 ? scale : 1;
    for (int64_t i = 0; i < to; i++) {
        double centre = ((double)i + 0.5) * scale, total = 0;
        int64_t first = (int64_t)fmax(centre - 2 * wide + 0.5, 0);
        int64_t end = (int64_t)fmin(centre + 2 * wide + 0.5, (double)s.n);
        for (int64_t k = first; k < end; k++) total += cubic(((double)k - centre + 0.5) / wide);
        for (int64_t r = 0; r < s.rows; r++)
            for (int64_t j = 0; j < s.inner; j++) {
                double sum = 0;
                for (int64_t k = first; k < end; k++)
                    sum += cubic(((double)k - centre + 0.5) / wide) * (double)x[(r * s.n + k) * s.inner + j];
                out[(r * to + i) * s.inner + j] = (float)fmin(fmax(sum / total, 0), 1);
            }
    }
}

typedef struct {
    int64_t size;
    double mean[3], std[3];
} preprocessing;

static kiln_status read_facts(const kiln_call *c, const kiln_network *n, preprocessing *out)
{
    const kiln_value_api *v = kit_values(c);
    const kiln_value *mean = n->facts ? v->map_get(n->facts, "mean") : NULL;
    const kiln_value *std = n->facts ? v->map_get(n->facts, "std") : NULL;
    int known = n->facts && v->get_int(v->map_get(n->facts, "image_size"), &out->size) == KILN_OK;
    for (size_t i = 0; known && i < 3; i++)
        known = v->get_float(v->list_at(mean, i), &out->mean[i]) == KILN_OK &&
                v->get_float(v->list_at(std, i), &out->std[i]) == KILN_OK;
    if (known) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "the vision encoder does not say image_size, mean and std");
}

/* One picture [h,w,3] -> out [size,size,3]. */
static kiln_status preprocess(const kiln_call *c, const preprocessing *p, const float *x, const int64_t hw[2],
                              float *out)
{
    int64_t h = hw[0], w = hw[1], shorter = h < w ? h : w, to_h = p->size * h / shorter, to_w = p->size * w / shorter;
    if (to_h != h || to_w != w) {
        float *across = c->host->scratch(c->ctx, (size_t)(h * to_w * 3) * sizeof *across, KILN_CPU);
        float *both = c->host->scratch(c->ctx, (size_t)(to_h * to_w * 3) * sizeof *both, KILN_CPU);
        if (!across || !both) return KILN_ERR_NOMEM;
        resize_axis_antialiased(x, (axis_shape){h, w, 3}, to_w, across);
        resize_axis_antialiased(across, (axis_shape){1, h, to_w * 3}, to_h, both);
        x = both;
    }
    int64_t top = (to_h - p->size) / 2, left = (to_w - p->size) / 2;
    for (int64_t i = 0; i < p->size * p->size * 3; i++) {
        int64_t row = i / (p->size * 3), column = i / 3 % p->size;
        double number = (double)x[((top + row) * to_w + left + column) * 3 + i % 3];
        out[i] = (float)((number - p->mean[i % 3]) / p->std[i % 3]);
    }
    return KILN_OK;
}

/* ---- ExampleCLIPVisionEncode ---- */

static const kiln_port encode_in[] = {
    {.name = "clip_vision", .type = "CLIP_VISION", .doc = "The encoder."},
    {.name = "image", .type = "IMAGE", .doc = "What to encode: one picture, or several."},
};
static const kiln_port encode_out[] = {
    {.name = "CLIP_VISION_OUTPUT", .type = "CLIP_VISION_OUTPUT", .doc = "A map { image_embeds: f32 [N,D] }."}};

typedef struct {
    const kiln_ops *ops;
    kiln_program *p;
    int64_t width;
} encoding;

static void take_result(const kiln_outputs *out, const char *name, kiln_t t)
{
    encoding *e = out->self;
    e->ops->output(e->p, name, t);
    if (strcmp(name, "image_embeds") == 0) e->width = dim_at(e->ops, e->p, t, 1);
}

/* A planned program for n pictures. */
static kiln_status record_encoder(const kiln_call *c, const kiln_net *net, const int64_t dim[4], encoding *e)
{
    kiln_program_options options = {.size = sizeof options, .name = "vision"};
    kiln_outputs out = {.size = sizeof out, .self = e, .add = take_result};
    if (!(e->p = e->ops->program_new(c->ctx, &options))) return KILN_ERR_NOMEM;
    kiln_named_tensor in = {
        .size = sizeof in, .name = "pixels", .tensor = e->ops->input(e->p, "pixels", KILN_F32, 4, dim)};
    net->network->record(net->network, e->ops, e->p, net->weights, &in, 1, &out);
    TRY(e->ops->plan(c->ctx, e->p, NULL));
    return e->width ? KILN_OK : c->host->fail(c->ctx, KILN_ERR_INVALID, "the vision encoder gives no image_embeds");
}

static kiln_status run_encoder(const kiln_call *c, const kiln_net *net, const kiln_tensor *image)
{
    const kiln_value_api *v = kit_values(c);
    encoding e = {.ops = c->host->ability(KILN_OPS_ABILITY)};
    preprocessing how;
    TRY(read_facts(c, net->network, &how));
    int64_t n = image->dim[0], dim[] = {n, how.size, how.size, 3}, picture = image->dim[1] * image->dim[2] * 3;
    float *pixels = c->host->scratch(c->ctx, (size_t)(n * how.size * how.size * 3) * sizeof *pixels, KILN_CPU);
    if (!pixels) return KILN_ERR_NOMEM;
    for (int64_t i = 0; i < n && !kit_estimating(c); i++)
        TRY(preprocess(c, &how, (const float *)image->data + i * picture, image->dim + 1,
                       pixels + i * how.size * how.size * 3));
    kiln_value *embeds = NULL;
    kiln_tensor t;
    kiln_status status = record_encoder(c, net, dim, &e);
    if (status == KILN_OK) status = kit_new_f32(c, 2, KILN_DIMS(n, e.width), &embeds, &t);
    if (status == KILN_OK) {
        kiln_bind in = KILN_BIND("pixels", kit_window(KILN_F32, KILN_CPU, pixels, 4, dim));
        kiln_bind out = KILN_BIND("image_embeds", kit_window(KILN_F32, KILN_CPU, t.data, 2, t.dim));
        status = e.ops->run(c->ctx, e.p, &in, 1, &out, 1);
    }
    e.ops->program_free(e.p);
    c->out[0] = status == KILN_OK ? v->new_map(c->ctx) : NULL;
    if (c->out[0]) return kit_set(c, c->out[0], "image_embeds", embeds);
    c->host->unref(embeds);
    return status == KILN_OK ? KILN_ERR_NOMEM : status;
}

static kiln_status encode(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_net *net = models->net(c->ctx, c->in[0], "CLIP_VISION");
    kiln_tensor image;
    if (!net) return KILN_ERR_INVALID;
    TRY(kit_f32(c, c->in[1], 4, "the picture", &image));
    if (image.dim[3] != 3)
        return c->host->fail(
            c->ctx, KILN_ERR_INVALID,
            "the picture has %lld channels, and the encoder takes 3; SplitImageWithAlpha drops a fourth",
            (long long)image.dim[3]);
    return run_encoder(c, net, &image);
}

const kiln_node node_vision_encode = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_DEVICE | KILN_NODE_ESTIMATES, 1,
                   "ExampleCLIPVisionEncode", "Encode a picture", "example", "A picture's embedding."),
    KILN_ARRAY(in, encode_in), KILN_ARRAY(out, encode_out), .run = encode};
