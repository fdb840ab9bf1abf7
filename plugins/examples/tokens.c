/* tokens.c - a node that shows how a tokenizer cuts a text: ids, the bytes of the text each stands for, and what they
 * decode to. Shows: "kiln.tokenizer/1", another plugin's ability, asked for in run(). docs/tokenizers.md explains it.
 */
#include "kiln/tokenizer.h"
#include "kiln/value.h"

#include <stdio.h>
#include <string.h>

enum { FILE_BYTES_MAX = 32 << 20, LINE_BYTES = 120 };

typedef struct {
    const char *file, *text;
    int32_t ends;
} tokens_params;

/* The file, in memory that lives as long as the call. NULL with a message. */
static void *read_file(const kiln_call *c, const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    void *data = f ? c->host->scratch(c->ctx, FILE_BYTES_MAX, KILN_CPU) : NULL;
    *bytes = data ? fread(data, 1, FILE_BYTES_MAX, f) : 0;
    if (f) fclose(f);
    if (*bytes == 0) c->host->fail(c->ctx, KILN_ERR_IO, "%s cannot be read", path);
    return *bytes ? data : NULL;
}

/* A line a token, "ID FROM TO", and the text they decode to. */
static kiln_value *report(const kiln_call *c, const kiln_tokenizer_api *api, const kiln_tokenizer *t,
                          const kiln_encoding *e)
{
    const kiln_value_api *values = c->host->ability(KILN_VALUE_ABILITY);
    size_t n = 0, bytes = api->decode(t, e->id, e->n, 0, NULL, 0), capacity = LINE_BYTES * (e->n + 2) + bytes;
    char *out = c->host->scratch(c->ctx, capacity, KILN_CPU);
    if (!out) return NULL;
    n += (size_t)snprintf(out, LINE_BYTES, "%s of %d tokens, %s\n", api->kind(t), api->count(t), api->identity(t));
    for (size_t i = 0; i < e->n; i++)
        n += (size_t)snprintf(out + n, LINE_BYTES, "%d %u %u\n", e->id[i], e->from[i], e->to[i]);
    n += api->decode(t, e->id, e->n, 0, out + n, bytes);
    return values->new_string(c->ctx, out, n);
}

static kiln_status run(const kiln_call *c)
{
    const tokens_params *p = c->params;
    const kiln_tokenizer_api *api = c->host->ability(KILN_TOKENIZER_ABILITY);
    if (!api) return c->host->fail(c->ctx, KILN_ERR_UNSUPPORTED, "this kiln has no tokenizers");

    kiln_tokenizer_file file = {.size = sizeof file, .name = p->file};
    if (!(file.data = read_file(c, p->file, &file.bytes))) return KILN_ERR_IO;
    kiln_tokenizer *t =
        api->open(c->ctx, &(kiln_tokenizer_source){.size = sizeof(kiln_tokenizer_source), .file = &file, .n_file = 1});
    if (!t) return KILN_ERR_INVALID; /* open() has said why */

    char why[KILN_TOKENIZER_WHY] = "";
    kiln_encoding e = {.size = sizeof e};
    const kiln_tokenizer_input in = {
        .size = sizeof in, .text = p->text, .n = strlen(p->text), .special = 1, .ends = (uint32_t)p->ends};
    kiln_status status = api->encode(t, &in, &e, why);
    if (status != KILN_OK)
        c->host->fail(c->ctx, status, "%s", why);
    else if (!(c->out[0] = report(c, api, t, &e)))
        status = KILN_ERR_NOMEM;
    api->encoding_free(&e);
    api->unref(t);
    return status;
}

static const kiln_port out[] = {{.name = "STRING", .type = "STRING", .doc = "A line a token, then their text."}};
static const kiln_param param[] = {
    {.name = "tokenizer",
     .type = KILN_P_FILE,
     .flags = KILN_PARAM_REQUIRED,
     .offset = offsetof(tokens_params, file),
     .from = "input",
     .doc = "tokenizer.json, tokenizer.model, spiece.model, tekken.json, vocab.txt or a .gguf file."},
    {.name = "text",
     .type = KILN_P_STRING,
     .offset = offsetof(tokens_params, text),
     .def_str = "",
     .doc = "What is cut."},
    {.name = "ends",
     .type = KILN_P_BOOL,
     .offset = offsetof(tokens_params, ends),
     .doc = "With the begin and end tokens that the model wants."},
};
static const kiln_node tokens = {
    .size = sizeof tokens,
    .flags = KILN_NODE_PURE | KILN_NODE_REENTRANT,
    .devices = KILN_CPU,
    .revision = 1,
    .type = "ExampleTokens",
    .title = "Tokens of a text",
    .category = "example",
    .doc = "How a tokenizer cuts a text.",
    KILN_ARRAY(out, out),
    KILN_ARRAY(param, param),
    .params_size = sizeof(tokens_params),
    .run = run,
};

/* ---- ExampleSay: what a node that shows a text could be ---- */

static kiln_status say(const kiln_call *c)
{
    const kiln_value_api *values = c->host->ability(KILN_VALUE_ABILITY);
    const char *text = values->get_string(c->in[0], NULL);
    for (const char *end; (end = strchr(text, '\n')); text = end + 1) {
        char line[LINE_BYTES];
        snprintf(line, sizeof line, "%.*s", (int)(end - text), text);
        c->host->log(KILN_LOG_WARN, line);
    }
    c->host->log(KILN_LOG_WARN, text);
    return KILN_OK;
}

static const kiln_port say_in[] = {{.name = "text", .type = "STRING", .doc = "What is said."}};
static const kiln_node say_node = {
    .size = sizeof say_node,
    .flags = KILN_NODE_OUTPUT,
    .devices = KILN_CPU,
    .revision = 1,
    .type = "ExampleSay",
    .title = "Say a text",
    .category = "example",
    .doc = "Writes a text into the log, line by line.",
    KILN_ARRAY(in, say_in),
    .run = say,
};

KILN_PLUGIN("org.example.tokens", "1.0.0", "MIT", &tokens, &say_node);
