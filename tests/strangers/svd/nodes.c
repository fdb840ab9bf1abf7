/* nodes.c - what a workflow of Stable Video Diffusion needs beside kiln's own nodes: a loader of MODEL, CLIP_VISION and
 * VAE, and the conditioning that a picture becomes. The latter stands for five nodes: three of kiln's and two of ours.
 */
#include "kiln/graph.h"
#include "kiln/loading.h"
#include "kiln/sampling.h"
#include "svd.h"

/* ---- ExampleImageOnlyCheckpointLoader ---- */

enum { PARTS = 3 };

typedef struct {
    const char *path;
} loader_params;

static const kiln_port loader_out[PARTS] = {
    {.name = "MODEL", .type = "MODEL", .doc = "The denoiser."},
    {.name = "CLIP_VISION", .type = "CLIP_VISION", .doc = "The vision encoder."},
    {.name = "VAE", .type = "VAE", .doc = "The autoencoder."}};
static const kiln_param loader_param[] = {{.name = "ckpt_name",
                                           .type = KILN_P_FILE,
                                           .flags = KILN_PARAM_REQUIRED,
                                           .offset = offsetof(loader_params, path),
                                           .from = "checkpoints",
                                           .doc = "A .safetensors file or a folder in diffusers' layout."}};

static kiln_status loader_run(const kiln_call *c)
{
    static const char *const kind[PARTS] = {KILN_FAMILY_DENOISER, KILN_FAMILY_VISION, KILN_FAMILY_AUTOENCODER};
    const kiln_load what = {
        .size = sizeof what, .path = ((const loader_params *)c->params)->path, .kind = kind, .n = PARTS};
    return kiln_load_parts(c, &what, c->out);
}

const kiln_node svd_loader_node = {KIT_NODE("ExampleImageOnlyCheckpointLoader", "Load Checkpoint Image Only",
                                            "examples", "Opens a checkpoint that goes from pictures to videos."),
                                   KILN_ARRAY(out, loader_out), KIT_PARAMS(loader_params, loader_param),
                                   .run = loader_run};

/* ---- ExampleSVD_img2vid_Conditioning ---- */

typedef struct {
    int64_t width, height, video_frames, motion_bucket_id, fps;
    double augmentation_level;
    uint64_t seed;
} conditioning_params;

static const kiln_port conditioning_in[] = {
    {.name = "clip_vision", .type = "CLIP_VISION", .doc = "The checkpoint's vision encoder."},
    {.name = "init_image", .type = "IMAGE", .doc = "One picture, which begins to move."},
    {.name = "vae", .type = "VAE", .doc = "The checkpoint's autoencoder."}};
static const kiln_port conditioning_out[] = {
    {.name = "positive", .type = "CONDITIONING", .doc = "The picture and the numbers."},
    {.name = "negative", .type = "CONDITIONING", .doc = "The numbers, without the picture."},
    {.name = "latent", .type = "LATENT", .doc = "Zeros: a video of this size."}};

/* Rows of the whole node, which passes them on, and of its parts. */
#define ROW(struct_, field_, type_, flags_, default_, min_, max_, step_, doc_)                                         \
    {                                                                                                                  \
        .name = #field_, .type = (type_), .flags = (flags_), .offset = offsetof(struct_, field_), .def = (default_),   \
        .min = (min_), .max = (max_), .step = (step_), .doc = (doc_)                                                   \
    }
#define NUMBERS(struct_, flags_)                                                                                       \
    ROW(struct_, video_frames, KILN_P_INT, flags_, 14, 1, 4096, 1, "Frames."),                                         \
        ROW(struct_, motion_bucket_id, KILN_P_INT, flags_, 127, 1, 1023, 1, "How much moves."),                        \
        ROW(struct_, fps, KILN_P_INT, flags_, 6, 1, 1024, 1, "Frames a second.")
#define LEVEL(struct_, flags_)                                                                                         \
    ROW(struct_, augmentation_level, KILN_P_FLOAT, flags_, 0, 0, 10, 0.01,                                             \
        "Noise on the picture, whose numbers go from -1 to 1: how freely it is followed.")
#define SEED(struct_, flags_)                                                                                          \
    {                                                                                                                  \
        .name = "seed", .type = KILN_P_SEED, .flags = (flags_), .offset = offsetof(struct_, seed),                     \
        .doc = "Of that noise."                                                                                        \
    }

static const kiln_param conditioning_param[] = {
    ROW(conditioning_params, width, KILN_P_INT, KILN_PARAM_PASSED, 1024, 16, 16384, 8, "Pixels of a frame."),
    ROW(conditioning_params, height, KILN_P_INT, KILN_PARAM_PASSED, 576, 16, 16384, 8, "Pixels of a frame."),
    NUMBERS(conditioning_params, KILN_PARAM_PASSED), LEVEL(conditioning_params, KILN_PARAM_PASSED),
    SEED(conditioning_params, KILN_PARAM_PASSED)};

static kiln_status conditioning_expand(const kiln_call *c, kiln_graph *g)
{
    static const char *const passed[] = {"video_frames", "motion_bucket_id", "fps", "augmentation_level"};
    static const char *const out[] = {"positive", "negative", "latent"};
    const kiln_graph_api *b = c->host->ability(KILN_GRAPH_ABILITY);
    b->node(g, "seen", "CLIPVisionEncode");
    b->pass(g, "seen", "clip_vision", "clip_vision"), b->pass(g, "seen", "image", "init_image");
    b->set_text(g, "seen", "crop", "center");
    b->node(g, "scaled", "ImageScale");
    b->pass(g, "scaled", "image", "init_image");
    b->pass(g, "scaled", "width", "width"), b->pass(g, "scaled", "height", "height");
    b->set_text(g, "scaled", "upscale_method", "bilinear"), b->set_text(g, "scaled", "crop", "center");
    b->node(g, "noised", "ExampleSVDAugment");
    b->wire(g, "noised", "image", "scaled", "IMAGE");
    b->pass(g, "noised", "augmentation_level", "augmentation_level"), b->pass(g, "noised", "seed", "seed");
    b->node(g, "encoded", "VAEEncode");
    b->wire(g, "encoded", "pixels", "noised", "IMAGE"), b->pass(g, "encoded", "vae", "vae");
    b->node(g, "entry", "ExampleSVDEntry");
    b->wire(g, "entry", "clip_vision_output", "seen", "CLIP_VISION_OUTPUT");
    b->wire(g, "entry", "picture", "encoded", "LATENT");
    for (size_t i = 0; i < COUNT(passed); i++) b->pass(g, "entry", passed[i], passed[i]);
    for (size_t i = 0; i < COUNT(out); i++) b->output(g, out[i], "entry", out[i]);
    return KILN_OK; /* the engine looks at the first mistake */
}

const kiln_node svd_conditioning_node = {
    KIT_NODE_FLAGS(KILN_NODE_EXPANDS, 1, "ExampleSVD_img2vid_Conditioning", "SVD_img2vid_Conditioning", "examples",
                   "What a picture becomes for Stable Video Diffusion."),
    KILN_ARRAY(in, conditioning_in), KILN_ARRAY(out, conditioning_out),
    KIT_PARAMS(conditioning_params, conditioning_param), .expand = conditioning_expand};

/* ---- ExampleSVDAugment ---- */

typedef struct {
    double augmentation_level;
    uint64_t seed;
} augment_params;

static const kiln_port image_in[] = {{.name = "image", .type = "IMAGE", .doc = "A picture."}};
static const kiln_port image_out[] = {
    {.name = "IMAGE", .type = "IMAGE", .doc = "With noise on it, of three channels."}};
static const kiln_param augment_param[] = {LEVEL(augment_params, 0), SEED(augment_params, 0)};

/* Noise of -1..1 on numbers of 0..1: half of it. */
static kiln_status augment_run(const kiln_call *c)
{
    const kiln_sampling_api *s = c->host->ability(KILN_SAMPLING_ABILITY);
    const augment_params *p = c->params;
    kiln_tensor from, to;
    TRY(kit_f32(c, c->in[0], 4, "image", &from));
    if (from.dim[0] != 1)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "init_image has %lld pictures, and one begins a video; ImageFromBatch takes one of them",
                             (long long)from.dim[0]);
    const int64_t *dim = KILN_DIMS(1, from.dim[1], from.dim[2], 3);
    TRY(kit_new_f32(c, 4, dim, &c->out[0], &to));
    if (kit_estimating(c)) return KILN_OK;
    size_t cells = kit_count(&to) / 3, own = (size_t)from.dim[3];
    float *noise = c->host->scratch(c->ctx, 3 * cells * sizeof *noise, KILN_CPU);
    if (!s || !noise) return s ? KILN_ERR_NOMEM : KILN_ERR_UNSUPPORTED;
    TRY(s->random(c, p->seed, 4, dim, noise));
    for (size_t i = 0; i < 3 * cells; i++)
        ((float *)to.data)[i] =
            ((const float *)from.data)[i / 3 * own + i % 3] + (float)(p->augmentation_level / 2) * noise[i];
    return KILN_OK;
}

const kiln_node svd_augment_node = {
    KIT_NODE("ExampleSVDAugment", "SVD Augment", "examples", "Noise on the picture that a video begins with."),
    KILN_ARRAY(in, image_in), KILN_ARRAY(out, image_out), KIT_PARAMS(augment_params, augment_param),
    .run = augment_run};

/* ---- ExampleSVDEntry ---- */

typedef struct {
    int64_t video_frames, motion_bucket_id, fps;
    double augmentation_level;
} entry_params;

static const kiln_port entry_in[] = {
    {.name = "clip_vision_output", .type = "CLIP_VISION_OUTPUT", .doc = "The picture, seen."},
    {.name = "picture", .type = "LATENT", .doc = "The picture, encoded."}};
static const kiln_param entry_param[] = {NUMBERS(entry_params, 0), LEVEL(entry_params, 0)};

/* A new tensor [rank] of zeros, or of `from`. */
static kiln_value *tensor_of(const kiln_call *c, uint32_t rank, const int64_t *dim, const kiln_tensor *from)
{
    kiln_value *value = NULL;
    kiln_tensor t;
    if (kit_new_f32(c, rank, dim, &value, &t) != KILN_OK) return NULL;
    if (kit_estimating(c)) return value;
    if (from)
        memcpy(t.data, from->data, kit_count(&t) * sizeof(float));
    else
        memset(t.data, 0, kit_count(&t) * sizeof(float));
    return value;
}

/* A CONDITIONING of one entry; the negative one has zeros in the picture's place. */
static kiln_value *entry_of(const kiln_call *c, const kiln_tensor *embeds, const kiln_tensor *picture, int positive)
{
    const kiln_value_api *v = kit_values(c);
    const entry_params *p = c->params;
    kiln_value *entry = v->new_map(c->ctx), *list = v->new_list(c->ctx);
    kiln_status status = entry && list ? KILN_OK : KILN_ERR_NOMEM;
    const struct {
        const char *key;
        kiln_value *item;
    } all[] = {{"tokens", tensor_of(c, 3, KILN_DIMS(1, 1, embeds->dim[1]), positive ? embeds : NULL)},
               {"concat_latent_image", tensor_of(c, 4, picture->dim, positive ? picture : NULL)},
               {"video_frames", v->new_int(c->ctx, p->video_frames)},
               {"motion_bucket_id", v->new_int(c->ctx, p->motion_bucket_id)},
               {"fps", v->new_int(c->ctx, p->fps)},
               {"augmentation_level", v->new_float(c->ctx, p->augmentation_level)}};
    for (size_t i = 0; i < COUNT(all); i++) {
        if (status == KILN_OK)
            status = kit_set(c, entry, all[i].key, all[i].item);
        else
            c->host->unref(all[i].item);
    }
    if (status == KILN_OK) status = v->list_push(list, entry);
    c->host->unref(entry);
    if (status == KILN_OK) return list;
    c->host->unref(list);
    return NULL;
}

static kiln_status entry_run(const kiln_call *c)
{
    kiln_tensor embeds, picture;
    TRY(kit_f32(c, kit_values(c)->map_get(c->in[0], "image_embeds"), 2, "the picture's embedding", &embeds));
    TRY(kit_samples(c, c->in[1], &picture));
    if (embeds.dim[0] != 1 || picture.dim[0] != 1 || picture.rank != 4)
        return c->host->fail(c->ctx, KILN_ERR_INVALID, "one picture begins a video, and this is no single one");
    for (int i = 0; i < 2; i++)
        if (!(c->out[i] = entry_of(c, &embeds, &picture, i == 0))) return KILN_ERR_NOMEM;
    const int64_t *dim =
        KILN_DIMS(((const entry_params *)c->params)->video_frames, picture.dim[1], picture.dim[2], picture.dim[3]);
    return kit_latent(c, NULL, tensor_of(c, 4, dim, NULL), &c->out[2]);
}

const kiln_node svd_entry_node = {
    KIT_NODE("ExampleSVDEntry", "SVD Entry", "examples", "A conditioning of a picture that was seen and encoded."),
    KILN_ARRAY(in, entry_in), KILN_ARRAY(out, conditioning_out), KIT_PARAMS(entry_params, entry_param),
    .run = entry_run};

/* ---- the plugin ---- */

static kiln_status open_plugin(const kiln_host *host)
{
    const kiln_model_api *models = host->ability(KILN_MODEL_ABILITY);
    if (!models) return KILN_ERR_UNSUPPORTED;
    TRY(models->register_family(&svd_denoiser_family));
    return models->register_family(&svd_autoencoder_family);
}

KILN_PLUGIN_OPEN("org.example.svd", "1.0.0", "MIT", open_plugin, &svd_loader_node, &svd_conditioning_node,
                 &svd_augment_node, &svd_entry_node, &svd_guidance_node, &svd_chunks_node);
