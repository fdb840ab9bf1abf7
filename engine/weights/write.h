/* write.h - writes a .safetensors file from sets of tensors, block by block. Layer: weights.
 *
 * What "kiln.weights/1" offers as write(): rows and texts are those of include/kiln/weights.h, and where the bytes go
 * is the caller's. The whole of a tensor is in memory only where it is transposed, or where a patch needs all its rows
 * together.
 */
#ifndef KILN_WEIGHTS_WRITE_H
#define KILN_WEIGHTS_WRITE_H

#include "base/pool.h"
#include "base/status.h"
#include "kiln/weights.h"

/* Where the file goes. A failure of write() has its message already; progress() returns KILN_CANCELLED to stop. */
typedef struct {
    kiln_status (*write)(void *self, const void *bytes, size_t n);
    kiln_status (*progress)(void *self, uint64_t done, uint64_t total); /* bytes */
    void *self;
    pool *pool; /* for what patches compute; NULL: the caller's thread */
} weights_sink;

/* [run] */
kiln_status weights_write(const weights_sink *to, const kiln_weight_row *row, size_t n, const kiln_weight_text *text,
                          size_t n_text, error *e);

#endif
