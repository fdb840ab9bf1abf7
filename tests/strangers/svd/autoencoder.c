/* autoencoder.c - Stable Video Diffusion's VAE: Stable Diffusion's encoder, and a decoder whose resnets see the frames
 * before and after (blocks.c). Names are the release's.
 *
 * The frames of a video are the pictures of a batch, so `pictures` says how many go through the decoder at once, and
 * with that what a frame sees: all of them here, fewer by ExampleSVDChunks. A frame alone would be another frame, so it
 * is not to be cut into tiles, which go picture by picture.
 */
#include "kiln/config.h"
#include "svd.h"

#include <stdlib.h>

enum { ALL_FRAMES = 1 << 20 };
#define FAMILY "example-svd-vae/"

typedef struct {
    kiln_autoencoder autoencoder;
    kiln_latent_format latent;
    kiln_latent_scaling scaling;
    double scale;
    int32_t groups;
    const kiln_weights_api *find;
    char family[80];
} vae;

/* ---- the network ---- */

static int levels_of(const svd_walk *s, const char *way)
{
    int n = 0;
    while (svd_size(s->find, s->w, 0, "%s.%d.block.0.conv1.weight", way, n)) n++;
    return n;
}

static kiln_t resnets(const svd_walk *s, kiln_t x, const char *level, int in_time)
{
    char name[SVD_NAME];
    for (int i = 0; svd_size(s->find, s->w, 0, "%s.block.%d.conv1.weight", level, i); i++)
        x = svd_vae_resnet(s, x, NAME(name, "%s.block.%d", level, i), in_time);
    return x;
}

/* One head over a frame's cells, and its surroundings. */
static kiln_t middle(const svd_walk *s, kiln_t x, const char *side, int in_time)
{
    const kiln_attention one_head = {.size = sizeof one_head, .heads = 1};
    char name[SVD_NAME], part[SVD_NAME];
    x = svd_vae_resnet(s, x, NAME(name, "%s.mid.block_1", side), in_time);
    int64_t n = svd_dim(s, x, 0), h = svd_dim(s, x, 1), w = svd_dim(s, x, 2), c = svd_dim(s, x, 3);
    NAME(name, "%s.mid.attn_1", side);
    kiln_t y = svd_group_norm(s, x, NAME(part, "%s.norm", name), 1e-6f);
    y = s->o->reshape(s->p, y, 3, KILN_DIMS(n, h * w, c));
    kiln_t q = svd_linear(s, y, name, ".q", c), k = svd_linear(s, y, name, ".k", c),
           v = svd_linear(s, y, name, ".v", c);
    y = svd_linear(s, s->o->attention(s->p, q, k, v, &one_head), name, ".proj_out", c);
    x = s->o->add(s->p, s->o->reshape(s->p, y, 4, KILN_DIMS(n, h, w, c)), x);
    return svd_vae_resnet(s, x, NAME(name, "%s.mid.block_2", side), in_time);
}

/* silu of the norm, and the last convolution. */
static kiln_t last(const svd_walk *s, kiln_t x, const char *side)
{
    char name[SVD_NAME];
    x = s->o->act(s->p, svd_group_norm(s, x, NAME(name, "%s.norm_out", side), 1e-6f), KILN_ACT_SILU);
    NAME(name, "%s.conv_out", side);
    return svd_conv(s, x, name, svd_size(s->find, s->w, 0, "%s.weight", name), NULL);
}

static svd_walk walk_of(const kiln_autoencoder *a, const kiln_ops *o, kiln_program *p, kiln_weights *w, kiln_t x)
{
    const vae *self = a->self;
    svd_walk s = {.o = o, .p = p, .w = w, .find = self->find, .videos = 1, .groups = self->groups};
    s.frames = svd_dim(&s, x, 0);
    return s;
}

static void record_encode(const kiln_autoencoder *a, const kiln_ops *o, kiln_program *p, kiln_weights *w, kiln_t image,
                          kiln_latent_distribution *out)
{
    static const kiln_conv2d half = {.size = sizeof half, .stride = {2, 2}, .pad = {0, 0, 1, 1}};
    const svd_walk s = walk_of(a, o, p, w, image);
    char name[SVD_NAME], part[SVD_NAME];
    int levels = levels_of(&s, "encoder.down");
    kiln_t x = svd_conv(&s, image, "encoder.conv_in", svd_size(s.find, w, 0, "encoder.conv_in.weight"), NULL);
    for (int i = 0; i < levels; i++) {
        x = resnets(&s, x, NAME(name, "encoder.down.%d", i), 0);
        if (i + 1 < levels) x = svd_conv(&s, x, NAME(part, "%s.downsample.conv", name), svd_dim(&s, x, 3), &half);
    }
    x = last(&s, middle(&s, x, "encoder", 0), "encoder");
    int64_t c = svd_dim(&s, x, 3);
    if (svd_size(s.find, w, 0, "quant_conv.weight")) x = svd_conv(&s, x, "quant_conv", c, NULL);
    out->mean = o->slice(p, x, 3, 0, c / 2);
    kiln_t variance = o->slice(p, x, 3, c / 2, c / 2);
    out->log_variance = o->map(p, "min(max(a, -30), 20)", &variance, 1, NULL);
}

/* [frames,H,W,C] of one video. */
static kiln_t record_decode(const kiln_autoencoder *a, const kiln_ops *o, kiln_program *p, kiln_weights *w,
                            kiln_t latent)
{
    const kiln_conv in_time = {.size = sizeof in_time, .rank = 3, .before = {1, 0, 0}, .after = {1, 0, 0}};
    const svd_walk s = walk_of(a, o, p, w, latent);
    char name[SVD_NAME], part[SVD_NAME];
    kiln_t x = svd_conv(&s, latent, "decoder.conv_in", svd_size(s.find, w, 0, "decoder.conv_in.weight"), NULL);
    x = middle(&s, x, "decoder", 1);
    for (int i = levels_of(&s, "decoder.up") - 1; i >= 0; i--) {
        x = resnets(&s, x, NAME(name, "decoder.up.%d", i), 1);
        if (i == 0) continue;
        x = o->upsample_nearest(p, x, 2 * svd_dim(&s, x, 1), 2 * svd_dim(&s, x, 2));
        x = svd_conv(&s, x, NAME(part, "%s.upsample.conv", name), svd_dim(&s, x, 3), NULL);
    }
    x = last(&s, x, "decoder");
    int64_t h = svd_dim(&s, x, 1), width = svd_dim(&s, x, 2), c = svd_dim(&s, x, 3);
    kiln_t weight = o->weight(p, w, "decoder.conv_out.time_mix_conv.weight", 5, KILN_DIMS(c, c, 3, 1, 1));
    x = o->conv(p, o->reshape(p, x, 5, KILN_DIMS(1, s.frames, h, width, c)), weight,
                o->weight(p, w, "decoder.conv_out.time_mix_conv.bias", 1, &c), &in_time);
    return o->reshape(p, x, 4, KILN_DIMS(s.frames, h, width, c));
}

/* ---- opening ---- */

enum { DIFFUSERS, RELEASED };
static const char released[] = "decoder.mid.block_1.time_stack.in_layers.2.weight",
                  diffusers[] = "decoder.mid_block.resnets.0.temporal_res_block.conv1.weight";
static const checkpoint_layout layouts[] = {
    {.prefix = "vae/", .config = "vae/config.json", .needs = {diffusers}, .kind = DIFFUSERS},
    {.prefix = "", .config = "config.json", .needs = {diffusers}, .kind = DIFFUSERS},
    {.prefix = "first_stage_model.", .needs = {released}, .kind = RELEASED},
    {.prefix = "", .needs = {released}, .kind = RELEASED},
};

/* Higher than kiln's own VAEs, which know the encoder. */
static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    return checkpoint_find(w, set, layouts, COUNT(layouts)) ? 95 : 0;
}

static kiln_status fill(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const kiln_weights *view,
                        const char *path, vae *self)
{
    static const config_rule expected[] = {{"in_channels", "3"}, {"out_channels", "3"}};
    config c = config_open(host, ctx, set, path ? path : "__metadata__/vae_config");
    config_expect(&c, expected, COUNT(expected));
    self->scale = config_number(&c, "scaling_factor", 0.18215, 1e-6, 1e6);
    self->groups = (int32_t)config_int(&c, "norm_num_groups", SVD_GROUPS, 1, 1024);
    config_close(&c);
    self->find = host->ability(KILN_WEIGHTS_ABILITY);
    const svd_walk s = {.w = (kiln_weights *)(uintptr_t)view, .find = self->find};
    int levels = levels_of(&s, "decoder.up");
    self->scaling = (kiln_latent_scaling){sizeof self->scaling, 1, &self->scale, NULL};
    self->latent = (kiln_latent_format){.size = sizeof self->latent,
                                        .channels = (int32_t)svd_size(self->find, view, 1, "decoder.conv_in.weight"),
                                        .factor = levels ? 1 << (levels - 1) : 1,
                                        .scaling = &self->scaling};
    snprintf(self->family, sizeof self->family, FAMILY "%d", self->groups);
    self->autoencoder = (kiln_autoencoder){.size = sizeof self->autoencoder,
                                           .family = self->family,
                                           .self = self,
                                           .latent = &self->latent,
                                           .record_encode = record_encode,
                                           .record_decode = record_decode,
                                           .pictures = ALL_FRAMES,
                                           .architecture = "Stable Video Diffusion's VAE",
                                           .together = 1};
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

static kiln_value *open_vae(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    const checkpoint_layout *at = checkpoint_find(w, set, layouts, COUNT(layouts));
    kiln_weights *view = at ? svd_vae_view(host, ctx, set, at->prefix, at->kind == DIFFUSERS) : NULL;
    vae *self = view ? calloc(1, sizeof *self) : NULL;
    kiln_value *value = NULL;
    if (self && fill(host, ctx, set, view, at->config, self) == KILN_OK)
        value = models->vae_new(ctx, &(kiln_vae){.size = sizeof(kiln_vae),
                                                 .autoencoder = &self->autoencoder,
                                                 .weights = view,
                                                 .owned = self,
                                                 .release = free});
    if (!value) free(self);
    w->unref(view);
    return value;
}

const kiln_model_family svd_autoencoder_family = {.size = sizeof svd_autoencoder_family,
                                                  .kind = KILN_FAMILY_AUTOENCODER,
                                                  .name = "example-svd-vae",
                                                  .doc = "Stable Video Diffusion's VAE, whose decoder sees all frames",
                                                  .detect = detect,
                                                  .open = open_vae};

/* ---- ExampleSVDChunks ---- */

typedef struct {
    int64_t decode_chunk_size;
} chunks_params;

static const kiln_port vae_in[] = {{.name = "vae", .type = "VAE", .doc = "Stable Video Diffusion's."}};
static const kiln_port vae_out[] = {{.name = "VAE", .type = "VAE", .doc = "That decodes so many frames at a time."}};
static const kiln_param chunks_param[] = {KIT_INT(chunks_params, decode_chunk_size, 8, 1, 4096,
                                                  "Frames that are decoded together, and that see one another.")};

static kiln_status chunks_run(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_vae *of = models->vae(c->ctx, c->in[0]);
    if (!of) return KILN_ERR_INVALID;
    if (strncmp(of->autoencoder->family, FAMILY, sizeof FAMILY - 1) != 0)
        return c->host->fail(
            c->ctx, KILN_ERR_INVALID,
            "this VAE decodes each frame for itself; it is no Stable Video Diffusion's, and has no chunks");
    kiln_autoencoder *a = malloc(sizeof *a);
    if (!a) return KILN_ERR_NOMEM;
    *a = *of->autoencoder; /* our own, so as long as this header's */
    a->pictures = (int32_t)((const chunks_params *)c->params)->decode_chunk_size;
    kiln_vae made = *of;
    made.autoencoder = a, made.owned = a, made.release = free, made.base = c->in[0];
    c->out[0] = models->vae_new(c->ctx, &made);
    if (!c->out[0]) free(a);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

const kiln_node svd_chunks_node = {
    KIT_NODE("ExampleSVDChunks", "SVD Decode Chunks", "examples", "How many frames a VAE decodes at a time."),
    KILN_ARRAY(in, vae_in), KILN_ARRAY(out, vae_out), KIT_PARAMS(chunks_params, chunks_param), .run = chunks_run};
