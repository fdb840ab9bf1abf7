/* tokenizer_nodes.c - TokenizerLoader, TokenizerEncode, TokenizerDecode, TokenizerCount: text as a model sees it. */
#include "text_loader.h"
#include "text_nodes.h"

static const kiln_tokenizer_api *tokenizers(void) { return td_host->ability(KILN_TOKENIZER_ABILITY); }

typedef struct {
    const char *path;
} load_params;

static void tokenizer_free(void *t) { tokenizers()->unref(t); }

static kiln_status load(const kiln_call *c)
{
    kiln_tokenizer *t = text_tokenizer(c->ctx, ((const load_params *)c->params)->path);
    if (!t) return KILN_ERR_INVALID;
    c->out[0] = kit_values(c)->new_object(c->ctx, "TOKENIZER", t, tokenizer_free, tokenizers()->identity(t));
    if (!c->out[0]) tokenizers()->unref(t);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

static const kiln_port tokenizer_port[] = {{.name = "tokenizer", .type = "TOKENIZER", .doc = "A tokenizer."}};
static const kiln_param load_param[] = {{.name = "file",
                                         .type = KILN_P_FILE,
                                         .flags = KILN_PARAM_REQUIRED,
                                         .offset = offsetof(load_params, path),
                                         .from = "text_diffusion",
                                         .doc = "A .gguf file, a tokenizer.json, or a folder that has one."}};
const kiln_node node_tokenizer_loader = {
    KIT_NODE("TokenizerLoader", "Load Tokenizer", "text", "The tokenizer of a model's file or folder."),
    KILN_ARRAY(out, tokenizer_port), KIT_PARAMS(load_params, load_param), .run = load};

static kiln_status tokenizer_of(const kiln_call *c, const kiln_tokenizer **t)
{
    *t = kit_values(c)->object(c->in[0], "TOKENIZER");
    return *t ? KILN_OK : td_host->fail(c->ctx, KILN_ERR_INVALID, "this is no tokenizer");
}

/* ---- text to ids ---- */

typedef struct {
    const char *text;
    int32_t special, ends;
} encode_params;

static kiln_status encoded(const kiln_call *c, kiln_encoding *e)
{
    const encode_params *p = c->params;
    const kiln_tokenizer *t;
    char why[KILN_TOKENIZER_WHY] = "";
    const kiln_tokenizer_input in = {
        .size = sizeof in, .text = p->text, .n = strlen(p->text), .special = p->special != 0, .ends = p->ends != 0};
    TRY(tokenizer_of(c, &t));
    kiln_status status = tokenizers()->encode(t, &in, e, why);
    return status == KILN_OK ? KILN_OK : td_host->fail(c->ctx, status, "the text: %s", why);
}

static kiln_status encode(const kiln_call *c)
{
    kiln_encoding e = {.size = sizeof e};
    kiln_tensor t = {.size = sizeof t};
    TRY(encoded(c, &e));
    kiln_value *v = td_host->tensor_new(c->ctx, KILN_I32, KILN_CPU, 2, KILN_DIMS(1, (int64_t)e.n));
    kiln_value *map = kit_values(c)->new_map(c->ctx);
    kiln_status status = v && map ? td_host->view(c->ctx, v, &t) : KILN_ERR_NOMEM;
    if (status == KILN_OK && t.data && e.n) memcpy(t.data, e.id, e.n * sizeof *e.id);
    if (status == KILN_OK) status = kit_set(c, map, "ids", td_host->ref(v));
    if (status == KILN_OK) c->out[0] = td_host->ref(map);
    td_host->unref(v), td_host->unref(map);
    tokenizers()->encoding_free(&e);
    return status;
}

static kiln_status count(const kiln_call *c)
{
    kiln_encoding e = {.size = sizeof e};
    TRY(encoded(c, &e));
    c->out[0] = kit_values(c)->new_int(c->ctx, (int64_t)e.n);
    tokenizers()->encoding_free(&e);
    return c->out[0] ? KILN_OK : KILN_ERR_NOMEM;
}

static const kiln_port encode_out[] = {{.name = "tokens", .type = "TOKENS", .doc = "Ids, [1,T]."}};
static const kiln_port count_out[] = {{.name = "INT", .type = "INT", .doc = "How many tokens."}};
static const kiln_param encode_param[] = {
    {.name = "text",
     .type = KILN_P_STRING,
     .flags = KILN_PARAM_MULTILINE | KILN_PARAM_REQUIRED,
     .offset = offsetof(encode_params, text),
     .doc = "A text."},
    KIT_BOOL(encode_params, special, 0, "Texts of special tokens are those tokens."),
    KIT_BOOL(encode_params, ends, 0, "With the begin and end tokens that the files prescribe."),
};
const kiln_node node_tokenizer_encode = {
    KIT_NODE("TokenizerEncode", "Encode Tokens", "text", "A text as a model's ids."), KILN_ARRAY(in, tokenizer_port),
    KILN_ARRAY(out, encode_out), KIT_PARAMS(encode_params, encode_param), .run = encode};
const kiln_node node_tokenizer_count = {
    KIT_NODE("TokenizerCount", "Count Tokens", "text", "How many tokens a text has."), KILN_ARRAY(in, tokenizer_port),
    KILN_ARRAY(out, count_out), KIT_PARAMS(encode_params, encode_param), .run = count};

/* ---- ids to text ---- */

typedef struct {
    int32_t special;
} decode_params;

static kiln_status decode(const kiln_call *c)
{
    const kiln_tokenizer *t;
    kiln_tensor ids = {.size = sizeof ids};
    const int32_t special = ((const decode_params *)c->params)->special;
    TRY(tokenizer_of(c, &t));
    const kiln_value *v = kit_values(c)->map_get(c->in[1], "ids");
    if (!v || td_host->view(c->ctx, v, &ids) != KILN_OK || ids.dtype != KILN_I32)
        return td_host->fail(c->ctx, KILN_ERR_INVALID, "the tokens have no ids");
    const size_t n = ids.data ? kit_count(&ids) : 0;
    const size_t bytes = tokenizers()->decode(t, ids.data, n, special != 0, NULL, 0);
    char *text = td_host->scratch(c->ctx, bytes + 1, KILN_CPU);
    if (!text) return KILN_ERR_NOMEM;
    tokenizers()->decode(t, ids.data, n, special != 0, text, bytes);
    return (c->out[0] = kit_values(c)->new_string(c->ctx, text, bytes)) ? KILN_OK : KILN_ERR_NOMEM;
}

static const kiln_port decode_in[] = {{.name = "tokenizer", .type = "TOKENIZER", .doc = "A tokenizer."},
                                      {.name = "tokens", .type = "TOKENS", .doc = "Ids."}};
static const kiln_port decode_out[] = {{.name = "STRING", .type = "STRING", .doc = "Their text."}};
static const kiln_param decode_param[] = {KIT_BOOL(decode_params, special, 0, "With the texts of special tokens.")};
const kiln_node node_tokenizer_decode = {
    KIT_NODE("TokenizerDecode", "Decode Tokens", "text", "The text of a model's ids."), KILN_ARRAY(in, decode_in),
    KILN_ARRAY(out, decode_out), KIT_PARAMS(decode_params, decode_param), .run = decode};
