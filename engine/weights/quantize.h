/* quantize.h - writes a set's tensors stored by blocks: into a .gguf or a .safetensors file (block_notes.h). Layer:
 * weights.
 *
 * Floating-point tensors of two or more dimensions and 1024 or more elements become the type asked for, their rows
 * being whole blocks; where they are none, quantize_fallback() of it, whose blocks are of 32; where they are none of
 * these either, they stay what they are. So do tensors that are kept, and all others; what is computed stays as f32, f8
 * becomes f16 in a GGUF file. Names and shapes stay. Same set, same settings: the same bytes, whatever the threads.
 */
#ifndef KILN_WEIGHTS_QUANTIZE_H
#define KILN_WEIGHTS_QUANTIZE_H

#include "weights/write.h"

enum { QUANTIZE_LEAST = 1024 };

typedef struct {
    uint32_t dtype;          /* stored by blocks */
    int gguf;                /* or safetensors */
    const char *const *keep; /* [n_keep] patterns of names, "*" for any characters */
    size_t n_keep;
    const char *architecture; /* of a GGUF file: general.architecture; NULL: what the set's file says, if it does */
} quantize_setting;

typedef struct {
    size_t asked, instead, kept; /* tensors: in the type asked for, in quantize_fallback() of it, as they were */
    uint64_t before, after;      /* bytes of tensors */
    double error;                /* of all that was rounded: RMS of the difference to the RMS of the numbers */
    double worst;                /* the largest of one tensor */
    const char *worst_name;      /* lives as long as the set; NULL: nothing was rounded */
} quantize_report;

/* As llama.cpp has it: a type with blocks of 32 elements and at least as many bits; the type itself where it is one. */
uint32_t quantize_fallback(uint32_t dtype);
/* 1: the name matches. */
int quantize_matches(const char *pattern, const char *name);
/* KILN_ERR_INVALID names the tensor that cannot be stored; KILN_CANCELLED as sink->progress says. */
kiln_status weights_quantize(const weights_sink *sink, kiln_weights *w, const quantize_setting *s, quantize_report *out,
                             error *e);

#endif
