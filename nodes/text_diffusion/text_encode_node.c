/* text_encode_node.c - TextDiffusionEncode: a prompt is read once, and what the model has read is a value that is kept.
 */
#include "text_loader.h"
#include "text_nodes.h"
#include "text_program.h"

typedef struct {
    const char *prompt, *system;
    int32_t thinking, empty_thought, raw;
    int64_t piece;
} encode_params;

static kiln_status rendered(const kiln_call *c, const text_diffusion_model *m, const char **out, size_t *n)
{
    const encode_params *p = c->params;
    text_turn turn[] = {{"system", p->system}, {"user", p->prompt}};
    const text_chat chat = {.turn = turn, .n = COUNT(turn), .thinking = p->thinking, .empty_thought = p->empty_thought};
    *out = p->prompt, *n = strlen(p->prompt);
    if (p->raw) return KILN_OK;
    if ((p->thinking || p->empty_thought) && !m->family->thought[0])
        return td_host->fail(c->ctx, KILN_ERR_UNSUPPORTED,
                             "%s has no thoughts; switch 'thinking' and 'empty_thought' off", m->family->title);
    *n = m->family->render(&chat, NULL, 0);
    char *text = td_host->scratch(c->ctx, *n + 1, KILN_CPU);
    if (!text) return KILN_ERR_NOMEM;
    m->family->render(&chat, text, *n);
    text[*n] = 0, *out = text;
    return KILN_OK;
}

static kiln_status read_ids(const kiln_call *c, const text_diffusion_model *m, const kiln_encoding *e)
{
    const int64_t piece = ((const encode_params *)c->params)->piece, n = (int64_t)e->n;
    const int64_t least = n < piece ? text_capacity(n) : piece; /* few lengths, so that programs serve many prompts */
    const int64_t longest = least < m->canvas ? m->canvas : least < piece ? least : piece;
    if (n < 1) return td_host->fail(c->ctx, KILN_ERR_INVALID, "the prompt has no token; a canvas wants one before it");
    if (n > m->context - m->canvas)
        return td_host->fail(c->ctx, KILN_ERR_INVALID,
                             "the prompt has %lld tokens; the model has room for %lld, of which a canvas takes %lld",
                             (long long)n, (long long)m->context, (long long)m->canvas);
    text_state *s = text_state_new(c->ctx, m, text_capacity(n + m->canvas), longest);
    if (!s) return KILN_ERR_NOMEM;
    kiln_status status = text_read(c, m, s, e->id, n);
    if (status == KILN_OK) return (c->out[0] = text_state_value(c->ctx, s)) ? KILN_OK : KILN_ERR_NOMEM;
    text_state_free(s);
    return status;
}

static kiln_status run(const kiln_call *c)
{
    const kiln_tokenizer_api *api = td_host->ability(KILN_TOKENIZER_ABILITY);
    const text_diffusion_model *m = text_model(c, c->in[0]);
    kiln_encoding e = {.size = sizeof e};
    char why[KILN_TOKENIZER_WHY] = "";
    const char *text;
    size_t n;
    if (!m) return KILN_ERR_INVALID;
    TRY(rendered(c, m, &text, &n));
    const int raw = ((const encode_params *)c->params)->raw;
    const kiln_tokenizer_input in = {.size = sizeof in, .text = text, .n = n, .special = 1, .ends = raw ? 1 : 0};
    kiln_status status = api->encode(m->tokenizer, &in, &e, why);
    if (status != KILN_OK) td_host->fail(c->ctx, status, "the prompt: %s", why);
    if (status == KILN_OK) status = read_ids(c, m, &e);
    api->encoding_free(&e);
    return status;
}

static const kiln_port in[] = {{.name = "model", .type = "TEXT_DIFFUSION", .doc = "Who reads."}};
static const kiln_port out[] = {{.name = "prompt", .type = "TEXT_PROMPT", .doc = "The prompt, read."}};
static const kiln_param param[] = {
    {.name = "prompt",
     .type = KILN_P_STRING,
     .flags = KILN_PARAM_MULTILINE | KILN_PARAM_REQUIRED,
     .offset = offsetof(encode_params, prompt),
     .doc = "What the user says."},
    {.name = "system",
     .type = KILN_P_STRING,
     .flags = KILN_PARAM_MULTILINE,
     .offset = offsetof(encode_params, system),
     .def_str = "",
     .doc = "What the model is told to be; empty: nothing."},
    KIT_BOOL(encode_params, thinking, 0, "Ask the model to think first."),
    KIT_BOOL(encode_params, empty_thought, 0, "Put an empty thought before the answer, as older templates have it."),
    KIT_BOOL(encode_params, raw, 0, "The prompt as it stands, without the model's chat template."),
    KIT_INT(encode_params, piece, 1024, 1, CANVAS_MAX, "Read at most so many tokens at once."),
};
const kiln_node node_text_diffusion_encode = {
    KIT_NODE_FLAGS(KILN_NODE_PURE | KILN_NODE_REENTRANT | KILN_NODE_ESTIMATES | KILN_NODE_DEVICE, 1,
                   "TextDiffusionEncode", "Encode Prompt (Text Diffusion)", "text",
                   "Reads a prompt: its keys and values are kept, and serve any number of generations."),
    KILN_ARRAY(in, in), KILN_ARRAY(out, out), KIT_PARAMS(encode_params, param), .run = run};
