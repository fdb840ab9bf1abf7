/* text_model.h - CLIP's text transformer as a recorded program, and its configuration. */
#ifndef KILN_CLIP_TEXT_MODEL_H
#define KILN_CLIP_TEXT_MODEL_H

#include "kiln/model.h"

typedef struct {
    int64_t vocabulary, width, inner, length; /* inner: width inside the MLP; length: positions */
    int32_t layers, heads;
    uint32_t act; /* kiln_act */
    float eps;
    int64_t projection;    /* width of pooled behind text_projection; 0: pooled is as the final norm gives it */
    int32_t cut_layers;    /* layers that the file leaves out at the end; layer -1 is the last of layers + cut_layers */
    uint32_t plain_hidden; /* 1: tokens are a layer's output without the final norm */
} text_config;

typedef struct {
    const text_config *c;
    const kiln_ops *ops;
    kiln_program *p;
    kiln_weights *w;
} text_recorder;

/* Layer -1: the last, -2: the one before, ... */
void text_model_record(const text_recorder *r, const kiln_text_inputs *in, kiln_text_features *out);
/* The residual stream after `layers` layers (0: the embeddings) [N,length,width]. */
kiln_t text_model_hidden(const text_recorder *r, kiln_t ids, int32_t layers);

#endif
