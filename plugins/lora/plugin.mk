nodes_lora := lora
libs_lora := -ljansson
