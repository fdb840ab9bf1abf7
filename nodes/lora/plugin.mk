libs_lora := -ljansson
