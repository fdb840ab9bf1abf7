/* ip_adapter_tokens.h - image tokens of pictures, for both sides of the guidance.
 */
#ifndef KILN_VISION_IP_ADAPTER_TOKENS_H
#define KILN_VISION_IP_ADAPTER_TOKENS_H

#include "ip_adapter_family.h"

/* What becomes of several pictures: their tokens one after the other, or one of all features. */
typedef enum {
    IP_COMBINE_CONCAT,
    IP_COMBINE_ADD,
    IP_COMBINE_SUBTRACT,
    IP_COMBINE_AVERAGE,
    IP_COMBINE_NORM_AVERAGE
} ip_combine;

typedef struct {
    const kiln_net *adapter;
    const kiln_value *clip_vision;
    const kiln_value *image, *negative; /* IMAGEs; negative NULL: features of zeros, or of a black picture for those
                                           that are shown patches */
    uint32_t combine;                   /* ip_combine */
} ip_adapter_pictures;

typedef struct {
    kiln_value *positive, *negative; /* f32 [1,T,width], T the same for both */
    int64_t each;                    /* rows of T that are one picture's     */
} ip_adapter_tokens;

/* The caller drops the references of `out`, also when it fails. [run] */
kiln_status ip_adapter_make_tokens(const kiln_call *c, const ip_adapter_pictures *from, ip_adapter_tokens *out);

#endif
