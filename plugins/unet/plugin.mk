libs_unet := -ljansson
