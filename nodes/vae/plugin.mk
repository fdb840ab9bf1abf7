libs_vae := -ljansson
