/* flux.h - the parts of this plugin: Flux.1's transformer (flux.c), the T5 encoder whose tokens it reads (t5.c), and
 * what makes one CLIP of T5 and kiln's CLIP L (text.c). */
#ifndef EXAMPLE_FLUX_H
#define EXAMPLE_FLUX_H

#include "kiln/kit.h"

#include "kiln/model.h"

#include <stdio.h>
#include <stdlib.h>

extern const kiln_model_family t5_family;
extern const kiln_node loader_node, encode_node;

/* "blocks.3.proj" made of a pattern: text is an array. */
#define NAME(text, ...) (snprintf((text), sizeof(text), __VA_ARGS__), (text))

#endif
