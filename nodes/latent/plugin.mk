libs_latent :=
