/* ip_adapter_layers.h - at which attentions of a denoiser an IP-Adapter acts, and how strongly: the weight types of the
 * nodes that people know. A layer is a block with cross-attention, in the order of evaluation: SD1 has 16, SDXL 11.
 */
#ifndef KILN_VISION_IP_ADAPTER_LAYERS_H
#define KILN_VISION_IP_ADAPTER_LAYERS_H

#include "kiln/denoiser.h"

enum { IP_ADAPTER_PLACES_MAX = 512, IP_ADAPTER_LAYERS_MAX = 64, IP_ADAPTER_PLACE = 64 };

typedef enum {
    IP_WEIGHT_LINEAR,
    IP_WEIGHT_EASE_IN,
    IP_WEIGHT_EASE_OUT,
    IP_WEIGHT_EASE_IN_OUT,
    IP_WEIGHT_REVERSE_IN_OUT,
    IP_WEIGHT_WEAK_INPUT,
    IP_WEIGHT_WEAK_OUTPUT,
    IP_WEIGHT_WEAK_MIDDLE,
    IP_WEIGHT_STRONG_MIDDLE,
    /* From here on for SD1's and SDXL's layers alone. */
    IP_WEIGHT_STYLE,
    IP_WEIGHT_COMPOSITION,
    IP_WEIGHT_STRONG_STYLE,
    IP_WEIGHT_STYLE_AND_COMPOSITION,
    IP_WEIGHT_STYLE_PRECISE,
    IP_WEIGHT_COMPOSITION_PRECISE
} ip_weight_type;

/* A cross-attention: "input.4.attn2.out". */
typedef struct {
    char name[IP_ADAPTER_PLACE];
    uint32_t number; /* of its to_k_ip in the file  */
    uint32_t layer;
    char part; /* 'i'nput, 'm'iddle, 'o'utput */
} ip_adapter_place;

typedef struct {
    ip_adapter_place place[IP_ADAPTER_PLACES_MAX]; /* in the order of evaluation */
    size_t n, layers;
} ip_adapter_places;

/* All cross-attentions of a denoiser. Files number the encoder's first, then the decoder's, then the middle's, and
 * leave a number for each self-attention. */
void ip_adapter_find_places(const kiln_denoiser *d, ip_adapter_places *out);

/* What of the weight each layer has: out[layers]. opposite[layer] 1: there the picture speaks for the negative side.
 * 0: the type is for other models. */
int ip_adapter_weights(const ip_adapter_places *p, uint32_t type, double weight, double *out, uint8_t *opposite);

#endif
