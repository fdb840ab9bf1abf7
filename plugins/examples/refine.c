/* refine.c - a node that stands for others (kiln/graph.h): it enlarges a picture and lets a MODEL draw over it, several
 * times. Each time is an ImageScaleBy, a VAEEncode, a KSampler and a VAEDecode, which kiln checks, keeps and shows as
 * if they stood in the workflow: with one time more, the earlier ones come from the cache.
 */
#include "kiln/graph.h"
#include "kiln/kit.h"

#include <stdio.h>

typedef struct {
    int64_t times, steps;
    double scale, denoise, cfg;
    uint64_t seed;
    const char *sampler;
} refine_params;

/* What expand() only passes on may be wired to what a run computes; `times`, `scale` and `seed` it looks at. */
static const kiln_param refine_param[] = {
    KIT_INT(refine_params, times, 2, 0, 8, "How often; 0: the picture as it is."),
    KIT_FLOAT(refine_params, scale, 1.5, 1, 4, 0.05, "How much larger it becomes each time."),
    KIT_SEED(refine_params, seed, "Of the first time; the next ones follow."),
    {.name = "steps",
     .type = KILN_P_INT,
     .flags = KILN_PARAM_PASSED,
     .offset = offsetof(refine_params, steps),
     .def = 20,
     .min = 1,
     .max = 10000,
     .step = 1,
     .doc = "Steps of each time."},
    {.name = "denoise",
     .type = KILN_P_FLOAT,
     .flags = KILN_PARAM_PASSED,
     .offset = offsetof(refine_params, denoise),
     .def = 0.5,
     .min = 0,
     .max = 1,
     .step = 0.01,
     .doc = "How much is drawn anew."},
    {.name = "cfg",
     .type = KILN_P_FLOAT,
     .flags = KILN_PARAM_PASSED,
     .offset = offsetof(refine_params, cfg),
     .def = 8,
     .min = 0,
     .max = 100,
     .step = 0.1,
     .doc = "Guidance scale."},
    {.name = "sampler_name",
     .type = KILN_P_NAME,
     .flags = KILN_PARAM_PASSED,
     .offset = offsetof(refine_params, sampler),
     .def_str = "euler",
     .from = "sampler",
     .doc = "The sampler."},
};
static const kiln_port refine_in[] = {
    {.name = "image", .type = "IMAGE", .doc = "What to begin with."},
    {.name = "model", .type = "MODEL", .doc = "Draws."},
    {.name = "positive", .type = "CONDITIONING", .doc = "What to draw."},
    {.name = "negative", .type = "CONDITIONING", .doc = "What not to draw."},
    {.name = "vae", .type = "VAE", .doc = "Encodes and decodes."},
};
static const kiln_port refine_out[] = {{.name = "image", .type = "IMAGE", .doc = "The picture after the last time."}};

typedef struct {
    char scaled[16], latent[16], drawn[16], image[16];
} names;

static names names_of(int64_t time)
{
    names n;
    snprintf(n.scaled, sizeof n.scaled, "scale%d", (int)time);
    snprintf(n.latent, sizeof n.latent, "encode%d", (int)time);
    snprintf(n.drawn, sizeof n.drawn, "draw%d", (int)time);
    snprintf(n.image, sizeof n.image, "decode%d", (int)time);
    return n;
}

/* The first mistake is kept, so nothing is looked at in between. */
static void add_time(const kiln_graph_api *b, kiln_graph *g, const refine_params *p, int64_t time)
{
    static const char *const own[] = {"model", "positive", "negative", "steps", "denoise", "cfg", "sampler_name"};
    names n = names_of(time), before = names_of(time - 1);
    b->node(g, n.scaled, "ImageScaleBy");
    if (time == 1)
        b->pass(g, n.scaled, "image", "image");
    else
        b->wire(g, n.scaled, "image", before.image, "IMAGE");
    b->set_text(g, n.scaled, "upscale_method", "bicubic");
    b->set_float(g, n.scaled, "scale_by", p->scale);
    b->node(g, n.latent, "VAEEncode");
    b->wire(g, n.latent, "pixels", n.scaled, "IMAGE");
    b->pass(g, n.latent, "vae", "vae");
    b->node(g, n.drawn, "KSampler");
    b->wire(g, n.drawn, "latent_image", n.latent, "LATENT");
    b->set_text(g, n.drawn, "scheduler", "normal");
    b->set_seed(g, n.drawn, "seed", p->seed + (uint64_t)(time - 1));
    for (size_t i = 0; i < COUNT(own); i++) b->pass(g, n.drawn, own[i], own[i]);
    b->node(g, n.image, "VAEDecode");
    b->wire(g, n.image, "samples", n.drawn, "LATENT");
    b->pass(g, n.image, "vae", "vae");
}

static kiln_status expand(const kiln_call *c, kiln_graph *g)
{
    const kiln_graph_api *b = c->host->ability(KILN_GRAPH_ABILITY);
    const refine_params *p = c->params;
    if (!b) return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, "this kiln has no %s", KILN_GRAPH_ABILITY);
    for (int64_t time = 1; time <= p->times; time++) add_time(b, g, p, time);
    return p->times ? b->output(g, "image", names_of(p->times).image, "IMAGE") : b->output_passed(g, "image", "image");
}

static const kiln_node refine = {
    KIT_NODE_FLAGS(KILN_NODE_EXPANDS, 1, "ExampleRefine", "Refine", "examples",
                   "Enlarges a picture and draws over it, several times."),
    KILN_ARRAY(in, refine_in),
    KILN_ARRAY(out, refine_out),
    KIT_PARAMS(refine_params, refine_param),
    .expand = expand,
};

KILN_PLUGIN("org.example.refine", "1.0.0", "MIT", &refine);
