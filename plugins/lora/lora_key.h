/* lora_key.h - parses a tensor's name in a file of patches: its role, and the module of a network that it belongs to.
 *
 * A key is PREFIX MODULE SUFFIX: the suffix gives the role, the prefix the network. Trainers write the module with dots
 * or underscores; here it always has underscores ("down_blocks_0_attentions_0_..._attn1_to_q").
 */
#ifndef KILN_LORA_KEY_H
#define KILN_LORA_KEY_H

#include <stddef.h>

typedef enum {
    LORA_UNKNOWN = 0, /* no known suffix                                                */
    LORA_UP,
    LORA_DOWN,
    LORA_ALPHA,
    LORA_WEIGHT,  /* a full difference of the module's weight                        */
    LORA_BIAS,    /* a full difference of its bias                                   */
    LORA_SET,     /* what the module's weight is replaced by                         */
    LORA_UP_BIAS, /* the bias of a pair's up                                         */
    LORA_DORA,    /* the norms of a DoRA                                             */
    LORA_FACTOR,  /* of another kind of product than up x down: `factor` says which  */
    LORA_REFUSED  /* part of a kind of patch that is not supported: `what` names it  */
} lora_role;

/* The network that a prefix names: a text encoder by its number, or by its name in a CLIP. */
typedef enum {
    LORA_ANY = 0,
    LORA_UNET,
    LORA_TEXT, /* the first */
    LORA_TEXT_2,
    LORA_TEXT_3,
    LORA_CLIP_L,
    LORA_CLIP_G,
    LORA_CLIP_H,
    LORA_T5XXL,
    LORA_CONTROL /* a ControlNet */
} lora_part;

/* Tensors of the kinds other than LoRA, by their suffix. */
typedef enum {
    HADA_W1_A = 0,
    HADA_W1_B,
    HADA_W2_A,
    HADA_W2_B,
    HADA_T1,
    HADA_T2,
    LOKR_W1,
    LOKR_W1_A,
    LOKR_W1_B,
    LOKR_W2,
    LOKR_W2_A,
    LOKR_W2_B,
    LOKR_T2,
    GLORA_A1,
    GLORA_A2,
    GLORA_B1,
    GLORA_B2,
    OFT_BLOCKS,
    OFT_RESCALE,
    IA3_ON_INPUT,
    IA3_L,
    OFT_R, /* peft's */
    BOFT_R,
    BOFT_S,
    LORA_MID,
    LORA_FACTORS
} lora_factor;

enum { LORA_PAIRS = 7, LORA_NAME_CAPACITY = 640 }; /* a safetensors name has at most 512 bytes */

typedef struct {
    lora_role role;
    lora_part part;                  /* ANY: the prefix does not name a network      */
    size_t stem;                     /* bytes of the key before its suffix           */
    unsigned pair;                   /* UP, DOWN, UP_BIAS: the row of suffixes       */
    unsigned form;                   /* DORA: the row of suffixes; 0: LyCORIS'       */
    lora_factor factor;              /* FACTOR                                       */
    const char *what;                /* REFUSED: the kind, for the message           */
    char module[LORA_NAME_CAPACITY]; /* with underscores; empty: no role, or too long */
} lora_key;

void lora_key_read(const char *key, lora_key *out);
/* Writes the key of the same stem with another suffix. 0: it would be too long. */
int lora_key_with(const char *key, const lora_key *k, const char *suffix, char out[LORA_NAME_CAPACITY]);
const char *lora_factor_suffix(lora_factor f);
/* The suffixes of a DoRA's norms, LyCORIS' first; NULL past the last. */
const char *lora_dora_suffix(unsigned form);
/* Writes the key of the same stem with another role: the other half of a pair, or the alpha. 0: it would be too long.
 */
int lora_key_other(const char *key, const lora_key *k, lora_role role, unsigned pair, char out[LORA_NAME_CAPACITY]);

#endif
