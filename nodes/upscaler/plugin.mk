libs_upscaler :=
