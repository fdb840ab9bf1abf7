/* clip_tokenizer.h - the tokenizer of a text encoder: the checkpoint's vocab.json and merges.txt, or CLIP's own, which
 * this plugin ships (data/clip-l) because single files have none. What a chunk is filled up with is said here too. */
#ifndef KILN_CLIP_TOKENIZER_H
#define KILN_CLIP_TOKENIZER_H

#include "clip_layout.h"
#include "prompt.h"

/* Where this plugin's data lies; NULL when it was installed without. Lives as long as the plugin. [open] */
void clip_tokenizer_data(const char *folder);

typedef struct {
    prompt_tokenizer cut;
    kiln_tokenizer *opened; /* a reference of the struct's holder; NULL: it was not opened */
    int own;                /* 1: CLIP's, because the checkpoint has none */
} clip_tokenizer;

/* Padding: what the checkpoint names as pad_token; where it names none, the end token for CLIP L and id 0 for OpenCLIP.
 * After a failure out->opened may be set all the same. */
kiln_status clip_tokenizer_open(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const clip_part *part,
                                clip_tokenizer *out);

#endif
