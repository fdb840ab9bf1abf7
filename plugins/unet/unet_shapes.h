/* unet_shapes.h - a UNet's sizes as its tensors show them. */
#ifndef KILN_UNET_SHAPES_H
#define KILN_UNET_SHAPES_H

#include "unet_model.h"

/* Reads what names and shapes show of a view with diffusers' names: all of unet_config but heads, groups, eps and the
 * timestep's settings, and of UNET_SIZES only `embedded`. What cannot be a UNet is recorded on ctx. out->encoder is
 * given: 1, and there is nothing behind the middle, and perhaps no attention. */
kiln_status unet_shapes_read(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *view, unet_config *out);

/* Dimension i of a tensor, 0 when there is none. Of a matrix that a Control-LoRA changes, X.weight: what X.up and
 * X.down make. */
int64_t unet_dim(const kiln_weights_api *w, const kiln_weights *view, const char *name, uint32_t i);
/* The width of what cross-attention attends to, for any names that end as both layouts' do; 0: there is none. */
int64_t unet_context_width(const kiln_weights_api *w, const kiln_weights *set, const char *prefix);
/* 1: projections of attentions are [C,C]. */
int unet_projections_linear(const kiln_weights_api *w, const kiln_weights *view);
/* 1: some projections of attentions are [C,C] and some [C,C,1,1]. */
int unet_projections_mixed(const kiln_weights_api *w, const kiln_weights *view);

#endif
