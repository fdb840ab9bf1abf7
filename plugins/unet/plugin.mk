nodes_unet := loaders
libs_unet := -ljansson
