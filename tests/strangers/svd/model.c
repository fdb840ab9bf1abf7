/* model.c - Stable Video Diffusion as a denoiser of kiln: what it is opened from, how it counts noise, what it takes.
 *
 * Its prediction is v, between the levels 0.002 and 700, and it is told ln(sigma) / 4. Its conditioning is a picture:
 * the vision encoder's embedding as one token, and its latent beside that of every frame.
 */
#include "kiln/config.h"
#include "kiln/standard_sampling.h"
#include "svd.h"

#include <stdlib.h>

enum { LEVELS = 1000, CHANNELS = 4 };

/* What open() makes and the MODEL owns. */
typedef struct {
    kiln_denoiser denoiser;
    kiln_standard_sampling sampling;
    kiln_input_spec input[5];
    svd_network network;
    const kiln_weights_api *find;
    kiln_weights *view; /* lives as long as the MODEL, which has it */
    double sigma[LEVELS];
    char family[200];
} svd;

static const double scale = 0.18215;
static const kiln_latent_scaling scaling = {sizeof scaling, 1, &scale, NULL};
static const kiln_latent_format latent = {
    .size = sizeof latent, .channels = CHANNELS, .factor = 8, .scaling = &scaling};

/* ---- the table's functions ---- */

/* The batch is conditionings one after the other, each with all frames. */
static kiln_t record(const kiln_denoiser *d, const kiln_ops *o, kiln_program *p, kiln_weights *weights,
                     const kiln_denoise_inputs *in)
{
    const svd *m = d->self;
    const kiln_recording r = {sizeof r, o, p, in};
    svd_walk s = {.o = o, .p = p, .w = weights, .find = m->find, .groups = m->network.groups, .hooked = &r};
    int64_t n = svd_dim(&s, in->x, 0);
    s.frames = in->n_member ? in->member[0].pictures : n;
    s.videos = s.frames ? n / s.frames : 0;
    return svd_record_unet(&m->network, &s, in);
}

static void list_places(const kiln_denoiser *d, void (*fn)(void *arg, const char *place, uint32_t kind), void *arg)
{
    const svd *m = d->self;
    svd_unet_places(m->find, m->view, fn, arg);
}

/* Adds nothing: says what is wrong about the number of frames. */
static kiln_status derive(const kiln_denoiser *d, const kiln_derivation *of)
{
    const kiln_value_api *v = of->host->ability(KILN_VALUE_ABILITY);
    const kiln_value *said = v->map_get(of->conditioning, "video_frames"),
                     *picture = v->map_get(of->conditioning, "concat_latent_image");
    kiln_tensor t = {.size = sizeof t};
    int64_t frames = of->dim[0], wanted = frames;
    (void)d;
    if (said && v->get_int(said, &wanted) == KILN_OK && wanted != frames)
        return of->host->fail(
            of->ctx, KILN_ERR_INVALID,
            "the conditioning is for a video of %lld frames, and the latent has %lld; take the latent "
            "that the conditioning's node gives",
            (long long)wanted, (long long)frames);
    if (picture && v->map_get(picture, "samples")) picture = v->map_get(picture, "samples");
    if (!picture || of->host->view(of->ctx, picture, &t) != KILN_OK || t.rank < 1 || t.dim[0] == 1 ||
        t.dim[0] == frames)
        return KILN_OK;
    return of->host->fail(
        of->ctx, KILN_ERR_INVALID,
        "concat_latent_image has %lld pictures, and the video %lld frames; give one picture, or one for "
        "each frame",
        (long long)t.dim[0], (long long)frames);
}
static const char *const derive_key[] = {"video_frames", "concat_latent_image", NULL};

/* ---- opening ---- */

enum { DIFFUSERS, RELEASED };
#define DIFFUSERS_NEEDS                                                                                                \
    {                                                                                                                  \
        "conv_in.weight", "add_embedding.linear_1.weight", "mid_block.resnets.0.temporal_res_block.conv1.weight"       \
    }
#define RELEASED_NEEDS                                                                                                 \
    {                                                                                                                  \
        "input_blocks.0.0.weight", "label_emb.0.0.weight", "middle_block.0.time_stack.in_layers.2.weight"              \
    }
static const checkpoint_layout layouts[] = {
    {.prefix = "unet/", .config = "unet/config.json", .needs = DIFFUSERS_NEEDS, .kind = DIFFUSERS},
    {.prefix = "", .config = "config.json", .needs = DIFFUSERS_NEEDS, .kind = DIFFUSERS},
    {.prefix = "model.diffusion_model.", .needs = RELEASED_NEEDS, .kind = RELEASED},
    {.prefix = "diffusion_model.", .needs = RELEASED_NEEDS, .kind = RELEASED},
    {.prefix = "", .needs = RELEASED_NEEDS, .kind = RELEASED},
};

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    return checkpoint_find(w, set, layouts, COUNT(layouts)) ? 95 : 0;
}

static int levels_of(const svd *m)
{
    int n = 1;
    for (int i = 1; i < 64; i++) n += svd_size(m->find, m->view, 0, "input_blocks.%d.0.op.weight", i) > 0;
    return n;
}

/* Relatives with the same blocks: SV3D is told cameras, others have other channels. */
static kiln_status check(const kiln_host *host, kiln_ctx *ctx, const svd *m)
{
    int64_t in = svd_size(m->find, m->view, 1, "input_blocks.0.0.weight"),
            numbers = svd_size(m->find, m->view, 1, "label_emb.0.0.weight");
    if (in != 2 * CHANNELS)
        return host->fail(
            ctx, KILN_ERR_UNSUPPORTED,
            "this video model has %lld channels in; Stable Video Diffusion has %d, a frame's latent and the "
            "picture's",
            (long long)in, 2 * CHANNELS);
    if (numbers % 3 || numbers == 256 || numbers == 1280)
        return host->fail(
            ctx, KILN_ERR_UNSUPPORTED,
            "this video model is told %lld numbers that are no fps, motion bucket and augmentation; it may be "
            "SV3D, which is told cameras and is not supported",
            (long long)numbers);
    if (levels_of(m) > SVD_LEVELS)
        return host->fail(ctx, KILN_ERR_UNSUPPORTED, "this video model has more than %d levels", SVD_LEVELS);
    return KILN_OK;
}

/* Heads and groups are in no shape: config.json says them, or in a single file "unet_config" of the metadata, else
 * heads are 64 wide and groups 32, as the released ones are. */
static kiln_status read_config(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set,
                               const checkpoint_layout *at, svd *m)
{
    config c = config_open(host, ctx, set, at->config ? at->config : "__metadata__/unet_config");
    if (config_get(&c, "num_attention_heads"))
        config_ints(&c, "num_attention_heads", 0, 1, 1024, (size_t)levels_of(m), m->network.heads, SVD_LEVELS);
    m->network.groups = (int32_t)config_int(&c, "norm_num_groups", SVD_GROUPS, 1, 1024);
    config_close(&c);
    m->network.outer_eps = at->kind == DIFFUSERS ? 1e-6f : 1e-5f;
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

static void fill_inputs(svd *m, int64_t context)
{
    const kiln_input_spec input[COUNT(m->input)] = {
        {.size = sizeof *input, .name = "tokens", .kind = KILN_INPUT_TOKENS, .width = context, .doc = "the picture's"},
        {.size = sizeof *input,
         .name = "concat_latent_image",
         .kind = KILN_INPUT_LATENT,
         .flags = KILN_INPUT_OPTIONAL,
         .width = CHANNELS,
         .doc = "the picture's latent, unscaled"},
        {.size = sizeof *input,
         .name = "fps",
         .kind = KILN_INPUT_SCALAR,
         .flags = KILN_INPUT_OPTIONAL,
         .fallback = 6,
         .doc = "frames a second"},
        {.size = sizeof *input,
         .name = "motion_bucket_id",
         .kind = KILN_INPUT_SCALAR,
         .flags = KILN_INPUT_OPTIONAL,
         .fallback = 127,
         .doc = "how much moves"},
        {.size = sizeof *input,
         .name = "augmentation_level",
         .kind = KILN_INPUT_SCALAR,
         .flags = KILN_INPUT_OPTIONAL,
         .doc = "how much noise is on the picture"}};
    memcpy(m->input, input, sizeof input);
}

static int64_t context_of(const svd *m)
{
    return svd_size(m->find, m->view, 1, "middle_block.1.transformer_blocks.0.attn2.to_k.weight");
}

static void fill(svd *m)
{
    fill_inputs(m, context_of(m));
    kiln_continuous_sigmas(0.002, 700, LEVELS, m->sigma);
    kiln_standard_sampling_init(
        &m->sampling, &(kiln_sampling_row){
                          .prediction = KILN_PREDICT_V, .time = KILN_TIME_LOG, .n_sigma = LEVELS, .sigma = m->sigma});
    size_t n = (size_t)snprintf(m->family, sizeof m->family, "example-svd/%g.%d", (double)m->network.outer_eps,
                                m->network.groups);
    for (int i = 0; i < SVD_LEVELS; i++)
        n += (size_t)snprintf(m->family + n, sizeof m->family - n, ".%lld", (long long)m->network.heads[i]);
    m->denoiser = (kiln_denoiser){.size = sizeof m->denoiser,
                                  .family = m->family,
                                  .self = m,
                                  .latent = &latent,
                                  .sampling = &m->sampling.base,
                                  .record = record,
                                  .places = list_places,
                                  .derive = derive,
                                  .derive_key = derive_key,
                                  KILN_ARRAY(input, m->input),
                                  .architecture = "Stable Video Diffusion"};
}

static kiln_value *open_model(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    const checkpoint_layout *at = checkpoint_find(w, set, layouts, COUNT(layouts));
    kiln_weights *view = at ? svd_view(host, ctx, set, at->prefix, at->kind == DIFFUSERS) : NULL;
    svd *m = view ? calloc(1, sizeof *m) : NULL;
    kiln_value *value = NULL;
    if (m) m->find = w, m->view = view;
    if (m && check(host, ctx, m) == KILN_OK && read_config(host, ctx, set, at, m) == KILN_OK) {
        fill(m);
        value = models->model_new(
            ctx,
            &(kiln_model){
                .size = sizeof(kiln_model), .denoiser = &m->denoiser, .weights = view, .owned = m, .release = free});
    }
    if (!value) free(m);
    w->unref(view);
    return value;
}

const kiln_model_family svd_denoiser_family = {.size = sizeof svd_denoiser_family,
                                               .kind = KILN_FAMILY_DENOISER,
                                               .name = "example-svd",
                                               .doc = "Stable Video Diffusion, a picture to frames",
                                               .detect = detect,
                                               .open = open_model};
