/* clip_save.c - see clip_save.h.
 *
 * An encoder of a size that was not released takes its configuration and its tokenizer along, as texts of the file's
 * metadata: clip_layout.c looks for them there as it does in a folder.
 */
#include "clip_save.h"

#include "kiln/checkpoint.h"
#include "kiln/kit.h"

#include <stdio.h>

enum { NAME = 200 };

/* ---- names ---- */

typedef struct {
    const kiln_saving *s;
    const kiln_weights_api *w;
    kiln_weights *weights;
    const char *prefix; /* in the file */
} saver;

static kiln_status put(const saver *p, kiln_weights *from, const char *name, const char *const *tensor, uint32_t n)
{
    char full[2 * NAME];
    snprintf(full, sizeof full, "%s%s", p->prefix, name);
    return p->s->tensor(
        p->s, &(kiln_weight_row){
                  .size = sizeof(kiln_weight_row), .name = full, .from = from, .tensor = tensor, .n_tensor = n});
}

static kiln_status put_as_they_are(const saver *p)
{
    for (size_t i = 0; i < p->w->count(p->weights); i++) {
        kiln_weight_info info = {.size = sizeof info};
        if (p->w->at(p->weights, i, &info) == KILN_OK) TRY(put(p, p->weights, info.name, &info.name, 1));
    }
    return KILN_OK;
}

#define LAYERS "text_model.encoder.layers."

static const struct {
    const char *from, *to;
} whole[] =
    {
        {"text_model.embeddings.token_embedding.weight", "token_embedding.weight"},
        {"text_model.embeddings.position_embedding.weight", "positional_embedding"},
        {"text_model.final_layer_norm.weight", "ln_final.weight"},
        {"text_model.final_layer_norm.bias", "ln_final.bias"},
},
  parts[] = {
      {"self_attn.out_proj.", "attn.out_proj."},
      {"mlp.fc1.", "mlp.c_fc."},
      {"mlp.fc2.", "mlp.c_proj."},
      {"layer_norm1.", "ln_1."},
      {"layer_norm2.", "ln_2."},
};

/* "self_attn.q_proj.weight" stands for all three. */
static kiln_status put_fused(const saver *p, int layer, const char *end)
{
    static const char letter[] = "qkv";
    char from[3][NAME], to[NAME];
    for (int i = 0; i < 3; i++) snprintf(from[i], NAME, LAYERS "%d.self_attn.%c_proj.%s", layer, letter[i], end);
    snprintf(to, sizeof to, "transformer.resblocks.%d.attn.in_proj_%s", layer, end);
    return put(p, p->weights, to, (const char *const[]){from[0], from[1], from[2]}, 3);
}

static kiln_status put_of_layer(const saver *p, const char *name, int layer, const char *rest)
{
    static const char q[] = "self_attn.q_proj.";
    if (strncmp(rest, q, sizeof q - 1) == 0) return put_fused(p, layer, rest + sizeof q - 1);
    for (size_t i = 0; i < COUNT(parts); i++) {
        size_t n = strlen(parts[i].from);
        char to[NAME];
        if (strncmp(rest, parts[i].from, n) != 0) continue;
        snprintf(to, sizeof to, "transformer.resblocks.%d.%s%s", layer, parts[i].to, rest + n);
        return put(p, p->weights, to, &name, 1);
    }
    return KILN_OK; /* k and v, which stand with q */
}

/* OpenCLIP keeps a matrix [in,out]. */
static kiln_status put_projection(const saver *p)
{
    static const char *const name = "text_projection.weight";
    const kiln_weight_rule turned = KILN_RULE(.from = name, .to = name, .transpose = 1);
    kiln_weights *view = p->w->view(p->s->ctx, p->weights, &turned, 1);
    kiln_status status = view ? put(p, view, "text_projection", &name, 1) : KILN_ERR_INVALID;
    p->w->unref(view);
    return status;
}

static kiln_status put_open_clip(const saver *p)
{
    for (size_t i = 0; i < p->w->count(p->weights); i++) {
        kiln_weight_info info = {.size = sizeof info};
        int layer, at = 0;
        if (p->w->at(p->weights, i, &info) != KILN_OK) continue;
        if (sscanf(info.name, LAYERS "%d.%n", &layer, &at) == 1 && at)
            TRY(put_of_layer(p, info.name, layer, info.name + at));
        else if (strcmp(info.name, "text_projection.weight") == 0)
            TRY(put_projection(p));
        for (size_t k = 0; k < COUNT(whole); k++)
            if (strcmp(info.name, whole[k].from) == 0) TRY(put(p, p->weights, whole[k].to, &info.name, 1));
    }
    return KILN_OK;
}

/* ---- what goes along ---- */

/* The texts of the encoder's folder, under "clip_l/config.json" and the like, or under their own names. */
static kiln_status put_texts(const saver *p, const clip_encoder *e)
{
    static const char *const files[] = {"vocab.json", "merges.txt", "special_tokens_map.json", "tokenizer_config.json"};
    char key[NAME], path[NAME], begin[20] = "";
    if (!p->s->alone) snprintf(begin, sizeof begin, "clip_%s/", clip_kind_name(e->kind));
    const char *settings = e->path ? p->w->text(p->weights, e->path, NULL) : NULL;
    snprintf(key, sizeof key, "%sconfig.json", begin);
    if (settings) TRY(p->s->text(p->s, key, settings));
    for (size_t i = 0; e->tokenizer_path && i < COUNT(files); i++) {
        snprintf(path, sizeof path, "%s%s", e->tokenizer_path, files[i]);
        snprintf(key, sizeof key, "%s%s", begin, files[i]);
        const char *text = p->w->text(p->weights, path, NULL);
        if (text) TRY(p->s->text(p->s, key, text));
    }
    return KILN_OK;
}

/* ---- one and all ---- */

/* Where the kinds lie in a checkpoint, alone there and as SDXL's two. */
static const char *const places[][2] = {
    [CLIP_L] = {"cond_stage_model.transformer.", "conditioner.embedders.0.transformer."},
    [CLIP_H] = {"cond_stage_model.model.", NULL},
    [CLIP_G] = {"conditioner.embedders.0.model.", "conditioner.embedders.1.model."},
};

static kiln_status save_one(const kiln_clip *clip, uint32_t i, const kiln_saving *s)
{
    const kiln_clip_encoder *row = kiln_clip_encoder_at(clip, i);
    const clip_encoder *e = clip_encoder_of(row->encoder);
    if (!e || clip->n_encoder > 2)
        return s->host->fail(s->ctx, KILN_ERR_UNSUPPORTED,
                             "the text encoder '%s' of this CLIP says nothing of how it "
                             "is saved",
                             row->name);
    saver p = {s, s->host->ability(KILN_WEIGHTS_ABILITY), row->weights, ""};
    char called[20];
    if (!s->alone) p.prefix = places[e->kind][clip->n_encoder > 1];
    if (!p.prefix)
        return s->host->fail(s->ctx, KILN_ERR_UNSUPPORTED, "no checkpoint has these two text encoders together");
    snprintf(called, sizeof called, "clip_%s", clip_kind_name(e->kind));
    if (s->alone) TRY(s->called(s, called));
    TRY(s->alone || e->kind == CLIP_L ? put_as_they_are(&p) : put_open_clip(&p));
    return clip_is_released(e) ? KILN_OK : put_texts(&p, e);
}

kiln_status clip_save(const kiln_clip *clip, const kiln_saving *s)
{
    for (uint32_t i = s->alone ? s->encoder : 0; i < clip->n_encoder; i++) {
        TRY(save_one(clip, i, s));
        if (s->alone) break;
    }
    return KILN_OK;
}
