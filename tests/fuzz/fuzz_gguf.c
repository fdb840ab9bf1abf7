/* fuzz_gguf.c - any bytes as a GGUF file. What is accepted must lie inside its file, aligned and without an overlap,
 * with names and keys that stand once; whoever goes through its values stays inside them. libFuzzer; `make fuzz`. */
#include "base/str.h"
#include "tensor/dtype.h"
#include "weights/gguf_header.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                                                \
    if (!(condition)) __builtin_trap() /* the fuzzer keeps the input */

static uint64_t number_at(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 8; i-- > 0;) v = v << 8 | p[i];
    return v;
}

static void check_pair(const gguf_pair *p, const uint8_t *data, size_t size)
{
    MUST(p->key[0] && strlen(p->key) <= GGUF_KEY_MAX && utf8_valid(p->key, strlen(p->key)));
    MUST(p->data >= data && p->bytes <= size && (size_t)(p->data - data) <= size - p->bytes);
    MUST(p->is_array || p->count == 1);
    if (p->type != GGUF_STRING) {
        MUST(gguf_item_width(p->type) && p->count * gguf_item_width(p->type) == p->bytes);
        return;
    }
    uint64_t at = 0;
    for (uint64_t i = 0; i < p->count; i++) {
        MUST(p->bytes - at >= 8);
        uint64_t n = number_at(p->data + at);
        MUST(n <= p->bytes - at - 8);
        at += 8 + n;
    }
    MUST(at == p->bytes);
}

static void check_tensor(const safetensors_entry *x, uint64_t after, size_t size)
{
    uint64_t n = 1;
    size_t bytes = 0;
    MUST(x->name[0] && strlen(x->name) <= SAFETENSORS_NAME_MAX && utf8_valid(x->name, strlen(x->name)));
    MUST(x->rank >= 1 && x->rank <= SAFETENSORS_RANK_MAX && x->type_name);
    for (uint32_t i = 0; i < x->rank; i++) {
        MUST(x->dim[i] >= 1);
        n *= (uint64_t)x->dim[i];
    }
    MUST(x->begin >= after && x->end >= x->begin && x->end <= size);
    if (x->dtype) MUST(dtype_bytes(x->dtype, n, &bytes) && bytes == x->end - x->begin);
}

static void check_all(const gguf_header *h, const safetensors_header *t, const uint8_t *data, size_t size)
{
    size_t single = 0;
    for (size_t i = 0; i < h->n_pair; i++) {
        check_pair(&h->pair[i], data, size);
        if (i) MUST(strcmp(h->pair[i - 1].key, h->pair[i].key) < 0);
        MUST(gguf_header_find(h, h->pair[i].key) == &h->pair[i]);
        single += !h->pair[i].is_array;
    }
    MUST(single == t->n_note);
    for (size_t i = 0; i < t->n_note; i++) MUST(utf8_valid(t->note[i].value, strlen(t->note[i].value)));
    for (size_t i = 0; i < t->count; i++) {
        check_tensor(&t->entry[i], i ? t->entry[i - 1].end : t->data_start, size);
        for (size_t k = 0; k < i && i < 256; k++) MUST(strcmp(t->entry[k].name, t->entry[i].name) != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gguf_header h;
    safetensors_header t;
    error e = {0};
    if (gguf_header_parse(&h, &t, "f", data, size, &e) == KILN_OK) {
        check_all(&h, &t, data, size);
        gguf_header_free(&h);
        safetensors_free(&t);
    } else {
        MUST(e.status == KILN_ERR_INVALID && strncmp(e.message, "f: byte ", 8) == 0);
        MUST(!h.pair && !t.entry && !t.note);
    }
    return 0;
}
