/* image_gain.c - a complete node plugin: multiplies an image by a factor. Copy this folder to start your own plugin;
 * docs/writing-a-plugin.md goes through it line by line.
 */
#include "kiln/plugin.h"

typedef struct {
    double gain;
} gain_params;

static const kiln_port in[] = {{.name = "image", .type = "IMAGE", .dtypes = 1 << KILN_F32, .doc = "Picture to scale."}};
static const kiln_port out[] = {
    {.name = "IMAGE", .type = "IMAGE", .dtypes = 1 << KILN_F32, .doc = "The scaled picture."}};
static const kiln_param param[] = {
    {.name = "gain",
     .type = KILN_P_FLOAT,
     .offset = offsetof(gain_params, gain),
     .def = 1,
     .min = 0,
     .max = 16,
     .step = 0.01,
     .doc = "Factor for every sample."},
};

static kiln_status run(const kiln_call *c)
{
    const gain_params *p = c->params;
    kiln_tensor from = {.size = sizeof from}, to = {.size = sizeof to};
    kiln_status status = c->host->view(c->ctx, c->in[0], &from);
    if (status) return status;
    c->out[0] = c->host->tensor_new(c->ctx, KILN_F32, KILN_CPU, from.rank, from.dim);
    if (!c->out[0]) return KILN_ERR_NOMEM;
    if (c->estimate) return KILN_OK; /* only shapes are asked for: tensors have no data */
    if ((status = c->host->view(c->ctx, c->out[0], &to))) return status;

    size_t n = 1;
    for (uint32_t i = 0; i < from.rank; i++) n *= (size_t)from.dim[i];
    for (size_t i = 0; i < n; i++) {
        if (i % 65536 == 0 && (status = c->host->progress(c->ctx, i, n, "gain"))) return status;
        double v = ((const float *)from.data)[i] * p->gain;
        ((float *)to.data)[i] = (float)(v < 1 ? v : 1);
    }
    return KILN_OK;
}

static const kiln_node gain = {
    .size = sizeof gain,
    .flags = KILN_NODE_PURE | KILN_NODE_ESTIMATES,
    .devices = KILN_CPU,
    .revision = 1,
    .type = "ImageGain",
    .title = "Image Gain",
    .category = "image",
    .doc = "Multiplies every sample of a picture by a factor; what goes past white stays white.",
    KILN_ARRAY(in, in),
    KILN_ARRAY(out, out),
    KILN_ARRAY(param, param),
    .params_size = sizeof(gain_params),
    .run = run,
};

KILN_PLUGIN("org.example.image-gain", "1.0.0", "MIT", &gain);
