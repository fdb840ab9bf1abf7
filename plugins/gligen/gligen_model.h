/* gligen_model.h - GLIGEN (Li et al. 2023, arXiv:2301.07093): boxes with a text each, which a UNet draws there.
 *
 *   grounding tokens   MLP([text, Fourier(box)]), where there is no box with learned vectors in their place
 *   a gated layer      x + tanh(alpha_attn) attention([x, linear(tokens)])[:T], then + tanh(alpha_dense) ff(x)
 *
 * A gated layer stands between self- and cross-attention of each transformer block.
 */
#ifndef KILN_GLIGEN_MODEL_H
#define KILN_GLIGEN_MODEL_H

#include "kiln/hook.h"

enum {
    GLIGEN_BOXES = 30, /* tokens, whether there is a box or not: as trained */
    GLIGEN_ROW = 5,    /* numbers before a box's text: is one, height, width, y, x in cells */
    GLIGEN_LAYERS_MAX = 128,
    GLIGEN_PLACE = 24
};

/* What a file holds. Tensors are called "position_net.*" and "fuser.N.*". */
typedef struct {
    int64_t text, frequencies, hidden, width; /* of a box's text; of Fourier's bands; of the MLP; of a token */
    size_t n;                                 /* gated layers */
    char place[GLIGEN_LAYERS_MAX][GLIGEN_PLACE];
    int64_t channels[GLIGEN_LAYERS_MAX];
} gligen_config;

/* Where a layer is recorded. */
typedef struct {
    const gligen_config *config;
    kiln_weights *weights;
    const kiln_ops *ops;
    kiln_program *p;
} gligen_recorder;

/* rows f32 [N,GLIGEN_BOXES,GLIGEN_ROW+text], a picture of height x width cells -> tokens [N,GLIGEN_BOXES,width]. */
kiln_t gligen_tokens(const gligen_recorder *r, kiln_t rows, int64_t height, int64_t width);
/* Gated layer `number` of x [N,T,channels]. */
kiln_t gligen_layer(const gligen_recorder *r, size_t number, kiln_t x, kiln_t tokens);

#endif
