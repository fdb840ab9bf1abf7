/* fuzz_codec.c - any bytes as a stored value. What is accepted must encode again, and what comes of that must be
 * accepted and encode to the same bytes; what is refused must say why and leave nothing behind. libFuzzer; `make fuzz`.
 */
#include "base/str.h"
#include "cache/codec.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                                                \
    if (!(condition)) __builtin_trap() /* the fuzzer keeps the input */

typedef struct {
    const uint8_t *bytes;
    size_t n, at;
} reader;

static kiln_status read_some(void *self, void *bytes, size_t n, error *e)
{
    reader *r = self;
    if (r->n - r->at < n) return error_set(e, KILN_ERR_IO, "short");
    if (n) memcpy(bytes, r->bytes + r->at, n);
    r->at += n;
    return KILN_OK;
}

static kiln_status write_some(void *self, const void *bytes, size_t n, error *e)
{
    str *s = self;
    str_append_n(s, bytes, n);
    return s->failed ? error_set(e, KILN_ERR_NOMEM, "out of memory") : KILN_OK;
}

static kiln_status decode(const void *bytes, size_t n, kiln_value **out, error *e)
{
    reader r = {.bytes = bytes, .n = n};
    return codec_decode(&(codec_source){.self = &r, .read = read_some, .size = n}, NULL, out, e);
}

static void encode(const kiln_value *v, str *s)
{
    error e = {0};
    uint64_t size = 0;
    MUST(codec_can_encode(v, NULL));
    MUST(codec_encode(v, NULL, &(codec_sink){.self = s, .write = write_some}, &size, &e) == KILN_OK && size == s->len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    kiln_value *v = NULL, *again = NULL;
    error e = {0};
    if (decode(data, size, &v, &e) != KILN_OK) {
        MUST(!v && e.message[0]);
        return 0;
    }
    str one = {0}, two = {0};
    char text[80];
    MUST(v && strlen(codec_describe(v, text, sizeof text)) < sizeof text);
    encode(v, &one);
    MUST(decode(one.data, one.len, &again, &e) == KILN_OK);
    encode(again, &two);
    MUST(one.len == two.len && memcmp(one.data, two.data, one.len) == 0);
    value_unref(v), value_unref(again);
    str_free(&one), str_free(&two);
    return 0;
}
