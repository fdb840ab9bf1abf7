/* gguf_header.h - the header of one .gguf file, versions 2 and 3, checked in full. Layer: weights.
 *
 * A file is "GGUF", a version, two counts, pairs of key and typed value, a table of tensors, and, from the next
 * multiple of an alignment on, the tensors' bytes (github.com/ggml-org/ggml, docs/gguf.md). Everything is
 * little-endian. What is accepted also obeys this, so that a header that passes cannot send anyone outside the file:
 * counts fit the bytes there are before anything is allocated, and are at most 65,536 each; names and keys are UTF-8,
 * not empty, none twice, names of at most 512 bytes; strings and arrays end inside the file, booleans are 0 or 1, the
 * alignment is a power of two of at most 1 MiB; a tensor has 1 to 4 dimensions of at least 1 and whole blocks, begins
 * aligned, ends inside the file, and overlaps no other.
 *
 * Shapes are turned round, so that the last dimension is the one that lies closely, as everywhere in kiln; a tensor
 * that was flattened for its blocks has the shape that "comfy.gguf.orig_shape.NAME" gives. Element types kiln does not
 * compute with have dtype 0, as in safetensors.h.
 */
#ifndef KILN_WEIGHTS_GGUF_HEADER_H
#define KILN_WEIGHTS_GGUF_HEADER_H

#include "base/arena.h"
#include "weights/safetensors.h"

enum { GGUF_KEY_MAX = 65535, GGUF_RANK_MAX = 4, GGUF_PAIRS_MAX = 65536 };

/* Types of values, as the file has them. */
enum {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_STRING,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64
};

typedef struct {
    const char *key;
    uint32_t type; /* of the value, or of an array's items */
    int is_array;
    uint64_t count;      /* items; 1: of a single value */
    const uint8_t *data; /* the items, in the file; a string is u64 length and bytes */
    uint64_t bytes;
} gguf_pair;

typedef struct {
    gguf_pair *pair; /* sorted by key */
    size_t n_pair;
    arena memory; /* keys, names, texts */
} gguf_header;

/* 1: the bytes begin as such a file does. */
int gguf_begins(const uint8_t *data, size_t size);
/* Reads the header of the file whose bytes are data[0..size), which have to stay where they are. Tensors come into
 * `tensors` as those of a safetensors header do, single values as its notes, as text. On failure both are {0}, and the
 * message names the file, the byte offset and what would be right. [any] */
kiln_status gguf_header_parse(gguf_header *h, safetensors_header *tensors, const char *path, const uint8_t *data,
                              size_t size, error *e);
void gguf_header_free(gguf_header *h);
const gguf_pair *gguf_header_find(const gguf_header *h, const char *key); /* NULL: none */
/* A single whole number that is not negative. 0: it is none of these. */
int gguf_pair_count(const gguf_pair *p, uint64_t *out);
size_t gguf_item_width(uint32_t type); /* bytes of an item; 0: of a string, or no such type */
/* What GGUF calls a type of ours, and its number there; 0: it has none of them. */
int gguf_type_id(uint32_t dtype, uint32_t *id, const char **name);

#endif
