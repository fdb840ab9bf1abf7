/* control.h - a plugin that brings controls: ControlNet (Zhang et al. 2023) and T2I-Adapter (Mou et al. 2023), for
 * UNets of SD1's kind. It is built against an installed kiln and knows nothing of the UNet but the names of its places.
 *
 * A control is a kiln_network of the kind "control": its rows say what it wants besides x and timestep, and record()
 * writes it into a program and gives results, each named by the place of the denoiser where it is added.
 */
#ifndef CONTROL_H
#define CONTROL_H

#include "kiln/kit.h"
#include "kiln/model.h"

extern const kiln_model_family controlnet_family, t2i_adapter_family;
extern const kiln_node node_control_loader, node_control_apply, node_control_apart;

/* Says with --verbose that a control is recorded: it happens once for each shape, whatever the strength. */
void control_say_recorded(const char *family, const kiln_ops *ops, kiln_program *p, kiln_t hint);

/* ---- controlnet_blocks.c: the blocks that ControlNet shares with the UNet, names as in diffusers ---- */

enum { CONTROL_LEVELS_MAX = 8 };

typedef struct {
    int64_t in_channels, hint_channels, context, groups;
    int64_t channels[CONTROL_LEVELS_MAX], heads[CONTROL_LEVELS_MAX]; /* of each level               */
    int64_t hint_widths[CONTROL_LEVELS_MAX];                         /* of the hint's embedding     */
    int attends[CONTROL_LEVELS_MAX];                                 /* the level has attention     */
    size_t levels, layers, n_hint_width;
    float eps;
} controlnet_config;

/* What is being recorded. */
typedef struct {
    const controlnet_config *config;
    const kiln_ops *ops;
    kiln_program *p;
    kiln_weights *w;
    kiln_t temb, context; /* silu of the time embedding [N,4C]; [N,T,context] */
} controlnet_recorder;

int64_t control_dim(const kiln_ops *ops, kiln_program *p, kiln_t x, uint32_t i);
/* x [N,H,W,C] -> [N,H/stride,W/stride,out]; weights NAME.weight and NAME.bias, padding half the kernel. */
kiln_t control_conv(const kiln_ops *ops, kiln_program *p, kiln_weights *w, const char *name, kiln_t x,
                    const int64_t out_kernel_stride[3]);
/* timestep [N] -> [N,4C] */
kiln_t controlnet_time(const controlnet_recorder *r, kiln_t timestep);
kiln_t controlnet_conv(const controlnet_recorder *r, const char *name, kiln_t x, int64_t out, int64_t kernel,
                       int64_t stride);
kiln_t controlnet_resnet(const controlnet_recorder *r, const char *name, kiln_t x, int64_t out);
kiln_t controlnet_attention(const controlnet_recorder *r, const char *name, kiln_t x, int64_t heads);

#endif
