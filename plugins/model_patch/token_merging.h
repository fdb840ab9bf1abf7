/* token_merging.h - ToMe: self-attention at the highest resolution with fewer queries (Bolya and Hoffman, "Token
 * Merging for Fast Stable Diffusion", 2023, arXiv:2303.17604), where ComfyUI's TomePatchModel acts.
 *
 * In each cell of 2x2 tokens one is a destination, the others are sources; rows and columns left over are sources. Each
 * source has the destination most alike, by the cosine of what the queries are made of. The share of all tokens whose
 * cosines are largest becomes one with its destination: their mean attends, and all get what it is given. Keys and
 * values stay. Which token of a cell is the destination is drawn once for each attention, from its name. ComfyUI draws
 * anew at each step, from torch's global generator as the noise and whatever else drew from it have left it.
 */
#ifndef KILN_MODEL_PATCH_TOKEN_MERGING_H
#define KILN_MODEL_PATCH_TOKEN_MERGING_H

#include "model_patch.h"

/* ratio: the share of tokens that is merged, at most those that are sources. NULL: no memory. */
model_patch *token_merging_new(double ratio);

/* Which of its four tokens (0 1 above 2 3) is the destination of the next cell. Cells follow row by row; *state begins
 * with the FNV-1a hash of the attention's name, 64 bits, and draws are the two highest bits of SplitMix64. */
int token_merging_draw(uint64_t *state);

#endif
