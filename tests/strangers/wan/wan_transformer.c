/* wan_transformer.c - Wan 2.1's transformer under its release's names, as a denoiser of kiln.
 *
 *   x = patches of 1x2x2 cells [N,T,D]; text = mlp(tokens of 512) [N,512,D]; picture = mlp(its tokens) [N,P,D]
 *   t = mlp(sinusoid(1000 sigma)), e = linear(silu(t)): six shifts, scales and gates, to which each block adds its own
 *   a block: attention over the video, attention to the text (and beside it to the picture), MLP
 * Queries and keys are normalised over all heads together and turned by three axes: frame, row, column. Times,
 * modulations and the stream that blocks add to are f32 in every precision, as in the release.
 */
#include "wan.h"

#include "kiln/config.h"
#include "kiln/standard_sampling.h"

#include <stdarg.h>
#include <stdlib.h>

enum { LEVELS = 1000, AXES = 3, HEAD = 128, SHIFT = 8, MASK = 4 };

/* What open() makes and the MODEL owns. */
typedef struct {
    kiln_denoiser denoiser;
    kiln_standard_sampling sampling;
    kiln_input_spec input[4];
    double sigma[LEVELS];
    char family[80];
    int64_t width, heads, head, in, hidden, text, sinusoid, vision, layers; /* vision 0: it is given no picture */
} wan;

/* Of the autoencoder's latents, channel by channel. */
static const double mean[WAN_CHANNELS] = {-0.7571, -0.7089, -0.9113, 0.1075,  -0.1745, 0.9653,  -0.1517, 1.5508,
                                          0.4134,  -0.0715, 0.5517,  -0.3632, -0.1922, -0.9497, 0.2503,  -0.2921};
static const double scale[WAN_CHANNELS] = {1 / 2.8184, 1 / 1.4541, 1 / 2.3275, 1 / 2.6558, 1 / 1.2196, 1 / 1.7708,
                                           1 / 2.6052, 1 / 2.0743, 1 / 3.2687, 1 / 2.1526, 1 / 2.8652, 1 / 1.5579,
                                           1 / 1.6382, 1 / 1.1253, 1 / 2.8251, 1 / 1.9160};
static const kiln_latent_scaling scaling = {sizeof scaling, WAN_CHANNELS, scale, mean};
const kiln_latent_format wan_latent = {.size = sizeof wan_latent,
                                       .rank = 5,
                                       .channels = WAN_CHANNELS,
                                       .factor = WAN_FACTOR,
                                       .time_factor = WAN_TIME,
                                       .time_first = 1,
                                       .scaling = &scaling,
                                       .patch = WAN_PATCH};

/* ---- the network ---- */

typedef struct {
    kiln_recording r;
    const kiln_ops *o;
    kiln_program *p;
    const wan *m;
    kiln_weights *weights;
    int64_t n, frames, rows, cols; /* videos; patches in time, down and across */
    kiln_t e, t;                   /* f32 [N,6,D] and [N,1,D]                  */
    kiln_t text, picture;          /* [N,512,D], [N,P,D] or {0}                */
    kiln_t cos, sin;               /* f32 [1,T,1,head/2]                       */
} walk;

__attribute__((format(printf, 4, 5))) static kiln_t linear(const walk *s, kiln_t x, int64_t out, const char *name, ...)
{
    char part[96], full[112];
    int64_t dim[KILN_MAX_RANK] = {0};
    uint32_t rank = s->o->shape(s->p, x, dim, KILN_MAX_RANK);
    va_list args;
    va_start(args, name);
    vsnprintf(part, sizeof part, name, args);
    va_end(args);
    kiln_t w = s->o->weight(s->p, s->weights, NAME(full, "%s.weight", part), DIMS(out, rank ? dim[rank - 1] : 0));
    return s->o->linear(s->p, x, w, s->o->weight(s->p, s->weights, NAME(full, "%s.bias", part), DIMS(out)));
}

/* With scale and shift of the time, or with weights of its own. */
static kiln_t modulated(const walk *s, kiln_t x, kiln_t by_scale, kiln_t by_shift)
{
    const kiln_norm how = {
        .size = sizeof how, .kind = KILN_NORM_LAYER, .eps = 1e-6f, .scale = by_scale, .shift = by_shift};
    return s->o->normalize(s->p, x, &how);
}
static kiln_t layer_norm(const walk *s, kiln_t x, int64_t width, float eps, const char *name)
{
    char full[112];
    kiln_t gain = s->o->weight(s->p, s->weights, NAME(full, "%s.weight", name), DIMS(width));
    return s->o->layer_norm(s->p, x, eps, gain,
                            s->o->weight(s->p, s->weights, NAME(full, "%s.bias", name), DIMS(width)));
}

/* Queries or keys, normalised over the full width. */
static kiln_t normed(const walk *s, kiln_t x, const char *block, const char *to, const char *norm_name)
{
    char name[112];
    kiln_norm how = {.size = sizeof how, .kind = KILN_NORM_RMS, .eps = 1e-6f};
    how.gain = s->o->weight(s->p, s->weights, NAME(name, "%s.%s.weight", block, norm_name), DIMS(s->m->width));
    return s->o->normalize(s->p, linear(s, x, s->m->width, "%s.%s", block, to), &how);
}

static kiln_t add_gated(const walk *s, kiln_t x, kiln_t gate, kiln_t y)
{
    const kiln_map f32 = {.size = sizeof f32, .dtype = KILN_F32};
    return s->o->map(s->p, "a + b * c", (kiln_t[]){x, gate, y}, 3, &f32);
}

static kiln_t place(const walk *s, const char *at, kiln_t x, kiln_t before)
{
    const kiln_place_info info = {.size = sizeof info, .place = at, .timestep_embedding = s->t, .input = before};
    return kiln_place(&s->r, x, &info);
}

static kiln_t attend(const walk *s, kiln_attention_info *a, const char *at, const char *part)
{
    char name[64];
    a->size = sizeof *a, a->heads = (int32_t)s->m->heads, a->place = NAME(name, "%s.%s", at, part);
    a->grid[0] = s->frames, a->grid[1] = s->rows, a->grid[2] = s->cols;
    return kiln_attention_at(&s->r, a);
}

static kiln_t over_video(const walk *s, kiln_t x, const char *at)
{
    char block[64];
    const kiln_rope rope = {
        .size = sizeof rope, .heads = (int32_t)s->m->heads, .interleaved = 1, .cos = s->cos, .sin = s->sin};
    NAME(block, "%s.self_attn", at);
    kiln_attention_info a = {.x = x, .context = x};
    a.q = s->o->rope(s->p, normed(s, x, block, "q", "norm_q"), &rope);
    a.k = s->o->rope(s->p, normed(s, x, block, "k", "norm_k"), &rope);
    a.v = linear(s, x, s->m->width, "%s.v", block);
    return linear(s, attend(s, &a, at, "self_attn"), s->m->width, "%s.o", block);
}

/* The queries look at the text, and with a softmax of its own at the picture. */
static kiln_t over_context(const walk *s, kiln_t x, const char *at)
{
    char block[64];
    NAME(block, "%s.cross_attn", at);
    kiln_attention_info a = {.x = x, .context = s->text}, b = {.x = x, .context = s->picture};
    a.q = b.q = normed(s, x, block, "q", "norm_q");
    a.k = normed(s, s->text, block, "k", "norm_k"), a.v = linear(s, s->text, s->m->width, "%s.v", block);
    kiln_t y = attend(s, &a, at, "cross_attn");
    if (s->picture.id) {
        b.k = normed(s, s->picture, block, "k_img", "norm_k_img");
        b.v = linear(s, s->picture, s->m->width, "%s.v_img", block);
        y = s->o->add(s->p, y, attend(s, &b, at, "image_attn"));
    }
    return linear(s, y, s->m->width, "%s.o", block);
}

/* Part k of the six, f32 [N,1,D]: shift, scale, gate of the attention, and the same of the MLP. */
static kiln_t part_of(const walk *s, kiln_t modulation, int64_t k) { return s->o->slice(s->p, modulation, 1, k, 1); }

static kiln_t modulation(const walk *s, kiln_t e, const char *name, int64_t parts)
{
    const kiln_map f32 = {.size = sizeof f32, .dtype = KILN_F32};
    kiln_t own = s->o->weight(s->p, s->weights, name, DIMS(1, parts, s->m->width));
    return s->o->map(s->p, "a + b", (kiln_t[]){e, own}, 2, &f32);
}

static kiln_t block(const walk *s, long long i, kiln_t x)
{
    const kiln_map f32 = {.size = sizeof f32, .dtype = KILN_F32};
    char at[32], name[64];
    NAME(at, "blocks.%lld", i);
    if (kiln_left_out(&s->r, at)) return x;
    kiln_t before = x, m = modulation(s, s->e, NAME(name, "%s.modulation", at), 6);
    kiln_t y = over_video(s, modulated(s, x, part_of(s, m, 1), part_of(s, m, 0)), at);
    x = add_gated(s, x, part_of(s, m, 2), y);
    y = layer_norm(s, x, s->m->width, 1e-6f, NAME(name, "%s.norm3", at));
    x = s->o->map(s->p, "a + b", (kiln_t[]){x, over_context(s, y, at)}, 2, &f32);
    y = linear(s, modulated(s, x, part_of(s, m, 4), part_of(s, m, 3)), s->m->hidden, "%s.ffn.0", at);
    y = linear(s, s->o->act(s->p, y, KILN_ACT_GELU_TANH), s->m->width, "%s.ffn.2", at);
    return place(s, at, add_gated(s, x, part_of(s, m, 5), y), before);
}

/* ---- what goes in ---- */

static void embed_time(walk *s)
{
    const kiln_timestep_embedding how = {.size = sizeof how, .cos_first = 1};
    const int64_t d = s->m->width;
    s->o->precision_push(s->p, KILN_F32);
    kiln_t t = s->o->timestep_embedding(s->p, s->r.in->timestep, s->m->sinusoid, &how);
    t = linear(s, s->o->act(s->p, linear(s, t, d, "time_embedding.0"), KILN_ACT_SILU), d, "time_embedding.2");
    s->e =
        s->o->reshape(s->p, linear(s, s->o->act(s->p, t, KILN_ACT_SILU), 6 * d, "time_projection.1"), DIMS(s->n, 6, d));
    s->t = s->o->reshape(s->p, t, DIMS(s->n, 1, d));
    s->o->precision_pop(s->p);
}

static void embed_context(walk *s)
{
    const kiln_denoise_inputs *in = s->r.in;
    const int64_t d = s->m->width, wide = s->m->vision;
    kiln_t x = linear(s, kiln_input(in->input, in->n_input, "tokens"), d, "text_embedding.0");
    s->text = linear(s, s->o->act(s->p, x, KILN_ACT_GELU_TANH), d, "text_embedding.2");
    if (!wide) return;
    x = layer_norm(s, kiln_input(in->input, in->n_input, "vision"), wide, 1e-5f, "img_emb.proj.0");
    x = s->o->act(s->p, linear(s, x, wide, "img_emb.proj.1"), KILN_ACT_GELU);
    s->picture = layer_norm(s, linear(s, x, d, "img_emb.proj.3"), d, 1e-5f, "img_emb.proj.4");
}

/* The turn of column pair i of a head at a place of the video. */
static double angle(const walk *s, int64_t at, int64_t i)
{
    const int64_t side = s->m->head / 6 * 2, axis[AXES] = {s->m->head - 2 * side, side, side};
    const int64_t where[AXES] = {at / (s->rows * s->cols), at / s->cols % s->rows, at % s->cols};
    int k = 0;
    while (2 * i >= axis[k]) i -= axis[k++] / 2;
    return (double)where[k] * pow(10000, -2.0 * (double)i / (double)axis[k]);
}

static kiln_t table(const walk *s, double (*of)(double))
{
    const int64_t half = s->m->head / 2, places = s->frames * s->rows * s->cols;
    float *data = malloc((size_t)(places * half) * sizeof *data);
    if (!data) return s->o->fail(s->p, "no memory for the places of %lld patches", (long long)places);
    for (int64_t i = 0; i < places * half; i++) data[i] = (float)of(angle(s, i / half, i % half));
    kiln_t t = s->o->constant(s->p, data, DIMS(1, places, 1, half));
    free(data);
    return t;
}

/* x, and of an image-to-video model which frames are given and what they are: [N,T,H,W,16+4+16] -> [N,T h w,D] */
static kiln_t patches(const walk *s)
{
    const kiln_denoise_inputs *in = s->r.in;
    const kiln_conv how = {.size = sizeof how, .rank = 3, .stride = {1, WAN_PATCH, WAN_PATCH}};
    kiln_t x = in->x, w, b;
    if (s->m->in > WAN_CHANNELS)
        x = s->o->concat(
            s->p,
            (kiln_t[]){x, kiln_input(in->input, in->n_input, "given"), kiln_input(in->input, in->n_input, "picture")},
            3, 4);
    w = s->o->weight(s->p, s->weights, "patch_embedding.weight", DIMS(s->m->width, s->m->in, 1, WAN_PATCH, WAN_PATCH));
    b = s->o->weight(s->p, s->weights, "patch_embedding.bias", DIMS(s->m->width));
    x = s->o->conv(s->p, x, w, b, &how);
    return s->o->reshape(s->p, x, DIMS(s->n, s->frames * s->rows * s->cols, s->m->width));
}

static kiln_t cells(const walk *s, kiln_t x)
{
    x = s->o->reshape(s->p, x, DIMS(s->n * s->frames, s->rows, s->cols, WAN_PATCH, WAN_PATCH, WAN_CHANNELS));
    x = s->o->permute(s->p, x, (const uint32_t[]){0, 1, 3, 2, 4, 5});
    return s->o->reshape(s->p, x, DIMS(s->n, s->frames, s->rows * WAN_PATCH, s->cols * WAN_PATCH, WAN_CHANNELS));
}

static kiln_t record(const kiln_denoiser *d, const kiln_ops *o, kiln_program *p, kiln_weights *weights,
                     const kiln_denoise_inputs *in)
{
    const wan *m = d->self;
    walk s = {.r = {sizeof s.r, o, p, in}, .o = o, .p = p, .m = m, .weights = weights};
    int64_t dim[5] = {0};
    o->shape(p, in->x, dim, 5);
    s.n = dim[0], s.frames = dim[1], s.rows = dim[2] / WAN_PATCH, s.cols = dim[3] / WAN_PATCH;
    embed_time(&s), embed_context(&s);
    s.cos = table(&s, cos), s.sin = table(&s, sin);
    kiln_t x = patches(&s);
    for (int64_t i = 0; i < m->layers; i++) x = block(&s, i, x);
    kiln_t out = modulation(&s, s.t, "head.modulation", 2); /* shift, scale */
    x = modulated(&s, x, part_of(&s, out, 1), part_of(&s, out, 0));
    return cells(&s, linear(&s, x, WAN_PATCH * WAN_PATCH * WAN_CHANNELS, "head.head"));
}

static void list_places(const kiln_denoiser *d, void (*fn)(void *arg, const char *place, uint32_t kind), void *arg)
{
    const wan *m = d->self;
    char name[64];
    for (long long i = 0; i < m->layers; i++) {
        fn(arg, NAME(name, "blocks.%lld.self_attn", i), KILN_PLACE_ATTENTION);
        fn(arg, NAME(name, "blocks.%lld.cross_attn", i), KILN_PLACE_ATTENTION);
        if (m->vision) fn(arg, NAME(name, "blocks.%lld.image_attn", i), KILN_PLACE_ATTENTION);
        fn(arg, NAME(name, "blocks.%lld", i), KILN_PLACE_BLOCK);
    }
}

static kiln_status save(const kiln_denoiser *d, const kiln_model *m, const kiln_saving *s)
{
    return wan_save_transformer(m, ((const wan *)d->self)->heads, s);
}

/* ---- opening ---- */

enum { RELEASED, DIFFUSERS };
#define RELEASED_NEEDS                                                                                                 \
    {                                                                                                                  \
        "head.modulation", "blocks.0.self_attn.norm_q.weight", "time_projection.1.weight", "patch_embedding.weight"    \
    }
static const checkpoint_layout layouts[] = {
    {.prefix = "", .needs = RELEASED_NEEDS, .kind = RELEASED},
    {.prefix = "model.diffusion_model.", .needs = RELEASED_NEEDS, .kind = RELEASED},
    {.prefix = "",
     .needs = {"scale_shift_table", "blocks.0.attn1.norm_q.weight", "condition_embedder.time_proj.weight",
               "patch_embedding.weight"},
     .kind = DIFFUSERS},
};

/* Other models of the house, by a name that they alone have. */
static const struct {
    const char *name, *what;
} relatives[] = {
    {"img_emb.emb_pos", "it goes from a first to a last frame (FLF2V)"},
    {"vace_patch_embedding.weight", "it is VACE's, with blocks for what controls it"},
    {"control_adapter.conv.weight", "it is a Fun model that follows a camera"},
    {"ref_conv.weight", "it is a Fun model with a picture for reference"},
    {"casual_audio_encoder.weights", "it follows sound (S2V)"},
    {"face_adapter.fuser_blocks.0.linear1_kv.weight", "it follows a face (Animate)"},
};

static int detect(const kiln_weights_api *w, const kiln_weights *set)
{
    return checkpoint_find(w, set, layouts, COUNT(layouts)) ? 90 : 0;
}

static int64_t size_of(const kiln_weights_api *w, const kiln_weights *set, const char *name, uint32_t axis)
{
    kiln_weight_info info = {.size = sizeof info};
    return w->find(set, name, &info) == KILN_OK && info.rank > axis ? info.dim[axis] : 0;
}

/* Heads are in no shape: all releases have them 128 wide, and what is smaller says so. */
static kiln_status read_heads(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, wan *m)
{
    config c = config_open(host, ctx, set, "__metadata__/config");
    m->heads = config_int(&c, "num_heads", config_int(&c, "num_attention_heads", m->width / HEAD, 1, 1024), 1, 1024);
    if (!c.failed && (m->heads < 1 || m->width % m->heads || m->width / m->heads % 2))
        CONFIG_FAIL(&c, KILN_ERR_INVALID,
                    "a width of %lld does not divide into %lld heads of even width; write \"num_heads\" into a map "
                    "'config' in the file's __metadata__",
                    (long long)m->width, (long long)m->heads);
    config_close(&c);
    m->head = c.failed ? 0 : m->width / m->heads;
    return c.failed ? KILN_ERR_INVALID : KILN_OK;
}

static kiln_status read_sizes(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, wan *m)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    char name[64];
    m->width = size_of(w, set, "patch_embedding.weight", 0), m->in = size_of(w, set, "patch_embedding.weight", 1);
    m->hidden = size_of(w, set, "blocks.0.ffn.0.weight", 0), m->text = size_of(w, set, "text_embedding.0.weight", 1);
    m->sinusoid = size_of(w, set, "time_embedding.0.weight", 1);
    m->vision = size_of(w, set, "img_emb.proj.0.weight", 0);
    while (size_of(w, set, NAME(name, "blocks.%lld.modulation", (long long)m->layers), 2)) m->layers++;
    for (size_t i = 0; i < COUNT(relatives); i++)
        if (size_of(w, set, relatives[i].name, 0))
            return host->fail(ctx, KILN_ERR_UNSUPPORTED, "this is a Wan, but %s; Wan 2.1's T2V and I2V are supported",
                              relatives[i].what);
    if (m->in == WAN_CHANNELS || m->in == 2 * WAN_CHANNELS + MASK) return KILN_OK;
    return host->fail(ctx, KILN_ERR_UNSUPPORTED,
                      "this Wan takes %lld channels; %d (T2V) and %d (I2V: a mask and a picture beside the latent) are "
                      "supported",
                      (long long)m->in, WAN_CHANNELS, 2 * WAN_CHANNELS + MASK);
}

/* The rows that this file's network has; returns how many. */
static uint32_t list_inputs(const wan *m, kiln_input_spec *to)
{
    const kiln_input_spec all[] = {
        {.size = sizeof *all, .name = "tokens", .kind = KILN_INPUT_TOKENS, .width = m->text, .doc = "UMT5's."},
        {.size = sizeof *all,
         .name = "vision",
         .kind = KILN_INPUT_TOKENS,
         .width = m->vision,
         .doc = "What CLIP's vision encoder sees in the picture, before its last layer."},
        {.size = sizeof *all,
         .name = "given",
         .kind = KILN_INPUT_LATENT,
         .width = MASK,
         .doc = "1 where a frame is given, for each of a cell's four frames."},
        {.size = sizeof *all,
         .name = "picture",
         .kind = KILN_INPUT_LATENT,
         .flags = KILN_INPUT_MODEL_SPACE,
         .width = WAN_CHANNELS,
         .doc = "The given frames, and grey ones."}};
    uint32_t n = 0;
    to[n++] = all[0];
    if (m->vision) to[n++] = all[1];
    if (m->in > WAN_CHANNELS) to[n++] = all[2], to[n++] = all[3];
    return n;
}

static void fill(wan *m)
{
    kiln_flow_sigmas(SHIFT, LEVELS, m->sigma);
    kiln_standard_sampling_init(&m->sampling, &(kiln_sampling_row){.prediction = KILN_PREDICT_FLOW,
                                                                   .time = KILN_TIME_FLOW,
                                                                   .n_sigma = LEVELS,
                                                                   .sigma = m->sigma,
                                                                   .multiplier = 1000,
                                                                   .shift = SHIFT});
    snprintf(m->family, sizeof m->family, "example-wan/%lld.%lld", (long long)m->heads, (long long)m->vision);
    m->denoiser = (kiln_denoiser){.size = sizeof m->denoiser,
                                  .family = m->family,
                                  .self = m,
                                  .latent = &wan_latent,
                                  .sampling = &m->sampling.base,
                                  .record = record,
                                  .places = list_places,
                                  .save = save,
                                  .input = m->input,
                                  .n_input = list_inputs(m, m->input),
                                  .input_stride = sizeof *m->input,
                                  .architecture = m->in > WAN_CHANNELS ? "Wan 2.1 I2V" : "Wan 2.1 T2V"};
}

static kiln_value *open_model(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    const checkpoint_layout *at = checkpoint_find(w, set, layouts, COUNT(layouts));
    wan *m = at ? calloc(1, sizeof *m) : NULL;
    if (!m) return NULL;
    kiln_weights *view = wan_transformer_names(host, ctx, set, at->prefix, at->kind == DIFFUSERS);
    kiln_value *value = NULL;
    if (view && read_sizes(host, ctx, view, m) == KILN_OK && read_heads(host, ctx, set, m) == KILN_OK) {
        fill(m);
        value = models->model_new(
            ctx,
            &(kiln_model){
                .size = sizeof(kiln_model), .denoiser = &m->denoiser, .weights = view, .owned = m, .release = free});
    }
    w->unref(view);
    if (!value) free(m);
    return value;
}

const kiln_model_family wan_denoiser_family = {.size = sizeof wan_denoiser_family,
                                               .kind = KILN_FAMILY_DENOISER,
                                               .name = "example-wan",
                                               .doc = "Wan 2.1, from text or a picture to a video",
                                               .detect = detect,
                                               .open = open_model};
