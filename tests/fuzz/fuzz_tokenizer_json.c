/* fuzz_tokenizer_json.c - any bytes as the files of a tokenizer other than GGUF: they are refused with a sentence, or
 * text goes through it and back with ids that it has. The first byte says which files the rest is, cut at bytes 0x1E:
 * {: tokenizer.json with tokenizer_config.json; v: vocab.json with merges.txt and tokenizer_config.json; m: merges.txt
 * alone; t: vocab.txt; k: tekken.json; s and p: tokenizer.model and spiece.model, not cut. libFuzzer; `make fuzz`. */
/* with: plugins/tokenizer */
/* longest input: 16384 */
#include "../../plugins/tokenizer/tokenizer_api.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                                                \
    if (!(condition)) __builtin_trap() /* the fuzzer keeps the input */

enum { FILES = 3, CUT = 0x1E };

static const struct {
    char first;
    const char *name[FILES];
} forms[] = {{'{', {"tokenizer.json", "tokenizer_config.json"}},
             {'v', {"vocab.json", "merges.txt", "tokenizer_config.json"}},
             {'m', {"merges.txt"}},
             {'t', {"vocab.txt"}},
             {'k', {"tekken.json"}},
             {'s', {"tokenizer.model"}},
             {'p', {"spiece.model"}}};

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

static void talk(const kiln_tokenizer *t)
{
    const kiln_chat_message said[] = {{sizeof said[0], "user", "a <s> ab"}, {sizeof said[0], "assistant", "ba"}};
    char why[KILN_TOKENIZER_WHY] = "", out[256];
    MUST(tokenizer_api.render(t, NULL, said, 2, 1, out, sizeof out, why) > 0 || why[0]);
}

static size_t cut(const uint8_t *data, size_t size, size_t form, kiln_tokenizer_file file[FILES])
{
    size_t n = 0;
    for (size_t at = 0; n < FILES && forms[form].name[n] && at <= size; n++) {
        const uint8_t *end = forms[form].name[1] && at < size ? memchr(data + at, CUT, size - at) : NULL;
        const size_t bytes = end ? (size_t)(end - data) - at : size - at;
        file[n] = (kiln_tokenizer_file){sizeof file[0], forms[form].name[n], data + at, bytes};
        at += bytes + 1;
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char why[KILN_TOKENIZER_WHY] = "";
    kiln_tokenizer_file file[FILES];
    size_t form = 0, count = sizeof forms / sizeof forms[0];
    while (size && form < count && data[0] != (uint8_t)forms[form].first) form++;
    if (!size || form == count) return 0;
    const size_t skip = form != 0; /* a tokenizer.json begins with its { */
    const size_t n = cut(data + skip, size - skip, form, file);
    const kiln_tokenizer_source source = {.size = sizeof source, .file = file, .n_file = n};
    kiln_tokenizer *t = tokenizer_open(&source, why);
    if (!t) {
        MUST(why[0]);
        return 0;
    }
    MUST(tokenizer_api.count(t) > 0 && tokenizer_api.kind(t));
    for (uint32_t special = 0; special < 2; special++) {
        go_through(t, " a ab\n\n<s>ba <|turn>\xc3\xa9 e\xcc\x81 12\xef\xbc\xa1\xf0\x9f\x99\x82\xff", special);
        go_through(t, "", special);
    }
    tokenizer_api.special(t, "bos"), tokenizer_api.special(t, "<|turn>");
    talk(t);
    tokenizer_api.unref(t);
    return 0;
}
