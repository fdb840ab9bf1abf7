/* fuzz_embedding.c - any line as a prompt, any names and shapes in the lines below it as the embedding's file
 * (tensor_list.h), for text encoders of several names and widths: there are chunks whose vectors can all be read, or a
 * message. libFuzzer; `make fuzz`. */
/* longest input: 2048 */
#include "../../plugins/clip/clip_embedding.c"
#undef fail
#define fail prompt_fail
#include "../../plugins/clip/prompt.c"
#undef fail

#include "tensor_list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                                                                \
    if (!(condition)) __builtin_trap() /* the fuzzer keeps the input */

enum { START = 900, END, LENGTH = 77 };

/* ---- a tokenizer: each byte is a token ---- */

static kiln_status encode_bytes(const kiln_tokenizer *t, const kiln_tokenizer_input *in, kiln_encoding *out, char *why)
{
    int32_t *id = realloc(out->id, (out->n + in->n + 1) * sizeof *id);
    (void)t, (void)why;
    MUST(id != NULL);
    out->id = id;
    for (size_t i = 0; i < in->n; i++) out->id[out->n++] = (uint8_t)in->text[i];
    return KILN_OK;
}

static void free_bytes(kiln_encoding *e) { free(e->id); }

static int32_t special_id(const kiln_tokenizer *t, const char *name)
{
    (void)t;
    return strcmp(name, "bos") == 0 ? START : END;
}

static const kiln_tokenizer_api bytes_api = {
    .size = sizeof bytes_api, .encode = encode_bytes, .encoding_free = free_bytes, .special = special_id};

/* ---- the file ---- */

static const char *find_list(void *arg, size_t node, arena *a, const char *folder, const char *name, error *e)
{
    (void)arg, (void)node, (void)a, (void)e;
    MUST(strcmp(folder, PROMPT_EMBEDDINGS) == 0 && name);
    return list_path;
}

static void check_chunks(const prompt_chunks *c, size_t width)
{
    volatile float sum = 0;
    MUST(c->n_chunk > 0 && c->length == LENGTH);
    for (size_t i = 0; i < c->n_chunk * LENGTH; i++) {
        MUST(c->id[i] >= 0 && c->id[i] <= END);
        for (size_t k = 0; c->vector[i] && k < width; k++) sum = sum + c->vector[i][k];
    }
    for (size_t i = 0; i < c->n_chunk; i++) MUST(c->id[i * LENGTH + (size_t)c->end[i]] == END);
}

static void encode_for(const char *text, const char *encoder, int64_t width)
{
    kiln_ctx *ctx = rig_ctx();
    rig_environment.find_file = find_list;
    clip_embedding_reader reader = {.host = rig_host(), .ctx = ctx, .encoder = encoder, .width = width};
    prompt_embeddings embeddings = {.self = &reader, .find = clip_embedding_find, .width = (size_t)width};
    prompt_tokenizer t = prompt_tokenizer_of(&bytes_api, NULL);
    prompt parsed = {0};
    prompt_chunks chunks = {0};
    char why[300] = "";
    t.embeddings = &embeddings;
    if (prompt_parse(text, &parsed, why) && prompt_tokenise(&t, &parsed, LENGTH, &chunks, why))
        check_chunks(&chunks, (size_t)width);
    else
        MUST(why[0]);
    prompt_free(&parsed);
    prompt_chunks_free(&chunks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct {
        const char *name;
        int64_t width;
    } encoders[] = {{"l", 768}, {"g", 1280}, {"h", 1024}, {"l", 8}, {"g", 1}};
    const uint8_t *line = memchr(data, '\n', size);
    size_t n = line ? (size_t)(line - data) : size;
    char *text = calloc(n + 1, 1);
    MUST(text != NULL);
    memcpy(text, data, n);
    const kiln_weights_api *w = rig_host()->ability(KILN_WEIGHTS_ABILITY);
    kiln_weights *set = line ? list_open(line + 1, size - n - 1) : NULL;
    for (size_t i = 0; set && i < COUNT(encoders); i++) encode_for(text, encoders[i].name, encoders[i].width);
    w->unref(set);
    free(text);
    return 0;
}
