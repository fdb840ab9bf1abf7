/* lora_save.c - LoraSave: the difference of two models as a LoRA of a lower rank, by singular values, or whole. What
 * ComfyUI's node writes: its names of tensors, f16, no alpha, and pairs whose numbers are cut at a quantile. */
#include "kiln/files.h"
#include "kiln/kit.h"
#include "kiln/model.h"
#include "lora.h"
#include "lora_extract.h"

#include <strings.h>

enum { STANDARD, FULL_DIFF };

typedef struct {
    const char *prefix;
    int64_t rank;
    int32_t lora_type, bias_diff, clamp;
} save_params;

static const kiln_choice lora_types[] = {
    {.name = "standard", .value = STANDARD, .doc = "Matrices as products of that rank."},
    {.name = "full_diff", .value = FULL_DIFF, .doc = "Matrices as they are."},
    {0},
};
static const kiln_port save_in[] = {
    {.name = "model_diff",
     .type = "MODEL",
     .flags = KILN_PORT_OPTIONAL,
     .doc = "What one model has and another has not (ModelMergeSubtract)."},
    {.name = "text_encoder_diff",
     .type = "CLIP",
     .flags = KILN_PORT_OPTIONAL,
     .doc = "The same of text encoders (CLIPMergeSubtract)."},
};
static const kiln_param save_param[] = {
    {.name = "filename_prefix",
     .type = KILN_P_STRING,
     .offset = offsetof(save_params, prefix),
     .def_str = "loras/ComfyUI_extracted_lora",
     .doc = "Start of the file's name; may name a folder."},
    KIT_INT(save_params, rank, 8, 1, 4096, "Of each pair; less where a matrix has fewer rows or inputs."),
    KIT_ENUM(save_params, lora_type, lora_types, STANDARD, "How matrices are written."),
    KIT_BOOL(save_params, bias_diff, 1, "Biases and norms are written too, as they are."),
    {.name = "clamp",
     .type = KILN_P_BOOL,
     .flags = KILN_PARAM_OWN,
     .offset = offsetof(save_params, clamp),
     .def = 1,
     .doc = "Cuts both sides of a pair at the 0.99 quantile of their numbers, as ComfyUI does; off: the best "
            "approximation of that rank."},
};

static kiln_status check(const kiln_call *c)
{
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    const char *wanted = files->text(c->ctx, "extension");
    if (wanted && strcasecmp(wanted, "safetensors") != 0)
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "-o: its name ends in .%.20s, and this node writes .safetensors files", wanted);
    if (!KILN_HAS(kiln_files_api, files, check)) return KILN_OK;
    return kit_at_param(c, files->check(c->ctx, ((const save_params *)c->params)->prefix), "filename_prefix");
}

/* ---- what is in the file ---- */

static kiln_status add_model(lora_extract *x)
{
    const kiln_model_api *models = x->call->host->ability(KILN_MODEL_ABILITY);
    const kiln_model *m = models->model(x->call->ctx, x->call->in[0]);
    return m ? lora_extract_denoiser(x, m->weights) : KILN_ERR_INVALID;
}

static kiln_status add_clip(lora_extract *x)
{
    const kiln_model_api *models = x->call->host->ability(KILN_MODEL_ABILITY);
    const kiln_clip *clip = models->clip(x->call->ctx, x->call->in[1]);
    if (!clip) return KILN_ERR_INVALID;
    for (uint32_t i = 0; i < clip->n_encoder; i++) {
        const kiln_clip_encoder *e = kiln_clip_encoder_at(clip, i);
        TRY(lora_extract_encoder(x, e->name, e->weights));
    }
    return KILN_OK;
}

static kiln_status write(const kiln_call *c, const lora_extract *x)
{
    const kiln_files_api *files = c->host->ability(KILN_FILES_ABILITY);
    const kiln_weights_api *w = c->host->ability(KILN_WEIGHTS_ABILITY);
    static const kiln_weight_text format = {.size = sizeof format, .key = "format", .value = "pt"};
    kiln_file *file = files->create(c->ctx, KILN_FILES_OUTPUT, ((const save_params *)c->params)->prefix, "safetensors");
    if (!file) return KILN_ERR_IO;
    TRY(w->write(c->ctx, file, x->row, x->n, &format, 1));
    return files->commit(file, NULL);
}

static kiln_status run(const kiln_call *c)
{
    const save_params *p = c->params;
    lora_extract x = {.call = c,
                      .rank = (size_t)p->rank,
                      .whole = p->lora_type == FULL_DIFF,
                      .biases = p->bias_diff != 0,
                      .cuts = p->clamp != 0};
    if (kit_estimating(c)) return KILN_OK;
    if (!c->in[0] && !c->in[1])
        return c->host->fail(c->ctx, KILN_ERR_INVALID,
                             "there is nothing to extract; wire model_diff (ModelMergeSubtract), text_encoder_diff "
                             "(CLIPMergeSubtract) or both");
    kiln_status status = c->in[0] ? add_model(&x) : KILN_OK;
    if (status == KILN_OK && c->in[1]) status = add_clip(&x);
    if (status == KILN_OK && !x.n)
        status = c->host->fail(c->ctx, KILN_ERR_INVALID,
                               "the difference is 0 everywhere: both models are the same, and there is nothing to "
                               "extract");
    if (status == KILN_OK) status = write(c, &x);
    lora_extract_free(&x);
    return status;
}

const kiln_node node_lora_save = {
    KIT_NODE_FLAGS(KILN_NODE_OUTPUT | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES, 1, "LoraSave", "Extract and Save Lora",
                   "experimental", "Writes the difference of two models as a LoRA."),
    KILN_ARRAY(in, save_in),
    KIT_PARAMS(save_params, save_param),
    .run = run,
    .check = check,
};
