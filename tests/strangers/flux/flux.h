/* flux.h - the parts of this plugin: Flux.1's transformer (flux.c) and the T5 encoder whose tokens it reads (t5.c). */
#ifndef EXAMPLE_FLUX_H
#define EXAMPLE_FLUX_H

#include "kiln/kit.h"

#include <stdio.h>

extern const kiln_node t5_node, conditioning_node;

/* "blocks.3.proj" made of a pattern: text is an array. */
#define NAME(text, ...) (snprintf((text), sizeof(text), __VA_ARGS__), (text))

#endif
