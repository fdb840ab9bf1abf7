/* text_vocabulary.h - what a vocabulary says of each place of a canvas, without ever holding all of its logits.
 *
 * A long vocabulary is cut into tiles of rows, each a weight of its own under "TABLE.rows.K". A tile's logits are made,
 * looked at and forgotten; what stays of them is some numbers for each place:
 *   m, s, w   their maximum, sum of e^(l - m), sum of (l - m) e^(l - m)
 *   blocks    sums of e^(l - m) over BLOCK words, of which running sums are made in the end
 *   soft      the words' embeddings by their probabilities
 * A word is drawn by the running sums of blocks; the logits of that block alone are made once more. A short vocabulary
 * is one tile, of which a word is drawn as it is.
 */
#ifndef KILN_TEXT_DIFFUSION_VOCABULARY_H
#define KILN_TEXT_DIFFUSION_VOCABULARY_H

#include "text_diffusion.h"

/* What comes of a canvas: [1,t,1] each, i32 and f32, but for SOFT, f32 [1,t,width]. */
enum { LIKELIEST, ENTROPY, DRAWN, CONFIDENCE, SOFT, RESULTS };

int64_t vocabulary_tiles(const text_diffusion_model *m);
/* m->weights becomes a view that has the tables' tiles in place of the tables. */
kiln_status vocabulary_cut(kiln_ctx *, text_diffusion_model *m);
/* x [1,t,width] as it comes from record_canvas; temperature f32 [1], 0: the likeliest is taken; draw f32 [1,t,1]. SOFT
 * is {0} where the family wants none. */
void vocabulary_choose(const text_recording *, kiln_t x, kiln_t temperature, kiln_t draw, kiln_t out[RESULTS]);

#endif
