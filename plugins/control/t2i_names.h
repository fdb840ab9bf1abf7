/* t2i_names.h - whose names a T2I-Adapter's tensors have.
 *
 * Seen are conv_in.*, body.L.in_conv.*, body.L.down_opt.op.*, body.L.resnets.R.block1.*, .block2.*, body.L.out_conv.*:
 * diffusers' below "adapter.". The release numbers the resnets of a full adapter through ("body.3.block1" is the second
 * of level 1) and calls those of a light one body.L.body.R.
 */
#ifndef KILN_CONTROL_T2I_NAMES_H
#define KILN_CONTROL_T2I_NAMES_H

#include "kiln/weights.h"

typedef enum { T2I_DIFFUSERS, T2I_RELEASE_FULL, T2I_RELEASE_LIGHT } t2i_layout;

/* The adapter below `prefix` under those names. NULL with a message. */
kiln_weights *t2i_view(const kiln_weights_api *w, kiln_ctx *ctx, kiln_weights *set, const char *prefix,
                       t2i_layout layout);

#endif
