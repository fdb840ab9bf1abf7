/* unet_nodes.c - nodes that change what a UNet computes: FreeU, HyperTile, TomePatchModel, PatchModelAddDownscale.
 * Names, defaults and ranges are ComfyUI's.
 */
#include "deep_shrink.h"
#include "free_u.h"
#include "hyper_tile.h"
#include "kiln/resize.h"
#include "model_patch_nodes.h"
#include "token_merging.h"

static const kiln_port in[] = {{.name = "model", .type = "MODEL", .doc = "The denoiser, a UNet."}};
static const kiln_port out[] = {{.name = "MODEL", .type = "MODEL", .doc = "The same with the patch."}};
#define UNET_NODE(id, title, text)                                                                                     \
    KIT_NODE(id, title, "model_patches/unet", text), KILN_ARRAY(in, in), KILN_ARRAY(out, out)

/* The model as it is: the patch changes nothing. */
static kiln_status as_it_is(const kiln_call *c)
{
    c->out[0] = c->host->ref(c->in[0]);
    return KILN_OK;
}

/* The model has a place that begins and ends so; else a sentence. */
static kiln_status check_place(const kiln_call *c, const char *name, const char *begin, const char *end)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *m = models->model(c->ctx, c->in[0]);
    if (!m) return KILN_ERR_INVALID;
    if (model_patch_places(m, begin, end)) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "%s acts at '%s*%s', a place that this model does not have: it is for UNets", name, begin,
                         end);
}

/* ---- FreeU ---- */

typedef struct {
    double b1, b2, s1, s2;
} free_u_params;

#define FREE_U_PARAMS(b1_, b2_)                                                                                        \
    KIT_FLOAT(free_u_params, b1, b1_, 0, 10, 0.01, "Half of what comes up, times this: the lowest resolution."),       \
        KIT_FLOAT(free_u_params, b2, b2_, 0, 10, 0.01, "The same at the next resolution."),                            \
        KIT_FLOAT(free_u_params, s1, 0.9, 0, 10, 0.01,                                                                 \
                  "Low frequencies of skips, times this: the lowest resolution."),                                     \
        KIT_FLOAT(free_u_params, s2, 0.2, 0, 10, 0.01, "The same at the next resolution.")

static const kiln_param free_u_param[] = {FREE_U_PARAMS(1.1, 1.2)}, free_u_v2_param[] = {FREE_U_PARAMS(1.3, 1.4)};

static kiln_status put_free_u(const kiln_call *c, int version)
{
    const free_u_params *p = c->params;
    TRY(check_place(c, version == 1 ? "FreeU" : "FreeU_V2", "output.", ".skip"));
    if (p->b1 == 1 && p->b2 == 1 && p->s1 == 1 && p->s2 == 1) return as_it_is(c);
    return model_patch_put(c, free_u_new((double[]){p->b1, p->b2, p->s1, p->s2}, version));
}

static kiln_status run_free_u(const kiln_call *c) { return put_free_u(c, 1); }
static kiln_status run_free_u_v2(const kiln_call *c) { return put_free_u(c, 2); }

const kiln_node node_free_u = {
    UNET_NODE("FreeU", "FreeU", "Strengthens what comes up through a UNet against its skips (Si et al. 2023)."),
    KIT_PARAMS(free_u_params, free_u_param),
    .run = run_free_u,
};
const kiln_node node_free_u_v2 = {
    UNET_NODE("FreeU_V2", "FreeU_V2", "FreeU whose strength follows the features' mean, cell by cell."),
    KIT_PARAMS(free_u_params, free_u_v2_param),
    .run = run_free_u_v2,
};

/* ---- HyperTile ---- */

typedef struct {
    int64_t tile_size, swap_size, max_depth;
    int32_t scale_depth;
} hyper_tile_params;

static const kiln_param hyper_tile_param[] = {
    KIT_INT(hyper_tile_params, tile_size, 256, 1, 2048, "Pixels of a tile's side at least; below 32 is 32."),
    KIT_INT(hyper_tile_params, swap_size, 2, 1, 128, "Tile sizes that attentions choose among: one less than this."),
    KIT_INT(hyper_tile_params, max_depth, 0, 0, 10, "Resolutions below the highest that are tiled too."),
    KIT_BOOL(hyper_tile_params, scale_depth, 0, "Larger tiles at lower resolutions."),
};

static kiln_status run_hyper_tile(const kiln_call *c)
{
    const hyper_tile_params *p = c->params;
    TRY(check_place(c, "HyperTile", "", ".attn1"));
    return model_patch_put(
        c, hyper_tile_new(&(hyper_tile_settings){p->tile_size, p->swap_size, p->max_depth, p->scale_depth}));
}

const kiln_node node_hyper_tile = {
    UNET_NODE("HyperTile", "HyperTile", "Self-attention in tiles at high resolutions, which costs less."),
    KIT_PARAMS(hyper_tile_params, hyper_tile_param),
    .run = run_hyper_tile,
};

/* ---- TomePatchModel ---- */

typedef struct {
    double ratio;
} tome_params;

static const kiln_param tome_param[] = {
    KIT_FLOAT(tome_params, ratio, 0.3, 0, 1, 0.01, "Share of tokens that are merged; three quarters is the most."),
};

static kiln_status run_tome(const kiln_call *c)
{
    const tome_params *p = c->params;
    TRY(check_place(c, "TomePatchModel", "", ".attn1"));
    return p->ratio > 0 ? model_patch_put(c, token_merging_new(p->ratio)) : as_it_is(c);
}

const kiln_node node_tome = {
    UNET_NODE("TomePatchModel", "TomePatchModel",
              "Self-attention at the highest resolution with like tokens merged, which costs less."),
    KIT_PARAMS(tome_params, tome_param),
    .run = run_tome,
};

/* ---- PatchModelAddDownscale ---- */

enum { BISLERP = RESIZE_BICUBIC + 1 };

typedef struct {
    int64_t block_number;
    double downscale_factor, start_percent, end_percent;
    int32_t downscale_after_skip, downscale_method, upscale_method;
} deep_shrink_params;

static const kiln_choice method_choice[] = {{.name = "bicubic", .value = RESIZE_BICUBIC},
                                            {.name = "nearest-exact", .value = RESIZE_NEAREST},
                                            {.name = "bilinear", .value = RESIZE_BILINEAR},
                                            {.name = "area", .value = RESIZE_AREA},
                                            {.name = "bislerp", .value = BISLERP, .doc = "not of features: refused"},
                                            {0}};

static const kiln_param deep_shrink_param[] = {
    KIT_INT(deep_shrink_params, block_number, 3, 1, 32,
            "The block of the way down behind which there are fewer cells."),
    KIT_FLOAT(deep_shrink_params, downscale_factor, 2, 0.1, 9, 0.001, "How many times fewer, along each side."),
    KIT_FLOAT(deep_shrink_params, start_percent, 0, 0, 1, 0.001, "Share of the denoising from which it acts."),
    KIT_FLOAT(deep_shrink_params, end_percent, 0.35, 0, 1, 0.001, "Share of the denoising up to which it acts."),
    KIT_BOOL(deep_shrink_params, downscale_after_skip, 1, "The block's skip connection keeps its size."),
    KIT_ENUM(deep_shrink_params, downscale_method, method_choice, RESIZE_BICUBIC, "How cells become fewer."),
    KIT_ENUM(deep_shrink_params, upscale_method, method_choice, RESIZE_BICUBIC, "How they become more again."),
};

static kiln_status check_deep_shrink(const kiln_call *c, const deep_shrink_params *p)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    TRY(check_place(c, "PatchModelAddDownscale", "input.", ".after_skip"));
    size_t blocks = model_patch_places(models->model(c->ctx, c->in[0]), "input.", ".after_skip");
    if ((size_t)p->block_number >= blocks)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "block_number is %lld, and the way down of this model has blocks 0 to %zu",
                             (long long)p->block_number, blocks - 1);
    if (p->downscale_method != BISLERP && p->upscale_method != BISLERP) return KILN_OK;
    return c->host->fail(
        c->ctx, KILN_ERR_UNSUPPORTED,
        "%s bislerp turns latents along a sphere, and a network's features are not scaled so here; take "
        "bicubic or bilinear",
        p->downscale_method == BISLERP ? "downscale_method" : "upscale_method");
}

static kiln_status run_deep_shrink(const kiln_call *c)
{
    const deep_shrink_params *p = c->params;
    TRY(check_deep_shrink(c, p));
    if (p->end_percent <= 0 || p->start_percent > p->end_percent || p->downscale_factor == 1)
        return as_it_is(c); /* it acts at no level, or on nothing */
    return model_patch_put(c, deep_shrink_new(&(deep_shrink_settings){.block = p->block_number,
                                                                      .factor = p->downscale_factor,
                                                                      .start = p->start_percent,
                                                                      .end = p->end_percent,
                                                                      .after_skip = p->downscale_after_skip,
                                                                      .down = p->downscale_method,
                                                                      .up = p->upscale_method}));
}

const kiln_node node_deep_shrink = {
    UNET_NODE("PatchModelAddDownscale", "PatchModelAddDownscale (Kohya Deep Shrink)",
              "Fewer cells inside a UNet for the first steps, so that a large picture has one composition."),
    KIT_PARAMS(deep_shrink_params, deep_shrink_param),
    .run = run_deep_shrink,
};
