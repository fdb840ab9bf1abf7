/* unet_block_list.h - which of a UNet's self-attentions, as text: "d2.0-1,m0,u3" or "d0-3". d, m and u are the blocks
 * on the way down, in the middle and on the way up that have self-attention, counted from 0; behind the dot
 * transformers of such a block, without it all.
 */
#ifndef KILN_MODEL_PATCH_UNET_BLOCK_LIST_H
#define KILN_MODEL_PATCH_UNET_BLOCK_LIST_H

#include "kiln/model.h"

enum { UNET_BLOCKS_MAX = 32, UNET_BLOCKS_TEXT = 22 * UNET_BLOCKS_MAX };

typedef struct {
    char part; /* 'i'nput, 'm'iddle, 'o'utput                   */
    uint32_t number;
    uint64_t transformers; /* a bit each */
} unet_block;

typedef struct {
    size_t n;
    unet_block block[UNET_BLOCKS_MAX];
} unet_blocks;

/* All transformers of the blocks that have self-attention, in the order of evaluation. */
void unet_blocks_all(const kiln_model *, unet_blocks *out);
/* 1; or 0 and the sentence that says what of `text` cannot be. */
int unet_blocks_read(const unet_blocks *all, const char *text, unet_blocks *out, char why[160]);
/* The one of this part ("middle") and number in its source, with all its transformers; none: out->n is 0. */
void unet_blocks_one(const unet_blocks *all, const char *part, int64_t number, unet_blocks *out);
/* 1: `place` is a self-attention ("input.7.t3.attn1") among them. */
int unet_blocks_have(const unet_blocks *, const char *place);
/* "i4:3,m1:1" */
void unet_blocks_print(const unet_blocks *, char out[UNET_BLOCKS_TEXT]);

#endif
