/* vae_nodes.h - the rows of the vae nodes, and what they do for others. */
#ifndef KILN_NODES_VAE_NODES_H
#define KILN_NODES_VAE_NODES_H

#include "kiln/autoencoder.h"

extern const kiln_node node_vae_decode, node_vae_decode_tiled;                /* vae_decode.c  */
extern const kiln_node node_vae_encode, node_vae_encode_tiled;                /* vae_encode.c  */
extern const kiln_node node_vae_encode_inpaint;                               /* vae_inpaint.c */
extern const kiln_node node_inpaint_conditioning, node_instruct_conditioning; /* inpaint_conditioning.c */

/* kiln.vae/1 */
kiln_status vae_decode(const kiln_call *c, const kiln_value *vae, const kiln_value *latent, kiln_value **image);
kiln_status vae_encode(const kiln_call *c, const kiln_value *vae, const kiln_value *image, kiln_value **latent);

#endif
