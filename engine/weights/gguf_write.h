/* gguf_write.h - the header of a .gguf file, version 3. Layer: weights.
 *
 * Pairs stand by key, tensors by name, so that the same input gives the same bytes. What a tensor's last dimension
 * cannot hold as whole blocks is flattened to [rows, the rest], and its shape stands in "comfy.gguf.orig_shape.NAME".
 */
#ifndef KILN_WEIGHTS_GGUF_WRITE_H
#define KILN_WEIGHTS_GGUF_WRITE_H

#include "base/str.h"
#include "weights/gguf_header.h"

enum { GGUF_ALIGNMENT = 32 };

typedef struct {
    const char *name;
    uint32_t dtype, rank; /* as gguf_type_id() knows them; rank as torch has it */
    const int64_t *dim;
} gguf_tensor;

/* A value: one from another file (`pair`), or a text. */
typedef struct {
    const char *key, *text;
    const gguf_pair *pair;
    size_t at; /* gguf_head's */
} gguf_value_source;

/* All that stands before the data, padded, appended to `out`; tensor[n] and value[m] are put in order. Of two values of
 * one key the first one given stays. KILN_ERR_INVALID names a tensor that GGUF has no type or no shape for. [any] */
kiln_status gguf_head(str *out, gguf_tensor *tensor, size_t n, gguf_value_source *value, size_t m, error *e);
/* Bytes a tensor takes in the file, without and with what is behind it up to the next. */
size_t gguf_tensor_bytes(const gguf_tensor *t);
size_t gguf_padded(size_t bytes);

#endif
