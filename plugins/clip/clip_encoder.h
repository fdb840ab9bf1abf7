/* clip_encoder.h - one CLIP text encoder as kiln.text/1 knows it, and the CLIP values that have one or two of them.
 *
 *             layer when the user says nothing   final norm on tokens   pooled
 *   L         the last                           yes                    not projected
 *   H         the one before the last            yes                    projected where the file can
 *   G         the one before the last            no                     projected
 *   L and G   the one before the last            no                     G's
 */
#ifndef KILN_CLIP_ENCODER_H
#define KILN_CLIP_ENCODER_H

#include "clip_layout.h"
#include "clip_tokenizer.h"
#include "kiln/model.h"
#include "text_model.h"

/* An encoder and what it was opened with. */
typedef struct {
    kiln_text_encoder encoder; /* its `self` is this struct */
    text_config config;
    clip_kind kind;
    clip_tokenizer tokenizer;
    char family[160], architecture[60];
    const char *path, *tokenizer_path; /* of its config.json, and before its tokenizer's files, in the set; or NULL */
} clip_encoder;

/* The encoders of a CLIP value; released with it. */
typedef struct {
    clip_encoder one[CLIP_PARTS];
    kiln_clip_encoder row[CLIP_PARTS];
    uint32_t n;
} clip_self;

/* Opens a part of the checkpoint as encoder self->n. `view` is its weights. After a failure clip_self_free() is due all
 * the same. */
kiln_status clip_self_add(const kiln_host *host, kiln_ctx *ctx, const kiln_weights *set, const clip_part *part,
                          kiln_weights *view, clip_self *self);
void clip_self_free(void *self);

/* "l", "g", "h" */
const char *clip_kind_name(clip_kind kind);
/* The encoder behind a table of this plugin's; NULL: it is another's. */
const clip_encoder *clip_encoder_of(const kiln_text_encoder *table);
/* 1: of a size that was released, with heads, activation and vocabulary as there: a single file needs nothing beside
 * its weights. */
int clip_is_released(const clip_encoder *e);

/* The CLIP of these encoders, which are `self`'s from now on; on failure they are freed. */
kiln_value *clip_self_value(const kiln_host *host, kiln_ctx *ctx, clip_self *self);

/* The CLIP of two that have an encoder each, one CLIP L and one OpenCLIP G in any order. */
kiln_value *clip_pair(const kiln_host *host, kiln_ctx *ctx, const kiln_value *first, const kiln_value *second);

#endif
