libs_lora := -ljansson -lm
