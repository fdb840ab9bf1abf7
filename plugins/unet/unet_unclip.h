/* unet_unclip.h - the picture that an unCLIP is shown: its embedding with noise on it, and the embedding of how much.
 */
#ifndef KILN_UNET_UNCLIP_H
#define KILN_UNET_UNCLIP_H

#include "kiln/denoiser.h"

#define UNCLIP_KEY "unclip_conditioning" /* of an entry: a list of maps, as the node unCLIPConditioning makes them */

/* *out = f32 [1, 2 width], in scratch memory, of the entry's pictures, whose embeddings are `width` numbers each: the
 * sum of all, where there are several with noise of a share `merge` on it. An estimate has no data. [run] */
kiln_status unclip_embedding(const kiln_derivation *d, int64_t width, double merge, kiln_tensor *out);

#endif
