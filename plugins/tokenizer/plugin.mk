libs_tokenizer := -ljansson -lutf8proc -lxxhash
