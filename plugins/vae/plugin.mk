nodes_vae := vae
libs_vae := -ljansson
