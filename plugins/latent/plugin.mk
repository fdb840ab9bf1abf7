nodes_latent := latent latent_shape conditioning
