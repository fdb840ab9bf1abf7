/* video_guidance_nodes.c - guidance that differs from picture to picture of a batch (VideoLinearCFGGuidance,
 * VideoTriangleCFGGuidance). Names, defaults and formulas are ComfyUI's.
 */
#include "model_patch.h"
#include "model_patch_nodes.h"

#include <math.h>

enum { PICTURES_MAX = 4096 };

static const kiln_port in[] = {{.name = "model", .type = "MODEL", .doc = "The denoiser."}};
static const kiln_port out[] = {{.name = "MODEL", .type = "MODEL", .doc = "The same with the guidance."}};

static const double *numbers(const void *self) { return ((const model_patch *)self)->number; }

static kiln_status put(const kiln_call *c, model_patch *p, kiln_status (*apply)(void *, const kiln_guesses *))
{
    if (p) model_patch_guidance(p, KILN_GUIDANCE_REPLACE, apply);
    return model_patch_put(c, p);
}

/* x0 = negative + scale[i] (positive - negative). */
static void combine(const kiln_guesses *g, size_t n, const double *scale)
{
    double c[2 * PICTURES_MAX];
    for (size_t i = 0; i < n; i++) c[2 * i] = scale[i], c[2 * i + 1] = 1 - scale[i];
    g->latents->lincomb_each(g->latents, g->x0, 2, c, (kiln_latent *[]){g->positive, g->negative});
}

static kiln_status count_pictures(const kiln_guesses *g, size_t *n)
{
    *n = (size_t)g->latents->shape(g->latents, g->x).pictures;
    if (*n <= PICTURES_MAX) return KILN_OK;
    return g->fail(g, KILN_ERR_UNSUPPORTED, "guidance of more than %d pictures at once", PICTURES_MAX);
}

/* ---- along the batch ---- */

typedef struct {
    double min_cfg;
} along_params;
static const kiln_param along_param[] = {
    KIT_FLOAT(along_params, min_cfg, 1, 0, 100, 0.5, "The cfg that the first picture has.")};

static kiln_status apply_linear(void *self, const kiln_guesses *g)
{
    double scale[PICTURES_MAX], least = numbers(self)[0];
    size_t n;
    TRY(count_pictures(g, &n));
    for (size_t i = 0; i < n; i++) scale[i] = n > 1 ? least + (g->cfg - least) * (double)i / (double)(n - 1) : least;
    combine(g, n, scale);
    return KILN_OK;
}

static kiln_status apply_triangle(void *self, const kiln_guesses *g)
{
    double scale[PICTURES_MAX], least = numbers(self)[0];
    size_t n;
    TRY(count_pictures(g, &n));
    for (size_t i = 0; i < n; i++) {
        double at = n > 1 ? (double)i / (double)(n - 1) : 0;
        scale[i] = least + (g->cfg - least) * 2 * fabs(at - floor(at + 0.5));
    }
    combine(g, n, scale);
    return KILN_OK;
}

static kiln_status run_linear(const kiln_call *c)
{
    const along_params *p = c->params;
    return put(c, model_patch_new("VideoLinearCFGGuidance", &p->min_cfg, 1), apply_linear);
}
static kiln_status run_triangle(const kiln_call *c)
{
    const along_params *p = c->params;
    return put(c, model_patch_new("VideoTriangleCFGGuidance", &p->min_cfg, 1), apply_triangle);
}

const kiln_node node_video_linear_cfg = {
    KIT_NODE("VideoLinearCFGGuidance", "VideoLinearCFGGuidance", "sampling/video_models",
             "A cfg that goes from min_cfg at the batch's first picture to the sampler's at its last."),
    KILN_ARRAY(in, in),
    KILN_ARRAY(out, out),
    KIT_PARAMS(along_params, along_param),
    .run = run_linear,
};
const kiln_node node_video_triangle_cfg = {
    KIT_NODE("VideoTriangleCFGGuidance", "VideoTriangleCFGGuidance", "sampling/video_models",
             "A cfg that goes from min_cfg at the batch's ends to the sampler's in its middle."),
    KILN_ARRAY(in, in),
    KILN_ARRAY(out, out),
    KIT_PARAMS(along_params, along_param),
    .run = run_triangle,
};
