/* loaders.c - CheckpointLoaderSimple, DiffusersLoader, UNETLoader, CLIPLoader, VAELoader.
 *
 * What a file holds is decided by the registered model families, not here. Nothing but headers and configuration is
 * read; then each network is recorded once at a tiny size and thrown away: a missing or misshapen tensor is reported
 * now and not after a minute of sampling, and what no network has asked for is counted and named.
 */
#include "loaders.h"

#include "kiln/kit.h"
#include "kiln/model.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    const kiln_call *call;
    const kiln_weights_api *w;
    const kiln_model_api *models;
    const kiln_ops *ops;
    kiln_weights *set;
    const char *path;
} loading;

/* ---- the bind check ---- */

typedef void record_fn(const loading *l, kiln_program *p, const kiln_value *v);

enum { INPUTS_MAX = 64, STREAMS_MAX = 8, ENCODERS_MAX = 8, TINY = 8 };

/* Results that a check does not look at. */
static void ignore(const kiln_outputs *out, const char *name, kiln_t t) { (void)out, (void)name, (void)t; }

/* A small number of cells that is a multiple of the network's patches. */
static int64_t tiny_cells(int32_t patch) { return patch > 1 ? (TINY + patch - 1) / patch * patch : TINY; }

/* The smallest shape of an input of this kind; returns the rank. */
static uint32_t tiny_shape(const kiln_input_spec *s, const kiln_latent_format *f, int64_t dim[5])
{
    int64_t width = s->width ? s->width : 1,
            cells = tiny_cells(f->patch) * (s->kind == KILN_INPUT_IMAGE && f->factor ? f->factor : 1);
    uint32_t rank = f->rank ? (uint32_t)f->rank : 4;
    switch (s->kind) {
    case KILN_INPUT_SCALAR:
    case KILN_INPUT_LENGTHS: return dim[0] = 1, 1;
    case KILN_INPUT_VECTOR:
    case KILN_INPUT_IDS: return dim[0] = 1, dim[1] = width, 2;
    case KILN_INPUT_TOKENS: return dim[0] = dim[1] = 1, dim[2] = width, 3;
    case KILN_INPUT_TABLE: return dim[0] = width, 1;
    default: break;
    }
    for (uint32_t i = 0; i + 1 < rank; i++) dim[i] = i == 0 ? 1 : cells;
    if (rank == 5) dim[1] = f->time_patch > 1 ? f->time_patch : 1;
    dim[rank - 1] = width;
    return rank;
}

/* One of each input, those that may be left out among them: so every weight is asked for. */
static size_t tiny_inputs(const loading *l, kiln_program *p, const kiln_denoiser *d, kiln_named_tensor *out)
{
    size_t n = 0;
    for (uint32_t i = 0; i < d->n_input && n < INPUTS_MAX; i++) {
        int64_t dim[5];
        kiln_input_spec s = kiln_input_spec_at(d->input, d->input_stride, i);
        int integers = s.kind == KILN_INPUT_IDS || s.kind == KILN_INPUT_LENGTHS;
        uint32_t rank = tiny_shape(&s, d->latent, dim);
        out[n++] = (kiln_named_tensor){
            .size = sizeof *out,
            .name = s.name,
            .tensor = l->ops->input(p, s.name, integers ? KILN_I32 : KILN_F32, rank, dim),
        };
    }
    return n;
}

/* The further streams of x, the first being there. */
static uint32_t tiny_streams(const loading *l, kiln_program *p, const kiln_denoiser *d, kiln_t stream[STREAMS_MAX])
{
    uint32_t n = 1;
    for (uint32_t i = 0; i < d->n_stream && n < STREAMS_MAX; i++) {
        const kiln_latent_format *f = (const void *)((const char *)d->stream + i * d->stream_stride);
        kiln_input_spec latent = {.kind = KILN_INPUT_LATENT, .width = f->channels};
        char name[32];
        int64_t dim[5];
        uint32_t rank = tiny_shape(&latent, f, dim);
        snprintf(name, sizeof name, "stream.%u", n);
        stream[n++] = l->ops->input(p, name, KILN_F32, rank, dim);
    }
    return n;
}

static kiln_t tiny_timestep(const loading *l, kiln_program *p, const kiln_denoiser *d, uint32_t rank, const int64_t *x)
{
    int64_t dim[2] = {1, 1};
    for (uint32_t i = 1; d->timestep == KILN_TIMESTEP_TOKEN && i + 1 < rank; i++) dim[1] *= x[i];
    if (d->timestep == KILN_TIMESTEP_FRAME && rank == 5) dim[1] = x[1];
    return l->ops->input(p, "timestep", KILN_F32, d->timestep == KILN_TIMESTEP_PICTURE ? 1 : 2, dim);
}

static void record_model(const loading *l, kiln_program *p, const kiln_value *v)
{
    const kiln_model *m = l->models->model(l->call->ctx, v);
    const kiln_denoiser *d = m->denoiser;
    kiln_named_tensor input[INPUTS_MAX];
    kiln_input_spec latent = {.kind = KILN_INPUT_LATENT, .width = d->latent->channels};
    kiln_t stream[STREAMS_MAX];
    const kiln_outputs out = {.size = sizeof out, .add = ignore};
    kiln_denoise_inputs in = {.size = sizeof in, .input = input, .stream = stream, .out = &out};
    int64_t dim[5];
    uint32_t rank = tiny_shape(&latent, d->latent, dim);
    in.x = stream[0] = l->ops->input(p, "x", KILN_F32, rank, dim);
    in.n_stream = tiny_streams(l, p, d, stream);
    in.timestep = tiny_timestep(l, p, d, rank, dim);
    in.n_input = tiny_inputs(l, p, d, input);
    d->record(d, l->ops, p, m->weights, &in);
}

static void record_clip(const loading *l, kiln_program *p, const kiln_value *v)
{
    const kiln_clip *c = l->models->clip(l->call->ctx, v);
    const kiln_outputs to = {.size = sizeof to, .add = ignore};
    kiln_combined combined[ENCODERS_MAX];
    char name[32];
    for (uint32_t i = 0; i < c->n_encoder && i < ENCODERS_MAX; i++) {
        const kiln_clip_encoder *e = kiln_clip_encoder_at(c, i);
        kiln_text_inputs in = {.size = sizeof in, .layer = e->layer ? e->layer : e->encoder->default_layer};
        kiln_text_features out = {.size = sizeof out};
        int64_t length = e->encoder->max_length ? e->encoder->max_length : e->encoder->min_length + 1;
        snprintf(name, sizeof name, "ids.%u", i);
        in.ids = l->ops->input(p, name, KILN_I32, 2, KILN_DIMS(1, length));
        snprintf(name, sizeof name, "end.%u", i);
        in.end = l->ops->input(p, name, KILN_I32, 1, KILN_DIMS(1));
        snprintf(name, sizeof name, "count.%u", i);
        if (e->encoder->flags & KILN_TEXT_COUNTED) in.count = l->ops->input(p, name, KILN_I32, 1, KILN_DIMS(1));
        e->encoder->record(e->encoder, l->ops, p, e->weights, &in, &out);
        combined[i] = (kiln_combined){
            .size = sizeof *combined, .name = e->name, .tokens = out.tokens, .pooled = out.pooled, .count = in.count};
    }
    if (c->combine && c->n_encoder <= ENCODERS_MAX) c->combine(c, l->ops, p, combined, c->n_encoder, &to);
}

static void record_decoder(const loading *l, kiln_program *p, const kiln_value *v)
{
    const kiln_vae *a = l->models->vae(l->call->ctx, v);
    kiln_input_spec latent = {.kind = KILN_INPUT_LATENT, .width = a->autoencoder->latent->channels};
    int64_t dim[5];
    uint32_t rank = tiny_shape(&latent, a->autoencoder->latent, dim);
    if (!a->autoencoder->record_decode) return;
    a->autoencoder->record_decode(a->autoencoder, l->ops, p, a->weights,
                                  l->ops->input(p, "latent", KILN_F32, rank, dim));
}

static void record_encoder(const loading *l, kiln_program *p, const kiln_value *v)
{
    const kiln_vae *a = l->models->vae(l->call->ctx, v);
    kiln_latent_distribution out = {.size = sizeof out};
    int64_t channels = a->autoencoder->image_channels ? a->autoencoder->image_channels : 3, dim[5];
    kiln_input_spec image = {.kind = KILN_INPUT_IMAGE, .width = channels};
    uint32_t rank = tiny_shape(&image, a->autoencoder->latent, dim);
    if (!a->autoencoder->record_encode) return;
    a->autoencoder->record_encode(a->autoencoder, l->ops, p, a->weights, l->ops->input(p, "image", KILN_F32, rank, dim),
                                  &out);
}

static kiln_status bind_check(const loading *l, const kiln_value *v, const char *what, record_fn *record)
{
    kiln_program_options options = {.size = sizeof options, .name = what};
    const char *message = NULL;
    kiln_program *p = l->ops->program_new(l->call->ctx, &options);
    if (!p) return KILN_ERR_NOMEM;
    record(l, p, v);
    kiln_status status = l->ops->error(p, &message);
    if (status != KILN_OK)
        l->call->host->fail(l->call->ctx, status, "%s", message ? message : "the network cannot be recorded");
    l->ops->program_free(p);
    return status;
}

/* ---- tensors nobody asked for ---- */

/* Buffers and parts that files carry and no picture needs. '*' stands for anything, at either end. */
static const char *const known[] = {
    "*position_ids",
    "model_ema.*",
    "betas",
    "alphas_cumprod*",
    "sqrt_*",
    "log_one_minus*",
    "posterior_*",
    "lvlb_weights",
    "logvar",
    "first_stage_model.loss.*",
    "*logit_scale",
    "*text_projection*",
    "safety_checker/*",
    "image_encoder/*",
    "*denoiser.sigmas",
};

static int matches(const char *pattern, const char *name)
{
    size_t n = strlen(pattern), m = strlen(name);
    int front = pattern[0] == '*', back = pattern[n - 1] == '*';
    const char *core = pattern + front;
    size_t length = n - (size_t)(front + back);
    if (m < length) return 0;
    if (!front) return strncmp(name, core, length) == 0 && (back || m == length);
    if (!back) return strncmp(name + m - length, core, length) == 0;
    for (size_t i = 0; i + length <= m; i++)
        if (strncmp(name + i, core, length) == 0) return 1;
    return 0;
}

enum { NAMED_MAX = 8 };

typedef struct {
    const loading *l;
    size_t known, strange;
} tally;

static void count_unused(void *arg, const kiln_weight_info *info)
{
    tally *t = arg;
    char line[700];
    for (size_t i = 0; i < COUNT(known); i++)
        if (matches(known[i], info->name)) {
            t->known++;
            return;
        }
    if (t->strange++ >= NAMED_MAX) return;
    snprintf(line, sizeof line, "%s: tensor '%.400s' is not used by any network", t->l->path, info->name);
    t->l->call->host->log(KILN_LOG_WARN, line);
}

static void report_unused(const loading *l, const kiln_weights *set)
{
    tally t = {.l = l};
    char line[400];
    l->w->unused(set, count_unused, &t);
    if (t.strange > NAMED_MAX) {
        snprintf(line, sizeof line, "%.200s: %zu tensors in all are not used by any network", l->path, t.strange);
        l->call->host->log(KILN_LOG_WARN, line);
    }
    if (t.known) {
        snprintf(line, sizeof line, "%.200s: %zu tensors of known kinds are not needed (position_ids and the like)",
                 l->path, t.known);
        l->call->host->log(KILN_LOG_INFO, line);
    }
}

/* ---- loading ---- */

static const struct {
    const char *kind, *what;
    record_fn *record[2];
    const char *name[2];
} parts[] = {
    {KILN_FAMILY_DENOISER, "denoiser", {record_model}, {"unet"}},
    {KILN_FAMILY_TEXT_ENCODER, "text encoder", {record_clip}, {"text encoder"}},
    {KILN_FAMILY_AUTOENCODER, "autoencoder", {record_decoder, record_encoder}, {"vae decode", "vae encode"}},
};

/* A part by itself answers for its own tensors only: the file may hold more. */
static void report_part(const loading *l, size_t part, const kiln_value *v)
{
    if (strcmp(parts[part].kind, KILN_FAMILY_DENOISER) == 0)
        report_unused(l, l->models->model(l->call->ctx, v)->weights);
    else if (strcmp(parts[part].kind, KILN_FAMILY_AUTOENCODER) == 0)
        report_unused(l, l->models->vae(l->call->ctx, v)->weights);
    else {
        const kiln_clip *c = l->models->clip(l->call->ctx, v);
        for (uint32_t i = 0; i < c->n_encoder; i++) report_unused(l, kiln_clip_encoder_at(c, i)->weights);
    }
}

static kiln_status load_part(const loading *l, size_t part, kiln_value **out)
{
    const kiln_host *host = l->call->host;
    const kiln_model_family *family = l->models->detect(parts[part].kind, l->set);
    if (!family)
        return host->fail(l->call->ctx, KILN_ERR_UNSUPPORTED,
                          "%s: no loaded plugin knows a %s in it; `kiln plugins` lists what is loaded", l->path,
                          parts[part].what);
    kiln_value *v = family->open(host, l->call->ctx, l->set);
    if (!v)
        return host->fail(l->call->ctx, KILN_ERR_INVALID, "%s: its %s could not be opened", l->path, parts[part].what);
    for (size_t i = 0; i < 2 && parts[part].record[i]; i++) {
        kiln_status status = bind_check(l, v, parts[part].name[i], parts[part].record[i]);
        if (status == KILN_OK) continue;
        host->unref(v);
        return status;
    }
    *out = v;
    return KILN_OK;
}

/* Loads the parts first..last into the call's outputs, in that order. */
static kiln_status load(const kiln_call *c, const char *path, size_t first, size_t last)
{
    loading l = {.call = c,
                 .w = c->host->ability(KILN_WEIGHTS_ABILITY),
                 .models = c->host->ability(KILN_MODEL_ABILITY),
                 .ops = c->host->ability(KILN_OPS_ABILITY),
                 .path = path};
    kiln_value *value[COUNT(parts)] = {NULL};
    l.set = l.w->open(c->ctx, path);
    if (!l.set) return KILN_ERR_INVALID;
    kiln_status status = KILN_OK;
    for (size_t i = first; i <= last && status == KILN_OK; i++) status = load_part(&l, i, &value[i]);
    if (status == KILN_OK && first == last)
        report_part(&l, first, value[first]);
    else if (status == KILN_OK)
        report_unused(&l, l.set);
    for (size_t i = first; i <= last; i++) {
        if (status == KILN_OK)
            c->out[i - first] = value[i];
        else
            c->host->unref(value[i]);
    }
    l.w->unref(l.set);
    return status;
}

/* ---- whole checkpoints ---- */

enum { DENOISER, TEXT_ENCODER, AUTOENCODER };

typedef struct {
    const char *path;
} path_params;

#define PATH_PARAM(name_, from_, doc_)                                                                                 \
    {                                                                                                                  \
        .name = name_, .type = KILN_P_FILE, .flags = KILN_PARAM_REQUIRED, .offset = offsetof(path_params, path),       \
        .from = from_, .doc = doc_                                                                                     \
    }
#define LOADER                                                                                                         \
    .size = sizeof(kiln_node), .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES,                    \
    .devices = KILN_CPU, .revision = 1, .category = "loaders"

static const kiln_port all_out[] = {
    {.name = "MODEL", .type = "MODEL", .doc = "The denoiser."},
    {.name = "CLIP", .type = "CLIP", .doc = "The text encoder."},
    {.name = "VAE", .type = "VAE", .doc = "The autoencoder."},
};

static kiln_status load_all(const kiln_call *c)
{
    return load(c, ((const path_params *)c->params)->path, DENOISER, AUTOENCODER);
}

static const kiln_param checkpoint_param[] = {
    PATH_PARAM("ckpt_name", "checkpoints",
               "A .safetensors file or a folder in diffusers' layout, below a checkpoints folder."),
};
const kiln_node node_checkpoint_loader = {
    LOADER,
    .type = "CheckpointLoaderSimple",
    .title = "Load Checkpoint",
    .doc = "Opens a checkpoint: its denoiser, text encoder and autoencoder.",
    KILN_ARRAY(out, all_out),
    KIT_PARAMS(path_params, checkpoint_param),
    .run = load_all,
};

static const kiln_param diffusers_param[] = {PATH_PARAM("model_path", "diffusers", "A folder in diffusers' layout.")};
const kiln_node node_diffusers_loader = {
    LOADER,
    .type = "DiffusersLoader",
    .title = "Load Diffusers Folder",
    .doc = "Opens a folder in diffusers' layout; CheckpointLoaderSimple does too.",
    KILN_ARRAY(out, all_out),
    KIT_PARAMS(path_params, diffusers_param),
    .run = load_all,
};

/* ---- parts ---- */

static const kiln_port vae_out[] = {{.name = "VAE", .type = "VAE", .doc = "The autoencoder."}};
static const kiln_param vae_param[] = {
    PATH_PARAM("vae_name", "vae", "A .safetensors file or a folder with an autoencoder."),
};
static kiln_status load_vae(const kiln_call *c)
{
    return load(c, ((const path_params *)c->params)->path, AUTOENCODER, AUTOENCODER);
}
const kiln_node node_vae_loader = {
    LOADER,
    .type = "VAELoader",
    .title = "Load VAE",
    .doc = "Opens an autoencoder.",
    KILN_ARRAY(out, vae_out),
    KIT_PARAMS(path_params, vae_param),
    .run = load_vae,
};

typedef struct {
    const char *path;
    int32_t type, device;
} clip_params;

/* The choices are ComfyUI's, so that its workflows are understood; what is not there yet is refused by name. */
static kiln_status refuse_choice(const kiln_call *c, const kiln_choice *choice, int32_t value, const char *why)
{
    while (choice->name && choice->value != value) choice++;
    return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, why, choice->name ? choice->name : "?");
}

static const kiln_choice clip_type[] = {
    {.name = "stable_diffusion", .doc = "SD1.x", .value = 0},
    {.name = "stable_cascade", .value = 1},
    {.name = "sd3", .value = 2},
    {.name = "stable_audio", .value = 3},
    {.name = "mochi", .value = 4},
    {.name = "ltxv", .value = 5},
    {.name = "pixart", .value = 6},
    {.name = "cosmos", .value = 7},
    {.name = "lumina2", .value = 8},
    {.name = "wan", .value = 9},
    {.name = "hidream", .value = 10},
    {.name = "chroma", .value = 11},
    {.name = "ace", .value = 12},
    {.name = "omnigen2", .value = 13},
    {.name = "qwen_image", .value = 14},
    {.name = "hunyuan_image", .value = 15},
    {.name = "flux2", .value = 16},
    {.name = "ovis", .value = 17},
    {.name = "longcat_image", .value = 18},
    {.name = "cogvideox", .value = 19},
    {.name = "lens", .value = 20},
    {.name = "pixeldit", .value = 21},
    {.name = "ideogram4", .value = 22},
    {.name = "boogu", .value = 23},
    {.name = "krea2", .value = 24},
    {.name = "joyimage", .value = 25},
    {.name = "mage", .value = 26},
    {.name = "minimax", .value = 27},
    {0},
};
static const kiln_choice clip_device[] = {{.name = "default", .value = 0}, {.name = "cpu", .value = 1}, {0}};
static const kiln_port clip_out[] = {{.name = "CLIP", .type = "CLIP", .doc = "The text encoder."}};
static const kiln_param clip_param[] = {
    {.name = "clip_name",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(clip_params, path),
     .from = "text_encoders",
     .doc = "A .safetensors file or a folder with a text encoder."},
    KIT_ENUM(clip_params, type, clip_type, 0, "What it is to condition."),
    KIT_ENUM(clip_params, device, clip_device, 0, "Where it runs; there is the CPU only yet."),
};
static kiln_status check_clip(const kiln_call *c)
{
    int32_t type = ((const clip_params *)c->params)->type;
    return type == 0 ? KILN_OK
                     : refuse_choice(c, clip_type, type,
                                     "type '%s' is the text encoder of a model that kiln does not read yet; SD1.x's is "
                                     "stable_diffusion");
}
static kiln_status load_clip(const kiln_call *c)
{
    TRY(check_clip(c)); /* a link may have brought the choice */
    return load(c, ((const clip_params *)c->params)->path, TEXT_ENCODER, TEXT_ENCODER);
}
const kiln_node node_clip_loader = {
    LOADER,
    .type = "CLIPLoader",
    .title = "Load CLIP",
    .doc = "Opens a text encoder.",
    KILN_ARRAY(out, clip_out),
    KIT_PARAMS(clip_params, clip_param),
    .run = load_clip,
    .check = check_clip,
};

typedef struct {
    const char *path;
    int32_t dtype;
} unet_params;

static const kiln_choice unet_dtype[] = {
    {.name = "default", .doc = "as --precision says", .value = 0},
    {.name = "fp8_e4m3fn", .value = 1},
    {.name = "fp8_e4m3fn_fast", .value = 2},
    {.name = "fp8_e5m2", .value = 3},
    {0},
};
static const kiln_port unet_out[] = {{.name = "MODEL", .type = "MODEL", .doc = "The denoiser."}};
static const kiln_param unet_param[] = {
    {.name = "unet_name",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(unet_params, path),
     .from = "diffusion_models",
     .doc = "A .safetensors file or a folder with a denoiser."},
    {.name = "weight_dtype",
     .type = KILN_P_ENUM,
     .offset = offsetof(unet_params, dtype),
     KILN_CHOICES(unet_dtype),
     .doc = "How weights are kept."},
};
static kiln_status check_unet(const kiln_call *c)
{
    int32_t dtype = ((const unet_params *)c->params)->dtype;
    return dtype == 0 ? KILN_OK
                      : refuse_choice(c, unet_dtype, dtype,
                                      "weight_dtype '%s': kiln keeps no weights in 8 bits yet; use default, and "
                                      "--precision bf16 or f16");
}
static kiln_status load_unet(const kiln_call *c)
{
    TRY(check_unet(c));
    return load(c, ((const unet_params *)c->params)->path, DENOISER, DENOISER);
}
const kiln_node node_unet_loader = {
    LOADER,
    .type = "UNETLoader",
    .title = "Load Diffusion Model",
    .doc = "Opens a denoiser.",
    KILN_ARRAY(out, unet_out),
    KIT_PARAMS(unet_params, unet_param),
    .run = load_unet,
    .check = check_unet,
};
