libs_image := -lpng -ljpeg -lwebp -lwebpdemux -lwebpmux -lz
