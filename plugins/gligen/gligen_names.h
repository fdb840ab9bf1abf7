/* gligen_names.h - the gated layers of a GLIGEN file: which there are, and between which attentions each stands. */
#ifndef KILN_GLIGEN_NAMES_H
#define KILN_GLIGEN_NAMES_H

#include "gligen_model.h"
#include "kiln/weights.h"

enum { GLIGEN_NAME = 160 };

typedef struct {
    char name[GLIGEN_NAME]; /* in the file, up to and with ".fuser" */
    char place[GLIGEN_PLACE];
} gligen_layer_name;

/* Their names as the original code (input_blocks.1.1.transformer_blocks.0.fuser.*) or diffusers
 * (down_blocks.0.attentions.0.transformer_blocks.0.fuser.*) has them, behind any prefix, sorted by place. The number of
 * them; out of GLIGEN_LAYERS_MAX, what is beyond is not told. *strange: one that is called otherwise, or "". */
size_t gligen_layer_names(const kiln_weights_api *w, const kiln_weights *set, gligen_layer_name *out,
                          char strange[GLIGEN_NAME]);

#endif
