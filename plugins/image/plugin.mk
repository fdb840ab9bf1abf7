nodes_image := image image_ops
libs_image := -lpng
