/* ip_adapter.h - a plugin that brings a vision encoder (CLIP's, Radford et al. 2021), IP-Adapter (Ye et al. 2023) and a
 * few small hooks for a denoiser's attention and blocks. It is built against an installed kiln and knows nothing of the
 * denoiser but the names of its places.
 */
#ifndef IP_ADAPTER_H
#define IP_ADAPTER_H

#include "kiln/kit.h"
#include "kiln/model.h"

extern const kiln_model_family clip_vision_family;
extern const kiln_node node_vision_loader, node_vision_encode, node_ip_adapter;
extern const kiln_node node_attention_is_v, node_further_keys, node_leave_out, node_stronger_backbone;

int64_t dim_at(const kiln_ops *ops, kiln_program *p, kiln_t x, uint32_t i);

/* The MODEL `model` with one more hook. `owned` has the hook, lives as long as the new value and is released with
 * release(owned), also when this fails. */
kiln_status model_with_hook(const kiln_call *c, kiln_value *model, const kiln_hook *hook, void *owned,
                            void (*release)(void *owned), kiln_value **out);

#endif
