/* safetensors.h - the header of one .safetensors file, checked in full. Layer: weights.
 *
 * A file is 8 bytes N (little endian), N bytes of JSON, then the tensors' bytes. What is accepted
 * obeys every rule of the format (github.com/huggingface/safetensors) and these, so that a header
 * that passes cannot send anyone outside the file: N <= 100 MB, <= 65,536 tensors and as many notes,
 * names and note keys <= 512 bytes, rank <= 8, no name twice, unknown fields refused, and the
 * tensors cover the rest of the file exactly: sorted by offset, each begins where the last ended.
 *
 * Element types that kiln does not compute with are part of the format and are accepted here
 * (dtype 0); asking for such a tensor is what fails.
 */
#ifndef KILN_WEIGHTS_SAFETENSORS_H
#define KILN_WEIGHTS_SAFETENSORS_H

#include "base/status.h"

enum { SAFETENSORS_RANK_MAX = 8, SAFETENSORS_NAME_MAX = 512, SAFETENSORS_TENSORS_MAX = 65536 };
#define SAFETENSORS_HEADER_MAX 100000000u

typedef struct {
    const char *name;      /* UTF-8 without NUL; lives as long as the header */
    const char *type_name; /* as in the file: "F16", "F8_E4M3"; static        */
    uint32_t dtype;        /* KILN_F32 ...; 0: the format has it, kiln has not */
    uint32_t rank;
    int64_t dim[SAFETENSORS_RANK_MAX];
    uint64_t begin, end; /* bytes of the file, from its start */
    uint64_t at;         /* where the header speaks of it      */
} safetensors_entry;

typedef struct {
    const char *key, *value;
} safetensors_note; /* a row of __metadata__ */

typedef struct {
    safetensors_entry *entry; /* in the order of their bytes */
    size_t count;
    safetensors_note *note; /* sorted by key */
    size_t n_note;
    uint64_t data_start;
    char *text; /* every string above */
} safetensors_header;

/* Reads the header of the file whose bytes are data[0..size). `path` is for messages only. On failure
 * `h` is {0}, and the message names the file, the byte offset and what would be right. [any] */
kiln_status safetensors_parse(safetensors_header *h, const char *path, const uint8_t *data, size_t size, error *e);
void safetensors_free(safetensors_header *h);

#endif
