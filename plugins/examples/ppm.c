/* ppm.c - a node that makes a picture, and a node that writes one in the simplest picture format there is (PPM, P6).
 * Shows: tensors of a size the node chooses, parameters by offset, an output node, files, parallel_for.
 */
#include "kiln/files.h"
#include "kiln/plugin.h"

#include <stdio.h>
#include <string.h>

/* ---- ExampleGradient: red grows to the right, green downwards ---- */

typedef struct {
    int64_t width, height;
    double blue;
} gradient_params;

static const kiln_port gradient_out[] = {
    {.name = "IMAGE", .type = "IMAGE", .dtypes = 1 << KILN_F32, .doc = "The picture."}};
static const kiln_param gradient_param[] = {
    {.name = "width",
     .type = KILN_P_INT,
     .offset = offsetof(gradient_params, width),
     .def = 64,
     .min = 1,
     .max = 4096,
     .doc = "Pixels."},
    {.name = "height",
     .type = KILN_P_INT,
     .offset = offsetof(gradient_params, height),
     .def = 64,
     .min = 1,
     .max = 4096,
     .doc = "Pixels."},
    {.name = "blue",
     .type = KILN_P_FLOAT,
     .offset = offsetof(gradient_params, blue),
     .def = 0.5,
     .min = 0,
     .max = 1,
     .doc = "Blue of every pixel."},
};

typedef struct {
    const gradient_params *p;
    float *pixel;
} gradient_job;

static float share(int64_t i, int64_t n) { return n > 1 ? (float)((double)i / (double)(n - 1)) : 0; }

static void gradient_row(void *arg, size_t y)
{
    const gradient_job *j = arg;
    float *at = j->pixel + y * (size_t)j->p->width * 3;
    for (int64_t x = 0; x < j->p->width; x++, at += 3) {
        at[0] = share(x, j->p->width);
        at[1] = share((int64_t)y, j->p->height);
        at[2] = (float)j->p->blue;
    }
}

static kiln_status gradient_run(const kiln_call *c)
{
    const gradient_params *p = c->params;
    kiln_tensor to = {.size = sizeof to};
    kiln_status status = c->host->progress(c->ctx, 0, 1, "gradient");
    if (status) return status;
    c->out[0] = c->host->tensor_new(c->ctx, KILN_F32, KILN_CPU, 4, (int64_t[]){1, p->height, p->width, 3});
    if (!c->out[0]) return KILN_ERR_NOMEM;
    if (c->estimate) return KILN_OK;
    if ((status = c->host->view(c->ctx, c->out[0], &to))) return status;
    c->host->parallel_for(c->ctx, (size_t)p->height, gradient_row, &(gradient_job){.p = p, .pixel = to.data});
    return KILN_OK;
}

static const kiln_node gradient = {
    .size = sizeof gradient,
    .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES,
    .devices = KILN_CPU,
    .revision = 1,
    .type = "ExampleGradient",
    .title = "Gradient",
    .category = "examples",
    .doc = "A picture whose red grows to the right and whose green grows downwards.",
    KILN_ARRAY(out, gradient_out),
    KILN_ARRAY(param, gradient_param),
    .params_size = sizeof(gradient_params),
    .run = gradient_run,
};

/* ---- ExampleSavePPM ---- */

typedef struct {
    const char *prefix;
} save_params;

static const kiln_port save_in[] = {{.name = "images",
                                     .type = "IMAGE",
                                     .dtypes = 1 << KILN_F32,
                                     .rank_min = 4,
                                     .rank_max = 4,
                                     .doc = "Pictures to write."}};
static const kiln_param save_param[] = {{.name = "filename_prefix",
                                         .type = KILN_P_STRING,
                                         .offset = offsetof(save_params, prefix),
                                         .def_str = "kiln",
                                         .doc = "How the names begin; may hold folders."}};

static const kiln_files_api *files;

/* Rounded. SaveImage cuts off, as ComfyUI does. */
static unsigned char byte_of(float v) { return (unsigned char)(v <= 0 ? 0 : v >= 1 ? 255 : v * 255 + 0.5f); }

static kiln_status save_one(const kiln_call *c, const kiln_tensor *t, const float *pixel)
{
    const save_params *p = c->params;
    char head[64];
    size_t n = (size_t)(t->dim[1] * t->dim[2]), channels = (size_t)t->dim[3];
    unsigned char *bytes = c->host->scratch(c->ctx, n * 3, KILN_CPU);
    if (!bytes) return KILN_ERR_NOMEM;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < 3; k++) bytes[i * 3 + k] = byte_of(pixel[i * channels + k]);
    int length = snprintf(head, sizeof head, "P6\n%lld %lld\n255\n", (long long)t->dim[2], (long long)t->dim[1]);
    kiln_file *f = files->create(c->ctx, KILN_FILES_OUTPUT, p->prefix, "ppm");
    if (!f) return KILN_ERR_IO; /* create() has recorded the message */
    kiln_status status = files->write(f, head, (size_t)length);
    if (!status) status = files->write(f, bytes, n * 3);
    return status ? status : files->commit(f, NULL);
}

static kiln_status save_run(const kiln_call *c)
{
    kiln_tensor t = {.size = sizeof t};
    if (c->estimate) return KILN_OK; /* nothing may be written */
    kiln_status status = c->host->view(c->ctx, c->in[0], &t);
    for (int64_t i = 0; !status && i < t.dim[0]; i++) {
        status = c->host->progress(c->ctx, (uint64_t)i, (uint64_t)t.dim[0], "writing");
        if (!status)
            status = save_one(c, &t, (const float *)t.data + (size_t)i * (size_t)(t.dim[1] * t.dim[2] * t.dim[3]));
    }
    return status;
}

static const kiln_node save = {
    .size = sizeof save,
    .flags = KILN_NODE_OUTPUT | KILN_NODE_ESTIMATES,
    .devices = KILN_CPU,
    .revision = 1,
    .type = "ExampleSavePPM",
    .title = "Save PPM",
    .category = "examples",
    .doc = "Writes each picture as a PPM file.",
    KILN_ARRAY(in, save_in),
    KILN_ARRAY(param, save_param),
    .params_size = sizeof(save_params),
    .run = save_run,
};

static kiln_status open_plugin(const kiln_host *host)
{
    files = host->ability(KILN_FILES_ABILITY);
    return files ? KILN_OK : KILN_ERR_UNSUPPORTED;
}

KILN_PLUGIN_OPEN("org.example.ppm", "1.0.0", "MIT", open_plugin, &gradient, &save);
