libs_image := -lpng
