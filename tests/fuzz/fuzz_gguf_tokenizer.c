/* fuzz_gguf_tokenizer.c - any bytes as the head of a GGUF file, read as a tokenizer: it is refused with a sentence, or
 * text goes through it and back with ids that it has. libFuzzer; `make fuzz`. */
/* with: plugins/tokenizer */
/* longest input: 12288 */
#include "../../plugins/tokenizer/tokenizer_api.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                                                \
    if (!(condition)) __builtin_trap() /* the fuzzer keeps the input */

static void go_through(const kiln_tokenizer *t, const char *text, uint32_t special)
{
    char why[KILN_TOKENIZER_WHY] = "", back[4096];
    kiln_encoding e = {.size = sizeof e};
    const kiln_tokenizer_input in = {
        .size = sizeof in, .text = text, .n = strlen(text), .special = special, .ends = special};
    if (tokenizer_api.encode(t, &in, &e, why) != KILN_OK) {
        MUST(why[0]);
    } else {
        for (size_t i = 0; i < e.n; i++) {
            MUST(e.id[i] >= 0 && e.id[i] < tokenizer_api.count(t));
            MUST(e.from[i] <= e.to[i] && e.to[i] <= in.n);
        }
        tokenizer_api.decode(t, e.id, e.n, special, back, sizeof back);
    }
    tokenizer_api.encoding_free(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[KILN_TOKENIZER_WHY] = "";
    const kiln_tokenizer_file file = {.size = sizeof file, .name = "model.gguf", .data = data, .bytes = size};
    const kiln_tokenizer_source source = {.size = sizeof source, .file = &file, .n_file = 1};
    kiln_tokenizer *t = tokenizer_open(&source, why);
    if (!t) {
        MUST(why[0]);
        return 0;
    }
    MUST(tokenizer_api.count(t) > 0 && tokenizer_api.kind(t));
    for (uint32_t special = 0; special < 2; special++) {
        go_through(t, " a ab\n\n<s>ba <|turn>\xc3\xa9\xf0\x9f\x99\x82\xff", special);
        go_through(t, "", special);
    }
    tokenizer_api.special(t, "bos"), tokenizer_api.special(t, "<|turn>");
    tokenizer_api.unref(t);
    return 0;
}
