/* wan_names.c - Wan's tensors under the names of the released single files, which is what is recorded. diffusers has
 * others for the same tensors, in the same order and shapes.
 *
 * The autoencoder's gains are [C,1,1,1] and its 1x1 convolutions [O,I,1,1] in both: seen without the ones.
 */
#include "wan.h"

#include <stdlib.h>

#define TO(from_, to_)                                                                                                 \
    {                                                                                                                  \
        .size = sizeof(kiln_weight_rule), .from = (from_), .to = (to_)                                                 \
    }
#define SQUEEZED(from_, to_)                                                                                           \
    {                                                                                                                  \
        .size = sizeof(kiln_weight_rule), .from = (from_), .to = (to_), .squeeze = 1                                   \
    }

/* ---- the transformer ---- */

static const kiln_weight_rule transformer[] = {
    TO("condition_embedder.time_embedder.linear_1.{}", "time_embedding.0.{}"),
    TO("condition_embedder.time_embedder.linear_2.{}", "time_embedding.2.{}"),
    TO("condition_embedder.time_proj.{}", "time_projection.1.{}"),
    TO("condition_embedder.text_embedder.linear_1.{}", "text_embedding.0.{}"),
    TO("condition_embedder.text_embedder.linear_2.{}", "text_embedding.2.{}"),
    TO("condition_embedder.image_embedder.norm1.{}", "img_emb.proj.0.{}"),
    TO("condition_embedder.image_embedder.ff.net.0.proj.{}", "img_emb.proj.1.{}"),
    TO("condition_embedder.image_embedder.ff.net.2.{}", "img_emb.proj.3.{}"),
    TO("condition_embedder.image_embedder.norm2.{}", "img_emb.proj.4.{}"),
    TO("condition_embedder.image_embedder.pos_embed", "img_emb.emb_pos"),
    TO("scale_shift_table", "head.modulation"),
    TO("proj_out.{}", "head.head.{}"),
    TO("blocks.{}.scale_shift_table", "blocks.{}.modulation"),
    TO("blocks.{}.norm2.{}", "blocks.{}.norm3.{}"),
    TO("blocks.{}.ffn.net.0.proj.{}", "blocks.{}.ffn.0.{}"),
    TO("blocks.{}.ffn.net.2.{}", "blocks.{}.ffn.2.{}"),
    TO("blocks.{}.attn1.to_out.0.{}", "blocks.{}.self_attn.o.{}"),
    TO("blocks.{}.attn1.to_{}.{}", "blocks.{}.self_attn.{}.{}"),
    TO("blocks.{}.attn1.{}.{}", "blocks.{}.self_attn.{}.{}"),
    TO("blocks.{}.attn2.to_out.0.{}", "blocks.{}.cross_attn.o.{}"),
    TO("blocks.{}.attn2.add_{}_proj.{}", "blocks.{}.cross_attn.{}_img.{}"),
    TO("blocks.{}.attn2.norm_added_{}.{}", "blocks.{}.cross_attn.norm_{}_img.{}"),
    TO("blocks.{}.attn2.to_{}.{}", "blocks.{}.cross_attn.{}.{}"),
    TO("blocks.{}.attn2.{}.{}", "blocks.{}.cross_attn.{}.{}"),
    TO("*", "*"),
};

kiln_weights *wan_transformer_names(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, const char *prefix,
                                    int diffusers)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    char from[64];
    const kiln_weight_rule below = TO(NAME(from, "%s*", prefix), "*");
    return diffusers ? w->view(ctx, set, transformer, COUNT(transformer)) : w->view(ctx, set, &below, 1);
}

/* ---- the autoencoder ---- */

/* Of each side, which stands for the {} in front. */
static const kiln_weight_rule autoencoder[] = {
    TO("{}.conv_in.{}", "{}.conv1.{}"),
    TO("{}.conv_out.{}", "{}.head.2.{}"),
    SQUEEZED("{}.norm_out.gamma", "{}.head.0.gamma"),
    SQUEEZED("{}.mid_block.attentions.0.norm.gamma", "{}.middle.1.norm.gamma"),
    SQUEEZED("{}.mid_block.attentions.0.{}.{}", "{}.middle.1.{}.{}"),
    TO("quant_conv.{}", "conv1.{}"),
    TO("post_quant_conv.{}", "conv2.{}"),
    SQUEEZED("{}.head.0.gamma", "{}.head.0.gamma"),
    SQUEEZED("{}.middle.1.norm.gamma", "{}.middle.1.norm.gamma"),
    SQUEEZED("{}.middle.1.{}.{}", "{}.middle.1.{}.{}"),
    SQUEEZED("{}.{}.{}.residual.{}.gamma", "{}.{}.{}.residual.{}.gamma"),
    TO("*", "*"),
};

/* A residual block of diffusers' -> one of the release's. */
static const struct {
    const char *from, *to;
    int squeeze;
} residual[] = {{"norm1.gamma", "residual.0.gamma", 1},
                {"norm2.gamma", "residual.3.gamma", 1},
                {"conv1.{}", "residual.2.{}", 0},
                {"conv2.{}", "residual.6.{}", 0},
                {"conv_shortcut.{}", "shortcut.{}", 0}};

enum { TEXT = 96, ROOM = 1200 };
typedef struct {
    kiln_weight_rule rule[ROOM];
    char text[ROOM][2][TEXT];
    size_t n;
} rules;

static void add(rules *r, int squeeze, const char *from, const char *to)
{
    if (r->n == ROOM) return;
    r->rule[r->n] = (kiln_weight_rule)TO(NAME(r->text[r->n][0], "%s", from), NAME(r->text[r->n][1], "%s", to));
    r->rule[r->n++].squeeze = squeeze ? 1 : 0;
}

static void add_block(rules *r, const char *from, const char *to)
{
    char a[TEXT], b[TEXT];
    for (size_t i = 0; i < COUNT(residual); i++)
        add(r, residual[i].squeeze, NAME(a, "%s.%s", from, residual[i].from), NAME(b, "%s.%s", to, residual[i].to));
}

static int there(const kiln_weights_api *w, const kiln_weights *set, const char *name)
{
    kiln_weight_info info = {.size = sizeof info};
    return w->find(set, name, &info) == KILN_OK;
}

/* Blocks of the decoder and what scales behind them are one list in the release. */
static void add_up(const kiln_weights_api *w, const kiln_weights *set, rules *r)
{
    char from[TEXT], to[TEXT], name[TEXT];
    int at = 0;
    for (int i = 0; there(w, set, NAME(name, "decoder.up_blocks.%d.resnets.0.conv1.weight", i)); i++) {
        for (int k = 0; there(w, set, NAME(name, "decoder.up_blocks.%d.resnets.%d.conv1.weight", i, k)); k++)
            add_block(r, NAME(from, "decoder.up_blocks.%d.resnets.%d", i, k), NAME(to, "decoder.upsamples.%d", at++));
        if (!there(w, set, NAME(name, "decoder.up_blocks.%d.upsamplers.0.resample.1.weight", i))) continue;
        add(r, 0, NAME(from, "decoder.up_blocks.%d.upsamplers.0.*", i), NAME(to, "decoder.upsamples.%d.*", at++));
    }
}

kiln_weights *wan_vae_names(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, int diffusers)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    if (!diffusers) return w->view(ctx, set, autoencoder, COUNT(autoencoder));
    rules *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    add_block(r, "encoder.down_blocks.{}", "encoder.downsamples.{}");
    add(r, 0, "encoder.down_blocks.*", "encoder.downsamples.*");
    for (int i = 0; i < 2; i++) {
        add_block(r, i ? "{}.mid_block.resnets.1" : "{}.mid_block.resnets.0", i ? "{}.middle.2" : "{}.middle.0");
    }
    add_up(w, set, r);
    kiln_weights *view = NULL;
    if (r->n + COUNT(autoencoder) <= ROOM) {
        for (size_t i = 0; i < COUNT(autoencoder); i++) r->rule[r->n++] = autoencoder[i];
        view = w->view(ctx, set, r->rule, r->n);
    } else
        host->fail(ctx, KILN_ERR_UNSUPPORTED, "this autoencoder has more blocks than any that was released");
    free(r);
    return view;
}
