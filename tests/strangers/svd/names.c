/* names.c - what diffusers calls the tensors of Stable Video Diffusion, and what its release does: rules of a view.
 * A rule's text lives until the view is made.
 */
#include "svd.h"

#include <stdarg.h>
#include <stdlib.h>

__attribute__((format(printf, 3, 4))) static kiln_weight_rule *add(svd_rules *r, const char *to, const char *from, ...)
{
    static kiln_weight_rule lost; /* more rules than there is room for: the tensors are missed by name */
    va_list args;
    if (r->n == SVD_RULES) return &lost;
    va_start(args, from);
    vsnprintf(r->text[r->n][0], SVD_NAME, from, args);
    va_end(args);
    snprintf(r->text[r->n][1], SVD_NAME, "%s", to);
    kiln_weight_rule *rule = &r->rule[r->n];
    *rule = (kiln_weight_rule)KILN_RULE(.from = r->text[r->n][0], .to = r->text[r->n][1]);
    r->n++;
    return rule;
}

/* ---- the denoiser ---- */

static const struct {
    const char *diffusers, *released;
} resnet_parts[] = {{"norm1", "in_layers.0"},  {"conv1", "in_layers.2"},  {"time_emb_proj", "emb_layers.1"},
                    {"norm2", "out_layers.0"}, {"conv2", "out_layers.3"}, {"conv_shortcut", "skip_connection"}};

/* The VAE's layers within a frame have other names in the release, but for those across frames. */
static void resnet(svd_rules *r, const char *from, const char *to, int of_vae)
{
    char name[SVD_NAME];
    for (size_t i = 0; i < COUNT(resnet_parts); i++) {
        const char *diffusers = resnet_parts[i].diffusers, *released = resnet_parts[i].released;
        const char *within = !of_vae ? released : i == 5 ? "nin_shortcut" : diffusers;
        add(r, NAME(name, "%s.%s.{}", to, within), "%s.spatial_res_block.%s.{}", from, diffusers);
        add(r, NAME(name, "%s.time_stack.%s.{}", to, released), "%s.temporal_res_block.%s.{}", from, diffusers);
    }
    add(r, NAME(name, of_vae ? "%s.mix_factor" : "%s.time_mixer.mix_factor", to), "%s.time_mixer.mix_factor", from);
}

static void transformer(svd_rules *r, const char *from, const char *to)
{
    char name[SVD_NAME];
    add(r, NAME(name, "%s.time_stack.*", to), "%s.temporal_transformer_blocks.*", from);
    add(r, NAME(name, "%s.time_pos_embed.0.{}", to), "%s.time_pos_embed.linear_1.{}", from);
    add(r, NAME(name, "%s.time_pos_embed.2.{}", to), "%s.time_pos_embed.linear_2.{}", from);
    add(r, NAME(name, "%s.*", to), "%s.*", from);
}

/* A block of one resnet, and perhaps a transformer. 0: there is none. */
static int pair(svd_rules *r, const kiln_weights_api *w, const kiln_weights *set, const char *level, int i,
                const char *to)
{
    char from[SVD_NAME], name[SVD_NAME];
    if (!svd_size(w, set, 0, "%s.resnets.%d.spatial_res_block.conv1.weight", level, i)) return 0;
    resnet(r, NAME(from, "%s.resnets.%d", level, i), NAME(name, "%s.0", to), 0);
    if (svd_size(w, set, 0, "%s.attentions.%d.norm.weight", level, i))
        transformer(r, NAME(from, "%s.attentions.%d", level, i), NAME(name, "%s.1", to));
    return 1;
}

static void ways(svd_rules *r, const kiln_weights_api *w, const kiln_weights *set, const char *p)
{
    char level[SVD_NAME], to[SVD_NAME];
    int in = 1, out = 0;
    for (int l = 0; l < SVD_LEVELS; l++) {
        NAME(level, "%sdown_blocks.%d", p, l);
        for (int i = 0; pair(r, w, set, level, i, NAME(to, "input_blocks.%d", in)); i++) in++;
        if (svd_size(w, set, 0, "%s.downsamplers.0.conv.weight", level))
            add(r, NAME(to, "input_blocks.%d.0.op.{}", in++), "%s.downsamplers.0.conv.{}", level);
        NAME(level, "%sup_blocks.%d", p, l);
        for (int i = 0; pair(r, w, set, level, i, NAME(to, "output_blocks.%d", out)); i++) out++;
        int attended = svd_size(w, set, 0, "%s.attentions.0.norm.weight", level) > 0;
        if (svd_size(w, set, 0, "%s.upsamplers.0.conv.weight", level))
            add(r, NAME(to, "output_blocks.%d.%d.conv.{}", out - 1, attended ? 2 : 1), "%s.upsamplers.0.conv.{}",
                level);
    }
}

static void of_denoiser(svd_rules *r, const kiln_weights_api *w, const kiln_weights *set, const char *p)
{
    static const char *const alone[][2] = {{"conv_in", "input_blocks.0.0"},
                                           {"time_embedding.linear_1", "time_embed.0"},
                                           {"time_embedding.linear_2", "time_embed.2"},
                                           {"add_embedding.linear_1", "label_emb.0.0"},
                                           {"add_embedding.linear_2", "label_emb.0.2"},
                                           {"conv_norm_out", "out.0"},
                                           {"conv_out", "out.2"}};
    char to[SVD_NAME], from[SVD_NAME];
    for (size_t i = 0; i < COUNT(alone); i++) add(r, NAME(to, "%s.{}", alone[i][1]), "%s%s.{}", p, alone[i][0]);
    ways(r, w, set, p);
    for (int i = 0; i < 2; i++)
        resnet(r, NAME(from, "%smid_block.resnets.%d", p, i), NAME(to, "middle_block.%d", 2 * i), 0);
    transformer(r, NAME(from, "%smid_block.attentions.0", p), "middle_block.1");
}

/* ---- the VAE ---- */

/* Its convolutions of one cell are products: [C,C,1,1] -> [C,C]. */
static void attention(svd_rules *r, const char *p, const char *side, int diffusers)
{
    static const char *const part[][2] = {{"to_q", "q"}, {"to_k", "k"}, {"to_v", "v"}, {"to_out.0", "proj_out"}};
    char to[SVD_NAME];
    for (size_t i = 0; i < COUNT(part); i++) {
        NAME(to, "%s.mid.attn_1.%s.weight", side, part[i][1]);
        kiln_weight_rule *rule = diffusers ? add(r, to, "%s%s.mid_block.attentions.0.%s.weight", p, side, part[i][0])
                                           : add(r, to, "%s%s.mid.attn_1.%s.weight", p, side, part[i][1]);
        rule->squeeze = 1;
        NAME(to, "%s.mid.attn_1.%s.bias", side, part[i][1]);
        if (diffusers) add(r, to, "%s%s.mid_block.attentions.0.%s.bias", p, side, part[i][0]);
    }
    if (diffusers)
        add(r, NAME(to, "%s.mid.attn_1.norm.{}", side), "%s%s.mid_block.attentions.0.group_norm.{}", p, side);
}

static int levels_of(const kiln_weights_api *w, const kiln_weights *set, const char *p)
{
    int n = 0;
    while (n < SVD_LEVELS && svd_size(w, set, 0, "%sencoder.down_blocks.%d.resnets.0.conv1.weight", p, n)) n++;
    return n;
}

static void of_vae(svd_rules *r, const kiln_weights_api *w, const kiln_weights *set, const char *p)
{
    char to[SVD_NAME], from[SVD_NAME];
    int levels = levels_of(w, set, p);
    add(r, "encoder.norm_out.{}", "%sencoder.conv_norm_out.{}", p),
        add(r, "decoder.norm_out.{}", "%sdecoder.conv_norm_out.{}", p);
    add(r, "decoder.conv_out.time_mix_conv.{}", "%sdecoder.time_conv_out.{}", p);
    for (int i = 0; i < 2; i++) {
        add(r, NAME(to, "encoder.mid.block_%d.*", i + 1), "%sencoder.mid_block.resnets.%d.*", p, i);
        resnet(r, NAME(from, "%sdecoder.mid_block.resnets.%d", p, i), NAME(to, "decoder.mid.block_%d", i + 1), 1);
    }
    for (int l = 0; l < levels; l++) {
        add(r, NAME(to, "encoder.down.%d.block.{}.nin_shortcut.{}", l),
            "%sencoder.down_blocks.%d.resnets.{}.conv_shortcut.{}", p, l);
        add(r, NAME(to, "encoder.down.%d.block.*", l), "%sencoder.down_blocks.%d.resnets.*", p, l);
        add(r, NAME(to, "encoder.down.%d.downsample.*", l), "%sencoder.down_blocks.%d.downsamplers.0.*", p, l);
        add(r, NAME(to, "decoder.up.%d.upsample.*", levels - 1 - l), "%sdecoder.up_blocks.%d.upsamplers.0.*", p, l);
        resnet(r, NAME(from, "%sdecoder.up_blocks.%d.resnets.{}", p, l),
               NAME(to, "decoder.up.%d.block.{}", levels - 1 - l), 1);
    }
}

/* ---- views ---- */

static kiln_weights *made(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, svd_rules *r, const char *prefix)
{
    const kiln_weights_api *w = host->ability(KILN_WEIGHTS_ABILITY);
    add(r, "*", "%s*", prefix); /* what is called the same in both */
    kiln_weights *view = w->view(ctx, set, r->rule, r->n);
    free(r);
    return view;
}

kiln_weights *svd_view(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, const char *prefix, int diffusers)
{
    svd_rules *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    if (diffusers) of_denoiser(r, host->ability(KILN_WEIGHTS_ABILITY), set, prefix);
    return made(host, ctx, set, r, prefix);
}

kiln_weights *svd_vae_view(const kiln_host *host, kiln_ctx *ctx, kiln_weights *set, const char *prefix, int diffusers)
{
    svd_rules *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    attention(r, prefix, "encoder", diffusers), attention(r, prefix, "decoder", diffusers);
    if (diffusers) of_vae(r, host->ability(KILN_WEIGHTS_ABILITY), set, prefix);
    return made(host, ctx, set, r, prefix);
}
