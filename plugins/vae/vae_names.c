/* vae_names.c - see vae_names.h. Older files have the middle attention's projections as 1x1 convolutions: the view
 * makes [C,C] of [C,C,1,1]. ldm numbers the decoder's levels from the finest, diffusers from the coarsest. */
#include "vae_names.h"

#include <stdio.h>

static void add(vae_rules *r, const char *prefix, const char *from, const char *to, int squeeze)
{
    if (r->n == VAE_RULES_MAX) return;
    snprintf(r->text[r->n][0], VAE_NAME_CAPACITY, "%s%s", prefix, from);
    snprintf(r->text[r->n][1], VAE_NAME_CAPACITY, "%s", to);
    r->rule[r->n] =
        (kiln_weight_rule)KILN_RULE(.from = r->text[r->n][0], .to = r->text[r->n][1], .squeeze = (uint32_t)squeeze);
    r->n++;
}

void vae_rules_diffusers(vae_rules *r, const char *prefix)
{
    static const char *const names[][2] = {{"query", "to_q"},         {"key", "to_k"},         {"value", "to_v"},
                                           {"proj_attn", "to_out.0"}, {"to_q", "to_q"},        {"to_k", "to_k"},
                                           {"to_v", "to_v"},          {"to_out.0", "to_out.0"}};
    char from[VAE_NAME_CAPACITY], to[VAE_NAME_CAPACITY];
    r->n = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(from, sizeof from, "{}.mid_block.attentions.0.%s.*", names[i][0]);
        snprintf(to, sizeof to, "{}.mid_block.attentions.0.%s.*", names[i][1]);
        add(r, prefix, from, to, 1);
    }
    add(r, prefix, "*", "*", 0);
}

static void add_resnets(vae_rules *r, const char *prefix, const char *from, const char *to)
{
    char a[VAE_NAME_CAPACITY], b[VAE_NAME_CAPACITY];
    snprintf(a, sizeof a, "%s.nin_shortcut.*", from);
    snprintf(b, sizeof b, "%s.conv_shortcut.*", to);
    add(r, prefix, a, b, 0);
    snprintf(a, sizeof a, "%s.*", from);
    snprintf(b, sizeof b, "%s.*", to);
    add(r, prefix, a, b, 0);
}

static void add_middle(vae_rules *r, const char *prefix, const char *half)
{
    static const char *const names[][2] = {{"attn_1.norm", "attentions.0.group_norm"},
                                           {"attn_1.q", "attentions.0.to_q"},
                                           {"attn_1.k", "attentions.0.to_k"},
                                           {"attn_1.v", "attentions.0.to_v"},
                                           {"attn_1.proj_out", "attentions.0.to_out.0"},
                                           {"block_1", "resnets.0"},
                                           {"block_2", "resnets.1"}};
    char a[VAE_NAME_CAPACITY], b[VAE_NAME_CAPACITY];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(a, sizeof a, "%s.mid.%s.*", half, names[i][0]);
        snprintf(b, sizeof b, "%s.mid_block.%s.*", half, names[i][1]);
        add(r, prefix, a, b, i >= 1 && i <= 4);
    }
}

static void add_levels(vae_rules *r, const char *prefix, uint32_t levels)
{
    char a[VAE_NAME_CAPACITY], b[VAE_NAME_CAPACITY];
    for (uint32_t i = 0; i < levels; i++) {
        snprintf(a, sizeof a, "encoder.down.%u.block.{}", i);
        snprintf(b, sizeof b, "encoder.down_blocks.%u.resnets.{}", i);
        add_resnets(r, prefix, a, b);
        snprintf(a, sizeof a, "encoder.down.%u.downsample.conv.*", i);
        snprintf(b, sizeof b, "encoder.down_blocks.%u.downsamplers.0.conv.*", i);
        add(r, prefix, a, b, 0);
        snprintf(a, sizeof a, "decoder.up.%u.block.{}", levels - 1 - i);
        snprintf(b, sizeof b, "decoder.up_blocks.%u.resnets.{}", i);
        add_resnets(r, prefix, a, b);
        snprintf(a, sizeof a, "decoder.up.%u.upsample.conv.*", levels - 1 - i);
        snprintf(b, sizeof b, "decoder.up_blocks.%u.upsamplers.0.conv.*", i);
        add(r, prefix, a, b, 0);
    }
}

void vae_rules_ldm(vae_rules *r, const char *prefix, uint32_t levels)
{
    static const char *const halves[] = {"encoder", "decoder"};
    char a[VAE_NAME_CAPACITY], b[VAE_NAME_CAPACITY];
    r->n = 0;
    for (size_t i = 0; i < 2; i++) {
        add_middle(r, prefix, halves[i]);
        snprintf(a, sizeof a, "%s.norm_out.*", halves[i]);
        snprintf(b, sizeof b, "%s.conv_norm_out.*", halves[i]);
        add(r, prefix, a, b, 0);
        static const char *const same[] = {"conv_in", "conv_out"};
        for (size_t k = 0; k < 2; k++) {
            snprintf(a, sizeof a, "%s.%s.*", halves[i], same[k]);
            add(r, prefix, a, a, 0);
        }
    }
    add(r, prefix, "quant_conv.*", "quant_conv.*", 0);
    add(r, prefix, "post_quant_conv.*", "post_quant_conv.*", 0);
    add_levels(r, prefix, levels);
}
