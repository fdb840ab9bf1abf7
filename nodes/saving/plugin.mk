libs_saving :=
