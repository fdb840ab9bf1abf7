/* unet_settings.c - see unet_settings.h. A table lists entries that would change the computation but have only one
 * implemented value: each must be absent or have that value. */
#include "unet_settings.h"

#include "kiln/checkpoint.h"
#include "kiln/config.h"
#include "kiln/kit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LAYERS_MAX = 7, CHANNELS_MAX = 64 }; /* unet_model.c keeps 8 levels of 8 skips */

static const config_rule expected[] = {
    {"act_fn", "\"silu\""},
    {"addition_embed_type", "null"},
    {"attention_type", "\"default\""},
    {"center_input_sample", "false"},
    {"class_embed_type", "null"},
    {"class_embeddings_concat", "false"},
    {"conv_in_kernel", "3"},
    {"conv_out_kernel", "3"},
    {"cross_attention_norm", "null"},
    {"downsample_padding", "1"},
    {"dual_cross_attention", "false"},
    {"encoder_hid_dim", "null"},
    {"encoder_hid_dim_type", "null"},
    {"mid_block_only_cross_attention", "false"},
    {"mid_block_scale_factor", "1"},
    {"mid_block_type", "\"UNetMidBlock2DCrossAttn\""},
    {"num_class_embeds", "null"},
    {"only_cross_attention", "false"},
    {"resnet_out_scale_factor", "1"},
    {"resnet_skip_time_act", "false"},
    {"resnet_time_scale_shift", "\"default\""},
    {"reverse_transformer_layers_per_block", "null"},
    {"time_cond_proj_dim", "null"},
    {"time_embedding_act_fn", "null"},
    {"time_embedding_dim", "null"},
    {"time_embedding_type", "\"positional\""},
    {"timestep_post_act", "null"},
    {"use_linear_projection", "false"},
};

/* ---- sizes ---- */

static void read_shapes(const kiln_host *host, const kiln_weights *view, unet_config *c)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    kiln_weight_info info;
    *c = (unet_config){.groups = 32, .cos_first = 1, .eps = 1e-5f};
    if (checkpoint_has(w, view, "", &info, "conv_in.weight") && info.rank == 4) c->in_channels = info.dim[1];
    if (checkpoint_has(w, view, "", &info, "conv_out.weight")) c->out_channels = info.dim[0];
    if (checkpoint_has(w, view, "", &info, "mid_block.attentions.0.transformer_blocks.0.attn2.to_k.weight") &&
        info.rank == 2)
        c->context = info.dim[1];
    for (uint32_t i = 0; i < UNET_LEVELS_MAX; i++, c->levels++) {
        if (!checkpoint_has(w, view, "", &info, "down_blocks.%u.resnets.0.conv1.weight", i)) break;
        c->channels[i] = info.dim[0];
        c->heads[i] = 8; /* SD1.x's: shapes do not show it */
        c->attends[i] = (uint32_t)checkpoint_has(w, view, "", &info, "down_blocks.%u.attentions.0.norm.weight", i);
    }
    while (c->layers < LAYERS_MAX &&
           checkpoint_has(w, view, "", &info, "down_blocks.0.resnets.%u.conv1.weight", c->layers))
        c->layers++;
    while (c->depth < 64 &&
           checkpoint_has(w, view, "", &info, "mid_block.attentions.0.transformer_blocks.%u.norm1.weight", c->depth))
        c->depth++;
}

/* down_block_types say which levels have attention; up_block_types must mirror them. */
static void read_blocks(config *c, const unet_config *seen, unet_config *out)
{
    const json_t *down = config_get(c, "down_block_types"), *up = config_get(c, "up_block_types");
    for (uint32_t i = 0; i < out->levels; i++) {
        out->attends[i] = seen->attends[i];
        const char *d = json_string_value(json_array_get(down, i)),
                   *u = json_string_value(json_array_get(up, out->levels - 1 - i));
        if (down) out->attends[i] = d && strcmp(d, "CrossAttnDownBlock2D") == 0;
        const char *wanted_down = out->attends[i] ? "CrossAttnDownBlock2D" : "DownBlock2D";
        const char *wanted_up = out->attends[i] ? "CrossAttnUpBlock2D" : "UpBlock2D";
        if (down && (json_array_size(down) != out->levels || !d || strcmp(d, wanted_down) != 0))
            CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED,
                        "%s: down block %u is '%.60s'; CrossAttnDownBlock2D and DownBlock2D are supported", c->path, i,
                        d ? d : "missing");
        if (up && (json_array_size(up) != out->levels || !u || strcmp(u, wanted_up) != 0))
            CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED, "%s: up block %u is '%.60s'; %s is expected, to mirror its down block",
                        c->path, out->levels - 1 - i, u ? u : "missing", wanted_up);
    }
}

static void check_sizes(config *c, const unet_config *u)
{
    for (uint32_t i = 0; i < u->levels; i++) {
        if (u->groups < 1 || u->channels[i] % u->groups)
            CONFIG_FAIL(c, KILN_ERR_INVALID, "%s: level %u has %lld channels, no multiple of its %lld groups", c->path,
                        i, (long long)u->channels[i], (long long)u->groups);
        if (u->heads[i] < 1 || u->channels[i] % u->heads[i])
            CONFIG_FAIL(c, KILN_ERR_INVALID,
                        "%s: level %u has %lld channels, no multiple of its %lld heads ('attention_head_dim')", c->path,
                        i, (long long)u->channels[i], (long long)u->heads[i]);
    }
    if (!u->levels || !u->layers || !u->depth || !u->context || !u->in_channels || u->out_channels != u->in_channels)
        CONFIG_FAIL(c, KILN_ERR_INVALID,
                    "%s: incomplete: %u levels of %u layers, depth %u, context %lld, %lld channels in and %lld out",
                    c->path, u->levels, u->layers, u->depth, (long long)u->context, (long long)u->in_channels,
                    (long long)u->out_channels);
}

kiln_status unet_settings_read(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const kiln_weights *view,
                               const char *path, unet_config *out)
{
    unet_config seen;
    config c = {.host = host, .ctx = ctx, .path = "the checkpoint"};
    read_shapes(host, view, &seen);
    if (path) c = config_open(host, ctx, set, path);
    config_expect(&c, expected, COUNT(expected));
    *out = seen;
    if (c.root) {
        /* SD1.x's "attention_head_dim" is the number of heads; the later "num_attention_heads" is what it says. */
        const char *heads = config_get(&c, "num_attention_heads") ? "num_attention_heads" : "attention_head_dim";
        int64_t layers[UNET_LEVELS_MAX] = {0};
        out->levels = (uint32_t)config_ints(&c, "block_out_channels", 0, 1, 1 << 16, 0, out->channels, UNET_LEVELS_MAX);
        config_ints(&c, heads, 8, 1, 1024, out->levels, out->heads, UNET_LEVELS_MAX);
        config_ints(&c, "layers_per_block", 2, 1, LAYERS_MAX, out->levels, layers, UNET_LEVELS_MAX);
        for (uint32_t i = 1; i < out->levels; i++)
            if (layers[i] != layers[0])
                CONFIG_FAIL(&c, KILN_ERR_UNSUPPORTED, "%s: 'layers_per_block' must be the same everywhere", c.path);
        out->layers = (uint32_t)layers[0];
        out->depth = (uint32_t)config_int(&c, "transformer_layers_per_block", 1, 1, 64);
        out->context = config_int(&c, "cross_attention_dim", seen.context, 1, 1 << 16);
        out->in_channels = config_int(&c, "in_channels", seen.in_channels, 1, CHANNELS_MAX);
        out->out_channels = config_int(&c, "out_channels", seen.out_channels, 1, CHANNELS_MAX);
        out->groups = config_int(&c, "norm_num_groups", 32, 1, 1024);
        out->eps = (float)config_number(&c, "norm_eps", 1e-5, 0, 1);
        out->cos_first = (uint32_t)config_bool(&c, "flip_sin_to_cos", 1);
        out->freq_shift = config_number(&c, "freq_shift", 0, 0, 1);
        if (!c.failed) read_blocks(&c, &seen, out);
    }
    if (!c.failed) check_sizes(&c, out);
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

/* ---- noise levels ---- */

static const config_rule expected_schedule[] = {{"rescale_betas_zero_snr", "false"}, {"trained_betas", "null"}};

static uint32_t read_prediction(config *c)
{
    static const struct {
        const char *name;
        kiln_prediction kind;
    } kinds[] = {{"epsilon", KILN_PREDICT_EPS}, {"v_prediction", KILN_PREDICT_V}, {"sample", KILN_PREDICT_X0}};
    const char *name = config_text(c, "prediction_type", "epsilon");
    for (size_t i = 0; i < COUNT(kinds); i++)
        if (strcmp(name, kinds[i].name) == 0) return (uint32_t)kinds[i].kind;
    CONFIG_FAIL(c, KILN_ERR_UNSUPPORTED,
                "%s: 'prediction_type' is '%.40s'; epsilon, v_prediction and sample are supported", c->path, name);
    return 0;
}

kiln_status unet_noise_read(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, double *sigma,
                            kiln_standard_sampling *out)
{
    config c = config_open(host, ctx, set, "scheduler/scheduler_config.json");
    config_expect(&c, expected_schedule, COUNT(expected_schedule));
    const char *kind = config_text(&c, "beta_schedule", "scaled_linear");
    if (strcmp(kind, "scaled_linear") != 0 && strcmp(kind, "linear") != 0)
        CONFIG_FAIL(&c, KILN_ERR_UNSUPPORTED, "%s: 'beta_schedule' is '%.40s'; scaled_linear and linear are supported",
                    c.path, kind);
    int64_t n = config_int(&c, "num_train_timesteps", 1000, 2, NOISE_LEVELS_MAX);
    double start = config_number(&c, "beta_start", 0.00085, 1e-9, 0.5),
           end = config_number(&c, "beta_end", 0.012, 1e-9, 0.5);
    uint32_t prediction = read_prediction(&c);
    if (end < start) CONFIG_FAIL(&c, KILN_ERR_INVALID, "%s: 'beta_end' is below 'beta_start'", c.path);
    if (!c.failed) {
        kiln_discrete_sigmas(kind, start, end, (size_t)n, sigma);
        kiln_standard_sampling_init(
            out, &(kiln_sampling_row){.prediction = prediction, .n_sigma = (uint32_t)n, .sigma = sigma});
    }
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

kiln_status unet_latent_read(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, int64_t channels,
                             latent_numbers *out)
{
    config c = config_open(host, ctx, set, "vae/config.json");
    int64_t widths[UNET_LEVELS_MAX];
    size_t levels = config_get(&c, "block_out_channels")
                        ? config_ints(&c, "block_out_channels", 0, 1, 1 << 16, 0, widths, UNET_LEVELS_MAX)
                        : 4;
    out->scale = config_number(&c, "scaling_factor", 0.18215, 1e-6, 1e6);
    out->shift = config_number(&c, "shift_factor", 0, -1e6, 1e6);
    out->scaling = (kiln_latent_scaling){sizeof out->scaling, 1, &out->scale, &out->shift};
    out->format = (kiln_latent_format){.size = sizeof out->format,
                                       .channels = (int32_t)channels,
                                       .factor = levels ? 1 << (levels - 1) : 1,
                                       .scaling = &out->scaling};
    config_close(&c);
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}
