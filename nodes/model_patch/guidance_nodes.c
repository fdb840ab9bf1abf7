/* guidance_nodes.c - nodes that hang guidance on a MODEL: what is made of its guesses at each step. Names, defaults and
 * ranges are ComfyUI's.
 */
#include "attention_guidance.h"
#include "guidance_by_cell.h"
#include "guidance_by_frequency.h"
#include "guidance_by_level.h"
#include "guidance_by_picture.h"
#include "model_patch.h"
#include "model_patch_nodes.h"
#include "self_attention_guidance.h"
#include "smoothed_energy.h"

#include <stdio.h>

static const kiln_port in[] = {{.name = "model", .type = "MODEL", .doc = "The denoiser."}};
static const kiln_port out[] = {{.name = "MODEL", .type = "MODEL", .doc = "The same with the guidance."}};
#define GUIDANCE_NODE(id, title, category, text)                                                                       \
    KIT_NODE(id, title, category, text), KILN_ARRAY(in, in), KILN_ARRAY(out, out)

/* c->out[0] = the MODEL with guidance of those numbers. */
static kiln_status put(const kiln_call *c, model_patch *p, uint32_t flags,
                       kiln_status (*apply)(void *, const kiln_guesses *))
{
    if (p) model_patch_guidance(p, flags, apply);
    return model_patch_put(c, p);
}

static const double *numbers(const void *self) { return ((const model_patch *)self)->number; }

/* ---- APG ---- */

static const kiln_param apg_param[] = {
    KIT_FLOAT(apg_settings, eta, 1, -10, 10, 0.01, "Share of the guidance along the positive guess; 1: all, as CFG."),
    KIT_FLOAT(apg_settings, norm_threshold, 5, 0, 50, 0.1, "The guidance is at most that long; 0: any length."),
    KIT_FLOAT(apg_settings, momentum, 0, -5, 1, 0.01,
              "How much of the guidance before is added at each step; below 0 it is taken away; 0: none."),
};

static kiln_status apply_apg(void *self, const kiln_guesses *g)
{
    const double *n = numbers(self);
    return guidance_apg(&(apg_settings){n[0], n[1], n[2]}, g);
}

static kiln_status run_apg(const kiln_call *c)
{
    const apg_settings *s = c->params;
    uint32_t flags = KILN_GUIDANCE_BEFORE | (s->momentum != 0 ? KILN_GUIDANCE_REMEMBERS : 0);
    return put(c, model_patch_new("APG", (double[]){s->eta, s->norm_threshold, s->momentum}, 3), flags, apply_apg);
}

const kiln_node node_apg = {
    GUIDANCE_NODE("APG", "Adaptive Projected Guidance", "sampling/custom_sampling",
                  "Guidance without what oversaturates: shortened, and less of it along the positive guess "
                  "(Sadat et al. 2024)."),
    KIT_PARAMS(apg_settings, apg_param),
    .run = run_apg,
};

/* ---- CFGZeroStar, TCFG, Mahiro ---- */

static kiln_status apply_zero_star(void *self, const kiln_guesses *g) { return (void)self, guidance_zero_star(g); }
static kiln_status run_zero_star(const kiln_call *c)
{
    return put(c, model_patch_new("CFGZeroStar", NULL, 0), 0, apply_zero_star);
}

const kiln_node node_cfg_zero_star = {
    GUIDANCE_NODE("CFGZeroStar", "CFGZeroStar", "advanced/guidance",
                  "Scales the negative guess to where it is nearest to the positive one (Fan et al. 2025)."),
    .run = run_zero_star,
};

static kiln_status apply_tangential(void *self, const kiln_guesses *g) { return (void)self, guidance_tangential(g); }
static kiln_status run_tcfg(const kiln_call *c)
{
    return put(c, model_patch_new("TCFG", NULL, 0), KILN_GUIDANCE_BEFORE, apply_tangential);
}

const kiln_node node_tcfg = {
    GUIDANCE_NODE("TCFG", "Tangential Damping CFG", "advanced/guidance",
                  "Keeps of the negative guess only what it has in common with the positive one (Kwon et al. 2025)."),
    .run = run_tcfg,
};

static kiln_status apply_mahiro(void *self, const kiln_guesses *g) { return (void)self, guidance_mahiro(g); }
static kiln_status run_mahiro(const kiln_call *c)
{
    return put(c, model_patch_new("Mahiro", NULL, 0), 0, apply_mahiro);
}

const kiln_node node_mahiro = {
    GUIDANCE_NODE("Mahiro", "Positive-Biased Guidance", "experimental",
                  "Guides along the positive guess itself where the negative points elsewhere."),
    .run = run_mahiro,
};

/* ---- CFGNorm ---- */

typedef struct {
    double strength;
    int32_t pre_cfg;
} norm_params;

static const kiln_param norm_param[] = {
    KIT_FLOAT(norm_params, strength, 1, 0, 100, 0.01, "Times the result; with pre_cfg the share of the rescaled one."),
    KIT_BOOL(norm_params, pre_cfg, 0, "Rescale the noise in place of the usual guidance; may lengthen it as well."),
};

static kiln_status apply_norm(void *self, const kiln_guesses *g)
{
    const double *n = numbers(self);
    return n[1] != 0 ? guidance_norm_instead(n[0], g) : guidance_norm_after(n[0], g);
}

static kiln_status run_norm(const kiln_call *c)
{
    const norm_params *s = c->params;
    return put(c, model_patch_new("CFGNorm", (double[]){s->strength, s->pre_cfg}, 2),
               s->pre_cfg ? KILN_GUIDANCE_REPLACE : 0, apply_norm);
}

const kiln_node node_cfg_norm = {
    GUIDANCE_NODE("CFGNorm", "CFGNorm", "advanced/guidance",
                  "Guidance that makes no cell longer than the positive guess has it."),
    KIT_PARAMS(norm_params, norm_param),
    .run = run_norm,
};

/* ---- RenormCFG ---- */

static const kiln_param renorm_param[] = {
    KIT_FLOAT(renorm_settings, cfg_trunc, 100, 0, 100, 0.01, "Guided below this noise level; above it: the positive."),
    KIT_FLOAT(renorm_settings, renorm_cfg, 1, 0, 100, 0.01,
              "A picture's guided guess is at most that many times as long as its positive one; 0: any length."),
};

static kiln_status apply_renorm(void *self, const kiln_guesses *g)
{
    const double *n = numbers(self);
    return guidance_renorm(&(renorm_settings){n[0], n[1]}, g);
}

static kiln_status run_renorm(const kiln_call *c)
{
    const renorm_settings *s = c->params;
    /* below 1 it shortens the positive guess by itself, too: at cfg 1 */
    uint32_t alone = s->renorm_cfg > 0 && s->renorm_cfg < 1 ? KILN_GUIDANCE_UNCONDITIONAL : 0;
    return put(c, model_patch_new("RenormCFG", (double[]){s->cfg_trunc, s->renorm_cfg}, 2),
               KILN_GUIDANCE_REPLACE | alone, apply_renorm);
}

const kiln_node node_renorm_cfg = {
    GUIDANCE_NODE("RenormCFG", "RenormCFG", "advanced/model",
                  "Guidance that makes no picture's guess longer than the positive one (Lumina-Image 2.0)."),
    KIT_PARAMS(renorm_settings, renorm_param),
    .run = run_renorm,
};

/* ---- TemporalScoreRescaling ---- */

typedef struct {
    double tsr_k, tsr_sigma;
} rescaling_params;

static const kiln_param rescaling_param[] = {
    KIT_FLOAT(rescaling_params, tsr_k, 0.95, 0.01, 100, 0.001, "Below 1 more detail, above 1 smoother; 1: nothing."),
    KIT_FLOAT(rescaling_params, tsr_sigma, 1, 0.01, 100, 0.001, "Larger: it acts earlier."),
};

static kiln_status apply_rescaling(void *self, const kiln_guesses *g)
{
    return guidance_score_rescaling(numbers(self)[0], numbers(self)[1], g);
}
static kiln_status run_rescaling(const kiln_call *c)
{
    const rescaling_params *s = c->params;
    return put(c, model_patch_new("TemporalScoreRescaling", (double[]){s->tsr_k, s->tsr_sigma}, 2), 0, apply_rescaling);
}

const kiln_node node_score_rescaling = {
    GUIDANCE_NODE("TemporalScoreRescaling", "TSR - Temporal Score Rescaling", "model_patches/unet",
                  "Scales the score by the noise level, for more or less variety (arXiv:2510.01184)."),
    KIT_PARAMS(rescaling_params, rescaling_param),
    .run = run_rescaling,
};

/* ---- Epsilon Scaling ---- */

typedef struct {
    double scaling_factor;
} epsilon_params;

static const kiln_param epsilon_param[] = {
    KIT_FLOAT(epsilon_params, scaling_factor, 1.005, 0.5, 1.5, 0.001,
              "The guessed noise is divided by it; 1: nothing."),
};

static kiln_status apply_epsilon(void *self, const kiln_guesses *g)
{
    return guidance_epsilon_scaling(numbers(self)[0], g);
}
static kiln_status run_epsilon(const kiln_call *c)
{
    const epsilon_params *s = c->params;
    if (s->scaling_factor == 1) return c->out[0] = c->host->ref(c->in[0]), KILN_OK;
    return put(c, model_patch_new("Epsilon Scaling", (double[]){s->scaling_factor}, 1), 0, apply_epsilon);
}

const kiln_node node_epsilon_scaling = {
    GUIDANCE_NODE("Epsilon Scaling", "Epsilon Scaling", "model_patches/unet",
                  "Makes the guessed noise a little smaller, against what sampling adds up (Ning et al. 2023)."),
    KIT_PARAMS(epsilon_params, epsilon_param),
    .run = run_epsilon,
};

/* ---- FreSca ---- */

static const kiln_param frequency_param[] = {
    KIT_FLOAT(frequency_settings, scale_low, 1, 0, 10, 0.01, "Times the low frequencies of the guidance."),
    KIT_FLOAT(frequency_settings, scale_high, 1.25, 0, 10, 0.01, "Times the high ones."),
    KIT_INT(frequency_settings, freq_cutoff, 20, 1, 10000, "Frequencies below this are low."),
};

static kiln_status apply_frequencies(void *self, const kiln_guesses *g)
{
    const double *n = numbers(self);
    return guidance_frequencies(&(frequency_settings){n[0], n[1], (int64_t)n[2]}, g);
}
static kiln_status run_frequencies(const kiln_call *c)
{
    const frequency_settings *s = c->params;
    double number[] = {s->scale_low, s->scale_high, (double)s->freq_cutoff};
    return put(c, model_patch_new("FreSca", number, COUNT(number)), KILN_GUIDANCE_BEFORE, apply_frequencies);
}

const kiln_node node_fresca = {
    GUIDANCE_NODE("FreSca", "FreSca", "experimental",
                  "Scales low and high frequencies of the guidance (Huang et al. 2025)."),
    KIT_PARAMS(frequency_settings, frequency_param),
    .run = run_frequencies,
};

/* ---- PAG, NAG ---- */

/* The model has self-attention there; else a sentence. */
static kiln_status check_places(const kiln_call *c, const char *name, const char *begin, const char *end)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *m = models->model(c->ctx, c->in[0]);
    if (!m) return KILN_ERR_INVALID;
    if (model_patch_places(m, begin, end)) return KILN_OK;
    return c->host->fail(
        c->ctx, KILN_ERR_INVALID,
        "%s acts at '%s*%s', a place that this model does not have: it is for UNets with self-attention "
        "there",
        name, begin, end);
}

typedef struct {
    double scale;
} pag_params;

static const kiln_param pag_param[] = {
    KIT_FLOAT(pag_params, scale, 3, 0, 100, 0.01, "How far from the perturbed guess; 0: not at all, at no cost.")};

static kiln_status run_pag(const kiln_call *c)
{
    double scale = ((const pag_params *)c->params)->scale;
    TRY(check_places(c, "PerturbedAttentionGuidance", "middle.", ".attn1"));
    if (scale == 0) return c->out[0] = c->host->ref(c->in[0]), KILN_OK;
    return model_patch_put(c, pag_new(scale));
}

const kiln_node node_pag = {
    GUIDANCE_NODE("PerturbedAttentionGuidance", "PerturbedAttentionGuidance", "model_patches/unet",
                  "Guides away from a guess without self-attention in the middle block: one more evaluation a step "
                  "(Ahn et al. 2024)."),
    KIT_PARAMS(pag_params, pag_param),
    .run = run_pag,
};

typedef struct {
    double scale, blur_sigma;
} sag_params;

static const kiln_param sag_param[] = {
    KIT_FLOAT(sag_params, scale, 0.5, -2, 5, 0.01, "How far from the guess of the blurred; 0: not at all, at no cost."),
    KIT_FLOAT(sag_params, blur_sigma, 2, 0, 10, 0.1, "Of the blur, in cells of the latent; 0: none, at no cost."),
};

static kiln_status run_sag(const kiln_call *c)
{
    const sag_params *s = c->params;
    TRY(check_places(c, "SelfAttentionGuidance", "middle.", ".attn1"));
    if (s->scale == 0 || s->blur_sigma == 0) return c->out[0] = c->host->ref(c->in[0]), KILN_OK;
    return model_patch_put(c, sag_new(s->scale, s->blur_sigma));
}

const kiln_node node_sag = {
    GUIDANCE_NODE(
        "SelfAttentionGuidance", "Self-Attention Guidance", "experimental",
        "Guides away from a guess in which what the middle block attends to is blurred: one more evaluation a "
        "step (Hong et al. 2023)."),
    KIT_PARAMS(sag_params, sag_param),
    .run = run_sag,
};

/* ---- SEG ---- */

typedef struct {
    double scale, blur_sigma, sigma_start, sigma_end, rescale;
    int64_t unet_block_id;
    int32_t unet_block, rescale_mode;
    const char *unet_block_list;
} seg_params;

enum { IN_INPUT, IN_MIDDLE, IN_OUTPUT };

static const kiln_choice seg_block[] = {{.name = "input", .value = IN_INPUT},
                                        {.name = "middle", .value = IN_MIDDLE},
                                        {.name = "output", .value = IN_OUTPUT},
                                        {0}};
static const kiln_choice seg_mode[] = {
    {.name = "full", .doc = "what comes out is to spread as the positive guess does", .value = RESCALE_FULL},
    {.name = "partial", .doc = "the positive guess and the guidance are to", .value = RESCALE_PARTIAL},
    {.name = "snf", .doc = "of cfg's guidance and this one the more salient, number by number", .value = RESCALE_SNF},
    {0}};
static const kiln_param seg_param[] = {
    KIT_FLOAT(seg_params, scale, 3, 0, 100, 0.1, "How far from the smoothed guess; 0: not at all, at no cost."),
    KIT_FLOAT(seg_params, blur_sigma, -1, -1, 9999, 0.01,
              "Of the queries' blur, in cells; below 0: every query is their mean; 0: none, at no cost."),
    KIT_ENUM(seg_params, unet_block, seg_block, IN_MIDDLE, "Where self-attention is smoothed."),
    KIT_INT(seg_params, unet_block_id, 0, 0, 1000, "Which block there, counted as in the original source."),
    KIT_FLOAT(seg_params, sigma_start, -1, -1, 10000, 0.01,
              "It acts from this noise level down; below 0: from the first."),
    KIT_FLOAT(seg_params, sigma_end, -1, -1, 10000, 0.01, "It acts above this noise level."),
    KIT_FLOAT(seg_params, rescale, 0, 0, 1, 0.01,
              "Share of the guidance that is brought to the spread of the positive guess; 0: none."),
    KIT_ENUM(seg_params, rescale_mode, seg_mode, 0, "What is to spread so; snf takes no share."),
    {.name = "unet_block_list",
     .type = KILN_P_STRING,
     .offset = offsetof(seg_params, unet_block_list),
     .def_str = "",
     .doc = "Blocks with self-attention in place of unet_block: d2.0-1, m0, u3-5 (down, middle, up, counted from 0; "
            "behind the dot transformers of a block)."},
};

static kiln_status check_seg(const kiln_call *c)
{
    const seg_params *s = c->params;
    if (!s->unet_block_list[0] && s->unet_block == IN_MIDDLE && s->unet_block_id != 0)
        return kit_at_param(c,
                            c->host->fail(c->ctx, KILN_ERR_INVALID,
                                          "unet_block_id is %lld, and the middle has block 0 alone",
                                          (long long)s->unet_block_id),
                            "unet_block_id");
    return KILN_OK;
}

static kiln_status seg_blocks(const kiln_call *c, unet_blocks *to)
{
    static const char *const part[] = {"input", "middle", "output"};
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *m = models->model(c->ctx, c->in[0]);
    const seg_params *s = c->params;
    unet_blocks all;
    char why[160];
    if (!m) return KILN_ERR_INVALID;
    unet_blocks_all(m, &all);
    if (s->unet_block_list[0]) {
        if (unet_blocks_read(&all, s->unet_block_list, to, why)) return KILN_OK;
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "unet_block_list %s", why);
    }
    unet_blocks_one(&all, part[s->unet_block], s->unet_block_id, to);
    if (to->n) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID,
                         "SmoothedEnergyGuidanceAdvanced acts at '%s.%lld.*.attn1', a place that this model does not "
                         "have: it is for UNets with self-attention there",
                         part[s->unet_block], (long long)s->unet_block_id);
}

static kiln_status run_seg(const kiln_call *c)
{
    const seg_params *s = c->params;
    smoothed_energy_settings by = {.added = {s->scale, s->rescale, s->rescale_mode},
                                   .blur_sigma = s->blur_sigma,
                                   .sigma_start = s->sigma_start,
                                   .sigma_end = s->sigma_end};
    TRY(check_seg(c));
    TRY(seg_blocks(c, &by.blocks));
    if (s->scale == 0 || s->blur_sigma == 0) return c->out[0] = c->host->ref(c->in[0]), KILN_OK;
    return model_patch_put(c, smoothed_energy_new(&by));
}

const kiln_node node_seg = {
    GUIDANCE_NODE("SmoothedEnergyGuidanceAdvanced", "Smoothed Energy Guidance (Advanced)", "model_patches/unet",
                  "Guides away from a guess whose self-attention has blurred queries: one more evaluation a step (Hong "
                  "2024). The name and inputs are those of the sd-perturbed-attention nodes."),
    KIT_PARAMS(seg_params, seg_param),
    .run = run_seg,
    .check = check_seg,
};

typedef struct {
    double nag_scale, nag_alpha, nag_tau;
} nag_params;

static const kiln_param nag_param[] = {
    KIT_FLOAT(nag_params, nag_scale, 5, 0, 50, 0.1, "How far from the negative prompt."),
    KIT_FLOAT(nag_params, nag_alpha, 0.5, 0, 1, 0.01, "Share of the guided attention; 0: none of it."),
    KIT_FLOAT(nag_params, nag_tau, 1.5, 1, 10, 0.01, "Its size is at most that many times the positive's."),
};

static kiln_status run_nag(const kiln_call *c)
{
    const nag_params *s = c->params;
    TRY(check_places(c, "NAGuidance", "", ".attn1.to_out"));
    return model_patch_put(c, nag_new(s->nag_scale, s->nag_alpha, s->nag_tau));
}

const kiln_node node_nag = {
    GUIDANCE_NODE("NAGuidance", "Normalized Attention Guidance", "advanced/guidance",
                  "Moves each self-attention away from the negative prompt's, for models that are drawn at cfg 1 too "
                  "(Chen et al. 2025)."),
    KIT_PARAMS(nag_params, nag_param),
    .run = run_nag,
};
