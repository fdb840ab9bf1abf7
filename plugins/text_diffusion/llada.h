/* llada.h - LLaDA (Nie et al. 2025, arXiv:2502.09992): Llama's layers without a causal mask, which fill in masks.
 *
 * Names are GSAI-ML's without "model.transformer.". There are no keys and values to keep, since a prompt sees what is
 * written behind it: the state is the tokens themselves, and every look reads all of them anew.
 */
#ifndef KILN_TEXT_DIFFUSION_LLADA_H
#define KILN_TEXT_DIFFUSION_LLADA_H

#include "text_diffusion.h"

enum { LLADA_LAYERS_MAX = 512 };

typedef struct {
    int64_t layers, heads, kv_heads, head, hidden; /* head: width of one; hidden: of the MLP */
    float eps;
    double theta;
} llada;

kiln_t llada_record_prompt(const text_recording *);
kiln_t llada_record_canvas(const text_recording *, kiln_t soft);

extern const text_diffusion_family llada_family;

#endif
