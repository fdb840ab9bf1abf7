/* vae.h - the rows of vae.c. */
#ifndef KILN_NODES_VAE_H
#define KILN_NODES_VAE_H

#include "kiln/plugin.h"

extern const kiln_node node_vae_decode, node_vae_encode;

#endif
