/* safetensors_write.h - writes a .safetensors file, whole or not at all. Layer: weights.
 *
 * The tensors lie in the file in the order of their element size (largest first) and then name, as the reference
 * implementation does, and the data starts at a multiple of 8, so that every element is aligned. Same input, same
 * bytes; remarks stand in the order given.
 */
#ifndef KILN_WEIGHTS_SAFETENSORS_WRITE_H
#define KILN_WEIGHTS_SAFETENSORS_WRITE_H

#include "base/status.h"
#include "base/str.h"

typedef struct {
    const char *name;
    uint32_t dtype, rank; /* KILN_F32 ...; rank <= 8 */
    const int64_t *dim;
    const void *data; /* dense, [product of dim]; NULL only when that is 0 */
} safetensors_source;

typedef struct {
    const char *key, *value; /* UTF-8 */
} safetensors_remark;

/* All that stands before the data, appended to `out`; tensor[n] is put into the order of the data. `data` is not looked
 * at but for NULL. As safetensors_encode otherwise. [any] */
kiln_status safetensors_head(str *out, safetensors_source *tensor, size_t n, const safetensors_remark *remark,
                             size_t n_remark, error *e);
/* The file's bytes appended to `out`. KILN_ERR_INVALID names the tensor that is twice, nameless, not UTF-8, of an
 * unknown dtype or an impossible shape. [any] */
kiln_status safetensors_encode(str *out, const safetensors_source *tensor, size_t n, const safetensors_remark *remark,
                               size_t n_remark, error *e);
/* The same into a file: written beside `path`, synced, renamed. [any] */
kiln_status safetensors_write(const char *path, const safetensors_source *tensor, size_t n,
                              const safetensors_remark *remark, size_t n_remark, error *e);

#endif
