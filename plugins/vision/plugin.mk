libs_vision := -ljansson
