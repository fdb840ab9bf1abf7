/* text_model.h - CLIP's text transformer as a recorded program, and what it is made from. */
#ifndef KILN_CLIP_TEXT_MODEL_H
#define KILN_CLIP_TEXT_MODEL_H

#include "kiln/model.h"

typedef struct {
    int64_t vocabulary, width, inner, length; /* inner: of the two-layer network; length: positions */
    int32_t layers, heads;
    uint32_t act; /* kiln_act */
    float eps;
} text_config;

/* ids i32 [N,length], end i32 [N]; layer -1 = last, -2 = the one before, ... Final norm on whatever layer. */
kiln_text_features text_model_record(const text_config *c, const kiln_ops *ops, kiln_program *p, kiln_weights *w,
                                     kiln_t ids, kiln_t end, int32_t layer);
/* The residual stream after `layers` layers (0: the embeddings) [N,length,width]. */
kiln_t text_model_hidden(const text_config *c, const kiln_ops *ops, kiln_program *p, kiln_weights *w, kiln_t ids,
                         int32_t layers);

#endif
