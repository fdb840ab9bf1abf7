/* lora_change.h - what a patch does to a weight where it is more than an addition of up x down: the tables that the
 * engine calls (kiln_weight_change, weights.h), and the order of what they are computed from.
 *
 * W [O,...] is seen as O rows of C = I * K elements, K those of a convolution's kernel. Factor 0 of every change but
 * `set`, `ia3` and `oft` is a DoRA's norms, or none.
 */
#ifndef KILN_LORA_CHANGE_H
#define KILN_LORA_CHANGE_H

#include "kiln/weights.h"

/* LoRA [dora, up [O,m], down [n,C], mid [m,n,K] or none (then m = n)]: up x down, or up x mid x down [n,I] (Tucker).
 * LoHa [dora, w1_a, w1_b, w2_a, w2_b, t1, t2]: (w1_a x w1_b) * (w2_a x w2_b), of [O,r] and [r,C]; with t1 and t2
 *      [r,q,K] w_a is [r,O] and w_b [q,I].
 * LoKr [dora, w1, w1_a, w1_b, w2, w2_a, w2_b, t2]: the Kronecker product of w1 [a,b] and w2 [c,D], each whole or a
 *      product; with t2 [r,q,K] w2_a is [r,c] and w2_b [q,D/K].
 * GLoRA [dora, first, second, left, right]: W x first [C or I,r] x second, and left [O,r] x right [r,C].
 *      option[0] 1: W is taken as rows of C, else as I of each element of the kernel. */
enum { FACTOR_DORA = 0, FACTORS_MAX = 8 };
extern const kiln_weight_change lora_change, loha_change, lokr_change, glora_change;

/* option[DORA_AXIS] of the above. */
enum { DORA_AXIS = 1, DORA_NONE = 0, DORA_ROWS = 1, DORA_COLUMNS = 2 };

/* OFT [blocks [n,b,b], rescale [O] or none], BOFT [blocks [m,n,b,b], rescale]; option[0]: the constraint, 0: none.
 * IA3 [w [O] or [I]]; option[0] 1: of rows, 2: of inputs; option[1] 1: w is the factor itself, 0: the factor less 1.
 * set [w]: W is replaced. */
extern const kiln_weight_change oft_change, boft_change, ia3_change, set_change;

/* peft's OFT [blocks [n or 1, b (b - 1) / 2]] and BOFT [blocks [1,n,b,b], scale [O] or none], by these options. */
enum { PEFT_SIDE = 0, PEFT_TERMS, PEFT_BOFT }; /* b; of the series, 0: the whole transform; 1: a BOFT */
extern const kiln_weight_change peft_rotation_change;

#endif
