/* codec.h - values as bytes and back, bit for bit.
 *
 * The form (little endian, tensors aligned to 64 bytes, so that they are read straight into their memory):
 *
 *     "KLNV" version | size of structure | structure: kinds, keys, numbers, tensors' dtypes and shapes | tensors' bytes
 *
 * Floats keep their bits (NaN payloads too), strings their bytes, maps their order by key. An object is written as its
 * type's name, the type's revision and its plain form (codec_types), or the value cannot be encoded: handles never are.
 * Decoding trusts nothing: sizes, counts, depth (<= 64) and overflow are checked before anything is allocated.
 *
 * Layer: base, tensor. Any thread.
 */
#ifndef KILN_CACHE_CODEC_H
#define KILN_CACHE_CODEC_H

#include "base/status.h"
#include "tensor/value.h"

/* How objects become plain data; what plugins registered (include/kiln/store.h). */
typedef struct {
    void *self;
    /* Revision of the type, or 0 when objects of it are not kept. */
    uint32_t (*revision)(void *self, const char *type);
    kiln_value *(*to_plain)(void *self, const kiln_value *object, error *e);
    kiln_value *(*from_plain)(void *self, const char *type, const kiln_value *plain, error *e);
} codec_types;

/* 1 when everything in v is plain data or of a type that is kept. Cheap: looks at no tensor's bytes. */
int codec_can_encode(const kiln_value *v, const codec_types *types);

/* Where bytes go: called in order, in pieces of any size; a tensor's bytes are handed over without a copy. */
typedef struct {
    void *self;
    kiln_status (*write)(void *self, const void *bytes, size_t n, error *e);
} codec_sink;
/* *size, when asked for, before anything is written: codec_encode(v, types, NULL, &size, e). */
kiln_status codec_encode(const kiln_value *v, const codec_types *types, const codec_sink *sink, uint64_t *size,
                         error *e);

/* Where bytes come from: fills n bytes or fails. Tensors' bytes are read straight into the tensor's memory. */
typedef struct {
    void *self;
    kiln_status (*read)(void *self, void *bytes, size_t n, error *e);
    uint64_t size; /* of the whole: nothing beyond it is believed in */
} codec_source;
/* A new published value. KILN_ERR_INVALID: not this form, another version, inconsistent, or an object type (or revision
 * of it) that nobody here knows. */
kiln_status codec_decode(const codec_source *source, const codec_types *types, kiln_value **out, error *e);

/* "LATENT {samples f32 1x64x64x4, noise_mask ...}" in at most `capacity` bytes, for people. */
const char *codec_describe(const kiln_value *v, char *text, size_t capacity);

#endif
