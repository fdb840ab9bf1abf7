nodes_clip := text
libs_clip := -ljansson -lutf8proc
