libs_text_diffusion := -ljansson -lm
