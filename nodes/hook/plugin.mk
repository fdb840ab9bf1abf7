libs_hook := -lm
