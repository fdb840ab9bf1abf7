libs_loader :=
