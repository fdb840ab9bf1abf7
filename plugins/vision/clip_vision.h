/* clip_vision.h - CLIP's vision encoder (Radford et al. 2021): what decides its network, and the network.
 */
#ifndef KILN_VISION_CLIP_VISION_H
#define KILN_VISION_CLIP_VISION_H

#include "kiln/inputs.h"

typedef struct {
    int64_t width, layers, heads, inner; /* inner: of the MLP                                          */
    int64_t size, patch;                 /* pixels along a side, of the picture and of a patch         */
    int64_t projection;                  /* width of image_embeds; 0: no projection, they are as wide  */
    int64_t projector;                   /* width of mm_projected (LLaVA's projector); 0: there is none */
    uint32_t act;                        /* kiln_act of the MLP                                        */
    float eps;
} clip_vision_config;

/* pixels [N,size,size,3], normalised -> last_hidden_state and penultimate_hidden_states [N,1+patches,width],
 * image_embeds [N,projection], and mm_projected [N,patches,projector]. Names are transformers'
 * CLIPVisionModelWithProjection's. */
void clip_vision_record(const clip_vision_config *c, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                        kiln_t pixels, const kiln_outputs *out);

#endif
