/* lora_module.h - makes patches (weights.h) of the tensors that a file has for one module of a network.
 *
 * One tensor of each kind leads: up, hada_w1_a, lokr_w1 or lokr_w1_a, a1.weight, oft_blocks, on_input, ia3_l, oft_R,
 * boft_R. When it is met, the others of its module are looked for; what is missing and what does not fit is a sentence.
 */
#ifndef KILN_LORA_MODULE_H
#define KILN_LORA_MODULE_H

#include "lora_key.h"

#include "kiln/weights.h"

typedef struct {
    const kiln_host *host;
    kiln_ctx *ctx;
    const kiln_weights_api *w;
    const char *path; /* of the file, for messages */
    kiln_weights *file;
    const char *key; /* the leading tensor's; as long as the file */
    const lora_key *k;
    /* What it is for. */
    kiln_weights *set;
    const char *module; /* MODULE.weight is in the set */
    double alpha;       /* of the file's metadata; 0: it has none */
    int root;           /* 1: divided by the root of the rank */
    int terms;          /* of the series of an OFT's rotation as peft trains it; 0: the whole transform */
} lora_module;

/* 1: the key is that of a tensor which leads. */
int lora_module_leads(const lora_module *m);
/* KILN_OK when the tensor that leads it is in the file, or it needs none; else the sentence that names both. */
kiln_status lora_module_led(const lora_module *m);
/* What a leading tensor's module is, for people, without a model: its kind ("LoHa"), "DoRA" or "Tucker" beside it, its
 * rank and its alpha (0: none, or it has none) and its columns (I times the kernel's elements; 0: unknown). Fails as
 * lora_module_patch does where something is missing. */
typedef struct {
    const char *kind;
    int dora, tucker;
    int64_t rank, columns;
    double alpha;
} lora_facts;
kiln_status lora_module_facts(const lora_module *m, lora_facts *out);
/* The patch of a leading tensor, a difference or a replacement, without its strength. What it points to is in the
 * call's scratch memory or lives as long as the file. */
kiln_status lora_module_patch(const lora_module *m, kiln_weight_patch *out);

#endif
