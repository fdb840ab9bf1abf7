libs_primitive :=
