/* ip_adapter_hook.h - an IP-Adapter on a MODEL: each cross-attention gets a second one beside it, with keys and values
 * of the image tokens.
 *
 *   out = attention(q, k, v) + weight mask attention(q, to_k_ip tokens, to_v_ip tokens)
 *
 * Tokens, weights and mask are inputs of the hook's own, so that others record nothing anew.
 */
#ifndef KILN_VISION_IP_ADAPTER_HOOK_H
#define KILN_VISION_IP_ADAPTER_HOOK_H

#include "ip_adapter_tokens.h"

/* What the weight is a factor of. "C" is the attention's width by 1280. */
typedef enum { IP_SCALE_V, IP_SCALE_KV, IP_SCALE_KV_C, IP_SCALE_K_MEAN_V_C } ip_scaling;

typedef struct {
    kiln_value *model, *adapter; /* MODEL and IPADAPTER                                   */
    const kiln_value *mask;      /* MASK [n,h,w], of each picture or of all; NULL: everywhere */
    double weight, start, end;   /* shares of the way between which it acts                  */
    uint32_t type, scaling;      /* ip_weight_type, ip_scaling                                */
} ip_adapter_use;

/* 1: nothing of it would be seen. */
int ip_adapter_is_idle(const ip_adapter_use *use);
/* KILN_OK when the adapter was made for such a model; else a sentence. */
kiln_status ip_adapter_fits(const kiln_call *c, const ip_adapter_use *use);
/* *out = the MODEL with the adapter. [run] */
kiln_status ip_adapter_put(const kiln_call *c, const ip_adapter_use *use, const ip_adapter_tokens *tokens,
                           kiln_value **out);

#endif
