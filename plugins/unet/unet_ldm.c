/* unet_ldm.c - see unet_ldm.h. ldm counts blocks on from level to level: input_blocks.0 is the first convolution, then
 * each level has its resnets and a downsample; output_blocks have an upsample behind their level's last. */
#include "unet_ldm.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    const char *from, *to; /* beginnings of names */
} renaming;

static const renaming plain[] = {
    {"time_embedding.linear_1.", "time_embed.0."},
    {"time_embedding.linear_2.", "time_embed.2."},
    {"add_embedding.linear_1.", "label_emb.0.0."},
    {"add_embedding.linear_2.", "label_emb.0.2."},
    {"class_embedding.linear_1.", "label_emb.0.0."},
    {"class_embedding.linear_2.", "label_emb.0.2."},
    {"class_embedding.weight", "label_emb.weight"},
    {"conv_in.", "input_blocks.0.0."},
    {"conv_norm_out.", "out.0."},
    {"conv_out.", "out.2."},
    {"mid_block.attentions.0.", "middle_block.1."},
};
static const renaming resnet[] = {
    {"norm1.", "in_layers.0."},  {"conv1.", "in_layers.2."},  {"time_emb_proj.", "emb_layers.1."},
    {"norm2.", "out_layers.0."}, {"conv2.", "out_layers.3."}, {"conv_shortcut.", "skip_connection."},
};

static int put(char out[UNET_LDM_NAME], const char *begin, const char *rest)
{
    int n = snprintf(out, UNET_LDM_NAME, "%s%s", begin, rest);
    return n >= 0 && n < UNET_LDM_NAME;
}

/* "conv1.weight" of a resnet that ldm calls `block`. */
static int put_resnet(char out[UNET_LDM_NAME], const char *block, const char *rest)
{
    char begin[80];
    for (size_t i = 0; i < sizeof resnet / sizeof resnet[0]; i++) {
        size_t n = strlen(resnet[i].from);
        if (strncmp(rest, resnet[i].from, n) != 0) continue;
        snprintf(begin, sizeof begin, "%s%s", block, resnet[i].to);
        return put(out, begin, rest + n);
    }
    return put(out, block, rest);
}

/* The number of the ldm block that a level's resnet 0 is. */
static uint32_t first_input(const unet_config *c, uint32_t level)
{
    uint32_t n = 1;
    for (uint32_t i = 0; i < level; i++) n += c->layers[i] + 1;
    return n;
}

static uint32_t first_output(const unet_config *c, uint32_t up)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < up; i++) n += c->layers[c->levels - 1 - i] + 1;
    return n;
}

/* 0: the name is of no block of the way down. */
static int put_down(const unet_config *c, const char *name, char out[UNET_LDM_NAME])
{
    uint32_t level, layer;
    int at = 0;
    char block[80];
    if (sscanf(name, "down_blocks.%u.resnets.%u.%n", &level, &layer, &at) == 2 && at && level < c->levels) {
        snprintf(block, sizeof block, "input_blocks.%u.0.", first_input(c, level) + layer);
        return put_resnet(out, block, name + at);
    }
    if (sscanf(name, "down_blocks.%u.attentions.%u.%n", &level, &layer, &at) == 2 && at && level < c->levels) {
        snprintf(block, sizeof block, "input_blocks.%u.1.", first_input(c, level) + layer);
        return put(out, block, name + at);
    }
    if (sscanf(name, "down_blocks.%u.downsamplers.0.conv.%n", &level, &at) == 1 && at && level < c->levels) {
        snprintf(block, sizeof block, "input_blocks.%u.0.op.", first_input(c, level) + c->layers[level]);
        return put(out, block, name + at);
    }
    return 0;
}

static int put_up(const unet_config *c, const char *name, char out[UNET_LDM_NAME])
{
    uint32_t up, layer;
    int at = 0;
    char block[80];
    if (sscanf(name, "up_blocks.%u.resnets.%u.%n", &up, &layer, &at) == 2 && at && up < c->levels) {
        snprintf(block, sizeof block, "output_blocks.%u.0.", first_output(c, up) + layer);
        return put_resnet(out, block, name + at);
    }
    if (sscanf(name, "up_blocks.%u.attentions.%u.%n", &up, &layer, &at) == 2 && at && up < c->levels) {
        snprintf(block, sizeof block, "output_blocks.%u.1.", first_output(c, up) + layer);
        return put(out, block, name + at);
    }
    if (sscanf(name, "up_blocks.%u.upsamplers.0.conv.%n", &up, &at) == 1 && at && up < c->levels) {
        uint32_t last = c->layers[c->levels - 1 - up];
        snprintf(block, sizeof block, "output_blocks.%u.%d.conv.", first_output(c, up) + last, c->up[up][last] ? 2 : 1);
        return put(out, block, name + at);
    }
    return 0;
}

int unet_ldm_name(const unet_config *c, const char *name, char out[UNET_LDM_NAME])
{
    static const char *const middle[] = {"mid_block.resnets.0.", "mid_block.resnets.1."};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        size_t n = strlen(plain[i].from);
        if (strncmp(name, plain[i].from, n) == 0) return put(out, plain[i].to, name + n);
    }
    for (int i = 0; i < 2; i++) {
        size_t n = strlen(middle[i]);
        if (strncmp(name, middle[i], n) == 0)
            return put_resnet(out, i ? "middle_block.2." : "middle_block.0.", name + n);
    }
    return put_down(c, name, out) || put_up(c, name, out) || put(out, "", name);
}
