/* lora_key.h - parses a tensor's name in a LoRA file: its role, and the module of a network that it belongs to.
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
    LORA_WEIGHT, /* a full difference of the module's weight                        */
    LORA_BIAS,   /* a full difference of its bias                                   */
    LORA_REFUSED /* part of a kind of patch that is not supported: `what` names it  */
} lora_role;

typedef enum { LORA_ANY = 0, LORA_UNET, LORA_TEXT } lora_part;

enum { LORA_PAIRS = 7, LORA_NAME_CAPACITY = 640 }; /* a safetensors name has at most 512 bytes */

typedef struct {
    lora_role role;
    lora_part part;                  /* ANY: the prefix does not name a network      */
    size_t stem;                     /* bytes of the key before its suffix           */
    unsigned pair;                   /* UP, DOWN: the row of suffixes                */
    const char *what;                /* REFUSED: the kind, for the message           */
    char module[LORA_NAME_CAPACITY]; /* with underscores; empty: no role, or too long */
} lora_key;

void lora_key_read(const char *key, lora_key *out);
/* Writes the key of the same stem with another role: the other half of a pair, or the alpha. 0: it would be too long.
 */
int lora_key_other(const char *key, const lora_key *k, lora_role role, unsigned pair, char out[LORA_NAME_CAPACITY]);

#endif
