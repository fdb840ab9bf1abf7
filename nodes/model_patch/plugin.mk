libs_model_patch :=
