libs_clip := -ljansson -lutf8proc
