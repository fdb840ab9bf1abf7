libs_control := -ljansson
