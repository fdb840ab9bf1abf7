/* clip_tokenizer.h - the tokenizer of a text encoder: the checkpoint's vocab.json and merges.txt, or CLIP's own, which
 * this plugin ships (data/clip-l) because single files have none. What a chunk is filled up with is said here too. */
#ifndef KILN_CLIP_TOKENIZER_H
#define KILN_CLIP_TOKENIZER_H

#include "clip_layout.h"
#include "prompt.h"

/* Where this plugin's data lies; NULL when it was installed without. Lives as long as the plugin. [open] */
void clip_tokenizer_data(const char *folder);

/* *out->tokenizer is a reference of the caller's. Padding: what the checkpoint names as pad_token; where it names none,
 * the end token for CLIP L and id 0 for OpenCLIP. */
kiln_status clip_tokenizer_open(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const clip_part *part,
                                prompt_tokenizer *out, kiln_tokenizer **opened);

#endif
