/* clip_embedding.h - textual inversion (Gal et al. 2022): an embedding's file, and the rows it has for an encoder.
 *
 * A file has one tensor, [n,width] or [width], whatever its name ("emb_params", "<token>"), or one for each encoder by
 * name: clip_l, clip_g, clip_h. .safetensors alone; pickles are refused by the weights' opener.
 */
#ifndef KILN_CLIP_EMBEDDING_H
#define KILN_CLIP_EMBEDDING_H

#include "kiln/text.h"

typedef struct {
    const kiln_host *host;
    kiln_ctx *ctx;
    const char *encoder; /* "l", "g", "h" */
    int64_t width;
} clip_embedding_reader;

/* prompt_embeddings.find(); `self` is a clip_embedding_reader. The rows are the call's scratch. */
int clip_embedding_find(void *self, const char *name, const float **rows, size_t *n, char why[300]);

#endif
