/* my_plugin.c - a node that multiplies a picture by a factor: rows that say what it takes and gives, and run(). */
#include "kiln/plugin.h"

typedef struct {
    double gain;
} my_plugin_params;

static const kiln_port in[] = {{.name = "image", .doc = "Picture to scale.", .type = "IMAGE"}};
static const kiln_port out[] = {{.name = "IMAGE", .doc = "The scaled picture.", .type = "IMAGE"}};
static const kiln_param param[] = {
    {.name = "gain",
     .doc = "Factor for every sample.",
     .type = KILN_P_FLOAT,
     .offset = offsetof(my_plugin_params, gain),
     .def = 1,
     .min = 0,
     .max = 16,
     .step = 0.01},
};

static kiln_status run(const kiln_call *c)
{
    const my_plugin_params *p = (const my_plugin_params *)c->params;
    kiln_tensor from, to;
    from.size = to.size = sizeof from;
    kiln_status status = c->host->view(c->ctx, c->in[0], &from);
    if (status) return status;
    c->out[0] = c->host->tensor_new(c->ctx, KILN_F32, KILN_CPU, from.rank, from.dim);
    if (!c->out[0]) return KILN_ERR_NOMEM;
    if (c->estimate) return KILN_OK; /* only shapes are asked for: tensors have no data */
    if ((status = c->host->view(c->ctx, c->out[0], &to)) != KILN_OK) return status;

    const float *x = (const float *)from.data;
    float *y = (float *)to.data;
    size_t n = 1;
    for (uint32_t i = 0; i < from.rank; i++) n *= (size_t)from.dim[i];
    for (size_t i = 0; i < n; i++) {
        if (i % 65536 == 0 && (status = c->host->progress(c->ctx, i, n, "my-plugin")) != KILN_OK) return status;
        double v = (double)x[i] * p->gain;
        y[i] = (float)(v < 1 ? v : 1);
    }
    return KILN_OK;
}

static const kiln_node node = {
    .size = sizeof node,
    .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES,
    .devices = KILN_CPU,
    .revision = 1, /* raise it when the same inputs give another picture */
    .type = "MyPlugin",
    .title = "My Plugin",
    .category = "image",
    .doc = "Multiplies every sample of a picture by a factor; what goes past white stays white.",
    KILN_ARRAY(in, in),
    KILN_ARRAY(out, out),
    KILN_ARRAY(param, param),
    .params_size = sizeof(my_plugin_params),
    .run = run,
};

KILN_PLUGIN("org.example.my-plugin", "0.1.0", "MIT", &node);
