libs_clip := -ljansson
