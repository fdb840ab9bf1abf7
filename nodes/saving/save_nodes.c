/* save_nodes.c - CheckpointSave, ModelSave, CLIPSave and VAESave: weights as they are by now, with merges and LoRAs in
 * them, as .safetensors files under the names that ComfyUI gives them. How tensors are called is their family's
 * (kiln/saving.h).
 *
 * What hangs on a MODEL beside weights and noise levels (hooks, guidance, a refiner) has no place in such a file; a
 * warning says so.
 */
#include "save_nodes.h"

#include "kiln/files.h"
#include "kiln/model.h"
#include "saved_file.h"

#include <stdio.h>
#include <strings.h>

typedef struct {
    const char *prefix;
    int32_t dtype;
} save_params;

static const kiln_choice dtypes[] = {
    {.name = "default",
     .doc = "as each is stored where it was loaded from; what merges and LoRAs change as f32",
     .value = 0},
    {.name = "fp32", .value = KILN_F32},
    {.name = "fp16", .doc = "half the size; rounded, as ComfyUI saves what it holds in f16", .value = KILN_F16},
    {.name = "bf16", .value = KILN_BF16},
    {0},
};
#define SAVE_PARAM(default_)                                                                                           \
    {.name = "filename_prefix",                                                                                        \
     .type = KILN_P_STRING,                                                                                            \
     .offset = offsetof(save_params, prefix),                                                                          \
     .def_str = (default_),                                                                                            \
     .doc = "Start of the file's name; may name a folder."},                                                           \
    {                                                                                                                  \
        .name = "dtype", .type = KILN_P_ENUM, .flags = KILN_PARAM_OWN, .offset = offsetof(save_params, dtype),         \
        KILN_CHOICES(dtypes), .doc = "How numbers are stored."                                                         \
    }

static const kiln_param checkpoint_param[] = {SAVE_PARAM("checkpoints/ComfyUI")};
static const kiln_param model_param[] = {SAVE_PARAM("diffusion_models/ComfyUI")};
static const kiln_param clip_param[] = {SAVE_PARAM("clip/ComfyUI")};
static const kiln_param vae_param[] = {SAVE_PARAM("vae/ComfyUI_vae")};

static const save_params *params_of(const kiln_call *c) { return c->params; }

/* Where -o FILE names the result: its ending has to be the one that is written. */
static kiln_status check_ending(const kiln_call *c, const char *own)
{
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    const char *wanted = files->text(c->ctx, "extension");
    if (!wanted || strcasecmp(wanted, own) == 0) return KILN_OK;
    return c->host->fail(c->ctx, KILN_ERR_INVALID, "-o: its name ends in .%.20s, and this node writes .%s files",
                         wanted, own);
}

/* Before anything runs: a name that cannot be. */
static kiln_status check(const kiln_call *c)
{
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    TRY(check_ending(c, "safetensors"));
    return kit_at_param(c, files->check(c->ctx, params_of(c)->prefix), "filename_prefix");
}

static kiln_status refuse(const kiln_call *c, const char *what, const char *family)
{
    return c->host->fail(
        c->ctx, KILN_ERR_UNSUPPORTED,
        "%s of the family '%s' cannot be saved: its plugin does not say what its tensors are called in "
        "a file",
        what, family);
}

/* What people call it. */
#define CALLED(type, p) (KILN_HAS(type, p, architecture) && (p)->architecture ? (p)->architecture : (p)->family)

/* ---- parts ---- */

static kiln_status add_model(saved_file *f, const kiln_value *value)
{
    const kiln_call *c = f->call;
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *m = models->model(c->ctx, value);
    if (!m) return KILN_ERR_INVALID;
    if (!KILN_HAS(kiln_denoiser, m->denoiser, save) || !m->denoiser->save)
        return refuse(c, "a denoiser", CALLED(kiln_denoiser, m->denoiser));
    if (m->n_hook || m->n_guidance || m->n_range || m->mask_rule || m->windows)
        c->host->log(KILN_LOG_WARN, "a file holds weights: what nodes do to this MODEL beside them (FreeU, RescaleCFG, "
                                    "a refiner) is not saved");
    return m->denoiser->save(m->denoiser, m, &f->saving);
}

static kiln_status add_clip(saved_file *f, const kiln_clip *clip)
{
    const kiln_text_encoder *first = kiln_clip_encoder_at(clip, 0)->encoder;
    if (!KILN_HAS(kiln_clip, clip, save) || !clip->save)
        return refuse(f->call, "text encoders", CALLED(kiln_text_encoder, first));
    if (KILN_HAS(kiln_clip, clip, hooks) && clip->hooks)
        f->call->host->log(KILN_LOG_WARN,
                           "a file holds weights: hooks of this CLIP, which change them from step to step, "
                           "are not saved");
    return clip->save(clip, &f->saving);
}

static kiln_status add_vae(saved_file *f, const kiln_value *value)
{
    const kiln_call *c = f->call;
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_vae *v = models->vae(c->ctx, value);
    if (!v) return KILN_ERR_INVALID;
    if (!KILN_HAS(kiln_autoencoder, v->autoencoder, save) || !v->autoencoder->save)
        return refuse(c, "an autoencoder", CALLED(kiln_autoencoder, v->autoencoder));
    return v->autoencoder->save(v->autoencoder, v->weights, &f->saving);
}

static kiln_status add_title(saved_file *f)
{
    const char *prefix = params_of(f->call)->prefix, *slash = strrchr(prefix, '/');
    return f->saving.text(&f->saving, "modelspec.title", slash ? slash + 1 : prefix);
}

/* In an estimate nothing is written; what cannot be saved is said. */
static kiln_status finish(saved_file *f, kiln_status status)
{
    if (status == KILN_OK && !kit_estimating(f->call)) status = saved_file_write(f, params_of(f->call)->prefix);
    saved_file_free(f);
    return status;
}

static kiln_status save_checkpoint(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_clip *clip = models->clip(c->ctx, c->in[1]);
    saved_file f;
    if (!clip) return KILN_ERR_INVALID;
    saved_file_begin(&f, c, 0, (uint32_t)params_of(c)->dtype);
    kiln_status status = add_model(&f, c->in[0]);
    if (status == KILN_OK) status = add_clip(&f, clip);
    if (status == KILN_OK) status = add_vae(&f, c->in[2]);
    if (status == KILN_OK) status = add_title(&f);
    return finish(&f, status);
}

static kiln_status save_model(const kiln_call *c)
{
    saved_file f;
    saved_file_begin(&f, c, 1, (uint32_t)params_of(c)->dtype);
    kiln_status status = add_model(&f, c->in[0]);
    if (status == KILN_OK) status = add_title(&f);
    return finish(&f, status);
}

/* A file for each encoder. */
static kiln_status save_clip(const kiln_call *c)
{
    const kiln_model_api *models = c->host->ability(KILN_MODEL_ABILITY);
    const kiln_clip *clip = models->clip(c->ctx, c->in[0]);
    if (!clip) return KILN_ERR_INVALID;
    for (uint32_t i = 0; i < clip->n_encoder; i++) {
        saved_file f;
        saved_file_begin(&f, c, 1, (uint32_t)params_of(c)->dtype);
        f.saving.encoder = i;
        TRY(finish(&f, add_clip(&f, clip)));
    }
    return KILN_OK;
}

static kiln_status save_vae(const kiln_call *c)
{
    saved_file f;
    saved_file_begin(&f, c, 1, (uint32_t)params_of(c)->dtype);
    return finish(&f, add_vae(&f, c->in[0]));
}

/* ---- the rows ---- */

#define SAVE_NODE(type_, title_, doc_)                                                                                 \
    KIT_NODE_FLAGS(KILN_NODE_OUTPUT | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES, 1, type_, title_,                     \
                   "advanced/model_merging", doc_),                                                                    \
        .check = check

#define PORT(name_, type_, doc_)                                                                                       \
    {                                                                                                                  \
        .name = (name_), .type = (type_), .doc = (doc_)                                                                \
    }
static const kiln_port checkpoint_in[] = {PORT("model", "MODEL", "The denoiser."),
                                          PORT("clip", "CLIP", "The text encoders."),
                                          PORT("vae", "VAE", "The autoencoder.")};
static const kiln_port model_in[] = {PORT("model", "MODEL", "The denoiser.")};
static const kiln_port clip_in[] = {PORT("clip", "CLIP", "The text encoders.")};
static const kiln_port vae_in[] = {PORT("vae", "VAE", "The autoencoder.")};

const kiln_node node_checkpoint_save = {
    SAVE_NODE("CheckpointSave", "Save Checkpoint",
              "Writes a denoiser, text encoders and an autoencoder into one file."),
    KILN_ARRAY(in, checkpoint_in),
    KIT_PARAMS(save_params, checkpoint_param),
    .run = save_checkpoint,
};
const kiln_node node_model_save = {
    SAVE_NODE("ModelSave", "ModelSave", "Writes a denoiser into a file."),
    KILN_ARRAY(in, model_in),
    KIT_PARAMS(save_params, model_param),
    .run = save_model,
};
const kiln_node node_clip_save = {
    SAVE_NODE("CLIPSave", "CLIPSave", "Writes each text encoder into a file of its own."),
    KILN_ARRAY(in, clip_in),
    KIT_PARAMS(save_params, clip_param),
    .run = save_clip,
};
const kiln_node node_vae_save = {
    SAVE_NODE("VAESave", "VAESave", "Writes an autoencoder into a file."),
    KILN_ARRAY(in, vae_in),
    KIT_PARAMS(save_params, vae_param),
    .run = save_vae,
};
