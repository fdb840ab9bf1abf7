libs_primitive := -lutf8proc -lpcre2-8 -ljansson
