/* video_guidance_nodes.c - guidance that differs from picture to picture of a batch (VideoLinearCFGGuidance,
 * VideoTriangleCFGGuidance), and RenormCFG. Names, defaults and formulas are ComfyUI's.
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

/* x0 = negative + scale[i] (positive - negative), times factor[i]. */
static void combine(const kiln_guesses *g, size_t n, const double *scale, const double *factor)
{
    double c[2 * PICTURES_MAX];
    for (size_t i = 0; i < n; i++) {
        c[2 * i] = scale[i] * (factor ? factor[i] : 1);
        c[2 * i + 1] = (1 - scale[i]) * (factor ? factor[i] : 1);
    }
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
    combine(g, n, scale, NULL);
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
    combine(g, n, scale, NULL);
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

/* ---- RenormCFG ---- */

typedef struct {
    double cfg_trunc, renorm_cfg;
} renorm_params;
static const kiln_param renorm_param[] = {
    KIT_FLOAT(renorm_params, cfg_trunc, 100, 0, 100, 0.01, "At noise levels from here on there is no guidance."),
    KIT_FLOAT(renorm_params, renorm_cfg, 1, 0, 100, 0.01,
              "The result is at most this many times as long as the positive guess; 0: of any length."),
};

static kiln_status apply_renorm(void *self, const kiln_guesses *g)
{
    const double *by = numbers(self), p[2] = {1, 0}, both[2] = {g->cfg, 1 - g->cfg};
    double scale[PICTURES_MAX], factor[PICTURES_MAX], p2[PICTURES_MAX], c2[PICTURES_MAX];
    kiln_latent *x[] = {g->positive, g->negative};
    const kiln_latents *l = g->latents;
    int guides = g->sigma < by[0];
    size_t n;
    TRY(count_pictures(g, &n));
    l->dot(l, &(kiln_latent_dot){.size = sizeof(kiln_latent_dot), .n = 2, .a = p, .b = p, .x = x}, p2);
    l->dot(l, &(kiln_latent_dot){.size = sizeof(kiln_latent_dot), .n = 2, .a = both, .b = both, .x = x}, c2);
    for (size_t i = 0; i < n; i++) {
        double most = sqrt(p2[i]) * by[1], length = sqrt(c2[i]);
        scale[i] = guides ? g->cfg : 1;
        factor[i] = guides && by[1] > 0 && length >= most && length > 0 ? most / length : 1;
    }
    combine(g, n, scale, factor);
    return KILN_OK;
}

static kiln_status run_renorm(const kiln_call *c)
{
    const renorm_params *p = c->params;
    return put(c, model_patch_new("RenormCFG", (double[]){p->cfg_trunc, p->renorm_cfg}, 2), apply_renorm);
}

const kiln_node node_renorm_cfg = {
    KIT_NODE("RenormCFG", "RenormCFG", "advanced/model",
             "Guidance whose result is no longer than the positive guess, as Lumina 2 has it."),
    KILN_ARRAY(in, in),
    KILN_ARRAY(out, out),
    KIT_PARAMS(renorm_params, renorm_param),
    .run = run_renorm,
};
