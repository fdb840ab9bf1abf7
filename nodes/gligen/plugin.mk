libs_gligen :=
