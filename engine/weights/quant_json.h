/* quant_json.h - what the small JSON texts beside quantised weights say (scaled.c). Layer: weights. */
#ifndef KILN_WEIGHTS_QUANT_JSON_H
#define KILN_WEIGHTS_QUANT_JSON_H

#include "base/status.h"
#include "kiln/plugin.h"

enum { QUANT_JSON_MAX = 65536 };

/* Of both kinds of text, ComfyUI's ("format") and bitsandbytes' (the others); what is not there is 0. */
typedef struct {
    char format[64];
    int rotated; /* the weight was turned by a rotation that the input would need too */
    int64_t block, nested_block;
    double nested_offset;
    uint32_t rank;
    int64_t dim[KILN_MAX_RANK]; /* at least 1; the product fits 62 bits */
} quant_json;

/* `file` is for messages, `place` the text's first byte in it. Other members are passed over. [any] */
kiln_status quant_json_parse(quant_json *q, const char *file, uint64_t place, const uint8_t *text, size_t n, error *e);
/* The same from a tensor of bytes. */
struct weights_entry;
kiln_status quant_json_read(const struct weights_entry *x, quant_json *q, error *e);

#endif
