libs_conditioning :=
