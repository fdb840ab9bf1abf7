nodes_image := image image_ops image_shape image_mix mask
libs_image := -lpng
