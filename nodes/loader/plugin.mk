libs_loader := -lyaml
