/* text_nodes.h - the nodes of text diffusion. */
#ifndef KILN_TEXT_NODES_H
#define KILN_TEXT_NODES_H

#include "kiln/kit.h"

extern const kiln_node node_text_diffusion_loader, node_text_diffusion_encode, node_text_diffusion_sample,
    node_text_diffusion_generate, node_text_diffusion_noise, node_save_text;
extern const kiln_node node_tokenizer_loader, node_tokenizer_encode, node_tokenizer_decode, node_tokenizer_count;

#endif
