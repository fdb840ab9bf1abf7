/* ip_adapter.h - IP-Adapters (Ye et al. 2023): what a file holds, and the network that makes image tokens of a
 * picture's features.
 *
 *   IP_ADAPTER_EMBEDS   image_embeds [N,E] -> a linear and a norm -> tokens [N,T,width]
 *   IP_ADAPTER_PLUS     penultimate_hidden_states [N,S,E] -> a resampler of T learned queries -> [N,T,width]
 *   IP_ADAPTER_FULL     the same features -> an MLP and a norm of each -> [N,S,width]
 */
#ifndef KILN_VISION_IP_ADAPTER_H
#define KILN_VISION_IP_ADAPTER_H

#include "kiln/inputs.h"

typedef enum { IP_ADAPTER_EMBEDS, IP_ADAPTER_PLUS, IP_ADAPTER_FULL } ip_adapter_kind;

typedef struct {
    uint32_t kind;      /* ip_adapter_kind                                              */
    int64_t features;   /* E: of the vision encoder                                     */
    int64_t width;      /* of a token, as wide as the denoiser's text                   */
    int64_t tokens;     /* T; 0: as many as the features have rows                      */
    int64_t attentions; /* pairs of to_k_ip and to_v_ip                                 */
    int64_t dim, depth, heads, inner,
        hidden; /* of a resampler: inner is heads * 64, hidden of its MLPs; of an MLP: hidden */
} ip_adapter_config;

/* `features` -> tokens. Names are those of the authors' files ("image_proj.proj.weight"). */
kiln_t ip_adapter_record(const ip_adapter_config *c, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                         kiln_t features);

/* "image_embeds" or "penultimate_hidden_states": what of a CLIP_VISION_OUTPUT it is shown. */
const char *ip_adapter_features(const ip_adapter_config *c);

#endif
