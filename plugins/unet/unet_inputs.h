/* unet_inputs.h - what a UNet takes beside x and the timestep, as rows (kiln/inputs.h). */
#ifndef KILN_UNET_INPUTS_H
#define KILN_UNET_INPUTS_H

#include "unet_model.h"

enum { UNET_INPUTS_MAX = 12 };

/* Writes the rows of a configuration; returns how many. `scaled_edit` 1: the latent that a UNET_EDIT gets is scaled as
 * x is (CosXL). */
uint32_t unet_input_rows(const unet_config *c, int scaled_edit, kiln_input_spec out[UNET_INPUTS_MAX]);

/* x with the channels that stand beside it: [N,H,W,in_channels]. */
kiln_t unet_beside_x(const unet_config *c, const kiln_ops *ops, kiln_program *p, const kiln_denoise_inputs *in);

/* ---- inputs that do not stand in an entry as the network needs them: kiln_denoiser.derive ---- */

/* 1: this configuration has such inputs. */
int unet_derives(const unet_config *c);
extern const char *const unet_derive_keys[];
kiln_status unet_derive(const unet_config *c, const kiln_derivation *d);

#endif
