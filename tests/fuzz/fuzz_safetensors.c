/* fuzz_safetensors.c - any bytes as a safetensors file. What is accepted must cover its file exactly, and written out
 * again from what was understood it must be accepted again and mean the same. libFuzzer; `make fuzz`. */
#include "base/str.h"
#include "weights/safetensors.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                                                \
    if (!(condition)) __builtin_trap() /* the fuzzer keeps the input */

static uint64_t count_of(const safetensors_entry *x)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < x->rank; i++) n *= (uint64_t)x->dim[i];
    return n;
}

static void check_cover(const safetensors_header *h, size_t size)
{
    uint64_t at = h->data_start;
    for (size_t i = 0; i < h->count; i++) {
        const safetensors_entry *x = &h->entry[i];
        MUST(x->begin == at && x->end >= at && x->rank <= SAFETENSORS_RANK_MAX && x->type_name);
        MUST(strlen(x->name) <= SAFETENSORS_NAME_MAX && utf8_valid(x->name, strlen(x->name)));
        MUST((x->end > x->begin) == (count_of(x) > 0) && (x->end - x->begin) / 8 <= count_of(x));
        for (size_t k = 0; k < i && i < 256; k++) MUST(strcmp(h->entry[k].name, x->name) != 0);
        at = x->end;
    }
    MUST(at == size);
    for (size_t i = 1; i < h->n_note; i++) MUST(strcmp(h->note[i - 1].key, h->note[i].key) < 0);
}

/* The header again, of nothing but what was understood. */
static void write_again(str *s, const safetensors_header *h)
{
    str_append(s, "{\"__metadata__\":{");
    for (size_t i = 0; i < h->n_note; i++) {
        if (i) str_char(s, ',');
        str_json(s, h->note[i].key, strlen(h->note[i].key), 1);
        str_char(s, ':');
        str_json(s, h->note[i].value, strlen(h->note[i].value), 1);
    }
    str_char(s, '}');
    for (size_t i = 0; i < h->count; i++) {
        const safetensors_entry *x = &h->entry[i];
        str_char(s, ',');
        str_json(s, x->name, strlen(x->name), 1);
        str_printf(s, ":{\"data_offsets\":[%llu,%llu],\"shape\":[", (unsigned long long)(x->begin - h->data_start),
                   (unsigned long long)(x->end - h->data_start));
        for (uint32_t k = 0; k < x->rank; k++) str_printf(s, "%s%lld", k ? "," : "", (long long)x->dim[k]);
        str_printf(s, "],\"dtype\":\"%s\"}", x->type_name);
    }
    str_char(s, '}');
}

static void check_same(const safetensors_header *a, const safetensors_header *b)
{
    MUST(a->count == b->count && a->n_note == b->n_note);
    for (size_t i = 0; i < a->n_note; i++)
        MUST(strcmp(a->note[i].key, b->note[i].key) == 0 && strcmp(a->note[i].value, b->note[i].value) == 0);
    for (size_t i = 0; i < a->count; i++) {
        const safetensors_entry *x = &a->entry[i], *y = &b->entry[i];
        MUST(strcmp(x->name, y->name) == 0 && strcmp(x->type_name, y->type_name) == 0 && x->dtype == y->dtype &&
             x->rank == y->rank);
        MUST(memcmp(x->dim, y->dim, sizeof x->dim) == 0 && x->begin - a->data_start == y->begin - b->data_start);
        MUST(x->end - a->data_start == y->end - b->data_start);
    }
}

static void check_round_trip(const safetensors_header *h, const uint8_t *data, size_t size)
{
    str file = {0}, head = {0};
    safetensors_header again;
    error e = {0};
    write_again(&head, h);
    for (int i = 0; i < 8; i++) str_char(&file, (char)(uint8_t)((uint64_t)head.len >> (8 * i)));
    str_append_n(&file, head.data, head.len);
    str_append_n(&file, (const char *)data + h->data_start, size - (size_t)h->data_start);
    MUST(!head.failed && !file.failed);
    MUST(safetensors_parse(&again, "again", (const uint8_t *)file.data, file.len, &e) == KILN_OK);
    check_same(h, &again);
    safetensors_free(&again);
    str_free(&head);
    str_free(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    safetensors_header h;
    error e = {0};
    if (safetensors_parse(&h, "f", data, size, &e) == KILN_OK) {
        check_cover(&h, size);
        check_round_trip(&h, data, size);
        safetensors_free(&h);
    } else {
        MUST(e.status == KILN_ERR_INVALID && strncmp(e.message, "f: byte ", 8) == 0);
        MUST(!h.entry && !h.note && !h.text);
    }
    return 0;
}
