/* lora_key.h - what a tensor's name in a LoRA file says: what it is of, and which of a network's modules it is for.
 *
 * A key is PREFIX MODULE SUFFIX. The suffix says the role, the prefix the network. Trainers write the module with its
 * dots or with underscores in their place; here it is always with underscores
 * ("down_blocks_0_attentions_0_..._attn1_to_q").
 */
#ifndef KILN_LORA_KEY_H
#define KILN_LORA_KEY_H

#include <stddef.h>

typedef enum {
    LORA_STRANGE = 0, /* no suffix that is known                                        */
    LORA_UP,
    LORA_DOWN,
    LORA_ALPHA,
    LORA_WEIGHT, /* a whole difference of the module's weight                      */
    LORA_BIAS,   /* of its bias                                                    */
    LORA_REFUSED /* part of a kind of patch that kiln does not compute: see `what` */
} lora_role;

typedef enum { LORA_ANY = 0, LORA_UNET, LORA_TEXT } lora_part;

enum { LORA_PAIRS = 7, LORA_NAME_ROOM = 640 }; /* a safetensors name has at most 512 bytes */

typedef struct {
    lora_role role;
    lora_part part;              /* ANY: the prefix does not say                 */
    size_t stem;                 /* bytes of the key before its suffix           */
    unsigned pair;               /* UP, DOWN: the row of suffixes                */
    const char *what;            /* REFUSED: the kind, for the sentence          */
    char module[LORA_NAME_ROOM]; /* with underscores; empty: no role, or too long */
} lora_key;

void lora_key_read(const char *key, lora_key *out);
/* The key of the other half of a pair, or ".alpha"'s, of the same stem. 0: it would be too long. */
int lora_key_other(const char *key, const lora_key *k, lora_role role, unsigned pair, char out[LORA_NAME_ROOM]);

#endif
