/* fuzz_safetensors.c - any bytes as a safetensors file (libFuzzer; see scripts/fuzz).
 *
 * What is accepted must keep the header's promises: tensors in order, without hole or overlap, to the last byte, and
 * strings that end. What is refused must say so and leave nothing behind.
 */
#include "base/status.h"
#include "weights/safetensors.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    safetensors_header h;
    error e = {0};
    if (safetensors_parse(&h, "f", data, size, &e) != KILN_OK) {
        if (!e.message[0] || h.count || h.text) abort();
        return 0;
    }
    uint64_t at = h.data_start;
    size_t letters = 0;
    for (size_t i = 0; i < h.count; i++) {
        const safetensors_entry *x = &h.entry[i];
        if (x->begin != at || x->end < at || x->end > size || x->rank > SAFETENSORS_RANK_MAX) abort();
        at = x->end;
        letters += strlen(x->name) + strlen(x->type_name);
        if (strlen(x->name) > SAFETENSORS_NAME_MAX) abort();
    }
    for (size_t i = 0; i < h.n_note; i++) letters += strlen(h.note[i].key) + strlen(h.note[i].value);
    if (at != size || letters > 2 * size + 16 * h.count) abort();
    safetensors_free(&h);
    return 0;
}
