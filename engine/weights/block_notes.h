/* block_notes.h - blocks in a .safetensors file, which has no types for them. Layer: weights.
 *
 * Such a tensor is stored as U8 of shape [rows, bytes of a row] (or [blocks, bytes of a block]), and a line of the
 * file's __metadata__ says what it is:
 *
 *     "kiln.block.NAME": "q4_k [320,320,3,3]"
 */
#ifndef KILN_WEIGHTS_BLOCK_NOTES_H
#define KILN_WEIGHTS_BLOCK_NOTES_H

#include "base/str.h"
#include "weights/safetensors.h"

/* Gives the tensors of a header their types and shapes. KILN_ERR_INVALID names a line that says nothing, names no
 * tensor, or does not fit its bytes. `path` is for messages. [any] */
kiln_status block_notes_apply(safetensors_header *h, const char *path, error *e);
/* Key and value of such a line, appended. */
void block_note(str *key, str *value, const char *name, uint32_t dtype, uint32_t rank, const int64_t *dim);

#endif
